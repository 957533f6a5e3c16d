"""What a ridge is solved on: the features of one layer, or what the last layer of a deeper machine sees."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .._types import Array
from .machine import Machine, forward, with_last


class Features(Protocol):
    """Features whose products are summed up over rows, and the machine that a ridge on them makes."""

    def inputs(self, X: Array) -> Array:
        """X in the precision that sums over many rows are taken in."""

    def rows_of_features(self, X: Array) -> Array: ...

    def machine(self, coefficients: Array, intercept: Array) -> Machine: ...


@dataclass(frozen=True)
class LastInputs:
    """What the last layer of a machine sees, the layers below held fixed."""

    below: Machine

    def inputs(self, X: Array) -> Array:
        return X

    def rows_of_features(self, X: Array) -> Array:
        return forward(self.below, X).hidden[-1]

    def machine(self, coefficients: Array, intercept: Array) -> Machine:
        return with_last(self.below, np.vstack([coefficients, intercept]))
