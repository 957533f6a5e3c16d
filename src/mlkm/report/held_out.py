"""Facts from held-out rows: errors beside those of simple models, coverage of the band, and effects to draw.

The simple models are fitted to the training rows, in the inputs that the fit made of the table: numbers, levels of
categories, coordinates of texts.
"""

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .. import metrics
from .._types import Array, BoolArray, IntArray
from ..data import Block
from ..data.tables.cells import RawColumn, as_words
from ..explain import Effects
from ..metrics import Coverage


@dataclass(frozen=True)
class ReportDetail:
    """Settings of how much a report shows, and thresholds above which it says something."""

    ridge_penalties: tuple[float, ...] = tuple(np.logspace(-2, 4, 13))  # times the number of rows over a thousand
    ridge_levels: int = 50  # the most frequent levels of a category, which have a column each in ridge regression
    boosting_levels: int = 254  # levels that gradient boosting tells apart, at most
    bins: int = 10  # of rows along the prediction
    group_rows: int = 20  # of a bin or a level whose coverage is shown, at least
    groups: int = 12  # levels whose coverage is shown, at most
    slice_rows: int = 200  # held-out rows from which a worst slice is searched
    slice_share: float = 0.2  # of the rows in a slice, at least
    curves: tuple[int, int, int] = (6, 3, 8000)  # effects shown; fewer for fits to more rows, whose bands take long
    curve_relevance: float = 0.01  # of a column whose effect is shown, at least
    curve_levels: int = 15  # levels whose effects are shown, at most
    curve_points: int = 60  # along a curve
    effect_rows: int = 400  # held-out rows at which effects are computed
    seen_share: float = 0.05  # of the rows may equal training rows by chance
    largest: float = 1e150  # number whose square, and sums of them, float64 holds
    few_rows: int = 100  # held-out rows below which shares are rough
    slice_slack: float = 0.05  # by which the coverage of the worst slice may fall below the level
    same_error: float = 1.02  # ratio of errors below which they count as equal
    weak: float = 0.1  # R² below which the columns say little
    exact: float = 0.999  # R² above which a column may give the target away
    alone: float = 0.95  # relevance of one column above which it is nearly all
    idle: float = 0.001  # relevance below which a column hardly matters
    biased: float = 4.0  # standard errors of the mean residual
    points: int = 1500  # outcomes that are drawn
    bars: int = 15  # columns whose relevance is drawn
    listed: int = 5  # of the largest misses
    summary_columns: int = 5  # whose relevance a notebook shows


DETAIL = ReportDetail()


@dataclass(frozen=True)
class Score:
    """The errors of one model on the held-out rows; `seconds` is the time of its fit, where it is known."""

    name: str
    rmse: float
    mae: float
    r2: float
    seconds: float | None = None


def score(name: str, y: Array, prediction: Array, seconds: float | None = None) -> Score:
    """Return the errors of predictions; R² is NaN where outcomes do not vary.

    >>> score("mean", np.array([1.0, 3.0]), np.array([2.0, 2.0]))
    Score(name='mean', rmse=1.0, mae=1.0, r2=0.0, seconds=None)
    """
    error = y - prediction
    spread = float(np.mean((y - y.mean()) ** 2))
    mse = float(np.mean(error**2))
    return Score(name, mse**0.5, float(np.abs(error).mean()), 1 - mse / spread if spread else float("nan"), seconds)


