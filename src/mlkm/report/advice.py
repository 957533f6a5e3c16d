"""What to watch out for, in plain sentences, by simple rules over the facts."""

from collections.abc import Iterator

import numpy as np

from .band import SLICE, BandFacts
from .facts import Facts
from .words import listed, number, percent, plural

_FEW = 100  # held-out rows under which shares are rough
_SLACK = 0.05  # by which the worst slice may miss the level
_CLOSE = 1.02  # errors that differ by less are the same
_SHARP = 0.999  # coefficient of determination from which a column may give the target away
_ALONE = 0.95  # relevance of one column from which it is nearly all
_BIASED = 4.0  # standard errors of the mean residual


def watch_out(facts: Facts) -> list[str]:
    """The sentences, the most important first."""
    return [
        *_of_accuracy(facts),
        *([] if facts.band is None else _of_band(facts, facts.band)),
        *_of_columns(facts),
        *_of_outside(facts),
        *_of_rows(facts),
        *facts.notes,
        *_always(facts),
    ]


def _of_accuracy(facts: Facts) -> Iterator[str]:
    own, *others = facts.scores
    better = [other for other in others if other.rmse * _CLOSE < own.rmse]
    if better:
        best = min(better, key=lambda other: other.rmse)
        yield (
            f"On these rows {best.name} has a smaller error than the model: {number(best.rmse)} rather than"
            f" {number(own.rmse)}. Consider using it, or fit again with more effort."
        )
    if own.r2 < 0.1:
        yield (
            f"The model explains {percent(max(own.r2, 0.0))} of the variance: the columns say little about the target."
        )
    if own.r2 > _SHARP:
        yield (
            "The predictions are nearly exact. Check that no column is made from the target, or known only after it."
        )


def _of_band(facts: Facts, band: BandFacts) -> Iterator[str]:
    overall = band.overall
    if overall.high < band.level:
        yield (
            f"The band holds {percent(overall.share)} of the outcomes, less than the {percent(band.level)} asked for,"
            " by more than chance explains: these rows are unlike those that it was calibrated on."
        )
    low = [name for name, own in band.groups if own.high < band.level]
    if low:
        yield (
            f"Within {band.by} the band holds fewer outcomes than {percent(band.level)} for {listed(low)}. The"
            " guarantee is for all rows together, not for each group; in Python, `conformalize(X, y, groups=...)`"
            " calibrates by group."
        )
    ends = [own for _, _, own in band.tenths if own.high < band.level]
    if ends:
        yield f"In {len(ends)} of {len(band.tenths)} parts along the prediction the band holds too few outcomes."
    if band.worst is not None and band.worst < band.level - _SLACK:
        yield (
            f"In the worst slice found, of {percent(SLICE)} of the rows or more, the band holds {percent(band.worst)}"
            " of the outcomes."
        )
    if not np.isfinite(band.mean_width):
        yield "Some intervals are infinitely wide: too few rows were there to calibrate this level."


def _of_columns(facts: Facts) -> Iterator[str]:
    relevance, names = facts.fit.relevance, facts.fit.names
    if relevance is None or len(names) < 2:
        return
    first = int(np.argmax(relevance))
    if relevance[first] > _ALONE:
        yield f"Nearly all of the fit is in one column, {names[first]}: check that it is known before the target is."


def _of_outside(facts: Facts) -> Iterator[str]:
    if facts.outside is None:
        return
    out = facts.outside > 0
    if out.any():
        yield (
            f"{plural(int(out.sum()), 'row')} of {len(out):,} lie outside the range of the training rows in at least"
            " one column. What is predicted there rests on fewer data than the rest."
        )


def _of_rows(facts: Facts) -> Iterator[str]:
    if len(facts.y) < _FEW:
        yield f"Only {plural(len(facts.y), 'row')} were held out: all shares and errors here are rough."
    error = facts.y - facts.prediction
    spread = float(error.std()) / max(len(error), 1) ** 0.5
    if spread > 0 and abs(error.mean()) > _BIASED * spread:
        side = "low" if error.mean() > 0 else "high"
        yield f"Predictions are too {side} on average, by {number(abs(float(error.mean())))}."


def _always(facts: Facts) -> Iterator[str]:
    if facts.band is not None and facts.band.guaranteed:
        if facts.fit.said.get("split") == "time":
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
