"""Every number "auto" decides by, in one place: what it means, its unit, what it trades, and what measured it.

A fit takes the policy in force when it begins. An ablation is the default with a field replaced:

>>> from dataclasses import replace
>>> from mlkm.search.policy import Policy, policy_context
>>> with policy_context(replace(Policy(), draws=1)):
...     current_policy().draws
1
>>> current_policy().draws
2

`python -m benchmarks.kernels` measures every field: what less and more of it does to errors and time.

Numbers that decide nothing of a model stay beside their arithmetic: the grid of penalties (`solvers.penalty`), the
sizes from which another way to compute the same fit is cheaper (`DIRECT`, `DOUBLE`, `EXACT` and `EXACT_ROWS` in
`solvers`), tolerances, and bounds that keep a climb from overflowing. Shape and candidate penalties of descent
(`auto.plan`) are the paper's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from ..model.terms import SearchTerm, default_terms
from ..runtime.checks import number

__all__ = ["EFFORTS", "LEAST", "Policy", "between", "check_effort", "current_policy", "policy_context", "with_effort"]


@dataclass(frozen=True)
class Policy:
    """The default's decisions. Sizes trade time for accuracy."""

    # --- how far predictions go
    beyond: float = 2.0  # ranges of the training targets by which a prediction may leave them; against nonsense far out

    # --- which inputs enter the search
    none_dropped: int = 12  # inputs up to which all are kept, and the fewest of more
    most_inputs: int = 150  # inputs that are looked at in pairs; of more, those that tell most by themselves
    chance: float = 0.05  # probability of a score by chance below which an input of many is kept
    checked_rows: int = 4000  # rows at most that tell whether inputs can be left away

    # --- the search for the kernels
    draws: int = 2  # searches whose kernels are summed: on warped and on raw targets, on other rows where there are
    spread: float = 3.0  # standard deviations to which warped targets are held
    first_joint_rows: int = 400  # of a search's first climb, which goes most of the way; each evaluation is n^3
    joint_rows: int = 800  # rows of a search
    left_samples: int = 8  # of a second search, on what the first one has missed, where features stand for kernels
    gaps: int = 40_000_000  # distances of a search that are kept; fewer rows where inputs are many
    joint_steps: tuple[int, int] = (15, 15)  # of its climb by scales, and of the one that also turns directions
    least_gain: tuple[float, int] = (1e-3, 4)  # nats per row in so many steps, below which a climb ends
    joint_frequencies: int = 4  # of order 1 per input; each is a cosine and a sine
    joint_prior: tuple[float, float] = (0.02, 0.05)  # nats per squared distance from the start: amplitudes, scales
    most_turned: int = 25  # inputs up to which directions turn; d^2 parameters

    # --- variances and noise by leave-one-out, and the solve
    weigh_rows: int = 800  # rows by which the kernels' variances and the noise are chosen
    weigh_steps: int = 8
    # rows up to which kernels are solved rather than features, and how many are at most; the matrix takes 2 n^2 bytes,
    # and what is beyond 4 GB (44,700 rows) is computed anew for every product; `python -m benchmarks.pairs`
    kernel_rows: tuple[int, int] = (20_000, 20_000)

    # --- who stands beside the kernels with few rows
    stack_rows: int = 1000  # rows up to which ridge and the mean do, weighed on rows held out
    fifths: tuple[int, int] = (100, 400)  # rows up to which all five fifths are held out in turn, or two of them
    bootstraps: int = 30  # over which the weights of that stack are averaged

    # --- features instead of kernels: more rows, given widths, hidden layers
    # products of features and rows (n D^2), by which the number of features is set, at least, at most
    layer_work: tuple[float, int, int] = (1e12, 800, 4000)
    # one scale for all inputs (relevance=False, solver="gradient"), by leave-one-out: rows and features of the small
    # fits that are compared, and the candidates, times 1/sqrt(order)
    scale_search: tuple[int, int, tuple[float, ...]] = (1000, 300, (0.1, 0.25, 0.5, 1.0, 2.0, 4.0))
    hidden_rows: int = 0  # rows by which hidden layers beside the kernels are trained and weighed
    worth_depth: float = 0.9  # share of the one-layer error, on many rows held out, below which hidden layers are used

    @property
    def terms(self) -> tuple[SearchTerm, ...]:
        """The kernels that a search learns."""
        return default_terms(self.joint_frequencies)


# what a fit with next to no time takes
LEAST: dict[str, Any] = {
    "checked_rows": 300,
    "draws": 1,
    "joint_rows": 150,
    "first_joint_rows": 120,
    "joint_steps": (6, 3),
    "left_samples": 0,
    "weigh_rows": 150,
    "weigh_steps": 4,
    "kernel_rows": (20_000, 600),
    "layer_work": (1e10, 150, 300),
    "fifths": (0, 0),
    "bootstraps": 10,
}

EFFORTS: dict[str, dict[str, Any]] = {
    "fast": {
        "checked_rows": 1500,
        "draws": 1,
        "joint_rows": 400,
        "first_joint_rows": 300,
        "joint_steps": (12, 10),
        "left_samples": 0,
        "weigh_rows": 400,
        "kernel_rows": (20_000, 6000),
        "layer_work": (1e11, 500, 1200),
        "fifths": (60, 100),
    },
    "balanced": {},
    "best": {
        "draws": 4,
        "joint_rows": 1000,
        "joint_steps": (20, 25),
        "weigh_rows": 1000,
        "weigh_steps": 12,
        "kernel_rows": (44_000, 44_000),
        "fifths": (400, 1000),
        "hidden_rows": 1500,
    },
}


def with_effort(policy: Policy, effort: str | None) -> Policy:
    """The policy with the sizes of that effort, but for fields that were replaced; without one, as it is."""
    return policy if effort is None else with_sizes(policy, EFFORTS[effort])


def with_sizes(policy: Policy, sizes: dict[str, Any]) -> Policy:
    """The policy with these fields, but for those that were replaced before."""
    usual = Policy()
    return replace(policy, **{k: v for k, v in sizes.items() if getattr(policy, k) == getattr(usual, k)})


def check_effort(effort: Any) -> None:
    """A name, a number of seconds, or None."""
    named = effort is None or (isinstance(effort, str) and effort in EFFORTS)
    if not named:
        names = ", ".join(map(repr, EFFORTS))
        number("effort", effort, above=0, words=f"one of {names}, or a finite number of seconds above 0")


def between(low: dict[str, Any], high: dict[str, Any], share: float) -> dict[str, Any]:
    """Sizes between those of two policies, on a logarithmic scale; a size that one of them does not have, as that of
    hidden layers, comes with the whole share only.

    >>> between({"draws": 1, "joint_steps": (10, 10)}, {"draws": 4, "joint_steps": (10, 40)}, 0.5)
    {'draws': 2, 'joint_steps': (10, 20)}
    """
    return {name: _between(low[name], high[name], share) for name in high}


def _between(a: Any, b: Any, share: float) -> Any:
    if isinstance(a, tuple):
        return tuple(_between(x, y, share) for x, y in zip(a, b, strict=True))
    if a == b or share in (0.0, 1.0) or min(a, b) <= 0:
        return b if share == 1 else a
    found = a ** (1 - share) * b**share
    return round(found) if isinstance(a, int) else found


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
