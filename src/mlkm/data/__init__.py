"""What a fit sees of its data: distinct weighted rows, standardised."""

from .distinct import Rows, blocks, distinct_rows, midranks, plain_rows, tie_numbers
from .folds import folds_of, parts_elsewhere, splits_of
from .input_range import InputRange
from .inputs import LEVEL, NUMBER, TEXT, Inputs
from .scaling import Standardiser, check_near, standardiser
from .weights import checked_weights, given_weights, scale_of

__all__ = [
    "LEVEL",
    "NUMBER",
    "TEXT",
    "InputRange",
    "Inputs",
    "Rows",
    "Standardiser",
    "blocks",
    "check_near",
    "checked_weights",
    "distinct_rows",
    "folds_of",
    "given_weights",
    "midranks",
    "parts_elsewhere",
    "plain_rows",
    "scale_of",
    "splits_of",
    "standardiser",
    "tie_numbers",
]
