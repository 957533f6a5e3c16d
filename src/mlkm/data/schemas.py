"""Names and types of the columns of a table in several files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any


def schemas_of(dataset: Any) -> list[Any]:
    """That of a dataset, which has what the names of folders say, and those of its files."""
    import pyarrow as pa

    schemas = [dataset.schema]
    for fragment in dataset.get_fragments():
        with suppress(pa.ArrowException, OSError):  # named when it is read
            check_differ(fragment.physical_schema.names, fragment.path)
            schemas.append(fragment.physical_schema)
    return schemas


@contextmanager
def told_with(where: str) -> Iterator[None]:
    """Problems of PyArrow in one line that begins with the name of the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise ValueError(f"{where} could not be read: {str(problem).splitlines()[0].rstrip(' :.')}.") from problem


def fragments_of(dataset: Any) -> Any:
    """The files of a dataset, or None where it is filtered: then it has rows, but no files with all of theirs."""
    try:
        return dataset.get_fragments()
    except ValueError:
        return None


def unified(schemas: Sequence[Any]) -> Any:
    """One type per column that holds the values of all files: numbers of any size, and nothing, are alike. A file that
    does not go with those before it is named when it is read."""
    import pyarrow as pa

    types: dict[str, Any] = {}
    for schema in schemas:
        for name, own in zip(schema.names, schema.types, strict=True):
            known = types.setdefault(name, own)
            if known != own:
                types[name] = joined([known, own]) or known
    return pa.schema(list(types.items()))


def index_of(schemas: Sequence[Any]) -> set[str]:
    """The columns that were the index of a pandas frame: labels of the rows, often their order, and no inputs."""
    told = [(schema.pandas_metadata or {}).get("index_columns", ()) for schema in schemas]
    return {name for own in told for name in own if isinstance(name, str)}  # a range is told by a dict, and no column


def joined(types: Sequence[Any]) -> Any:
    """The type that holds the values of all of these, or None."""
    import pyarrow as pa

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


def check_goes_with(own: Any, wanted: Any, where: str) -> None:
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


def check_text(field: Any, where: str) -> None:
    """Refuse a column of bytes."""
    import pyarrow as pa

    own = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_binary(own) or pa.types.is_large_binary(own) or pa.types.is_fixed_size_binary(own):
        raise ValueError(f"Column {field.name!r} of {where} is not text in UTF-8; save it as UTF-8.")


def _alike(own: Any, wanted: Any) -> bool:
    """Whether values of one type can be read as another."""
    import pyarrow as pa

    if pa.types.is_dictionary(own) and pa.types.is_dictionary(wanted) and own.value_type == wanted.value_type:
        return True
    alike = any(of(own) and of(wanted) for of in (_is_words, _is_number, pa.types.is_timestamp))
    return own == wanted or bool(pa.types.is_null(own)) or alike


def _is_words(kind: Any) -> bool:
    """Text, or categories that are text."""
    import pyarrow as pa

    own = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(own) or pa.types.is_large_string(own))


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
