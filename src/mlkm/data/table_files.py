"""Tables in files that need not fit into memory: Parquet, Feather and CSV, one file, a folder or a PyArrow dataset."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._types import Array, TableLike
from ..runtime.checks import brief, file_path
from ..runtime.progress import is_listened_to
from ..runtime.sizes import NUMBER_BYTES, WORD_BYTES
from .folds import checked_block_weights, checked_targets
from .rows import Block, Rows, block_rows
from .tables.cells import check_names, read_frame

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

_FORMATS = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather", ".csv": "csv"}


def listed(path: object) -> tuple[tuple[Path, ...], str, tuple[Path, ...], Path | None]:
    """Return the files of a path or of a list of paths, which are files as they are named and all files in folders that
    are not hidden, in the order of their rows; their kind; the folders that they were found in; and the one folder that
    has all of them, where that was asked for."""
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
    return files, forms.pop(), folders, folders[0] if len(paths) == len(folders) == 1 else None


def _local(path: object) -> Path:
    """Return a path on this machine, or refuse what is none."""
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
    """Return whether a file inside a folder is no part of the table: other programs put what is theirs, or not yet
    complete, into files and folders whose names begin with a dot or an underscore; a folder whose name gives the value
    of a column may begin with an underscore, too.

    >>> [is_hidden(Path("t", name), Path("t")) for name in ("1.csv", "_done", ".saved/1.csv", "_year=2024/1.csv")]
    [False, True, True, False]
    """
    *inside, name = file.relative_to(folder).parts
    return name.startswith((".", "_")) or any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) for part in inside
    )


@dataclass(frozen=True)
class FileRows(Rows[TableLike]):
    """A PyArrow dataset, the types of its columns in all files, the columns that are inputs, targets, none where there
    are none, and weights; the folders whose files it has; and whether pieces are unconverted cells."""

    dataset: "ds.Dataset"
    types: "pa.Schema"
    names: tuple[str, ...]
    targets: tuple[str, ...]
    weight: str | None
    single_output: bool
    folders: tuple[Path, ...] = ()
    cells: bool = False

    @property
    def n_columns(self) -> int:
        """Return the number of columns that are inputs."""
        return len(self.names)

    @property
    def schema(self) -> "pa.Schema":
        """Return the names and types of the inputs."""
        from .schemas import select

        return select(self.types, self.names)

    @property
    def n(self) -> int:
        """Return the number of rows, counted in a pass over them if the files do not store it."""
        stored = self.stored_rows()
        return sum(map(len, self.blocks())) if stored is None else stored

    def n_blocks(self) -> int | None:
        """Return the number of blocks from the number of rows that the files store, or None where they store none, as
        CSV files do, or nobody listens to progress."""
        n = self.stored_rows() if is_listened_to() else None
        return None if n is None else -(-n // block_rows(self.n_columns))

    def stored_rows(self) -> int | None:
        """Return the number of rows, or None if the files do not store it."""
        counted = type(getattr(self.dataset, "format", None)).__name__ in ("ParquetFileFormat", "IpcFileFormat")
        return int(self.dataset.count_rows()) if counted else None

    def memory(self, wanted: Sequence[str]) -> float:
        """Estimate how many bytes these columns take in memory, from the number of rows or, for CSV files, from their
        size."""
        import pyarrow as pa

        n = self.stored_rows()
        if n is None:
            return float(sum(Path(file).stat().st_size for file in getattr(self.dataset, "files", ())))
        plain = (pa.types.is_primitive(self.types.field(name).type) for name in wanted)
        return float(n * sum(NUMBER_BYTES if is_number else WORD_BYTES for is_number in plain))

    def narrowed(self, names: tuple[str, ...] | None) -> "FileRows":
        """Return the rows with these columns alone, for a model that needs no others."""
        if names is None:
            return self
        check_names(tuple(self.types.names), names)
        return replace(self, names=names)

    def as_cells(self) -> "FileRows":
        """Return the source with PyArrow tables as pieces, the inputs of CSV files as text: the types of cells are
        those of the model's fit and do not depend on the other rows of the file."""
        import pyarrow as pa

        from .schemas import text_columns

        text = set(self.names) & text_columns(self.dataset)
        types = [(field.name, pa.string() if field.name in text else field.type) for field in self.types]
        return replace(self, types=pa.schema(types), cells=True)

    def reads(self, path: Path) -> bool:
        """Return whether a file is one of the table's, or would be if it were written."""
        own = path.resolve()
        files = {Path(file).resolve() for file in getattr(self.dataset, "files", ())}
        folders = [folder.resolve() for folder in self.folders]
        return own in files or any(own.is_relative_to(one) and not is_hidden(own, one) for one in folders)

    def blocks(self) -> Iterator[Block[TableLike]]:
        """Yield the blocks, in order, each of the next rows across batches and files."""
        import pyarrow as pa

        wanted = list(dict.fromkeys([*self.names, *self.targets, *([self.weight] if self.weight else [])]))
        size = block_rows(self.n_columns)
        kept: list[pa.RecordBatch] = []
        n = 0
        for batch in self.batches(wanted, size):
            kept.append(batch)
            n += len(batch)
            while n >= size:
                table = pa.Table.from_batches(kept)
                yield self._block(table.slice(0, size))
                kept = table.slice(size).to_batches()
                n -= size
        if n:
            yield self._block(pa.Table.from_batches(kept))

    def batches(self, wanted: list[str], size: int) -> Iterator["pa.RecordBatch"]:
        """Return batches of these columns of all files, in order; errors name the file."""
        from .schemas import batches_of, select

        return batches_of(self.dataset, select(self.types, wanted), size, self.cells)

    def _block(self, table: "pa.Table") -> Block[TableLike]:
        """Return a PyArrow table as a block with its targets and weights."""
        cells = table.select(list(self.names))
        Y = np.zeros((len(table), 0))
        if self.targets:
            Y = checked_targets(np.stack([_numbers(table, name) for name in self.targets], axis=1))
        weights = checked_block_weights(None if self.weight is None else _numbers(table, self.weight), len(table))
        return Block(cells if self.cells else read_frame(cells), Y, weights)