def baselines(rows: Block, targets: Array, held_out: Array, y: Array) -> list[Score]:
    """Return the errors of gradient boosting, ridge regression and the mean.

    Parameters
    ----------
    rows : the training rows in inputs of the fit
    targets : their targets in units of y
    held_out, y : the held-out rows in the same inputs, and their outcomes
    """
    # Imported here, since `import mlkm` need not wait for them.
    from sklearn.dummy import DummyRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV

    levels = np.flatnonzero(rows.inputs.levels)
    frequent = {int(j): most_frequent(rows.X[:, j], DETAIL.boosting_levels) for j in levels}
    boosting = HistGradientBoostingRegressor(categorical_features=levels, random_state=0)
    ridge = RidgeCV(np.array(DETAIL.ridge_penalties) * max(1.0, len(rows) / 1000))
    coded, flat = ([made(X, frequent) for X in (rows.X, held_out)] for made in (_coded, _indicators))
    models = (
        ("gradient boosting", boosting, coded),
        ("ridge regression", ridge, flat),
        ("mean", DummyRegressor(), flat),
    )
    scores = []
    for name, model, (training, new) in models:
        begin = perf_counter()
        with threadpool_limits(1, user_api="openmp"):  # on a busy machine the threads of boosting wait for each other
            prediction = np.asarray(model.fit(training, targets, sample_weight=rows.weights).predict(new))
        scores.append(score(name, y, prediction, perf_counter() - begin))
    return scores


def n_seen(rows: Block, held_out: Array, targets: Array) -> int:
    """Return how many held-out rows, with these standardised targets, are training rows."""
    known = {row.tobytes() for row in np.hstack([rows.X, rows.Y])}
    return sum(row.tobytes() in known for row in np.hstack([held_out, targets]))


def most_frequent(values: Array | NDArray[np.str_], most: int, least_rows: int = 1) -> NDArray[np.generic]:
    """Return the most frequent distinct values with at least so many rows, the most frequent first.

    >>> most_frequent(np.array([3.0, 1.0, 2.0, 2.0, 1.0, 2.0]), 2)
    array([2., 1.])
    """
    distinct, counts = np.unique(values, return_counts=True)
    return np.asarray(distinct[np.argsort(-counts, kind="stable")][: min(most, int((counts >= least_rows).sum()))])


def level_names(column: RawColumn) -> NDArray[np.str_]:
    """Return the levels of a column as text, with a word for missing ones."""
    return np.array(["missing" if word is None else str(word) for word in as_words(column)], str)


def _indicators(X: Array, frequent: dict[int, NDArray[np.generic]]) -> Array:
    """Replace every category by a column of zeros and ones for each of its most frequent levels."""
    ones = [(X[:, [j]] == levels[: DETAIL.ridge_levels]).astype(float) for j, levels in frequent.items()]
    return np.hstack([np.delete(X, list(frequent), axis=1), *ones])


def _coded(X: Array, frequent: dict[int, NDArray[np.generic]]) -> Array:
    """Replace levels by their places among the most frequent ones, and others by NaN."""
    X = X.copy()
    for j, levels in frequent.items():
        known = np.sort(levels)
        at = np.clip(np.searchsorted(known, X[:, j]), 0, len(known) - 1)
        X[:, j] = np.where(known[at] == X[:, j], at, np.nan)
    return X


@dataclass(frozen=True)
class BandFacts:
    """The coverage of the band on the held-out rows.

    `tenths` are (low, high, coverage) of parts of the rows along the prediction, `groups` (level, coverage) of the
    column `by`, the lowest coverage first, and `worst` is the coverage of the worst slice.
    """

    level: float
    guaranteed: bool
    overall: Coverage
    mean_width: float
    median_width: float
    tenths: tuple[tuple[float, float, Coverage], ...]
    by: str | None
    groups: tuple[tuple[str, Coverage], ...]
    worst: float | None


