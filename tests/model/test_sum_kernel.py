"""The default's kernels: equal ways to compute them, gradients against differences, solves against dense algebra."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_rows import TERMS, kernel_and_rows, searched

from mlkm import MLKMRegressor, RKMRegressor
from mlkm.data import InputRange, plain_rows
from mlkm.data.preparation import stats_of
from mlkm.datasets import make_example1, make_example2
from mlkm.model.kernel_maps import GaussianMap
from mlkm.model.machine import predict
from mlkm.model.sum_kernel import Term
from mlkm.search.evidence import (
    KernelEvidence,
    best_noise,
    convex_weights,
    kernel_variances,
    leave_one_out,
    refined,
    start,
)
from mlkm.search.kernel_search import winsorised
from mlkm.search.policy import Policy, policy_context
from mlkm.solve import dual
from mlkm.solve.stack import StackUncertainty


def close(found, expected, slope, step):
    """Whether a gradient agrees with a central difference, for a function with distances in float32."""
    return abs(found - expected) <= 0.02 * abs(expected) + slope / step


def test_the_ways_to_compute_a_kernel_agree():
    kernel, rows = kernel_and_rows(n=300)
    K = kernel.matrix(rows.X, rows.X)
    np.testing.assert_allclose(K, sum(kernel.matrices(rows.X, rows.X)), rtol=1e-12)
    np.testing.assert_allclose(kernel.gram(rows.X), K, rtol=1e-10)
    np.testing.assert_allclose(kernel.diagonal(rows.X), np.diag(K), rtol=1e-12)
    alpha = np.random.default_rng(1).standard_normal((300, 2))
    machine = kernel.machine(rows.X, alpha, np.array([1.0, -2.0]))
    np.testing.assert_allclose(predict(machine, rows.X[:50]), K[:50] @ alpha + [1.0, -2.0], rtol=1e-9, atol=1e-9)


def test_the_gradient_of_gaussian_features_is_that_of_differences():
    rng = np.random.default_rng(0)
    phi, X, G = (
        GaussianMap(rng.normal(size=(7, 3)), rng.normal(size=(2, 3))),
        rng.normal(size=(5, 3)),
        rng.normal(size=(5, 7)),
    )
    step = 1e-6
    for j, e in enumerate(np.eye(3)):
        slope = (phi.features(X + step * e) - phi.features(X - step * e)) / (2 * step)
        np.testing.assert_allclose(phi.pullback(X, G)[:, j], (G * slope).sum(axis=1), rtol=1e-6, atol=1e-8)


def test_gaussian_features_in_float32_do_not_cancel():
    """Points far from the origin and near each other, in units of the kernel: squares of 1e4 that differ by 1."""
    rng = np.random.default_rng(0)
    points, B = 5 + 0.01 * rng.standard_normal((50, 3)), 30 * np.eye(3)
    points = points.astype(np.float32).astype(np.float64)
    exact = GaussianMap(points, B).features(points)
    rounded = GaussianMap(points.astype(np.float32), B).features(points)
    assert rounded.dtype == np.float32
    np.testing.assert_allclose(rounded, exact, atol=1e-6)
    term = Term(None, GaussianMap(np.zeros((0, 3)), B), 1.0)
    codes = term.codes(points.astype(np.float32))
    np.testing.assert_allclose(term.between(codes, codes, np.dtype(np.float32)), exact, atol=1e-6)


@pytest.mark.parametrize("turned", [False, True])
def test_the_gradient_of_the_joint_evidence_is_that_of_differences(turned):
    _, rows = kernel_and_rows(n=50)
    rng = np.random.default_rng(2)
    begin = start(searched(rows), TERMS)
    begin = refined(begin, TERMS) if turned else begin
    evidence = KernelEvidence(searched(rows), begin, Policy())
    x = evidence.ravel(begin) + 0.2 * rng.standard_normal(len(evidence.ravel(begin)))
    _, gradient = evidence(x)
    step = 1e-3
    for k, e in enumerate(np.eye(len(x))):
        difference = (evidence(x + step * e)[0] - evidence(x - step * e)[0]) / (2 * step)
        assert close(gradient[k], difference, 1e-6, step), k


def test_the_evidence_without_a_laplacian_term_is_that_of_next_to_none():
    """It is left out, and its parameters stay where they are."""
    _, rows = kernel_and_rows(n=50)
    without = start(searched(rows), TERMS, ("additive", "gaussian", "linear"))
    nearly = without | {"laplace": without["laplace"] | {"amplitude": without["laplace"]["amplitude"] + 1e-9}}
    short, long = (KernelEvidence(searched(rows), p, Policy()) for p in (without, nearly))
    assert [term.name for term in short.terms] == ["additive", "gaussian", "linear"]
    assert [term.name for term in long.terms] == ["additive", "gaussian", "laplace", "linear"]
    at = short.ravel(without)
    (value, gradient), (exact, of_exact) = short(at), long(at)
    assert value == pytest.approx(exact, abs=1e-6)
    np.testing.assert_allclose(gradient, of_exact, atol=1e-6)
    assert not any(short.unravel(gradient)["laplace"]["scale"])


def test_the_gradient_of_leave_one_out_is_that_of_differences():
    kernel, rows = kernel_and_rows(n=40, outputs=2)
    matrices = kernel.matrices(rows.X, rows.X)
    objective = leave_one_out(matrices, rows.Y, rows.weights)
    x = np.log([0.5, 1.0, 2.0, 0.3, 0.1])
    _, gradient = objective(x)
    for k, e in enumerate(1e-5 * np.eye(5)):
        np.testing.assert_allclose(
            gradient[k], (objective(x + e)[0] - objective(x - e)[0]) / 2e-5, rtol=1e-5, atol=1e-8
        )


def test_weighing_lowers_leave_one_out_and_the_noise_is_its_minimum():
    kernel, rows = kernel_and_rows(n=80)
    matrices, begin = kernel.matrices(rows.X, rows.X), np.array([0.5, 0.5, 0.5, 0.5, 1.0])
    objective = leave_one_out(matrices, rows.Y, rows.weights)
    found = kernel_variances(matrices, rows.Y, rows.weights, begin, 20)
    assert objective(np.log(found))[0] < objective(np.log(begin))[0]
    K = sum(matrices)
    noise = best_noise(K, rows.Y, rows.weights)
    here, *near = (leave_one_out([K], rows.Y, rows.weights)(np.log([1.0, noise * f]))[0] for f in (1, 0.2, 0.5, 2, 5))
    assert here <= min(near) + 1e-3


@pytest.mark.parametrize("shares", [(1.0, 0.0, 0.0), (0.6, 0.3, 0.1)])
def test_leave_one_out_of_a_stack_is_that_of_its_members(shares):
    kernel, rows = kernel_and_rows(n=30)
    fit = dual.solve_dual(kernel, rows, 0.05)
    machine = kernel.machine(rows.X, fit.alpha, fit.intercept)
    stack = StackUncertainty((machine,), rows, kernel, 0.05, shares, 0.1, np.array([0.2]))
    new = np.random.default_rng(5).standard_normal((4, 3))
    i, weights = 11, rows.weights
    kept = np.delete(np.arange(30), i)
    others = plain_rows(rows.X[kept], rows.Y[kept], weights[kept])
    alone = dual.solve_dual(kernel, others, 0.05 / weights[kept].mean())
    mean = weights[kept] @ rows.Y[kept] / weights[kept].sum()
    centre = weights[kept] @ rows.X[kept] / weights[kept].sum()

    def without(X):
        C = rows.X[kept] - centre
        A = C.T @ (weights[kept][:, None] * C) + 30 * 0.1 * np.eye(3)
        line = mean + (X - centre) @ np.linalg.solve(A, C.T @ (weights[kept][:, None] * (rows.Y[kept] - mean)))
        members = predict(kernel.machine(others.X, alone.alpha, alone.intercept), X), line, np.tile(mean, (len(X), 1))
        return sum(share * member for share, member in zip(shares, members, strict=True))

    np.testing.assert_allclose(stack.left_out_residuals[i], rows.Y[i] - without(rows.X[[i]])[0], atol=1e-5)
    together = sum(member.share * (member.smoother.weights(new) @ rows.Y) for member in stack.members)
    np.testing.assert_allclose(together - stack.left_out_changes(new)[:, i], without(new), atol=1e-5)


def test_hidden_layers_stand_beside_the_kernels(monkeypatch):
    """With the share that rows held out give them, here .3: the average of the machines is the fit, its leave-one-out
    goes on with them, and MLKM and RKM differ."""
    X, y, _ = make_example2(1050, 4, noise=0.3, random_state=0)
    monkeypatch.setattr("mlkm.fit.deep.convex_weights", lambda *_: np.array([0.7, 0.3, 0.0]))
    sizes = {"hidden_steps": 5, "draws": 1, "joint_rows": 400, "first_joint_rows": 200, "variance_rows": 300}
    policy = replace(Policy(), hidden_rows=200, **sizes)
    fits = []
    for Machine in (MLKMRegressor, RKMRegressor):
        with policy_context(policy):
            model = Machine(random_state=0).fit(X, y)
        assert len(model.machines_) == 2
        assert model.fitted_.uncertainty.shares[0] == pytest.approx(0.7)
        fits.append(model.predict(X))
        mean, sd = model.predict(X[:20], return_std=True)
        np.testing.assert_allclose(mean, fits[-1][:20], rtol=1e-6)
        residuals = model.leave_one_out(X, y).residuals[:, 0]
        assert np.mean((y - fits[-1]) ** 2) < np.mean(residuals**2) < 0.3
        assert 0.2 < sd.mean() < 0.6
    assert np.abs(fits[0] - fits[1]).max() > 1e-3


@pytest.mark.parametrize("effort", ["fast", "best"])
def test_efforts(effort):
    X, y, _ = make_example1(300, 4, noise=0.3, random_state=0)
    X_test, _, f = make_example1(500, 4, random_state=1)
    model = MLKMRegressor(effort=effort, random_state=0).fit(X, y)
    assert np.mean((model.predict(X_test) - f) ** 2) < 0.1


def test_convex_weights_are_convex_and_find_the_better_member():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((200, 1))
    members = np.stack([Y + 0.1 * rng.standard_normal(Y.shape), rng.standard_normal(Y.shape), np.zeros_like(Y)])
    found = convex_weights(members, Y, np.ones(200), rng, 20)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    assert found[0] > 0.9


@pytest.mark.parametrize("apart", [0.0, 1e-15, 1e-12, 1e-8, 1e-4])
@pytest.mark.parametrize("noise", [0.0, 1e-8, 0.1])
def test_convex_weights_of_members_that_say_nearly_the_same(apart, noise):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((60, 1))
    one, other = Y + noise * rng.standard_normal(Y.shape), apart * rng.standard_normal(Y.shape)
    found = convex_weights(np.stack([one, one + other, np.zeros_like(Y)]), Y, np.ones(60), rng, 20)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    assert found[:2].sum() > 0.9


@pytest.mark.parametrize("error", [RuntimeError, np.linalg.LinAlgError])
def test_convex_weights_do_not_need_nnls_to_succeed(error, monkeypatch):
    def fails(*_):
        raise error

    rng = np.random.default_rng(0)
    Y = rng.standard_normal((200, 1))
    members = np.stack([Y + 0.5 * rng.standard_normal(Y.shape), 1 + Y, -Y, np.zeros_like(Y)])
    expected = convex_weights(members, Y, np.ones(200), np.random.default_rng(1), 20)
    monkeypatch.setattr("mlkm.search.evidence.nnls", fails)
    found = convex_weights(members, Y, np.ones(200), np.random.default_rng(1), 20)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_targets_are_winsorised():
    y = np.exp(2 * np.random.default_rng(0).standard_normal((500, 1)))
    z = winsorised(y, 3.0)
    assert np.abs(z).max() < 4 < np.abs((y - y.mean()) / y.std()).max()
    np.testing.assert_array_equal(winsorised(np.ones((30, 1)), 3.0), np.ones((30, 1)))


def input_range(X):
    return InputRange.from_ends(stats_of(X, np.ones(len(X))).ends, winsorise=True)


def test_input_ranges_winsorise_an_outlying_cell_and_leave_others_alone():
    X = np.random.default_rng(0).standard_normal((130, 2))
    limits = input_range(X)
    np.testing.assert_array_equal(limits.clip(X), X)
    far = X.copy()
    far[3, 0] = 1e4
    assert input_range(far).high[0] < 100
    rare = np.zeros((50, 1))
    rare[7] = 1  # the only one of its kind is no outlier
    assert input_range(rare).high[0] == 1


def test_one_outlying_cell_does_not_carry_predictions_away():
    rng = np.random.default_rng(1)
    X, new = rng.standard_normal((130, 3)), rng.standard_normal((500, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(130)
    far = X.copy()
    far[5, 2] = 1e4
    truth = np.sin(2 * new[:, 0]) + new[:, 1]
    errors = [np.sqrt(np.mean((MLKMRegressor().fit(Z, y).predict(new) - truth) ** 2)) for Z in (X, far)]
    assert errors[1] < 2 * errors[0] + 0.05


def test_predictions_far_outside_stay_calm_and_outside_tells():
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, (40, 1))
    model = MLKMRegressor().fit(X, np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(40))
    assert np.abs(model.predict([[1e6], [-1e6], [30.0]])).max() < 3
    low, high = X.min(), X.max()
    np.testing.assert_allclose(model.outside([[0.0], [high + (high - low)]]), [0.0, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), [(10, 1), (30, 5), (100, 10)])
def test_pure_noise_is_predicted_about_as_well_as_by_the_mean(n, d):
    """The mean of eight draws: a single one of ten rows may be 10 % off by chance."""
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y, new = rng.standard_normal((n, d)), rng.standard_normal(n), rng.standard_normal((400, d))
        f = MLKMRegressor(random_state=seed).fit(X, y).predict(new)
        ratios.append((1 + np.mean(f**2)) / (1 + y.mean() ** 2))
    assert np.sqrt(np.mean(ratios)) < 1.1


@pytest.mark.slow
def test_the_error_of_a_search_among_many_inputs_is_honest():
    """30 rows of 1000 inputs: leave-one-out after the search was 1e-7 where the true error was .018."""
    rng = np.random.default_rng(3)
    X, new = rng.standard_normal((30, 1000)), rng.standard_normal((400, 1000))
    model = MLKMRegressor().fit(X, X[:, 0] + 0.1 * rng.standard_normal(30))
    true = np.mean((model.predict(new) - new[:, 0]) ** 2) + 0.01
    assert 0.3 < model.loo_error_ / true < 3
    std = model.predict(new, return_std=True)[1]
    assert 0.3 < np.mean(std**2) / true < 4


def test_efforts_are_names():
    X = np.random.default_rng(0).standard_normal((60, 2))
    for effort in ("fast", "balanced", "best"):
        assert MLKMRegressor(effort=effort).fit(X, X[:, 0]).score(X, X[:, 0]) > 0.99
    with pytest.raises(
        ValueError, match=r"effort must be one of 'fast', 'balanced', 'best', or .* seconds above 0; got 'quick'"
    ):
        MLKMRegressor(effort="quick").fit(X, X[:, 0])


def test_a_row_that_was_winsorised_is_the_same_row_later():
    X = np.random.default_rng(0).standard_normal((100, 2))
    X[0, 0] = 1e4
    model = MLKMRegressor(random_state=0).fit(X, X[:, 1])
    assert model.outside(X[:1])[0] > 1
    assert model.leave_one_out(X[:1], X[:1, 1]).place[0] >= 0


def test_standard_deviations_of_few_rows_are_of_the_size_of_the_errors():
    """Over 16 draws of 12 noisy rows: coverage of 95 % intervals at new rows was .39 to .93, now .84 on average."""
    covered = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        X, y = noisy(rng, 12)
        X_test, y_test = noisy(rng, 300)
        mean, sd = MLKMRegressor(random_state=0).fit(X, y).predict(X_test, return_std=True)
        covered.append(np.mean(np.abs(mean - y_test) < 1.96 * sd))
    assert np.mean(covered) > 0.75


def noisy(rng, n):
    X = rng.standard_normal((n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.standard_normal(n)
