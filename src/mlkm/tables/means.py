"""Levels as numbers, for fits that take numbers only: indicators of a few levels, else the mean of y at a level.

Means are scikit-learn's: drawn to the mean of all rows as far as their level has few, and for the rows of the fit
themselves taken from other rows, so that no row's own y is among its inputs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import OneHotEncoder, TargetEncoder

from .._types import Array, IntArray
from ..rows import Inputs

_FEW = 8  # levels that get an indicator each


@dataclass(frozen=True)
class LevelNumbers:
    """An encoder for every input that is a level, and what the inputs were."""

    inputs: Inputs
    encoders: tuple[Any, ...]

    def numbers(self, X: Array) -> Array:
        """Inputs of a later table."""
        levels = np.flatnonzero(self.inputs.levels)
        own = [e.transform(X[:, [j]]) for j, e in zip(levels, self.encoders, strict=True)]
        return np.hstack([X[:, ~self.inputs.levels], *own])

    @property
    def owners(self) -> IntArray:
        """The columns that the numbers belong to."""
        levels = self.inputs.owners[self.inputs.levels]
        own = [np.repeat(j, _width(e)) for j, e in zip(levels, self.encoders, strict=True)]
        return np.concatenate([self.inputs.owners[~self.inputs.levels], *own])


def _width(encoder: Any) -> int:
    return len(encoder.get_feature_names_out())


def fit_numbers(X: Array, Y: Array, inputs: Inputs, seed: int) -> tuple[LevelNumbers, Array]:
    """The encoders, and the inputs of the rows of the fit."""
    encoders, own = [], []
    for j in np.flatnonzero(inputs.levels):
        column = X[:, [j]]
        few = len(np.unique(column)) <= _FEW or len(X) < 10
        encoder: Any = (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            if few
            else TargetEncoder(target_type="continuous", random_state=seed % 2**32)
        )
        encoders.append(encoder)
        own.append(encoder.fit_transform(column) if few else encoder.fit_transform(column, Y.mean(axis=1)))
    return LevelNumbers(inputs, tuple(encoders)), np.hstack([X[:, ~inputs.levels], *own])
