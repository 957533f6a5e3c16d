"""Names and types of the columns of a table in several files, and its rows as PyArrow reads them.

PyArrow infers the type of a column of a CSV file from the first part of the file. Here a pass over the whole file
determines it: a column has the type that all of its values allow, which is whole numbers, numbers, true or false, dates
and times as ISO 8601 writes them, else words. Empty cells, NA and NaN are missing. Rows for a fitted model are read as
text, which its columns convert to numbers, dates and levels cell by cell: there NA is a level where it was one in the
fit.

This module imports PyArrow, which is optional; import it where a table is opened or read.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import csv

from ..runtime.sizes import LARGEST_PART_BYTES, PART_BYTES


def schemas_of(dataset: ds.Dataset) -> list[pa.Schema]:
    """Return the schema of a dataset, which includes the columns that names of folders give, and those of its files."""
    schemas = [dataset.schema]
    for fragment in dataset.get_fragments():
        with suppress(pa.ArrowException, OSError):  # named when it is read
            check_differ(fragment.physical_schema.names, fragment.path)
            schemas.append(fragment.physical_schema)
    return schemas


def select(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Return the schema of these columns, in their order."""
    return pa.schema([schema.field(name) for name in names])


@contextmanager
def with_location(where: str) -> Iterator[None]:
    """Raise errors of PyArrow as an error of one line that begins with the name of the file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise ValueError(f"{where} could not be read: {str(problem).splitlines()[0].rstrip(' :.')}.") from problem


def fragments_of(dataset: ds.Dataset) -> Iterator[ds.Fragment] | None:
    """Return the files of a dataset, or None where it is filtered, since its rows are then not all rows of its
    files."""
    try:
        fragments: Iterator[ds.Fragment] = dataset.get_fragments()
        return fragments
    except ValueError:
        return None


def unified(schemas: Sequence[pa.Schema], wider: Callable[[pa.DataType, pa.DataType], pa.DataType]) -> pa.Schema:
    """Return one type per column that holds the values of all files, where `wider` is the type of values of two."""
    types: dict[str, pa.DataType] = {}
    for field in (field for schema in schemas for field in schema):
        types[field.name] = wider(types.get(field.name, field.type), field.type)
    return pa.schema(list(types.items()))


def widened(known: pa.DataType, own: pa.DataType) -> pa.DataType:
    """Return the type that holds the values of both; numbers of any size, and columns without values, go together. A
    file that does not go with those before it is named when it is read."""
    return known if known == own else joined(known, own) or known


def index_of(schemas: Sequence[pa.Schema]) -> set[str]:
    """Return the columns that were the index of a pandas frame: labels of the rows, often their order, and no
    inputs."""
    told = [(schema.pandas_metadata or {}).get("index_columns", ()) for schema in schemas]
    return {name for own in told for name in own if isinstance(name, str)}  # a range is told by a dict, and no column


def joined(*types: pa.DataType) -> pa.DataType | None:
    """Return the type that holds the values of all these types, or None where there is none."""
    try:
        schemas = [pa.schema([("column", own)]) for own in types]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return pa.string() if all(map(_is_words, types)) else None


def check_differ(names: Sequence[str], where: str) -> None:
    """Refuse two columns of one name."""
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise ValueError(f"{where} has more than one column {', '.join(map(repr, twice))}; names must differ.")


def check_goes_with(own: pa.Schema, wanted: pa.Schema, where: str) -> None:
    """Refuse a file without a wanted column, or where it is of a type that cannot be read as the wanted one, or at
    all."""
    for field in wanted:
        if field.name not in own.names:
            raise ValueError(f"{where} has no column {field.name!r}, which other files of the table have.")
        check_text(own.field(field.name), where)
        if not _alike(own.field(field.name).type, field.type):
            raise ValueError(
                f"Column {field.name!r} is of type {own.field(field.name).type} in {where} and of type {field.type}"
                " in the others; write the files with one type."
            )


def check_text(field: pa.Field, where: str) -> None:
    """Refuse a column of bytes."""
    own = _values(field.type)
    if pa.types.is_binary(own) or pa.types.is_large_binary(own) or pa.types.is_fixed_size_binary(own):
        raise ValueError(f"Column {field.name!r} of {where} is not text in UTF-8; save it as UTF-8.")


def _alike(own: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of one type can be read as another."""
    if pa.types.is_dictionary(own) and pa.types.is_dictionary(wanted) and own.value_type == wanted.value_type:
        return True
    alike = any(of(own) and of(wanted) for of in (_is_words, _is_number, pa.types.is_timestamp))
    return own == wanted or bool(pa.types.is_null(own)) or alike


