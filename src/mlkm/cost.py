"""What a fit will take before it is made: memory and time, by the sums that it does.

    one layer of D features on n rows of d columns     n D^2 products, n D (d + 20) for the features, D^3 for the solve
    kernels on n rows                                  n^2 kernel values of so many terms, n^3 / 3 up to 4000 rows,
                                                       n^2 per step of conjugate gradients above
    a search                                           its steps, each m^3 on m rows

The speed of this machine is measured once, by a product and by cosines. Times are good to a factor of two or so.
"""

from dataclasses import dataclass
from functools import cache
from time import perf_counter

import numpy as np

from ._config import memory_budget
from .auto.first_layer import width_of
from .auto.policy import Policy
from .rows.pieces import piece_rows
from .solvers.dual import DIRECT
from .solvers.ridge import EXACT_ROWS

_STEPS = 30  # of conjugate gradients in two solves, usually
_ENTRY = 15e-9  # seconds per pair of rows and five kernel terms, on one thread of a usual machine
_WORKING = 250e6  # bytes of the libraries themselves


@dataclass(frozen=True)
class Cost:
    """Bytes at most at the same time, seconds, how the fit is made, and how often all rows are read."""

    memory: float
    seconds: float
    way: str
    passes: int

    @property
    def fits(self) -> bool:
        """Whether so much memory may be taken."""
        return self.memory <= memory_budget()

    def __str__(self) -> str:
        return f"{self.way}: about {self.memory / 1e9:.1f} GB and {said(self.seconds)}"


def said(seconds: float) -> str:
    """A time in words.

    >>> said(0.3), said(42.0), said(400.0), said(9000.0)
    ('a second', '42 s', '7 min', '2.5 h')
    """
    if seconds < 1:
        return "a second"
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


@cache
def speed() -> tuple[float, float]:
    """Products per second in float32, and cosines per second, as this machine has them now."""
    F = np.random.default_rng(0).standard_normal((2048, 512)).astype(np.float32)
    F.T @ F
    begin = perf_counter()
    for _ in range(4):
        F.T @ F
    products = 4 * F.shape[0] * F.shape[1] ** 2 / (perf_counter() - begin)
    begin = perf_counter()
    np.cos(F)
    return products, F.size / (perf_counter() - begin)


def cost_of_features(n: int, d: int, D: int, *, in_memory: bool = True, searched: bool = True, policy: Policy) -> Cost:
    """One layer of D features in closed form."""
    products, cosines = speed()
    solve = 12.0 * D**3 / products
    seconds = n * D**2 / products + n * D * (1 / cosines + d / products) + solve + searched * _search(d, policy)
    rows = 8.0 * n * (2 * d + 4) if in_memory else 8.0 * 40_000 * d
    block = 8.0 * piece_rows(d) * (4 * d + 4) + 3 * 4 * 2048 * D
    memory = _WORKING + rows + 4 * block + 6 * 8.0 * D**2
    passes = 1 if in_memory or n <= EXACT_ROWS else 2
    return Cost(memory, seconds, f"{D} features on {n:,} rows", passes)


def cost_of_kernels(n: int, d: int, policy: Policy) -> Cost:
    """The default's kernels at all rows."""
    products, _ = speed()
    pairs = n**2 / 2 * _ENTRY
    solve = n**3 / 3 / products if n <= DIRECT else _STEPS * n**2 / products * 4
    matrix = 8.0 * n**2 if n <= DIRECT else 2.0 * n**2
    seconds = _search(d, policy) + pairs + solve
    return Cost(_WORKING + matrix + 8.0 * n * d * 8, seconds, f"kernels at {n:,} rows", 1)


def _search(d: int, policy: Policy) -> float:
    """Evaluations of the evidence: a factor, an inverse and distances of d inputs each."""
    products, _ = speed()
    m, (first, second) = policy.joint_rows, policy.joint_steps
    each = 4.0 * m**3 / products + m**2 * (d + 10) * 4e-9
    return policy.draws * (first / 4 + second) * 1.3 * each


def cost_of_default(n: int, d: int, policy: Policy, in_memory: bool = True) -> Cost:
    """Kernels up to so many rows, features for more."""
    if n <= policy.kernel_rows[0]:
        return cost_of_kernels(min(n, policy.kernel_rows[1]), d, policy)
    width = width_of(n, policy)
    return cost_of_features(n, d, 2 * width + 2 * d, in_memory=in_memory, policy=policy)
