"""What a notebook shows of a fitted regressor: the facts of the fit, above scikit-learn's diagram."""

from html import escape
from typing import Any

import numpy as np

from .facts import fit_facts
from .words import number, percent, plural, seconds

_COLUMNS = 5  # whose relevance is shown
_STYLE = "border-collapse:collapse;margin:0 0 .6em;font-size:.95em"
_CELL = "text-align:left;padding:.1em 1.2em .1em 0;border:0;background:none"


def summary_html(model: Any) -> str:
    """A small table, or nothing where there is no fit."""
    rows = summary_rows(model)
    lines = "".join(
        f'<tr><th scope="row" style="{_CELL};font-weight:600">{escape(name)}</th>'
        f'<td style="{_CELL}">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f'<table class="mlkm-fit" aria-label="Facts of the fit" style="{_STYLE}"><tbody>{lines}</tbody></table>'


def summary_rows(model: Any) -> list[tuple[str, str]]:
    """Names and values of the facts of a fit."""
    fit = fit_facts(model)
    rows = []
    if fit.rows is not None:
        rows.append(("rows", f"{fit.rows:,}"))
    if fit.relevance is not None:
        kept = int((fit.relevance > 0).sum())
        rows.append(("inputs kept", f"{kept} of {plural(len(fit.names), 'column')}"))
        first = np.argsort(-fit.relevance, kind="stable")[:_COLUMNS]
        shares = ", ".join(f"{fit.names[j]} {percent(float(fit.relevance[j]))}" for j in first)
        rows.append(("relevance", shares + ", ..." * (len(fit.names) > _COLUMNS)))
    if fit.loo_rmse is not None:
        rows.append(("leave-one-out error", f"{number(fit.loo_rmse)} (root mean square)"))
    if fit.level is not None:
        rows.append(("band", f"{percent(fit.level)}, calibrated on {plural(fit.n_calibration or 0, 'row')}"))
    if fit.said.get("seconds") is not None:
        rows.append(("time of the fit", seconds(fit.said["seconds"])))
    return rows
