"""The program `mlkm`, its version and its help, and the commands that take a model file: `predict`, `inspect`, `report`
and `export`."""

from functools import partial
from operator import add
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer

from .._types import IntArray
from .._version import __version__
from ..data.rows import Block
from ..data.tables.cells import Table
from ..fit.apply import names_of, new_rows, predict_table
from ..onnx import to_onnx
from ..report.facts import FitRecord, ReportedModel, fit_facts, reported_model
from ..report.page import make_report, plotly_script
from ..report.words import number, percent, plural
from .console import Json, UsageError, check_level, check_output, console_of, load_model
from .demo import demo
from .fit import fit
from .input_table import check_columns, open_input, read_target_rows

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
ModelFile = Annotated[Path, typer.Argument(help="A model that mlkm fit or mlkm.save wrote.")]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"mlkm {__version__}")
        raise typer.Exit


@app.callback()
def _mlkm(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Fit Multi-Layer Kernel Machines: regression that needs no tuning, with prediction bands.

    \b
    Examples:
      mlkm fit houses.csv --target price --out model.mlkm --report report.html
      mlkm predict model.mlkm new.csv --out predictions.csv
      mlkm inspect model.mlkm
      mlkm report model.mlkm later.csv --out report.html
      mlkm export model.mlkm --onnx model.onnx
      mlkm demo

    Tables are CSV, Parquet or Feather files with a line of names: numbers, categories, words, dates and missing values
    as they are. Exit codes: 0 fine, 1 failed, 2 the command was wrong, 130 interrupted, 143
    terminated.
    """


def predict(
    model: ModelFile,
    table: Annotated[Path, typer.Argument(help="The rows to predict: CSV, Parquet or Feather.")],
    out: Annotated[Path, typer.Option(help="Where to write predictions, .csv or .parquet.")] = Path("predictions.csv"),
    confidence_level: Annotated[
        float | None, typer.Option(help="Of the band; by default that of the fit.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict every row of a table: prediction, lower and upper, in the order of the rows.

    Columns are found by their names, in any order; others are not looked at.

    \b
    Examples:
      mlkm predict model.mlkm new.csv --out predictions.csv
      mlkm predict model.mlkm new.parquet --out predictions.parquet --confidence-level 0.8
    """
    with console_of(as_json) as console:
        check_output(out, "predictions", (".csv", ".parquet"), [model, table])
        with console.working(f"reading {model}"):
            fitted = load_model(model)
        if confidence_level is not None:
            if not hasattr(fitted, "predict_interval"):
                raise UsageError("--confidence-level is for models with a band, and this one has none.")
            check_level(confidence_level)
        with console.working(f"reading {table}"):
            source = open_input(table)
            if names_of(fitted) is None and source.n_columns != fitted.n_features_in_:
                raise ValueError(
                    f"The model takes {fitted.n_features_in_} columns by their order; {table} has {source.n_columns}."
                )
            check_columns(table, source, fitted, _target(fitted), console)
            rows = new_rows(source, fitted)
        with console.working(f"predicting {table}"):
            predict_table(fitted, rows, out, confidence_level=confidence_level)
            known = reported_model(fitted)
            n, outside = map(int, rows.map_reduce(partial(_rows_outside, known), add))
        if outside:
            console.note(f"{plural(outside, 'row')} outside the range of the training rows: less is known about them.")
        data = {"predictions": str(out), "rows": n, "outside": None if known is None else outside}
        console.result(data, [("rows", f"{n:,}")], f"The predictions are in {out}.")


def _target(model: Any) -> str | None:
    """Return the name of the target, where `mlkm fit` recorded it."""
    return cast(FitRecord, getattr(model, "fit_facts_", {})).get("target")


def _rows_outside(model: ReportedModel | None, block: Block[Table]) -> IntArray:
    """Return the numbers of rows of a block, and of those outside the training range where a model knows it."""
    return np.array([len(block), 0 if model is None else np.count_nonzero(model.outside(block.X) > 0)])


def inspect(model: ModelFile, as_json: Json = False) -> None:
    """Say what is in a model file: rows, columns, relevance, the band.

    \b
    Examples:
      mlkm inspect model.mlkm
      mlkm inspect model.mlkm --json
    """
    with console_of(as_json) as console:
        facts = fit_facts(load_model(model))
        size = model.stat().st_size
        data = {
            "file": str(model),
            "bytes": size,
            "model": facts.model,
            "rows": facts.rows,
            "columns": dict(facts.columns),
            "relevance": facts.relevance_by_name,
            "leave_one_out_rmse": facts.loo_rmse,
            "confidence_level": facts.level,
            "calibration": facts.n_calibration,
            "fit": dict(facts.record),
        }
        rows = [("model", facts.model), *_recorded(facts.record), *facts.summary()]
        if facts.columns:
            rows.append(("columns", ", ".join(f"{name} ({kind})" for name, kind in facts.columns.items())))
        console.result(data, [*rows, ("file", f"{model}, {size / 1e6:.1f} MB")])


def _recorded(record: FitRecord) -> list[tuple[str, str]]:
    """Return what `mlkm fit` recorded beyond what a summary says."""
    rows = [
        ("target", record.get("target")),
        ("table", record.get("table")),
        ("calibration rows", record.get("split")),
        ("effort", record.get("effort")),
        ("seed", record.get("seed")),
        ("written by", f"mlkm {record['mlkm']}" if record.get("mlkm") else None),
    ]
    return [(name, str(value)) for name, value in rows if value is not None]


def report(
    model: ModelFile,
    table: Annotated[Path, typer.Argument(help="Rows that the fit has not seen, with their target.")],
    out: Annotated[Path, typer.Option(help="Where to write the report.")] = Path("report.html"),
    target: Annotated[str | None, typer.Option(help="The target; by default that of mlkm fit.")] = None,
    as_json: Json = False,
) -> None:
    """Judge a model by rows that it has not seen, as a page that opens without a network.

    \b
    Examples:
      mlkm report model.mlkm later.csv --out report.html
      mlkm report model.mlkm later.parquet --target price --json
    """
    with console_of(as_json) as console:
        check_output(out, "report", (".html", ".htm"), [model, table])
        plotly_script()
        with console.working(f"reading {model} and {table}"):
            band = load_model(model)
            source = open_input(table)
        target = target or _target(band)
        if target is None:
            raise UsageError("The model does not say what its target is; name it with --target.")
        check_columns(table, source, band, target, console)
        with console.working(f"reading {table}"):
            cells = source.narrowed(names_of(band)).as_cells()
            rows = read_target_rows(table, cells, target, names_of(band))
        rows.note_left_out(console, target)
        with console.working("writing the report"):
            page = make_report(band, rows.inputs, rows.y, title=f"Report on {target}")
            page.save(out)
        scores, coverage = page.facts.scores, page.facts.band
        data = {
            "report": str(out),
            "rows": len(rows),
            "left_out": rows.left_out,
            "scores": [
                {"model": s.name, "rmse": s.rmse, "mae": s.mae, "r2": s.r2 if s.r2 == s.r2 else None} for s in scores
            ],
            "coverage": None if coverage is None else coverage.overall.share,
        }
        error = f"{number(scores[0].rmse)} (root mean square), R² {scores[0].r2:.3f}"
        lines = [("rows", f"{len(rows):,}"), ("error", error)]
        if coverage is not None:
            inside = f"{percent(coverage.overall.share)} of outcomes; asked for: {percent(coverage.level)}"
            lines.append(("inside the band", inside))
        console.result(data, lines, f"The report is in {out}.")


def export(
    model: ModelFile,
    onnx: Annotated[Path, typer.Option(help="Where to write the model in ONNX.")],
    as_json: Json = False,
) -> None:
    """Write a model in ONNX, for programs that have no Python: mean, and for a band lower and upper.

    \b
    Examples:
      mlkm export model.mlkm --onnx model.onnx
    """
    with console_of(as_json) as console:
        check_output(onnx, "ONNX file", (".onnx",), [model])
        fitted = load_model(model)
        with console.working(f"writing {onnx}"):
            graph = to_onnx(fitted, onnx)
        names = {
            "inputs": [value.name for value in graph.graph.input],
            "outputs": [value.name for value in graph.graph.output],
        }
        data = {"onnx": str(onnx), "bytes": graph.ByteSize(), **names}
        lines = [(kind, ", ".join(values)) for kind, values in names.items()]
        console.result(data, lines, f"The model is in {onnx}, {graph.ByteSize() / 1e6:.1f} MB.")


for command in (fit, predict, inspect, report, export, demo):
    app.command()(command)
