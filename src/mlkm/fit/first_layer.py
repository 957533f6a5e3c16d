"""phi_1 and the prior variances of its features: learned by the evidence, or drawn at a given or a chosen scale."""

from dataclasses import replace

import numpy as np

from .._types import Array
from ..data import Block
from ..model.features import FeatureMap, draw_features
from ..model.prior import Part, Prior
from ..runtime.resources import Purpose, generator
from ..search.kernel_features import learn_first_layer, relevant_scales, scale_by_leave_one_out
from ..search.plan import Plan


def first_layer(rows: Block, plan: Plan) -> Prior:
    """Return layer 1 as the plan asks for it. Orders between one and all inputs are drawn, with the inputs' learned
    scales."""
    d = rows.X.shape[1]
    if not plan.learned or len(rows) < plan.policy.least_rows or not rows.X.any():
        return _drawn(rows, plan, np.ones(d))
    if set(plan.orders) <= {1, d}:
        return learn_first_layer(rows, plan)
    return _drawn(rows, plan, relevant_scales(rows, plan))


def drawn_features(rows: Block, plan: Plan, D: int, relative: Array) -> tuple[FeatureMap, Array]:
    """Draw D features at the given scale, or else at the scale with the least leave-one-out error, one for all inputs
    times their relative ones; return them with that scale."""
    scale = plan.scales[0]
    if scale is None:
        scale = scale_by_leave_one_out(rows, plan, relative)
    phi = draw_features(generator(plan.seed, Purpose.FEATURES), rows.X.shape[1], D, plan.kernel, scale, plan.orders)
    return _held(phi, plan), scale


def _held(phi: FeatureMap, plan: Plan) -> FeatureMap:
    """Shift the phases by the mean of the inputs, where the scale is given, so that features are functions of the
    uncentred inputs: rows that come or go leave them alone."""
    if plan.origin is None or plan.scales[0] is None:
        return phi
    return replace(phi, phases=np.mod(phi.phases + plan.origin @ phi.frequencies, 2 * np.pi))


def _drawn(rows: Block, plan: Plan, relative: Array) -> Prior:
    """Return drawn features, beside a linear term where the plan has one, as a prior."""
    n, d = rows.X.shape
    phi, _ = drawn_features(rows, plan, plan.n_features or plan.policy.width(plan.n_rows or n), relative)
    given = plan.scales[0] if plan.origin is not None else None
    slopes = np.ones(d) if given is None else np.broadcast_to(given, (d,)).astype(np.float64)
    return Prior((Part(phi, 1.0),), slopes if plan.linear else None, 1e-2)


def scale_of(first: Prior) -> Array:
    """Return the scales of the first layer's inputs, which are those of its kernels, or root mean square frequencies
    over the features that see them."""
    for part in first.parts:
        if (scales := part.scales()) is not None:
            return scales
    frequencies = next(phi.frequencies for part in first.parts for _, phi in part.maps if isinstance(phi, FeatureMap))
    seen = np.maximum((frequencies != 0).sum(axis=1), 1)
    return np.asarray(np.sqrt((frequencies**2).sum(axis=1) / seen))
