"""What each lever of the default is worth: the default with one lever switched off at a time.

A lever is an argument of the public constructor, or a field of the policy (`mlkm.search.policy`). To add one, write a
line in LEVERS, with a label that completes "without":

    "one-search": policy("second search", draws=1),
"""

from dataclasses import replace
from functools import partial
from typing import Any

from mlkm import MLKMRegressor
from mlkm.search.policy import Policy, policy_context

from . import real, simulations
from .models import OURS, Model
from .problem import Problem

REAL = ["uci_evans/concrete", "uci_evans/airfoil", "single/abalone", "gal_splits/kin8nm", "uci_evans/pumadyn32nm"]
SIMULATED = ["example2 d=32", "example3 mix normal d=10"]
SETS = REAL + SIMULATED


def load(name: str, repetition: int) -> Problem | None:
    return simulations.load(name, repetition) if name in simulations.BY_NAME else real.load(name, repetition)


def arguments(label: str, **options: Any) -> Model:
    """The default with some arguments of the constructor given."""

    def build(seed: int, threads: int) -> Any:
        return MLKMRegressor(random_state=seed, **options)

    return Model(label, build, ours=True)


def policy(label: str, **fields: Any) -> Model:
    """The default with some fields of its policy replaced."""
    return Model(label, OURS["mlkm"].build, ours=True, around=partial(policy_context, replace(Policy(), **fields)))


LEVERS = {
    "default": arguments("the default"),
    "no-relevance": arguments("relevance: one scale for all inputs", relevance=False),
    "full-only": arguments("kernels of single inputs and the rough one: features of full order", interactions="full"),
    "additive-only": arguments("full order and the rough kernel: features of single inputs", interactions=1),
    "no-linear": arguments("linear term", linear=False),
    "matern": arguments("Gaussian kernel: Matern features instead", kernels="matern"),
    "laplacian": arguments("Gaussian kernel: Laplacian features instead", kernels="laplacian"),
    "features": Model("kernels: features of the same kernel (RandomFeatureRidge)", OURS["rfr"].build, ours=True),
    "landmarks": policy("all rows: features and landmarks instead", kernel_rows=(0, 0)),
    "fixed-penalty": arguments("noise by leave-one-out: features with penalty 1e-4 instead", penalty=1e-4),
    "two-layers": arguments("single layer: hidden units trained by projection instead", widths=(600, 16)),
    "one-search": policy("second search", draws=1),
    "no-turning": policy("directions that turn", most_turned=0),
    "as-learned": policy("variances by leave-one-out", variance_steps=0),
    "alone": policy("ridge and the mean beside few rows", stack_rows=0),
    "all-inputs": policy("choice of inputs", none_dropped=10**6),
}
