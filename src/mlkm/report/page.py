"""The page: one HTML file with its style, its script and its numbers inside. It asks nobody for anything, and its
security policy forbids it to."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._types import Array
from .._version import __version__
from ..fit.apply import Predictor
from ..runtime.atomic import atomic_write
from .advice import watch_out
from .facts import Facts, FitFacts, fit_facts, gather
from .figures import Figure, figures_of
from .held_out import DETAIL
from .words import listed, number, percent, plural, seconds

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
_SUMMARY_TABLE = "border-collapse:collapse;margin:0 0 .6em;font-size:.95em"
_SUMMARY_CELL = "text-align:left;padding:.1em 1.2em .1em 0;border:0;background:none"


@dataclass(frozen=True)
class Report:
    """A report, as `model.report(X, y)` returns it: `facts` is what it says as plain data, `html` the page."""

    facts: Facts
    title: str | None = None

    @cached_property
    def html(self) -> str:
        """Return the page."""
        return page(self.facts, plotly_script(), self.title)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, which has its name only when it is complete.

        Parameters
        ----------
        path : the file
        """
        target, text = Path(path), self.html
        with atomic_write(target) as file:
            file.write(text.encode())
        return target

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, for notebooks."""
        return (
            '<iframe title="Report" style="width:100%;height:44rem;border:1px solid #8886" sandbox="allow-scripts"'
            f' srcdoc="{escape(self.html)}"></iframe>'
        )


def make_report(
    model: Predictor,
    X: Any,
    y: ArrayLike,
    *,
    interval: Array | None = None,
    title: str | None = None,
    checked: str | None = None,
) -> Report:
    """Make a report on a fitted regressor or band by held-out rows; see `mlkm.report.facts.gather`."""
    plotly_script()  # before any work: what is missing is said at once
    return Report(gather(model, X, y, interval, checked), title)


def plotly_script() -> str:
    """Return plotly's script, from its package."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ImportError('A report needs the package plotly: pip install "mlkm[report]".') from None
    return str(get_plotlyjs())


def summary_html(model: Any) -> str:
    """Return the facts of a fit as a small table, for notebooks."""
    lines = "".join(
        f'<tr><th scope="row" style="{_SUMMARY_CELL};font-weight:600">{escape(name)}</th>'
        f'<td style="{_SUMMARY_CELL}">{escape(value)}</td></tr>'
        for name, value in fit_facts(model).summary()
    )
    return (
        f'<table class="mlkm-fit" aria-label="Facts of the fit" style="{_SUMMARY_TABLE}"><tbody>{lines}</tbody></table>'
    )


