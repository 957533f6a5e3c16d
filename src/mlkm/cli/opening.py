"""Models from files, and the columns that they know."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..persistence import load
from .talk import UsageError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def loaded(path: Path) -> Any:
    """A model from a file."""
    if not path.exists():
        raise UsageError(f"There is no file {str(path)!r}.")
    if path.is_dir():
        raise UsageError(f"A model is a file; got {str(path)!r}, which is a folder.")
    return load(path)


def names_of(model: Any) -> list[str] | None:
    """The columns that a model was fitted to, if it knows their names."""
    inner = getattr(model, "estimator_", model)
    found = getattr(model, "feature_names_in_", getattr(inner, "feature_names_in_", None))
    return None if found is None else [str(name) for name in found]
