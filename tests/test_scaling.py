"""Standardised columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlkm.rows.scaling import standardiser


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


@pytest.mark.parametrize("constant", [0.0, 0.1, -7e8, 1e-200])
def test_a_constant_column_is_only_centred(constant):
    X = np.full((30, 1), constant)
    Z = standardiser(X, np.ones(30)).forward(X)
    np.testing.assert_allclose(Z, 0, atol=1e-6)
    assert standardiser(X, np.ones(30)).sd == 1
