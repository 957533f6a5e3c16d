"""The solve on all rows: by a factor, and by conjugate gradients."""

from unittest import mock

import numpy as np
import pytest
from kernel_rows import kernel_and_rows, solved_exactly

from mlkm.data import plain_rows
from mlkm.model.machine import predict
from mlkm.solve import dual


def test_the_exact_solve_and_its_leave_one_out_are_those_of_refits():
    kernel, rows = kernel_and_rows(n=40, outputs=2)
    fit = dual.solve_dual(kernel, rows, 0.05)
    for i in (0, 7, 39):
        kept = np.delete(np.arange(40), i)
        others = plain_rows(rows.X[kept], rows.Y[kept], rows.weights[kept])
        alone = dual.solve_dual(kernel, others, 0.05 / rows.weights[kept].mean())
        missed = rows.Y[i] - predict(kernel.machine(others.X, alone.alpha, alone.intercept), rows.X[[i]])[0]
        np.testing.assert_allclose(fit.loo_residuals[i], missed, atol=1e-5)  # kernels in float32


def test_the_solve_in_float32_is_that_in_float64(monkeypatch):
    monkeypatch.setattr(dual, "FLOAT64_ROWS", 100)
    kernel, rows = kernel_and_rows(n=700, seed=5)  # more than a strip, and than a block of products
    fit = dual.solve_dual(kernel, rows, 0.3)
    assert fit.single
    K = kernel.matrix(rows.X, rows.X) + np.diag(0.3 / rows.weights)
    alpha, intercept = solved_exactly(K, rows.Y)
    np.testing.assert_allclose(fit.alpha, alpha, atol=1e-5 * np.abs(alpha).max())
    np.testing.assert_allclose(fit.intercept, intercept, atol=1e-5)


def test_conjugate_gradients_reach_the_exact_solve(monkeypatch):
    kernel, rows = kernel_and_rows(n=900, seed=3)
    exact = dual.solve_dual(kernel, rows, 0.3)
    monkeypatch.setattr(dual, "DIRECT_ROWS", 100)
    monkeypatch.setattr(dual, "FLOAT64_ROWS", 100)
    monkeypatch.setattr(dual, "PRECONDITIONER_LANDMARKS", 200)
    near = dual.solve_dual(kernel, rows, 0.3)
    new = np.random.default_rng(4).standard_normal((200, 3))
    f, g = (predict(kernel.machine(rows.X, fit.alpha, fit.intercept), new) for fit in (exact, near))
    assert np.sqrt(np.mean((f - g) ** 2)) < 0.02 * f.std()
    others = plain_rows(rows.X[:788], rows.Y[:788], rows.weights[:788])  # errors are those of the last eighth
    monkeypatch.undo()
    fewer = dual.solve_dual(kernel, others, 0.3 / rows.weights[:788].mean())
    missed = rows.Y[788:] - predict(kernel.machine(others.X, fewer.alpha, fewer.intercept), rows.X[788:])
    np.testing.assert_allclose(near.loo_residuals, missed, atol=0.05 * f.std())


@pytest.mark.parametrize("rows", [1200, 1050])
def test_conjugate_gradients_take_few_steps_where_a_kernel_is_nearly_constant(rows):
    """A wide kernel of large variance, whose leading eigenvector is nearly the constant that directions are held
    against, and leans on the rows left out: its share there was not preconditioned, and fifty steps did not do."""
    rng, n = np.random.default_rng(6), 1200
    X = rng.standard_normal((n, 2))
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    K, ridge = 300 * np.exp(-squares / 200) + np.exp(-2 * squares), np.full(n, 0.2)
    Y = np.sin(3 * X[:, :1]) + 0.3 * X[:, 1:] + 0.4 * rng.standard_normal((n, 1))
    upper = ((slice(at, at + 100), K[at : at + 100, at:].astype(np.float32)) for at in range(0, n, 100))
    system = dual.System.of(dual.Strips.of(upper, ridge), ridge)
    with mock.patch.object(dual, "CONJUGATE_STEPS", 25):
        solved = system.solve(Y, (rows,))
    assert solved is not None
    alpha, shift, residual = solved[0]
    exact, intercept = solved_exactly(K[:rows, :rows] + np.diag(ridge[:rows]), Y[:rows])
    fit, missed = K[:, :rows] @ exact + intercept, residual - shift
    np.testing.assert_allclose(K @ alpha + shift, fit, atol=0.05 * fit.std())
    np.testing.assert_allclose(missed[rows:], Y[rows:] - fit[rows:], atol=0.05 * fit.std())
    assert not alpha[rows:].any()


def test_where_gradients_do_not_arrive_a_factor_does(monkeypatch):
    kernel, rows = kernel_and_rows(n=300, seed=3)
    monkeypatch.setattr(dual, "FLOAT64_ROWS", 100)
    exact = dual.solve_dual(kernel, rows, 0.3)
    monkeypatch.setattr(dual, "DIRECT_ROWS", 100)
    monkeypatch.setattr(dual, "CONJUGATE_STEPS", 1)
    found = dual.solve_dual(kernel, rows, 0.3)
    np.testing.assert_allclose(found.alpha, exact.alpha, rtol=1e-6, atol=1e-9)


def test_a_preconditioner_of_rounded_rows():
    """Some rows far out make the rounding of float32 larger than the least eigenvalues of the others."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2)) * np.where(np.arange(400) < 5, 300.0, 1.0)[:, None]
    K, ridge = (X @ X.T + 1e-3 * np.ones((400, 400))).astype(np.float32), np.full(400, 0.1)
    K += (1e-2 * rng.standard_normal((400, 400))).astype(np.float32)
    rows = (K + K.T)[:200] / 2
    rows[np.diag_indices(200)] += 0.1
    found = dual.preconditioner(rows.copy(), ridge)
    assert np.isfinite(found.U).all()
    assert (found.stiffness > 0).all()
