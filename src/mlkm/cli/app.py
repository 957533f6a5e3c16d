"""The program itself: its name, its version and its help."""

from typing import Annotated

import typer

from .._version import __version__

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


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
    """Multi-Layer Kernel Machines: regression that needs no tuning, with prediction bands.

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
