"""The classes of this package that a model file may hold: records by plain names, and estimators by public names.

Fields of records are checked against their annotations (`mlkm.runtime.records`), and fitted attributes of estimators
against the tables below. There are also a few classes of scikit-learn (`mlkm.files.others`), whose parameters are plain
values: neither functions, nor names of files, nor objects, unless a table says so. Other classes are allowed only if
`trusted` names them.
"""

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .. import estimators, kernels, random_features
from .._types import BoolArray, IntArray
from ..conformal import bands, calibration, online, quantile, rank, regressor, resampling, scores
from ..data import level_encoding, preparation, rows
from ..data.tables import columns, reading
from ..fit import fitted
from ..model import features, machine, prior, scales, sum_kernel, transforms
from ..runtime.records import RefusedError, check_values, record
from ..search import kernel_search, policy
from ..solve import closed_form, gradient, projection, stack, sums, uncertainty
from .archive import PLAIN
from .others import ALWAYS, INVARIANTS, OTHERS, Plain

# Dataclasses and named tuples, with the shapes of their arrays: axes of the same letter have the same length.
_DATA: dict[type, dict[str, str]] = {
    resampling.BootstrapBand: {},
    bands.CalibrationScores: {"below": "nk", "above": "nk"},
    bands.CalibrationWeights: {"weights": "n"},
    columns.CategoryColumn: {},
    kernels.Cauchy: {},
    resampling.CrossBand: {"fit_of_row": "n"},
    columns.DateColumn: {},
    features.FeatureMap: {"frequencies": "dD", "phases": "D", "amplitudes": "D"},
    fitted.Fit: {},
    scores.FittedRegressor: {},
    kernels.Gaussian: {},
    scales.Geometric: {},
    preparation.InputRange: dict.fromkeys(("low", "high", "clip_low", "clip_high", "numbers"), "d"),
    columns.Inputs: {"kinds": "d", "owners": "d"},
    features.JointMap: {},
    resampling.JackknifeBand: {"fit_of_row": "n", "least": "k"},
    kernels.Laplacian: {},
    machine.LastInputs: {},
    kernel_search.LearnedKernel: {},
    level_encoding.LevelNumbers: {},
    level_encoding.LevelValues: {"values": "Lr", "unseen": "r"},
    transforms.BackTransform: {"knots": "qk", "means": "qk", "deviations": "qk"},
    machine.Machine: {},
    kernels.Matern: {},
    columns.NumberColumn: {},
    prior.Part: {},
    preparation.Preparation: {"low": "k", "high": "k"},
    transforms.TargetTransform: dict.fromkeys(("power", "centre", "spread", "mean", "sd", "low", "high"), "k"),
    prior.Prior: {"linear": "d"},
    quantile.QuantileBand: {"lower": "pk", "upper": "pk"},
    features.RankTransform: {"knots": "d", "values": "d"},
    columns.Reader: {"columns": "d", "names": "d"},
    uncertainty.RidgeUncertainty: {"error": "k", "loo_error": "k"},
    stack.RowFacts: {"reach": "k"},
    rows.Block: {"X": "nd", "Y": "nk", "weights": "n", "repeats": "n", "fold": "n"},
    scores.ScoreSettings: {},
    policy.Seen: {},
    scores.ScoredRegressor: {},
    calibration.SelectedBand: {},
    bands.SplitBand: {},
    stack.StackUncertainty: {"loo_error": "k"},
    preparation.Standardiser: {"mean": "d", "sd": "d", "rounded": "d"},
    sum_kernel.SumKernel: {"linear": "d"},
    prior.SumPart: {"points": "Md", "factor": "MM"},
    sums.Sums: {"shift": "p", "F": "p", "Y": "k", "FF": "pp", "FY": "pk", "YY": "k"},
    sum_kernel.Term: {},
    columns.TextBasis: {"runs": "r", "rarity": "r", "directions": "qr"},
    sum_kernel.TransformedKernel: {},
    online.WaitingRow: {},
}

_FACTS: dict[str, object] = {"fit_facts_": dict[str, Plain]}  # what the command line writes down
_MACHINE = {**ALWAYS, **_FACTS, "fitted_": fitted.Fit}

# Estimators and solvers of this package, with their fitted attributes. Parameters of constructors may be any value
# that can be made.
PACKAGE_CLASSES: dict[type, dict[str, object]] = {
    estimators.MLKMRegressor: _MACHINE,
    estimators.RKMRegressor: _MACHINE,
    estimators.RandomFeatureRidge: _MACHINE,
    random_features.RandomFeatures: {**ALWAYS, "map_": features.FeatureMap},
    reading.TableEncoder: {**ALWAYS, "reader_": columns.Reader},
    regressor.ConformalRegressor: {
        **ALWAYS,
        **_FACTS,
        "_band": bands.Band,
        "_fitted": scores.FittedRegressor | None,
        "_single_output": bool,
        "estimator_": Any,
        "n_calibration_": int,
    },
    online.OnlineConformal: {
        **ALWAYS,
        "_thresholds": list[rank.Threshold],
        "_fitted": scores.FittedRegressor | None,
        "_n_predicted": int,
        "_scored": scores.ScoredRegressor,
        "_waiting": dict[int, online.WaitingRow],
        "estimator_": Any,
    },
    rank.Threshold: {
        **dict.fromkeys(("alpha", "level", "decay", "step", "least", "unit", "swing", "last", "value"), float),
        "adaptive": bool,
        "recent": tuple[list[float], int | None],
        "ordered": list[float],
        "n_seen": int,
        "t": int,
    },
    gradient.GradientDescent: {},
    closed_form.Kernels: {},
    closed_form.Ridge: {},
    projection.VariableProjection: {},
}

