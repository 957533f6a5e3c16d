"""The scale gamma of one layer by exact leave-one-out, over a grid that shrinks like 1/sqrt(order)."""

import numpy as np

from .._seeds import Purpose, generator
from .._types import Array
from ..model.features import draw_features, features
from ..rows import Rows
from ..solvers.ridge import ridge
from .plan import Plan


def scale_by_leave_one_out(rows: Rows, plan: Plan, relative: Array) -> Array:
    """The scale, times the inputs' relative ones, with the smallest leave-one-out error of a small fit to some rows."""
    n, D, factors = plan.policy.scale_search
    some = rows.take(slice(0, n))
    d = some.X.shape[1]
    unit = (relative if np.ptp(relative) else relative[0]) / np.sqrt(max(plan.orders))
    errors = {}
    for factor in factors:
        phi = draw_features(generator(plan.seed, Purpose.FEATURES), d, D, plan.kernel, factor * unit, plan.orders)
        F = features(phi, some.X)
        F = np.hstack([F, some.X]) if plan.linear else F
        errors[factor] = ridge(F, some.Y, some.weights).loo_error.mean()
    return np.array(min(errors, key=lambda factor: errors[factor]) * unit)
