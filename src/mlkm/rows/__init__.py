"""What a fit sees of its data: distinct weighted rows, standardised."""

from .distinct import Rows, distinct_rows, plain_rows
from .folds import folds_of
from .scaling import Standardiser, standardiser
from .weights import checked_weights

__all__ = [
    "Rows",
    "Standardiser",
    "blocks",
    "checked_weights",
    "distinct_rows",
    "folds_of",
    "plain_rows",
    "standardiser",
]