def open_table(
    path: "str | PathLike[str] | Sequence[str | PathLike[str]] | ds.Dataset",
    target: str | Sequence[str] | None = None,
    *,
    features: Sequence[str] | None = None,
    weights: str | None = None,
) -> FileRows:
    """Open a table in files for `fit`, `predict_table` and bands: rows are read a piece at a time, as often as needed.

    Parameters
    ----------
    path : a Parquet, Feather or CSV file, a folder of them, a list of files, or a PyArrow dataset; folders inside the
        folder that are named "year=2024" say the value of a column
    target : the column, or columns, to predict; not needed for predictions
    features : the columns that are inputs; by default all others but the index of a pandas frame
    weights : a column of sample weights

    Only the columns that are named are read. A CSV file is read through once to find what its columns are; in a folder,
    files and folders whose names begin with a dot or an underscore are left out.
    """
    try:
        import pyarrow.dataset
    except ImportError:
        raise ImportError('open_table needs PyArrow: pip install "mlkm[tables]".') from None
    from .schemas import index_of, open_files, unified, widened

    folders: tuple[Path, ...] = ()
    if isinstance(path, pyarrow.dataset.Dataset):
        dataset, schemas = path, [path.schema]
    else:
        files, kind, folders, base = listed(path)
        dataset, schemas = open_files(files, kind, base)
    types, index = unified(schemas, widened), index_of(schemas)
    every = list(types.names)
    if weights is not None and not isinstance(weights, str):
        raise TypeError(f"weights must be the name of a column; got {brief(weights)}.")
    targets, chosen = names_given("target", target), names_given("features", features)
    others = (*targets, *([] if weights is None else [str(weights)]))
    names = tuple(name for name in every if name not in {*others, *index}) if features is None else chosen
    for name in (*others, *names):
        if name not in every:
            raise ValueError(f"The table has no column {brief(name)}; it has {', '.join(map(repr, every))}.")
        if (*others, *names).count(name) > 1:
            raise ValueError(f"Column {name!r} is named twice; a column is a target, the weights or an input, once.")
    if not names:
        raise ValueError("The table has no column beside its targets; inputs are needed.")
    single = isinstance(target, str) or target is None
    return FileRows(dataset, types, names, targets, weights, single, folders)


def names_given(what: str, given: object) -> tuple[str, ...]:
    """Return names of columns, given as one name, a sequence of names or None."""
    names = () if given is None else (given,) if isinstance(given, str) else given
    if isinstance(names, np.ndarray):
        names = names.tolist()
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} must be the name of a column or a list of them; got {brief(given)}.")
    return tuple(str(name) for name in names)


def _numbers(table: "pa.Table", name: str) -> Array:
    """Return a column as numbers, NaN where missing."""
    column = read_frame(table.select([name])).columns[0]
    if column.dtype.kind != "f":
        raise ValueError(f"Column {name!r} must hold numbers.")
    return np.asarray(column, np.float64)
