"""Where files go: checked before any work, so that nothing is computed in vain."""

from collections.abc import Sequence
from pathlib import Path

from ..data.table_files import is_hidden
from ..runtime.atomic import check_writable
from .console import UsageError, sentence


def check_out(path: Path, what: str, kinds: Sequence[str] = (), inputs: Sequence[Path] = ()) -> None:
    """Refuse a name that cannot be written, is of another kind, or is that of a file which is read, or would be the
    next time, being in a folder of them."""
    try:
        check_writable(path)
    except OSError as problem:
        raise UsageError(sentence(problem)) from None
    if kinds and path.suffix.lower() not in kinds:
        raise UsageError(f"The name of the {what} must end in {' or '.join(kinds)}; got {path.name!r}.")
    if any(path.resolve() == own.resolve() for own in inputs):
        raise UsageError(f"The {what} would overwrite {str(path)!r}, which is read; give it another name.")
    place = path.resolve()
    for own in (folder.resolve() for folder in inputs if folder.is_dir()):
        if place.is_relative_to(own) and not is_hidden(place, own):
            raise UsageError(f"The {what} would be in {str(own)!r}, whose files are read; put it into another folder.")
