"""The solver of hidden layers: variable projection on all rows, or exact sweeps of ADDS on the parts of
cross-fitting.
"""

from typing import ClassVar

import numpy as np

from .._types import IntArray
from ..model.machine import Machine
from ..runtime import checks as check
from ..runtime.progress import stage
from . import adds
from .closed_form import last_layer
from .data import seen_by
from .layer_update import project
from .solver import Problem, Solution, Solver


class VariableProjection(Solver):
    """Hidden layers by L-BFGS on what is left of the loss when the last layer is exact.

    With `cv`, the sweeps of Algorithm 1 with every update solved well instead of one gradient step. Of rows of files
    and clusters that do not fit into memory, a sample trains the hidden layers, and the last layer sees all.

    Parameters
    ----------
    max_iter : int, default=150
        Iterations at most; the iterate with the smallest error on every fifth row, which are held out, is taken.
    max_rows : int, default=5000
        Rows that train the hidden layers.
    more_rows, more_iter : int, default=50_000, 15
        Where there are more, rows and iterations with which training goes on in blocks; the last layer sees all rows.
    hidden_penalty : float, default=1e-6
        mu, the weight of the squared hidden weights.
    sweeps, patience, tol : int, int, float, default=20, 2, 1e-3
        With `cv`: sweeps at most, and the number of sweeps without a relative fall by `tol` after which they end.
    """

    trains: ClassVar[str] = "hidden layers"
    others: ClassVar[str] = "take Ridge(), or give widths of two layers or more"
    layers: ClassVar[tuple[int, float]] = (2, np.inf)

    @check.named_parameters
    def __init__(
        self,
        max_iter: int = 150,
        *,
        max_rows: int = 5000,
        more_rows: int = 50_000,
        more_iter: int = 15,
        hidden_penalty: float = 1e-6,
        sweeps: int = 20,
        patience: int = 2,
        tol: float = 1e-3,
    ) -> None:
        self.max_iter = max_iter
        self.max_rows = max_rows
        self.more_rows = more_rows
        self.more_iter = more_iter
        self.hidden_penalty = hidden_penalty
        self.sweeps = sweeps
        self.patience = patience
        self.tol = tol

    def check(self, depth: int) -> None:
        super().check(depth)
        for name in ("max_iter", "more_iter", "sweeps"):
            check.steps(name, getattr(self, name))
        for name in ("max_rows", "patience"):
            check.whole(name, getattr(self, name))
        check.whole("more_rows", self.more_rows, at_least=0)
        check.number("hidden_penalty", self.hidden_penalty, at_least=0)
        check.number("tol", self.tol, at_least=0)

    def solve(self, problem: Problem) -> Solution:
        """Train the hidden layers, then solve the last layer on all rows, or on the last part of every rotation."""
        by_parts = problem.parts is not None
        with stage("rotations" if by_parts else "depth", self.sweeps if by_parts else self.max_iter):
            machines, trace = self._sweeps(problem) if by_parts else self._hidden(problem)
        parts, depth = problem.parts, problem.starts[0].depth
        own: list[slice | IntArray] = [slice(None)]
        if parts is not None:
            own = [parts[(j + depth - 1) % len(parts)] for j in range(len(parts))]
        finished = []
        with stage("last layer", len(machines)) as step:
            for machine, at in zip(machines, own, strict=True):
                finished.append(last_layer(machine, problem.rows.take(at), problem.penalty, self.max_rows))
                step()
        fits = [fit for _, fit in finished]
        return Solution(
            tuple(machine for machine, _ in finished),
            trace,
            min(trace, default=np.inf),
            max(len(trace) - (parts is None), 1),
            float(np.mean([fit.penalty for fit in fits])),
            self.hidden_penalty,
            np.mean([fit.loo_error for fit in fits], axis=0),
        )

    def _hidden(self, problem: Problem) -> tuple[list[Machine], list[float]]:
        """Variable projection on some rows, then on more of them."""
        machine, n, m = problem.starts[0], len(problem.rows), min(len(problem.rows), self.max_rows)
        if m < 2:  # a single row leaves nothing to hold out
            return [machine], []
        penalty, phi = self._penalty(problem), machine.maps[0]
        data = seen_by(problem.rows.take(slice(0, m)), phi, m * phi.n_features)
        machine, trace = project(machine, data, held_out(m), penalty, self.hidden_penalty, self.max_iter)
        more = min(n, self.more_rows)
        if more > m:
            data = seen_by(problem.rows.take(slice(0, more)), phi, self.max_rows * phi.n_features)
            machine, later = project(
                machine, data, np.arange(more)[::10], penalty * m / more, self.hidden_penalty, self.more_iter
            )
            trace = [*trace, *later[1:]]
        return [machine], trace

    def _sweeps(self, problem: Problem) -> tuple[list[Machine], list[float]]:
        """Exact sweeps over the rotations."""
        m, phi = min(len(problem.rows), self.max_rows), problem.starts[0].maps[0]
        data = seen_by(problem.rows.take(slice(0, m)), phi, m * phi.n_features)
        runs = adds.rotations([part[part < m] for part in problem.parts or ()], problem.starts[0].depth)
        result = adds.sweep_exactly(
            problem.starts, runs, data, self._penalty(problem),
            max_sweeps=self.sweeps, patience=self.patience, tol=self.tol, n_jobs=problem.n_jobs,
        )  # fmt: skip
        return list(result.machines), result.losses

    def _penalty(self, problem: Problem) -> float:
        """The one-layer fit's penalty, for fewer rows."""
        return max(problem.guess * len(problem.rows) / min(len(problem.rows), self.max_rows), 1e-9)


def held_out(m: int) -> IntArray:
    """Rows by which the iterate is chosen: every fifth."""
    return np.arange(m)[::5]
