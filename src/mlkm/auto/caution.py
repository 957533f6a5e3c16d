"""Whether few rows bear a search: with hundreds of scales and amplitudes the evidence can fit noise, and leave-one-out
on the features it leaves does not notice. Rows that the search has not seen do. Where they say no, there is one scale
for all inputs."""

import numpy as np

from .._seeds import Purpose, generator
from ..model.features import draw_features
from ..model.machine import predict
from ..model.prior import Part, Prior
from ..rows import Rows
from ..solvers.blocked import loo
from ..solvers.ridge import ridge
from .first_layer import learn_first_layer
from .plan import Plan
from .width import choose_width


def doubtful(n: int, d: int, plan: Plan) -> bool:
    """Whether n rows of d inputs are too few to trust a search unseen."""
    policy = plan.policy
    return policy.least_rows <= n <= max(policy.few_rows, policy.few_per_input * d) and n < policy.enough_rows


def search_pays(rows: Rows, plan: Plan) -> bool:
    """Whether a layer learned from some rows predicts the others better than a plain one does; the others are m rows, a
    third, or half of few.

    Better is by a share of 1/sqrt(m), about one standard error of such a comparison.
    """
    n, (few, second, third) = len(rows), plan.policy.held_out
    held_out = np.arange(n) % (second if n <= few else third) == 0
    part, errors = rows.take(np.flatnonzero(~held_out)), []
    for source in (learn_first_layer(part, plan), plain_layer(part, plan)):
        layer, fit = choose_width(source, part, plan.policy)
        residuals = predict(layer.machine(fit.coefficients, fit.intercept), rows.X[held_out]) - rows.Y[held_out]
        errors.append(float(rows.weights[held_out] @ (residuals**2).sum(axis=1)))
    return bool(errors[0] < (1 - 1 / np.sqrt(held_out.sum())) * errors[1])


def plain_layer(rows: Rows, plan: Plan) -> Prior:
    """Features of the highest order at one scale for all inputs, and a linear term with one of the prior standard
    deviations `plan.slopes` (none if there are none), both by leave-one-out."""
    policy, some = plan.policy, rows.take(slice(0, plan.policy.plain_rows))
    d, order, D = some.X.shape[1], plan.orders[-1], plan.n_features or plan.policy.plain_features
    candidates, errors = [], []
    for factor in policy.plain_scales:
        phi = draw_features(
            generator(plan.seed, Purpose.FEATURES), d, D, plan.kernel, factor / np.sqrt(order), (order,)
        )
        for slope in plan.slopes or (None,):
            candidates.append(Prior((Part(None, phi, 1.0),), None if slope is None else np.full(d, slope), 1e-2))
            errors.append(loo(ridge(candidates[-1].rows_of_features(some.X), some.Y, some.weights)))
    return candidates[int(np.argmin(errors))]
