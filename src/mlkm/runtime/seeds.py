"""Randomness is explicit: one seed per fit, one child per purpose, so that nothing depends on `n_jobs` or on the number
of rows."""

from enum import IntEnum, unique
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._types import RandomState
from .checks import whole


@unique
class Purpose(IntEnum):
    """The purpose of a stream of random numbers: the first number of its key, so that no two purposes share a
    stream."""

    FEATURES = 0  # of layer 1 at given or chosen scales, and of `RandomFeatures`: the seed's own stream
    DATA = 4  # simulated examples
    LAYERS = 5  # features of layer 2 and above, by layer
    BATCHES = 6  # mini-batches, by rotation and epoch
    WEIGHTS = 7  # initial weights, by rotation
    PARTS = 8  # subsamples of cross-fitting
    FOLDS = 9  # of penalty="cv"
    LEVELS = 10  # folds for means of y at levels
    FINAL = 30  # features of the layer that was learned
    STACK = 31  # bootstraps of the weights of a stack
    QUANTILES = 40  # features of quantile fits
    BOOTSTRAP = 50  # samples, by replicate
    PROJECTION = 60  # combinations of gradients, by pair
    SLICES = 70  # directions of the worst slice
    EFFECTS = 80  # factors of simultaneous bands, and, by background row, orders of columns


def root_seed(random_state: RandomState | Any, name: str = "random_state") -> int:
    """Return the integer from which all randomness of one `fit` is derived.

    An integer `random_state` is used as it is; a `RandomState` is advanced by one draw, as scikit-learn's estimators
    do.
    """
    if random_state is None or isinstance(random_state, np.random.RandomState) or random_state is np.random:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    return whole(name, random_state, 0, 2**32 - 1, ", a RandomState of NumPy or None")


def generator(seed: int, purpose: Purpose, *numbers: int) -> np.random.Generator:
    """Return an independent stream for one purpose and its numbers, such as `(Purpose.BATCHES, rotation, epoch)`."""
    key = () if purpose == Purpose.FEATURES else (int(purpose), *numbers)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
