"""The published method to the letter, as ordinary estimators."""

import tracemalloc

import numpy as np
import pytest
from machines import central_differences
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from mlkm import ConformalRegressor, Geometric, MLKMRegressor, RandomFeatures, RKMRegressor
from mlkm.datasets import make_example1
from mlkm.model.machine import flatten, predict, with_layers
from mlkm.solve import GradientDescent, Ridge, VariableProjection

MACHINES = [MLKMRegressor, RKMRegressor]
WIDTHS = [(7,), (6, 4), (6, 5, 3)]


def problem(n=36, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(1, 2, (n, d))
    return X, 3 + 5 * np.sin(X[:, 0]) + X[:, 1] + rng.standard_normal(n)


def slopes(machine, X, Y, penalty):
    """The gradient of (1/n) |Y - f|^2 + lambda |W|^2, biases free, by central differences: one array per matrix."""
    matrices = flatten(machine.layers)

    def objective(changed):
        errors = (predict(with_layers(machine, changed), X) - Y) ** 2
        return errors.mean() + penalty * sum((W[:-1] ** 2).sum() for W in changed)

    cuts = np.cumsum([W.size for W in matrices])[:-1]
    flat = np.split(central_differences(objective, matrices), cuts)
    return [part.reshape(W.shape) for part, W in zip(flat, matrices, strict=True)]


def by_hand(model, X, y, rates, steps, penalty):
    """One sweep of Algorithm 1 from the initial machines: layer l of rotation j moves on part j + l - 1 alone, on
    centred targets in their own units."""
    from mlkm.data import distinct_rows
    from mlkm.runtime.resources import Purpose, generator
    from mlkm.solve.descent import random_parts

    rows = distinct_rows(X, y[:, None])
    Z, Y = model.x_scaler_.forward(rows.X), rows.Y - y.mean()
    depth = len(model.widths_)
    parts = random_parts(generator(0, Purpose.PARTS), len(Z), depth)
    result = []
    for j, fitted in enumerate(model.machines_):
        rng = generator(0, Purpose.WEIGHTS, j)
        weights = [rng.uniform(-0.25, 0.25, W.shape) for W in flatten(fitted.layers)]
        for W in weights:
            W[-1] = 0
        machine = with_layers(fitted, weights)
        for l in range(depth):
            own = parts[(j + l) % depth]
            for _ in range(steps):
                moving = {id(W) for W in machine.layers[l]}
                gradient = slopes(machine, Z[own], Y[own], penalty)
                moved = [
                    W - rates[l] * G if id(W) in moving else W
                    for W, G in zip(flatten(machine.layers), gradient, strict=True)
                ]
                machine = with_layers(machine, moved)
        result.append(machine)
    return result


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@pytest.mark.parametrize("Machine", MACHINES)
def test_one_sweep_is_that_of_the_paper(Machine, widths, steps):
    """Through the public estimator, for L = 1, 2, 3, with step sizes per layer and several steps per visit."""
    X, y = problem()
    rates = tuple(1e-3 * (l + 1) for l in range(len(widths)))
    solver = GradientDescent(rates, momentum=0.0, max_iter=1, steps=steps, initial=0.25)
    model = Machine.published(widths, scales=0.4, penalty=1e-2, solver=solver, random_state=0).fit(X, y)
    assert len(model.machines_) == len(widths)
    sd = model.y_scaler_.sd
    for machine, expected in zip(model.machines_, by_hand(model, X, y, rates, steps, 1e-2), strict=True):
        matrices = flatten(expected.layers)
        matrices[-1] = matrices[-1] / sd  # machines are kept for targets of variance one
        for W, V in zip(flatten(machine.layers), matrices, strict=True):
            np.testing.assert_allclose(W, V, atol=1e-7)


@pytest.mark.parametrize("Machine", MACHINES)
def test_it_is_algorithm_1_and_nothing_else(Machine):
    """No linear term, no skip, full order, and the features of the given scales in the units of X."""
    X, y = problem(60)
    model = Machine.published((12, 4), (0.7, 1.3), penalty=1e-3, solver=GradientDescent(max_iter=3), random_state=0)
    machine = model.fit(X, y).machines_[0]
    assert not machine.linear
    assert not machine.skip
    phi = RandomFeatures(n_features=12, kernel="gaussian", scale=0.7, random_state=0).fit(X).map_
    np.testing.assert_allclose(machine.maps[0].frequencies / model.x_scaler_.sd[:, None], phi.frequencies)
    np.testing.assert_array_equal(machine.maps[0].phases, phi.phases)
    np.testing.assert_allclose(np.sqrt((machine.maps[1].frequencies ** 2).mean()), 1.3, rtol=0.6)
    assert model.get_params()["solver__target_sd"] == "own"
    assert model.cv == "rotate"


def test_targets_in_their_own_units_take_another_course_than_rescaled_ones():
    X, y = problem(60)
    solver = GradientDescent(1e-3, max_iter=30, tol=0.0)

    def course(unit, **options):
        model = MLKMRegressor.published((12, 4), 0.5, penalty=1e-3, cv=None, random_state=0, **options)
        return model.fit(X, unit * y).predict(X) / unit

    own = [course(unit, solver=solver) for unit in (1.0, 0.1)]
    assert np.abs(own[0] - own[1]).max() > 0.1
    rescaled = [course(unit, solver=clone(solver).set_params(target_sd=12.0)) for unit in (1.0, 0.1)]
    np.testing.assert_allclose(*rescaled, rtol=1e-6)


SETTINGS = GradientDescent(
    (1e-3, 2e-3), 0.5, 16, max_iter=12, tol=1e-3, patience=7, steps=2, initial=(-0.1, 0.3), target_sd="own"
)


@pytest.mark.parametrize("Machine", MACHINES)
def test_all_settings_survive(Machine):
    """clone, GridSearchCV and ConformalRegressor."""
    X, y = problem(60)
    model = Machine.published((8, 3), Geometric(0.2, 2.0), penalty=1e-3, solver=SETTINGS, random_state=0)
    assert clone(model).get_params() == model.get_params()
    assert clone(model).solver == SETTINGS
    search = GridSearchCV(model, {"solver__learning_rate": [1e-3, 1e-5], "penalty": [1e-3]}, cv=2).fit(X, y)
    found = search.best_estimator_.solver
    assert found == clone(SETTINGS).set_params(learning_rate=found.learning_rate)
    band = ConformalRegressor(model, score="absolute", random_state=0).fit(X, y)
    assert band.estimator_.solver == SETTINGS
    np.testing.assert_allclose(band.estimator_.scales_[1], 0.8)


def test_the_given_solver_is_left_alone():
    solver = GradientDescent()
    MLKMRegressor.published((8, 3), solver=solver)
    assert solver.target_sd == "auto"


@pytest.mark.parametrize("solver", [GradientDescent(1e-2, max_iter=40), "ridge"], ids=str)
def test_the_penalty_by_five_fold_cross_validation(solver):
    """That of a grid search over the same folds, but for the folds: errors of both are within chance of each other, and
    a noisy problem takes a larger penalty than one without noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    widths = (30,) if solver == "ridge" else (20, 5)
    chosen = {}
    for noise in (0.0, 5.0):
        y = np.sin(2 * X[:, 0]) + noise * rng.standard_normal(150)
        model = MLKMRegressor(
            widths, "gaussian", 1.0, interactions="full", linear=False, penalty="cv", solver=solver, random_state=0
        )
        chosen[noise] = model.fit(X, y).penalty_
        grid = [10.0**k for k in range(-7, 1)]
        search = GridSearchCV(
            clone(model).set_params(penalty=1.0), {"penalty": grid}, cv=KFold(5), scoring="neg_mean_squared_error"
        ).fit(X, y)
        errors = dict(zip(grid, -search.cv_results_["mean_test_score"], strict=True))
        assert errors[chosen[noise]] < 1.2 * min(errors.values())
    assert chosen[5.0] > chosen[0.0]


def test_the_solver_may_be_named():
    """scikit-learn's clone spoke of an object that is none before."""
    assert MLKMRegressor.published((8, 3), solver="gradient").solver == GradientDescent(target_sd="own")
    for wrong in ("ridge", "sgd", Ridge()):
        with pytest.raises(ValueError, match=r"^Algorithm 1 is solver='gradient' or a GradientDescent.*; got .+\.$"):
            MLKMRegressor.published((8, 3), solver=wrong)


def test_a_name_has_no_settings():
    """An AttributeError of a str before."""
    X, y = problem()
    model = MLKMRegressor((8, 3), solver="gradient")
    with pytest.raises(
        ValueError, match=r"^solver__max_iter is a setting of a solver object, and solver='gradient' is"
    ):
        GridSearchCV(model, {"solver__max_iter": [2]}, cv=2).fit(X, y)
    assert model.set_params(solver=GradientDescent(), solver__max_iter=2).solver.max_iter == 2


def test_cross_validation_needs_five_rows():
    X, y = problem(4)
    with pytest.raises(ValueError, match=r"^penalty='cv' needs at least 5 distinct rows; got n_samples=4\.$"):
        MLKMRegressor.published((4, 2)).fit(X, y)


def test_a_solver_that_cannot_train_the_model_says_so():
    X, y = problem()
    with pytest.raises(ValueError, match=r"^solver=Ridge\(\) trains one layer, and this model has 2 layers: take Var"):
        MLKMRegressor((8, 3), solver=Ridge()).fit(X, y)
    with pytest.raises(ValueError, match=r"^solver=VariableProjection\(\) trains hidden layers, and this model"):
        MLKMRegressor(solver=VariableProjection()).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [128, None])
def test_the_memory_of_descent_does_not_grow_with_the_rows(batch_size):
    """Compare peak memory beyond the fit's copy of the rows, with their weights, copies and given weights."""
    peaks = []
    for n in (20_000, 100_000):
        X, y, _ = make_example1(n, 4, random_state=0)
        solver = GradientDescent(1e-6, batch_size=batch_size, max_iter=1)
        model = MLKMRegressor.published((256, 16), 1.0, penalty=1e-4, cv=None, solver=solver, random_state=0)
        tracemalloc.start()
        model.fit(X, y)
        peaks.append(tracemalloc.get_traced_memory()[1] - 8 * n * (4 + 1 + 3))
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]
