"""Every number that "auto" decides by, with its meaning, its unit, its trade-off and what measured it.

A fit takes the policy in force when it begins. An ablation is the default with a field replaced:

>>> from dataclasses import replace
>>> from mlkm.search.policy import Policy, policy_context
>>> with policy_context(replace(Policy(), draws=1)):
...     current_policy().draws
1
>>> current_policy().draws
2

`python -m benchmarks.kernels` measures every field: what less and more of it does to errors and time.

The numbers of lower packages, such as how levels are encoded and which penalties are tried, are in `Policy.rules`
(`mlkm.runtime.rules`). Sizes of blocks, tolerances and the sizes from which another way to compute the same fit is
cheaper are in `mlkm.runtime.sizes`.

`Seen` stores which training rows a choice has seen, that is, whose targets it depends on. Training rows are in an order
unrelated to their values, and searches look at rows that lie next to each other in it, so that a few ranges describe
them. Coefficients depend on every row and do not count as a choice.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from .._types import BoolArray
from ..runtime.checks import number
from ..runtime.rules import RULES, Rules
from .product_terms import GaussianTerm, Laplace
from .terms import Additive, Levels, Linear, SearchTerm

__all__ = ["EFFORTS", "LEAST", "Policy", "between", "check_effort", "current_policy", "policy_context", "with_effort"]


def default_terms(n_frequencies: int) -> tuple[SearchTerm, ...]:
    """Return the terms that the default's search learns, in the order of their sum."""
    return Additive(n_frequencies), GaussianTerm(), Laplace(), Levels(), Linear()


