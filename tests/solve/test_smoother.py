"""A ridge by features and by its kernel is one smoother; leave-one-out and covariances follow from its weights."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mlkm.data import Block
from mlkm.model.machine import Columns
from mlkm.solve.smoother import (
    Dual,
    Functionals,
    cholesky,
    loo_residuals,
    primal,
    primal_of_rows,
    primal_without_rounding,
)
from mlkm.solve.sums import sums_of_rows
from mlkm.solve.tangent import Flat, InnerProducts, factorised

SIZES = {
    "n": st.integers(3, 30),
    "D": st.integers(1, 12),
    "k": st.integers(1, 3),
    "penalty": st.floats(1e-4, 10.0),
    "seed": st.integers(0, 2**32 - 1),
}


def rows_of(n, D, k, seed):
    """Rows with weights that average to one, some standing for several copies."""
    rng = np.random.default_rng(seed)
    copies = rng.integers(1, 4, n).astype(float)
    X, Y = rng.standard_normal((n, D)) + 2, rng.standard_normal((n, k)) + 3
    return Block(X, Y, copies / copies.mean(), copies), rng.standard_normal((6, D))


def smoothers(rows, penalty):
    """The same ridge by its features and by its kernel."""
    features = Flat(Columns(np.ones(rows.X.shape[1], bool)), rows.X.shape[1])
    noise = rows.counts.sum() * penalty
    dual = Dual(InnerProducts(features), rows.X, rows.Y, noise / rows.counts, noise)
    return primal_of_rows(features, rows, penalty), dual


def dense(rows, penalty, X, counts=None):
    """Predictions by normal equations with an intercept that is not penalised, n being that of all rows."""
    n, counts = rows.counts.sum(), rows.counts if counts is None else counts
    A = np.hstack([rows.X, np.ones((len(rows), 1))])
    damping = n * penalty * np.diag([1.0] * rows.X.shape[1] + [0.0])
    C = np.linalg.solve(A.T @ (counts[:, None] * A) + damping, A.T @ (counts[:, None] * rows.Y))
    return np.hstack([X, np.ones((len(X), 1))]) @ C


@settings(deadline=None)
@given(**SIZES)
def test_primal_and_dual_are_one_smoother(n, D, k, penalty, seed):
    rows, X = rows_of(n, D, k, seed)
    functionals = Functionals(X, np.full((3, 2), 0.5), np.array([[1.0, -1.0, 0.0], [0.0, 1.0, 2.0]]))
    a, b = smoothers(rows, penalty)
    np.testing.assert_allclose(a.predict(X), dense(rows, penalty, X), rtol=1e-7, atol=1e-7)
    for of in (
        lambda s: s.predict(X),
        lambda s: s.leverage(X),
        lambda s: s.weights(X),
        lambda s: s.covariance(functionals),
        lambda s: s.training_leverages,
        lambda s: s.residuals,
        lambda s: s.degrees,
    ):
        np.testing.assert_allclose(of(b), of(a), rtol=1e-7, atol=1e-8)


@settings(deadline=None)
@given(**SIZES)
def test_everything_follows_from_the_weights(n, D, k, penalty, seed):
    """f = W y, h_i = W_ii, tr S, and the variance of f: that of noise, and what the penalty takes for known."""
    rows, X = rows_of(n, D, k, seed)
    for smoother in smoothers(rows, penalty):
        W, S = smoother.weights(X), smoother.weights(rows.X)
        np.testing.assert_allclose(W @ rows.Y, smoother.predict(X), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(W.sum(axis=1), 1, rtol=1e-8)
        np.testing.assert_allclose(np.diag(S), smoother.training_leverages, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(np.trace(S), smoother.degrees, rtol=1e-8)
        each = smoother.covariance(Functionals(X, np.ones((6, 1)), np.eye(6)))
        np.testing.assert_allclose(np.diag(each), smoother.leverage(X), rtol=1e-7, atol=1e-9)


@settings(deadline=None)
@given(n=st.integers(8, 40), D=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_without_penalty_the_covariance_is_that_of_the_weights(n, D, seed):
    """W diag(1 / counts) W' in units of the noise of one copy."""
    rows, X = rows_of(n, D, 1, seed)
    smoother = primal_of_rows(Columns(np.ones(D, bool)), rows, 0.0)
    W = smoother.weights(X)
    covariance = smoother.covariance(Functionals(X, np.ones((6, 1)), np.eye(6)))
    np.testing.assert_allclose(covariance, W / rows.counts @ W.T, rtol=1e-5, atol=1e-7)


