"""The program, its version and its help, and what its commands share: model files, and checks of outputs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from .._version import __version__
from ..data.table_files import is_hidden
from ..files import load
from ..runtime.atomic import check_writable
from ..runtime.confidence import exact_level
from .console import UsageError, sentence

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
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


def load_model(path: Path) -> Any:
    """Return the model in a file."""
    if not path.exists():
        raise UsageError(f"There is no file {str(path)!r}.")
    if path.is_dir():
        raise UsageError(f"A model is a file; got {str(path)!r}, which is a folder.")
    return load(path)


def check_level(level: float) -> None:
    """Refuse a confidence level that is not between 0 and 1."""
    try:
        exact_level(level)
    except (TypeError, ValueError) as problem:
        raise UsageError(f"--confidence-level: {problem}") from None


def check_output(path: Path, what: str, kinds: Sequence[str] = (), inputs: Sequence[Path] = ()) -> None:
    """Refuse an output before any work is done for it.

    Parameters
    ----------
    path : the file to be written
    what : what it is called in messages
    kinds : the endings that its name may have
    inputs : files and folders that are read: the output may not be one of these files, nor in one of these folders,
        where the next run would read it
    """
    try:
        check_writable(path)
    except OSError as problem:
        raise UsageError(sentence(problem)) from None
    if kinds and path.suffix.lower() not in kinds:
        raise UsageError(f"The name of the {what} must end in {' or '.join(kinds)}; got {path.name!r}.")
    place = path.resolve()
    for source in (source.resolve() for source in inputs):
        if place == source:
            raise UsageError(f"The {what} would overwrite {str(path)!r}, which is read; give it another name.")
        if source.is_dir() and place.is_relative_to(source) and not is_hidden(place, source):
            raise UsageError(
                f"The {what} would be in {str(source)!r}, whose files are read; put it into another folder."
            )
