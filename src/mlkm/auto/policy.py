"""Every number "auto" decides by, in one place: what it means, its unit, what it trades, and what measured it.

A fit takes the policy in force when it begins. An ablation is the default with a field replaced:

>>> from dataclasses import replace
>>> from mlkm.auto.policy import Policy, policy_context
>>> with policy_context(replace(Policy(), most_rotated=0)):
...     current_policy().most_rotated
0
>>> current_policy().most_rotated
25

Where a comment names no script, the value was chosen while the default was developed, on the sets of
`python -m benchmarks run`, and has not been varied on its own. "Ablation" is `python -m benchmarks run ablation`.

Numbers that decide nothing of a model stay beside their arithmetic: the grid of penalties (`solvers.penalty`), the
sizes from which another way to compute the same fit is cheaper (`EXACT_ROWS`, `PATH_FEATURES` in `solvers`), and bounds
that keep a climb from overflowing. Shape and candidate penalties of descent (`auto.plan`) are the paper's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["EFFORTS", "Policy", "current_policy", "policy_context", "with_effort"]


@dataclass(frozen=True)
class Policy:
    """The default's decisions. Sizes trade time for accuracy; worths are gains below which the simpler model stays."""

    # --- how far predictions go
    beyond: float = 2.0  # ranges of the training targets by which a prediction may leave them; against nonsense far out

    # --- the sum of kernels of the default, and who stands beside it (benchmarks/kernels.py)
    draws: int = 2  # searches whose kernels are summed: on warped and on raw targets, on other rows where there are
    joint_rows: int = 800  # rows of a search: each evaluation is n^3
    first_joint_rows: int = 400  # of its first climb, which goes most of the way
    joint_steps: tuple[int, int] = (20, 20)  # of its climb by scales, and of the one that also turns directions
    joint_frequencies: int = 4  # of order 1 per input while searching; each is a cosine and a sine
    final_frequencies: int = 5  # and in the fit
    joint_prior: tuple[float, float] = (0.02, 0.05)  # nats per squared distance from the start: amplitudes, scales
    most_turned: int = 25  # inputs up to which directions turn; d^2 parameters
    gaps: int = 40_000_000  # distances of a search that are kept; fewer rows where inputs are many
    weigh_rows: int = 800  # rows by which the kernels' variances and the noise are chosen
    weigh_steps: int = 12
    kernel_rows: int = 20_000  # rows up to which the kernel is solved on all of them; its matrix takes 4 n^2 bytes
    solve_rows: int = 20_000  # of which so many are taken
    stack_rows: int = 1000  # rows up to which ridge and the mean stand beside the kernels, weighed on rows held out
    fifths: tuple[int, int] = (100, 400)  # rows up to which all five fifths are held out in turn, or two of them
    bootstraps: int = 30  # over which the weights of that stack are averaged

    # --- few rows: is a search to be trusted? (ablation: no-caution)
    few_rows: int = 300  # rows up to which a search must prove itself on rows held out,
    few_per_input: int = 10  # or so many rows per input;
    enough_rows: int = 1800  # never from here on, since the search then leaves rows for a check of its own
    least_rows: int = 10  # rows with which there is something to hold out
    # rows up to which every second is held out, then every third: more to learn from, or a surer comparison
    held_out: tuple[int, int, int] = (100, 2, 3)
    # of the plain layer; 300 lose 5 to 10 % on 700 rows of YearPredictionMSD (paper, Table 8)
    plain_features: int = 1500
    plain_rows: int = 700  # by which its scale is chosen
    plain_scales: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0, 2.0)  # candidates, times 1/sqrt(order)

    # --- one scale for all inputs, by leave-one-out (relevance=False, solver="gradient")
    scale_rows: int = 1000  # rows of the small fits that are compared,
    scale_features: int = 300  # their features,
    scale_factors: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)  # and the candidates, times 1/sqrt(order)
    # D = 2 sqrt(n) log n, the theory's count, at least, at most
    drawn_features: tuple[float, int, int] = (2.0, 100, 1500)

    # --- which inputs enter the search
    most_inputs: int = 150  # inputs a search begins with; more are screened by their own correlations with y
    # cosines of ranks, of a single input and of each in a product: 3 give the 9 and 27 degrees of freedom below
    screen_waves: tuple[int, int] = (5, 3)
    none_dropped: int = 12  # inputs up to which all are kept
    most_kept: int = 30  # inputs it goes on with
    # share of relevant inputs above which the others are not worth another climb without them
    worth_dropping: float = 0.7
    leaders: int = 5  # most relevant inputs whose pairs are tested (ablation: no-pairs)
    pair_rows: int = 5000  # rows of those tests
    pair_chance: float = 45.0  # chi-squared, 9 degrees of freedom: probability 1e-6
    most_telling: tuple[int, int] = (100, 10)  # pairs that are added, and pairs whose inputs are kept come what may
    residual_leaders: int = 3  # inputs whose products are looked for in the residuals (ablation: no-second-look)
    residual_chance: tuple[float, float] = (60.0, 120.0)  # chi-squared, 9 and 27 degrees: below 1e-8 and 1e-12
    # mean squared slope that keeps an input: share of the noise, and at most
    moving: tuple[float, float] = (0.02, 3e-3)
    varying: float = 3e-2  # prior variance, relative to the largest, that keeps an input
    # pairs with features of order 2, and most relevant inputs paired with every other, by up to twice as many pairs
    searched_pairs: tuple[int, int] = (200, 3)
    # in the end the fewest pairs with this share of the variance of order 2, at least, at most
    final_pairs: tuple[float, int, int] = (0.99, 3, 200)

    # --- the climb of the evidence
    rows: int = 1500  # of the smooth part's climbs; 1000 save a fifth of the time and lose 1 % on 28 sets
    first_rows: tuple[int, int, int] = (40, 600, 1000)  # of the first climb: per input, at least, at most
    tiny_rows: int = 150  # rows below which a search has few features
    single_features: tuple[int, int, int] = (6, 6, 10)  # per input in order 1: tiny, first climb, later climbs
    shared_single: tuple[int, int] = (400, 3)  # all inputs share so many of order 1; each has so many at least
    order_features: tuple[int, int, int] = (60, 100, 200)  # of order 2 and of full order, likewise; 130 lose on pumadyn
    first_steps: int = 40  # iterations of a climb from the start, at most
    steps: int = 12  # of one that goes on
    longer: int = 3  # times as many while it gains
    # steps that are judged together: a single one, the first of a warm start above all, may be short
    judged_steps: int = 4
    precise_steps: int = 60  # of the climb in float64 where there is next to no noise
    precise_noise: float = 1e-3  # noise variance, y having 1, below which sums are in float64
    # log standard deviation of the noise from which that climb begins at least, where the system can be factorised
    precise_start: float = -8.0
    least_gain: float = 1e-3  # nats per row in the steps judged together below which a climb ends
    good_gain: float = 1e-2  # nats per row in as many steps with which it may go on beyond its own
    prior: float = 1e-4  # weight of the squared distance of log-scales and log-amplitudes from their start, per row
    # noise below which, and nats per row within which, both inputs and ranks go on
    undecided: tuple[float, float] = (0.02, 0.5)
    # nats per row, of the smooth and the rough part; ranks carry sampling noise of their own (ablation: no-ranks)
    worth_ranks: tuple[float, float] = (0.02, 0.002)
    most_rotated: int = 25  # inputs up to which the full order may learn a matrix of scales (ablation: no-rotation)
    fresh_rows: tuple[int, int] = (500, 300)  # rows by which it is judged, and the least number that is fresh
    judged_features: int = 400  # of full order in that comparison
    afresh: float = 0.05  # nats per row lost by dropping inputs that ask for a fresh start

    # --- the rough part (ablation: no-rough)
    rough_rows: tuple[int, int] = (400, 700)  # of its first and its second climb; the kernel is exact, n^3
    rough_steps: tuple[int, int] = (25, 15)
    rough_prior: float = 1e-3  # as `prior`
    rough_variance_steps: int = 10  # iterations for the variances of both parts and the noise; n^3 each
    rough_far: float = 0.5  # nats per row behind the smooth part at which it is given up
    worth_a_loss: float = 1.003  # leave-one-out error, relative to the best, at which it is left away

    # --- how wide the first layer is: narrow, wide (ablation: always-wide)
    # of full order where the last ridge is exact; airfoil, energy, housing gain 5 % over 500
    exact_features: int = 1500
    wide_single: tuple[int, int] = (16, 24)  # features per input in order 1,
    wide_shared: tuple[int, int] = (50, 2)  # of which so many inputs' worth is shared by all; each has so many at least
    wide_pair: tuple[int, int] = (200, 300)  # features of order 2
    # one per so many rows, at least, at most
    wide_full: tuple[tuple[int, int, int], ...] = ((24, 250, 500), (12, 500, 1000))
    widest_full: int = 3000  # where leave-one-out asks for most
    # and for the widest
    landmarks: tuple[tuple[int, int, int], ...] = ((12, 500, 800), (6, 1000, 1600), (6, 1000, 2000))
    # of a given number of features: one in so many for order 1, and of the rest the share of order 2
    given_shares: tuple[int, float] = (3, 0.4)
    worth_width: float = 1.04  # ratio of leave-one-out errors, half of the features to all, that asks for more
    worth_most_width: tuple[float, float] = (2.0, 1.16)  # ratio that asks for most, with fewer and with so many rows:
    many_rows: int = 8000
    very_many: int = 4500  # features above which the weight of the rough part is sought again
    least_penalty: float = 1 / 200  # how far below the noise by the evidence a penalty may go
    most_balance: float = 50.0  # how far the rough part's penalty may move from the smooth part's, either way,
    balance_step: float = 6.0  # and the factor between two that are tried; a parabola finds the place between them

    # --- hidden layers
    worth_depth: float = 0.9  # share of the one-layer error, on many rows held out, below which hidden layers are used


