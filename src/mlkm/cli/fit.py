"""`mlkm fit`."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..estimators import MLKMRegressor
from ..files import save
from ..report.document import make_report, plotly_script
from ..report.words import number, percent, plural, seconds
from ..runtime.levels import exact_level
from ..search.cost import said
from ..search.policy import EFFORTS, check_effort
from .app import app
from .console import Talk, UsageError, talking
from .opening import Json
from .outputs import check_out
from .reading import TargetRows, chosen, left_out, opened, with_target
from .steps import Fit, fit_band, judged, note_facts


@app.command()
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
    with talking(as_json) as talk:
        _check(out, report, table, confidence_level)
        given = _effort(effort)
        with talk.working(f"reading {table}"):
            source = opened(table)
            rows = with_target(table, source, target, chosen(features, source.types.names), weights)
        if rows.left_out:
            talk.note(left_out(rows, target))
        if time_order:
            _look_at_dates(talk, rows)
        with talk.working(_long(rows, given)):
            split = "time" if time_order else "random"
            done = fit_band(rows, level=confidence_level, split=split, effort=given, seed=seed)  # type: ignore[arg-type]
            note_facts(done.band, target=target, table=table.name, left_out=rows.left_out, weights=weights)
        page = None
        if report is not None:
            with talk.working("writing the report"):
                held, interval, how = judged(done)
                page = make_report(
                    done.band,
                    held.inputs,
                    held.y,
                    interval=interval,
                    said={"checked": how},
                    title=f"Report on {target}",
                )
        with talk.working(f"saving {out}"):
            save(done.band, out)
            if page is not None and report is not None:
                page.save(report)
        _tell(talk, done, out, report)


def _check(out: Path, report: Path | None, table: Path, level: float) -> None:
    check_out(out, "model", inputs=[table])
    if report is not None:
        check_out(report, "report", (".html", ".htm"), [table, out])
        plotly_script()
    try:
        exact_level(level)
    except (TypeError, ValueError) as problem:
        raise UsageError(f"--confidence-level: {problem}") from None


def _effort(word: str) -> Any:
    if word in EFFORTS:
        return word
    try:
        check_effort(float(word))
    except ValueError:
        raise UsageError(
            f"--effort must be fast, balanced, best or a number of seconds above 0; got {word!r}."
        ) from None
    return float(word)


def _long(rows: TargetRows, effort: Any) -> str:
    """What is shown while the model is fitted: how much it is, and about how long it takes."""
    n, d = len(rows), rows.inputs.num_columns
    time = said(MLKMRegressor(effort=effort).estimate_cost(n, d).seconds)
    return f"fitting {plural(n, 'row')} of {plural(d, 'column')}, about {time} where nothing else runs"


def _look_at_dates(talk: Talk, rows: TargetRows) -> None:
    """Say so where the only column of dates does not increase."""
    import pyarrow as pa

    dates = [f.name for f in rows.inputs.schema if pa.types.is_date(f.type) or pa.types.is_timestamp(f.type)]
    if len(dates) != 1:
        return
    times = rows.inputs[dates[0]].cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
    if (np.diff(times[~np.isnat(times)]) < np.timedelta64(0)).any():
        talk.note(f"Rows are taken in the order of the file, and the dates in {dates[0]!r} do not increase.")


def _tell(talk: Talk, done: Fit, out: Path, report: Path | None) -> None:
    band, rows = done.band, done.calibration
    error = rows.y - band.predict(rows.inputs)
    spread = float(np.var(rows.y))
    rmse, r2 = float(np.mean(error**2)) ** 0.5, 1 - float(np.mean(error**2)) / spread if spread else None
    inner, facts = band.estimator_, band.fit_facts_
    relevance = dict(zip(map(str, inner.feature_names_in_), inner.feature_relevance_.tolist(), strict=True))
    data = {
        "model": str(out),
        "report": None if report is None else str(report),
        "target": facts["target"],
        "rows": done.n_fitted + len(rows),
        "left_out": facts["left_out"],
        "fitted": done.n_fitted,
        "calibration": len(rows),
        "split": done.split,
        "confidence_level": band.confidence_level,
        "seconds": facts["seconds"],
        "held_out_rmse": rmse,
        "held_out_r2": r2,
        "leave_one_out_rmse": float(inner.loo_error_) ** 0.5,
        "relevance": relevance,
    }
    which = "the last" if done.split == "time" else "drawn by chance"
    lines = [
        (
            "fitted to",
            f"{plural(done.n_fitted, 'row')} of {plural(len(relevance), 'column')} in {seconds(facts['seconds'])}",
        ),
        ("calibrated on", f"{plural(len(rows), 'other row')}, {which}"),
        ("error there", f"{number(rmse)} (root mean square)" + ("" if r2 is None else f", R² {r2:.3f}")),
        ("band", f"{percent(band.confidence_level)} of new outcomes, as long as they come from where these did"),
        ("relevance", ", ".join(f"{name} {percent(own)}" for name, own in _first(relevance))),
    ]
    if done.split == "time":
        lines[3] = ("band", f"{percent(band.confidence_level)} of new outcomes, as long as they are like the last rows")
    talk.result(data, lines, f"The model is in {out}" + ("." if report is None else f", the report in {report}."))


def _first(relevance: dict[str, float], most: int = 5) -> list[tuple[str, float]]:
    return sorted(relevance.items(), key=lambda pair: -pair[1])[:most]
