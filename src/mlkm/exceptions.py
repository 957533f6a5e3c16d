"""The warnings of this package, to be told apart by their types.

>>> import warnings
>>> from mlkm.exceptions import NoSignalWarning
>>> warnings.simplefilter("ignore", NoSignalWarning)
"""

import contextlib
import inspect
import warnings
from pathlib import Path

import sklearn

__all__ = ["NoSignalWarning", "OutsideWarning", "warn"]

# files that are skipped in the stack: this package, scikit-learn's callbacks around a fit, and context managers
_PASSED = str(Path(__file__).parent), str(Path(sklearn.__file__).parent / "callback"), contextlib.__file__


class NoSignalWarning(UserWarning):
    """A fit predicts rows that were left out no better than their mean does."""


class OutsideWarning(UserWarning):
    """Intervals were asked for where there are no training rows."""


def warn(words: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the line that called this package."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_back is not None and frame.f_code.co_filename.startswith(_PASSED):
        frame, level = frame.f_back, level + 1
    warnings.warn(words, category, stacklevel=level)