EFFORTS: dict[str, dict[str, Any]] = {
    "fast": {
        "draws": 1,
        "joint_rows": 500,
        "first_joint_rows": 300,
        "weigh_rows": 500,
        "weigh_steps": 8,
        "solve_rows": 4000,
        "fifths": (60, 100),
    },
    "balanced": {},
    "best": {"draws": 4, "joint_rows": 1000, "joint_steps": (30, 40), "weigh_rows": 1200, "fifths": (400, 1000)},
}


def with_effort(policy: Policy, effort: str) -> Policy:
    """The policy with the sizes of that effort."""
    if not isinstance(effort, str) or effort not in EFFORTS:
        names = ", ".join(map(repr, EFFORTS))
        raise ValueError(f"effort must be one of {names}; got {effort!r}.")
    return replace(policy, **EFFORTS[effort])


_CURRENT: ContextVar[Policy] = ContextVar("policy", default=Policy())  # noqa: B039, a frozen dataclass


def current_policy() -> Policy:
    """The policy that a fit which begins now takes."""
    return _CURRENT.get()


@contextmanager
def policy_context(policy: Policy) -> Iterator[None]:
    """Fits that begin inside take this policy."""
    token = _CURRENT.set(policy)
    try:
        yield
    finally:
        _CURRENT.reset(token)
