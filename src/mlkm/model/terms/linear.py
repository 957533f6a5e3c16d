"""Linear functions of the inputs that are numbers, and of the coordinates of texts: K(x, z) = sum_j l_j^2 x_j z_j, with
a prior standard deviation l_j for every number and one for every column of texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..._types import Array, BoolArray
from ..features import Operations, ProductMap, Role
from .term import Parameter, Parameters, Placement, Prepared, SearchRows, SearchTerm, Term, Values


@dataclass(frozen=True)
class LinearMap(ProductMap):
    """Inputs themselves, times their prior standard deviations (d,); inputs of none are not looked at."""

    slopes: Array

    @property
    def n_features(self) -> int:
        """Return the number of inputs with a slope."""
        return int(np.count_nonzero(self.slopes))

    @property
    def role(self) -> Role:
        """Return the role of linear features: they stay as they are."""
        return "linear"

    def features(self, X: Array) -> Array:
        """Return l_j x_j for every row and input with a slope."""
        seen = np.flatnonzero(self.slopes)
        return np.asarray(X[:, seen] * self.slopes[seen].astype(X.dtype))

    def pullback(self, X: Array, G: Array) -> Array:
        """Return G_j l_j for every input with a slope."""
        result, seen = np.zeros(X.shape), np.flatnonzero(self.slopes)
        result[:, seen] = G * self.slopes[seen]
        return result

    def graph(self, graph: Operations, Z: str, double: bool) -> str:
        """Add the features to a graph of operations."""
        seen = np.flatnonzero(self.slopes)
        return graph("Mul", graph.columns(Z, seen), np.asarray(self.slopes[seen], np.float64))


class Linear(SearchTerm):
    """The term; slopes are there only where they are wanted, those of texts wherever there are texts."""

    name = "linear"

    def parameters(self, rows: SearchRows) -> list[Parameter]:
        """Return log slopes of inputs and of texts."""
        d, h = rows.X.shape[1], np.log(rows.X.shape[1])
        result = [Parameter("slope", np.full(d, -h / 2 - 1), place=4)]
        if rows.texts:
            result.append(Parameter("text", np.full(len(rows.texts), -h / 2 - 0.7), place=2))
        return result

    def start(self, rows: SearchRows, wanted: bool) -> dict[str, Array]:
        """Return the start, without slopes of inputs where they are not wanted."""
        return {name: value for name, value in super().start(rows, wanted).items() if wanted or name != "slope"}

    def evaluate(self, p: Parameters, on: Prepared) -> Values:
        """Return the numbers and the coordinates of texts, times their prior standard deviations."""
        logs, rows, none = p[self.name], on.rows, np.zeros((len(on.rows.X), 0))
        numbers = rows.X[:, rows.numbers] * np.exp(logs["slope"][rows.numbers]) if "slope" in logs else none
        return Values((numbers, rows.text_columns * np.exp(logs["text"])[rows.text_of] if "text" in logs else none))

    def gradient(self, p: Parameters, on: Prepared, at: Values, dF: Sequence[Array], dK: Array) -> Parameters:
        """Return the gradient: a slope multiplies its feature."""
        logs, rows, gradient = p[self.name], on.rows, {}
        if "slope" in logs:
            gradient["slope"] = np.zeros(len(rows.numbers))
            gradient["slope"][rows.numbers] = (dF[0] * at.features[0]).sum(axis=0)
        if "text" in logs:
            each = (dF[1] * at.features[1]).sum(axis=0)
            gradient["text"] = np.asarray(np.bincount(rows.text_of, each, len(logs["text"])), np.float64)
        return {self.name: gradient}

    def relevance(self, p: Parameters, levels: BoolArray) -> Array:
        """Return the squared slope, and 0 for levels."""
        logs = p[self.name]
        return np.where(levels, 0.0, np.exp(2 * logs["slope"]) if "slope" in logs else 0.0)

    def fitted(self, p: Parameters, place: Placement) -> list[Term]:
        """Return the term of texts; slopes of numbers belong to the sum (`slopes`)."""
        logs = p[self.name]
        return [Term(None, LinearMap(place.of_texts(logs["text"])), 1.0)] if "text" in logs else []

    def slopes(self, p: Parameters, place: Placement) -> Array | None:
        """Return the prior standard deviations of the slopes of all inputs (d,), None where there are no slopes."""
        if "slope" not in p[self.name]:
            return None
        return place.spread(np.exp(p[self.name]["slope"][~place.levels]), place.searched[~place.levels])
