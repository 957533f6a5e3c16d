"""Standardised columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlkm.data import standardiser


@given(st.integers(0, 10**6), st.floats(-1e6, 1e6), st.floats(1e-3, 1e3))
def test_columns_get_mean_zero_and_variance_one_and_come_back(seed, shift, scale):
    rng = np.random.default_rng(seed)
    X, weights = shift + scale * rng.standard_normal((20, 3)), rng.uniform(0.5, 1.5, 20)
    weights /= weights.mean()
    scaler = standardiser(X, weights)
    Z = scaler.forward(X)
    np.testing.assert_allclose(weights @ Z / 20, 0, atol=1e-5)
    np.testing.assert_allclose(weights @ Z**2 / 20, 1, atol=1e-5)
    np.testing.assert_allclose(scaler.backward(Z), X, rtol=1e-9, atol=1e-9 * scale)


@given(st.integers(0, 10**6), st.sampled_from([1e-300, 1e-170, 1e153, 1e155, 1e300]))
def test_sizes_at_the_ends_of_the_floating_numbers(seed, size):
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, (20, 2))
    X, weights = size * u, np.ones(20)
    np.testing.assert_allclose(
        standardiser(X, weights).forward(X), standardiser(u, weights).forward(u), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("column", [[1.7e308, -1.7e308, 0.0], [1.7e308] * 3, [1.0, 2.0, -1e305]])
def test_sizes_whose_sums_are_no_numbers_are_refused(column):
    with pytest.raises(ValueError, match=r"^Inputs and targets must be of a size up to 1e\+300, .*: rescale it\.$"):
        standardiser(np.array(column)[:, None], np.ones(3))


@given(st.integers(0, 10**6), st.floats(-1e13, 1e13))
def test_a_mean_far_from_zero_costs_no_digits_that_the_data_have(seed, shift):
    x = np.random.default_rng(seed).standard_normal((50, 1))
    X = shift + x
    Z = standardiser(X, np.ones(50)).forward(X)
    np.testing.assert_allclose(Z, (x - x.mean()) / x.std(), atol=8 * np.spacing(abs(shift)) + 1e-9)


@pytest.mark.parametrize("constant", [0.0, 0.1, -7e8, 1e-200, 1e300])
def test_a_constant_column_is_only_centred(constant):
    X = np.full((30, 1), constant)
    scaler = standardiser(X, np.ones(30))
    np.testing.assert_array_equal(scaler.forward(X), 0)
    assert not scaler.rounded.any()
    np.testing.assert_allclose(scaler.backward(np.ones((1, 1))), constant, rtol=1e-13, atol=1e-280)
    assert standardiser(X, np.ones(30), constant=np.inf).sd == np.inf


def test_variation_by_rounding_error_is_none():
    x = np.full(30, 0.3)
    x[::2] = 0.1 + 0.2
    scaler = standardiser(x[:, None], np.ones(30), constant=np.inf)
    assert scaler.rounded.all()
    assert scaler.sd == np.inf
