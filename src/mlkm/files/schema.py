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

from .._types import BoolArray, IntArray
from ..conformal.bands import Band, CalibrationScores, CalibrationWeights, SplitBand
from ..conformal.calibration import SelectedBand
from ..conformal.online import OnlineConformal, WaitingRow
from ..conformal.quantile import QuantileBand
from ..conformal.rank import Threshold
from ..conformal.regressor import ConformalRegressor
from ..conformal.resampling import BootstrapBand, CrossBand, JackknifeBand
from ..conformal.scores import FittedRegressor, ScoredRegressor, ScoreSettings
from ..data import Block
from ..data.level_encoding import LevelNumbers, LevelValues
from ..data.preparation import Preparation
from ..data.scaling import InputRange, Inputs, Standardiser
from ..data.tables.columns import CategoryColumn, DateColumn, NumberColumn, TextBasis
from ..data.tables.reading import Reader, TableEncoder
from ..estimators import MLKMRegressor, RandomFeatureRidge, RKMRegressor
from ..fit.fitted import Fit
from ..kernels import Cauchy, Gaussian, Laplacian, Matern
from ..model.features import FeatureMap, JointMap
from ..model.kernel_maps import GaussianMap, LaplaceMap, LevelMap, LinearMap
from ..model.machine import LastInputs, Machine
from ..model.prior import Part, Prior, SumPart
from ..model.scales import Geometric
from ..model.sum_kernel import SumKernel, Term, TransformedKernel
from ..model.transforms import BackTransform, RankTransform, TargetTransform
from ..random_features import RandomFeatures
from ..runtime.records import RefusedError, check_values, record
from ..search.kernel_search import LearnedKernel
from ..search.policy import Seen
from ..solve.closed_form import Kernels, Ridge
from ..solve.gradient import GradientDescent
from ..solve.projection import VariableProjection
from ..solve.stack import RowFacts, StackUncertainty
from ..solve.sums import Sums
from ..solve.uncertainty import RidgeUncertainty
from .archive import PLAIN
from .others import ALWAYS, INVARIANTS, OTHERS, Plain

# Dataclasses and named tuples, with the shapes of their arrays: axes of the same letter have the same length.
_DATA: dict[type, dict[str, str]] = {
    BootstrapBand: {},
    CalibrationScores: {"below": "nk", "above": "nk"},
    CalibrationWeights: {"weights": "n"},
    CategoryColumn: {},
    Cauchy: {},
    CrossBand: {"fit_of_row": "n"},
    DateColumn: {},
    FeatureMap: {"frequencies": "dD", "phases": "D", "amplitudes": "D"},
    Fit: {},
    FittedRegressor: {},
    Gaussian: {},
    GaussianMap: {"points": "Md", "matrix": "rd", "unlike": "d", "texts": "qd"},
    Geometric: {},
    InputRange: dict.fromkeys(("low", "high", "clip_low", "clip_high", "numbers"), "d"),
    Inputs: {"kinds": "d", "owners": "d"},
    JointMap: {},
    JackknifeBand: {"fit_of_row": "n", "least": "k"},
    LaplaceMap: {"points": "Md", "relevance": "d", "unlike": "d", "texts": "qd"},
    Laplacian: {},
    LastInputs: {},
    LearnedKernel: {},
    LevelMap: {"points": "Md", "variances": "d"},
    LevelNumbers: {},
    LevelValues: {"values": "Lr", "unseen": "r"},
    LinearMap: {"slopes": "d"},
    BackTransform: {"knots": "qk", "means": "qk", "deviations": "qk"},
    Machine: {},
    Matern: {},
    NumberColumn: {},
    Part: {},
    Preparation: {"low": "k", "high": "k"},
    TargetTransform: dict.fromkeys(("power", "centre", "spread", "mean", "sd", "low", "high"), "k"),
    Prior: {"linear": "d"},
    QuantileBand: {"lower": "pk", "upper": "pk"},
    RankTransform: {"knots": "d", "values": "d"},
    Reader: {"columns": "d", "names": "d"},
    RidgeUncertainty: {"error": "k", "loo_error": "k"},
    RowFacts: {"reach": "k"},
    Block: {"X": "nd", "Y": "nk", "weights": "n", "repeats": "n", "fold": "n"},
    ScoreSettings: {},
    Seen: {},
    ScoredRegressor: {},
    SelectedBand: {},
    SplitBand: {},
    StackUncertainty: {"loo_error": "k"},
    Standardiser: {"mean": "d", "sd": "d", "rounded": "d"},
    SumKernel: {"linear": "d"},
    SumPart: {"points": "Md", "factor": "MM"},
    Sums: {"shift": "p", "F": "p", "Y": "k", "FF": "pp", "FY": "pk", "YY": "k"},
    Term: {},
    TextBasis: {"runs": "r", "rarity": "r", "directions": "qr"},
    TransformedKernel: {},
    WaitingRow: {},
}

