"""Random effects of levels, K(x, z) = sum_c v_c 1[x_c = z_c]: what functions of single inputs are where the inputs are
categories. Their variances are the squared amplitudes that `additive` has for these inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._types import Array, BoolArray
from ...runtime.sizes import LEAST_LEVEL_VARIANCE
from ..features import Operations, PointMap
from .additive import Additive
from .term import (
    Parameter,
    Parameters,
    Placement,
    Prepared,
    SearchRows,
    SearchTerm,
    Term,
    Values,
    less_unlike,
    seen_levels,
    squares_of,
)


@dataclass(frozen=True)
class LevelMap(PointMap):
    """Points (M, d) and variances (d,), zero where an input is not a level or is not looked at."""

    points: Array
    variances: Array

    def codes(self, Z: Array, dtype: Any) -> Array:
        """Return the levels that are looked at."""
        return np.asarray(Z[:, seen_levels(self.variances)])

    def between(self, a: Array, b: Array, dtype: Any, variance: float = 1.0) -> Array:
        """Return v sum_c v_c 1[a_c = b_c]."""
        variances = variance * self.variances[seen_levels(self.variances)]
        return less_unlike(np.full((len(a), len(b)), variances.sum(), dtype), a, b, variances)

    def diagonal(self, Z: Array) -> float:
        """Return the sum of the variances."""
        return float(self.variances.sum())

    def pullback(self, X: Array, G: Array) -> Array:
        """Return zeros: a level has no neighbours."""
        return np.zeros(X.shape)

    def graph(self, graph: Operations, Z: str, double: bool) -> str:
        """Add the effects at the points to a graph of operations."""
        return graph.same_levels(self.variances, Z, self.points, self.dtype(double))


class Levels(SearchTerm):
    """The term, which has no parameters beside those of `Additive`."""

    name = "levels"

    def parameters(self, rows: SearchRows) -> list[Parameter]:
        """Return none."""
        return []

    def prepare(self, rows: SearchRows, begin: Parameters) -> Prepared | None:
        """Return the rows where there are levels among the inputs."""
        return super().prepare(rows, begin) if rows.levels.any() else None

    def evaluate(self, p: Parameters, on: Prepared) -> Values:
        """Return the sum of squared amplitudes over the levels that two rows share."""
        m, effects = len(on.rows.X), squares_of(p[Additive.name]["amplitude"][on.rows.levels])
        return Values(dense=(effects.sum() - (effects @ on.rows.unlike).reshape(m, m),))

    def gradient(self, p: Parameters, on: Prepared, at: Values, dF: Sequence[Array], dK: Array) -> Parameters:
        """Return the gradient in the amplitudes of `Additive`."""
        levels, amplitude = on.rows.levels, np.zeros(len(on.rows.levels))
        same = dK.sum() - on.rows.unlike @ dK.astype(np.float32).ravel()
        amplitude[levels] = 2 * np.exp(2 * p[Additive.name]["amplitude"][levels]) * same
        return {Additive.name: {"amplitude": amplitude}}

    def relevance(self, p: Parameters, levels: BoolArray) -> Array:
        """Return the variance of an effect, and 0 for numbers."""
        return np.where(levels, np.exp(2 * p[Additive.name]["amplitude"]), 0.0)

    def fitted(self, p: Parameters, place: Placement) -> list[Term]:
        """Return random effects of all levels that have any variance."""
        effects = place.spread(np.exp(2 * p[Additive.name]["amplitude"][place.levels]), place.searched[place.levels])
        effects[effects < LEAST_LEVEL_VARIANCE] = 0
        return [Term(None, LevelMap(np.zeros((0, len(effects))), effects), 1.0)] if effects.any() else []
