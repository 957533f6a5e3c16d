"""Pictures of effects, with matplotlib (the extra `plot`)."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._types import Array, BoolArray
from ..data.tables.cells import RawColumn
from ..data.tables.frames import as_words
from ..runtime.checks import brief, whole
from .effects import Effect, Effects

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _BAND = "#1f4e79", "#9cc3e6"
_MOST_TICKS = 40  # names of levels that can be read beside each other


def plot_effect(effects: Effects, j: int | str, *, output: int | None = None) -> "Figure":
    """The main effect of a column at the rows that `effects` are for: a curve along a number or a date with its bands,
    the darker one for each place and the lighter one for all at once, and a mark for every row; points with bars for
    levels. Of several outputs, `output` says which one."""
    from matplotlib.figure import Figure

    if not isinstance(effects, Effects):
        raise TypeError(f"effects must be what model.effects(X) gives; got {brief(effects)}.")
    effect = effects.main(j)
    (place,) = effect.columns
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    ax = figure.subplots()
    curves = _curves(effect, output)
    raw = effects.table.columns[place]
    if effects.is_category(place):
        _levels(ax, as_words(raw), curves)
    else:
        _along(ax, raw, curves)
    ax.axhline(0, color="grey", linewidth=0.8, zorder=0)
    ax.set(xlabel=effects.names[place], ylabel="effect on y")
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def _curves(effect: Effect, output: int | None) -> Array:
    """Values, lower, upper, and lower and upper of all at once: (5, n)."""
    curves = np.stack([effect.values, *effect.band, *effect.band_simultaneous])
    if output is not None:
        whole("output", output, 0)
    if curves.ndim == 2:
        return curves
    if output is None or not 0 <= output < curves.shape[2]:
        raise ValueError(
            f"The effects are for {curves.shape[2]} outputs: say which one to draw, as in output=0; got"
            f" {brief(output)}."
        )
    return np.asarray(curves[:, :, output])


def _along(ax: "Axes", x: RawColumn, curves: Array) -> None:
    """A curve; what is missing is a point beyond its end."""
    from matplotlib import dates

    gone: BoolArray = np.isnat(x) if x.dtype.kind == "M" else np.isnan(x)
    if not gone.all():
        own, first = np.unique(x[~gone], return_index=True)
        value, low, high, lowest, highest = curves[:, ~gone][:, first]
        ax.fill_between(own, lowest, highest, color=_BAND, alpha=0.35, linewidth=0, label="all at once")
        ax.fill_between(own, low, high, color=_BAND, alpha=0.8, linewidth=0, label="at each place")
        ax.plot(own, value, color=_INK, linewidth=1.8)
        if x.dtype.kind == "M":
            shorter: Any = dates.ConciseDateFormatter
            ax.xaxis.set_major_formatter(shorter(ax.xaxis.get_major_locator()))
        ax.plot(own, np.zeros(len(own)), "|", color=_INK, alpha=0.5, transform=ax.get_xaxis_transform(), clip_on=False)
        ax.legend(frameon=False, fontsize="small")
    if gone.any():
        end: Any = np.datetime64("2000-01-01", "us") if gone.all() and x.dtype.kind == "M" else 0.0
        at = end if gone.all() else own[-1] + (own[-1] - own[0]) / 12
        _bars(ax, np.array([at]), curves[:, gone][:, :1])
        ax.annotate("missing", (at, 1), xycoords=("data", "axes fraction"), ha="center", va="top", fontsize="small")


def _levels(ax: "Axes", words: RawColumn, curves: Array) -> None:
    names = np.array(["missing" if word is None else str(word) for word in words], object)
    gone = np.array([word is None for word in words])
    kinds = sorted({(bool(g), str(name)) for g, name in zip(gone, names, strict=True)})  # missing comes last
    first = [int(np.flatnonzero((names == name) & (gone == g))[0]) for g, name in kinds]
    _bars(ax, np.arange(len(first)), curves[:, first])
    shown = range(0, len(kinds), 1 + (len(kinds) - 1) // _MOST_TICKS)
    ax.set_xticks(list(shown), [kinds[k][1] for k in shown], rotation=45 if len(kinds) > 6 else 0)
    ax.set_xlim(-0.5, len(first) - 0.5)


def _bars(ax: "Axes", at: Any, curves: Array) -> None:
    value, low, high, lowest, highest = curves
    ax.vlines(at, lowest, highest, color=_BAND, linewidth=3)
    ax.errorbar(at, value, yerr=np.array([value - low, high - value]), fmt="o", color=_INK, capsize=4)
