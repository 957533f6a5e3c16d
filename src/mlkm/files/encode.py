"""A model is written as a description of plain values and a list of arrays.

A description is a list of estimators, each with its name and state, and each after those that it holds: they are
referred to by their index in the list, and none can refer to itself. What a fit has found is written as records, by
plain names (`mlkm.runtime.records`). Equal arrays are written once, since the points of all kernels of a fit are the
same rows. With `keep_rows=False`, training rows are left out except for the values that standard deviations need
(`Uncertainty.without_rows`).
"""

import copyreg
from collections import UserList
from fractions import Fraction
from hashlib import sha256
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import KernelMachine
from ..conformal.resampling import JackknifeBand
from ..conformal.scores import ScoredRegressor
from ..conformal.wrapped_estimator import last_step
from ..runtime.records import RefusedError, is_record, to_record
from .archive import PLAIN, Json, is_plain
from .schema import NAMES, NUMBER_TYPES, PACKAGE_CLASSES, check_consistent, check_state, name_of, resolved

_CALLBACKS = "_skl_callbacks"  # the attribute in which scikit-learn keeps callbacks
_COLUMNS = "sklearn.compose._column_transformer"
_FIT = "fitted_"  # where a kernel machine has its fit


class NeedsRowsError(ValueError):
    """A band would have no intervals without the training rows."""


