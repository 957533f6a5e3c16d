"""CV+ (Barber, Candes, Ramdas, Tibshirani 2021): every row is scored by a fit that has not seen it, and no row is set
aside.

The interval at x reaches from the rank-th largest of lower_{-i}(x) - s_i u_{-i}(x) to the rank-th smallest of
upper_{-i}(x) + s_i u_{-i}(x), with lower_{-i}, upper_{-i}, u_{-i} from the fit without row i. It covers with
probability at least 1 - 2 alpha, and close to 1 - alpha where fits are stable. With weights dQ/dP, ranks are weighted
(Prinster, Liu and Saria 2022). New rows are taken in blocks, so that no table of all training by all new rows is
formed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from .._types import Array, IntArray
from ..data.folds import keeps_groups_together, splits_of
from ..data.tables.frames import Table
from .rank import rank, warn_no_rows
from .request import Request, Shift, as_interval, check_weights, same_group, side_scores
from .scores import Recipe, Scored, columns, fit_scored, settle
from .split import warn_infinite
from .wrapped_estimator import fit_regressor

_ENTRIES = 2**22  # of a block of new rows by training rows

# For an output and training rows: lower, upper and u of the fits without each of them, all (new rows, rows)
LeftOutBase: TypeAlias = Callable[[int, IntArray], tuple[Array, Array, Array]]


@dataclass(frozen=True)
class RowScores:
    """How far y lay below `lower` and above `upper` of the fit without the row, in units u, (n, k); with the rows'
    weights and groups. `optional` groups named the folds only, and new rows need none."""

    below: Array
    above: Array
    shift: Shift | None = None
    labels: Any = None
    optional: bool = False

    @property
    def n_outputs(self) -> int:
        return int(self.above.shape[1])

    def interval(self, base: Callable[[Any], LeftOutBase], X: Any, request: Request) -> Array:
        """(n, 2, levels, k); `base` gives the fits without each row at a block of X."""
        check_weights(self.shift, request)
        scores = side_scores(self.below, self.above, request)
        (n, k), n_new = scores.shape, _num_samples(X)
        result = np.empty((n_new, 2, len(request.levels), k))
        for where, old, new in same_group(self.labels, request.groups, n, n_new, self.optional):
            for rows, own in self._blocks(old, new, request):
                result[rows] = _block(base(_taken(X, rows)), scores[old], old, request, own)
            ends = result[new, 0 if request.side == "lower" else 1]
            warn_infinite(np.isinf(ends).any(axis=2), len(old), request, where)
        return result

    def shares(self, base: Callable[[Any], LeftOutBase], X: Any, y: Array, request: Request) -> Array:
        """Of the numbers whose order statistics are upper bounds, upper_{-i}(x) + s_i u_{-i}(x), the share up to every
        y (n, points, k)."""
        check_weights(self.shift, request)
        result = np.empty(y.shape)
        for where, old, new in same_group(self.labels, request.groups, len(self.above), len(y), self.optional):
            for rows, own in self._blocks(old, new, request):
                at = base(_taken(X, rows))
                for output in range(self.n_outputs):
                    _, upper, unit = at(output, old)
                    values = upper + self.above[old, output] * unit
                    result[rows, :, output] = _shares(values, y[rows, :, output], own)
            if not len(old):
                warn_no_rows(where)
        return result

    def _blocks(
        self, old: IntArray, new: IntArray, request: Request
    ) -> Iterator[tuple[IntArray, tuple[Array, Array] | None]]:
        """The new rows a block at a time, with the weights of the old rows and of the block where there are any."""
        asked = None if request.weights is None else request.weights[new]
        pair = None if self.shift is None else (self.shift.weights[old], self.shift.at(asked, len(new), old))
        size = max(1, _ENTRIES // max(len(old), 1))
        for begin in range(0, len(new), size):
            part = slice(begin, begin + size)
            yield new[part], None if pair is None else (pair[0], pair[1][part])


@dataclass(frozen=True)
class Cross:
    """A fit to all rows behind the mean, one fit per fold, and the fold of every row."""

    model: Any
    fits: tuple[Scored, ...]
    fold: IntArray
    scores: RowScores

    @property
    def n_calibration(self) -> int:
        return len(self.fold)

    @property
    def n_outputs(self) -> int:
        return self.scores.n_outputs

    def interval(self, X: Any, request: Request) -> tuple[Array, Array]:
        """f (n, k), and the interval (n, 2, levels, k)."""
        return columns(self.model.predict(X)), self.scores.interval(self._base, X, request)

    def shares(self, X: Any, y: Array, request: Request) -> Array:
        """At every y (n, points, k) the share of the distribution up to it."""
        return self.scores.shares(self._base, X, y, request)

    def _base(self, X: Any) -> LeftOutBase:
        bases = [fit.base(X)[1:] for fit in self.fits]

        def at(output: int, rows: IntArray) -> tuple[Array, Array, Array]:
            lower, upper, unit = (
                np.column_stack([base[part][:, output] for base in bases])[:, self.fold[rows]] for part in range(3)
            )
            return lower, upper, unit

        return at


def fit_cross(
    estimator: Any, recipe: Recipe, X: Any, y: Array, weights: Array | None = None, groups: Any = None
) -> Cross:
    """One fit per fold of `recipe.cv`, and one to all rows. `groups` go to the splitter too."""
    cv = check_cv(recipe.cv)
    fold, training = splits_of(cv, X, y, groups)
    below, above = np.empty(columns(y).shape), np.empty(columns(y).shape)
    shift = Shift.of(weights)
    weights = None if shift is None else shift.weights
    inner = Recipe(recipe.score, recipe.level, 5, recipe.seed)
    fits = []
    for number, train in enumerate(training):
        test = np.flatnonzero(fold == number)
        if np.isin(train, test).any():
            raise ValueError(f"The training rows of fold {number} of cv must not be among the rows it is tested on.")
        own = None if weights is None else weights[train]
        scored = fit_scored(estimator, inner, _safe_indexing(X, train), y[train], own)
        scored, (_, lower, upper, unit) = settle(scored, _safe_indexing(X, test))
        Y = columns(y[test])
        below[test], above[test] = (lower - Y) / unit, (Y - upper) / unit
        fits.append(scored)
    scores = RowScores(below, above, shift, groups, keeps_groups_together(cv))
    return Cross(fit_regressor(estimator, X, y, weights)[0], tuple(fits), fold, scores)


def _taken(X: Any, rows: IntArray) -> Any:
    """Some rows of X, which may be a piece of a table in files."""
    return X[rows] if isinstance(X, Table) else _safe_indexing(X, rows)


def _block(
    base: LeftOutBase, scores: Array, old: IntArray, request: Request, weights: tuple[Array, Array] | None
) -> Array:
    ends = []
    for output in range(scores.shape[1]):
        lower, upper, unit = base(output, old)
        reach = scores[:, output] * unit
        low, high = (_order_statistics(end, request.levels, weights) for end in (reach - lower, upper + reach))
        middles = lower + (upper - lower) / 2
        ends.append((-low, high, np.median(middles, axis=1, keepdims=True) if len(old) else np.zeros((len(low), 1))))
    lowest, highest, centre = (np.stack(parts, axis=-1) for parts in zip(*ends, strict=True))
    return as_interval(lowest, highest, request.side, centre)


def _order_statistics(values: Array, levels: Sequence[Fraction], weights: tuple[Array, Array] | None) -> Array:
    """Of every row, the rank-th smallest value at each level; infinite beyond the last. With weights of the values and
    of the rows, the least value below which there is a share `level` of all weight, the row's own included."""
    n = values.shape[1]
    padded = np.hstack([values, np.full((len(values), 1), np.inf)])
    if weights is None:
        at = [min(rank(n, level), n + 1) - 1 for level in levels]
        return np.partition(padded, sorted(set(at)), axis=1)[:, at]
    order = np.argsort(values, axis=1, kind="stable")
    total = np.cumsum(weights[0][order], axis=1)
    result = np.empty((len(values), len(levels)))
    for number, level in enumerate(levels):
        needed = float(level) * (weights[0].sum() + weights[1]) * (1 - 1e-12)
        place = (total < needed[:, None]).sum(axis=1)
        sorted_place = np.take_along_axis(order, np.minimum(place, n - 1)[:, None], axis=1)[:, 0] if n else place
        result[:, number] = padded[np.arange(len(values)), np.where(place < n, sorted_place, n)]
    return result


def _shares(values: Array, y: Array, weights: tuple[Array, Array] | None) -> Array:
    """Of every row, the share of its values up to each of its y, by weight, and the row itself counted."""
    if weights is None:
        counts = [np.count_nonzero(values <= point[:, None], axis=1) for point in y.T]
        return np.asarray(np.stack(counts, axis=1) / (values.shape[1] + 1))
    old, new = weights
    below = np.stack([(values <= point[:, None]) @ old for point in y.T], axis=1)
    total = (old.sum() + new)[:, None]
    return np.asarray(np.divide(below, total, out=np.zeros_like(below), where=total > 0))
