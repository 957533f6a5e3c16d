"""The page: tables and plots of the results, as Markdown with figures beside it and as one self-contained HTML file."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from . import ablation, plots, scale, simulations, sml2010, summary
from .blocks import Block, Figure, Heading, Table, Text, html, markdown
from .models import PEERS
from .suites import ALL_MODELS
from .summary import RealSummary, geometric_mean, is_ours

# goals that are met from above; all others from below
_AT_LEAST = ("Examples 1 to 4: columns whose goal is met", "Example 1, n = 4000: times faster than a grid search")


def write(results: Path, out: Path, peers: Path | None = None, threads: int | None = None) -> list[Path]:
    """Write index.md, index.html and the figures; the files written."""
    if not results.exists():
        raise SystemExit(f"There is no file {results}; `python -m benchmarks run` makes it.")
    table = summary.read(results, threads)
    blocks = list(_page(table, peers))
    out.mkdir(parents=True, exist_ok=True)
    files = {"index.md": markdown(blocks).encode(), "index.html": html(blocks).encode()}
    files |= {block.file: block.svg for block in blocks if isinstance(block, Figure)}
    for name, content in files.items():
        (out / name).write_bytes(content)
    return [out / name for name in files]


def _page(table: pd.DataFrame, peers: Path | None) -> Iterator[Block]:
    suites = set(table.loc[table["status"] == "ok", "suite"])
    real = RealSummary.of(table, peers) if "real" in suites else None
    yield Heading("Benchmarks", 1)
    yield from _how(table)
    yield from _goals(table, real)
    if real is not None:
        yield from _real(real, table)
    if "simulations" in suites:
        yield from _simulations(table)
    if "sml2010" in suites:
        yield from _sml2010(table)
    if "scale" in suites:
        yield from _scale(table)
    if "ablation" in suites:
        yield from _ablation(table)
    yield from _left_out(table)


def _how(table: pd.DataFrame) -> Iterator[Block]:
    used = table.groupby("threads", sort=False)["suite"].agg(lambda suites: ", ".join(dict.fromkeys(suites)))
    threads = " and ".join(f"{number} thread{'s' * (number > 1)} ({suites})" for number, suites in used.items())
    commits = ", ".join(dict.fromkeys(table.loc[table["model"].map(is_ours), "commit"].dropna().astype(str)))
    yield Text(
        f"Every fit ran in a process of its own with {threads}; compare times within a suite only. Fit time contains"
        " all tuning; memory is the peak during the fit above what the process held before it, the data among that."
        f" Our estimators have no argument but the seed (commit {commits or 'unknown'}). `python -m benchmarks run`"
        " measures again, `python -m benchmarks page` writes this page."
    )
    found = dict.fromkeys(part for line in table["versions"].dropna() for part in str(line).split("; "))
    yield Text(f"Versions: {', '.join(found)}.")


def _goals(table: pd.DataFrame, real: RealSummary | None) -> Iterator[Block]:
    """What the default set out to reach."""
    rows: list[tuple[str, str, str, bool]] = []
    if real is not None and "mlkm" in real.errors and real.references:
        if "CatBoost" in real.references:
            mean, time = geometric_mean(real.ratio("mlkm", "CatBoost")), real.ratio_of_medians("mlkm")
            rows.append(("Real data: RMSE / CatBoost, geometric mean", "0.93", f"{mean:.3f}", mean <= 0.93))
            rows.append(("Real data: median fit time / CatBoost's", "2", f"{time:.2f}", time <= 2))
        mean, worst = geometric_mean(real.ratio("mlkm", real.strictest)), real.by_set("mlkm", real.strictest)
        rows.append((f"Real data: RMSE / {real.strictest}, geometric mean", "1.08", f"{mean:.3f}", mean <= 1.08))
        rows.append(
            (
                f"Real data: RMSE / {real.strictest}, worst set",
                "1.4",
                f"{worst.max():.2f} ({worst.idxmax()})",
                worst.max() <= 1.4,
            )
        )
    errors = summary.simulated(table)[0] if (table["suite"] == "simulations").any() else pd.DataFrame()
    if "mlkm" in errors:
        mine = errors["mlkm"].dropna()
        met = sum(error <= simulations.BY_NAME[name].goal for name, error in mine.items())
        rows.append((_AT_LEAST[0], f"{len(mine)}", f"{met}", met == len(mine)))
    if (mse := _value(table, "sml2010", "sml2010", "mlkm", "error")) is not None:
        rows.append(("SML2010: test MSE", f"{sml2010.GOAL}", f"{mse:.3f}", mse <= sml2010.GOAL))
    rows += _scale_goals(table)
    if rows:
        yield Heading("Goals", 2)
        body = [
            [what, f"at {'least' if what in _AT_LEAST else 'most'} {goal}", got, "yes" if met else "**no**"]
            for what, goal, got, met in rows
        ]
        yield Table(["of `MLKMRegressor()`", "goal", "reached", "met"], body)


def _scale_goals(table: pd.DataFrame) -> list[tuple[str, str, str, bool]]:
    rows = []
    grid = [_value(table, "scale", "grid", model, "fit_seconds") for model in ("krr-grid", "mlkm")]
    if None not in grid:
        rows.append((_AT_LEAST[1], "4", f"{grid[0] / grid[1]:.1f}", grid[0] / grid[1] >= 4))
    product = [_value(table, "scale", "sgemm", model, "fit_seconds") for model in ("rfr2000", "sgemm")]
    if None not in product:
        rows.append(
            (
                "200,000 rows, 2000 features: fit time / sgemm",
                "2",
                f"{product[0] / product[1]:.2f}",
                product[0] / product[1] <= 2,
            )
        )
    if (peak := _value(table, "scale", "sgemm", "rfr2000", "peak_mb")) is not None:
        rows.append(("200,000 rows, 2000 features: memory above the data", "500 MB", f"{peak:.0f} MB", peak <= 500))
    if (seconds := _value(table, "scale", "rows", "mlkm", "fit_seconds")) is not None:
        peak, errors = (
            _value(table, "scale", "rows", "mlkm", "peak_mb"),
            [_value(table, "scale", "rows", m, "error") for m in ("mlkm", "lightgbm")],
        )
        rows.append(("500,000 rows: fit time", "600 s", f"{seconds:.0f} s", seconds <= 600))
        rows.append(("500,000 rows: memory", "3000 MB", f"{peak:.0f} MB", peak <= 3000))
        if None not in errors:
            rows.append(
                ("500,000 rows: excess risk / LightGBM's", "1", f"{errors[0] / errors[1]:.2f}", errors[0] < errors[1])
            )
    return rows


def _value(table: pd.DataFrame, suite: str, dataset: str, model: str, column: str) -> float | None:
    """Mean over repetitions; None where there is no result."""
    part = table[
        (table["suite"] == suite)
        & (table["dataset"] == dataset)
        & (table["model"] == model)
        & (table["status"] == "ok")
    ]
    return float(part[column].mean()) if len(part) else None


def _real(real: RealSummary, table: pd.DataFrame) -> Iterator[Block]:
    n_sets, n_peers = real.errors.index.get_level_values("dataset").nunique(), sum(m in PEERS for m in real.errors)
    yield Heading("Real data", 2)
    yield Text(
        f"{n_sets} sets, {len(real.errors)} splits. RMSE is in units of the standard deviation of the training targets."
        " Geometric means are over sets and splits, each ratio clipped to [0.5, 2]. The best peer is the best of"
        f" {n_peers} on each split, known only afterwards. Models that are not run on all sets are compared on those"
        " they ran on."
    )
    header = [
        "model",
        "splits",
        *(f"RMSE / {name}" for name in real.references),
        "worst set",
        "median fit (s)",
        "fit time / CatBoost's",
        "peak (MB)",
    ]
    rows = []
    for model in sorted(
        real.errors, key=lambda m: geometric_mean(real.ratio(m, real.strictest)) if real.references else 0
    ):
        worst = real.by_set(model, real.strictest)
        rows.append(
            [
                _label(model),
                f"{real.errors[model].count()}",
                *(f"{geometric_mean(real.ratio(model, name)):.3f}" for name in real.references),
                f"{worst.max():.2f} ({worst.idxmax().split('/')[-1]})",
                _number(real.seconds[model].median()),
                _number(real.time_ratio(model)),
                _number(real.memory[model].median()),
            ]
        )
    yield Table(
        header,
        rows,
        "Ordered by accuracy. Fit time over CatBoost's is the median of the ratios; memory is the median peak.",
    )
    yield Figure(
        "accuracy-time.svg",
        plots.accuracy_against_time(real),
        "Accuracy against time: every model's RMSE and fit time, relative to its peers",
    )
    yield Figure("sets.svg", plots.sets(real), "RMSE over the best peer's on every set")
    yield Heading("RMSE on every set", 3)
    yield _errors_table(real.errors.groupby(level="dataset", sort=False).mean(), "Mean over splits; the best in bold.")
    yield Heading("Fit seconds on every set", 3)
    yield _errors_table(real.seconds.groupby(level="dataset", sort=False).mean(), "Mean over splits.", bold=False)


def _errors_table(errors: pd.DataFrame, caption: str, bold: bool = True) -> Table:
    rows = []
    for name, line in errors.iterrows():
        best = line.min()
        rows.append(
            [
                str(name).split("/")[-1],
                *(f"**{_number(v)}**" if bold and v <= best * 1.0005 else _number(v) for v in line),
            ]
        )
    return Table(["set", *(_label(model, short=True) for model in errors)], rows, caption)


def _simulations(table: pd.DataFrame) -> Iterator[Block]:
    errors, spread, seconds = summary.simulated(table)
    n_seeds = table.loc[table["suite"] == "simulations", "repetition"].nunique()
    goals, published = (
        {name: getattr(simulations.BY_NAME[name], field) for name in errors.index} for field in ("goal", "published")
    )
    yield Heading("The paper's examples", 2)
    yield Text(
        f"Mean squared distance to the noiseless truth, mean over {n_seeds} seeds; in Examples 1 and 2, whose noise has"
        " variance 1, this is the excess over the noise. Settings are those the paper states (t = 1, e^-1); 2000"
        " training rows in Examples 1 and 2, 500 in 3, 1000 in 4."
    )
    yield Figure("examples.svg", plots.examples(errors, goals, published), "Distance to the truth on every example")
    header = ["example", "goal", "paper's best", *(_label(model, short=True) for model in errors)]
    rows = []
    for name, line in errors.iterrows():
        cells = [
            (
                f"{_power(v)} ± {_power(spread.loc[name, m])}"
                if is_ours(m) and np.isfinite(spread.loc[name, m])
                else _power(v)
            )
            for m, v in line.items()
        ]
        cells = [f"**{cell}**" if v <= line.min() * 1.0005 else cell for cell, v in zip(cells, line, strict=True)]
        rows.append([str(name), _power(goals[name]), _power(published[name]), *cells])
    yield Table(header, rows, "± is the standard error over seeds; the best in bold.")
    yield Heading("Fit seconds on the examples", 3)
    yield _errors_table(seconds, "Mean over seeds.", bold=False)


def _sml2010(table: pd.DataFrame) -> Iterator[Block]:
    yield Heading("SML2010", 2)
    yield Text(
        "Trained on the first file, tested on the second, which is a month later. The paper's best test MSE is"
        f" {sml2010.PUBLISHED}."
    )
    part = (
        table[(table["suite"] == "sml2010") & (table["status"] == "ok")]
        .groupby("model", sort=False)[["error", "fit_seconds", "peak_mb"]]
        .mean()
    )
    rows = [[_label(str(m)), *(_number(v) for v in line)] for m, line in part.sort_values("error").iterrows()]
    yield Table(["model", "test MSE", "fit (s)", "peak (MB)"], rows)


def _scale(table: pd.DataFrame) -> Iterator[Block]:
    yield Heading("Size", 2)
    yield Text(
        "Error is the mean squared distance to the noiseless truth. Bare sgemm is the product of the features with"
        " themselves and nothing else."
    )
    part = table[(table["suite"] == "scale") & (table["status"] == "ok")].groupby(["dataset", "model"], sort=False)
    means = part[["error", "fit_seconds", "predict_seconds", "peak_mb"]].mean()
    rows = []
    for (name, model), line in means.iterrows():
        values = [_number(v) for v in line]
        rows.append([scale.LABELS[name], _label(model), *(["", values[1], "", ""] if model == "sgemm" else values)])
    yield Table(["data", "model", "error", "fit (s)", "predict (s)", "peak (MB)"], rows)


def _ablation(table: pd.DataFrame) -> Iterator[Block]:
    ratios = summary.ablation(table)
    if not len(ratios.columns):
        return
    yield Heading("What each lever is worth", 2)
    yield Text("RMSE with one lever of the default switched off over RMSE of the default: above 1, the lever helps.")
    rows = []
    for lever in sorted(ratios, key=lambda lever: -geometric_mean(ratios[lever])):
        rows.append(
            [
                ablation.LEVERS[lever].label,
                f"**{geometric_mean(ratios[lever]):.3f}**",
                *(_number(v) for v in ratios[lever]),
            ]
        )
    yield Table(
        ["without", "geometric mean", *(name.split("/")[-1] for name in ratios.index)],
        rows,
        "Ratios are clipped to [0.5, 2] in the mean.",
    )


def _left_out(table: pd.DataFrame) -> Iterator[Block]:
    bad = table[table["status"].isin(["failed", "timeout"])]
    skipped = table[(table["status"] == "skipped") & (table["message"] != "no such split")]
    if len(bad) or len(skipped):
        yield Heading("Not measured", 2)
    if len(bad):
        rows = [
            [r.suite, r.dataset, str(r.repetition), _label(r.model), r.status, str(r.message)[:160]]
            for r in bad.itertuples()
        ]
        yield Table(["suite", "set", "repetition", "model", "status", "reason"], rows)
    for model, part in skipped.groupby("model", sort=False):
        yield Text(
            f"{_label(str(model))} was not run on {', '.join(dict.fromkeys(part['dataset']))}: too many rows or inputs."
        )


def _label(model: str, short: bool = False) -> str:
    who = ALL_MODELS[model]
    if short:
        return who.short or who.label
    return f"**{who.label}**" if is_ours(model) else who.label


def _number(value: float) -> str:
    """Three digits, no exponent unless the number is tiny or huge."""
    if not np.isfinite(value):
        return ""
    if value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e6):
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def _power(value: float) -> str:
    """Two digits; small numbers as powers of ten."""
    if not np.isfinite(value):
        return ""
    return f"{value:.2g}" if 1e-3 <= abs(value) < 1e3 else f"{value:.0e}"
