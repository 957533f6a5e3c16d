"""A model as it is written: a copy in which equal arrays are one array and, where asked, without training rows but for
what standard deviations need (`mlkm.variance.kept`).

The points of all kernels of a fit are the same rows, and arrays that are one object are written once. The copy shares
its arrays with the model, and the model stays as it is.
"""

import io
import pickle
from collections import UserList
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from ..base import KernelMachine
from ..conformal.inside import last_step
from ..conformal.leave_one_out import LeaveOneOut
from ..conformal.scores import Scored
from ..variance import kept_without_rows

_CALLBACKS = "_skl_callbacks"  # of scikit-learn
_COLUMNS = "sklearn.compose._column_transformer"
_ROWS = "_rows_of_fit"  # where a kernel machine keeps its training rows


class NeedsRowsError(ValueError):
    """A band would have no intervals without the training rows."""


def prepared(model: Any, keep_rows: bool) -> tuple[Any, set[str]]:
    """The copy, by a pickle in memory that holds no arrays, and the regressors in it that lose their standard
    deviations."""
    distinct: dict[str, NDArray[Any]] = {}
    buffer = io.BytesIO()
    writer = _Writer(buffer, distinct, keep_rows)
    writer.dump(model)
    buffer.seek(0)
    return _Reader(buffer, distinct).load(), writer.without_std


class _Writer(pickle.Pickler):
    """Arrays go to `distinct`, by their content."""

    def __init__(self, buffer: io.BytesIO, distinct: dict[str, NDArray[Any]], keep_rows: bool) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self.distinct, self.keep_rows = distinct, keep_rows
        self.without_std: set[str] = set()

    def persistent_id(self, obj: Any) -> str | None:
        if type(obj) is not np.ndarray or obj.dtype.hasobject:
            return None
        array = obj if obj.flags.forc else obj.copy(order="K")  # products may depend on the order in memory: keep it
        key = _content(array)
        self.distinct.setdefault(key, array)
        return key

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, KernelMachine):
            state = obj.__getstate__()
            state.pop(_CALLBACKS, None)  # who listened is not of the model
            if not self.keep_rows and _ROWS in state:
                self._leave_rows(obj, state)
            return _with_state(obj, state | {"verbose": 0} if callable(state.get("verbose")) else state)
        if not self.keep_rows and isinstance(obj, (Scored, LeaveOneOut)):
            _check_band(obj)
        if isinstance(obj, CountVectorizer) and hasattr(obj, "vocabulary_"):
            # Places that are numbers of numpy's own would be a file each.
            places = {run: int(place) for run, place in obj.vocabulary_.items()}
            return _with_state(obj, {**obj.__getstate__(), "vocabulary_": places})
        if isinstance(obj, UserList) and type(obj).__module__ == _COLUMNS:
            # scikit-learn 1.6 keeps the columns that are left in a type of its own; as a list, newer versions read it.
            return list, (obj.data,)
        return NotImplemented

    def _leave_rows(self, model: KernelMachine, state: dict[str, Any]) -> None:
        left = kept_without_rows(model.machines_, *state.pop(_ROWS))
        if left is None:
            self.without_std.add(type(model).__name__)
        else:
            state[_ROWS] = left


def _check_band(band: Scored | LeaveOneOut) -> None:
    model = last_step(band.model)
    name, words = type(model).__name__, "needs the training rows for its intervals: save it with keep_rows=True, or"
    if isinstance(band, LeaveOneOut):
        raise NeedsRowsError(f"A band with cv='loo' {words} fit it with folds, as in cv=5.")
    if band.score != "variance" or not isinstance(model, KernelMachine) or not hasattr(model, _ROWS):
        return
    if kept_without_rows(model.machines_, *model._rows_of_fit) is None:
        raise NeedsRowsError(
            f"A band by the standard deviation of this {name} {words} fit it with score='absolute', 'residual' or"
            " 'quantile'."
        )


class _Reader(pickle.Unpickler):
    """Arrays come from `distinct`."""

    def __init__(self, buffer: io.BytesIO, distinct: dict[str, NDArray[Any]]) -> None:
        super().__init__(buffer)
        self.distinct = distinct

    def persistent_load(self, key: str) -> NDArray[Any]:
        return self.distinct[key]


def _with_state(obj: Any, state: dict[str, Any]) -> tuple[Any, ...]:
    """How a copy of an object is made, with another state."""
    return object.__new__, (type(obj),), state


def _content(array: NDArray[Any]) -> str:
    """Equal for arrays of the same numbers in the same type, shape and order in memory."""
    rows_first = array.flags.c_contiguous
    numbers = sha256(array.tobytes("C" if rows_first else "F")).hexdigest()
    return f"{array.dtype.str} {array.shape} {rows_first} {numbers}"