_FACTS: dict[str, object] = {"fit_facts_": dict[str, Plain]}  # what the command line writes down
_MACHINE = {**ALWAYS, **_FACTS, "fitted_": Fit}

# Other classes, with their fitted attributes. Parameters of constructors may be any value that can be made.
_FITTED: dict[type, dict[str, object]] = {
    MLKMRegressor: _MACHINE,
    RKMRegressor: _MACHINE,
    RandomFeatureRidge: _MACHINE,
    RandomFeatures: {**ALWAYS, "map_": FeatureMap},
    TableEncoder: {**ALWAYS, "reader_": Reader},
    ConformalRegressor: {
        **ALWAYS,
        **_FACTS,
        "_band": Band,
        "_fitted": FittedRegressor | None,
        "_single_output": bool,
        "estimator_": Any,
        "n_calibration_": int,
    },
    OnlineConformal: {
        **ALWAYS,
        "_thresholds": list[Threshold],
        "_fitted": FittedRegressor | None,
        "_n_predicted": int,
        "_scored": ScoredRegressor,
        "_waiting": dict[int, WaitingRow],
        "estimator_": Any,
    },
    Threshold: {
        **dict.fromkeys(("alpha", "level", "decay", "step", "least", "unit", "swing", "last", "value"), float),
        "adaptive": bool,
        "recent": tuple[list[float], int | None],
        "ordered": list[float],
        "n_seen": int,
        "t": int,
    },
    **{solver: {} for solver in (GradientDescent, Kernels, Ridge, VariableProjection)},
}

_MOST_COLUMNS = 10**6
_VALID: dict[type, Callable[..., bool]] = {
    CrossBand: lambda band: _places(band.fit_of_row, len(band.fits)) and band.n_calibration == len(band.scores),
    Inputs: lambda inputs: _places(inputs.kinds, 3) and _places(inputs.owners, _MOST_COLUMNS),
    JackknifeBand: lambda band: _places(band.fit_of_row, band.n_calibration) and band.n_calibration == len(band.scores),
    LevelNumbers: lambda numbers: len(numbers.encoders) == np.count_nonzero(numbers.inputs.levels),
    Machine: lambda machine: len(machine.maps) == len(machine.layers) >= 1 and all(machine.layers),
    Matern: lambda kernel: kernel.nu > 0,
    RidgeUncertainty: lambda fit: len(fit.features) == len(fit.sums) and (fit.rows is not None or len(fit.sums) > 0),
    RankTransform: lambda ranks: [k.shape for k in ranks.knots] == [v.shape for v in ranks.values],
}

for _cls, _shapes in _DATA.items():
    _words = re.sub(r"(?<!^)(?=[A-Z])", " ", _cls.__name__.lstrip("_")).lower()
    record(_words, _VALID.get(_cls), **_shapes)(_cls)

_NAMES = {cls: cls.__name__ for cls in _FITTED} | {cls: f"{cls.__module__}.{cls.__qualname__}" for cls in OTHERS}
_CLASSES = {name: cls for cls, name in _NAMES.items()}
_TYPES: list[type] = [float, int, *(dtype.type for dtype in PLAIN.values())]
NUMBER_TYPES = {one.__name__: one for one in _TYPES}


def is_own(cls: type) -> bool:
    """Return whether a class is an estimator or a solver of this package."""
    return cls in _FITTED


def listed_name(cls: type) -> str | None:
    """Return the name of a class in files if it is on the list, else None."""
    return _NAMES.get(cls)


def class_named(name: str) -> type | None:
    """Return the class of this name if it is on the list, else None."""
    return _CLASSES.get(name)


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
    if cls in _FITTED:
        return dict.fromkeys(parameters, Any) | _FITTED[cls], set(parameters or _FITTED[cls])
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
