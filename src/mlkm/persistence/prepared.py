"""A model as it is written: a copy in which equal arrays are one array and, where asked, without training rows.

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

_CALLBACKS = "_skl_callbacks"  # of scikit-learn
_COLUMNS = "sklearn.compose._column_transformer"
_ROWS = "_rows_of_fit"  # where a kernel machine keeps its training rows


def prepared(model: Any, keep_rows: bool) -> Any:
    """The copy, by a pickle in memory that holds no arrays."""
    distinct: dict[str, NDArray[Any]] = {}
    buffer = io.BytesIO()
    _Writer(buffer, distinct, keep_rows).dump(model)
    buffer.seek(0)
    return _Reader(buffer, distinct).load()


class _Writer(pickle.Pickler):
    """Arrays go to `distinct`, by their content."""

    def __init__(self, buffer: io.BytesIO, distinct: dict[str, NDArray[Any]], keep_rows: bool) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self.distinct, self.keep_rows = distinct, keep_rows

    def persistent_id(self, obj: Any) -> str | None:
        if type(obj) is not np.ndarray or obj.dtype.hasobject:
            return None
        array = obj if obj.flags.forc else obj.copy(order="K")  # products may depend on the order in memory: keep it
        key = _content(array)
        self.distinct.setdefault(key, array)
        return key

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, KernelMachine):
            left = {_CALLBACKS} if self.keep_rows else {_CALLBACKS, _ROWS}  # who listened is not of the model
            state = {name: part for name, part in obj.__getstate__().items() if name not in left}
            return _with_state(obj, state | {"verbose": 0} if callable(state.get("verbose")) else state)
        if isinstance(obj, CountVectorizer) and hasattr(obj, "vocabulary_"):
            # Places that are numbers of numpy's own would be a file each.
            places = {run: int(place) for run, place in obj.vocabulary_.items()}
            return _with_state(obj, {**obj.__getstate__(), "vocabulary_": places})
        if isinstance(obj, UserList) and type(obj).__module__ == _COLUMNS:
            # scikit-learn 1.6 keeps the columns that are left in a type of its own; as a list, newer versions read it.
            return list, (obj.data,)
        return NotImplemented


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
