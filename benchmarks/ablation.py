"""What each lever of the default is worth: the default with one lever switched off at a time.

A lever is either an argument of the public constructor or a constant of the package, changed while the fit runs. To add
one, write a line in LEVERS, with a label that completes "without":

    "no-ranks": constants("ranks of inputs", {"mlkm.auto.search:_WORTH_RANKS": np.inf}),
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from mlkm import MLKMRegressor

from . import real, simulations
from .models import OURS, Model
from .problem import Problem

REAL = ["uci_evans/concrete", "uci_evans/airfoil", "single/abalone", "gal_splits/kin8nm", "uci_evans/pumadyn32nm"]
SIMULATED = ["example2 d=32", "example3 mix normal d=10"]
SETS = REAL + SIMULATED


def load(name: str, repetition: int) -> Problem | None:
    return simulations.load(name, repetition) if name in simulations.BY_NAME else real.load(name, repetition)


@contextmanager
def patched(values: dict[str, Any]) -> Iterator[None]:
    """Change constants, named "package.module:NAME", for as long as the context lasts."""
    places = {}
    for place, value in values.items():
        module, name = place.split(":")
        owner = import_module(module)
        if not hasattr(owner, name):
            raise AttributeError(
                f"The lever names {place}, but {module} has no {name}; bring the ablation up to date with the package."
            )
        places[place] = owner, name, getattr(owner, name), value
    try:
        for owner, name, _, value in places.values():
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, old, _ in places.values():
            setattr(owner, name, old)


def arguments(label: str, **options: Any) -> Model:
    """The default with some arguments of the constructor given."""

    def build(seed: int, threads: int) -> Any:
        return MLKMRegressor(random_state=seed, **options)

    return Model(label, build, ours=True)


def constants(label: str, values: dict[str, Any]) -> Model:
    """The default with some constants of the package changed."""
    return Model(label, OURS["mlkm"].build, ours=True, around=partial(patched, values))


def _none(X: np.ndarray, *_: Any) -> np.ndarray:
    return np.zeros(0, dtype=np.intp)


def _no_pairs(*_: Any) -> list[tuple[int, int]]:
    return []


def _never(*_: Any) -> bool:
    return False


LEVERS = {
    "default": arguments("the default"),
    "no-relevance": arguments("relevance: one scale for all inputs", relevance=False),
    "full-only": arguments("orders 1 and 2", interactions="full"),
    "additive-only": arguments("order 2 and full order", interactions=1),
    "no-linear": arguments("linear term", linear=False),
    "matern": arguments("Gaussian kernel: Matern instead", kernels="matern"),
    "laplacian": arguments("Gaussian kernel: Laplacian instead", kernels="laplacian"),
    "no-rough": Model("rough part (RandomFeatureRidge)", OURS["rfr"].build, ours=True),
    "no-ranks": constants("ranks of inputs", {"mlkm.auto.search:_WORTH_RANKS": np.inf}),
    "no-pairs": constants("telling pairs", {"mlkm.auto.search:telling_pairs": _no_pairs}),
    "no-caution": constants("caution with few rows", {"mlkm.fit.train:doubtful": _never}),
    "fixed-penalty": arguments("penalty by leave-one-out: 1e-4 instead", penalty=1e-4),
    "two-layers": arguments("single layer: hidden units trained by projection instead", widths=(600, 16)),
    "no-second-look": constants("second look at inputs in the residuals", {"mlkm.auto.search:missed": _none}),
    "always-wide": constants("width by leave-one-out: always wide", {"mlkm.auto.width:_WORTH_WIDTH": 0.0}),
    "no-rotation": constants("matrix of scales", {"mlkm.auto.search:_MOST_ROTATED": 0}),
}
