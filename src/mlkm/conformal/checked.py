"""A band that is judged by its own calibration rows: each gets the interval that others would give it.

The rows are cut into folds. The threshold for the rows of a fold comes from the scores of rows outside it, so that no
outcome has a say in its own interval, and the model has seen none of them. Such an interval is that of a band with a
few calibration rows less. The model is asked once for both.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from .._types import Array, IntArray
from ..runtime.checks import as_targets
from ..runtime.levels import exact_levels
from .kept import to_calibrate
from .regressor import ConformalRegressor
from .request import Request
from .scores import columns, settle
from .split import Split


def conformalize_checked(band: ConformalRegressor, X: Any, y: Any, folds: Iterable[tuple[IntArray, IntArray]]) -> Array:
    """Calibrate a band of one level around a fitted regressor of one output, as `conformalize(X, y)` does, and give
    intervals (n, 2) at the same rows: of every fold (others, own) the rows `own` by the scores of `others`; NaN where
    no fold asks."""
    if band.method != "split":
        raise ValueError(f"Calibration rows judge a band of method='split'; got method={band.method!r}.")
    targets = as_targets(y)
    scored, kept = to_calibrate(None, band.estimator, band.score)
    scored, (_, lower, upper, unit) = settle(scored, X)
    Y = columns(targets)
    split = Split(scored, (lower - Y) / unit, (Y - upper) / unit)
    band._store(split, kept, targets)._with_columns_of_model()
    request = Request(exact_levels(band.confidence_level), "both", False, None, None)
    result = np.full((len(Y), 2), np.nan)
    for others, own in folds:
        part = replace(split, below=split.below[others], above=split.above[others])
        reach = part.thresholds(request, len(own))[:, 0, 0] * unit[own, 0]
        result[own] = np.stack([lower[own, 0] - reach, upper[own, 0] + reach], axis=1)
    return result
