"""Randomness: one stream per purpose."""

from itertools import combinations

import numpy as np
import pytest

from mlkm._seeds import generator, root_seed


@pytest.mark.parametrize(
    "pair", list(combinations([(5,), (5, 1), (5, 2), (6,), (5, 1, 1), (5, 1000, 1), (5, 2000)], 2)), ids=str
)
def test_purposes_have_streams_of_their_own(pair):
    first, second = (generator(*key).random(5) for key in pair)
    assert (first != second).all()


@pytest.mark.parametrize("pair", [((5,), (5, 0)), ((5,), (5, 0, 0)), ((5, 1), (5, 1, 0))], ids=str)
def test_purpose_zero_is_a_purpose(pair):
    """(seed) draws the features of layer 1, (seed, 0, 0) the mini-batches of rotation 0 in epoch 0; (seed, 1) and
    (seed, 1, 0) likewise."""
    first, second = (generator(*key).random(5) for key in pair)
    assert (first != second).all()


def test_seeds_of_every_kind():
    assert root_seed(3) == root_seed(np.int64(3)) == 3
    state = np.random.RandomState(0)
    assert root_seed(state) != root_seed(state)
    assert root_seed(np.random.RandomState(0)) == root_seed(np.random.RandomState(0))
    for bad in (-1, "seed", 2**33):
        with pytest.raises(ValueError, match=r"seed|Seed"):
            root_seed(bad)
