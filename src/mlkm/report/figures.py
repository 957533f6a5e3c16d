"""The figures as plotly's data, with names of colours ("var:ink") that the page fills in for light and dark.

Every figure has a sentence that says what it shows, and a table of the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from .._types import Array
from ..metrics import Coverage
from .accuracy import Score
from .band import BandFacts
from .curves import Curve
from .facts import Facts
from .words import number, percent, shortened

_POINTS = 1500  # of a cloud that are drawn
_BARS = 15


@dataclass(frozen=True)
class Figure:
    """`data` and `layout` for plotly, a title, what a reader who cannot see it should know, and its numbers."""

    name: str
    title: str
    told: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _digits(values: Any) -> list[float]:
    return [float(f"{x:.5g}") for x in np.asarray(values, float).tolist()]


def _text(name: str, most: int = 24) -> str:
    """A name as plotly may show it: no markup of its own."""
    return escape(shortened(name, most), quote=False)


def accuracy(scores: Sequence[Score]) -> Figure:
    """Root mean squared errors as bars, the smallest on top."""
    order = sorted(scores, key=lambda own: own.rmse)
    best = order[0]
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": [_text(own.name) for own in order],
        "x": _digits([own.rmse for own in order]),
        "marker": {"color": ["var:accent" if own is scores[0] else "var:soft" for own in order]},
        "hovertemplate": "%{y}: %{x}<extra></extra>",
    }
    told = f"Root mean squared error on the held-out rows. The smallest is that of {best.name}, {number(best.rmse)}."
    layout = {
        "xaxis": {"title": {"text": "root mean squared error"}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed"},
        "height": 90 + 42 * len(order),
    }
    rows = tuple((own.name, number(own.rmse)) for own in order)
    return Figure("accuracy", "Error beside simple models", told, [bars], layout, ("model", "error"), rows)


def relevance(names: Sequence[str], values: Array) -> Figure:
    """Bars, the largest on top."""
    order = np.argsort(-values, kind="stable")
    shown = order[:_BARS]
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": [f"{_text(names[j])}" for j in shown],
        "x": _digits(values[shown]),
        "marker": {"color": "var:accent"},
        "hovertemplate": "%{y}: %{x:.1%}<extra></extra>",
    }
    first = ", ".join(f"{names[j]} {percent(float(values[j]))}" for j in order[:3])
    told = f"How much each column matters to the fit, summing to 100 %. First are {first}."
    layout = {
        "xaxis": {"tickformat": ".0%", "rangemode": "tozero", "title": {"text": "relevance"}},
        "yaxis": {"autorange": "reversed", "type": "category"},
        "height": 90 + 28 * len(shown),
    }
    rows = tuple((names[j], percent(float(values[j]))) for j in order)
    return Figure("relevance", "What matters", told, [bars], layout, ("column", "relevance"), rows)


def coverage_along(band: BandFacts) -> Figure:
    names = [f"{number(low, 3)} to {number(high, 3)}" for low, high, _ in band.tenths]
    own = [coverage for _, _, coverage in band.tenths]
    worst = min(range(len(own)), key=lambda k: own[k].share)
    told = (
        f"Share of outcomes inside the band, in {len(own)} groups of equal size from the smallest prediction to the"
        f" largest. The lowest is {percent(own[worst].share)}, for predictions of {names[worst]}."
    )
    return _coverage("coverage-along", "Coverage along the prediction", told, "prediction", names, own, band.level)


def coverage_by(band: BandFacts) -> Figure:
    names, own = [name for name, _ in band.groups], [coverage for _, coverage in band.groups]
    told = (
        f"Share of outcomes inside the band by {band.by}. The lowest is {percent(own[0].share)}, for {names[0]},"
        f" the highest {percent(own[-1].share)}, for {names[-1]}."
    )
    title = f"Coverage by {shortened(str(band.by), 30)}"
    return _coverage("coverage-by", title, told, str(band.by), names, own, band.level)


def _coverage(
    name: str, title: str, told: str, what: str, names: list[str], own: list[Coverage], level: float
) -> Figure:
    share = np.array([coverage.share for coverage in own])
    points = {
        "type": "scatter",
        "mode": "markers",
        "x": [_text(n, 22) for n in names],
        "y": _digits(share),
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": _digits([coverage.high - coverage.share for coverage in own]),
            "arrayminus": _digits([coverage.share - coverage.low for coverage in own]),
            "color": "var:soft",
        },
        "marker": {"color": "var:accent", "size": 9},
        "hovertemplate": "%{x}: %{y:.1%}<extra></extra>",
    }
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level}
    layout = {
        "shapes": [{**line, "line": {"color": "var:warn", "dash": "dot", "width": 2}}],
        "yaxis": {"tickformat": ".0%", "title": {"text": "inside the band"}, "range": [_floor(own, level), 1.01]},
        "xaxis": {"type": "category", "title": {"text": _text(what)}},
        "height": 340,
    }
    rows = tuple(
        (n, f"{coverage.n:,}", percent(coverage.share), f"{percent(coverage.low)} to {percent(coverage.high)}")
        for n, coverage in zip(names, own, strict=True)
    )
    return Figure(
        name, title, f"{told} The dotted line is the level asked for, {percent(level)}.", [points], layout,
        (what, "rows", "inside", "95 % range by chance"), rows,
    )  # fmt: skip


def _floor(own: list[Coverage], level: float) -> float:
    """Where the axis of shares begins: below all that is drawn."""
    return max(0.0, min([level, *(coverage.low for coverage in own)]) - 0.03)


def effect(curve: Curve, number_of: int, target: str) -> Figure:
    """A curve with its band, or points with bars."""
    low, high = int(np.argmin(curve.value)), int(np.argmax(curve.value))
    told = (
        f"Effect of {curve.name} on {target}, the other columns as they are in the training rows: from"
        f" {number(float(curve.value[low]))} at {_place(curve.at[low])} to {number(float(curve.value[high]))} at"
        f" {_place(curve.at[high])}."
    )
    if curve.missing is not None:
        told += f" Where it is missing: {number(curve.missing[0])}."
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": _text(curve.name, 30)}},
        "yaxis": {"title": {"text": "effect"}, "zeroline": True},
        "height": 300,
        "showlegend": False,
    }
    if curve.kind == "levels":
        layout["xaxis"]["type"] = "category"
    elif curve.kind == "date":
        layout["xaxis"]["type"] = "date"
    at = [_text(x, 18) if curve.kind == "levels" else x for x in curve.at]
    data = _points(at, curve) if curve.kind == "levels" else _ribbon(at, curve)
    rows = [
        (_place(x), number(float(v)), f"{number(float(a))} to {number(float(b))}")
        for x, v, a, b in zip(curve.at, curve.value, curve.lower, curve.upper, strict=True)
    ]
    step = 1 if curve.kind == "levels" else max(1, len(rows) // 12)
    if curve.missing is not None:
        value, lower, upper = curve.missing
        rows = [*rows[::step], ("missing", number(value), f"{number(lower)} to {number(upper)}")]
        step = 1
    return Figure(
        f"effect-{number_of}", f"Effect of {shortened(curve.name, 30)}", told, data, layout,
        (curve.name, "effect", "95 % band"), tuple(rows[::step]),
    )  # fmt: skip


def _place(x: Any) -> str:
    return number(x) if isinstance(x, float) else str(x)


def _ribbon(at: list[Any], curve: Curve) -> list[dict[str, Any]]:
    if len(at) < 2:
        return _points(at, curve)
    hidden = {"type": "scatter", "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "x": at}
    return [
        {**hidden, "y": _digits(curve.lower)},
        {**hidden, "y": _digits(curve.upper), "fill": "tonexty", "fillcolor": "var:band"},
        {
            "type": "scatter",
            "mode": "lines",
            "x": at,
            "y": _digits(curve.value),
            "line": {"color": "var:accent", "width": 2.5},
            "hovertemplate": "%{x}: %{y}<extra></extra>",
        },
    ]


def _points(at: list[Any], curve: Curve) -> list[dict[str, Any]]:
    bars = {
        "type": "data",
        "symmetric": False,
        "array": _digits(curve.upper - curve.value),
        "arrayminus": _digits(curve.value - curve.lower),
        "color": "var:soft",
    }
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": at,
            "y": _digits(curve.value),
            "error_y": bars,
            "marker": {"color": "var:accent", "size": 9},
            "hovertemplate": "%{x}: %{y}<extra></extra>",
        }
    ]


def observed(facts: Facts, target: str) -> Figure:
    """Outcomes against predictions, with the line where both are equal."""
    at = _some(len(facts.y))
    y, p = facts.y[at], facts.prediction[at]
    inside = np.ones(len(at), bool)
    if facts.interval is not None:
        low, high = facts.interval[at].T
        inside = (low <= y) & (y <= high)
    ends = [float(min(p.min(), y.min())), float(max(p.max(), y.max()))]
    clouds = [
        _cloud(p[kept], y[kept], colour, name, symbol)
        for kept, colour, name, symbol in (
            (inside, "var:accent", "inside the band" if facts.interval is not None else "rows", "circle"),
            (~inside, "var:warn", "outside the band", "x"),
        )
        if kept.any()
    ]
    line = {
        "type": "scatter", "mode": "lines", "x": _digits(ends), "y": _digits(ends), "name": "equal",
        "line": {"color": "var:soft", "dash": "dot"}, "hoverinfo": "skip",
    }  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "predicted"}},
        "yaxis": {"title": {"text": _text(target, 30)}},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "entrywidth": 120},
        "height": 420,
    }
    told = (
        f"Outcomes against predictions of {len(at):,} held-out rows, {int((~inside).sum())} of them outside the band."
        f" The correlation of both is {_correlation(facts.y, facts.prediction)}."
    )
    return Figure("observed", "Observed and predicted", told, [*clouds, line], layout, _HEADER, _by_part(facts))


def _correlation(y: Array, p: Array) -> str:
    return number(float(np.corrcoef(y, p)[0, 1]), 3) if y.std() > 0 and p.std() > 0 else "undefined"


_HEADER = ("part of the rows, by prediction", "mean prediction", "mean outcome", "typical miss")


def _by_part(facts: Facts) -> tuple[tuple[str, ...], ...]:
    order = np.argsort(facts.prediction, kind="stable")
    parts = [part for part in np.array_split(order, min(10, len(order))) if len(part)]
    return tuple(
        (
            f"{k + 1} of {len(parts)}",
            number(float(facts.prediction[part].mean())),
            number(float(facts.y[part].mean())),
            number(float(np.abs(facts.y[part] - facts.prediction[part]).mean())),
        )
        for k, part in enumerate(parts)
    )


def _cloud(x: Array, y: Array, colour: str, name: str, symbol: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": _digits(x),
        "y": _digits(y),
        "name": name,
        "marker": {"color": colour, "size": 5, "opacity": 0.65, "symbol": symbol},
        "hovertemplate": "predicted %{x}<br>observed %{y}<extra></extra>",
    }


def residuals(facts: Facts) -> Figure:
    """How residuals are spread: counts in bins of equal width."""
    error = facts.y - facts.prediction
    inner = np.quantile(error, [0.005, 0.995])
    counts, edges = np.histogram(np.clip(error, *inner), bins=min(40, max(5, len(error) // 10)))
    middle = (edges[:-1] + edges[1:]) / 2
    bars = {
        "type": "bar",
        "x": _digits(middle),
        "y": counts.tolist(),
        "width": float(edges[1] - edges[0]) or 1.0,
        "marker": {"color": "var:accent"},
        "hovertemplate": "near %{x}: %{y} rows<extra></extra>",
    }
    quantiles = np.quantile(error, [0.05, 0.25, 0.5, 0.75, 0.95])
    told = (
        f"Residuals, observed less predicted. Half of them lie between {number(float(quantiles[1]))} and"
        f" {number(float(quantiles[3]))}; the middle is {number(float(quantiles[2]))}. The outermost 1 % are drawn in"
        " at the ends."
    )
    rows = tuple(
        (name, number(float(q))) for name, q in zip(("5 %", "25 %", "50 %", "75 %", "95 %"), quantiles, strict=True)
    )
    layout = {"xaxis": {"title": {"text": "residual"}}, "yaxis": {"title": {"text": "rows"}}, "height": 300}
    return Figure("residuals", "Residuals", told, [bars], layout, ("share of rows below", "residual"), rows)


def _some(n: int) -> Any:
    return np.unique(np.linspace(0, n - 1, min(n, _POINTS)).round().astype(int))
