"""`mlkm predict`, `mlkm inspect` and `mlkm export`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from ..data.rows import Block
from ..data.table_files import FileRows
from ..fit.apply import later_rows, names_of, predict_table
from ..onnx import to_onnx
from ..report.facts import fit_facts, kind_of, machine_of
from ..report.summary import summary_rows
from ..report.words import plural
from ..runtime.levels import exact_level
from .app import app
from .console import Talk, UsageError, talking
from .opening import Json, loaded
from .outputs import check_out
from .reading import matched, opened


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model that mlkm fit or mlkm.save wrote.")],
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
    with talking(as_json) as talk:
        check_out(out, "predictions", (".csv", ".parquet"), [model, table])
        with talk.working(f"reading {model}"):
            fitted = loaded(model)
        if confidence_level is not None:
            _check_level(fitted, confidence_level)
        with talk.working(f"reading {table}"):
            source = _source(talk, fitted, table)
        with talk.working(f"predicting {table}"):
            predict_table(fitted, source, out, confidence_level=confidence_level)
            n, outside = source.map_reduce(RowsOutside(machine_of(fitted)), _added)
        if outside:
            talk.note(f"{plural(outside, 'row')} outside the range of the training rows: less is known about them.")
        data: dict[str, Any] = {"predictions": str(out), "rows": n, "outside": outside}
        talk.result(data, [("rows", f"{n:,}")], f"The predictions are in {out}.")


def _check_level(fitted: Any, level: float) -> None:
    if not hasattr(fitted, "predict_interval"):
        raise UsageError("--confidence-level is for models with a band, and this one has none.")
    try:
        exact_level(level)
    except (TypeError, ValueError) as problem:
        raise UsageError(f"--confidence-level: {problem}") from None


def _source(talk: Talk, fitted: Any, path: Path) -> FileRows:
    """The columns of the fit."""
    source, wanted = opened(path), names_of(fitted)
    if wanted is None:
        if source.n_columns != fitted.n_features_in_:
            raise ValueError(
                f"The model takes {fitted.n_features_in_} columns by their order; {path} has {source.n_columns}."
            )
        return cast(FileRows, later_rows(source, fitted))
    target = getattr(fitted, "fit_facts_", {}).get("target")
    extra = [name for name in matched(path, source, wanted) if name != target]
    if extra:
        talk.note(f"Columns that the model does not use: {', '.join(map(repr, extra))}.")
    return cast(FileRows, later_rows(source, fitted))


@dataclass(frozen=True)
class RowsOutside:
    """How many rows a piece has, and how many of them are outside the training range, where a machine knows it."""

    machine: Any

    def __call__(self, block: Block[Any]) -> tuple[int, int | None]:
        return len(block), None if self.machine is None else int((self.machine.outside(block.X) > 0).sum())


def _added(a: tuple[int, int | None], b: tuple[int, int | None]) -> tuple[int, int | None]:
    return a[0] + b[0], None if a[1] is None or b[1] is None else a[1] + b[1]


@app.command()
def inspect(
    model: Annotated[Path, typer.Argument(help="A model that mlkm fit or mlkm.save wrote.")],
    as_json: Json = False,
) -> None:
    """Say what is in a model file: rows, columns, relevance, the band.

    \b
    Examples:
      mlkm inspect model.mlkm
      mlkm inspect model.mlkm --json
    """
    with talking(as_json) as talk:
        fitted = loaded(model)
        facts, inner = fit_facts(fitted), machine_of(fitted)
        kinds = {} if inner is None else dict(zip(facts.names, map(kind_of, inner._reader.columns), strict=True))
        relevance = {} if facts.relevance is None else dict(zip(facts.names, facts.relevance.tolist(), strict=True))
        data = {
            "file": str(model),
            "bytes": model.stat().st_size,
            "model": facts.model,
            "rows": facts.rows,
            "columns": kinds,
            "relevance": relevance,
            "leave_one_out_rmse": facts.loo_rmse,
            "confidence_level": facts.level,
            "calibration": facts.n_calibration,
            "fit": dict(facts.said),
        }
        rows = [("model", facts.model), *_said(facts.said), *summary_rows(fitted)]
        rows += [("columns", ", ".join(f"{name} ({kind})" for name, kind in kinds.items()))] if kinds else []
        talk.result(data, [*rows, ("file", f"{model}, {model.stat().st_size / 1e6:.1f} MB")])


def _said(said: Any) -> list[tuple[str, str]]:
    """What `mlkm fit` wrote down, as far as others do not say it."""
    names = {"target": "target", "table": "table", "split": "calibration rows", "effort": "effort", "seed": "seed"}
    found = [(shown, str(said[name])) for name, shown in names.items() if said.get(name) is not None]
    return [*found, *([("written by", f"mlkm {said['mlkm']}")] if said.get("mlkm") else [])]


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A model that mlkm fit or mlkm.save wrote.")],
    onnx: Annotated[Path, typer.Option(help="Where to write the model in ONNX.")],
    as_json: Json = False,
) -> None:
    """Write a model in ONNX, for programs that have no Python: mean, and for a band lower and upper.

    \b
    Examples:
      mlkm export model.mlkm --onnx model.onnx
    """
    with talking(as_json) as talk:
        check_out(onnx, "ONNX file", (".onnx",), [model])
        fitted = loaded(model)
        with talk.working(f"writing {onnx}"):
            graph = to_onnx(fitted, onnx)
        data: dict[str, Any] = {
            "onnx": str(onnx),
            "bytes": graph.ByteSize(),
            "inputs": [own.name for own in graph.graph.input],
            "outputs": [own.name for own in graph.graph.output],
        }
        lines = [("inputs", ", ".join(data["inputs"])), ("outputs", ", ".join(data["outputs"]))]
        talk.result(data, lines, f"The model is in {onnx}, {graph.ByteSize() / 1e6:.1f} MB.")