_MOST_COLUMNS = 10**6
_VALID: dict[type, Callable[..., bool]] = {
    resampling.CrossBand: lambda band: (
        _places(band.fit_of_row, len(band.fits)) and len(band.fit_of_row) == len(band.scores)
    ),
    columns.Inputs: lambda inputs: _places(inputs.kinds, 3) and _places(inputs.owners, _MOST_COLUMNS),
    resampling.JackknifeBand: lambda band: (
        _places(band.fit_of_row, len(band.scores)) and len(band.fit_of_row) == len(band.scores)
    ),
    level_encoding.LevelNumbers: lambda numbers: len(numbers.encoders) == np.count_nonzero(numbers.inputs.levels),
    machine.Machine: lambda machine: len(machine.maps) == len(machine.layers) >= 1 and all(machine.layers),
    kernels.Matern: lambda kernel: kernel.nu > 0,
    uncertainty.RidgeUncertainty: lambda fit: (
        len(fit.features) == len(fit.sums) and (fit.rows is not None or bool(fit.sums))
    ),
    features.RankTransform: lambda ranks: [k.shape for k in ranks.knots] == [v.shape for v in ranks.values],
}

for _cls, _shapes in _DATA.items():
    _words = re.sub(r"(?<!^)(?=[A-Z])", " ", _cls.__name__.lstrip("_")).lower()
    record(_words, _VALID.get(_cls), **_shapes)(_cls)

# The names in files of the classes that need no trust, and the classes of these names.
NAMES = {cls: cls.__name__ for cls in PACKAGE_CLASSES} | {cls: f"{cls.__module__}.{cls.__qualname__}" for cls in OTHERS}
CLASSES = {name: cls for cls, name in NAMES.items()}
NUMBER_TYPES: dict[str, type] = {"float": float, "int": int} | {one.type.__name__: one.type for one in PLAIN.values()}


def name_of(obj: Any) -> str:
    """Return the name by which a class or a function is imported and trusted."""
    return f"{getattr(obj, '__module__', None) or 'numpy'}.{getattr(obj, '__qualname__', obj.__name__)}"


def resolved(name: str) -> Any:
    """Return the class or function that is defined under this name, or None."""
    parts = name.split(".")
    for k in range(len(parts) - 1, 0, -1):
        try:
            obj: Any = import_module(".".join(parts[:k]))
        except ImportError:
            continue
        for part in parts[k:]:
            obj = getattr(obj, part, None)
        return obj if hasattr(obj, "__name__") and name_of(obj) == name else None
    return None


def check_state(cls: type, state: Any) -> None:
    """Refuse attributes that no object of this class on the list has."""
    check_values(cls.__name__, state, *_hints(cls))


def check_consistent(obj: object) -> None:
    """Refuse an object whose attributes, though each is allowed, are inconsistent with each other."""
    if type(obj) in INVARIANTS and not INVARIANTS[type(obj)](obj):
        raise RefusedError(f"the attributes of {type(obj).__name__} are inconsistent with each other")


@cache
def _hints(cls: type) -> tuple[dict[str, object], set[str]]:
    """Return the type hints of all attributes, and the attributes that are required."""
    parameters = signature(cls).parameters if issubclass(cls, BaseEstimator) or cls in OTHERS else ()
    if cls in PACKAGE_CLASSES:
        return dict.fromkeys(parameters, Any) | PACKAGE_CLASSES[cls], set(parameters or PACKAGE_CLASSES[cls])
    return dict.fromkeys(parameters, Plain) | OTHERS[cls], set(parameters)


def made(cls: type, state: Any) -> object:
    """Check a state and return an object of a class on the list with it."""
    check_state(cls, state)
    obj: Any = object.__new__(cls)
    if hasattr(obj, "__setstate__"):
        obj.__setstate__(state)
    else:
        vars(obj).update(state)
    check_consistent(obj)
    return obj


def _places(array: IntArray | BoolArray, n: int) -> bool:
    """Return whether all entries are indices from 0 to n - 1."""
    return bool(array.size == 0 or (array.min() >= 0 and array.max() < n))


def _judges(band: resampling.CrossBand | resampling.JackknifeBand, n_fits: int) -> bool:
    return _places(band.fit_of_row, n_fits) and len(band.fit_of_row) == len(band.scores)
