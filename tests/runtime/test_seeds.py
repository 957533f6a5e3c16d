"""Randomness: one stream per purpose."""

from itertools import combinations

import numpy as np
import pytest

from mlkm.runtime.resources import Purpose, generator, root_seed

KEYS = [
    (5, Purpose.FEATURES),
    (6, Purpose.FEATURES),
    (5, Purpose.LAYERS, 1),
    (5, Purpose.LAYERS, 2),
    (5, Purpose.BATCHES, 0, 0),
    (5, Purpose.BATCHES, 1, 0),
    (5, Purpose.WEIGHTS, 1),
    (5, Purpose.PARTS),
]


@pytest.mark.parametrize("pair", list(combinations(KEYS, 2)), ids=str)
def test_purposes_have_streams_of_their_own(pair):
    first, second = (generator(*key).random(5) for key in pair)
    assert (first != second).all()


def test_seeds_of_every_kind():
    assert root_seed(3) == root_seed(np.int64(3)) == 3
    state = np.random.RandomState(0)
    assert root_seed(state) != root_seed(state)
    assert root_seed(np.random.RandomState(0)) == root_seed(np.random.RandomState(0))
    for bad in (-1, "seed", 2**33):
        with pytest.raises(ValueError, match="random_state must be a whole number from 0"):
            root_seed(bad)


def test_no_two_purposes_share_a_stream():
    """A machine of six layers once drew its fifth layer from the stream of the simulated data."""
    streams = [generator(7, purpose, *numbers) for purpose in Purpose for numbers in ((), (1,), (4,), (4, 3))]
    first = {rng.integers(2**62) for rng in streams}
    assert len(first) == len(streams) - 3  # the seed's own stream has no numbers
