"""Linear functionals of a function, such as its mean over some rows less its mean over others."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._types import Array
from ..data import blocks
from .pieces import block_size


@dataclass(frozen=True)
class Functionals:
    """T (c, G) times the sums over each of G groups of m rows X (G m, d), which follow each other, with weights
    (G, m)."""

    X: Array
    weights: Array
    T: Array

    @property
    def ones(self) -> Array:
        """What they are of the function that is 1."""
        return np.asarray(self.T @ self.weights.sum(axis=1))

    def of(self, f: Callable[[Array], Array], width: int) -> Array:
        """What they are of a function with `width` values per row, computed in blocks of groups: (c, width)."""
        (G, m), total = self.weights.shape, np.zeros((len(self.T), width))
        for at in blocks(G, max(1, block_size(width) // m)):
            values = f(self.X[at.start * m : at.stop * m]).reshape(at.stop - at.start, m, width)
            total += self.T[:, at] @ np.einsum("gmw,gm->gw", values, self.weights[at])
        return total

    def twice(self, kernel: Callable[[Array, Array], Array]) -> Array:
        """What they are of a kernel in both of its arguments: (c, c)."""
        return self.of(lambda A: self.of(lambda B: kernel(B, A), len(A)).T, len(self.T))
