"""Split conformal prediction: scores of rows the model has not seen, and the interval they allow at a new row.

P(y in C(x)) lies in [1 - alpha, 1 - alpha + 1/(m + 1)] when calibration and new rows are exchangeable and scores have
no ties. With groups this holds within each group (Mondrian); with weights dQ/dP it holds under Q.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

from .._types import Array
from .rank import groups_of, quantiles, rank, warn_too_few, warn_too_heavy, weighted_quantiles
from .scores import Scored, columns, settle


@dataclass(frozen=True)
class Request:
    """What an interval is asked for: levels, which sides are bounded, outputs one by one or jointly, labels and weights
    of the new rows."""

    levels: Sequence[Fraction]
    side: str = "both"
    joint: bool = False
    groups: Any = None
    weights: Array | None = None


@dataclass(frozen=True)
class Calibration:
    """How far y lay below `lower` and above `upper`, in units u, (m, k); with the rows' weights and groups."""

    below: Array
    above: Array
    weights: Array | None = None
    labels: Any = None


def rows_kept(calibration_size: Any, n: int) -> int:
    """How many of n rows are kept for calibration."""
    share = isinstance(calibration_size, (float, np.floating)) and 0 < calibration_size < 1
    kept = ceil(calibration_size * n) if share else calibration_size
    if not isinstance(kept, (int, np.integer)) or not 0 < kept < n:
        words = "calibration_size must be a share of the rows below 1, or a number of them that leaves some for the fit"
        raise ValueError(f"{words}; got {calibration_size!r} with n_samples={n}.")
    return int(kept)


def calibrate(
    scored: Scored, X: Any, y: Any, weights: Array | None = None, groups: Any = None
) -> tuple[Scored, Calibration]:
    """The scores of the calibration rows, and the score with its units settled by them."""
    Y = columns(y)
    scored, (_, lower, upper, unit) = settle(scored, X)
    if Y.shape != lower.shape:
        raise ValueError(f"y must have the shape of the predictions, {lower.shape}; got {Y.shape}.")
    if groups is not None:
        groups_of(groups, len(Y))
    return scored, Calibration((lower - Y) / unit, (Y - upper) / unit, weights, groups)


def split_interval(scored: Scored, calibration: Calibration, X: Any, request: Request) -> tuple[Array, Array]:
    """f (n, k), and the interval (n, 2, levels, k)."""
    f, lower, upper, unit = scored.base(X)
    scores = side_scores(calibration.below, calibration.above, request)
    q = _thresholds(scores, calibration, request, len(f))
    reach = q * unit[:, None, :]
    return f, as_interval(lower[:, None, :] - reach, upper[:, None, :] + reach, request.side)


def side_scores(below: Array, above: Array, request: Request) -> Array:
    """One score per row and output; with `joint`, the largest over the outputs."""
    if request.side not in ("both", "lower", "upper"):
        raise ValueError(f"side must be 'both', 'lower' or 'upper'; got {request.side!r}.")
    scores = below if request.side == "lower" else above if request.side == "upper" else np.maximum(below, above)
    return np.broadcast_to(scores.max(axis=1, keepdims=True), scores.shape) if request.joint else scores


def as_interval(lower: Array, upper: Array, side: str) -> Array:
    """Both ends stacked; a side not asked for is infinite, and an empty interval is its middle."""
    if side == "upper":
        lower = np.full_like(upper, -np.inf)
    if side == "lower":
        upper = np.full_like(lower, np.inf)
    with np.errstate(invalid="ignore"):
        middle = (lower + upper) / 2
    empty = lower > upper
    return np.stack([np.where(empty, middle, lower), np.where(empty, middle, upper)], axis=1)


def _thresholds(scores: Array, calibration: Calibration, request: Request, n: int) -> Array:
    """q for every new row, level and output: (n, levels, k)."""
    k = scores.shape[1]
    q = np.empty((n, len(request.levels), k))
    for where, old, new in same_group(calibration.labels, request.groups, len(scores), n):
        weights = None if calibration.weights is None else calibration.weights[old]
        for output in range(k):
            order = np.argsort(scores[old, output], kind="stable")
            s = scores[old, output][order]
            if weights is None:
                q[new, :, output] = quantiles(s, request.levels)
            else:
                asked = (
                    request.weights[new] if request.weights is not None else np.full(len(new), weights.max(initial=0.0))
                )
                q[new, :, output] = weighted_quantiles(s, weights[order], asked, request.levels)
        for level, infinite in zip(request.levels, np.isinf(q[new]).any(axis=2).sum(axis=0), strict=True):
            if infinite and rank(len(old), level) > len(old):
                warn_too_few(len(old), level, where)
            elif infinite:
                warn_too_heavy(int(infinite), len(new), level, where)
    return q


def same_group(labels: Any, new_labels: Any, m: int, n: int) -> list[tuple[str, Any, Any]]:
    """For each group: words that name it, its calibration rows and its new rows. Without groups, one of all."""
    if labels is None:
        if new_labels is not None:
            raise ValueError(
                "groups were given for prediction but not for calibration; give them to fit or conformalize as well."
            )
        return [("", np.arange(m), np.arange(n))]
    if new_labels is None:
        raise ValueError(
            "The band was calibrated by groups, so predict_interval needs the groups of its rows: predict_interval(X,"
            " groups=...)."
        )
    values, place = groups_of(new_labels, n)
    old = np.asarray(labels)
    return [
        (f" in group {value!s}", np.flatnonzero(old == value), np.flatnonzero(place == g))
        for g, value in enumerate(values)
    ]
