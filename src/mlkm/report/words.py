"""Numbers and names in words."""

from collections.abc import Iterable
from math import floor, isfinite, log10


def number(x: float, digits: int = 4) -> str:
    """Return a number with so many significant digits, without exponent unless it is very large or small.

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
    """Return a share in percent, with one digit behind the point where it is not whole.

    >>> percent(0.95), percent(0.9478)
    ('95 %', '94.8 %')
    """
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def seconds(time: float) -> str:
    """Return a time in seconds with about two digits.

    >>> seconds(0.234), seconds(8.51), seconds(75.0)
    ('0.23 s', '8.5 s', '75 s')
    """
    return f"{time:.2f} s" if time < 1 else f"{time:.1f} s" if time < 10 else f"{time:,.0f} s"


def plural(n: int, thing: str) -> str:
    """Return a number of things, in the plural unless it is one.

    >>> plural(1, "row"), plural(2000, "row"), plural(2, "category")
    ('1 row', '2,000 rows', '2 categories')
    """
    many = thing.removesuffix("y") + "ies" if thing.endswith("y") else thing + "s"
    return f"{n:,} {thing if n == 1 else many}"


def listed(names: Iterable[object]) -> str:
    """Return names with commas and a last "and" between them.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def shortened(name: str, most: int = 40) -> str:
    """Return a name cut to so many characters.

    >>> shortened("temperature", 5)
    'temp…'
    """
    return name if len(name) <= most else name[: most - 1] + "…"