def band_facts(
    y: Array,
    prediction: Array,
    interval: Array,
    level: float | None,
    inputs: Array | None,
    category: tuple[str, RawColumn] | None,
) -> BandFacts:
    """Judge intervals (n, 2) by held-out outcomes.

    Parameters
    ----------
    y, prediction, interval : outcomes, predictions and intervals
    level : of a calibrated band, or None for intervals from standard deviations, whose level is 95 % without guarantee
    inputs : numbers along which the worst slice is searched, if there are any
    category : the name and the values of the column by whose levels coverage is shown
    """
    groups = () if category is None else _coverage_by_level(y, interval, category[1])
    worst, share = None, DETAIL.slice_share
    if inputs is not None and len(y) >= DETAIL.slice_rows and inputs.shape[1]:
        worst = metrics.worst_slice_coverage(inputs, y, interval, share=share, n_directions=100)
    return BandFacts(
        level or 0.95,
        level is not None,
        metrics.coverage(y, interval),
        metrics.mean_width(interval),
        metrics.median_width(interval),
        tuple(metrics.coverage_by_bin(y, interval, prediction, min(DETAIL.bins, max(1, len(y) // DETAIL.group_rows)))),
        category[0] if category is not None and groups else None,
        groups,
        worst,
    )


def _coverage_by_level(y: Array, interval: Array, column: RawColumn) -> tuple[tuple[str, Coverage], ...]:
    """Return the coverage of the most frequent levels, the lowest first, or none where there is only one level."""
    names = level_names(column)
    frequent = most_frequent(names, DETAIL.groups, DETAIL.group_rows)
    if len(frequent) < 2:
        return ()
    shown = np.isin(names, frequent)
    by_level = metrics.coverage_by_group(y[shown], interval[shown], names[shown])
    return tuple(sorted(((str(name), own) for name, own in by_level.items()), key=lambda pair: pair[1].share))


@dataclass(frozen=True)
class Curve:
    """The effect of one column at some of its values, in units of y, with its band.

    `kind` is "number", "date" or "levels"; `missing` is (value, lower, upper) where a number or a date is missing.
    """

    name: str
    kind: str
    at: tuple[float, ...] | tuple[str, ...]
    value: Array
    lower: Array
    upper: Array
    missing: tuple[float, float, float] | None


def curves(effects: Effects, relevance: Array, n_rows: int) -> list[Curve]:
    """Return the effects of the columns with the largest relevance, for a fit to so many rows."""
    most, fewer, many_rows = DETAIL.curves
    order = np.argsort(-relevance, kind="stable")[: most if n_rows <= many_rows else fewer]
    shown = [_curve(effects, int(j)) for j in order if relevance[j] >= DETAIL.curve_relevance]
    return [curve for curve in shown if len(curve.at)]


def _curve(effects: Effects, j: int) -> Curve:
    effect = effects.main(j)
    values, column = np.stack([effect.values, *effect.band]), effects.table.columns[j]
    return (_levels if effects.is_category(j) else _along)(effects.names[j], column, values)


def _along(name: str, column: RawColumn, values: Array) -> Curve:
    """Return the effect along a number or a date at distinct values, evenly spread along their order."""
    dates = column.dtype.kind == "M"
    gone: BoolArray = np.isnat(column) if dates else np.isnan(column)
    distinct, first = np.unique(column[~gone], return_index=True)
    shown = evenly(len(distinct), DETAIL.curve_points)
    value, lower, upper = values[:, ~gone][:, first[shown]]
    at = tuple(map(_date_text, distinct[shown])) if dates else tuple(map(float, distinct[shown]))
    missing = None
    if gone.any():
        missing = (float(values[0, gone][0]), float(values[1, gone][0]), float(values[2, gone][0]))
    return Curve(name, "date" if dates else "number", at, value, lower, upper, missing)


def _date_text(date: np.datetime64) -> str:
    return str(date)[:19].removesuffix("T00:00:00").replace("T", " ")


def _levels(name: str, column: RawColumn, values: Array) -> Curve:
    """Return the effects of the most frequent levels, from the least to the largest."""
    names = level_names(column)
    frequent = most_frequent(names, DETAIL.curve_levels)
    first = np.array([int(np.flatnonzero(names == level)[0]) for level in frequent])
    order = np.argsort(values[0, first], kind="stable")
    value, lower, upper = values[:, first[order]]
    return Curve(name, "levels", tuple(map(str, frequent[order])), value, lower, upper, None)


def evenly(n: int, most: int) -> IntArray:
    """Return at most so many places among n, evenly spread, both ends among them.

    >>> evenly(10, 4)
    array([0, 3, 6, 9])
    """
    return np.unique(np.linspace(0, n - 1, min(most, n)).round().astype(np.intp))
