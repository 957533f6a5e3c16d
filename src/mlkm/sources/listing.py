"""The files that a table is in."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from .._checks import brief, file_path

_FORMATS = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather", ".csv": "csv"}


@dataclass(frozen=True)
class Listing:
    """Files of one kind in the order of their rows, the folders that they were found in, and the one folder that has
    all of them, where that was asked for."""

    files: tuple[Path, ...]
    kind: str
    folders: tuple[Path, ...]
    base: Path | None


def listed(path: Any) -> Listing:
    """The files of a path or of a list of paths: files as they are named, and all that folders hold."""
    paths = [_local(one) for one in (path if isinstance(path, (list, tuple)) else [path])]
    for one in paths:
        if not one.exists():
            raise FileNotFoundError(f"There is no file or folder {str(one)!r}.")
    files = tuple(file for one in paths for file in (_inside(one) if one.is_dir() else [one]))
    forms = {_FORMATS.get(file.suffix.lower(), file.suffix) for file in files}
    if len(forms) != 1 or not forms <= set(_FORMATS.values()):
        raise ValueError(
            f"A table is in files of one kind, .parquet, .feather or .csv; got {', '.join(sorted(forms)) or 'none'}."
        )
    folders = tuple(one for one in paths if one.is_dir())
    return Listing(files, forms.pop(), folders, folders[0] if len(paths) == len(folders) == 1 else None)


def _local(path: Any) -> Path:
    """A path on this machine."""
    if not isinstance(path, (str, PathLike)):
        raise TypeError(
            f"A table is opened by the name of a file or folder, or as a PyArrow dataset; got {brief(path)}:"
            " rows in memory go to fit(X, y) and predict(X) as they are."
        )
    if isinstance(path, str) and "://" in path:
        raise ValueError(
            f"Names of files and folders are those of this machine; got {brief(path)}: open_table takes a PyArrow"
            f" dataset of it, as in open_table(pyarrow.dataset.dataset({brief(path)}))."
        )
    return file_path("path", path)


def _inside(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and not is_hidden(file, folder)]


def is_hidden(file: Path, folder: Path) -> bool:
    """Whether a file inside a folder is no part of the table: other programs put what is theirs, or not yet complete,
    into files and folders whose names begin with a dot or an underscore; a folder that says a value may
    begin with one too.

    >>> [is_hidden(Path("t", name), Path("t")) for name in ("1.csv", "_done", ".saved/1.csv", "_year=2024/1.csv")]
    [False, True, True, False]
    """
    *inside, name = file.relative_to(folder).parts
    return name.startswith((".", "_")) or any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) for part in inside
    )
