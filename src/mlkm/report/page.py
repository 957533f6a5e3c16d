"""The page: one HTML file with its style, its script and its numbers inside. It asks nobody for anything, and its
security policy forbids it to."""

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from .._version import __version__
from . import figures
from .advice import watch_out
from .facts import Facts, FitFacts
from .figures import Figure
from .words import listed, number, percent, plural, seconds

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
_LARGEST = 5  # misses that are listed


def page(facts: Facts, library: str, title: str | None = None) -> str:
    """The whole file; `library` is the text of plotly's script."""
    target = str(facts.fit.said.get("target") or "the target")
    drawn = _figures(facts, target)
    body = _body(facts, drawn, target, title or f"Report on {target}")
    here = files(__package__)
    style, script = (here.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    data = json.dumps(
        [{"name": own.name, "data": own.data, "layout": own.layout} for own in drawn.values()],
        separators=(",", ":"),
        allow_nan=False,
    ).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title or f'Report on {target}')}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n"
        f'<script type="application/json" id="figures">{data}</script>\n'
        f"<script>{_inline(library)}</script>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _inline(script: str) -> str:
    """A script that does not end the element it stands in."""
    return script.replace("</script", "<\\/script")


def _figures(facts: Facts, target: str) -> dict[str, Figure]:
    drawn = [figures.observed(facts, target), figures.residuals(facts)]
    if len(facts.scores) > 1:
        drawn.append(figures.accuracy(facts.scores))
    if facts.band is not None:
        drawn.append(figures.coverage_along(facts.band))
        if facts.band.groups:
            drawn.append(figures.coverage_by(facts.band))
    if facts.fit.relevance is not None:
        drawn.append(figures.relevance(facts.fit.names, facts.fit.relevance))
    drawn += [figures.effect(curve, k, target) for k, curve in enumerate(facts.curves)]
    return {own.name: own for own in drawn}


def _body(facts: Facts, drawn: dict[str, Figure], target: str, title: str) -> str:
    effects = [drawn[name] for name in drawn if name.startswith("effect-")]
    coverage = [drawn[name] for name in ("coverage-along", "coverage-by") if name in drawn]
    relevance = [drawn["relevance"]] if "relevance" in drawn else []
    sections = [
        ("watch", "What to watch out for", f'<ul class="watch">{_items(watch_out(facts))}</ul>'),
        ("fitted", "What was fitted", _fitted(facts.fit)),
        ("accuracy", "How accurate it is", _accuracy(facts) + _pair([drawn[n] for n in ("accuracy",) if n in drawn])),
        ("band", "How far to trust the band", _band(facts) + _pair(coverage)),
        ("columns", "Which columns matter", _columns(facts.fit) + "".join(map(_figure, relevance))),
        ("effects", "What each column does", _EFFECTS + _pair(effects) if effects else ""),
        ("misses", "Where it misses", _pair([drawn["observed"], drawn["residuals"]]) + _misses(facts)),
        ("outside", "Rows outside the training range", _outside(facts)),
    ]
    shown = [(name, heading, text) for name, heading, text in sections if text]
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading, _ in shown)
    main = "\n".join(
        f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{heading}</h2>\n{text}</section>'
        for name, heading, text in shown
    )
    return (
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(_lead(facts))}</p>\n{_cards(facts)}'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>\n<main>\n'
        "<noscript><p>The figures need JavaScript. The sentence and the table with each of them say the same.</p>"
        f"</noscript>\n{main}\n</main>\n<footer>Made by mlkm {__version__}. This file holds all it needs and sends"
        " nothing anywhere.</footer>"
    ).replace(" %", "&nbsp;%")


_EFFECTS = (
    "<p>How the prediction moves along one column, averaged over the training rows; 0 is its mean. The shaded band is"
    " where the effect itself lies with about 95 % confidence: it is no band for single outcomes.</p>"
)


def _lead(facts: Facts) -> str:
    rows = plural(len(facts.y), "held-out row")
    how = facts.fit.said.get("held_out")
    return f"{facts.fit.model}, judged by {rows}{': ' + str(how) if how else ''}."


def _cards(facts: Facts) -> str:
    own = facts.scores[0]
    cards = [("Typical miss", number(own.mae), "mean absolute error"), ("Variance explained", _share(own.r2), "R²")]
    if facts.band is not None:
        told = f"asked for: {percent(facts.band.level)}"
        cards.append(("Inside the band", percent(facts.band.overall.share), told))
        cards.append(("Width of the band", number(facts.band.median_width), "median"))
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)} <small>{escape(told)}</small></dd></div>"
        for name, value, told in cards
    )
    return f'<dl class="cards">{items}</dl>\n'


def _share(r2: float) -> str:
    return percent(r2) if r2 == r2 else "undefined"


