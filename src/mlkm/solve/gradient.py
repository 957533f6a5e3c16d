"""Gradient descent on the weighted mean of squared errors plus lambda |W|^2, with momentum and mini-batches.

The update is W <- W - eta V, V <- mu V + gradient. Biases are not penalised. All layers on all rows is the paper's
joint descent; one layer at a time on its own subsample is Algorithm 1 (`mlkm.solve.descent`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from .._types import Array, BoolArray
from ..data import Standardiser
from ..data.rows import Rows
from ..model.machine import with_last
from ..runtime import checks as check
from ..runtime.sizes import CONSTANT_TARGETS, TARGET_SDS
from .closed_form import loo_error_of_last_layers
from .descent import Descent, OneBlock, Step, census, train
from .solver import Problem, Solution, Solver


class GradientDescent(Solver):
    """The paper's descent: all layers jointly, or with `cv` Algorithm 1 (ADDS), one layer at a time on its own
    subsample.

    Memory is O(block x D + sum_l D_l D_(l+1)) beside the rows and the fit's own standardised copy of them. Rows of
    files and clusters that do not fit into memory are passed over a piece at a time.

    Parameters
    ----------
    learning_rate : float or sequence of float, default=1e-3
        eta, one for all layers or one per layer.
    momentum : float, default=0.9
        mu, in [0, 1).
    batch_size : int or None, default=None
        Rows per step; None takes all.
    max_iter : int, default=2000
        Epochs at most.
    tol : float, default=1e-4
        Relative fall of the overall loss that counts as an improvement.
    patience : int, default=100
        T: training stops after this many epochs without improvement, and the best weights are restored.
    steps : int, default=1
        Passes over its rows whenever a layer is visited; in joint descent, passes between two looks at the loss.
    initial : float or (low, high), default=0.5
        Initial weights are uniform on [-initial, initial], or on [low, high]; biases are zero.
    target_sd : float, "own" or "auto", default="auto"
        The standard deviation of the centred targets that descent sees: it sets how fast hidden layers move relative to
        the last one. "own" leaves them in their own units, as the paper does: their standard deviation must then lie
        between 1e-30 and 1e30, and below 1e-12 of their mean they count as constant. "auto" is 12, at which the
        learning rate does not depend on the units of y (`benchmarks/faithful.py --target-sd` compares values).

    Examples
    --------
    >>> from mlkm import MLKMRegressor
    >>> from mlkm.solvers import GradientDescent
    >>> MLKMRegressor(widths=(32, 8), solver=GradientDescent(batch_size=128)).get_params()["solver__batch_size"]
    128
    """

    trains: ClassVar[str] = "any number of layers"
    others: ClassVar[str] = ""
    layers: ClassVar[tuple[int, float]] = (1, np.inf)
    by_descent: ClassVar[bool] = True

    @check.named_parameters
    def __init__(
        self,
        learning_rate: float | Sequence[float] = 1e-3,
        momentum: float = 0.9,
        batch_size: int | None = None,
        max_iter: int = 2000,
        tol: float = 1e-4,
        patience: int = 100,
        *,
        steps: int = 1,
        initial: float | tuple[float, float] = 0.5,
        target_sd: float | Literal["own", "auto"] = "auto",
    ) -> None:
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.steps = steps
        self.initial = initial
        self.target_sd = target_sd

    def check(self, depth: int) -> None:
        """Refuse settings that are out of their range."""
        super().check(depth)
        for rate in check.per_layer("learning_rate", self.learning_rate, depth):
            check.number("learning_rate", rate, above=0)
        check.number("momentum", self.momentum, at_least=0, below=1)
        check.number("tol", self.tol, at_least=0)
        for name in ("max_iter", "steps"):
            check.steps(name, getattr(self, name))
        check.whole("patience", self.patience)
        if self.batch_size is not None:
            check.whole("batch_size", self.batch_size)
        self.initial_range()
        if not (isinstance(self.target_sd, str) and self.target_sd in ("own", "auto")):
            words = "'own', 'auto' or a number from {:g} to {:g}".format(*TARGET_SDS)
            check.number("target_sd", self.target_sd, at_least=TARGET_SDS[0], at_most=TARGET_SDS[1], words=words)

    def initial_range(self) -> tuple[float, float]:
        """Return the least and the largest initial weight that may be drawn."""
        pair = self.initial if isinstance(self.initial, (tuple, list)) else (-1, 1)
        try:
            low, high = (float(end) for end in pair)
            width = 1.0 if isinstance(self.initial, (tuple, list)) else float(self.initial) + 0.0  # not -0.0
        except (TypeError, ValueError, OverflowError):
            low, high, width = 0.0, -1.0, 1.0
        if not (low <= high and width >= 0 and np.isfinite([low, high, (high - low) * width]).all()):
            raise ValueError(
                "initial must be a number of at least 0, or low <= high, at most 1.8e308 apart; got"
                f" {check.brief(self.initial)}."
            )
        return low * width, high * width

    def solve(self, problem: Problem) -> Solution:
        """Descend on rows in memory."""
        rows, parts = problem.rows, problem.parts or ()
        solution = self.descend(problem, OneBlock.of(rows, parts), len(parts))
        return replace(solution, loo_error=loo_error_of_last_layers(solution.machines, rows, solution.penalty))

    def descend(self, problem: Problem, pieces: Rows, n_parts: int) -> Solution:
        """Descend from the starts of a problem on rows in one block or many, on targets of the standard deviation asked
        for.

        The machines of the solution are those for targets of standard deviation 1: hidden weights carry the scaled
        targets, the last layer is scaled back. Leave-one-out errors are left to the caller, and are not numbers here.
        """
        counted, step = census(pieces, n_parts), self.step(problem.starts[0].depth, problem.penalty)
        sd, varies = self.targets(counted.varies, problem.units)
        descent = Descent(problem.starts, pieces, n_parts, counted, sd * varies, step, problem.seed)
        trained = train(descent, max_iter=self.max_iter, patience=self.patience, tol=self.tol, n_jobs=problem.n_jobs)
        divisor = np.where(varies, sd, np.inf)  # outputs that do not vary need no weights
        machines = tuple(with_last(machine, machine.layers[-1][0] / divisor) for machine in trained.machines)
        unit = float(np.mean(sd**2))
        trace = [loss / unit for loss in trained.losses]
        unknown = np.full(len(varies), np.nan)
        return Solution(machines, trace, min(trace), len(trace), step.penalty, step.penalty / unit, unknown)

    def step(self, depth: int, penalty: float | None) -> Step:
        """Return how weights move; a penalty that is left open is 1e-4."""
        rates = [float(rate) for rate in check.per_layer("learning_rate", self.learning_rate, depth)]
        penalty = 1e-4 if penalty is None else penalty
        return Step(tuple(rates), float(self.momentum), self.batch_size, penalty, self.steps)

    def targets(self, varies: BoolArray, units: Standardiser) -> tuple[Array, BoolArray]:
        """Return the standard deviations of the outputs that descent sees, and which outputs vary."""
        if self.target_sd != "own":
            return np.full(1, 12.0 if self.target_sd == "auto" else float(self.target_sd)), varies
        sd = units.sd
        varies = varies & (sd > CONSTANT_TARGETS * np.abs(units.mean))
        least, most = TARGET_SDS
        extreme = sd[varies & ~((least <= sd) & (sd <= most))]
        if len(extreme):
            raise ValueError(
                f"Descent on targets in their own units needs a standard deviation between {least:g} and {most:g}; got"
                f" {extreme[0]:.3g}: rescale y, or take GradientDescent(target_sd='auto')."
            )
        return np.where(varies, sd, 1.0), varies
