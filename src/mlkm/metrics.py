"""Measures of a band: its coverage, its width, and where it fails.

An interval is an array (n, 2), or (n, 2, 1) as `predict_interval` returns it for one level. Infinite ends are allowed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta

from ._types import Array, BoolArray
from .runtime.checks import array_of, finite_array, number, whole
from .runtime.confidence import exact_level, groups_of
from .runtime.resources import Purpose, check_memory, generator, root_seed


@dataclass(frozen=True)
class Coverage:
    """The share of outcomes inside their intervals.

    Attributes
    ----------
    share : float
        The share of outcomes inside.
    n : int
        The number of outcomes.
    low, high : float
        The Clopper-Pearson interval of the true share.

    Examples
    --------
    >>> result = coverage([0, 1, 2, 9], [[-1, 1], [0, 2], [1, 3], [0, 1]])
    >>> result.share, result.n, round(result.low, 2), round(result.high, 2)
    (0.75, 4, 0.19, 0.99)
    """

    share: float
    n: int
    low: float
    high: float


def inside(y: ArrayLike, interval: ArrayLike) -> BoolArray:
    """Return whether each outcome lies in its interval, ends included.

    Parameters
    ----------
    y : array (n,)
        The outcomes.
    interval : array (n, 2) or (n, 2, 1)
        Their intervals.

    Returns
    -------
    array (n,) of bool.

    Examples
    --------
    >>> inside([0, 5], [[-1, 1], [-1, 1]]).tolist()
    [True, False]
    """
    y, (low, high) = _checked(y, interval)
    return np.asarray((low <= y) & (y <= high))


def coverage(y: ArrayLike, interval: ArrayLike, confidence_level: float = 0.95) -> Coverage:
    """Return the coverage with its exact binomial interval.

    Parameters
    ----------
    y : array (n,)
        The outcomes.
    interval : array (n, 2) or (n, 2, 1)
        Their intervals.
    confidence_level : float, default=0.95
        The level of the binomial interval.

    Returns
    -------
    Coverage

    Examples
    --------
    >>> coverage([0, 1, 2, 9], [[-1, 1], [0, 2], [1, 3], [0, 1]]).share
    0.75
    """
    return _share(inside(y, interval), confidence_level)


def mean_width(interval: ArrayLike) -> float:
    """Return the mean of upper minus lower, which is infinite if one interval is.

    Parameters
    ----------
    interval : array (n, 2) or (n, 2, 1)
        The lower and the upper end of every interval.

    Returns
    -------
    float

    Examples
    --------
    >>> mean_width([[0, 1], [0, 3]])
    2.0
    """
    return float(np.mean(widths(interval)))


def median_width(interval: ArrayLike) -> float:
    """Return the median of upper minus lower, which is finite while more than half of the intervals are.

    Parameters
    ----------
    interval : array (n, 2) or (n, 2, 1)
        The lower and the upper end of every interval.

    Returns
    -------
    float

    Examples
    --------
    >>> median_width([[0, 1], [0, 3], [0, float("inf")]])
    3.0
    """
    values = np.sort(widths(interval))
    with np.errstate(invalid="ignore"):
        return float(values[(len(values) - 1) // 2] / 2 + values[len(values) // 2] / 2)


def widths(interval: ArrayLike) -> Array:
    """Return upper minus lower of every interval.

    Parameters
    ----------
    interval : array (n, 2) or (n, 2, 1)
        The lower and the upper end of every interval.

    Returns
    -------
    array (n,).

    Examples
    --------
    >>> widths([[0, 1], [0, 3]])
    array([1., 3.])
    """
    low, high = ends(interval)
    return np.asarray(high - low)


def winkler_score(y: ArrayLike, interval: ArrayLike, confidence_level: float) -> float:
    """Return the mean of width + (2 / alpha) x (distance of y from the interval), a proper score of which less is
    better.

    The same interval scores differently at 80 % and at 95 %.

    Parameters
    ----------
    y : array (n,)
        The outcomes.
    interval : array (n, 2) or (n, 2, 1)
        Their intervals.
    confidence_level : float
        The level 1 - alpha of the band.

    Returns
    -------
    float

    Examples
    --------
    >>> winkler_score([0, 3], [[-1, 1], [0, 2]], confidence_level=0.8)
    7.0
    """
    y, (low, high) = _checked(y, interval)
    alpha = float(1 - exact_level(confidence_level))
    miss = np.where(y < low, low - y, 0) + np.where(y > high, y - high, 0)
    return float(np.mean(high - low + 2 / alpha * miss))


def coverage_by_group(
    y: ArrayLike, interval: ArrayLike, groups: ArrayLike, confidence_level: float = 0.95
) -> dict[str | float, Coverage]:
    """Return the coverage within each group.

    Parameters
    ----------
    y : array (n,)
        The outcomes.
    interval : array (n, 2) or (n, 2, 1)
        Their intervals.
    groups : array (n,)
        The label of every row.
    confidence_level : float, default=0.95
        The level of the binomial intervals.

    Returns
    -------
    dict of `Coverage`, by the labels.

    Examples
    --------
    >>> coverage_by_group([0, 5], [[-1, 1], [-1, 1]], ["a", "b"])["b"].share
    0.0
    """
    hits = inside(y, interval)
    labels, place = groups_of(groups, len(hits))
    return {label: _share(hits[place == g], confidence_level) for g, label in enumerate(labels.tolist())}


def coverage_by_bin(
    y: ArrayLike, interval: ArrayLike, values: ArrayLike | None = None, n_bins: int = 5
) -> list[tuple[float, float, Coverage]]:
    """Return the coverage in bins of equal counts; equal values share a bin.

    Parameters
    ----------
    y : array (n,)
        The outcomes.
    interval : array (n, 2) or (n, 2, 1)
        Their intervals.
    values : array (n,), default=None
        The values along which rows are binned; by default the widths of the intervals.
    n_bins : int, default=5
        The number of bins.

    Returns
    -------
    list of (least value, largest value, `Coverage`), one for each bin.

    Examples
    --------
    >>> bins = coverage_by_bin([0, 5, 0, 0], [[-1, 1]] * 4, values=[1, 2, 3, 4], n_bins=2)
    >>> [(least, largest, part.share) for least, largest, part in bins]
    [(1.0, 2.0, 0.5), (3.0, 4.0, 1.0)]
    """
    hits = inside(y, interval)
    n_bins = min(whole("n_bins", n_bins), len(hits))
    along = widths(interval) if values is None else array_of("values", values, "one number per row", hits.shape)
    _no_gaps("values must be one number per row", np.isnan(along))
    order = np.argsort(along, kind="stable")
    cuts = _cuts(along[order], n_bins, _rounding(interval) if values is None else 0.0)
    return [(float(along[part[0]]), float(along[part[-1]]), _share(hits[part], 0.95)) for part in np.split(order, cuts)]


def _cuts(values: Array, n_bins: int, slack: float) -> list[int]:
    """Return where values in increasing order are cut into bins of equal counts, moved to the nearest place where they
    rise by more than `slack`."""
    with np.errstate(invalid="ignore"):  # of infinity minus infinity
        rises = np.flatnonzero(np.diff(values) > slack) + 1
    wanted = [number * len(values) // n_bins for number in range(1, n_bins)]
    return sorted({int(rises[np.abs(rises - cut).argmin()]) for cut in wanted if cut and len(rises)})


def _rounding(interval: ArrayLike) -> float:
    """Return by how much equal widths may differ from rounding."""
    both = np.concatenate(ends(interval))
    return float(4 * np.finfo(float).eps * np.abs(both[np.isfinite(both)]).max(initial=0.0))


def worst_slice_coverage(
    X: ArrayLike,
    y: ArrayLike,
    interval: ArrayLike,
    *,
    share: float = 0.1,
    n_directions: int = 200,
    random_state: int = 0,
) -> float:
    """Return the least coverage over slabs {a <= v'x <= b} that hold at least `share` of the rows, over random
    directions v and every input.

    The slab is searched on one half of the rows and judged on the other, so that it does not profit from chance.

    Parameters
    ----------
    X : array (n, d)
        The inputs of at least 20 rows.
    y : array (n,)
        The outcomes.
    interval : array (n, 2) or (n, 2, 1)
        Their intervals.
    share : float, default=0.1
        The least share of the rows in a slab.
    n_directions : int, default=200
        The number of random directions.
    random_state : int, default=0
        Seed of the directions and the halves.

    Returns
    -------
    float

    Examples
    --------
    >>> x = np.arange(100.0)
    >>> worst_slice_coverage(x[:, None], x >= 50, [[0.5, 1.5]] * 100)
    0.0
    """
    hits = inside(y, interval).astype(np.float64)
    X = finite_array("X", X, "a table with one row per interval", (len(hits), None))
    n, d = X.shape
    if n < 20 or d < 1:
        raise ValueError(f"Slices need at least 20 rows and one column; got X of shape {X.shape}.")
    number("share", share, above=0, at_most=1)
    check_memory(8.0 * d * whole("n_directions", n_directions, 0), f"{n_directions} directions", "ask for fewer")
    rng = generator(root_seed(random_state), Purpose.SLICES)
    Z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
    V = np.hstack([np.eye(d), rng.standard_normal((d, n_directions))])
    V /= np.linalg.norm(V, axis=0)
    half = rng.permutation(n) < n // 2
    worst, slab = np.inf, (V[:, 0], -np.inf, np.inf)
    for v in V.T:
        least, low, high = _worst_slab((Z @ v)[half], hits[half], share)
        if least < worst:
            worst, slab = least, (v, low, high)
    v, low, high = slab
    along = (Z @ v)[~half]
    in_slab = (low <= along) & (along <= high)
    return float(hits[~half][in_slab].mean()) if in_slab.any() else float(hits[~half].mean())


def _worst_slab(along: Array, hits: Array, share: float) -> tuple[float, float, float]:
    """Return the least coverage, and the ends, of slabs whose ends are among 50 quantiles."""
    order = np.argsort(along, kind="stable")
    total = np.concatenate([[0.0], np.cumsum(hits[order])])
    n = len(along)
    cuts = np.unique(np.linspace(0, n, 51).astype(int))
    size = cuts[None, :] - cuts[:, None]
    mean = np.where(
        size >= max(1, share * n), (total[cuts][None, :] - total[cuts][:, None]) / np.maximum(size, 1), np.inf
    )
    a, b = np.unravel_index(int(np.argmin(mean)), mean.shape)
    return float(mean[a, b]), float(along[order[cuts[a]]]), float(along[order[cuts[b] - 1]])


def _share(hits: BoolArray, confidence_level: float) -> Coverage:
    """Return the share of hits with its Clopper-Pearson interval."""
    n, k, tail = len(hits), int(hits.sum()), float(1 - exact_level(confidence_level)) / 2
    if not n:
        raise ValueError("Coverage needs at least one row.")
    low = 0.0 if k == 0 else float(beta.ppf(tail, k, n - k + 1))
    high = 1.0 if k == n else float(beta.ppf(1 - tail, k + 1, n - k))
    return Coverage(k / n, n, low, high)


def ends(interval: ArrayLike) -> tuple[Array, Array]:
    """Return the lower and the upper ends of intervals of one level.

    Parameters
    ----------
    interval : array (n, 2) or (n, 2, 1)
        The lower and the upper end of every interval.

    Returns
    -------
    pair of arrays (n,).

    Examples
    --------
    >>> ends([[0, 1], [2, 3]])
    (array([0., 2.]), array([1., 3.]))
    """
    both = array_of("interval", interval, "two ends per row, one level at a time", (None, 2), (None, 2, 1))
    both = both.reshape(len(both), 2)
    if not len(both):
        raise ValueError("interval must have at least one row; got none.")
    _no_gaps("interval must have two ends per row", np.asarray(np.isnan(both).any(axis=1)))
    return both[:, 0], both[:, 1]


def _checked(y: ArrayLike, interval: ArrayLike) -> tuple[Array, tuple[Array, Array]]:
    """Return outcomes without NaN, and the ends of as many intervals."""
    both = ends(interval)
    y = array_of("y", y, "one outcome per interval", both[0].shape)
    _no_gaps("y must have one outcome per interval", np.isnan(y))
    return y, both


def _no_gaps(wanted: str, missing: BoolArray) -> None:
    """Refuse NaN, which is neither inside an interval nor beyond it."""
    if missing.any():
        raise ValueError(f"{wanted}, none missing; row {int(missing.argmax())} has NaN.")
