"""What a fit sees of its data: distinct weighted rows, standardised."""

from .distinct import Rows, blocks, distinct_rows, midranks, plain_rows, tie_numbers
from .folds import as_splitter, splits_of
from .input_range import Fence, fence_of, fit_fence
from .inputs import LEVEL, NUMBER, TEXT, Inputs
from .scaling import Standardiser, check_near, standardiser
from .weights import checked_weights, given_weights, scale_of

__all__ = [
    "LEVEL",
    "NUMBER",
    "TEXT",
    "Fence",
    "Inputs",
    "Rows",
    "Standardiser",
    "as_splitter",
    "blocks",
    "check_near",
    "checked_weights",
    "distinct_rows",
    "fence_of",
    "fit_fence",
    "given_weights",
    "midranks",
    "plain_rows",
    "scale_of",
    "splits_of",
    "standardiser",
    "tie_numbers",
]