class Encoder:
    """The description and the arrays of one model, and the regressors in it that lose their standard deviations."""

    def __init__(self, model: object, keep_rows: bool) -> None:
        self.keep_rows = keep_rows
        self.objects: list[Json] = []
        self.arrays: list[NDArray[np.generic]] = []
        self.without_std: set[str] = set()
        self._places: dict[int, tuple[int | None, object]] = {}  # by identity, which is unique while the object is held
        self._contents: dict[str, int] = {}
        self.value(model)

    def value(self, obj: Any) -> Json:
        """Return the description of a value."""
        kind = type(obj)
        if obj is None or kind in (bool, int, float, str):
            return obj
        if kind is list:
            return [self.value(one) for one in obj]
        if kind is tuple:
            return {"tuple": [self.value(one) for one in obj]}
        if kind is dict:
            return {"dict": [[self.value(key), self.value(one)] for key, one in obj.items()]}
        if kind is slice:
            return {"slice": [self.value(one) for one in (obj.start, obj.stop, obj.step)]}
        if kind is Fraction:
            return {"fraction": [obj.numerator, obj.denominator]}
        if kind is np.str_:
            return str(obj)
        if kind is np.ndarray:
            return self._array(obj)
        if isinstance(obj, np.generic) and obj.dtype.str in PLAIN:
            return {"number": [obj.dtype.str, obj.item()]}
        if isinstance(obj, np.dtype):
            return {"dtype": obj.str}
        if kind is np.random.RandomState:
            return {"random": [self.value(one) for one in obj.get_state(legacy=True)]}
        if kind is bytes:
            return {"bytes": self._array(np.frombuffer(obj, np.uint8))}
        if isinstance(obj, (type, FunctionType, BuiltinFunctionType, np.ufunc)):
            return self._name(obj)
        if isinstance(obj, UserList) and kind.__module__ == _COLUMNS:
            # scikit-learn 1.6 has the remaining columns in a private list type; newer versions read a plain list.
            return self.value(obj.data)
        if is_record(obj):
            return self._record(obj)
        return {"object": self._place(obj)}

    def _record(self, obj: object) -> Json:
        if not self.keep_rows and isinstance(obj, (ScoredRegressor, JackknifeBand)):
            _check_band(obj)
        name, values = to_record(obj)
        return {"record": [name, {key: self.value(one) for key, one in values.items()}]}

    def _array(self, array: NDArray[np.generic]) -> Json:
        """Describe an array by its number in the archive, where equal arrays are stored once."""
        if array.dtype.hasobject:
            return {"objects": [list(array.shape), [self.value(one) for one in array.ravel()]]}
        if array.dtype.names is not None:
            return self._records(array)
        array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        if not is_plain(array.dtype):
            raise RefusedError(f"an array of type {array.dtype}")
        array = array if array.flags.forc else array.copy(order="K")  # products may depend on the order in memory
        place = self._contents.setdefault(_content(array), len(self.arrays))
        if place == len(self.arrays):
            self.arrays.append(array)
        return {"array": place}

    def _records(self, array: NDArray[np.generic]) -> Json:
        """Describe records, such as nodes of trees, by the names, types and offsets of their fields and their bytes."""
        fields = [(name, form.str, offset) for name, (form, offset, *_) in dict(array.dtype.fields or {}).items()]
        if any(form not in PLAIN for _, form, _ in fields):
            raise RefusedError(f"an array of type {array.dtype}")
        raw = np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.dtype.itemsize)
        return {"records": [[list(column) for column in zip(*fields, strict=True)], self._array(raw)]}

    def _name(self, obj: Any) -> Json:
        """Describe a class or a function by the name under which it can be imported."""
        if obj in NUMBER_TYPES.values():
            return {"number_type": obj.__name__}
        name = name_of(obj)
        if resolved(name) is not obj:
            raise RefusedError(f"{name}, which cannot be imported by its name")
        return {"name": name}

    def _place(self, obj: object) -> int:
        """Return the index of an object in the description, which is written at the first visit."""
        if id(obj) not in self._places:
            self._places[id(obj)] = (None, obj)
            self.objects.append(self._node(obj))
            self._places[id(obj)] = (len(self.objects) - 1, obj)
        place, _ = self._places[id(obj)]
        if place is None:
            raise RefusedError(f"{type(obj).__name__}, which refers to itself")
        return place

    def _node(self, obj: object) -> Json:
        """Describe an object by its class and state, where these are on the list, else as a pickle would."""
        cls = type(obj)
        if cls not in NAMES:
            return self._foreign(obj)
        state = self._without_rows(obj, obj.__getstate__() or {})
        try:
            check_state(cls, state)
            check_consistent(obj)
        except RefusedError:
            if cls in PACKAGE_CLASSES:
                raise
            return self._foreign(obj)  # `load` makes it if its class is trusted
        return {"make": NAMES[cls], "state": self.value(state)}

    def _foreign(self, obj: object) -> Json:
        """Describe an object of another package by the parts that a pickle would have."""
        reduce = copyreg.dispatch_table.get(type(obj))
        parts = reduce(obj) if reduce else obj.__reduce_ex__(2)
        if not isinstance(parts, tuple):
            raise RefusedError(f"{name_of(type(obj))}")
        make, arguments, state, items, pairs = (*parts, None, None, None)[:5]
        key = "call"
        if make is copyreg.__newobj__:  # type: ignore[attr-defined]
            key, (make, *arguments) = "make", arguments
        return {
            key: self._name(make)["name"],
            "arguments": [self.value(one) for one in arguments],
            "state": self.value(self._without_rows(obj, state)),
            "items": self.value(None if items is None else list(items)),
            "pairs": self.value(None if pairs is None else [tuple(pair) for pair in pairs]),
        }

    def _without_rows(self, obj: object, state: Any) -> Any:
        """Return the state of a kernel machine without callbacks and, with `keep_rows=False`, without its rows."""
        if not isinstance(obj, KernelMachine):
            return state
        state = {key: one for key, one in state.items() if key != _CALLBACKS}
        if callable(state.get("verbose")):
            state["verbose"] = 0
        if not self.keep_rows and _FIT in state:
            state[_FIT] = obj.fitted_.without_rows()
            if state[_FIT].uncertainty is None and obj.fitted_.uncertainty is not None:
                self.without_std.add(type(obj).__name__)
        return state


def _check_band(band: ScoredRegressor | JackknifeBand) -> None:
    """Refuse to write a band whose intervals need the training rows without them."""
    model = last_step(band.model)
    name, words = type(model).__name__, "needs the training rows for its intervals: save it with keep_rows=True, or"
    if isinstance(band, JackknifeBand):
        raise NeedsRowsError(f"A band with cv='loo' {words} fit it with folds, as in cv=5.")
    if band.score != "variance" or not isinstance(model, KernelMachine) or model.fitted_.uncertainty is None:
        return
    if model.fitted_.without_rows().uncertainty is None:
        raise NeedsRowsError(
            f"A band by the standard deviation of this {name} {words} fit it with score='absolute', 'residual' or"
            " 'quantile'."
        )


def _content(array: NDArray[np.generic]) -> str:
    """Return a key that is equal for arrays of the same numbers in the same type, shape and order in memory."""
    rows_first = array.flags.c_contiguous
    numbers = sha256(array.tobytes("C" if rows_first else "F")).hexdigest()
    return f"{array.dtype.str} {array.shape} {rows_first} {numbers}"
