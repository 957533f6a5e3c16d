"""phi_1 and the prior variances of its features: learned by the evidence, or drawn at a given or a chosen scale."""

import numpy as np

from .._seeds import Purpose, generator
from .._types import Array
from ..auto.caution import doubtful, plain_layer, search_pays
from ..auto.first_layer import Learned, learn_first_layer
from ..auto.plan import Plan
from ..auto.scale import scale_by_leave_one_out
from ..model.features import FeatureMap, draw_features
from ..model.gaussians import GaussianMap
from ..model.prior import Part, Prior
from ..model.sum_kernel import SumKernel
from ..rows import Rows


def first_layer(rows: Rows, plan: Plan) -> Prior | Learned:
    """What the plan asks for layer 1."""
    n, d = rows.X.shape
    learnable = tuple(q for q in plan.orders if q in (1, 2, d))
    too_few = plan.n_features is not None and len(learnable) > plan.n_features
    if not plan.learned or learnable != plan.orders or too_few:
        return _drawn(rows, plan)
    if doubtful(n, d, plan) and not search_pays(rows, plan):
        return plain_layer(rows, plan)
    return learn_first_layer(rows, plan)


def drawn_features(rows: Rows, plan: Plan, D: int) -> tuple[FeatureMap, Array]:
    """D features at one scale for all inputs, the given one, or the best by leave-one-out; and that scale."""
    scale = plan.scales[0]
    if scale is None:
        scale = scale_by_leave_one_out(rows, plan)
    return draw_features(
        generator(plan.seed, Purpose.FEATURES), rows.X.shape[1], D, plan.kernel, scale, plan.orders
    ), scale


def _drawn(rows: Rows, plan: Plan) -> Prior:
    n, d = rows.X.shape
    factor, least, most = plan.policy.drawn_features
    D = int(np.clip(factor * np.sqrt(n) * np.log(n + 1), least, most)) if plan.n_features is None else plan.n_features
    phi, _ = drawn_features(rows, plan, D)
    return Prior((Part(None, phi, 1.0),), np.ones(d) if plan.linear else None, 1e-2)


def scale_of(first: Prior) -> Array:
    """The scales of the first layer's inputs: root mean square frequencies over the features that see them."""
    frequencies = next(part.phi.frequencies for part in first.parts if isinstance(part.phi, FeatureMap))
    seen = np.maximum((frequencies != 0).sum(axis=1), 1)
    return np.asarray(np.sqrt((frequencies**2).sum(axis=1) / seen))


def scale_of_kernel(kernel: SumKernel, d: int) -> Array:
    """Likewise for a sum of kernels: the root mean square of the scales of its Gaussian terms, by their variances."""
    terms = [(term.variance, term.phi.matrix) for term in kernel.terms if isinstance(term.phi, GaussianMap)]
    total = sum(variance for variance, _ in terms)
    if not total:
        return np.zeros(d)
    return np.asarray(np.sqrt(sum(variance * (B**2).sum(axis=0) for variance, B in terms) / total))
