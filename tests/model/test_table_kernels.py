"""Levels and texts in the kernels, and in what is known of a fit without a row."""

import pickle

import numpy as np
import pytest
from kernel_rows import TERMS, moved, solved_exactly
from mixed_table import mixed

from mlkm import MLKMRegressor
from mlkm.data import LEVEL, NUMBER, TEXT, Block, Inputs
from mlkm.model.kernel_maps import LaplaceMap, along_texts, fewer_directions, minus_half_squares
from mlkm.model.machine import predict
from mlkm.model.transforms import fit_rank_transform
from mlkm.search.evidence import KernelEvidence, predicted, refined, start, sum_kernel
from mlkm.search.policy import Policy
from mlkm.search.terms import Additive, Placement, SearchRows
from mlkm.solve.smoother import loo_residuals


def sample_with_levels(n=50, seed=0):
    """Two numbers, two levels and the three coordinates of a text: the rows, and their sample."""
    rng = np.random.default_rng(seed)
    numbers, levels = rng.standard_normal((n, 2)), rng.integers(0, 5, (n, 2)).astype(float)
    X = np.hstack([numbers, levels, rng.standard_normal((n, 3)) / 2])
    inputs = Inputs(np.array([NUMBER, NUMBER, LEVEL, LEVEL, TEXT, TEXT, TEXT]), np.array([0, 1, 2, 3, 3, 3, 3]))
    y = np.sin(X[:, 0]) + (X[:, 2] == 1) * X[:, 1] + 0.2 * rng.standard_normal(n)
    rows = Block(X, y[:, None], np.ones(n), np.ones(n), kinds=inputs)
    ranks = fit_rank_transform(X, rows.weights, inputs.numbers)
    sample = SearchRows(X, ranks.forward(X), rows.Y, rows.weights, inputs.levels, (X[:, 4:],))
    return rows, Placement(inputs, np.arange(4), ranks), sample.with_inputs(np.arange(4))


def parameters(sample, rng):
    return moved(refined(start(sample, TERMS), TERMS), rng)


def test_levels_in_the_kernel_are_what_the_formula_says():
    rows, place, sample = sample_with_levels()
    p = parameters(sample, np.random.default_rng(1))
    p["gaussian"]["turn"] = np.zeros(16)
    kernel = sum_kernel(p, place, TERMS)
    single, full, rough, line = (p[name] for name in ("additive", "gaussian", "laplace", "linear"))
    i, j = 3, 17
    x, z, r, s = rows.X[i], rows.X[j], sample.ranks[i], sample.ranks[j]
    apart = x[2:4] != z[2:4]
    b, gamma, a = np.exp(full["scale"]), np.exp(rough["scale"]), np.exp(2 * single["amplitude"])
    q = Additive(4).frequencies
    waves = a[:2] @ np.cos(np.outer((x[:2] - z[:2]) * np.exp(single["scale"][:2]), q)).mean(axis=1)
    texts = 0.5 * ((x[4:] - z[4:]) ** 2).sum()
    smooth = np.exp(2 * full["amplitude"][0] - 0.5 * ((b[:2] * (x[:2] - z[:2])) ** 2).sum() - b[2:] ** 2 @ apart)
    smooth *= np.exp(-np.exp(2 * full["text"][0]) * texts)
    local = np.exp(2 * rough["amplitude"][0] - gamma[:2] @ np.abs(r[:2] - s[:2]) - gamma[2:] @ apart)
    local *= np.exp(-np.exp(2 * rough["text"][0]) * texts)
    effects = a[2:] @ ~apart
    linear = np.exp(2 * line["slope"][:2]) @ (x[:2] * z[:2]) + np.exp(2 * line["text"][0]) * (x[4:] @ z[4:])
    found = kernel.matrix(rows.X[[i]], rows.X[[j]])[0, 0]
    assert found == pytest.approx(waves + smooth + local + effects + linear, rel=1e-6)


