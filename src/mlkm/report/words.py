"""Numbers and names as a reader wants them."""

from math import floor, isfinite, log10
from typing import Any

DIGITS = 4  # that are shown of a number


def number(x: float, digits: int = DIGITS) -> str:
    """A number with so many digits, and no exponent where it can be helped.

    >>> number(1234567.0), number(0.00123456), number(-3.0), number(1e-12), number(0.99996)
    ('1,234,567', '0.001235', '-3', '1e-12', '1')
    """
    if not isfinite(x):
        return "missing" if x != x else "infinite" if x > 0 else "-infinite"
    if x == 0:
        return "0"
    size = floor(log10(abs(x)))
    if not -5 <= size < 9:
        return f"{x:.{digits - 1}g}"
    text = f"{x:,.{max(0, digits - 1 - size)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """A share, with one digit behind the point where it is not whole.

    >>> percent(0.95), percent(0.9478)
    ('95 %', '94.8 %')
    """
    text = f"{100 * share:.1f}"
    return f"{text.removesuffix('.0')} %"


def seconds(time: float) -> str:
    """
    >>> seconds(0.234), seconds(8.51), seconds(75.0)
    ('0.23 s', '8.5 s', '75 s')
    """
    return f"{time:.2f} s" if time < 1 else f"{time:.1f} s" if time < 10 else f"{time:,.0f} s"


def plural(n: int, thing: str) -> str:
    """
    >>> plural(1, "row"), plural(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{n:,} {thing}" + "s" * (n != 1)


def listed(names: Any) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    first = list(map(str, names))
    return first[0] if len(first) == 1 else f"{', '.join(first[:-1])} and {first[-1]}"


def shortened(name: str, most: int = 40) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
