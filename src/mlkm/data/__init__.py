"""The data of a fit: tables, rows in blocks, and their preparation to distinct, standardised rows."""

from ..runtime.checks import as_splitter
from .folds import checked_weights, given_weights, scale_of, splits_of
from .preparation import GivenRows, InputRange, Standardiser, check_near, standardiser
from .rows import Block, RowFunction, Rows, Workers, blocks
from .scan import distinct_rows, midranks, plain_rows, tie_numbers
from .tables.columns import LEVEL, NUMBER, TEXT, Inputs

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
