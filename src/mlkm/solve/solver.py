"""The common form of all solvers: a small object of settings that says what it can train, with one `solve` from one
kind of problem to one kind of solution.

Solvers clone, print and search like any scikit-learn estimator: `GridSearchCV(model, {"solver__learning_rate": ...})`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .._types import Array, IntArray
from ..data import Block, Standardiser
from ..model.machine import Machine
from ..model.prior import Prior
from ..runtime.checks import brief

_AS_THEY_ARE = Standardiser(np.zeros(1), np.ones(1), np.zeros(1, dtype=bool))


@dataclass(frozen=True)
class Problem:
    """The machines to be trained, and the standardised rows to train them on.

    `starts` holds feature maps and initial weights, one machine per rotation. `parts` are the subsamples I_1..I_K of
    cross-fitting; None trains every layer on all rows. A penalty of None is the solver's to choose, from `guess`.
    `prior` gives the features of layer 1 their variances, and `units` lead back to the outputs in their own units.
    """

    rows: Block
    starts: tuple[Machine, ...]
    parts: tuple[IntArray, ...] | None = None
    penalty: float | None = None
    guess: float = 1e-6
    prior: Prior | None = None
    units: Standardiser = _AS_THEY_ARE
    seed: int = 0
    n_jobs: int | None = None


@dataclass(frozen=True)
class Solution:
    """Trained machines, one per rotation; the trace of what was watched, after every epoch or iteration, and its best
    value, which the stop went by; the penalties used, and the leave-one-out error of every output, layers below the
    last held fixed."""

    machines: tuple[Machine, ...]
    trace: list[float]
    best: float
    n_iter: int
    penalty: float
    hidden_penalty: float
    loo_error: Array


class Solver(BaseEstimator):  # type: ignore[misc]
    """A way to compute weights. A subclass names what it trains, and solves it."""

    trains: ClassVar[str]
    others: ClassVar[str]  # who trains what this one does not
    layers: ClassVar[tuple[int, float]]  # fewest and most
    in_closed_form: ClassVar[bool] = False
    by_descent: ClassVar[bool] = False
    kernel_rows: int | None = None  # up to which kernels are solved, where the solver says so

    def check(self, depth: int) -> None:
        """Refuse settings that make no sense, and machines this solver cannot train."""
        least, most = self.layers
        if not least <= depth <= most:
            have = "one layer" if depth == 1 else f"{depth} layers"
            raise ValueError(
                f"solver={type(self).__name__}() trains {self.trains}, and this model has {have}: {self.others}."
            )

    def solve(self, problem: Problem) -> Solution:
        """Train the machines of a problem."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Solvers of one kind with the same settings are the same."""
        return type(self) is type(other) and self.get_params() == other.get_params()

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))

    def __sklearn_is_fitted__(self) -> bool:
        return True


def as_solver(solver: object, by_name: Mapping[str, Callable[[], Solver]]) -> Solver:
    """Return a solver from its short name, or the solver itself."""
    if isinstance(solver, str) and solver in by_name:
        solver = by_name[solver]()
    if not isinstance(solver, Solver):
        names = ", ".join(map(repr, ("auto", *by_name)))
        raise ValueError(f"solver must be one of {names} or an object of mlkm.solvers; got {brief(solver)}.")
    return solver
