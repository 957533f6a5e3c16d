"""Effects of the columns that matter most, as curves and points to draw."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._types import Array, IntArray
from ..data.tables.cells import RawColumn
from ..data.tables.frames import as_words
from ..explain import Effects

_MOST, _FEWER, _LONG = 6, 3, 8000  # columns, and how many for fits to more rows than this, whose bands take long
_LEAST = 0.01  # of the relevance
_LEVELS = 15
_PLACES = 60  # along a curve


@dataclass(frozen=True)
class Curve:
    """The effect of one column in units of y, with its band at each place. `kind` is "number", "date" or "levels"; a
    missing value is the last place of a number or a date, and is told apart in `missing`."""

    name: str
    kind: str
    at: tuple[Any, ...]
    value: Array
    lower: Array
    upper: Array
    missing: tuple[float, float, float] | None


def curves(effects: Effects, relevance: Array, n_rows: int) -> list[Curve]:
    """Of the columns with the largest relevance, for a fit to so many rows."""
    order = np.argsort(-relevance, kind="stable")[: _MOST if n_rows <= _LONG else _FEWER]
    found = [_curve(effects, int(j)) for j in order if relevance[j] >= _LEAST]
    return [curve for curve in found if len(curve.at)]


def _curve(effects: Effects, j: int) -> Curve:
    effect = effects.main(j)
    values, raw = np.stack([effect.values, *effect.band]), effects.table.columns[j]
    return _levels(effects.names[j], raw, values) if effects.is_category(j) else _along(effects.names[j], raw, values)


def _along(name: str, raw: RawColumn, values: Array) -> Curve:
    dates = raw.dtype.kind == "M"
    gone = np.isnat(raw) if dates else np.isnan(raw)
    own, first = np.unique(raw[~gone], return_index=True)
    kept: IntArray = np.unique(np.linspace(0, len(own) - 1, min(_PLACES, len(own))).round().astype(np.intp))
    value, lower, upper = values[:, ~gone][:, first[kept]]
    at = (
        tuple(str(x)[:19].removesuffix("T00:00:00").replace("T", " ") for x in own[kept])
        if dates
        else tuple(float(x) for x in own[kept])
    )
    missing = tuple(map(float, values[:, gone][:, 0])) if gone.any() else None
    return Curve(name, "date" if dates else "number", at, value, lower, upper, missing)  # type: ignore[arg-type]


def _levels(name: str, raw: RawColumn, values: Array) -> Curve:
    """The most frequent levels, from the least effect to the largest."""
    words = ["missing" if word is None else str(word) for word in as_words(raw)]
    frequent = [word for word, _ in Counter(words).most_common(_LEVELS)]
    first = [words.index(word) for word in frequent]
    order = np.argsort(values[0, first], kind="stable")
    value, lower, upper = values[:, np.array(first)[order]]
    return Curve(name, "levels", tuple(frequent[k] for k in order), value, lower, upper, None)