@dataclass(frozen=True)
class Policy:
    """The default's decisions. Sizes trade time for accuracy."""

    # --- how far predictions go
    beyond: float = 2.0  # ranges of the training targets by which a prediction may leave them; against nonsense far out

    # --- which inputs enter the search
    none_dropped: int = 12  # inputs up to which all are used, and the fewest that are selected of more
    most_inputs: int = 150  # inputs that are screened in pairs; of more, those with the largest scores alone
    chance: float = 0.05  # p-value of its score below which an input of many is selected
    checked_rows: int = 4000  # rows at most that validate leaving inputs out
    screened_rows: int = 4000  # rows by which inputs are screened, alone and in pairs
    screening_waves: tuple[int, int] = (5, 3)  # cosines of an input alone, and of each in a product; more dilute it
    leaders: int = 2  # most relevant inputs, together with which others are tested in pairs

    # --- the search for the kernels
    # searches whose kernels are summed, in turn on transformed and raw targets, on other rows where there are enough
    draws: int = 2
    least_transformed: int = 20  # rows from which on a power transform of targets is fitted
    spread: float = 3.0  # standard deviations at which transformed targets are clipped
    first_joint_rows: int = 400  # rows of a search's first climb; an evaluation takes n^3 operations
    joint_rows: int = 800  # rows of a search
    # samples of a second search, on the residuals of the first, where features approximate kernels
    left_samples: int = 8
    least_left_samples: int = 2  # below which there is no second search: fewer have no more rows than the first
    gaps: int = 40_000_000  # distances that a search stores; with many inputs it has fewer rows
    joint_steps: tuple[int, int] = (15, 15)  # steps of its climb in the scales, and of that in all parameters
    least_gain: tuple[float, int] = (1e-3, 4)  # gain in nats per row, over so many steps, below which a climb ends
    joint_frequencies: int = 4  # frequencies of order 1 per input; each is a cosine and a sine
    joint_prior: tuple[float, float] = (0.02, 0.05)  # nats per squared distance from the start: amplitudes, scales
    most_frequencies: int = 12  # frequencies per input, where all features are of single inputs
    text_rows: int = 2000  # rows by which directions of texts are chosen; more distinguish rarer words
    most_turned: int = 25  # inputs up to which directions are learned; these have d^2 parameters

    # --- variances and noise by leave-one-out, and the solve
    variance_rows: int = 800  # rows by which the kernels' variances and the noise are chosen
    variance_steps: int = 8  # steps of the descent of the leave-one-out error
    least_local: float = 1e-3  # variance of a local term, relative to the noise, up to which it is dropped
    # rows up to which kernels are solved rather than features, and the most that are solved on; the matrix takes 2 n^2
    # bytes, and what is beyond 4 GB (44,700 rows) is computed anew for every product; `python -m benchmarks.pairs`
    kernel_rows: tuple[int, int] = (20_000, 20_000)

    left_out_rows: int = 1000  # rows, the last ones, at which fits from sums measure leave-one-out errors
    least_rows: int = 3  # rows below which only the mean is fitted

    # --- transformed targets, where they are skewed
    straight: float = 0.99  # squared correlation of raw and transformed targets above which these are not used
    least_share: float = 0.02  # share of the fit to transformed targets below which it is dropped

    # --- stacking with ridge and the mean, with few rows
    stack_rows: int = 1000  # rows up to which ridge and the mean are stacked with the kernels, by held-out rows
    fifths: tuple[int, int] = (100, 400)  # rows up to which all five fifths are held out in turn, or two of them
    bootstraps: int = 30  # bootstraps over which the weights of that stack are averaged

    # --- features instead of kernels: more rows, given widths, hidden layers
    # operations n D^2 that determine the number of features D, the least D and the largest
    layer_work: tuple[float, int, int] = (1e12, 800, 4000)
    # landmarks at most: on 36,000 rows of kin40k the error is .065 with 6000, and .062 with 8000 in 1.5 times the time
    most_landmarks: int = 6000
    # one scale for all inputs (relevance=False, solver="gradient"), by leave-one-out: rows and features of the small
    # fits that are compared, and the candidates, times 1/sqrt(order)
    scale_search: tuple[int, int, tuple[float, ...]] = (1000, 300, (0.1, 0.25, 0.5, 1.0, 2.0, 4.0))
    hidden_rows: int = 0  # rows by which hidden layers beside the kernels are trained and weighted
    hidden_widths: tuple[int, int] = (300, 16)  # features of these hidden layers
    hidden_steps: int = 60  # iterations that train them
    worth_depth: float = 0.9  # share of the one-layer error, on many rows held out, below which hidden layers are used

    # --- the paper's choices, where descent leaves them open
    descent_widths: tuple[int, ...] = (256, 16)  # features per layer, the paper's shape from 16 inputs on
    penalties: tuple[float, ...] = tuple(10.0**k for k in range(-7, 1))  # candidates of penalty="cv"

    # --- warnings and estimates of time
    # least number of rows, and least leave-one-out error as a share of the variance of y, for a fit to be useless
    useless: tuple[int, float] = (30, 0.99)
    time_share: float = 0.8  # share of the seconds of an effort that the estimate of a fit may take, as a margin
    effort_steps: int = 8  # sizes that are tried between two efforts; more come closer to the seconds of an effort

    # the numbers of lower packages: the same for every fit, and no field that an ablation could replace
    rules: ClassVar[Rules] = RULES

    @property
    def terms(self) -> tuple[SearchTerm, ...]:
        """Return the kernels that a search learns."""
        return default_terms(self.joint_frequencies)

    def width(self, n: int) -> int:
        """Return how many features n rows get: as many as a given number of products allows, and no more than half of
        the rows or a few hundred."""
        work, least, most = self.layer_work
        return int(min(np.clip(np.sqrt(work / n), least, most), max(n // 2, least // 2)))

    def landmarks_beside(self, D: int) -> int:
        """Return how many landmarks take as much work as D cosines beside D landmarks: each has to be whitened."""
        return min(8 * D // 5, self.most_landmarks)

    def summed_features(self, n: int, d: int) -> int:
        """Return how many features the default has for n rows of d inputs, at most: landmarks, cosines of single
        inputs, and the inputs."""
        D = self.width(n)
        return self.landmarks_beside(D) + min(D // 3, 4 * self.joint_frequencies * d) + d

    def residual_share(self, n: int, n_features: int | None) -> float:
        """Return the share of the samples of a residual search that n rows get: all with more rows than kernels are
        solved on, and with a given number of features the ratio of their work to that of the default."""
        if n <= self.kernel_rows[0]:
            return 0.0
        return 1.0 if n_features is None else min(1.0, n * n_features**2 / self.layer_work[0])

    def residual_samples(self, n: int, d: int, share: float = 1.0) -> tuple[int, int]:
        """Return how many samples a residual search of n rows of d inputs has, none where they would be too few, and
        how many rows each has."""
        d = min(d, self.most_inputs)
        m = min(self.joint_rows, int(np.sqrt(self.gaps / d)))
        number = min(int(share * self.left_samples), n // m, 2 * self.gaps // (m**2 * d))
        return number if number >= self.least_left_samples else 0, m


# sizes that differ from the fields of the policy: with next to no time, and by the efforts "fast" and "best"
_SIZES: dict[str, tuple[Any, Any, Any]] = {
    "checked_rows": (300, 1500, Policy.checked_rows),
    "draws": (1, 1, 4),
    "joint_rows": (150, 400, 1000),
    "first_joint_rows": (120, 300, Policy.first_joint_rows),
    "joint_steps": ((6, 3), (12, 10), (20, 25)),
    "left_samples": (0, 0, Policy.left_samples),
    "variance_rows": (150, 400, 1000),
    "variance_steps": (4, Policy.variance_steps, 12),
    "kernel_rows": ((20_000, 600), (20_000, 6000), (44_000, 44_000)),
    "layer_work": ((1e10, 150, 300), (1e11, 500, 1200), Policy.layer_work),
    "fifths": ((0, 0), (60, 100), (400, 1000)),
    "bootstraps": (10, Policy.bootstraps, Policy.bootstraps),
    "hidden_rows": (0, 0, 1500),
}
LEAST, _FAST, _BEST = ({name: sizes[k] for name, sizes in _SIZES.items()} for k in range(3))
EFFORTS: dict[str, dict[str, Any]] = {"fast": _FAST, "balanced": {}, "best": _BEST}


def with_effort(policy: Policy, effort: str | float | None) -> Policy:
    """Return the policy with the sizes of a named effort; fields that were replaced stay as they are, and without a
    name all do."""
    return with_sizes(policy, EFFORTS[effort]) if isinstance(effort, str) else policy


def with_sizes(policy: Policy, sizes: dict[str, Any]) -> Policy:
    """Return the policy with these sizes; fields that were replaced before stay as they are."""
    usual = Policy()
    return replace(policy, **{k: v for k, v in sizes.items() if getattr(policy, k) == getattr(usual, k)})


def check_effort(effort: Any) -> None:
    """Refuse an effort that is neither a name, nor a number of seconds, nor None."""
    named = effort is None or (isinstance(effort, str) and effort in EFFORTS)
    if not named:
        names = ", ".join(map(repr, EFFORTS))
        number("effort", effort, above=0, words=f"one of {names}, or a finite number of seconds above 0")


def between(low: dict[str, Any], high: dict[str, Any], share: float) -> dict[str, Any]:
    """Return sizes between two sets of sizes, on a logarithmic scale; a size that is 0 in one of them, as that of
    hidden layers, changes at a share of 1 only.

    >>> between({"draws": 1, "joint_steps": (10, 10)}, {"draws": 4, "joint_steps": (10, 40)}, 0.5)
    {'draws': 2, 'joint_steps': (10, 20)}
    """
    return {name: _between(low[name], high[name], share) for name in high}


def _between(a: Any, b: Any, share: float) -> Any:
    """Return a number between two, or a tuple of such numbers."""
    if isinstance(a, tuple):
        return tuple(_between(x, y, share) for x, y in zip(a, b, strict=True))
    if a == b or share in (0.0, 1.0) or min(a, b) <= 0:
        return b if share == 1 else a
    size = a ** (1 - share) * b**share
    return round(size) if isinstance(a, int) else size


_CURRENT: ContextVar[Policy] = ContextVar("policy", default=Policy())  # noqa: B039, a frozen dataclass


def current_policy() -> Policy:
    """Return the policy that a fit which begins now takes."""
    return _CURRENT.get()


@contextmanager
def policy_context(policy: Policy) -> Iterator[None]:
    """Let fits that begin inside take this policy."""
    token = _CURRENT.set(policy)
    try:
        yield
    finally:
        _CURRENT.reset(token)


Choice = Literal["inputs", "kernels", "variances", "noise", "transform", "shares"]


CHOICES: tuple[Choice, ...] = get_args(Choice)


@dataclass(frozen=True)
class Seen:
    """Ranges of the distinct training rows, in their order, that each kind of choice has seen.

    Where rows are out of memory, they are ranges of the sample that the search is given; a range that goes beyond it is
    that of all rows. `noise` is the noise variance, or the penalty that stands for it.

    Examples
    --------
    >>> seen = Seen().by("kernels", 0, 3).by("noise", 4, 9)
    >>> seen.mask(6)
    array([ True,  True,  True, False,  True,  True])
    >>> seen.mask(6, "noise")
    array([False, False, False, False,  True,  True])
    """

    ranges: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def by(self, choice: Choice, begin: int, end: int) -> "Seen":
        """Return the ranges with one more, which this kind of choice has seen."""
        return self.joined(Seen({choice: ((begin, end),)}))

    def joined(self, other: "Seen") -> "Seen":
        """Return the ranges of both."""
        names = {**self.ranges, **other.ranges}
        both = {name: self.ranges.get(name, ()) + other.ranges.get(name, ()) for name in names}
        return Seen({name: tuple(dict.fromkeys(ranges)) for name, ranges in both.items()})

    def mask(self, n: int, *choices: Choice) -> BoolArray:
        """Return which of n rows any of these kinds of choice has seen; of all kinds, if none is named."""
        mask = np.zeros(n, bool)
        for choice in choices or CHOICES:
            for begin, end in self.ranges.get(choice, ()):
                mask[begin:end] = True
        return mask
