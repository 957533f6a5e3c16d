"""What each lever of the default is worth: the default with one lever switched off at a time.

A lever is an argument of the public constructor, or a field of the policy (`mlkm.auto.policy`). To add one, write a
line in LEVERS, with a label that completes "without":

    "no-ranks": policy("ranks of inputs", worth_ranks=(np.inf, np.inf)),
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mlkm import MLKMRegressor
from mlkm.auto.policy import Policy, policy_context

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
    "full-only": arguments("orders 1 and 2", interactions="full"),
    "additive-only": arguments("order 2 and full order", interactions=1),
    "no-linear": arguments("linear term", linear=False),
    "matern": arguments("Gaussian kernel: Matern instead", kernels="matern"),
    "laplacian": arguments("Gaussian kernel: Laplacian instead", kernels="laplacian"),
    "no-rough": Model("rough part (RandomFeatureRidge)", OURS["rfr"].build, ours=True),
    "no-ranks": policy("ranks of inputs", worth_ranks=(np.inf, np.inf)),
    "no-pairs": policy("telling pairs", most_telling=(0, 0)),
    "no-caution": policy("caution with few rows", enough_rows=0),
    "fixed-penalty": arguments("penalty by leave-one-out: 1e-4 instead", penalty=1e-4),
    "two-layers": arguments("single layer: hidden units trained by projection instead", widths=(600, 16)),
    "no-second-look": policy("second look at inputs in the residuals", residual_chance=(np.inf, np.inf)),
    "always-wide": policy("width by leave-one-out: always wide", worth_width=0.0),
    "no-rotation": policy("matrix of scales", most_rotated=0),
}