def _fitted(fit: FitFacts) -> str:
    said = fit.said
    rows = [("model", fit.model)]
    if said.get("table"):
        rows.append(("table", str(said["table"])))
    if said.get("target"):
        rows.append(("target", str(said["target"])))
    if fit.rows is not None:
        rows.append(("rows it was fitted to", f"{fit.rows:,}"))
    if said.get("left_out"):
        rows.append(("rows left out, their target being missing", f"{said['left_out']:,}"))
    if fit.kinds:
        kinds = listed(plural(n, kind).replace("categorys", "categories") for kind, n in sorted(fit.kinds.items()))
        rows.append(("columns", f"{sum(fit.kinds.values())}: {kinds}"))
    if fit.level is not None:
        rows.append(("band", f"{percent(fit.level)}, calibrated on {plural(fit.n_calibration or 0, 'row')}"))
    if said.get("split"):
        rows.append(("calibration rows", "the last in time" if said["split"] == "time" else "drawn at random"))
    if fit.loo_rmse is not None:
        rows.append(("leave-one-out error (root mean square)", number(fit.loo_rmse)))
    if said.get("seconds") is not None:
        rows.append(("time of the fit", seconds(said["seconds"])))
    if said.get("effort"):
        rows.append(("effort", str(said["effort"])))
    if said.get("seed") is not None:
        rows.append(("seed", str(said["seed"])))
    return _table("What was fitted", ("what", "value"), rows, words=True)


def _accuracy(facts: Facts) -> str:
    own, *others = facts.scores
    text = f"On rows that the fit has not seen, predictions miss by {number(own.mae)} on average."
    mean = next((other for other in others if other.name == "mean"), None)
    if mean is not None:
        text += f" Predicting the mean of the training rows for all of them would miss by {number(mean.mae)}."
    if others:
        text += " The simple models were fitted to the same training rows with their default settings."
    rows = [
        (
            one.name,
            number(one.rmse),
            number(one.mae),
            number(one.r2),
            "" if one.seconds is None else seconds(one.seconds),
        )
        for one in facts.scores
    ]
    header = ("model", "root mean squared error", "mean absolute error", "R²", "fit time")
    return f"<p>{escape(text)}</p>\n" + _table("Accuracy on held-out rows", header, rows, own=0)


def _band(facts: Facts) -> str:
    band = facts.band
    if band is None:
        return ""
    own = band.overall
    text = (
        f"The band was asked to hold {percent(band.level)} of the outcomes; it holds {percent(own.share)} of"
        f" {plural(own.n, 'held-out row')}. By chance alone the true share may be anywhere from {percent(own.low)} to"
        f" {percent(own.high)}. Half of the intervals are wider than {number(band.median_width)}."
    )
    if band.worst is not None:
        text += (
            f" The worst slice of the rows that could be found, searched on one half and judged on the other, has"
            f" {percent(band.worst)} inside."
        )
    how = facts.fit.said.get("checked")
    return f"<p>{escape(text)}</p>" + (f"<p>{escape(str(how))}</p>" if how else "")


def _columns(fit: FitFacts) -> str:
    if fit.relevance is None:
        return ""
    idle = [name for name, own in zip(fit.names, fit.relevance, strict=True) if own < 0.001]
    if not idle:
        return ""
    shown = listed(idle[:8]) if len(idle) <= 8 else ", ".join(idle[:8]) + f" and {len(idle) - 8} more"
    return f"<p>{escape(f'Columns that hardly matter, with less than 0.1 %: {shown}.')}</p>"


def _misses(facts: Facts) -> str:
    error = facts.y - facts.prediction
    worst = sorted(range(len(error)), key=lambda i: -abs(error[i]))[:_LARGEST]
    rows = [
        (str(i + 1), number(float(facts.y[i])), number(float(facts.prediction[i])), number(float(error[i])))
        for i in worst
    ]
    header = ("held-out row", "observed", "predicted", "residual")
    return "<h3>The largest misses</h3>" + _table("The largest misses", header, rows)


def _outside(facts: Facts) -> str:
    outside = facts.outside
    if outside is None:
        return ""
    out = outside > 0
    n = int(out.sum())
    if not n:
        return "<p>None of the held-out rows lies outside the range of the training rows.</p>"
    error = abs(facts.y - facts.prediction)
    text = (
        f"{plural(n, 'row')} of {len(out):,} lie outside the range of the training rows in at least one column, the"
        f" furthest by {number(float(outside.max()))} ranges. Their mean absolute error is"
        f" {number(float(error[out].mean()))}"
    )
    text += f", that of the others {number(float(error[~out].mean()))}." if (~out).any() else "."
    far = sorted(range(len(out)), key=lambda i: -float(outside[i]))[: min(_LARGEST, n)]
    rows = [(str(i + 1), number(float(outside[i])), number(float(error[i]))) for i in far]
    header = ("held-out row", "ranges outside", "absolute error")
    return f"<p>{escape(text)}</p>" + _table("Rows furthest outside", header, rows)


def _pair(drawn: Sequence[Figure]) -> str:
    return f'<div class="pair">{"".join(map(_figure, drawn))}</div>\n' if drawn else ""


def _figure(own: Figure) -> str:
    table = _table(f"{own.title}, as a table", own.header, own.rows)
    return (
        f'<figure><h3>{escape(own.title)}</h3><div class="plot" id="plot-{own.name}" role="img"'
        f' aria-label="{escape(own.title)}. {escape(own.told)}"></div><figcaption>{escape(own.told)}</figcaption>'
        f"<details><summary>{escape(own.title)}, as a table</summary>{table}</details></figure>\n"
    )


def _items(sentences: Iterable[str]) -> str:
    return "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)


def _table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[Any]], *, own: int | None = None, words: bool = False
) -> str:
    """A table that scrolls on a narrow screen; the row `own` stands out, and `words` are aligned on the left."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    lines = ["".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows]
    body = "".join(f'<tr class="own">{line}</tr>' if k == own else f"<tr>{line}</tr>" for k, line in enumerate(lines))
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(caption)}">'
        f"<table{' class=words' if words else ''}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>\n"
    )