def test_the_ways_to_compute_a_kernel_with_levels_agree():
    rows, place, sample = sample_with_levels(n=300)
    p = parameters(sample, np.random.default_rng(1))
    kernel = sum_kernel(p, place, TERMS)
    K = kernel.matrix(rows.X, rows.X)
    np.testing.assert_allclose(kernel.gram(rows.X), K, rtol=1e-9)
    np.testing.assert_allclose(sum(kernel.matrices(rows.X, rows.X)), K, rtol=1e-10)
    np.testing.assert_allclose(kernel.diagonal(rows.X), np.diag(K), rtol=1e-10)
    alpha = np.random.default_rng(1).standard_normal((300, 1))
    machine = kernel.machine(rows.X, alpha, np.array([1.0]))
    np.testing.assert_allclose(predict(machine, rows.X[:50]), K[:50] @ alpha + 1.0, rtol=1e-8, atol=1e-8)
    K[np.diag_indices(300)] += np.exp(2 * p["noise"]["amplitude"][0])
    fit = predicted(p, sample, sample, TERMS)
    mean = rows.Y.mean(axis=0)
    exact = mean + kernel.matrix(rows.X, rows.X) @ np.linalg.solve(K, rows.Y - mean)
    np.testing.assert_allclose(fit, exact, atol=1e-5)


def test_the_gradient_with_levels_is_that_of_differences():
    _, _, sample = sample_with_levels()
    p = parameters(sample, np.random.default_rng(2))
    turn = p["gaussian"]["turn"].reshape(4, 4)
    turn[2:] = turn[:, 2:] = 0
    evidence = KernelEvidence(sample, p, Policy())
    x, step = evidence.ravel(p), 1e-3
    _, gradient = evidence(x)
    free = [k for k, (low, high) in enumerate(evidence.bounds) if low < high]
    assert len(free) == len(x) - 12  # directions turn among the two numbers only
    for k in free:
        e = step * np.eye(len(x))[k]
        difference = (evidence(x + e)[0] - evidence(x - e)[0]) / (2 * step)
        assert abs(gradient[k] - difference) <= 0.02 * abs(difference) + 1e-3, k


def test_leave_one_out_of_a_table_is_exact():
    frame, y = mixed(80)
    model = MLKMRegressor(random_state=0).fit(frame, y)
    fit = model.fitted_.uncertainty
    rows = fit.rows
    i, kept = 5, np.delete(np.arange(len(rows)), 5)
    ridge = fit.kernel_noise / rows.weights
    K = fit.kernel.matrix(rows.X, rows.X)
    alpha, intercept = solved_exactly((K + np.diag(ridge))[np.ix_(kept, kept)], rows.Y[kept])
    missed = rows.Y[i] - (K[i, kept] @ alpha + intercept)
    np.testing.assert_allclose(loo_residuals(fit.smoother, rows.copies)[i], missed, atol=1e-6)


def test_fewer_directions_of_texts_keep_the_exponent():
    rng = np.random.default_rng(0)
    texts = rng.standard_normal((500, 4)) @ rng.standard_normal((4, 30)) / 10 + 0.001 * rng.standard_normal((500, 30))
    X = np.hstack([np.zeros((500, 2)), texts])
    every = np.hstack([np.zeros((30, 2)), np.diag(rng.uniform(0.5, 2, 30))])
    fewer = fewer_directions(every, X)
    assert len(fewer) <= 4
    whole, less = (
        minus_half_squares(F[:250], F[250:]) for F in (along_texts(T, X, np.float64) for T in (every, fewer))
    )
    assert np.abs(whole - less).mean() < 0.025


@pytest.mark.parametrize("n", [1, 100, 300])
def test_output_is_features_times_weights_and_codes_of_points_are_not_stored(n):
    """Whatever pieces of rows and points it is summed over: 300 rows and 5,000 points are several of both."""
    rng = np.random.default_rng(n)
    phi = LaplaceMap(rng.standard_normal((5000, 3)), np.array([1.0, 0.5, 0.0]))
    X, W, stored = rng.standard_normal((n, 3)), rng.standard_normal((5000, 2)), pickle.dumps(phi)
    np.testing.assert_allclose(phi.output(X, W), phi.features(X) @ W, rtol=1e-10, atol=1e-10)
    assert pickle.dumps(phi) == stored
    np.testing.assert_array_equal(pickle.loads(stored).output(X, W), phi.output(X, W))
