"""Leave-one-out of one layer in closed form, the features below held fixed: what a fit would be without one row."""

from dataclasses import dataclass

import numpy as np

from .._types import Array, IntArray
from ..data.distinct import Rows


@dataclass(frozen=True)
class LeftOut:
    """Rows, each seen by the fit without it: y - f_{-i}(x_i) and sigma_y there by that fit, both (n, k); and the place
    of each row in `left_out_predictions`, -1 for a row that the fit has not seen."""

    residuals: Array
    std: Array
    place: IntArray


def places(rows: Rows, X: Array, Y: Array) -> IntArray:
    """Where each row (x, y) is among distinct rows, -1 where it is not."""
    known = {row.tobytes(): place for place, row in enumerate(_numbers(rows.X, rows.Y))}
    return np.array([known.get(row.tobytes(), -1) for row in _numbers(X, Y)], dtype=np.intp)


def _numbers(X: Array, Y: Array) -> Array:
    return np.hstack([X, Y]) + 0.0  # + 0.0 makes one of the two zeros
