"""Does the band hold the held-out outcomes: overall, along the predictions, in the levels of a category, in the worst
slice."""

from dataclasses import dataclass

import numpy as np

from .. import metrics
from .._types import Array
from ..data.tables.cells import RawColumn
from ..data.tables.frames import as_words
from ..metrics import Coverage

_BINS = 10
_LEAST = 20  # rows of a level whose coverage is worth a look
_LEVELS = 12
_SLICED = 200  # rows from which a worst slice says something
SLICE = 0.2  # of the rows, at least, in a slice


@dataclass(frozen=True)
class BandFacts:
    """`groups` are (name, coverage): tenths of the rows along the prediction, and levels of the column `by`."""

    level: float
    guaranteed: bool
    overall: Coverage
    mean_width: float
    median_width: float
    tenths: tuple[tuple[float, float, Coverage], ...]
    by: str | None
    groups: tuple[tuple[str, Coverage], ...]
    worst: float | None


def band_facts(
    y: Array,
    prediction: Array,
    interval: Array,
    level: float,
    guaranteed: bool,
    inputs: Array | None,
    category: tuple[str, RawColumn] | None,
) -> BandFacts:
    """What is known of the band; `inputs` are numbers along which slices are cut."""
    bins = min(_BINS, max(1, len(y) // _LEAST))
    groups: tuple[tuple[str, Coverage], ...] = ()
    if category is not None:
        groups = _of_levels(y, interval, category[1])
    return BandFacts(
        level,
        guaranteed,
        metrics.coverage(y, interval),
        metrics.mean_width(interval),
        metrics.median_width(interval),
        tuple(metrics.coverage_by_bin(y, interval, prediction, bins)),
        category[0] if category is not None and groups else None,
        groups,
        _worst(y, interval, inputs),
    )


def _worst(y: Array, interval: Array, inputs: Array | None) -> float | None:
    if inputs is None or len(y) < _SLICED or not inputs.shape[1]:
        return None
    return metrics.worst_slice_coverage(inputs, y, interval, share=SLICE, n_directions=100)


def _of_levels(y: Array, interval: Array, column: RawColumn) -> tuple[tuple[str, Coverage], ...]:
    """Of the most frequent levels, in the order of their coverage."""
    words = np.array(["missing" if word is None else str(word) for word in as_words(column)], object)
    own, counts = np.unique(words.astype(str), return_counts=True)
    frequent = own[np.argsort(-counts, kind="stable")][: min(_LEVELS, int((counts >= _LEAST).sum()))]
    kept = np.isin(words.astype(str), frequent)
    if len(frequent) < 2:
        return ()
    found = metrics.coverage_by_group(y[kept], interval[kept], words[kept].astype(str))
    return tuple(sorted(((str(name), own) for name, own in found.items()), key=lambda pair: pair[1].share))
