"""Pictures of bands, predictions and effects, with matplotlib (the extra `plot`)."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from . import metrics
from ._types import Array, BoolArray
from .data.tables.cells import RawColumn, as_words
from .explain import Effects
from .runtime.checks import array_of, brief, finite_array, place_of, whole
from .runtime.confidence import exact_level, exact_levels

if TYPE_CHECKING:
    from pandas import DataFrame

_INK, _BAND, _MISS = "#1f4e79", "#9cc3e6", "#c0392b"


def plot_band(
    band: Any,
    inputs: int | str | Sequence[int | str],
    at: Any,
    limits: ArrayLike,
    *,
    truth: Callable[[Any], ArrayLike] | None = None,
    names: Sequence[str] | None = None,
    confidence_level: float | Sequence[float] | None = None,
    output: int | None = None,
) -> Figure:
    """Draw a band along each of the given inputs with the others fixed, as in the paper's Figures 3 and 4.

    Parameters
    ----------
    band : a fitted band, as a ConformalRegressor is
    inputs : places or names of the inputs along which it is drawn
    at : one value per input, or a row of the frame the band was fitted on; in `frame.iloc[[0]]` columns keep their
        types, categories included
    limits : (low, high), for all inputs drawn, or one such pair each
    truth : a function from rows, given as `at` is, to the noiseless mean, where it is known
    names : names of the inputs; by default those of the frame the band was fitted on
    confidence_level : one or several levels, drawn inside each other; by default those of the band
    output : which of several outputs

    Examples
    --------
    >>> from mlkm import ConformalRegressor, RandomFeatureRidge
    >>> from mlkm.datasets import make_example1
    >>> X, y, f = make_example1(n=200, d=4, random_state=0)
    >>> band = ConformalRegressor(RandomFeatureRidge(50, random_state=0), random_state=0).fit(X, y)
    >>> len(plot_band(band, [0, 2], [0.5, 0.5, 0.5, 0.5], (0, 1)).axes)
    2
    """
    if isinstance(band, type) or not hasattr(band, "predict_interval"):
        raise TypeError(f"band must be a fitted band, as a ConformalRegressor is; got {brief(band)}.")
    if truth is not None and not callable(truth):
        raise TypeError(f"truth must be a function of rows, or None; got {brief(truth)}.")
    if names is not None and not (isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)):
        raise TypeError(f"names must be a list of names, one per input, or None; got {brief(names)}.")
    columns = _fitted(band, "feature_names_in_")
    row = _fixed_row(at, columns, _fitted(band, "n_features_in_"))
    n_inputs, known = int(np.shape(row)[-1]), getattr(row, "columns", None) if columns is None else columns
    names = list(map(str, known)) if names is None and known is not None else names
    if names is not None and len(names) != n_inputs:
        raise ValueError(f"names must be one per input, {n_inputs} of them; got {brief(names)}.")
    several = isinstance(inputs, (list, tuple, range)) or (isinstance(inputs, np.ndarray) and inputs.ndim == 1)
    asked: Any = inputs if several else [inputs]
    places = [place_of("An input", j, names, n_inputs) for j in asked]
    if not places:
        raise ValueError("inputs must name at least one input; got none.")
    levels = exact_levels(band.confidence_level if confidence_level is None else confidence_level)
    figure = Figure(figsize=(max(3.0 * len(places), 4.5), 3.6), layout="constrained")
    axes = figure.subplots(1, len(places), sharey=True, squeeze=False)[0]
    for ax, j, (low, high) in zip(axes, places, _limits(limits, len(places)), strict=True):
        grid = np.linspace(low, high, 200)
        X = _along(row, j, grid)
        mean, interval = _predicted(band, _named(X, columns), confidence_level, output)
        for k in sorted(range(len(levels)), key=levels.__getitem__, reverse=True):
            label = "band" if len(levels) == 1 else f"band {100 * float(levels[k]):g} %"
            style = {"color": _BAND, "alpha": 0.6, "linewidth": 0}
            ax.fill_between(grid, interval[:, 0, k], interval[:, 1, k], label=label, **style)
        ax.plot(grid, mean, color=_INK, linestyle="--", linewidth=1.8, label="fit")
        if truth is not None:
            values = array_of("truth(X)", truth(X), "one number per row", grid.shape)
            ax.plot(grid, values, color=_MISS, linewidth=1.4, label="truth")
        ax.set_xlabel(f"$x_{{{j + 1}}}$" if names is None else names[j])
        _without_frame(ax)
    axes[0].set_ylabel("y, other inputs fixed")
    handles, labels = axes[0].get_legend_handles_labels()  # one legend for all of them
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def _fitted(band: Any, name: str) -> Any:
    """Return a fitted attribute of a band or of the model in it, or None."""
    return getattr(band, name, getattr(getattr(band, "estimator_", None), name, None))


def _limits(limits: ArrayLike, n: int) -> Array:
    """Return one pair (low, high) for each of n inputs."""
    try:
        pairs = np.broadcast_to(np.asarray(limits, np.float64), (n, 2))
    except (TypeError, ValueError, OverflowError):
        pairs = np.full((n, 2), np.nan)
    if not (np.isfinite(pairs).all() and (pairs[:, 0] < pairs[:, 1]).all()):
        raise ValueError(
            f"limits must be (low, high) with low < high, or one such pair per input; got {brief(limits)}."
        )
    return pairs


def _predicted(band: Any, X: Any, confidence_level: Any, output: int | None) -> tuple[Array, Array]:
    """Return mean and interval at X for one output."""
    if confidence_level is not None and "confidence_level" not in signature(band.predict_interval).parameters:
        raise ValueError(f"{type(band).__name__} has one level, that of its constructor; leave confidence_level out.")
    asked = {} if confidence_level is None else {"confidence_level": confidence_level}
    # a copy, since the rows of an online band wait for their outcomes
    mean, interval = copy(band).predict_interval(X, **asked)
    return _of_output(mean, output, "The band has"), _of_output(interval, output, "The band has", 3)


def _of_output(values: Array, output: int | None, what: str, ndim: int = 1) -> Array:
    """Return values for one output: as they are, or where they have one more dimension, the given place in it."""
    if output is not None:
        whole("output", output, 0)
    if values.ndim == ndim:
        return values
    if output is None or not 0 <= output < values.shape[-1]:
        raise ValueError(
            f"{what} {values.shape[-1]} outputs: say which one to draw, as in output=0; got {brief(output)}."
        )
    return np.asarray(values[..., output])


def _fixed_row(at: Any, columns: Sequence[str] | None, n_inputs: int | None) -> "Array | DataFrame":
    """Return a row of numbers, or a frame of one row whose columns keep their types, from what a caller gives: numbers,
    a dictionary, a series or a frame of one row."""
    if hasattr(at, "to_dicts"):  # a frame of polars
        at = _only(at.to_dicts())
    if hasattr(at, "keys"):
        return _frame_of(at, columns)
    values = at if isinstance(at, (list, tuple, np.ndarray)) else [at]
    if columns is not None and len(values) == len(columns) and any(isinstance(value, str) for value in values):
        return _frame_of(dict(zip(columns, values, strict=True)), columns)
    try:
        row = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        row = np.empty((0, 0))
    if row.ndim != 1 or n_inputs not in (None, len(row)):
        raise ValueError(
            f"at must be one number for each of the {n_inputs or 'known'} inputs, or a row of a frame; got {brief(at)}."
        )
    return row


def _along(row: "Array | DataFrame", j: int, grid: Array) -> "Array | DataFrame":
    """Return the row once for every value of the grid, which input j takes."""
    if isinstance(row, np.ndarray):
        X = np.tile(row, (len(grid), 1))
        X[:, j] = grid
        return X
    name, dtype = row.columns[j], row.dtypes.iloc[j]
    if not import_module("pandas").api.types.is_numeric_dtype(dtype):
        value = row.iloc[0, j]
        raise ValueError(f"A band is drawn along inputs that are numbers; got {brief(name)}, which is {value!r}.")
    frame = row.iloc[np.zeros(len(grid), np.intp)].reset_index(drop=True)
    frame[name] = grid.astype(dtype) if dtype in (np.float32, np.float64) else grid
    return frame


def _named(X: "Array | DataFrame", columns: Sequence[str] | None) -> "Array | DataFrame":
    """Return numbers with the names that the model knows, so that it need not warn of missing ones."""
    if columns is None or not isinstance(X, np.ndarray) or not find_spec("pandas"):
        return X
    frame: DataFrame = import_module("pandas").DataFrame(X, columns=list(columns))
    return frame


def _frame_of(at: Any, columns: Sequence[str] | None) -> "DataFrame":
    """Return a frame of one row, its columns in the order in which the model knows them."""
    pandas = import_module("pandas")
    row = at if isinstance(at, pandas.DataFrame) else pandas.DataFrame({name: [at[name]] for name in at.keys()})  # noqa: SIM118
    _only(row.index)
    absent = [] if columns is None else [name for name in columns if name not in row]
    if absent:
        raise ValueError(f"at must have all inputs of the model; got none for {', '.join(map(repr, absent))}.")
    result: DataFrame = row if columns is None else row[list(columns)]
    return result


def _only(rows: Sequence[Any]) -> Any:
    if len(rows) != 1:
        raise ValueError(f"at must be one row, such as frame.iloc[[0]]; got {len(rows)} rows.")
    return rows[0]


def plot_effect(effects: Effects, j: int | str, *, output: int | None = None) -> Figure:
    """Draw the main effect of a column at the rows that `effects` are for.

    Along a number or a date it is a curve with its bands, the darker one for each place and the lighter one for all at
    once, and a mark for every row; for levels it is points with bars.

    Parameters
    ----------
    effects : what `model.effects(X)` returns
    j : the place or the name of the column
    output : which of several outputs

    Examples
    --------
    >>> from mlkm import RandomFeatureRidge
    >>> from mlkm.datasets import make_example1
    >>> X, y, f = make_example1(n=200, d=4, random_state=0)
    >>> effects = RandomFeatureRidge(50, random_state=0).fit(X, y).effects(X)
    >>> plot_effect(effects, 2).axes[0].get_xlabel()
    'x2'
    """
    if not isinstance(effects, Effects):
        raise TypeError(f"effects must be what model.effects(X) gives; got {brief(effects)}.")
    effect = effects.main(j)
    (place,) = effect.columns
    every = np.stack([effect.values, *effect.band, *effect.band_simultaneous])
    curves = _of_output(every, output, "The effects are for", 2)
    figure, ax = _axes(5.2, 3.6)
    raw = effects.table.columns[place]
    if effects.is_category(place):
        _levels(ax, as_words(raw), curves)
    else:
        _curve(ax, raw, curves)
    ax.axhline(0, color="grey", linewidth=0.8, zorder=0)
    ax.set(xlabel=effects.names[place], ylabel="effect on y")
    return figure


def _curve(ax: Axes, x: RawColumn, curves: Array) -> None:
    """Draw a curve with its bands; the effect of a missing value is a point beyond its end."""
    is_date = x.dtype.kind == "M"
    missing: BoolArray = np.isnat(x) if is_date else np.isnan(x)
    beyond: Any = np.datetime64("2000-01-01", "us") if is_date else 0.0
    if not missing.all():
        at, first = np.unique(x[~missing], return_index=True)
        value, low, high, lowest, highest = curves[:, ~missing][:, first]
        ax.fill_between(at, lowest, highest, color=_BAND, alpha=0.35, linewidth=0, label="all at once")
        ax.fill_between(at, low, high, color=_BAND, alpha=0.8, linewidth=0, label="at each place")
        ax.plot(at, value, color=_INK, linewidth=1.8)
        if is_date:
            shorter: Any = dates.ConciseDateFormatter
            ax.xaxis.set_major_formatter(shorter(ax.xaxis.get_major_locator()))
        ax.plot(at, np.zeros(len(at)), "|", color=_INK, alpha=0.5, transform=ax.get_xaxis_transform(), clip_on=False)
        ax.legend(frameon=False, fontsize="small")
        beyond = at[-1] + (at[-1] - at[0]) / 12
    if missing.any():
        _bars(ax, np.array([beyond]), curves[:, missing][:, :1])
        ax.annotate("missing", (beyond, 1), xycoords=("data", "axes fraction"), ha="center", va="top", fontsize="small")


def _levels(ax: Axes, words: RawColumn, curves: Array, most_names: int = 40) -> None:
    """Draw points with bars for levels in the order of their names, missing last; name at most so many of them."""
    missing = np.array([word is None for word in words])
    names = np.array(["missing" if word is None else str(word) for word in words], object)
    kinds = sorted({(bool(gone), str(name)) for gone, name in zip(missing, names, strict=True)})
    first = [int(np.flatnonzero((names == name) & (missing == gone))[0]) for gone, name in kinds]
    _bars(ax, np.arange(len(first)), curves[:, first])
    shown = range(0, len(kinds), 1 + (len(kinds) - 1) // most_names)
    ax.set_xticks(list(shown), [kinds[k][1] for k in shown], rotation=45 if len(kinds) > 6 else 0)
    ax.set_xlim(-0.5, len(first) - 0.5)


def _bars(ax: Axes, at: NDArray[Any], curves: Array) -> None:
    value, low, high, lowest, highest = curves
    ax.vlines(at, lowest, highest, color=_BAND, linewidth=3)
    _error_bars(ax, at, value, low, high)


def _error_bars(ax: Axes, at: NDArray[Any], value: Array, low: Array, high: Array) -> None:
    ax.errorbar(at, value, yerr=np.array([value - low, high - value]), fmt="o", color=_INK, capsize=4)


def plot_predictions(y: ArrayLike, mean: ArrayLike, interval: ArrayLike, *, most: int = 150) -> Figure:
    """Draw observed against predicted values, each with its interval, in red where the outcome is outside.

    Parameters
    ----------
    y, mean, interval : outcomes (n,), predictions (n,) and intervals (n, 2)
    most : how many rows are drawn at most, evenly spread along the predictions

    Examples
    --------
    >>> plot_predictions([0.0, 2.0], [0.5, 1.0], [[0.0, 1.0], [0.5, 1.5]]).axes[0].get_title()
    '50.0 % of 2 outcomes inside'
    """
    hits, (low, high) = metrics.inside(y, interval), metrics.ends(interval)
    y, mean = np.asarray(y, np.float64), _predictions(mean, hits.shape)
    most = whole("most", most)
    order = np.argsort(mean, kind="stable")
    shown = order[np.unique(np.linspace(0, len(y) - 1, min(most, len(y))).astype(int))]
    every = np.concatenate([y[shown], low[shown], high[shown]])
    bottom, top = every[np.isfinite(every)].min(), every[np.isfinite(every)].max()
    figure, ax = _axes(5.2, 4.6)
    ends = np.maximum(low[shown], bottom), np.minimum(high[shown], top)
    ax.vlines(mean[shown], *ends, color=_BAND, linewidth=1.0, alpha=0.7, label="interval")
    ax.plot([mean.min(), mean.max()], [mean.min(), mean.max()], color="grey", linewidth=1)
    for inside, colour, label in ((True, _INK, "inside"), (False, _MISS, "outside")):
        rows = shown[hits[shown] == inside]
        ax.scatter(mean[rows], y[rows], s=14, color=colour, label=label, zorder=3)
    share = metrics.coverage(y, interval)
    ax.set(xlabel="predicted", ylabel="observed", title=f"{100 * share.share:.1f} % of {share.n} outcomes inside")
    ax.legend(frameon=False, loc="upper left")
    return figure


def _predictions(mean: ArrayLike, shape: tuple[int, ...]) -> Array:
    return finite_array("mean", mean, "one prediction per interval", shape)


def plot_coverage_by_bin(
    y: ArrayLike,
    interval: ArrayLike,
    values: ArrayLike | None = None,
    *,
    confidence_level: float = 0.95,
    n_bins: int = 5,
    name: str | None = None,
) -> Figure:
    """Draw coverage with its binomial interval in bins of equal counts, along the widths or any other values.

    Parameters
    ----------
    y, interval : outcomes (n,) and intervals (n, 2)
    values : what the bins are along, (n,); by default the widths
    confidence_level : the level at which a line is drawn
    n_bins : the number of bins
    name : the name of the values

    Examples
    --------
    >>> import numpy as np
    >>> y = np.linspace(-1, 1, 50)
    >>> plot_coverage_by_bin(y, np.stack([y - 1, y + 1], axis=1), y, name="y").axes[0].get_xlabel()
    'y'
    """
    level = float(exact_level(confidence_level))
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a text, or None; got {brief(name)}.")
    bins = metrics.coverage_by_bin(y, interval, values, n_bins)
    shares, low, high = np.array([[part.share, part.low, part.high] for *_, part in bins]).T
    figure, ax = _axes(1.1 * len(bins) + 1.5, 3.6)
    at = np.arange(len(bins))
    _error_bars(ax, at, shares, low, high)
    ax.axhline(level, color=_MISS, linewidth=1, linestyle="--", label=f"level {level:g}")
    ax.set_xticks(at, [f"{left:.3g}\nto {right:.3g}" for left, right, _ in bins])
    xlabel = name or ("width" if values is None else "value")
    ax.set(xlabel=xlabel, ylabel="coverage", xlim=(-0.5, len(bins) - 0.5), ylim=(None, 1.005))
    ax.legend(frameon=False, loc="best")
    return figure


def plot_widths(y: ArrayLike, mean: ArrayLike, interval: ArrayLike) -> Figure:
    """Draw widths of intervals against absolute residuals: a useful band is wide where errors are large.

    A line joins the medians of ten bins along the width.

    Parameters
    ----------
    y, mean, interval : outcomes (n,), predictions (n,) and intervals (n, 2)

    Examples
    --------
    >>> plot_widths([0.0, 2.0], [0.5, 1.0], [[0.0, 1.0], [0.0, 2.0]]).axes[0].get_xlabel()
    'width of the interval'
    """
    metrics.inside(y, interval)
    width = metrics.widths(interval)
    residual = np.abs(np.asarray(y, np.float64) - _predictions(mean, width.shape))
    width, residual = width[np.isfinite(width)], residual[np.isfinite(width)]
    if not len(width):
        raise ValueError("plot_widths needs at least one interval of finite width; all are infinite.")
    figure, ax = _axes(5.2, 4.0)
    ax.scatter(width, residual, s=9, color=_INK, alpha=0.35, linewidths=0)
    parts = [part for part in np.array_split(np.argsort(width, kind="stable"), 10) if len(part)]
    medians = [(np.median(width[part]), np.median(residual[part])) for part in parts]
    ax.plot(*np.transpose(medians), color=_MISS, marker="o", label="median by tenth of the rows")
    ax.set(xlabel="width of the interval", ylabel="|residual|", ylim=(0, None))
    ax.legend(frameon=False)
    return figure


def plot_convergence(models: Mapping[str, Any]) -> Figure:
    """Draw `loss_curve_` of fitted models on logarithmic axes.

    Parameters
    ----------
    models : models fitted by descent, by the names under which they are shown

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> plot_convergence({"MLKM": SimpleNamespace(loss_curve_=[3.0, 2.0, 1.5])}).axes[0].get_ylabel()
    'loss'
    """
    if not isinstance(models, dict) or not models:
        raise TypeError(f"models must be fitted models by name, as in {{'MLKM': model}}; got {brief(models)}.")
    without = [name for name, model in models.items() if not len(getattr(model, "loss_curve_", ()))]
    if without:
        raise ValueError(
            f"plot_convergence needs models fitted by descent, with a loss_curve_; {', '.join(map(repr, without))} has"
            " none."
        )
    figure, ax = _axes(5.2, 3.8)
    for name, model in models.items():
        ax.plot(np.arange(1, len(model.loss_curve_) + 1), model.loss_curve_, label=name, linewidth=1.6)
    ax.set(xscale="log", yscale="log", xlabel="epoch", ylabel="loss")
    ax.legend(frameon=False)
    return figure


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of so many inches with one pair of axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    ax = figure.subplots()
    _without_frame(ax)
    return figure, ax


def _without_frame(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
