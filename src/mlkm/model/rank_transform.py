"""Inputs on the scale of their ranks: a monotone piecewise-linear map of each input to a nearly uniform law with mean 0
and standard deviation 1.

Long tails and lumps in the inputs cost a stationary kernel dearly; trees do not notice them. On ranks neither does the
kernel. Which scale serves better differs from data to data, so the evidence chooses between the inputs as they are and
their ranks.
"""

from dataclasses import dataclass

import numpy as np

from .._types import Array, BoolArray
from ..data import midranks

_KNOTS = 256
_BESIDE = 1e-9  # of all rows: far above rounding, far below the weight of a row


@dataclass(frozen=True)
class RankTransform:
    """For each input its knots (increasing) and the values there; beyond the outer knots the value is constant. An
    input without knots stays as it is."""

    knots: tuple[Array, ...]
    values: tuple[Array, ...]

    def forward(self, X: Array) -> Array:
        """Return the inputs on the scale of their ranks."""
        columns = [np.interp(x, k, v) if len(k) else x for x, k, v in zip(X.T, self.knots, self.values, strict=True)]
        return np.stack(columns, axis=1)

    def slopes(self, X: Array) -> Array:
        """Return the derivative of each transformed input at every row; 0 beyond the outer knots."""
        result = np.zeros_like(X)
        for j, (knots, values) in enumerate(zip(self.knots, self.values, strict=True)):
            if len(knots) > 1:
                rise = np.concatenate([[0], np.diff(values) / np.diff(knots), [0]])
                result[:, j] = rise[np.searchsorted(knots, X[:, j], side="right")]
        return result

    def coarser(self, gap: float = 0.1) -> "RankTransform":
        """Return the same map with knots at least so far apart, but for the last: the first value of every other
        cell."""
        knots, values = [], []
        for k, v in zip(self.knots, self.values, strict=True):
            cells = np.floor((k - k[:1]) / gap)
            first_of_cell = np.flatnonzero(np.diff(cells, prepend=-1) > 0)
            chosen = np.union1d(first_of_cell[::2], np.arange(len(k))[-1:])
            knots.append(k[chosen])
            values.append(v[chosen])
        return RankTransform(tuple(knots), tuple(values))


def fit_rank_transform(X: Array, weights: Array, numbers: BoolArray | None = None) -> RankTransform:
    """Return the weighted mid-rank of each input that is a number, at no more than 256 of its values, standardised."""
    knots: list[Array] = []
    values: list[Array] = []
    for j, column in enumerate(X.T):
        if numbers is not None and not numbers[j]:
            knots.append(np.zeros(0))
            values.append(np.zeros(0))
            continue
        points, rank, place = midranks(column, weights)
        spread = np.sqrt(max(float(weights @ (rank[place] - 0.5) ** 2 / weights.sum()), 1e-12))  # they average to 1/2
        n_distinct = 1 + int(np.count_nonzero(np.diff(rank)))
        # Ranks often lie on an even grid: which knots are chosen must not hang on the rounding of either.
        wanted = np.linspace(rank[0], rank[-1], min(_KNOTS, n_distinct)) - _BESIDE
        chosen = np.unique(np.searchsorted(rank, wanted))
        knots.append(points[chosen])
        values.append((rank[chosen] - 0.5) / spread)
    return RankTransform(tuple(knots), tuple(values))
