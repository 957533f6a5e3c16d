"""Features that a ridge is solved on: those of one layer, or the inputs of the last layer of a deeper machine."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .._types import Array, BoolArray
from .machine import Machine, forward, with_last


class Features(Protocol):
    """Features whose products are summed over rows."""

    def inputs(self, X: Array) -> Array:
        """Return X in the precision in which products of many rows are computed."""

    def rows_of_features(self, X: Array) -> Array:
        """Return the features at every row of X, (n, D), in a new array."""


@dataclass(frozen=True)
class Columns:
    """Inputs themselves as features: the columns that are selected."""

    selected: BoolArray

    def inputs(self, X: Array) -> Array:
        return X

    def rows_of_features(self, X: Array) -> Array:
        return X[:, self.selected]


@dataclass(frozen=True)
class LastInputs:
    """The inputs of the last layer of a machine, the layers below held fixed."""

    below: Machine

    def inputs(self, X: Array) -> Array:
        return X

    def rows_of_features(self, X: Array) -> Array:
        return forward(self.below, X).hidden[-1]

    def machine(self, coefficients: Array, intercept: Array) -> Machine:
        return with_last(self.below, np.vstack([coefficients, intercept]))
