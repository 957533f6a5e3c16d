"""Values that differ by rounding errors alone are tied: for ranks, for merging rows, and for the fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlkm import MLKMRegressor
from mlkm.data import midranks, tie_numbers

values = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=30)


def jittered(X, rng, size=1e-12):
    return X + size * X.std(axis=0) * rng.standard_normal(X.shape)


@given(values, st.integers(0, 2**32 - 1))
def test_ranks_of_ties_are_those_of_exact_ties(x, seed):
    x, rng = np.array(x), np.random.default_rng(seed)
    weights = rng.integers(1, 4, len(x)).astype(float)
    exact, moved = (midranks(z, weights) for z in (x, jittered(x, rng)))
    below = [(weights @ (x < v) + weights @ (x == v) / 2) / weights.sum() for v in x]
    np.testing.assert_allclose(exact[1][exact[2]], below, atol=1e-14)
    np.testing.assert_array_equal(moved[1][moved[2]], exact[1][exact[2]])
    np.testing.assert_array_equal(tie_numbers(jittered(x, rng)), tie_numbers(x))


def test_the_rank_of_a_value_is_continuous_as_it_leaves_a_tie():
    others = np.repeat([0.0, 1.0, 2.0], 10)
    ranks = []
    for gap in np.linspace(0, 4e-9, 2001):
        _, rank, place = midranks(np.append(others, 1 + gap), np.ones(31))
        assert (np.diff(rank) >= -1e-7).all()
        ranks.append(rank[place[-1]])
    assert ranks[0] == pytest.approx(15.5 / 31)
    assert ranks[-1] == pytest.approx(20.5 / 31)
    assert np.abs(np.diff(ranks)).max() < 1e-3


def test_near_values_of_a_long_tail_are_no_ties():
    x = np.exp(np.linspace(-12, 12, 500))  # chains of neighbours that are close relative to the mean deviation
    assert len(np.unique(tie_numbers(x))) == 500
    assert (np.diff(midranks(x, np.ones(500))[1]) > 0).all()


@pytest.mark.parametrize("x", [[1.7e308, -1.7e308, 0.0], [4e-311, 0.0, 1e-310], [2.0], [3.0, 3.0]], ids=str)
def test_extreme_values_have_ranks(x):
    x = np.array(x)
    _, rank, place = midranks(x, np.ones(len(x)))
    np.testing.assert_allclose(rank[place], [((x < v).sum() + (x == v).sum() / 2) / len(x) for v in x])
    assert len(np.unique(tie_numbers(x))) == len(np.unique(x))


@pytest.mark.parametrize("size", [1e-15, 1e-12])
def test_predictions_do_not_depend_on_the_last_digits(size):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 4, 500), rng.integers(0, 3, 500) * 0.1, rng.integers(1, 30, 500)]).astype(
        float
    )
    f = np.where(X[:, 0] == 2, 3, X[:, 0] % 2) + 5 * X[:, 1] + np.log(X[:, 2])
    y = f + 0.1 * rng.standard_normal(500)
    near = jittered(X, rng, size)
    first, second = (MLKMRegressor(random_state=0).fit(Z[:300], y[:300]).predict(Z[300:]) for Z in (X, near))
    error = np.sqrt(np.mean((first - y[300:]) ** 2))
    assert error < 0.13
    assert np.sqrt(np.mean((second - first) ** 2)) < 1e-3 * error
