"""Landmarks, ranks, joint maps, the blocked ridge, and depth by variable projection."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import rankdata

from mlkm import MLKMRegressor, RKMRegressor
from mlkm.data import plain_rows
from mlkm.datasets import make_example1, make_example2
from mlkm.kernels import Gaussian
from mlkm.model.draws import draw_features
from mlkm.model.features import JointMap
from mlkm.model.kernel_maps import LaplaceMap
from mlkm.model.machine import Columns, Machine, layer_shapes
from mlkm.model.transforms import fit_rank_transform
from mlkm.solve import VariableProjection
from mlkm.solve.projection import project, reduced_objective
from mlkm.solve.ridge import best_near, ridge, system_of_rows
from mlkm.solve.training_rows import loss, training_rows


def system_of(F, Y, weights=None):
    """Return the ridge system of features that are the inputs themselves."""
    return system_of_rows(Columns(np.ones(F.shape[1], bool)), plain_rows(F, Y, weights))


def maps(d=3, seed=0):
    rng = np.random.default_rng(seed)
    cosines = draw_features(rng, d, 6, Gaussian())
    landmarks = LaplaceMap(rng.normal(size=(5, d)), np.array([0.5, 0.0, 1.5])[:d])
    ranks = fit_rank_transform(rng.normal(size=(50, d)), np.ones(50))
    return {
        "cosines": cosines,
        "landmarks": landmarks,
        "joint": JointMap(((None, cosines), (ranks, landmarks), (ranks, cosines))),
    }


@pytest.mark.parametrize("name", maps())
def test_pullback_is_the_derivative(name):
    phi = maps()[name]
    rng = np.random.default_rng(1)
    X = rng.normal(size=(7, 3)) * 0.7
    G = rng.normal(size=(7, phi.n_features))
    h = 1e-7
    numeric = np.stack(
        [((phi.features(X + h * e) - phi.features(X - h * e)) * G).sum(axis=1) / (2 * h) for e in np.eye(3)], axis=1
    )
    np.testing.assert_allclose(phi.pullback(X, G), numeric, atol=1e-5)


def test_transformed_inputs_are_standardised_ranks():
    x = np.random.default_rng(0).lognormal(size=(200, 1))
    z = fit_rank_transform(x, np.ones(200)).forward(x)
    assert abs(z.mean()) < 1e-3
    assert z.std() == pytest.approx(1, abs=1e-2)
    np.testing.assert_array_equal(rankdata(z), rankdata(x))


def test_a_weight_in_ranks_is_a_repetition():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(30, 2)), rng.integers(1, 4, 30)
    weighted, repeated = (
        fit_rank_transform(X, weights.astype(float)),
        fit_rank_transform(np.repeat(X, weights, axis=0), np.ones(weights.sum())),
    )
    np.testing.assert_allclose(weighted.forward(X), repeated.forward(X))


def test_blocked_ridge_is_ridge():
    """The same solution and leave-one-out errors, over block borders, with weights, two outputs and features far from
    zero."""
    rng = np.random.default_rng(0)
    n, D = 5000, 20
    F, Y = rng.normal(size=(n, D)) + 3, rng.normal(size=(n, 2))
    weights = rng.uniform(0.5, 2, n)
    weights /= weights.mean()
    exact = ridge(F, Y, weights, 1e-3)
    blocked = system_of(F, Y, weights).fit(1e-3)
    np.testing.assert_allclose(blocked.coefficients, exact.coefficients, atol=1e-10)
    np.testing.assert_allclose(blocked.intercept, exact.intercept, atol=1e-10)
    np.testing.assert_allclose(blocked.loo_residuals, exact.loo_residuals[-1000:], atol=1e-8)


def valleys(seed=0, n=900):
    """Features of which a few carry a strong signal and many a weak one: leave-one-out has a flat stretch between."""
    rng = np.random.default_rng(seed)
    F = np.hstack([rng.normal(size=(n, 3)), 1e-3 * rng.normal(size=(n, 60))])
    return F, F[:, [0]] + 4e2 * F[:, 3:] @ rng.normal(size=(60, 1)) / 8 + rng.normal(size=(n, 1))


@pytest.mark.parametrize("seed", range(3))
def test_the_penalty_is_the_global_minimum(seed):
    """Over sixteen decades no penalty has a lower leave-one-out error, by more than what the tie-break allows (0.01 %
    per decade), in one decomposition, in blocks, and in blocks with more features than are decomposed at once."""
    F, Y = valleys(seed)
    grid = np.logspace(-14, 2, 300)
    errors = np.array([ridge(F, Y, None, penalty).loo_error[0] for penalty in grid])
    assert ridge(F, Y).loo_error[0] < errors.min() * (1 + 16e-4)
    blocked = system_of(F, Y).fit(None)
    left_out = np.array([system_of(F, Y).fit(penalty).loo_error[0] for penalty in grid])
    assert blocked.loo_error[0] < left_out.min() * (1 + 16e-4)


def test_the_penalty_is_one_that_products_of_low_precision_can_be_solved_at():
    """An eigenvalue that rounding made negative, where leave-one-out asks for no penalty at all."""
    rng = np.random.default_rng(0)
    F = rng.normal(size=(400, 6))
    Y = F.sum(axis=1, keepdims=True)
    system = system_of(F, Y)
    values, V = np.linalg.eigh(system.FF)
    values[0] = -1e-3
    broken = replace(system, FF=(V * values) @ V.T)
    assert broken.solve(1e-9) is None
    fit = broken.fit(None)
    assert fit.penalty >= 1e-3 / 400
    assert np.isfinite(fit.coefficients).all()


def test_a_path_is_its_solutions():
    F, Y = valleys()
    system = system_of(F, Y)
    for penalty in (1e-9, 1e-5, 1e-2, 1.0):
        assert system.error_on_path(penalty) == pytest.approx(float(system.solve(penalty).loo_error.sum()), rel=1e-8)


def test_many_features_take_the_guess_of_a_part(monkeypatch):
    F, Y = valleys()
    whole = system_of(F, Y).fit(None)
    monkeypatch.setattr("mlkm.solve.ridge.PATH_FEATURES", 25)
    guessed = system_of(F, Y).fit(None)
    assert guessed.loo_error[0] < 1.01 * whole.loo_error[0]


@pytest.mark.parametrize("guess", [1e-7, 1.0, 1e5])
def test_a_valley_is_found_from_either_side(guess):
    """log(x)^2 from far away, and infinite below 1e-3: the parabola through the bracket meets it exactly."""
    found = best_near(guess, lambda x: np.exp(0.01 * np.log(x) ** 2) if x > 1e-3 else np.inf)
    assert abs(np.log(found)) < 0.01


def test_leave_one_out_leaves_out_all_copies():
    """A row of weight two is predicted without it, as in a fit to the others with the same total penalty and origin."""
    rng = np.random.default_rng(0)
    F, Y = rng.normal(size=(20, 5)), rng.normal(size=(20, 1))
    weights = np.ones(20)
    weights[3] = 2
    weights /= weights.mean()
    centred = np.hstack([F - weights @ F / 20, np.ones((20, 1))])
    shifted = np.delete(centred, 3, axis=0)
    damping = np.diag([20 * 0.1] * 5 + [0.0])
    others = np.delete(weights, 3)
    solution = np.linalg.solve(
        shifted.T @ (others[:, None] * shifted) + damping, shifted.T @ (others[:, None] * np.delete(Y, 3, axis=0))
    )
    predicted = centred[3] @ solution
    assert ridge(F, Y, weights, 0.1).loo_residuals[3, 0] == pytest.approx(Y[3, 0] - predicted[0], rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("Machine", [MLKMRegressor, RKMRegressor])
@pytest.mark.parametrize("cv", [None, "rotate"])
def test_depth_by_projection(Machine, cv):
    """Two layers trained by variable projection, or by exact sweeps on rotated subsamples, fit Example 2 well in
    seconds."""
    X, y, _ = make_example2(600, 4, noise=0.3, random_state=0)
    X_test, _, f = make_example2(1000, 4, noise=0.3, random_state=1)
    model = Machine(widths=(100, 8), cv=cv, random_state=0).fit(X, y)
    assert np.mean((model.predict(X_test) - f) ** 2) < 0.1
    assert len(model.machines_) == (1 if cv is None else 2)
    assert model.n_iter_ >= 1


def test_projection_returns_its_best_iterate():
    """The machine returned has the smallest held-out error of the run, which is smaller than that of the start."""
    X, y, _ = make_example2(300, 4, noise=0.1, random_state=0)
    X, Y = (X - X.mean(axis=0)) / X.std(axis=0), ((y - y.mean()) / y.std())[:, None]
    rng = np.random.default_rng(0)
    maps = draw_features(rng, 4, 60, Gaussian(), 0.5), draw_features(rng, 6, 6, Gaussian(), 0.5)
    layers = tuple(tuple(rng.normal(size=shape) for shape in layer) for layer in layer_shapes(maps, 1))
    data = training_rows(plain_rows(X, Y), maps[0])
    held_out = np.arange(0, 300, 5)
    best, errors = project(Machine(maps, layers), data, held_out, 1e-5, 1e-6, 60)
    assert loss(best, data.take(held_out)) == pytest.approx(min(errors), rel=1e-12)
    assert min(errors) < 0.9 * errors[0]


@pytest.mark.parametrize("residual", [False, True])
def test_the_reduced_objective_in_blocks(residual):
    """Value and gradient are those of one block, with phi_1 kept or computed anew, and the gradient is that of finite
    differences."""
    rng = np.random.default_rng(0)
    X, Y, weights = rng.normal(size=(40, 3)), rng.normal(size=(40, 2)), rng.uniform(0.5, 2, 40)
    weights /= weights.mean()
    maps = draw_features(rng, 3, 12, Gaussian()), draw_features(rng, 4, 4, Gaussian())
    shapes = layer_shapes(maps, 2, residual, skip=True, linear=True)
    machine = Machine(
        maps, tuple(tuple(rng.normal(size=shape) for shape in layer) for layer in shapes), residual, True, True
    )
    hidden = np.concatenate([W.ravel() for layer in machine.layers[:-1] for W in layer])
    rows = plain_rows(X, Y, weights)
    kept = training_rows(rows, maps[0])
    anew = replace(kept, first=None, block=7)
    assert kept.first is not None
    value, gradient = reduced_objective(machine, kept, 1e-2, 1e-3)(hidden)
    objective = reduced_objective(machine, anew, 1e-2, 1e-3)
    assert objective(hidden)[0] == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(objective(hidden)[1], gradient, rtol=1e-6, atol=1e-9)
    for direction in rng.normal(size=(3, len(hidden))):
        slope = (objective(hidden + 1e-5 * direction)[0] - objective(hidden - 1e-5 * direction)[0]) / 2e-5
        assert slope == pytest.approx(gradient @ direction, rel=1e-5, abs=1e-7)


def test_depth_goes_on_with_more_rows():
    """Beyond the rows that begin the training, hidden layers go on in blocks and the last layer sees every row."""
    X, y, _ = make_example2(2500, 4, noise=0.3, random_state=0)
    X_test, _, f = make_example2(1000, 4, noise=0.3, random_state=1)
    solver = VariableProjection(max_iter=20, max_rows=500)
    model = MLKMRegressor(widths=(100, 8), solver=solver, random_state=0).fit(X, y)
    assert model.n_iter_ > 20
    assert np.mean((model.predict(X_test) - f) ** 2) < 0.03


def test_the_result_does_not_depend_on_n_jobs_with_exact_sweeps():
    X, y, _ = make_example1(200, 4, random_state=0)
    one, two = (
        MLKMRegressor(widths=(40, 5), cv="rotate", n_jobs=n, random_state=0).fit(X, y).predict(X) for n in (1, 2)
    )
    np.testing.assert_allclose(one, two, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("Machine", [MLKMRegressor, RKMRegressor])
def test_depth_from_a_few_rows(Machine, n):
    X, y, _ = make_example2(n, 4, random_state=0)
    assert np.isfinite(Machine(widths=(8, 4), random_state=0).fit(X, y).predict(X)).all()
