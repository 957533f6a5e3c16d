"""How far predictions are from the outcomes of held-out rows, beside simple models fitted to the same training rows.

The simple models see the inputs that the fit made of the table: numbers, levels of categories, coordinates of texts.
"""

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from .._types import Array
from ..data import Inputs, Rows

_PENALTIES = np.logspace(-2, 4, 13)  # of ridge on standardised inputs, times the number of rows over a thousand
_ONE_EACH = 50  # levels of a category that ridge has a column for; the others share none
_BINS = 254  # levels that boosting tells apart, at most


@dataclass(frozen=True)
class Score:
    """One model on the held-out rows; `seconds` where its fit was timed."""

    name: str
    rmse: float
    mae: float
    r2: float
    seconds: float | None = None


@dataclass(frozen=True)
class Training:
    """Training rows in inputs of the fit, their targets in units of y, and the held-out rows in the same inputs."""

    rows: Rows
    targets: Array
    held_out: Array


def score(name: str, y: Array, prediction: Array, seconds: float | None = None) -> Score:
    error = y - prediction
    spread = float(np.mean((y - y.mean()) ** 2))
    mse = float(np.mean(error**2))
    return Score(name, mse**0.5, float(np.abs(error).mean()), 1 - mse / spread if spread else float("nan"), seconds)


def baselines(training: Training, y: Array, seed: int = 0) -> list[Score]:
    """The mean, ridge regression and scikit-learn's gradient boosting."""
    # Here, since `import mlkm` need not wait for them.
    from sklearn.dummy import DummyRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV

    inputs = training.rows.inputs
    flat, flat_new = _flattened(training, inputs)
    few, few_new = _few_levels(training, inputs)
    boosting = HistGradientBoostingRegressor(categorical_features=np.flatnonzero(inputs.levels), random_state=seed)
    ridge = RidgeCV(_PENALTIES * max(1.0, len(flat) / 1000))
    return [
        _fitted("gradient boosting", boosting, few, few_new, training, y),
        _fitted("ridge regression", ridge, flat, flat_new, training, y),
        _fitted("mean", DummyRegressor(), flat, flat_new, training, y),
    ]


def _fitted(name: str, model: Any, X: Array, X_new: Array, training: Training, y: Array) -> Score:
    begin = perf_counter()
    with threadpool_limits(1, user_api="openmp"):  # of boosting: on a busy machine its threads wait for each other
        model.fit(X, training.targets, sample_weight=training.rows.weights)
        prediction = np.asarray(model.predict(X_new))
    return score(name, y, prediction, perf_counter() - begin)


def _by_count(levels: Array, most: int) -> Array:
    """The most frequent levels."""
    own, counts = np.unique(levels, return_counts=True)
    return np.asarray(own[np.argsort(-counts, kind="stable")[:most]])


def _flattened(training: Training, inputs: Inputs) -> tuple[Array, Array]:
    """A column of zeros and ones for every level."""
    both = []
    wanted = [_by_count(training.rows.X[:, j], _ONE_EACH) for j in np.flatnonzero(inputs.levels)]
    for X in (training.rows.X, training.held_out):
        ones = [(X[:, [j]] == own).astype(float) for j, own in zip(np.flatnonzero(inputs.levels), wanted, strict=True)]
        both.append(np.hstack([X[:, ~inputs.levels], *ones]))
    return both[0], both[1]


def _few_levels(training: Training, inputs: Inputs) -> tuple[Array, Array]:
    """Levels as places among the most frequent, missing where they are not among them."""
    old, new = training.rows.X.copy(), training.held_out.copy()
    for j in np.flatnonzero(inputs.levels):
        own = np.sort(_by_count(old[:, j], _BINS))
        for X in (old, new):
            at = np.clip(np.searchsorted(own, X[:, j]), 0, len(own) - 1)
            X[:, j] = np.where(own[at] == X[:, j], at, np.nan)
    return old, new
