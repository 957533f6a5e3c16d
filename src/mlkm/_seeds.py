"""Randomness is explicit: one seed per fit, one child per purpose, so that nothing depends on `n_jobs` or on the number
of rows."""

import numpy as np
from sklearn.utils import check_random_state

from ._types import RandomState


def root_seed(random_state: RandomState) -> int:
    """The integer all randomness of one `fit` derives from.

    An integer `random_state` is used as it is; a `RandomState` is advanced by one draw, as scikit-learn's estimators
    do.
    """
    if isinstance(random_state, (int, np.integer)):
        check_random_state(int(random_state))  # scikit-learn's message for a seed out of range
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def generator(seed: int, *purpose: int) -> np.random.Generator:
    """An independent stream for one purpose, such as `(layer, rotation)`."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=purpose))
