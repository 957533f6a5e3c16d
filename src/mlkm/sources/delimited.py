"""CSV files: how their cells are separated, and what all values of a column are.

PyArrow tells the type of a column by the first part of a file. Here a pass over the whole file finds it: a column is
what all of its values allow, which is whole numbers, numbers, true or false, dates and times as ISO 8601 writes them,
else words. Empty cells, NA and NaN are missing.
"""

import re
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from .schemas import check_differ, check_text, joined, told_with

_SEPARATORS = ",;\t|"


def csv_format(files: Sequence[Path]) -> Any:
    """How PyArrow reads these files."""
    import pyarrow.dataset

    marks = {separator(file): file for file in files}
    if len(marks) > 1:
        (a, here), (b, there), *_ = marks.items()
        raise ValueError(f"Cells are separated by {a!r} in {here} and by {b!r} in {there}; write the files with one.")
    parse = _parsed(next(iter(marks)))
    found = [dict(zip(own.names, own.types, strict=True)) for own in (_types(file, parse) for file in files)]
    names = dict.fromkeys(name for own in found for name in own)
    types = {name: reduce(_wider, [own[name] for own in found if name in own]) for name in names}
    return pyarrow.dataset.CsvFileFormat(parse_options=parse, convert_options=_converted(types))


def separator(file: Path) -> str:
    """Whichever of comma, semicolon, tab and bar the first line has most of outside quotes."""
    with file.open("rb") as opened:
        first = opened.readline()
    if not first:
        raise ValueError(f"{file} is empty; a table begins with a line of names.")
    plain = re.sub(rb'"[^"]*"', b"", first)
    return max(_SEPARATORS, key=lambda mark: plain.count(mark.encode()))


def _types(file: Path, parse: Any) -> Any:
    """Names and types of the columns, by all rows: where a part of the file does not go with the types so far, they are
    widened by what that part is."""
    import pyarrow as pa
    from pyarrow import csv

    n = 0
    with told_with(str(file)):
        types = _begun(file, parse, n)
        check_differ(types.names, str(file))
        while True:
            try:
                given = _converted(dict(zip(types.names, types.types, strict=True)))
                for batch in csv.open_csv(file, csv.ReadOptions(skip_rows_after_names=n), parse, given):
                    n += len(batch)
                break
            except pa.ArrowInvalid:
                pairs = zip(types.types, _begun(file, parse, n).types, strict=True)
                wider = pa.schema(list(zip(types.names, [_wider(a, b) for a, b in pairs], strict=True)))
                if wider == types:
                    raise
                types = wider
    for field in types:
        check_text(field, str(file))
    return types


def _begun(file: Path, parse: Any, n: int) -> Any:
    """Names and types by the part of the file that begins after n rows."""
    from pyarrow import csv

    return csv.open_csv(file, csv.ReadOptions(skip_rows_after_names=n), parse, _converted(None)).schema


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


def _converted(types: dict[str, Any] | None) -> Any:
    """An empty cell is missing, of words as of numbers."""
    from pyarrow import csv

    return csv.ConvertOptions(strings_can_be_null=True, column_types=types)
