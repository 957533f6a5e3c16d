"""Products of a kernel matrix that is not stored: by pairs of blocks of rows."""

import numpy as np
import pytest
from kernel_rows import kernel_and_rows, solved_exactly

from mlkm.data import plain_rows
from mlkm.model.machine import predict
from mlkm.runtime import resources as _threads
from mlkm.solve import dual
from mlkm.solve.dual_matrix import Pairs, Strips, code_blocks, product_of_pairs


def uneven_blocks(codes, ends):
    """Return codes in blocks of any sizes."""
    return [[of_term[a:b] for of_term in codes] for a, b in zip((0, *ends), ends, strict=False)]


@pytest.fixture
def by_pairs(monkeypatch):
    """Every solve by conjugate gradients on pairs of uneven blocks."""
    monkeypatch.setattr(dual, "DIRECT_ROWS", 100)
    monkeypatch.setattr(dual, "FLOAT64_ROWS", 100)
    monkeypatch.setattr(dual, "STORED_BYTES", 0)
    monkeypatch.setattr(dual, "PRECONDITIONER_LANDMARKS", 200)
    monkeypatch.setattr(dual, "code_blocks", lambda codes: code_blocks(codes, 170))
    return monkeypatch


def _dense(kernel, rows, ridge):
    return kernel.matrix(rows.X, rows.X) + np.diag(ridge)


@pytest.mark.parametrize("ends", [(700,), (1, 700), (130, 131, 400, 699, 700), tuple(range(100, 701, 100))])
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_product_by_pairs_is_the_dense_one(ends, outputs):
    kernel, rows = kernel_and_rows(n=700, seed=2)
    ridge, codes = 0.3 / rows.weights, kernel.codes(rows.X.astype(np.float32))
    V = np.random.default_rng(1).standard_normal((700, outputs))
    K = _dense(kernel, rows, ridge)
    found = Pairs(kernel, uneven_blocks(codes, ends), ridge).product(V)
    np.testing.assert_allclose(found, K @ V, atol=3e-6 * np.abs(K).sum(axis=1).max())


def test_sums_do_not_depend_on_threads(monkeypatch):
    """Half of the pairs are summed by each of two threads, and so they are on one."""
    kernel, rows = kernel_and_rows(n=500, seed=2)
    matrix = Pairs(kernel, code_blocks(kernel.codes(rows.X.astype(np.float32)), 90), np.ones(500))
    V, products = np.random.default_rng(1).standard_normal((500, 2)), []
    for allowed in (1, 2):
        monkeypatch.setattr(_threads, "blas_threads", lambda n=allowed: n)
        products.append(matrix.product(V))
    np.testing.assert_array_equal(*products)


def test_pairs_that_are_kept_give_the_same_products():
    kernel, rows = kernel_and_rows(n=500, seed=2)
    parts = code_blocks(kernel.codes(rows.X.astype(np.float32)), 90)
    V, ridge = np.random.default_rng(1).standard_normal((500, 2)), np.ones(500)
    expected = Pairs(kernel, parts, ridge).product(V)
    for room, n_kept in ((4 * 90**2 * 11, 11), (1e9, 21)):  # 6 blocks have 21 pairs
        some = Pairs(kernel, parts, ridge, room)
        for _ in range(2):
            np.testing.assert_array_equal(some.product(V), expected)
            assert n_kept - 1 <= len(some.kept) <= n_kept


def test_a_pair_gives_to_both_of_its_blocks():
    kernel, rows = kernel_and_rows(n=400, seed=4)
    a, b = (kernel.codes(rows.X[at].astype(np.float32)) for at in (slice(0, 150), slice(150, 400)))
    V = np.random.default_rng(1).standard_normal((400, 2)).astype(np.float32)
    K = kernel.apart(kernel.codes(rows.X[:150]), kernel.codes(rows.X[150:]), np.float64)
    of_a, of_b = np.split(product_of_pairs(kernel, [a, b], V, [(0, 1)]), [150])
    size = 3e-6 * max(np.abs(K).sum(axis=1).max(), np.abs(K).sum(axis=0).max())
    np.testing.assert_allclose(of_a, K @ V[150:], atol=size)
    np.testing.assert_allclose(of_b, K.T @ V[:150], atol=size)


