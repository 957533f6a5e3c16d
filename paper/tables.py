"""Tables of mean and standard error over seeds, with the published numbers beside ours."""

from collections.abc import Sequence

import numpy as np

from .data import Array
from .experiment import Block, Details, Entry, Figure, Table, Text
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


def shown(results: Results, version: str) -> list[str]:
    """The systems of a version in their order."""
    return ordered(results.names("system", version=version))


def seeds_column(
    results: Results, version: str, systems: Sequence[str], columns: Sequence[str], measure: str
) -> list[str]:
    """The number of seeds of each system, or nothing where all have the same."""
    counts = [sorted({len(results.values(version, c, s, measure)) for c in columns} - {0}) for s in systems]
    if len({tuple(count) for count in counts}) < 2:
        return []
    return [f"{count[0]}" if len(count) == 1 else f"{count[0]} to {count[-1]}" for count in counts]


def _table(
    title: str, header: Sequence[str], lines: Sequence[tuple[str, Sequence[Entry]]], seeds: Sequence[str]
) -> Table:
    """The table, with a last column of seeds where there is one."""
    if not seeds:
        return Table(title, header, lines)
    wider = [(name, [*entries, Entry(count)]) for (name, entries), count in zip(lines, seeds, strict=True)]
    return Table(title, [*header, "seeds"], wider)


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
    columns = _filled(results, version, shown(results, version), measure)
    systems = _with_entries(results, version, columns, measure)
    means = np.array(
        [[_mean(results.values(version, column, system, measure)) for column in columns] for system in systems]
    )
    lines = []
    for i, system in enumerate(systems):
        entries = []
        for j, column in enumerate(columns):
            value = published(experiment, column, system, measure)
            known = (
                "" if value is None else number(value) + ("*" if omitted(experiment, column, system, measure) else "")
            )
            best = lowest_is_best and not np.isnan(means[i, j]) and means[i, j] == np.nanmin(means[:, j])
            entries.append(Entry(with_error(results.values(version, column, system, measure)), known, bool(best)))
        lines.append((system, entries))
    return _table(title, [corner, *columns], lines, seeds_column(results, version, systems, columns, measure))


def seconds_of_fits(
    results: Results, experiment: str, versions: Sequence[tuple[str, str]], note: str = ""
) -> list[Details]:
    """Seconds of one fit by version, each with its title, for the end of a section."""
    tables = [
        comparison(results, experiment, version, "seconds", title, lowest_is_best=False)
        for version, title in versions
        if results.names("row", version=version)
    ]
    return [Details("Seconds of one fit", [*tables, *([Text(note)] if note else [])])] if tables else []


def bands(
    results: Results, experiment: str, version: str, title: str, length: str = "length", coverage: str = "coverage"
) -> Table:
    """Mean length (coverage in per cent) of the bands, systems by rows of the experiment."""
    columns, lines = _filled(results, version, shown(results, version), length), []
    systems = _with_entries(results, version, columns, length)
    for system in systems:
        entries = []
        for column in columns:
            wide, covered = (results.values(version, column, system, name) for name in (length, coverage))
            known = [published(experiment, column, system, name) for name in ("length", "coverage")]
            ours = f"{with_error(wide)} ({100 * covered.mean():.1f} %)" if len(wide) and len(covered) else ""
            entries.append(Entry(ours, f"{number(known[0])} ({100 * known[1]:.2f} %)" if None not in known else ""))
        lines.append((system, entries))
    return _table(title, ["system", *columns], lines, seeds_column(results, version, systems, columns, length))


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


def _with_entries(results: Results, version: str, columns: Sequence[str], measure: str) -> list[str]:
    """The systems that have the measure in some column."""
    return [
        system
        for system in shown(results, version)
        if any(len(results.values(version, column, system, measure)) for column in columns)
    ]


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else np.nan


def to_markdown(block: Block, folder: str = "", link: str = "{}.md") -> str:
    """A block in Markdown; published numbers stand in square brackets, the best of a column is bold. `link` is the
    address of an experiment by its name."""
    if isinstance(block, Text):
        return block.text + "\n"
    if isinstance(block, Figure):
        return f"![{block.title}]({folder}{block.path.parent.name}/{block.path.name})\n"
    if isinstance(block, Details):
        parts = "\n".join(to_markdown(part, folder, link) for part in block.parts)
        return f"<details><summary>{block.title}</summary>\n\n{parts}\n</details>\n"
    title = [f"**{block.title}**\n"] if block.title else []
    lines = [*title, "| " + " | ".join(block.header) + " |", "|" + "---|" * len(block.header)]
    for name, entries in block.lines:
        lines.append(f"| {name} | " + " | ".join(_entry(entry, link) for entry in entries) + " |")
    return "\n".join(lines) + "\n"


def _entry(entry: Entry, link: str) -> str:
    ours = f"**{entry.ours}**" if entry.best and entry.ours else entry.ours
    targets = ", ".join(f"[{words}]({link.format(name)})" for words, name in entry.links)
    return " ".join(part for part in (ours, targets, f"[{entry.published}]" if entry.published else "") if part)
