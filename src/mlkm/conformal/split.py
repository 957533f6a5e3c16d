"""Split conformal prediction: scores of rows the model has not seen, and the interval they allow at a new row.

P(y in C(x)) lies in [1 - alpha, 1 - alpha + 1/(m + 1)] when calibration and new rows are exchangeable and scores have
no ties. With groups this holds within each group (Mondrian); with weights dQ/dP it holds under Q.
"""

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from .._types import Array
from ..runtime.checks import brief
from ..runtime.levels import groups_of
from .rank import (
    counts_up_to,
    quantiles,
    rank,
    shares_up_to,
    warn_no_rows,
    warn_too_few,
    warn_too_heavy,
    weighted_quantiles,
)
from .request import Request, Shift, as_interval, check_weights, same_group, side_scores
from .scores import Scored, columns, settle


@dataclass(frozen=True)
class Split:
    """A scored model, and how far y lay below `lower` and above `upper` at the calibration rows, in units u, (m, k);
    with the rows' weights and groups."""

    scored: Scored
    below: Array
    above: Array
    shift: Shift | None = None
    labels: Any = None

    @property
    def model(self) -> Any:
        return self.scored.model

    @property
    def n_calibration(self) -> int:
        return len(self.below)

    @property
    def n_outputs(self) -> int:
        return int(self.below.shape[1])

    def interval(self, X: Any, request: Request) -> tuple[Array, Array]:
        """f (n, k), and the interval (n, 2, levels, k)."""
        check_weights(self.shift, request)
        f, lower, upper, unit = self.scored.base(X)
        reach = self.thresholds(request, len(f)) * unit[:, None, :]
        lower, upper = lower[:, None, :], upper[:, None, :]
        return f, as_interval(lower - reach, upper + reach, request.side, lower + (upper - lower) / 2)

    def thresholds(self, request: Request, n: int) -> Array:
        """q for every new row, level and output: (n, levels, k)."""
        scores = side_scores(self.below, self.above, request)
        q = np.empty((n, len(request.levels), scores.shape[1]))
        for where, old, new in same_group(self.labels, request.groups, len(scores), n):
            asked = None if request.weights is None else request.weights[new]
            for output, own in enumerate(scores[old].T):
                order = np.argsort(own, kind="stable")
                if self.shift is None:
                    q[new, :, output] = quantiles(own[order], request.levels)
                else:
                    weights, new_weights = self.shift.weights[old][order], self.shift.at(asked, len(new), old)
                    q[new, :, output] = weighted_quantiles(own[order], weights, new_weights, request.levels)
            warn_infinite(np.isinf(q[new]).any(axis=2), len(old), request, where)
        return q

    def shares(self, X: Any, y: Array, request: Request) -> Array:
        """Of the scores above, the share up to that of every y (n, points, k)."""
        check_weights(self.shift, request)
        _, _, upper, unit = self.scored.base(X)
        result = np.empty(y.shape)
        for where, old, new in same_group(self.labels, request.groups, len(self.above), len(y)):
            asked = None if request.weights is None else request.weights[new]
            for output, own in enumerate(self.above[old].T):
                order = np.argsort(own, kind="stable")
                base, by = upper[new, output, None], unit[new, output, None]
                counts = counts_up_to(own[order], base, by, y[new, :, output])
                if self.shift is None:
                    result[new, :, output] = counts / (len(old) + 1)
                else:
                    weights, new_weights = self.shift.weights[old][order], self.shift.at(asked, len(new), old)
                    result[new, :, output] = shares_up_to(counts, weights, new_weights)
            if not len(old):
                warn_no_rows(where)
        return result


def warn_infinite(infinite: Any, m: int, request: Request, where: str) -> None:
    """Say why intervals are infinite, for m calibration rows; `infinite` has a row per new row and a column per
    level."""
    what = "interval" if request.side == "both" else "bound"
    for level, rows in zip(request.levels, infinite.sum(axis=0), strict=True):
        if rows and rank(m, level) > m:
            warn_too_few(m, level, where, what)
        elif rows:
            warn_too_heavy(int(rows), len(infinite), level, where, what)


def rows_kept(calibration_size: Any, n: int) -> int:
    """How many of n rows are kept for calibration."""
    share = isinstance(calibration_size, (float, np.floating)) and 0 < calibration_size < 1
    kept = ceil(calibration_size * n) if share else calibration_size
    if not isinstance(kept, (int, np.integer)) or isinstance(kept, bool) or not 0 < kept < n:
        words = "calibration_size must be a share of the rows below 1, or a number of them that leaves some for the fit"
        raise ValueError(f"{words}; got {brief(calibration_size)} with n_samples={n}.")
    return int(kept)


def calibrate(scored: Scored, X: Any, y: Any, weights: Array | None = None, groups: Any = None) -> Split:
    """Score the calibration rows; the score's units are settled by them."""
    Y, shift = columns(y), Shift.of(weights)
    if groups is not None:
        groups_of(groups, len(Y))
    scored, (_, lower, upper, unit) = settle(scored, X)
    if Y.shape != lower.shape:
        raise ValueError(f"y must have the shape of the predictions, {lower.shape}; got {Y.shape}.")
    return Split(scored, (lower - Y) / unit, (Y - upper) / unit, shift, groups)