@settings(deadline=None, max_examples=30)
@given(**SIZES)
def test_leave_one_out_is_refitting_without_one_copy(n, D, k, penalty, seed):
    rows, _ = rows_of(n, D, k, seed)
    for smoother in smoothers(rows, penalty):
        residuals = loo_residuals(smoother, rows.copies)
        for i in range(n):
            counts = rows.counts.copy()
            counts[i] -= rows.counts[i] / rows.copies[i]
            without = dense(rows, penalty, rows.X[[i]], counts)
            np.testing.assert_allclose(residuals[i], rows.Y[i] - without[0], rtol=1e-6, atol=1e-7)


def test_rounding_directions_carry_no_information():
    """A column twice, and no penalty: the same fit as with the column once."""
    rows, X = rows_of(20, 3, 1, 0)
    twice = Columns(np.ones(4, bool)), Block(np.hstack([rows.X, rows.X[:, :1]]), rows.Y, rows.weights, rows.copies)
    one = primal(Columns(np.ones(3, bool)), sums_of_rows(Columns(np.ones(3, bool)), rows), 0.0)
    two = primal_without_rounding(twice[0], sums_of_rows(*twice), 0.0)
    np.testing.assert_allclose(two.predict(np.hstack([X, X[:, :1]])), one.predict(X), rtol=1e-9)
    assert len(two.R) == 3
    np.testing.assert_allclose(two.degrees, 4)


def test_no_features_are_the_mean():
    rows, X = rows_of(10, 2, 2, 0)
    mean = primal_of_rows(Columns(np.zeros(2, bool)), rows, 0.0)
    np.testing.assert_allclose(mean.predict(X), np.tile(rows.weights @ rows.Y / 10, (6, 1)))
    np.testing.assert_allclose(mean.weights(X), np.tile(rows.weights / 10, (6, 1)))
    assert mean.degrees == 1


def test_the_smaller_matrix_is_factorised():
    features = Flat(Columns(np.ones(12, bool)), 12)
    assert isinstance(factorised(features, rows_of(5, 12, 1, 0)[0], 1e-3), Dual)
    assert not isinstance(factorised(features, rows_of(30, 12, 1, 0)[0], 1e-3), Dual)


def test_a_matrix_that_is_singular_to_rounding_has_a_factor():
    v = np.arange(1.0, 5)
    for A in (np.diag([2.0, 0.0, 1.0]), np.outer(v, v), np.outer(v, v) - 1e-15 * np.eye(4), np.zeros((0, 0))):
        L = cholesky(A)
        np.testing.assert_allclose(L @ L.T, A, atol=1e-12)


def test_leverages_are_in_single_precision_where_that_is_enough(monkeypatch):
    rows, X = rows_of(30, 6, 2, 0)
    features = Flat(Columns(np.ones(6, bool)), 6)
    exact = primal_of_rows(features, rows, 1e-2)
    assert exact.single is None
    monkeypatch.setattr("mlkm.solve.smoother.FLOAT32_FEATURES", 6)
    single = primal_of_rows(features, rows, 1e-2)
    assert single.single.dtype == np.float32
    np.testing.assert_allclose(single.leverage(X), exact.leverage(X), rtol=1e-4)
    np.testing.assert_array_equal(single.predict(X), exact.predict(X))
    monkeypatch.setattr("mlkm.solve.smoother.FLOAT32_LEVERAGE_ERROR", 0.0)
    assert primal_of_rows(features, rows, 1e-2).single is None
    monkeypatch.setattr("mlkm.solve.smoother.FLOAT32_FEATURES", 5)
    monkeypatch.setattr("mlkm.solve.smoother.FLOAT32_LEVERAGE_ERROR", 1.0)
    assert primal_of_rows(features, rows, 1e-2).single is not None
