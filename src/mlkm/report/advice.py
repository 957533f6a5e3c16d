"""Sentences on what to watch out for, by simple rules over the facts."""

from collections.abc import Iterator

import numpy as np

from .facts import Facts
from .held_out import DETAIL, BandFacts
from .words import listed, number, percent, plural


def watch_out(facts: Facts) -> list[str]:
    """Return the sentences, the most important first."""
    return [
        *_of_accuracy(facts),
        *([] if facts.band is None else _of_band(facts.band)),
        *_of_columns(facts),
        *_of_outside(facts),
        *_of_rows(facts),
        *facts.notes,
        *_always(facts),
    ]


def _of_accuracy(facts: Facts) -> Iterator[str]:
    """Say where a simple model is better, and where the error is suspiciously large or small."""
    model, *others = facts.scores
    better = [other for other in others if other.rmse * DETAIL.same_error < model.rmse]
    if better:
        best = min(better, key=lambda other: other.rmse)
        yield (
            f"On these rows {best.name} has a smaller error than the model: {number(best.rmse)} rather than"
            f" {number(model.rmse)}. Consider using it, or fit again with more effort."
        )
    if model.r2 < DETAIL.weak:
        share = percent(max(model.r2, 0.0))
        yield f"The model explains {share} of the variance: the columns say little about the target."
    if model.r2 > DETAIL.exact:
        yield (
            "The predictions are nearly exact. Check that no column is made from the target, or known only after it."
        )


def _of_band(band: BandFacts) -> Iterator[str]:
    """Say where the band holds too few outcomes."""
    overall = band.overall
    if overall.high < band.level:
        yield (
            f"The band holds {percent(overall.share)} of the outcomes, less than the {percent(band.level)} asked for,"
            " by more than chance explains: these rows are unlike those that it was calibrated on."
        )
    low = [name for name, coverage in band.groups if coverage.high < band.level]
    if low:
        yield (
            f"Within {band.by} the band holds fewer outcomes than {percent(band.level)} for {listed(low)}. The"
            " guarantee is for all rows together, not for each group; in Python, `conformalize(X, y, groups=...)`"
            " calibrates by group."
        )
    low_parts = [coverage for _, _, coverage in band.tenths if coverage.high < band.level]
    if low_parts:
        yield f"In {len(low_parts)} of {len(band.tenths)} parts along the prediction the band holds too few outcomes."
    if band.worst is not None and band.worst < band.level - DETAIL.slice_slack:
        yield (
            f"In the worst slice found, of {percent(DETAIL.slice_share)} of the rows or more, the band holds"
            f" {percent(band.worst)} of the outcomes."
        )
    if not np.isfinite(band.mean_width):
        yield "Some intervals are infinitely wide: too few rows were there to calibrate this level."


def _of_columns(facts: Facts) -> Iterator[str]:
    """Say where one column is nearly all of the fit."""
    relevance, names = facts.fit.relevance, facts.fit.names
    if relevance is None or len(names) < 2:
        return
    first = int(np.argmax(relevance))
    if relevance[first] > DETAIL.alone:
        yield f"Nearly all of the fit is in one column, {names[first]}: check that it is known before the target is."


def _of_outside(facts: Facts) -> Iterator[str]:
    """Say how many rows lie outside the training range."""
    if facts.outside is None:
        return
    out = facts.outside > 0
    if out.any():
        yield (
            f"{plural(int(out.sum()), 'row')} of {len(out):,} lie outside the range of the training rows in at least"
            " one column. What is predicted there rests on fewer data than the rest."
        )


def _of_rows(facts: Facts) -> Iterator[str]:
    """Say where held-out rows are few, and where predictions are biased."""
    if len(facts.y) < DETAIL.few_rows:
        yield f"Only {plural(len(facts.y), 'row')} were held out: all shares and errors here are rough."
    error = facts.error
    spread = float(error.std()) / max(len(error), 1) ** 0.5
    if spread > 0 and abs(error.mean()) > DETAIL.biased * spread:
        side = "low" if error.mean() > 0 else "high"
        yield f"Predictions are too {side} on average, by {number(abs(float(error.mean())))}."


def _always(facts: Facts) -> Iterator[str]:
    """Say what the guarantee of the band and the effects mean."""
    if facts.band is not None and facts.band.guaranteed:
        if facts.fit.record.get("split") == "time":
            yield (
                f"The band was calibrated on the latest rows. It holds {percent(facts.band.level)} of new outcomes as"
                " long as what comes is like those rows; if the process drifts, it may hold fewer."
            )
        else:
            yield (
                f"The band holds {percent(facts.band.level)} of new outcomes on average over all rows, as long as new"
                " rows come from where the old ones came from."
            )
    elif facts.band is not None:
        yield "This band comes from the model's own standard deviations and has no guarantee; ConformalRegressor's has."
    if facts.curves:
        yield "Effects say what the model does, not what would happen if somebody changed a column."
