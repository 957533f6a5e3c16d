"""`mlkm fit`: which rows fit the model, which calibrate its band, and how the band is judged."""

from dataclasses import dataclass
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import Annotated, Literal, cast

import numpy as np
import typer

from .._types import Array, IntArray
from .._version import __version__
from ..conformal import ConformalRegressor
from ..conformal.regressor import conformalize_checked
from ..estimators import MLKMRegressor
from ..files import save
from ..report.facts import FitRecord, fit_facts
from ..report.held_out import score
from ..report.page import make_report, plotly_script
from ..report.words import number, percent, plural, seconds
from ..runtime.confidence import exact_level
from ..runtime.rules import RULES
from ..search.cost import said
from ..search.policy import EFFORTS, check_effort
from .console import Console, Json, UsageError, check_level, check_output, console_of
from .input_table import TargetRows, feature_names, open_input, read_target_rows

CalibrationSplit = Literal["random", "time"]
Effort = Literal["fast", "balanced", "best"] | float


def fit(
    table: Annotated[Path, typer.Argument(help="A CSV, Parquet or Feather file, or a folder of such files.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path, typer.Option(help="Where to save the model.")] = Path("model.mlkm"),
    report: Annotated[Path | None, typer.Option(help="Also write a report, an HTML file.")] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(help="Columns to use, separated by commas, or one per option; by default all others."),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="A column of weights: how much each row counts in the fit.")
    ] = None,
    confidence_level: Annotated[
        float, typer.Option(help="The share of new outcomes that the band is to hold, below 1.")
    ] = 0.95,
    time_order: Annotated[
        bool,
        typer.Option(
            "--time-order", help="Rows are in time order, oldest first: fit on the first, calibrate on the last."
        ),
    ] = False,
    effort: Annotated[str, typer.Option(help="fast, balanced, best, or a number of seconds.")] = "balanced",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the model.")] = 0,
    as_json: Json = False,
) -> None:
    """Fit a model to a table and save it with its prediction band.

    The model is fitted to four fifths of the rows or more; the others, at most 2000, calibrate the band. Rows whose
    target is missing are left out, and counted. Without --time-order the rows that calibrate are drawn by chance, and
    the band holds the given share of new outcomes as long as new rows come from where the old ones came from. With it
    they are the last, and that is true as long as what comes is like the last rows.

    \b
    Examples:
      mlkm fit houses.csv --target price
      mlkm fit houses.csv --target price --out houses.mlkm --report houses.html
      mlkm fit load.parquet --target load --time-order --confidence-level 0.9
      mlkm fit houses.csv --target price --features area,year,city --effort fast --json
    """
    with console_of(as_json) as console:
        check_output(out, "model", inputs=[table])
        if report is not None:
            check_output(report, "report", (".html", ".htm"), [table, out])
            plotly_script()
        check_level(confidence_level)
        given = _effort(effort)
        with console.working(f"reading {table}"):
            source = open_input(table)
            rows = read_target_rows(table, source, target, feature_names(features, source.types.names), weights)
        rows.note_left_out(console, target)
        if time_order:
            _check_dates(console, rows)
        with console.working(_expected_time(rows, given)):
            fitted = fit_band(rows, confidence_level, "time" if time_order else "random", given, seed)
        fitted.band.fit_facts_ |= FitRecord(target=target, table=table.name, left_out=rows.left_out, weights=weights)
        page = None
        if report is not None:
            with console.working("writing the report"):
                held_out, interval, how = fitted.judged()
                page = make_report(fitted.band, held_out.inputs, held_out.y, interval=interval, checked=how)
        with console.working(f"saving {out}"):
            save(fitted.band, out)
            if page is not None and report is not None:
                page.save(report)
        _write_result(console, fitted, out, report)


def _effort(word: str) -> Effort:
    """Return an effort by its name, or as a number of seconds."""
    if word in EFFORTS:
        return cast(Effort, word)
    try:
        check_effort(float(word))
    except ValueError:
        raise UsageError(
            f"--effort must be fast, balanced, best or a number of seconds above 0; got {word!r}."
        ) from None
    return float(word)


def _expected_time(rows: TargetRows, effort: Effort) -> str:
    """Return what is shown during the fit: the size of the table, and about how long it takes."""
    n, d = len(rows), rows.inputs.num_columns
    time = said(MLKMRegressor(effort=effort).estimate_cost(n, d).seconds)
    return f"fitting {plural(n, 'row')} of {plural(d, 'column')}, about {time} where nothing else runs"


def _check_dates(console: Console, rows: TargetRows) -> None:
    """Note it where the only column of dates does not increase."""
    import pyarrow as pa

    dates = [f.name for f in rows.inputs.schema if pa.types.is_date(f.type) or pa.types.is_timestamp(f.type)]
    if len(dates) != 1:
        return
    times = rows.inputs[dates[0]].cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
    if (np.diff(times[~np.isnat(times)]) < np.timedelta64(0)).any():
        console.note(f"Rows are taken in the order of the file, and the dates in {dates[0]!r} do not increase.")


