"""What a claim is, how it is shown, and the counts and means that decide it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..data import Array
from ..experiment import Block, Entry, Table, Text
from ..experiments import EXPERIMENTS
from ..store import Results

YES, NO, PART, NEARLY, TAIL = "yes", "no", "in part", "nearly", "low tail"
All = dict[str, Results]  # the results of every experiment by its name
MACHINES = ("MLKM", "RKM")
MARGIN = 0.01  # below it two means are level
NOTE = (
    "Verdicts and figures are computed from the results by `python -m paper --document`. `text`: data and settings as"
    " the paper describes them; `program`: as the published program has them. A method is ahead where its mean test MSE"
    f" is lower by more than {100 * MARGIN:.0f} %. Counts are of columns of a table or of draws of rows; `in part` is"
    " neither none nor all of them."
)


@dataclass(frozen=True)
class Claim:
    """What is said, whether it holds, the figures that say so, and the experiments they are from."""

    said: str
    holds: str
    figures: str
    where: tuple[str, ...]


def as_blocks(found: Sequence[Claim]) -> list[Block]:
    if not found:
        return []
    lines = [(c.said, [Entry(c.holds), Entry(c.figures), Entry("", links=_links(c.where))]) for c in found]
    return [Table("", ["the paper says", "holds", "figures", "where"], lines, words=True), Text(NOTE)]


def _links(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The experiments by the first words of their titles."""
    return tuple((EXPERIMENTS[name].title.split(":")[0], name) for name in names)


def verdict(*hits: Sequence[bool] | Array) -> str:
    """Yes if all of them hold, no if none does."""
    together = np.concatenate([np.asarray(h, dtype=bool) for h in hits])
    return YES if together.all() else PART if together.any() else NO


def count(hits: Sequence[bool] | Array) -> str:
    return f"{int(np.sum(hits))} of {len(hits)}"


def mean(results: Results, version: str, row: str, system: str, measure: str = "test_mse") -> float:
    values = results.values(version, row, system, measure)
    return float(values.mean()) if len(values) else np.nan


def ahead(
    results: Results, version: str, system: str, others: Sequence[str], measure: str = "test_mse"
) -> dict[str, bool]:
    """For every row that has all of these systems: whether the first has the lowest mean by more than the margin."""
    found = {}
    for row in results.names("row", version=version):
        values = [mean(results, version, row, name, measure) for name in (system, *others)]
        if not np.isnan(values).any():
            found[row] = bool(values[0] < (1 - MARGIN) * min(values[1:]))
    return found


def short(value: float) -> str:
    """Three significant digits."""
    return f"{value:.3g}"


def standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def rounded(values: Array) -> str:
    """mean ± standard error, both to the error's first digit."""
    error = standard_error(values)
    if error == 0:
        return short(float(values.mean()))
    places = max(-int(np.floor(np.log10(error))), 0)
    return f"{values.mean():.{places}f} ± {error:.{places}f}"


def span(values: Sequence[float] | Array, form: Callable[[float], str] = short, unit: str = "") -> str:
    """The lowest and the highest: a to b."""
    low, high = form(float(np.min(values))), form(float(np.max(values)))
    return (low if low == high else f"{low} to {high}") + unit
