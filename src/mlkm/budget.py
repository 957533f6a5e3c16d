"""The sizes of a fit that has some seconds: as near to those of "best" as the estimate of its time allows.

Sizes go from those of a fit with next to no time to those of "fast", "balanced" and "best". Where less is wanted than
the least of them takes, the least is what there is: a fit is never refused for its time.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from .auto.policy import EFFORTS, LEAST, Policy, between, with_sizes
from .cost import Cost

_SHARE = 0.8  # of the time that an estimate may take, since it is one
_BETWEEN = 8  # sizes that are tried between two efforts


def within(seconds: float, policy: Policy, cost: Callable[[Policy], Cost]) -> Policy:
    """The last of these sizes that the time allows, but for fields of the policy that were replaced."""
    tried = [with_sizes(policy, sizes) for sizes in _sizes()]
    affordable = [one for one in tried if cost(one).seconds <= _SHARE * seconds]
    return affordable[-1] if affordable else tried[0]


def _sizes() -> list[dict[str, Any]]:
    """From the least to the most."""
    usual, names = Policy(), set(LEAST).union(*EFFORTS.values())
    every = {name: getattr(usual, name) for name in sorted(names)}
    ends = [every | own for own in (LEAST, *EFFORTS.values())]
    steps = [k / _BETWEEN for k in range(_BETWEEN)]
    return [between(a, b, t) for a, b in pairwise(ends) for t in steps] + ends[-1:]
