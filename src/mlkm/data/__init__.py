"""The data of a fit: tables, rows in blocks, and their preparation to distinct, standardised rows."""

from ..runtime.checks import as_splitter
from .folds import splits_of
from .rows import Block, GivenRows, RowFunction, Rows, Workers, blocks
from .scaling import (
    LEVEL,
    NUMBER,
    TEXT,
    InputRange,
    Inputs,
    Standardiser,
    check_near,
    checked_weights,
    given_weights,
    scale_of,
    standardiser,
)
from .scan import distinct_rows, midranks, plain_rows, tie_numbers

__all__ = [
    "LEVEL",
    "NUMBER",
    "TEXT",
    "Block",
    "GivenRows",
    "InputRange",
    "Inputs",
    "RowFunction",
    "Rows",
    "Standardiser",
    "Workers",
    "as_splitter",
    "blocks",
    "check_near",
    "checked_weights",
    "distinct_rows",
    "given_weights",
    "midranks",
    "plain_rows",
    "scale_of",
    "splits_of",
    "standardiser",
    "tie_numbers",
]