def page(facts: Facts, library: str, title: str | None = None) -> str:
    """Return the whole file; `library` is the text of plotly's script."""
    title = title or f"Report on {facts.fit.target}"
    figures = figures_of(facts)
    style, script = (files(__package__).joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    drawn = [{"name": figure.name, "data": figure.data, "layout": figure.layout} for figure in figures.values()]
    data = json.dumps(drawn, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    library = library.replace("</script", "<\\/script")  # which would end the element that it stands in
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{_body(facts, figures, title)}\n"
        f'<script type="application/json" id="figures">{data}</script>\n'
        f"<script>{library}</script>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _body(facts: Facts, figures: dict[str, Figure], title: str) -> str:
    """Return the header with the key numbers, the sections that have something to say, and the footer."""
    effects = _beside([figure for name, figure in figures.items() if name.startswith("effect-")])
    watched = "".join(f"<li>{escape(sentence)}</li>" for sentence in watch_out(facts))
    sections = [
        ("watch", "What to watch out for", f'<ul class="watch">{watched}</ul>'),
        ("fitted", "What was fitted", _fitted(facts.fit)),
        ("accuracy", "How accurate it is", _accuracy(facts) + _beside(_named(figures, "accuracy"))),
        ("band", "How far to trust the band", _band(facts) + _beside(_named(figures, "coverage-along", "coverage-by"))),
        ("columns", "Which columns matter", _idle(facts.fit) + "".join(map(_figure, _named(figures, "relevance")))),
        ("effects", "What each column does", effects and _EFFECTS + effects),
        ("misses", "Where it misses", _beside(_named(figures, "observed", "residuals")) + _misses(facts)),
        ("outside", "Rows outside the training range", _outside(facts)),
    ]
    shown = [(name, heading, text) for name, heading, text in sections if text]
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading, _ in shown)
    main = "\n".join(
        f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{heading}</h2>\n{text}</section>'
        for name, heading, text in shown
    )
    lead = f"{facts.fit.model}, judged by {plural(len(facts.y), 'held-out row')}."
    return (
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>\n{_cards(facts)}'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>\n<main>\n'
        "<noscript><p>The figures need JavaScript. The sentence and the table with each of them say the same.</p>"
        f"</noscript>\n{main}\n</main>\n<footer>Made by mlkm {__version__}. This file holds all it needs and sends"
        " nothing anywhere.</footer>"
    ).replace(" %", "&nbsp;%")


_EFFECTS = (
    "<p>How the prediction moves along one column, averaged over the training rows; 0 is its mean. The shaded band is"
    " where the effect itself lies with about 95 % confidence: it is no band for single outcomes.</p>"
)


def _cards(facts: Facts) -> str:
    """Return the key numbers."""
    score = facts.scores[0]
    r2 = percent(score.r2) if score.r2 == score.r2 else "undefined"
    cards = [("Typical miss", number(score.mae), "mean absolute error"), ("Variance explained", r2, "R²")]
    if facts.band is not None:
        wanted = f"asked for: {percent(facts.band.level)}"
        cards.append(("Inside the band", percent(facts.band.overall.share), wanted))
        cards.append(("Width of the band", number(facts.band.median_width), "median"))
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)} <small>{escape(words)}</small></dd></div>"
        for name, value, words in cards
    )
    return f'<dl class="cards">{items}</dl>\n'


def _fitted(fit: FitFacts) -> str:
    """Return a table of what is known of the fit."""
    record, kinds = fit.record, sorted(fit.kinds.items())
    split = {None: None, "time": "the last in time"}.get(record.get("split"), "drawn at random")
    columns = f"{len(fit.columns)}: {listed(plural(n, kind) for kind, n in kinds)}" if kinds else None
    rows = [
        ("model", fit.model),
        ("table", record.get("table")),
        ("target", record.get("target")),
        ("rows it was fitted to", None if fit.rows is None else f"{fit.rows:,}"),
        ("rows left out, their target being missing", f"{record['left_out']:,}" if record.get("left_out") else None),
        ("columns", columns),
        ("band", fit.band),
        ("calibration rows", split),
        ("leave-one-out error (root mean square)", None if fit.loo_rmse is None else number(fit.loo_rmse)),
        ("time of the fit", fit.time),
        ("effort", record.get("effort")),
        ("seed", record.get("seed")),
    ]
    return _table("What was fitted", ("what", "value"), [row for row in rows if row[1] is not None], words=True)


def _accuracy(facts: Facts) -> str:
    """Return a paragraph and a table of errors beside those of simple models."""
    score, *others = facts.scores
    text = f"On rows that the fit has not seen, predictions miss by {number(score.mae)} on average."
    for mean in others:
        if mean.name == "mean":
            text += f" Predicting the mean of the training rows for all of them would miss by {number(mean.mae)}."
    if others:
        text += " The simple models were fitted to the same training rows with their default settings."
    text += " RMSE is the root mean squared error, MAE the mean absolute error, R² the share of variance explained."
    rows = [
        (
            one.name,
            number(one.rmse),
            number(one.mae),
            f"{one.r2:.3f}".replace("-0.000", "0.000") if one.r2 == one.r2 else "undefined",
            "" if one.seconds is None else seconds(one.seconds),
        )
        for one in facts.scores
    ]
    header = ("model", "RMSE", "MAE", "R²", "fit time")
    return f"<p>{escape(text)}</p>\n" + _table("Accuracy on held-out rows", header, rows, highlighted=0)