def test_the_first_rows_are_those_of_strips():
    kernel, rows = kernel_and_rows(n=600, seed=5)
    X, ridge = rows.X.astype(np.float32), 0.2 / rows.weights
    stored = Strips.of(kernel.strips(X), ridge)
    pairs = Pairs(kernel, uneven_blocks(kernel.codes(X), (100, 190, 600)), ridge)
    for m in (50, 100, 333, 1000):
        first = stored.first_rows(m)
        np.testing.assert_allclose(pairs.first_rows(m), first, atol=1e-5 * np.abs(first).max())


def test_gradients_by_pairs_reach_the_exact_solve(by_pairs):
    kernel, rows = kernel_and_rows(n=900, seed=3, outputs=2)
    near = dual.solve_dual(kernel, rows, 0.3)
    assert near.single
    alpha, intercept = solved_exactly(_dense(kernel, rows, 0.3 / rows.weights), rows.Y)
    f, g = (
        predict(kernel.machine(rows.X, *fit), np.random.default_rng(4).standard_normal((200, 3)))
        for fit in ((alpha, intercept), (near.alpha, near.intercept))
    )
    assert np.sqrt(np.mean((f - g) ** 2)) < 0.02 * f.std()
    np.testing.assert_allclose(near.alpha, alpha, atol=0.05 * np.abs(alpha).max())
    by_pairs.setattr(dual, "CONJUGATE_TOLERANCE", 1e-4)
    np.testing.assert_allclose(dual.solve_dual(kernel, rows, 0.3).alpha, alpha, atol=1e-3 * np.abs(alpha).max())


def test_gradients_by_pairs_are_those_by_strips(by_pairs):
    by_pairs.setattr(dual, "CONJUGATE_TOLERANCE", 1e-4)  # far on, since by pairs both solves begin at zero
    kernel, rows = kernel_and_rows(n=900, seed=3)
    by_blocks = dual.solve_dual(kernel, rows, 0.3)
    by_pairs.setattr(dual, "STORED_BYTES", 1e9)
    stored = dual.solve_dual(kernel, rows, 0.3)
    np.testing.assert_allclose(by_blocks.alpha, stored.alpha, atol=1e-3 * np.abs(stored.alpha).max())
    np.testing.assert_allclose(
        by_blocks.loo_residuals, stored.loo_residuals, atol=1e-3 * np.abs(stored.loo_residuals).max()
    )


def test_errors_by_pairs_are_those_of_a_fit_without_the_last_rows(by_pairs):
    kernel, rows = kernel_and_rows(n=900, seed=3)
    near = dual.solve_dual(kernel, rows, 0.3)
    by_pairs.undo()
    others = plain_rows(rows.X[:788], rows.Y[:788], rows.weights[:788])  # errors are those of the last eighth
    fewer = dual.solve_dual(kernel, others, 0.3 / rows.weights[:788].mean())
    f = predict(kernel.machine(others.X, fewer.alpha, fewer.intercept), rows.X[788:])
    np.testing.assert_allclose(near.loo_residuals, rows.Y[788:] - f, atol=0.05 * f.std())


