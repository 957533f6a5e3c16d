"""CSV files: how their cells are separated, and what all values of a column are.

PyArrow tells the type of a column by the first part of a file. Here a pass over the whole file finds it: a column is
what all of its values allow, which is whole numbers, numbers, true or false, dates and times as ISO 8601 writes them,
else words. Empty cells, NA and NaN are missing. Rows for a fitted model are read as text, which its columns convert to
numbers, dates and levels cell by cell: there NA is a level where it was one in the fit.
"""

import re
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from .schemas import check_differ, check_text, fragments_of, joined, told_with

_SEPARATORS = ",;\t|"
_PART, _LARGEST_PART = 2**20, 2**31 - 1  # bytes of a file that are read at once


def csv_format(files: Sequence[Path]) -> Any:
    """How PyArrow reads these files."""
    import pyarrow.dataset

    marks = {separator(file): file for file in files}
    if len(marks) > 1:
        (a, here), (b, there), *_ = marks.items()
        raise ValueError(f"Cells are separated by {a!r} in {here} and by {b!r} in {there}; write the files with one.")
    parse = _parsed(next(iter(marks)))
    schemas, read = _types_of(files, parse)
    found = [dict(zip(own.names, own.types, strict=True)) for own in schemas]
    names = dict.fromkeys(name for own in found for name in own)
    types = {name: reduce(_wider, [own[name] for own in found if name in own]) for name in names}
    return pyarrow.dataset.CsvFileFormat(parse_options=parse, read_options=read, convert_options=_converted(types))


def _types_of(files: Sequence[Path], parse: Any) -> tuple[list[Any], Any]:
    """Return the types of the columns of every file, and the options to read them: in parts of a megabyte, or of more
    where a row is longer than that."""
    from pyarrow import csv

    largest, size = max(file.stat().st_size for file in files) + 1, _PART
    while True:
        read = csv.ReadOptions(block_size=size)
        try:
            return [_types(file, parse, read) for file in files], read
        except ValueError as problem:
            if "straddling" not in str(problem) or size >= min(largest, _LARGEST_PART):
                raise
            size = min(16 * size, largest, _LARGEST_PART)


def text_columns(dataset: Any) -> set[str]:
    """Return the columns of a dataset that are in CSV files, and not in the names of folders."""
    import pyarrow.dataset

    files = [fragment for fragment in fragments_of(dataset) or () if _is_csv(fragment)]
    keys = {name for file in files for name in pyarrow.dataset.get_partition_keys(file.partition_expression)}
    return set(dataset.schema.names) - keys if files else set()


def as_text(fragment: Any, schema: Any) -> Any:
    """Return the fragment with its cells read as the types of a schema, which may be text whatever they look like."""
    import pyarrow.dataset

    if not _is_csv(fragment):
        return fragment
    form, scanned = fragment.format, fragment.format.default_fragment_scan_options
    types = {**scanned.convert_options.column_types, **dict(zip(schema.names, schema.types, strict=True))}
    csv_as = pyarrow.dataset.CsvFileFormat(
        parse_options=form.parse_options, read_options=scanned.read_options, convert_options=_converted(types, False)
    )
    return csv_as.make_fragment(fragment.path, fragment.filesystem, fragment.partition_expression)


def _is_csv(fragment: Any) -> bool:
    return type(getattr(fragment, "format", None)).__name__ == "CsvFileFormat"


def separator(file: Path) -> str:
    """Whichever of comma, semicolon, tab and bar the first line has most of outside quotes."""
    with file.open("rb") as opened:
        first = opened.readline()
    if not first:
        raise ValueError(f"{file} is empty; a table begins with a line of names.")
    plain = re.sub(rb'"[^"]*"', b"", first)
    return max(_SEPARATORS, key=lambda mark: plain.count(mark.encode()))


def _types(file: Path, parse: Any, read: Any) -> Any:
    """Names and types of the columns, by all rows."""
    with told_with(str(file)):
        types = _at_once(file, parse, read)
    for field in types:
        check_text(field, str(file))
    return types


def _at_once(file: Path, parse: Any, read: Any) -> Any:
    """The types of the first part, where all others go with them; else those of every part, joined."""
    import pyarrow as pa
    from pyarrow import csv

    reader = csv.open_csv(file, read_options=read, parse_options=parse, convert_options=_converted(None))
    check_differ(reader.schema.names, str(file))
    try:
        for _ in reader:
            pass
        return reader.schema
    except pa.ArrowInvalid:
        return _part_by_part(file, parse, read, reader.schema.names)


def _part_by_part(file: Path, parse: Any, read: Any, names: Sequence[str]) -> Any:
    """The types of every part as PyArrow finds them, joined: cells are read as they are, and told anew."""
    import pyarrow as pa
    from pyarrow import csv

    as_they_are = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), check_utf8=False)
    types = [pa.null()] * len(names)
    for part in csv.open_csv(file, read_options=read, parse_options=parse, convert_options=as_they_are):
        text = pa.BufferOutputStream()
        csv.write_csv(part, text)
        again = pa.BufferReader(text.getvalue())
        told = csv.read_csv(again, read_options=read, parse_options=_parsed(","), convert_options=_converted(None))
        types = [_wider(a, b) for a, b in zip(types, told.schema.types, strict=True)]
    return pa.schema(list(zip(names, types, strict=True)))


def _wider(a: Any, b: Any) -> Any:
    """The type of a column whose cells are of one type here and of another there."""
    import pyarrow as pa

    both = joined([a, b])
    if both is not None:
        return both
    for day, time in ((a, b), (b, a)):
        if pa.types.is_date(day) and pa.types.is_timestamp(time) and time.tz is None:
            return time
    return pa.binary() if pa.binary() in (a, b) else pa.string()  # bytes that are no text are refused, by name


def _parsed(mark: str) -> Any:
    from pyarrow import csv

    return csv.ParseOptions(delimiter=mark, newlines_in_values=True)


def _converted(types: dict[str, Any] | None, marks: bool = True) -> Any:
    """An empty cell is missing, of words as of numbers; without `marks`, text is read as it is."""
    from pyarrow import csv

    return csv.ConvertOptions(strings_can_be_null=marks, column_types=types)