def _band(facts: Facts) -> str:
    """Return a paragraph on the coverage of the band."""
    band = facts.band
    if band is None:
        return ""
    overall = band.overall
    text = (
        f"The band was asked to hold {percent(band.level)} of the outcomes; it holds {percent(overall.share)} of"
        f" {plural(overall.n, 'held-out row')}. By chance alone the true share may be anywhere from"
        f" {percent(overall.low)} to {percent(overall.high)}. Half of the intervals are wider than"
        f" {number(band.median_width)}."
    )
    if band.worst is not None:
        text += (
            f" The worst slice of the rows that could be found, searched on one half and judged on the other, has"
            f" {percent(band.worst)} inside."
        )
    return "".join(f"<p>{escape(part)}</p>" for part in (text, facts.checked) if part)


def _idle(fit: FitFacts) -> str:
    """Return a sentence that names the columns that hardly matter."""
    if fit.relevance is None or not (fit.relevance < DETAIL.idle).any():
        return ""
    idle = [fit.names[j] for j in np.flatnonzero(fit.relevance < DETAIL.idle)]
    names = listed(idle) if len(idle) <= 8 else ", ".join(idle[:8]) + f" and {len(idle) - 8} more"
    return f"<p>{escape(f'Columns that hardly matter, with less than 0.1 %: {names}.')}</p>"


def _misses(facts: Facts) -> str:
    """Return a table of the rows with the largest errors."""
    columns = (facts.y, facts.prediction, facts.error)
    rows = _largest(np.abs(facts.error), DETAIL.listed, columns)
    header = ("held-out row", "observed", "predicted", "residual")
    return "<h3>The largest misses</h3>" + _table("The largest misses", header, rows)


def _outside(facts: Facts) -> str:
    """Return a paragraph and a table on rows outside the training range."""
    outside, error = facts.outside, np.abs(facts.error)
    if outside is None:
        return ""
    out = outside > 0
    n = int(out.sum())
    if not n:
        return "<p>None of the held-out rows lies outside the range of the training rows.</p>"
    text = (
        f"{plural(n, 'row')} of {len(out):,} lie outside the range of the training rows in at least one column, the"
        f" furthest by {number(float(outside.max()))} ranges. Their mean absolute error is"
        f" {number(float(error[out].mean()))}"
    )
    text += f", that of the others {number(float(error[~out].mean()))}." if (~out).any() else "."
    rows = _largest(outside, min(DETAIL.listed, n), (outside, error))
    header = ("held-out row", "ranges outside", "absolute error")
    return f"<p>{escape(text)}</p>" + _table("Rows furthest outside", header, rows)


def _largest(values: Array, most: int, columns: Sequence[Array]) -> list[tuple[str, ...]]:
    """Return the rows with the largest values: their places, counted from 1, and the numbers of all columns."""
    order = np.argsort(-values, kind="stable")[:most]
    return [(str(i + 1), *(number(float(column[i])) for column in columns)) for i in order]


def _named(figures: dict[str, Figure], *names: str) -> list[Figure]:
    return [figures[name] for name in names if name in figures]


def _beside(figures: Sequence[Figure]) -> str:
    return f'<div class="pair">{"".join(map(_figure, figures))}</div>\n' if figures else ""


def _figure(figure: Figure) -> str:
    """Return a figure with its caption and its numbers as a table."""
    title, caption = escape(figure.title), escape(figure.caption)
    table = _table(f"{figure.title}, as a table", figure.header, figure.rows)
    return (
        f'<figure><h3>{title}</h3><div class="plot" id="plot-{figure.name}" role="img"'
        f' aria-label="{title}. {caption}"></div><figcaption>{caption}</figcaption>'
        f"<details><summary>{title}, as a table</summary>{table}</details></figure>\n"
    )


def _table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    highlighted: int | None = None,
    words: bool = False,
) -> str:
    """Return a table that scrolls on a narrow screen; `words` are aligned on the left."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    lines = ["".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows]
    marks = [' class="own"' if k == highlighted else "" for k in range(len(rows))]
    body = "".join(f"<tr{mark}>{line}</tr>" for mark, line in zip(marks, lines, strict=True))
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(caption)}">'
        f"<table{' class=words' if words else ''}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>\n"
    )