def _is_words(kind: pa.DataType) -> bool:
    """Return whether a type is text, or categories that are text."""
    own = _values(kind)
    return bool(pa.types.is_string(own) or pa.types.is_large_string(own))


def _values(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values, which for categories is that of their levels."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


_SEPARATORS = ",;\t|"


def csv_format(files: Sequence[Path]) -> ds.CsvFileFormat:
    """Return the format with which PyArrow reads these files."""
    marks = {separator(file): file for file in files}
    if len(marks) > 1:
        (a, here), (b, there), *_ = marks.items()
        raise ValueError(f"Cells are separated by {a!r} in {here} and by {b!r} in {there}; write the files with one.")
    parse = _parsed(next(iter(marks)))
    schemas, read = _types_of(files, parse)
    return ds.CsvFileFormat(
        parse_options=parse, read_options=read, convert_options=_converted(unified(schemas, _wider))
    )


def _types_of(files: Sequence[Path], parse: csv.ParseOptions) -> tuple[list[pa.Schema], csv.ReadOptions]:
    """Return the types of the columns of every file, and the options to read them: in parts of a megabyte, or of more
    where a row is longer than that."""
    largest, size = max(file.stat().st_size for file in files) + 1, PART_BYTES
    while True:
        read = csv.ReadOptions(block_size=size)
        try:
            return [_types(file, parse, read) for file in files], read
        except ValueError as problem:
            if "straddling" not in str(problem) or size >= min(largest, LARGEST_PART_BYTES):
                raise
            size = min(16 * size, largest, LARGEST_PART_BYTES)


def open_files(files: Sequence[Path], kind: str, base: Path | None) -> tuple[ds.Dataset, list[pa.Schema]]:
    """Return the dataset of files, its schema and those of the files; folders inside `base` may give values of columns
    by their names, as in "year=2024", and those around it do not."""
    hive = {"partitioning": "hive", "partition_base_dir": str(base)} if base else {}
    with with_location(str(files[0])):
        form = csv_format(files) if kind == "csv" else kind
        dataset = ds.dataset([str(file) for file in files], format=form, **hive)
        return dataset, schemas_of(dataset)


def batches_of(dataset: ds.Dataset, schema: pa.Schema, size: int, cells: bool) -> Iterator[pa.RecordBatch]:
    """Yield batches of all files, in order, each column of one type and with the values that names of folders give;
    with `cells`, CSV files are read as the types of the schema. Errors name the file."""
    frugal = {"batch_size": size, "batch_readahead": 1, "fragment_readahead": 1}
    fragments = fragments_of(dataset)
    if fragments is None:
        with with_location("the table"):
            check_goes_with(schema, schema, "the table")
            yield from dataset.to_batches(columns=schema.names, **frugal)
        return
    for fragment in (as_text(one, schema) if cells else one for one in fragments):
        where = getattr(fragment, "path", "") or "the table"
        said = ds.get_partition_keys(fragment.partition_expression)
        stored = [name for name in schema.names if name not in said]
        with with_location(where):
            own = fragment.physical_schema
            check_goes_with(own, select(schema, stored), where)
            paged = _paged(fragment)
            for batch in fragment.to_batches(own, columns=stored, fragment_scan_options=paged, **frugal):
                whole = _with_said(batch, said, schema) if said else batch
                yield whole.cast(schema) if whole.schema != schema else whole


def _with_said(batch: pa.RecordBatch, said: dict[str, object], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns whose one value in all of a file is given by the name of its folder."""
    columns = [
        pa.array([said[field.name]] * len(batch), field.type) if field.name in said else batch.column(field.name)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _paged(fragment: ds.Fragment) -> ds.ParquetFragmentScanOptions | None:
    """Return options to read a Parquet file page by page: PyArrow would otherwise hold all of a file that it has
    read."""
    parquet = isinstance(fragment, ds.ParquetFileFragment)
    return ds.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False) if parquet else None


def text_columns(dataset: ds.Dataset) -> set[str]:
    """Return the columns of a dataset that are in CSV files, and not in the names of folders."""
    files = [fragment for fragment in fragments_of(dataset) or () if _is_csv(fragment)]
    keys = {name for file in files for name in ds.get_partition_keys(file.partition_expression)}
    return set(dataset.schema.names) - keys if files else set()


def as_text(fragment: ds.Fragment, schema: pa.Schema) -> ds.Fragment:
    """Return the fragment with its cells read as the types of a schema, which may be text whatever they look like."""
    if not _is_csv(fragment):
        return fragment
    form, scanned = fragment.format, fragment.format.default_fragment_scan_options
    types = {**scanned.convert_options.column_types, **dict(zip(schema.names, schema.types, strict=True))}
    csv_as = ds.CsvFileFormat(
        parse_options=form.parse_options, read_options=scanned.read_options, convert_options=_converted(types, False)
    )
    return csv_as.make_fragment(fragment.path, fragment.filesystem, fragment.partition_expression)


def _is_csv(fragment: ds.Fragment) -> bool:
    return type(getattr(fragment, "format", None)).__name__ == "CsvFileFormat"


def separator(file: Path) -> str:
    """Return whichever of comma, semicolon, tab and bar the first line has most of outside quotes."""
    with file.open("rb") as opened:
        first = opened.readline()
    if not first:
        raise ValueError(f"{file} is empty; a table begins with a line of names.")
    plain = re.sub(rb'"[^"]*"', b"", first)
    return max(_SEPARATORS, key=lambda mark: plain.count(mark.encode()))


def _types(file: Path, parse: csv.ParseOptions, read: csv.ReadOptions) -> pa.Schema:
    """Return the names and types of the columns of a file, from all its rows: the types of the first part, where all
    other parts go with them, else those of all parts, joined."""
    with with_location(str(file)):
        reader = csv.open_csv(file, read_options=read, parse_options=parse, convert_options=_converted(None))
        types = reader.schema
        check_differ(types.names, str(file))
        try:
            for _ in reader:
                pass
        except pa.ArrowInvalid:
            types = _part_by_part(file, parse, read, types.names)
    for field in types:
        check_text(field, str(file))
    return types


def _part_by_part(file: Path, parse: csv.ParseOptions, read: csv.ReadOptions, names: Sequence[str]) -> pa.Schema:
    """Return the types that PyArrow infers in every part, joined; cells are read as text, and their types inferred from
    it again."""
    as_they_are = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), check_utf8=False)
    types = [pa.null()] * len(names)
    for part in csv.open_csv(file, read_options=read, parse_options=parse, convert_options=as_they_are):
        text = pa.BufferOutputStream()
        csv.write_csv(part, text)
        again = pa.BufferReader(text.getvalue())
        told = csv.read_csv(again, read_options=read, parse_options=_parsed(","), convert_options=_converted(None))
        types = [_wider(a, b) for a, b in zip(types, told.schema.types, strict=True)]
    return pa.schema(list(zip(names, types, strict=True)))


def _wider(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Return the type of a column that has one type in some cells and another in others."""
    both = joined(a, b)
    if both is not None:
        return both
    for day, time in ((a, b), (b, a)):
        if pa.types.is_date(day) and pa.types.is_timestamp(time) and time.tz is None:
            return time
    return pa.binary() if pa.binary() in (a, b) else pa.string()  # bytes that are no text are refused, by name


def _parsed(mark: str) -> csv.ParseOptions:
    return csv.ParseOptions(delimiter=mark, newlines_in_values=True)


def _converted(types: pa.Schema | dict[str, pa.DataType] | None, marks: bool = True) -> csv.ConvertOptions:
    """Return options by which an empty cell is missing, of words as of numbers; without `marks`, text is read as it
    is."""
    return csv.ConvertOptions(strings_can_be_null=marks, column_types=types)
