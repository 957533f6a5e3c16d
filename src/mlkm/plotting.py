"""Pictures, with matplotlib (the extra `plot`)."""

from collections.abc import Callable, Sequence
from copy import copy
from inspect import signature
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from . import metrics
from ._grids import framed, one_row, place_of, row_names, rows_along
from ._types import Array
from .explain.plots import plot_effect as plot_effect
from .runtime.checks import array_of, brief, finite_array, whole
from .runtime.levels import exact_level, exact_levels

_INK, _BAND, _MISS = "#1f4e79", "#9cc3e6", "#c0392b"


def plot_band(
    band: Any,
    inputs: int | str | Sequence[int | str],
    at: Any,
    limits: ArrayLike,
    *,
    truth: Callable[[Any], Array] | None = None,
    names: Sequence[str] | None = None,
    confidence_level: Any = None,
    output: int | None = None,
) -> Figure:
    """The band along each of some inputs, the others fixed at `at`, as in the paper's Figures 3 and 4. Several levels
    are drawn inside each other.

    `inputs` are places or names. `at` is one value per input, or a row of the frame the band was fitted on: as
    `frame.iloc[[0]]` its columns keep their types, categories included. `limits` is (low, high), for all inputs drawn
    or one pair each; `truth` maps rows, given as `at` is, to the noiseless mean, where it is known. `names` are by
    default those of the frame the band was fitted on. Of several outputs, `output` says which one.
    """
    if isinstance(band, type) or not hasattr(band, "predict_interval"):
        raise TypeError(f"band must be a fitted band, as a ConformalRegressor is; got {brief(band)}.")
    columns = getattr(band, "feature_names_in_", getattr(getattr(band, "estimator_", None), "feature_names_in_", None))
    if truth is not None and not callable(truth):
        raise TypeError(f"truth must be a function of rows, or None; got {brief(truth)}.")
    if names is not None and not (isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)):
        raise TypeError(f"names must be a list of names, one per input, or None; got {brief(names)}.")
    row = one_row(at, columns, _n_inputs(band))
    names, d = names if names is not None else row_names(row, columns), np.shape(row)[-1]
    if names is not None and len(names) != d:
        raise ValueError(f"names must be one per input, {d} of them; got {brief(names)}.")
    several = isinstance(inputs, (list, tuple, range)) or (isinstance(inputs, np.ndarray) and inputs.ndim == 1)
    asked: Any = inputs if several else [inputs]
    places = [place_of(j, names, d) for j in asked]
    if not places:
        raise ValueError("inputs must name at least one input; got none.")
    levels = exact_levels(band.confidence_level if confidence_level is None else confidence_level)
    figure = Figure(figsize=(max(3.0 * len(places), 4.5), 3.6), layout="constrained")
    axes = figure.subplots(1, len(places), sharey=True, squeeze=False)[0]
    for ax, j, (low, high) in zip(axes, places, _limits(limits, len(places)), strict=True):
        grid = np.linspace(low, high, 200)
        X = rows_along(row, j, grid)
        mean, interval = _of_output(*_predicted(band, X, columns, confidence_level), output)
        for number in sorted(range(len(levels)), key=levels.__getitem__, reverse=True):
            label = "band" if len(levels) == 1 else f"band {100 * float(levels[number]):g} %"
            ax.fill_between(
                grid, interval[:, 0, number], interval[:, 1, number], color=_BAND, alpha=0.6, linewidth=0, label=label
            )
        ax.plot(grid, mean, color=_INK, linestyle="--", linewidth=1.8, label="fit")
        if truth is not None:
            ax.plot(
                grid,
                array_of("truth(X)", truth(X), "one number per row", grid.shape),
                color=_MISS,
                linewidth=1.4,
                label="truth",
            )
        ax.set_xlabel(f"$x_{{{j + 1}}}$" if names is None else names[j])
        _plain(ax)
    axes[0].set_ylabel("y, other inputs fixed")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def _n_inputs(band: Any) -> int | None:
    return getattr(band, "n_features_in_", getattr(getattr(band, "estimator_", None), "n_features_in_", None))


def _limits(limits: ArrayLike, n: int) -> Array:
    """One pair (low, high) for each of n inputs."""
    try:
        pairs = np.broadcast_to(np.asarray(limits, np.float64), (n, 2))
    except (TypeError, ValueError, OverflowError):
        pairs = np.full((n, 2), np.nan)
    if not (np.isfinite(pairs).all() and (pairs[:, 0] < pairs[:, 1]).all()):
        raise ValueError(
            f"limits must be (low, high) with low < high, or one such pair per input; got {brief(limits)}."
        )
    return pairs


def _predicted(band: Any, X: Any, columns: Any, confidence_level: Any) -> tuple[Array, Array]:
    """Mean and interval at X, with the names of the inputs where the model knows some."""
    if confidence_level is not None and "confidence_level" not in signature(band.predict_interval).parameters:
        raise ValueError(f"{type(band).__name__} has one level, that of its constructor; leave confidence_level out.")
    asked = {} if confidence_level is None else {"confidence_level": confidence_level}
    # a copy, since the rows of an online band wait for their outcomes
    mean, interval = copy(band).predict_interval(framed(X, columns), **asked)
    return mean, interval


