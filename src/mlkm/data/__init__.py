"""The data of a fit: tables, rows in blocks, and their preparation to distinct, standardised rows."""

from .distinct import distinct_rows, midranks, plain_rows, tie_numbers
from .inputs import LEVEL, NUMBER, TEXT, Inputs, checked_weights, given_weights, scale_of
from .rows import Block, GivenRows, RowFunction, Rows, Workers, blocks
from .scaling import InputRange, Standardiser, check_near, standardiser
from .training import as_splitter, splits_of

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
