"""Tables of mean and standard error over seeds, with the published numbers beside ours."""

from collections.abc import Sequence

import numpy as np

from .data import Array
from .experiment import Entry, Figure, Table, Text
from .published import omitted, published
from .store import Results
from .systems import ORDER


def number(value: float) -> str:
    """Four significant digits, without an exponent where that stays readable."""
    if not np.isfinite(value):
        return "-" if np.isnan(value) else "inf"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return f"{value:.2e}"


def with_error(values: Array) -> str:
    """mean ± standard error, the latter where there are two seeds or more."""
    if not len(values):
        return ""
    mean = number(float(values.mean()))
    if len(values) < 2 or np.ptp(values) == 0:
        return mean
    error = float(f"{values.std(ddof=1) / np.sqrt(len(values)):.1g}")  # one significant digit
    return f"{mean} ± {error:g}"


def ordered(names: Sequence[str]) -> list[str]:
    """Systems in the order of `systems.ORDER`; others after them."""
    return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


def comparison(
    results: Results,
    experiment: str,
    version: str,
    measure: str,
    title: str,
    *,
    corner: str = "system",
    lowest_is_best: bool = True,
) -> Table:
    """Systems by rows of the experiment; the lowest mean of each column is marked."""
    systems = ordered(results.names("system", version=version))
    columns = _filled(results, version, systems, measure)
    means = np.array(
        [[_mean(results.values(version, column, system, measure)) for column in columns] for system in systems]
    )
    lines = []
    for i, system in enumerate(systems):
        if np.isnan(means[i]).all():
            continue
        entries = []
        for j, column in enumerate(columns):
            value = published(experiment, column, system, measure)
            known = (
                "" if value is None else number(value) + ("*" if omitted(experiment, column, system, measure) else "")
            )
            best = lowest_is_best and not np.isnan(means[i, j]) and means[i, j] == np.nanmin(means[:, j])
            entries.append(Entry(with_error(results.values(version, column, system, measure)), known, bool(best)))
        lines.append((system, entries))
    return Table(title, [corner, *columns], lines)


def bands(
    results: Results, experiment: str, version: str, title: str, length: str = "length", coverage: str = "coverage"
) -> Table:
    """Mean length (coverage in per cent) of the bands, systems by rows of the experiment."""
    systems = ordered(results.names("system", version=version))
    columns, lines = _filled(results, version, systems, length), []
    for system in systems:
        entries = []
        for column in columns:
            wide, covered = (results.values(version, column, system, name) for name in (length, coverage))
            known = [published(experiment, column, system, name) for name in ("length", "coverage")]
            ours = f"{with_error(wide)} ({100 * covered.mean():.1f} %)" if len(wide) and len(covered) else ""
            entries.append(Entry(ours, f"{number(known[0])} ({100 * known[1]:.2f} %)" if None not in known else ""))
        if any(entry.ours for entry in entries):
            lines.append((system, entries))
    return Table(title, ["system", *columns], lines)


def exact_bands(results: Results, experiment: str) -> list[Table]:
    """What becomes of the published bands with the exact rank and all rows, and how many rows they leave out as
    coded."""
    exact = bands(
        results,
        experiment,
        "as-coded",
        "The published band with exact rank and no row left out",
        "length_exact",
        "coverage_exact",
    )
    kept = comparison(
        results, "", "as-coded", "kept", "Share of test rows that the published band keeps", lowest_is_best=False
    )
    return [exact, kept]


def _filled(results: Results, version: str, systems: Sequence[str], measure: str) -> list[str]:
    """The rows of the experiment in which some system has the measure."""
    rows = results.names("row", version=version)
    return [row for row in rows if any(len(results.values(version, row, system, measure)) for system in systems)]


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else np.nan


def to_markdown(block: Text | Table | Figure, folder: str = "") -> str:
    """A block in Markdown; published numbers stand in square brackets, the best of a column is bold."""
    if isinstance(block, Text):
        return block.text + "\n"
    if isinstance(block, Figure):
        return f"![{block.title}]({folder}{block.path.parent.name}/{block.path.name})\n"
    lines = [f"**{block.title}**\n", "| " + " | ".join(block.header) + " |", "|" + "---|" * len(block.header)]
    for name, entries in block.lines:
        lines.append(f"| {name} | " + " | ".join(_entry(entry) for entry in entries) + " |")
    return "\n".join(lines) + "\n"


def _entry(entry: Entry) -> str:
    ours = f"**{entry.ours}**" if entry.best and entry.ours else entry.ours
    return " ".join(part for part in (ours, f"[{entry.published}]" if entry.published else "") if part)
