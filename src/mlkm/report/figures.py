"""The figures of a report as plotly's data, in which the page replaces names of colours such as "var:ink".

Every figure has a sentence that says what it shows, and a table of the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._types import Array
from ..metrics import Coverage
from .facts import Facts, FitFacts
from .held_out import DETAIL, BandFacts, Curve, Score, evenly
from .words import number, percent, shortened

Json = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """`data` and `layout` for plotly, a title, a caption for readers who cannot see the figure, and its numbers."""

    name: str
    title: str
    caption: str
    data: list[Json]
    layout: Json
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def figures_of(facts: Facts) -> dict[str, Figure]:
    """Return all figures of a report by their names."""
    drawn = [observed(facts), residuals(facts.error)]
    if len(facts.scores) > 1:
        drawn.append(accuracy(facts.scores))
    if facts.band is not None:
        drawn.append(coverage_along(facts.band))
        if facts.band.groups:
            drawn.append(coverage_by(facts.band))
    if facts.fit.relevance is not None:
        drawn.append(relevance(facts.fit, facts.fit.relevance))
    drawn += [effect(curve, k, facts.fit.target) for k, curve in enumerate(facts.curves)]
    return {figure.name: figure for figure in drawn}


def _digits(values: ArrayLike) -> list[float]:
    return [float(f"{x:.5g}") for x in np.asarray(values, float).tolist()]


def _label(name: str, most: int = 24) -> str:
    """Return a name as plotly may show it: short, and without markup."""
    return escape(shortened(name, most), quote=False)


def _axis(title: str | None = None, **settings: object) -> Json:
    return settings if title is None else {"title": {"text": title}, **settings}


def _layout(height: int, xaxis: Json, yaxis: Json, **settings: object) -> Json:
    return {"xaxis": xaxis, "yaxis": yaxis, "height": height, **settings}


def _trace(kind: str, x: Sequence[object], y: Sequence[object], hover: str, **settings: object) -> Json:
    """Return one set of points, bars or lines, and the text that is shown where the pointer is."""
    return {"type": kind, "x": list(x), "y": list(y), "hovertemplate": f"{hover}<extra></extra>", **settings}


def _points(x: Sequence[object], value: Array, lower: Array, upper: Array, hover: str = "%{y}") -> Json:
    """Return points with bars from lower to upper."""
    lengths = {"array": _digits(upper - value), "arrayminus": _digits(value - lower)}
    bars = {"type": "data", "symmetric": False, "color": "var:soft", **lengths}
    marker = {"color": "var:accent", "size": 9}
    return _trace("scatter", x, _digits(value), f"%{{x}}: {hover}", mode="markers", error_y=bars, marker=marker)


def _bars(names: Sequence[str], values: ArrayLike, colour: str | list[str], hover: str = "%{x}") -> Json:
    """Return horizontal bars with a name each."""
    labels, marker = [_label(name) for name in names], {"color": colour}
    return _trace("bar", _digits(values), labels, f"%{{y}}: {hover}", orientation="h", marker=marker)


def accuracy(scores: Sequence[Score]) -> Figure:
    """Draw root mean squared errors as bars, the smallest on top."""
    order = sorted(scores, key=lambda score: score.rmse)
    colours = ["var:accent" if score is scores[0] else "var:soft" for score in order]
    bars = _bars([score.name for score in order], [score.rmse for score in order], colours)
    rows = [(score.name, number(score.rmse)) for score in order]
    caption = "Root mean squared error on the held-out rows. The smallest is that of {}, {}.".format(*rows[0])
    error = _axis("root mean squared error", rangemode="tozero")
    layout = _layout(90 + 42 * len(order), error, _axis(autorange="reversed"))
    return Figure("accuracy", "Error beside simple models", caption, [bars], layout, ("model", "error"), rows)


def relevance(fit: FitFacts, values: Array) -> Figure:
    """Draw the relevance of columns as bars, the largest on top."""
    order = np.argsort(-values, kind="stable")
    shown = order[: DETAIL.bars]
    bars = _bars([fit.names[j] for j in shown], values[shown], "var:accent", "%{x:.1%}")
    caption = f"How much each column matters to the fit, summing to 100 %. First are {fit.most_relevant(3)}."
    share = _axis("relevance", tickformat=".0%", rangemode="tozero")
    layout = _layout(90 + 28 * len(shown), share, _axis(autorange="reversed", type="category"))
    rows = [(fit.names[j], percent(float(values[j]))) for j in order]
    return Figure("relevance", "What matters", caption, [bars], layout, ("column", "relevance"), rows)


def coverage_along(band: BandFacts) -> Figure:
    """Draw coverage in parts of the rows along the prediction."""
    parts = [(f"{number(low, 3)} to {number(high, 3)}", coverage) for low, high, coverage in band.tenths]
    name, worst = min(parts, key=lambda part: part[1].share)
    caption = (
        f"Share of outcomes inside the band, in {len(parts)} groups of equal size from the smallest prediction to the"
        f" largest. The lowest is {percent(worst.share)}, for predictions of {name}."
    )
    return _coverage("along", "Coverage along the prediction", caption, "prediction", parts, band.level)


def coverage_by(band: BandFacts) -> Figure:
    """Draw coverage in the levels of a category."""
    (lowest, low), (highest, high) = band.groups[0], band.groups[-1]
    caption = (
        f"Share of outcomes inside the band by {band.by}. The lowest is {percent(low.share)}, for {lowest},"
        f" the highest {percent(high.share)}, for {highest}."
    )
    title = f"Coverage by {shortened(str(band.by), 30)}"
    return _coverage("by", title, caption, str(band.by), band.groups, band.level)


def _coverage(
    name: str, title: str, caption: str, what: str, groups: Sequence[tuple[str, Coverage]], level: float
) -> Figure:
    """Draw the coverage of groups with its binomial intervals, and a line at the level."""
    share, low, high = np.array([[coverage.share, coverage.low, coverage.high] for _, coverage in groups]).T
    points = _points([_label(group, 22) for group, _ in groups], share, low, high, "%{y:.1%}")
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level}
    line["line"] = {"color": "var:warn", "dash": "dot", "width": 2}
    bottom = max(0.0, min(level, float(low.min())) - 0.03)
    inside = _axis("inside the band", tickformat=".0%", range=[bottom, 1.01])
    layout = _layout(340, _axis(_label(what), type="category"), inside, shapes=[line])
    rows = [
        (group, f"{coverage.n:,}", percent(coverage.share), f"{percent(coverage.low)} to {percent(coverage.high)}")
        for group, coverage in groups
    ]
    caption += f" The dotted line is the level asked for, {percent(level)}."
    header = (what, "rows", "inside", "95 % range by chance")
    return Figure(f"coverage-{name}", title, caption, [points], layout, header, rows)


def effect(curve: Curve, place: int, target: str) -> Figure:
    """Draw an effect as a curve with its band, or as points with bars."""
    rows = [_effect_row(*row) for row in zip(curve.at, curve.value, curve.lower, curve.upper, strict=True)]
    low, high = rows[int(np.argmin(curve.value))], rows[int(np.argmax(curve.value))]
    caption = (
        f"Effect of {curve.name} on {target}, the other columns as they are in the training rows: from {low[1]} at"
        f" {low[0]} to {high[1]} at {high[0]}."
    )
    levels = curve.kind == "levels"
    kind = {"levels": {"type": "category"}, "date": {"type": "date"}}.get(curve.kind, {})
    layout = _layout(300, _axis(_label(curve.name, 30), **kind), _axis("effect", zeroline=True))
    rows = rows if levels else rows[:: max(1, len(rows) // 12)]
    if curve.missing is not None:
        caption += f" Where it is missing: {number(curve.missing[0])}."
        rows.append(_effect_row("missing", *curve.missing))
    title, header = f"Effect of {shortened(curve.name, 30)}", (curve.name, "effect", "95 % band")
    return Figure(f"effect-{place}", title, caption, _effect_data(curve), layout, header, rows)


def _effect_row(at: object, value: float, lower: float, upper: float) -> tuple[str, str, str]:
    place = number(at) if isinstance(at, float) else str(at)
    return place, number(float(value)), f"{number(float(lower))} to {number(float(upper))}"


def _effect_data(curve: Curve) -> list[Json]:
    """Return a line over a shaded band, or points with bars for levels and for a single value."""
    if curve.kind == "levels" or len(curve.at) < 2:
        at = [_label(str(x), 18) for x in curve.at] if curve.kind == "levels" else curve.at
        return [_points(at, curve.value, curve.lower, curve.upper)]
    line = {"type": "scatter", "mode": "lines", "x": list(curve.at)}
    hidden = {**line, "line": {"width": 0}, "hoverinfo": "skip"}
    drawn = {"color": "var:accent", "width": 2.5}
    return [
        {**hidden, "y": _digits(curve.lower)},
        {**hidden, "y": _digits(curve.upper), "fill": "tonexty", "fillcolor": "var:band"},
        _trace("scatter", curve.at, _digits(curve.value), "%{x}: %{y}", mode="lines", line=drawn),
    ]


def observed(facts: Facts) -> Figure:
    """Draw outcomes against predictions, with the line where both are equal."""
    at = evenly(len(facts.y), DETAIL.points)
    y, p = facts.y[at], facts.prediction[at]
    inside, name = np.ones(len(at), bool), "rows"
    if facts.interval is not None:
        low, high = facts.interval[at].T
        inside, name = (low <= y) & (y <= high), "inside the band"
    clouds = [_cloud(p[inside], y[inside], "var:accent", name, "circle")] if inside.any() else []
    if not inside.all():
        clouds.append(_cloud(p[~inside], y[~inside], "var:warn", "outside the band", "x"))
    ends = _digits([min(p.min(), y.min()), max(p.max(), y.max())])
    line = {"type": "scatter", "mode": "lines", "x": ends, "y": ends, "name": "equal", "hoverinfo": "skip"}
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "entrywidth": 120}
    layout = _layout(420, _axis("predicted"), _axis(_label(facts.fit.target, 30)), legend=legend)
    varied = facts.y.std() > 0 and facts.prediction.std() > 0
    correlation = number(float(np.corrcoef(facts.y, facts.prediction)[0, 1]), 3) if varied else "undefined"
    caption = (
        f"Outcomes against predictions of {len(at):,} held-out rows, {int((~inside).sum())} of them outside the band."
        f" The correlation of both is {correlation}."
    )
    data = [*clouds, {**line, "line": {"color": "var:soft", "dash": "dot"}}]
    header = ("part of the rows, by prediction", "mean prediction", "mean outcome", "typical miss")
    return Figure("observed", "Observed and predicted", caption, data, layout, header, _by_part(facts))


def _by_part(facts: Facts) -> list[tuple[str, ...]]:
    """Return means in ten parts of the rows along the prediction."""
    order = np.argsort(facts.prediction, kind="stable")
    parts = np.array_split(order, min(10, len(order)))
    columns = (facts.prediction, facts.y, np.abs(facts.error))
    return [
        (f"{k} of {len(parts)}", *(number(float(column[part].mean())) for column in columns))
        for k, part in enumerate(parts, 1)
    ]


def _cloud(x: Array, y: Array, colour: str, name: str, symbol: str) -> Json:
    """Return points of one colour."""
    marker = {"color": colour, "size": 5, "opacity": 0.65, "symbol": symbol}
    hover = "predicted %{x}<br>observed %{y}"
    return _trace("scatter", _digits(x), _digits(y), hover, mode="markers", name=name, marker=marker)


def residuals(error: Array) -> Figure:
    """Draw counts of residuals in bins of equal width."""
    inner = np.quantile(error, [0.005, 0.995])
    counts, edges = np.histogram(np.clip(error, *inner), bins=min(40, max(5, len(error) // 10)))
    middles, width = _digits((edges[:-1] + edges[1:]) / 2), float(edges[1] - edges[0]) or 1.0
    marker = {"color": "var:accent"}
    bars = _trace("bar", middles, counts.tolist(), "near %{x}: %{y} rows", width=width, marker=marker)
    shares = (0.05, 0.25, 0.5, 0.75, 0.95)
    rows = [(percent(share), number(float(np.quantile(error, share)))) for share in shares]
    caption = (
        f"Residuals, observed less predicted. Half of them lie between {rows[1][1]} and {rows[3][1]}; the middle is"
        f" {rows[2][1]}. The outermost 1 % are drawn in at the ends."
    )
    layout = _layout(300, _axis("residual"), _axis("rows"))
    return Figure("residuals", "Residuals", caption, [bars], layout, ("share of rows below", "residual"), rows)
