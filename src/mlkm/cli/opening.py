"""Models from files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..files import load
from .console import UsageError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def loaded(path: Path) -> Any:
    """A model from a file."""
    if not path.exists():
        raise UsageError(f"There is no file {str(path)!r}.")
    if path.is_dir():
        raise UsageError(f"A model is a file; got {str(path)!r}, which is a folder.")
    return load(path)