def _of_output(mean: Array, interval: Array, output: int | None) -> tuple[Array, Array]:
    if output is not None:
        whole("output", output, 0)
    if mean.ndim == 1:
        return mean, interval
    if output is None or not 0 <= output < mean.shape[1]:
        raise ValueError(
            f"The band has {mean.shape[1]} outputs: say which one to draw, as in output=0; got {brief(output)}."
        )
    return mean[:, output], interval[..., output]


def plot_predictions(y: ArrayLike, mean: ArrayLike, interval: ArrayLike, *, most: int = 150) -> Figure:
    """Observed against predicted, each with its interval; at most `most` rows, evenly spread along the predictions.
    Misses are red."""
    hits, (low, high) = metrics.inside(y, interval), metrics.ends(interval)
    y, mean = np.asarray(y, np.float64), _predictions(mean, hits.shape)
    most = whole("most", most)
    order = np.argsort(mean, kind="stable")
    shown = order[np.unique(np.linspace(0, len(y) - 1, min(most, len(y))).astype(int))]
    finite = np.concatenate([y[shown], low[shown][np.isfinite(low[shown])], high[shown][np.isfinite(high[shown])]])
    bottom, top = finite.min(), finite.max()
    figure = Figure(figsize=(5.2, 4.6), layout="constrained")
    ax = figure.subplots()
    ax.vlines(
        mean[shown],
        np.maximum(low[shown], bottom),
        np.minimum(high[shown], top),
        color=_BAND,
        linewidth=1.0,
        alpha=0.7,
        label="interval",
    )
    ax.plot([mean.min(), mean.max()], [mean.min(), mean.max()], color="grey", linewidth=1)
    for inside, colour, label in ((True, _INK, "inside"), (False, _MISS, "outside")):
        rows = shown[hits[shown] == inside]
        ax.scatter(mean[rows], y[rows], s=14, color=colour, label=label, zorder=3)
    share = metrics.coverage(y, interval)
    ax.set(xlabel="predicted", ylabel="observed", title=f"{100 * share.share:.1f} % of {share.n} outcomes inside")
    ax.legend(frameon=False, loc="upper left")
    _plain(ax)
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
    """Coverage with its binomial interval in bins of equal counts, along the widths or any other values."""
    level = float(exact_level(confidence_level))
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a text, or None; got {brief(name)}.")
    bins = metrics.coverage_by_bin(y, interval, values, n_bins)
    shares = np.array([part.share for *_, part in bins])
    ends = np.array([[part.low, part.high] for *_, part in bins])
    figure = Figure(figsize=(1.1 * len(bins) + 1.5, 3.6), layout="constrained")
    ax = figure.subplots()
    at = np.arange(len(bins))
    ax.errorbar(at, shares, yerr=np.array([shares - ends[:, 0], ends[:, 1] - shares]), fmt="o", color=_INK, capsize=4)
    ax.axhline(level, color=_MISS, linewidth=1, linestyle="--", label=f"level {level:g}")
    ax.set_xticks(at, [f"{low:.3g}\nto {high:.3g}" for low, high, _ in bins])
    ax.set(
        xlabel=name or ("width" if values is None else "value"),
        ylabel="coverage",
        xlim=(-0.5, len(bins) - 0.5),
        ylim=(None, 1.005),
    )
    ax.legend(frameon=False, loc="best")
    _plain(ax)
    return figure


def plot_widths(y: ArrayLike, mean: ArrayLike, interval: ArrayLike) -> Figure:
    """Width against |residual|: a useful band is wide where errors are large. The line joins the medians of ten
    bins."""
    metrics.inside(y, interval)
    width = metrics.widths(interval)
    residual = np.abs(np.asarray(y, np.float64) - _predictions(mean, width.shape))
    width, residual = width[np.isfinite(width)], residual[np.isfinite(width)]
    if not len(width):
        raise ValueError("plot_widths needs at least one interval of finite width; all are infinite.")
    figure = Figure(figsize=(5.2, 4.0), layout="constrained")
    ax = figure.subplots()
    ax.scatter(width, residual, s=9, color=_INK, alpha=0.35, linewidths=0)
    parts = [part for part in np.array_split(np.argsort(width, kind="stable"), 10) if len(part)]
    medians = [(np.median(width[part]), np.median(residual[part])) for part in parts]
    ax.plot(*np.transpose(medians), color=_MISS, marker="o", label="median by tenth of the rows")
    ax.set(xlabel="width of the interval", ylabel="|residual|", ylim=(0, None))
    ax.legend(frameon=False)
    _plain(ax)
    return figure


def plot_convergence(models: dict[str, Any]) -> Figure:
    """`loss_curve_` of fitted models by name, on logarithmic axes."""
    if not isinstance(models, dict) or not models:
        raise TypeError(f"models must be fitted models by name, as in {{'MLKM': model}}; got {brief(models)}.")
    without = [name for name, model in models.items() if not len(getattr(model, "loss_curve_", ()))]
    if without:
        raise ValueError(
            f"plot_convergence needs models fitted by descent, with a loss_curve_; {', '.join(map(repr, without))} has"
            " none."
        )
    figure = Figure(figsize=(5.2, 3.8), layout="constrained")
    ax = figure.subplots()
    for name, model in models.items():
        ax.plot(np.arange(1, len(model.loss_curve_) + 1), model.loss_curve_, label=name, linewidth=1.6)
    ax.set(xscale="log", yscale="log", xlabel="epoch", ylabel="loss")
    ax.legend(frameon=False)
    _plain(ax)
    return figure


def _plain(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
