"""A band judged by its own calibration rows: each gets the interval that the others would give it.

The rows are cut into folds. The threshold for the rows of a fold comes from the scores of rows outside it, so that no
outcome has a say in its own interval, and the model has seen none of them. Such an interval is that of a band with a
few calibration rows less.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from .._levels import exact_levels
from .._types import Array, IntArray
from ..tables.frames import read_frame
from .regressor import ConformalRegressor
from .request import Request
from .split import Split


def fold_intervals(band: ConformalRegressor, X: Any, folds: Iterable[tuple[IntArray, IntArray]]) -> Array:
    """Intervals (n, 2) at the calibration rows, a frame in the order of the calibration: of every fold (others, own)
    the rows `own` by the scores of `others`; NaN where no fold asks. One level, one output, no groups or weights."""
    split = band._band
    if not isinstance(split, Split) or split.shift is not None or split.labels is not None:
        raise ValueError("Only a band of method='split' without groups and weights is judged by its calibration rows.")
    table, request = read_frame(X), Request(exact_levels(band.confidence_level), "both", False, None, None)
    result = np.full((len(table), 2), np.nan)
    for others, own in folds:
        part = replace(split, below=split.below[others], above=split.above[others])
        result[own] = part.interval(table.take(own), request)[1][:, :, 0, 0]
    return result
