"""The data of a fit: tables, rows in blocks, and their preparation to distinct, standardised rows."""

from ..runtime.checks import as_splitter
from .folds import checked_weights, given_weights, splits_of
from .preparation import GivenRows, InputRange, Standardiser, standardiser
from .rows import Block, Rows, Workers, blocks
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
    "Rows",
    "Standardiser",
    "Workers",
    "as_splitter",
    "blocks",
    "checked_weights",
    "distinct_rows",
    "given_weights",
    "midranks",
    "plain_rows",
    "splits_of",
    "standardiser",
    "tie_numbers",
]
