"""Plots of the page, as SVG."""

import io

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from .models import MODELS
from .summary import RealSummary, geometric_mean, is_ours

_OURS, _RIVAL, _PEER, _INK = "#1b5fbd", "#d9720b", "#9aa3ad", "#2b2f33"
STYLE = {
    "svg.hashsalt": "mlkm",
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
# marker, colour, face, size and layer of a model's points
_LOOKS = {
    "mlkm": ("o", _OURS, _OURS, 8.0, 6),
    "rkm": ("s", _OURS, "white", 5.5, 5),
    "rfr": ("^", _OURS, "white", 6.0, 5),
    "catboost": ("D", _RIVAL, _RIVAL, 5.5, 4),
}


def _look(model: str) -> tuple[str, str, str, float, int]:
    return _LOOKS.get(model, ("o", _PEER, _PEER, 4.0, 3))


def svg(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches="tight", facecolor="white")
    return buffer.getvalue()


def _plain(value: float, _: object = None) -> str:
    return f"{value:g}"


def accuracy_against_time(real: RealSummary) -> bytes:
    """Geometric mean of RMSE over the best peer's against the median fit time over CatBoost's; good is low and left."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 4.4))
        axes = figure.add_subplot()
        points = {
            m: (
                real.time_ratio(m) if "catboost" in real.seconds else real.seconds[m].median(),
                geometric_mean(real.ratio(m, real.strictest)),
            )
            for m in real.errors
        }
        for model, (x, y) in points.items():
            marker, color, face, size, layer = _look(model)
            axes.plot(x, y, marker, color=color, mfc=face, ms=size, zorder=layer)
        axes.set_xscale("log")
        axes.axhline(1, color="#cccccc", lw=0.8, zorder=1)
        low, high = axes.get_xlim()
        axes.set_xlim(low / 1.3, high * (high / low) ** 0.2)  # room for labels on the right
        axes.margins(y=0.12)
        axes.xaxis.set_major_formatter(FuncFormatter(_plain))
        _label(axes, points)
        axes.set_xlabel(
            "fit time / CatBoost's (median over sets)" if "catboost" in real.seconds else "median fit time in seconds"
        )
        axes.set_ylabel(f"RMSE / {real.strictest}\n(geometric mean over sets)")
        axes.annotate(
            "faster, more accurate", (0.01, 0.01), xycoords="axes fraction", fontsize=8, color="#777777", style="italic"
        )
        return svg(figure)


def _label(axes, points: dict[str, tuple[float, float]]) -> None:
    """Names beside the points, moved up or down where they would overlap."""
    figure = axes.figure
    figure.canvas.draw()
    scale = 72 / figure.dpi
    markers = [axes.transData.transform(place) * scale for place in points.values()]
    taken = [(x - 3, x + 3, y) for x, y in markers]  # left end, right end and height of what is drawn, in points
    for model, place in sorted(points.items(), key=lambda item: item[1][1]):
        if not np.isfinite(place).all():
            continue
        x, y = axes.transData.transform(place) * scale
        text = MODELS[model].label
        left, right, height = x + 7, x + 7 + 5.0 * len(text), y
        while any(left < r and right > l and abs(height - h) < 10 for l, r, h in taken):
            height += 2
        taken.append((left, right, height))
        weight, color = ("bold" if model == "mlkm" else "normal"), (_OURS if is_ours(model) else _INK)
        far = height - y > 4
        axes.annotate(
            text,
            place,
            (7, height - y),
            textcoords="offset points",
            va="center",
            fontsize=8,
            weight=weight,
            color=color,
            arrowprops={"arrowstyle": "-", "color": "#bbbbbb", "lw": 0.6, "shrinkB": 3} if far else None,
        )


def _legend(axes, models: list[str], extra: list[Line2D], columns: int) -> None:
    shown = [m for m in ("mlkm", "rkm", "rfr", "catboost") if m in models]
    handles = []
    for model in shown:
        marker, color, face, size, _ = _look(model)
        handles.append(Line2D([], [], marker=marker, color=color, mfc=face, ms=size, ls="", label=MODELS[model].label))
    if len(models) > len(shown):
        handles.append(Line2D([], [], marker="o", color=_PEER, ms=4, ls="", label="other peers"))
    handles += extra
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=columns,
        frameon=False,
        fontsize=8,
        handletextpad=0.2,
        columnspacing=1.2,
    )


def _rows(axes, table: pd.DataFrame, names: list[str]) -> None:
    """A row of points for every line of the table."""
    places = np.arange(len(table))[::-1]
    for model in sorted(table.columns, key=lambda m: _look(m)[4]):
        marker, color, face, size, layer = _look(model)
        axes.plot(
            table[model],
            places,
            marker,
            color=color,
            mfc=face,
            ms=size,
            zorder=layer,
            ls="",
            alpha=0.8 if color == _PEER else 1,
            clip_on=False,
        )
    axes.set_yticks(places, names)
    axes.set_ylim(-0.7, len(table) - 0.3)
    axes.grid(axis="y", color="#eeeeee", zorder=0)
    axes.tick_params(axis="y", length=0)
    axes.set_xscale("log")


def sets(real: RealSummary) -> bytes:
    """RMSE over the best peer's on every set; ratios above 3 are drawn at the edge."""
    reference = "best peer" if "best peer" in real.references else real.strictest
    table = pd.DataFrame({m: real.by_set(m, reference) for m in real.errors}).clip(upper=3)
    if "mlkm" in table:
        table = table.sort_values("mlkm")
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 1.1 + 0.24 * len(table)))
        axes = figure.add_subplot()
        _rows(axes, table, [name.split("/")[-1] for name in table.index])
        axes.axvline(1, color="#888888", lw=0.8, zorder=1)
        axes.set_xlim(min(0.9, table.min().min() * 0.95), min(3, table.max().max() * 1.03))
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.xaxis.set_major_formatter(FuncFormatter(_plain))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(f"RMSE / {reference} (left of 1: better than all of them)")
        _legend(axes, list(table.columns), [], 5)
        return svg(figure)


def examples(errors: pd.DataFrame, goals: dict[str, float], published: dict[str, float]) -> bytes:
    """Mean squared distance to the truth on every simulated example, with the goal and the paper's best."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 1.1 + 0.24 * len(errors)))
        axes = figure.add_subplot()
        _rows(axes, errors, list(errors.index))
        places = np.arange(len(errors))[::-1]
        axes.plot([goals[name] for name in errors.index], places, "|", color=_INK, ms=11, mew=1.5, zorder=7)
        axes.plot([published[name] for name in errors.index], places, "x", color="#b03030", ms=6, mew=1.4, zorder=7)
        axes.set_xlabel("mean squared distance to the truth (mean over seeds)")
        goal = Line2D([], [], marker="|", color=_INK, ms=10, mew=1.5, ls="", label="goal")
        paper = Line2D([], [], marker="x", color="#b03030", ms=5, ls="", label="paper's best")
        _legend(axes, list(errors.columns), [goal, paper], 7)
        return svg(figure)
