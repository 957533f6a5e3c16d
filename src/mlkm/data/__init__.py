"""What a fit sees of its data: tables, rows in blocks, and their preparation to distinct, standardised rows."""

from .distinct import distinct_rows, midranks, plain_rows, tie_numbers
from .folds import as_splitter, splits_of
from .input_range import InputRange
from .inputs import LEVEL, NUMBER, TEXT, Inputs, checked_weights, given_weights, scale_of
from .rows import Block, Rows, Workers, blocks
from .scaling import Standardiser, check_near, standardiser

__all__ = [
    "LEVEL",
    "NUMBER",
    "TEXT",
    "Block",
    "InputRange",
    "Inputs",
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
