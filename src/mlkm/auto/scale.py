"""The scale gamma of one layer by exact leave-one-out, over a grid that shrinks like 1/sqrt(order)."""

import numpy as np

from .._seeds import Purpose, generator
from .._types import Array
from ..model.features import draw_features, features
from ..rows import Rows
from ..solvers.ridge import ridge
from .plan import Plan


def scale_by_leave_one_out(rows: Rows, plan: Plan) -> Array:
    """The scale with the smallest leave-one-out error of a small fit to some rows."""
    some, policy = rows.take(slice(0, plan.policy.scale_rows)), plan.policy
    d = some.X.shape[1]
    unit = 1 / np.sqrt(max(plan.orders))
    errors = {}
    for factor in policy.scale_factors:
        phi = draw_features(
            generator(plan.seed, Purpose.FEATURES), d, policy.scale_features, plan.kernel, factor * unit, plan.orders
        )
        F = features(phi, some.X)
        F = np.hstack([F, some.X]) if plan.linear else F
        errors[factor] = ridge(F, some.Y, some.weights).loo_error.mean()
    return np.array(min(errors, key=lambda factor: errors[factor]) * unit)
