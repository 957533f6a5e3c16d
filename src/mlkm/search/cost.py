"""The memory and the time of a fit, estimated before it is made from the sums that it does.

    one layer of D features on n rows of d columns     n D^2 products, n D (d + 20) for the features, D^3 for the solve
    kernels on n rows                                  n^2 kernel values of so many terms, n^3 / 3 up to 4000 rows,
                                                       n^2 per step of conjugate gradients above
    a search                                           its steps, each m^3 on m rows, and m^2 d
    rows held out, with few rows                       a search and a solve for each part

The speed of this machine is measured once, by products and exponentials. Times are right to about a factor of two:
`python -m benchmarks.costs` prints them beside those of fits.

`within` chooses the sizes of a fit whose effort is a number of seconds: as near to those of "best" as the estimate of
its time allows. They go from the least sizes over those of "fast" and "balanced" to those of "best". A time that is
too short for the least sizes gets these: a fit is never refused for its time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import ceil, log2, sqrt
from timeit import repeat

import numpy as np

from ..data.rows import block_rows
from ..runtime import sizes
from ..runtime.resources import blas_threads, limited, memory_budget
from ..runtime.sizes import DIRECT_ROWS, EXACT_ROWS
from ..solve.dual import landmarks, usual_steps
from .policy import EFFORTS, LEAST, Policy, between, with_sizes


@dataclass(frozen=True)
class Cost:
    """The cost of a fit: the most bytes at the same time, seconds, how the fit is made, how often all rows are read,
    and the seconds of everything but the search."""

    memory: float
    seconds: float
    way: str
    passes: int
    after_search: float = 0.0

    @property
    def fits(self) -> bool:
        """Return whether the memory is within the budget."""
        return self.memory <= memory_budget()

    @property
    def announcement(self) -> tuple[str, float]:
        """Return the cost in words, and its seconds."""
        return str(self), self.seconds

    def __str__(self) -> str:
        return f"{self.way}: about {self.memory / 1e9:.1f} GB and {said(self.seconds)}"


def said(seconds: float) -> str:
    """Return a time in words.

    >>> said(0.3), said(42.0), said(400.0), said(9000.0)
    ('a second', '42 s', '7 min', '2.5 h')
    """
    if seconds < 1:
        return "a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


@dataclass(frozen=True)
class Speed:
    """The speed of this machine per second: products in float32 with all threads, products in float64 with one thread,
    exponentials with one thread; and whether two searches run at the same time."""

    products: float
    single: float
    exponentials: float
    two: bool


@cache
def speed() -> Speed:
    """Measure the speed of this machine, once per process."""
    F = np.random.default_rng(0).standard_normal((1024, 512))
    G, out, two = F.astype(np.float32), np.empty_like(F), blas_threads() > 1
    products = F.size * F.shape[1] / _seconds(lambda: G.T @ G)
    with limited(1):
        single = F.size * F.shape[1] / _seconds(lambda: F.T @ F)
        return Speed(products, single, F.size / _seconds(lambda: np.exp(F, out=out)), two)


def _seconds(work: Callable[[], object]) -> float:
    """Return the shortest of six times, which other work on the machine disturbs least."""
    return max(min(repeat(work, number=1, repeat=6)), 1e-6)


def cost_of_features(
    n: int,
    d: int,
    D: int,
    *,
    given: bool = True,
    landmarks: bool = False,
    in_memory: bool = True,
    searched: bool = True,
    policy: Policy,
) -> Cost:
    """Return the cost of one layer of D features in closed form, cosines or kernels at landmarks; `given` says that D
    was asked for, `searched` that the scales are learned."""
    at = speed()
    solve = 6.0 * D**3 / at.products
    values, whitening = (sizes.SEARCH_TERMS, 0.5) if landmarks else (1, 0.0)
    pass_over = (1.6 + whitening) * n * D**2 / at.products  # sums are in float64
    pass_over += values * n * D * (1 / at.exponentials + d / at.products)
    once = replace(policy, draws=1)
    left_memory, left_seconds = _residual_search(d, policy.residual_share(n, D if given else None), policy)
    parts = 1 + _parts(n, policy) if n <= policy.stack_rows else 1
    search = searched * parts * (_search(n, d, once) + _kernel_variances(n, d, once) + left_seconds)
    rows = 8.0 * n * (2 * d + 4) if in_memory else 8.0 * 40_000 * d
    block = 8.0 * block_rows(d) * (4 * d + 4) + 3 * 4 * 2048 * D
    memory = sizes.LIBRARY_BYTES + rows + 4 * block + sizes.MATRICES_HELD * 8.0 * D**2 + searched * left_memory
    passes = 1 if in_memory or n <= EXACT_ROWS else 2
    return Cost(memory, search + pass_over + solve, f"{D} features on {n:,} rows", passes, pass_over + solve)


def cost_of_default(n: int, d: int, policy: Policy, in_memory: bool = True) -> Cost:
    """Return the cost of the default: features with many rows, else kernels at all rows, or at the most that are solved
    on, with fits to held-out rows or hidden layers."""
    if n > policy.kernel_rows[0]:
        D = policy.summed_features(n, d)
        return cost_of_features(n, d, D, given=False, landmarks=True, in_memory=in_memory, policy=policy)
    n = min(n, policy.kernel_rows[1])
    matrix = 8.0 * n**2 if n <= DIRECT_ROWS else 2.0 * n**2 + 12.0 * n * landmarks(n)
    search, after = _search(n, d, policy), _after(n, d, policy)
    seconds = search + after
    if n <= policy.stack_rows:
        cheaper, m = replace(policy, draws=1, joint_rows=policy.first_joint_rows), n * 4 // 5
        held = _parts(n, policy) * (_search(m, d, cheaper) + _after(m, d, cheaper))
        seconds = max(seconds, held) if speed().two else seconds + held
    elif policy.hidden_rows:
        m, once = min(n, policy.hidden_rows), replace(policy, draws=1)
        depth = (
            _search(m, d, once) + _kernel_variances(m, d, once) + policy.hidden_steps * 2 * m * 600**2 / speed().single
        )
        seconds, after = seconds + depth, after + depth
    memory = sizes.LIBRARY_BYTES + matrix + 8.0 * n * d * 8
    return Cost(memory, seconds, f"kernels at {n:,} rows", 1, after)


def _evaluation(m: float, d: int) -> float:
    """Return the seconds of one evaluation of the evidence on m rows: a factor, an inverse, exponentials of all pairs,
    and distances of d inputs."""
    at = speed()
    return 1.5 * m**3 / at.single + m**2 * (42 + 2 * d) / at.exponentials + 1e-3


def _search(n: int, d: int, policy: Policy) -> float:
    """Return the seconds of a search: climbs on its first rows, then on all of them, and where inputs are many, climbs
    that drop inputs."""
    n_inputs = min(d, policy.most_inputs)
    m, first = min(n, policy.joint_rows, sqrt(policy.gaps / n_inputs)), min(n, policy.first_joint_rows)
    first_steps, steps = policy.joint_steps
    few = min(n_inputs, sizes.INPUTS_LEFT)
    evaluations = first_steps * _evaluation(first, few) + steps * _evaluation(m, few)
    climbs = (ceil(policy.draws / 2) if speed().two else policy.draws) * evaluations
    checks = 0.0
    if n_inputs > policy.none_dropped:
        halvings = log2(n_inputs / policy.none_dropped)
        dropping = 2 * _evaluation(first, n_inputs) + halvings * _evaluation(first, sizes.INPUTS_LEFT)
        climbs += first_steps * dropping
        checks = (2 + halvings) * min(policy.checked_rows, max(n - first, 0)) * first * 40 / speed().exponentials
    return sizes.STEP_EVALUATIONS * climbs + checks


def _after(n: int, d: int, policy: Policy) -> float:
    """Return the seconds after a search: variances by leave-one-out, the solve, and the relevances."""
    at, seen = speed(), min(d, sizes.INPUTS_LEFT)
    pairs = n**2 / 2 * sizes.SEARCH_TERMS * policy.draws * (3 + 0.25 * seen) / at.exponentials
    solve = n**3 / at.products if n <= DIRECT_ROWS else usual_steps(n) * n**2 / at.products * 4
    relevances = min(4e6, 1000.0 * n) * (40 + 0.3 * d) / at.exponentials
    return sizes.SOLVES_PER_FIT * (_kernel_variances(n, d, policy) + pairs + solve) + relevances


def _residual_search(d: int, share: float, policy: Policy) -> tuple[float, float]:
    """Return the bytes and seconds of a residual search on several samples."""
    n, at, n_inputs = policy.kernel_rows[0], speed(), min(d, policy.most_inputs)
    number, m = policy.residual_samples(n, d, share)
    half = number * m / 2
    climb = sizes.STEP_EVALUATIONS * sum(policy.joint_steps) * number * _evaluation(m, n_inputs)
    pairs = half**2 * sizes.SEARCH_TERMS * (3 + 0.25 * min(d, sizes.INPUTS_LEFT)) / at.exponentials
    fits = 2 * (pairs + half**3 / at.products)
    seconds = climb / (2 if at.two else 1) + fits + _kernel_variances(n, d, replace(policy, draws=2))
    return 4.0 * number * m**2 * n_inputs, seconds if number else 0.0


def _kernel_variances(n: int, d: int, policy: Policy) -> float:
    """Return the seconds of variances by leave-one-out: an eigendecomposition, then steps of a factor, an inverse and
    products."""
    at, m = speed(), min(n, policy.variance_rows)
    pairs = m**2 * sizes.SEARCH_TERMS * policy.draws * (20 + min(d, sizes.INPUTS_LEFT)) / at.exponentials
    return (policy.variance_steps * 1.25 * 4.5 + 8) * m**3 / at.single + pairs + 2e-3 * policy.variance_steps


def _parts(n: int, policy: Policy) -> int:
    """Return how many of five folds are held out."""
    all_five, two = policy.fifths
    return 5 if n <= all_five else 2 if n <= two else 1


def within(seconds: float, policy: Policy, cost: Callable[[Policy], Cost]) -> Policy:
    """Return the policy with the largest sizes that the time allows, from the least ones over those of all efforts;
    fields that were replaced stay as they are."""
    usual, steps = Policy(), [k / policy.effort_steps for k in range(policy.effort_steps)]
    ends = [{name: getattr(usual, name) for name in LEAST} | sizes for sizes in (LEAST, *EFFORTS.values())]
    sizes = [between(a, b, t) for a, b in pairwise(ends) for t in steps] + ends[-1:]
    tried = [with_sizes(policy, one) for one in sizes]
    affordable = [one for one in tried if cost(one).seconds <= policy.time_share * seconds]
    return affordable[-1] if affordable else tried[0]
