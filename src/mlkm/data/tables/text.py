"""Coordinates for the text of levels: levels that share runs of letters are near each other.

Runs of two to four letters, weighted by how rare they are, and the leading directions of their table: the product of
two levels' coordinates is nearly the share of runs that they have in common.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from ..._types import Array

LEAST_LEVELS = 20  # below which levels say enough by themselves
_RUNS, _DIRECTIONS = 4000, 50


@dataclass(frozen=True)
class TextBasis:
    """The n-grams of letters that are counted, their inverse document frequencies (r,), and the leading singular
    vectors (q, r)."""

    runs: tuple[str, ...]
    rarity: Array
    directions: Array

    def coordinates(self, levels: list[str]) -> Array:
        counter = _counter(vocabulary=self.runs)
        counter.idf_ = self.rarity
        return np.asarray(counter.transform(levels) @ self.directions.T, np.float64)

    @property
    def size(self) -> int:
        return len(self.directions)


def _counter(**choices: Any) -> TfidfVectorizer:
    return TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, dtype=np.float64, **choices)


def fit_text(levels: list[str]) -> TextBasis | None:
    """Of the distinct levels of a column; None where they are few, or have no runs in common."""
    if len(levels) <= LEAST_LEVELS:
        return None
    runs = _counter(min_df=2, max_features=_RUNS)
    try:
        table = runs.fit_transform(levels)
    except ValueError:  # no runs in common
        return None
    size = min(_DIRECTIONS, min(table.shape) - 1)
    if size < 1:
        return None
    directions = TruncatedSVD(size, random_state=0).fit(table).components_
    return TextBasis(tuple(runs.get_feature_names_out().tolist()), runs.idf_, directions)
