"""The page on tables: python -m benchmarks.tables_page [--results results/cells.csv] [--out docs/benchmarks]

Errors and times of `python -m benchmarks run tables`, all models in the same run, losses included.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Plot
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from . import plots, summary
from .blocks import Block, Figure, Heading, Table, Text, markdown
from .tables import DECIDED_ON, JUDGED, MODELS

PEERS = ("catboost-tables", "lightgbm-tables", "hgb-tables", "skrub-ridge")
_LOOKS = {
    "mlkm": ("o", "#1b5fbd", "#1b5fbd", 8, 6),
    "catboost-tables": ("D", "#d9720b", "#d9720b", 5, 5),
    "lightgbm-tables": ("v", "#5b8c5a", "#5b8c5a", 5, 4),
    "hgb-tables": ("^", "#9aa3ad", "#9aa3ad", 5, 3),
    "skrub-ridge": ("x", "#9aa3ad", "#9aa3ad", 5, 3),
    "skrub-mlkm": ("o", "#1b5fbd", "white", 5, 5),
}


def ratios(errors: pd.DataFrame, model: str) -> pd.DataFrame:
    """RMSE of a model over CatBoost's and over the best peer's, by table and split."""
    best = errors[[peer for peer in PEERS if peer in errors]].min(axis=1)
    both = {"CatBoost": errors[model] / errors["catboost-tables"], "best peer": errors[model] / best}
    return pd.DataFrame(both).dropna()


def _mean(values: pd.Series) -> str:
    return f"{float(np.exp(np.log(values).mean())):.3f}"


def blocks(table: pd.DataFrame) -> Iterator[Block]:
    errors, seconds = (summary.wide(table, "tables", value) for value in ("error", "fit_seconds"))
    models = [model for model in MODELS if model in errors]
    ours = ratios(errors, "mlkm")
    commits = ", ".join(dict.fromkeys(table.loc[table["model"] == "mlkm", "commit"].astype(str)))
    yield Heading("Tables of mixed columns", 1)
    yield Text(
        f"{errors.index.get_level_values(0).nunique()} tables with numbers, categories, words, dates, missing values,"
        " as they came; splits 0 and 1, at most 10,000 training and 5000 test rows. RMSE in standard deviations of the"
        " training targets; trees with their own treatment of categories. One thread, every fit in a process of its"
        f" own, no argument but the seed (ours: commit {commits}). `python -m benchmarks run tables` measures,"
        " `python -m benchmarks.tables_page` writes this page. Choices of the package were made on"
        f" {len(DECIDED_ON)} of the tables; the other {len(JUDGED)} were only judged."
    )
    yield from _overall(ours, seconds, errors, models)
    yield Figure("tables.svg", _by_table(errors, models), "Every table: RMSE over CatBoost's, mean of both splits.")
    yield Figure("tables-time.svg", _against_time(errors, seconds, models), "Error and fit time, over CatBoost's.")
    yield from _every(errors, seconds, models)


def _overall(ours: pd.DataFrame, seconds: pd.DataFrame, errors: pd.DataFrame, models: list[str]) -> Iterator[Block]:
    rows = []
    for model in models:
        own = ratios(errors, model)
        times = (seconds[model] / seconds["catboost-tables"]).dropna()
        rows.append(
            [
                MODELS[model].label,
                *(_mean(own[reference]) for reference in own),
                f"{(own['CatBoost'] < 1).sum()} of {len(own)}",
                f"{own['best peer'].max():.2f} ({own['best peer'].idxmax()[0]})",
                f"{times.median():.2f}",
                f"{times.max():.1f}",
            ]
        )
    header = ["model", "/ CatBoost", "/ best peer", "ahead of CatBoost", "worst / best peer"]
    header += ["fit time / CatBoost's, median", "largest"]
    yield Table(
        header,
        rows,
        "Geometric means over tables and splits; the best peer is the best of the four on each, known only afterwards.",
    )
    parts = []
    for name, own in (("choices made on", DECIDED_ON), ("judged only", JUDGED)):
        part = ours[ours.index.get_level_values(0).isin(own)]
        if len(part):
            parts.append([name, str(len(part)), *(_mean(part[reference]) for reference in part)])
    yield Heading("Decided and judged", 2)
    yield Table(["MLKMRegressor", "fits", "/ CatBoost", "/ best peer"], parts)


def _every(errors: pd.DataFrame, seconds: pd.DataFrame, models: list[str]) -> Iterator[Block]:
    yield Heading("Every table", 2)
    rows = []
    for name in errors.index.get_level_values(0).unique():
        part, times = errors.loc[name], seconds.loc[name]
        best = part[models].mean().idxmin()
        cells = [
            ("**{}**" if model == best else "{}").format(", ".join(f"{e:.4f}" for e in part[model].dropna()) or "none")
            for model in models
        ]
        spent = [f"{times[model].mean():.1f}" for model in ("mlkm", "catboost-tables")]
        rows.append([name + ("" if name in DECIDED_ON else " (judged)"), *cells, *spent])
    labels = [MODELS[model].label for model in models]
    yield Table(
        ["table", *labels, "fit, MLKM (s)", "fit, CatBoost (s)"], rows, "RMSE of splits 0 and 1; the best in bold."
    )


def _by_table(errors: pd.DataFrame, models: list[str]) -> bytes:
    """RMSE over CatBoost's on every table; ratios above 2 at the edge."""
    logs = np.log(errors[models].div(errors["catboost-tables"], axis=0))
    table = np.exp(logs.groupby(level=0).mean()).sort_values("mlkm").clip(upper=2)
    with mpl.rc_context(plots.STYLE):
        plot = Plot(figsize=(7.2, 1.2 + 0.27 * len(table)))
        axes = plot.add_subplot()
        places = np.arange(len(table))[::-1]
        for model in models:
            marker, color, face, size, layer = _LOOKS[model]
            axes.plot(
                table[model], places, marker, color=color, mfc=face, ms=size, zorder=layer, ls="",
                label=MODELS[model].label, clip_on=False,
            )  # fmt: skip
        axes.axvline(1, color="#888888", lw=0.8, zorder=1)
        axes.set_yticks(places, [name + ("" if name in DECIDED_ON else " *") for name in table.index])
        axes.set_ylim(-0.7, len(table) - 0.3)
        axes.grid(axis="y", color="#eeeeee", zorder=0)
        axes.tick_params(axis="y", length=0)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator([0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("RMSE / CatBoost's (left of 1: better; * judged only)")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.1, 1.0), ncols=3, frameon=False, fontsize=8)
        return plots.svg(plot)


