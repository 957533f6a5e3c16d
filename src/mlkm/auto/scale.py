"""The scale gamma of one layer by exact leave-one-out, over a grid that shrinks like 1/sqrt(d)."""

import numpy as np

from .._seeds import generator
from .._types import Array
from ..kernels import Kernel
from ..model.features import Interactions, as_orders, draw_features, features
from ..rows import Rows
from ..solvers.ridge import ridge

_SEARCH_ROWS, _SEARCH_FEATURES = 1000, 300


def scale_by_leave_one_out(rows: Rows, kernel: Kernel, interactions: Interactions, linear: bool, seed: int) -> Array:
    """gamma / sqrt(order) with the smallest leave-one-out error of a small fit on at most 1000 rows."""
    X, Y, weights = rows.X[:_SEARCH_ROWS], rows.Y[:_SEARCH_ROWS], rows.weights[:_SEARCH_ROWS]
    d = X.shape[1]
    unit = 1 / np.sqrt(max(as_orders(interactions, d)))
    errors = {}
    for factor in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0):
        phi = draw_features(generator(seed), d, _SEARCH_FEATURES, kernel, factor * unit, interactions)
        F = features(phi, X)
        errors[factor] = ridge(np.hstack([F, X]) if linear else F, Y, weights).loo_error.mean()
    return np.array(min(errors, key=lambda factor: errors[factor]) * unit)