@dataclass(frozen=True)
class FittedBand:
    """A calibrated band, the rows that calibrated it, and how they were chosen.

    `intervals` (n, 2) are for the calibration rows, each by a band that other calibration rows made, NaN where none
    did.
    """

    band: ConformalRegressor
    calibration: TargetRows
    intervals: Array
    n_fitted: int
    split: CalibrationSplit

    def judged(self) -> tuple[TargetRows, Array, str]:
        """Return held-out rows, intervals that do not know their outcomes, and a sentence that says how."""
        at = np.flatnonzero(~np.isnan(self.intervals[:, 0]))
        which, how = "", f"each of {RULES.judging_folds} parts was judged by the other parts' band"
        if self.split == "time":
            which, how = "the later half of ", "the earlier half calibrated the band"
        sentence = f"These are {which}the calibration rows; for this page {how}."
        return self.calibration.take(at), self.intervals[at], sentence


def fit_band(
    rows: TargetRows, level: float, split: CalibrationSplit, effort: Effort = "balanced", seed: int = 0
) -> FittedBand:
    """Fit the default model to all rows but those that calibrate its band.

    In time order the score is the absolute residual: sigma_y(x) grows where x leaves the training rows, which in time
    order is every row in the end. Weights belong to the fit; in the calibration every row counts once.
    """
    fitted, others = split_rows(len(rows), calibration_rows(len(rows), level), split, seed)
    training, calibration = rows.take(fitted), rows.take(others)
    begin = perf_counter()
    model = MLKMRegressor(effort=effort, random_state=seed).fit(training.inputs, training.y, training.weights)
    measure: Literal["absolute", "variance"] = "absolute" if split == "time" else "variance"
    band = ConformalRegressor(model, confidence_level=level, score=measure, random_state=seed)
    intervals = conformalize_checked(band, calibration.inputs, calibration.y, folds(len(calibration), split))
    time = round(perf_counter() - begin, 3)
    band.fit_facts_ = FitRecord(split=split, seconds=time, seed=seed, effort=effort, mlkm=__version__)
    return FittedBand(band, calibration, intervals, len(training), split)


def calibration_rows(n: int, level: float, *, share: float = 0.2, wanted: int = 100, enough: int = 2000) -> int:
    """Return how many of n rows calibrate a band of this level: a share of them, at most `enough`.

    With 2000 rows the coverage is known to half a percent. Where the share is less than `wanted` rows, up to half of
    all rows calibrate.

    >>> calibration_rows(1000, 0.95), calibration_rows(150, 0.95), calibration_rows(100_000, 0.95)
    (200, 75, 2000)
    """
    exact = exact_level(level)
    least = ceil(exact / (1 - exact))  # with fewer, intervals are infinite
    if least > n // 2:
        raise ValueError(
            f"A band at {100 * level:g} % needs {least} rows to be calibrated and as many to fit a model; the table has"
            f" {n} with a target: ask for a lower --confidence-level."
        )
    return max(least, min(max(int(n * share), min(wanted, n // 2)), enough))


def split_rows(n: int, m: int, split: CalibrationSplit, seed: int) -> tuple[IntArray, IntArray]:
    """Return the rows that fit and the m rows that calibrate: drawn at random, or the last.

    >>> split_rows(5, 2, "time", 0)
    (array([0, 1, 2]), array([3, 4]))
    """
    order = np.arange(n) if split == "time" else np.random.default_rng(seed).permutation(n)
    return np.sort(order[: n - m]), np.sort(order[n - m :])


def folds(n: int, split: CalibrationSplit) -> list[tuple[IntArray, IntArray]]:
    """Return which calibration rows judge which: fifths by the other four, and in time order the later half by the
    earlier."""
    if split == "time":
        return [(np.arange(n // 2), np.arange(n // 2, n))]
    fold = np.arange(n) % RULES.judging_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(RULES.judging_folds)]


def _write_result(console: Console, fitted: FittedBand, out: Path, report: Path | None) -> None:
    """Write what was fitted, its error on the calibration rows, and where the files are."""
    band, rows = fitted.band, fitted.calibration
    facts, error = fit_facts(band), score("model", rows.y, band.predict(rows.inputs))
    r2 = error.r2 if error.r2 == error.r2 else None
    time, level = facts.record["seconds"], percent(band.confidence_level)
    data = {
        "model": str(out),
        "report": None if report is None else str(report),
        "target": facts.target,
        "rows": fitted.n_fitted + len(rows),
        "left_out": facts.record["left_out"],
        "fitted": fitted.n_fitted,
        "calibration": len(rows),
        "split": fitted.split,
        "confidence_level": band.confidence_level,
        "seconds": time,
        "held_out_rmse": error.rmse,
        "held_out_r2": r2,
        "leave_one_out_rmse": facts.loo_rmse,
        "relevance": facts.relevance_by_name,
    }
    drawn, condition = "drawn by chance", "they come from where these did"
    if fitted.split == "time":
        drawn, condition = "the last", "they are like the last rows"
    lines = [
        ("fitted to", f"{plural(fitted.n_fitted, 'row')} of {plural(len(facts.names), 'column')} in {seconds(time)}"),
        ("calibrated on", f"{plural(len(rows), 'other row')}, {drawn}"),
        ("error there", f"{number(error.rmse)} (root mean square)" + ("" if r2 is None else f", R² {r2:.3f}")),
        ("band", f"{level} of new outcomes, as long as {condition}"),
        ("relevance", facts.most_relevant(5)),
    ]
    console.result(data, lines, f"The model is in {out}" + ("." if report is None else f", the report in {report}."))