def test_where_many_rows_do_not_arrive_the_last_step_is_what_there_is(by_pairs):
    """Its errors at rows left out are those of what was reached without them, and more steps lead on to the fit."""
    kernel, rows = kernel_and_rows(n=1500, seed=3)
    by_pairs.setattr(dual, "FACTOR_ROWS", 1000)
    by_pairs.setattr(dual, "CONJUGATE_TOLERANCE", 0.0)
    alpha, intercept = solved_exactly(_dense(kernel, rows, 0.3 / rows.weights), rows.Y)
    f = predict(kernel.machine(rows.X, alpha, intercept), rows.X)
    missing = []
    for steps in (1, 3, 9):
        by_pairs.setattr(dual, "CONJUGATE_STEPS", steps)
        found = dual.solve_dual(kernel, rows, 0.3)
        g = predict(kernel.machine(rows.X, found.alpha, found.intercept), rows.X)
        missing.append(np.sqrt(np.mean((f - g) ** 2)) / f.std())
    assert missing[1] < 0.5 * missing[0]
    assert missing[2] < 0.5 * missing[1]
    K, kept = _dense(kernel, rows, 0.3 / rows.weights), len(rows) - len(found.loo_residuals)
    alone, shift = solved_exactly(K[:kept, :kept], rows.Y[:kept])
    np.testing.assert_allclose(
        found.loo_residuals, rows.Y[kept:] - K[kept:, :kept] @ alone - shift, atol=0.05 * f.std()
    )


def test_many_rows_with_next_to_no_noise_are_all_solved_on(by_pairs):
    """With as much of it as float32 needs, where a factor in float64 would take few of them."""
    kernel, rows = kernel_and_rows(n=1200, seed=3)
    by_pairs.setattr(dual, "FLOAT64_FACTOR_ROWS", 300)
    assert len(dual.solvable_rows(kernel, rows, 1e-9)) == 300
    by_pairs.setattr(dual, "FACTOR_ROWS", 1000)
    assert len(dual.solvable_rows(kernel, rows, 1e-9)) == 1200
    found = dual.solve_dual(kernel, rows, 1e-9)
    least = 1e-4 * np.mean(kernel.diagonal(rows.X[:200]))
    alpha, intercept = solved_exactly(_dense(kernel, rows, np.full(1200, least)), rows.Y)
    f, g = (
        predict(kernel.machine(rows.X, *fit), rows.X) for fit in ((alpha, intercept), (found.alpha, found.intercept))
    )
    assert found.single
    assert np.sqrt(np.mean((f - g) ** 2)) < 0.02 * f.std()


def test_landmarks_grow_with_the_rows_up_to_a_gigabyte():
    assert dual.landmarks(5000) == dual.landmarks(20_000) == dual.PRECONDITIONER_LANDMARKS
    assert dual.landmarks(40_000) == 2 * dual.PRECONDITIONER_LANDMARKS
    for n in (10**5, 10**6):
        assert 4 * n * dual.landmarks(n) <= 2**30


def test_pairs_on_a_cluster_are_those_here():
    """The threads of dask are cluster enough for the tasks and their sum."""
    pytest.importorskip("dask")
    from dataclasses import replace

    from mlkm.data.dask import DaskWorkers

    kernel, rows = kernel_and_rows(150)
    V = np.random.default_rng(0).standard_normal((150, 2))
    pairs = Pairs(kernel, code_blocks(kernel.codes(rows.X.astype(np.float32)), 32), np.ones(150))
    here = pairs.product(V)
    np.testing.assert_allclose(replace(pairs, workers=DaskWorkers()).product(V), here, rtol=1e-5, atol=1e-5)


def test_a_solver_of_kernels_says_up_to_how_many_rows():
    from mlkm import MLKMRegressor
    from mlkm.solve import Kernels

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(500)
    kernels = MLKMRegressor(solver=Kernels(max_rows=500), random_state=0).fit(X, y)
    features = MLKMRegressor(solver=Kernels(max_rows=400), random_state=0).fit(X, y)
    np.testing.assert_array_equal(kernels.predict(X), MLKMRegressor(random_state=0).fit(X, y).predict(X))
    assert kernels.widths_[0] > 500  # a feature of every term at every row
    assert np.abs(features.predict(X) - kernels.predict(X)).max() > 1e-6
    with pytest.raises(ValueError, match="max_rows"):
        MLKMRegressor(solver=Kernels(max_rows=0)).fit(X, y)