def _against_time(errors: pd.DataFrame, seconds: pd.DataFrame, models: list[str]) -> bytes:
    """Geometric mean of RMSE over CatBoost's against the median of fit time over CatBoost's."""
    with mpl.rc_context(plots.STYLE):
        plot = Plot(figsize=(7.2, 3.4))
        axes = plot.add_subplot()
        for model in models:
            marker, color, face, size, layer = _LOOKS[model]
            x = float((seconds[model] / seconds["catboost-tables"]).median())
            y = float(np.exp(np.log(errors[model] / errors["catboost-tables"]).mean()))
            axes.plot(x, y, marker, color=color, mfc=face, ms=size, zorder=layer)
            axes.annotate(MODELS[model].label, (x, y), (7, 4), textcoords="offset points", fontsize=8)
        axes.axhline(1, color="#cccccc", lw=0.8, zorder=1)
        axes.set_xscale("log")
        axes.margins(0.12)
        low, high = axes.get_xlim()
        axes.set_xlim(low, 4 * high)  # room for labels on the right
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.set_xlabel("fit time / CatBoost's (median over tables and splits)")
        axes.set_ylabel("RMSE / CatBoost's (geometric mean)")
        return plots.svg(plot)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results/cells.csv"))
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    args = parser.parse_args()
    page = list(blocks(summary.read(args.results)))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "tables.md").write_text(markdown(page))
    for block in page:
        if isinstance(block, Figure):
            (args.out / block.file).write_bytes(block.svg)


if __name__ == "__main__":
    main()
