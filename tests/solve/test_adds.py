"""Algorithm 1 as the paper writes it: rotations, sweeps over layers, stopping, averaging."""

from dataclasses import replace

import numpy as np
import pytest
from machines import central_differences, random_machine, training_data

from mlkm import MLKMRegressor, RKMRegressor
from mlkm.datasets import make_example1
from mlkm.model.machine import flatten, predict, with_layers
from mlkm.solve import GradientDescent
from mlkm.solve.adds import Rotation, random_parts, rotations, train
from mlkm.solve.step import Step, loss

FAITHFUL = {
    "widths": (24, 8),
    "kernels": "gaussian",
    "scales": 1.0,
    "interactions": "full",
    "relevance": False,
    "linear": False,
    "penalty": 1e-4,
    "random_state": 0,
}


def problem(seed=0, n=40, n_rotations=3, **kind):
    """Machines to start from, data, and random parts."""
    rng = np.random.default_rng(seed)
    X, Y, weights = rng.standard_normal((n, 3)), rng.standard_normal((n, 2)), rng.uniform(0.5, 1.5, n)
    base = random_machine(rng, widths=(6, 5, 4), n_outputs=2, **kind)
    starts = [
        with_layers(base, [rng.uniform(-0.5, 0.5, W.shape) for W in flatten(base.layers)]) for _ in range(n_rotations)
    ]
    return starts, training_data(base, X, Y, weights / weights.mean()), random_parts(rng, n, 3)


def run(starts, runs, data, *, learning_rate=1e-2, momentum=0.9, batch_size=None, penalty=1e-3, **options):
    settings = {"max_iter": 1, "patience": 100, "tol": 0.0, "seed": 0} | options
    step = Step((learning_rate,) * starts[0].depth, momentum, batch_size, penalty)
    return train(starts, runs, data, step, **settings)


def slopes(machine, data, rows, penalty):
    """Gradient of the weighted mean of squared errors on `rows` plus lambda |W|^2 (biases free), by central
    differences; one array per matrix."""
    X, Y, weights = data.rows.X, data.rows.Y, data.rows.weights

    def objective(matrices):
        errors = ((predict(with_layers(machine, matrices), X[rows]) - Y[rows]) ** 2).sum(axis=1)
        return np.average(errors, weights=weights[rows]) + penalty * sum((W[:-1] ** 2).sum() for W in matrices)

    matrices = flatten(machine.layers)
    flat = central_differences(objective, matrices)
    cuts = np.cumsum([W.size for W in matrices])[:-1]
    return [part.reshape(W.shape) for part, W in zip(np.split(flat, cuts), matrices, strict=True)]


def test_layer_l_of_rotation_j_has_part_j_plus_l_minus_1():
    parts = [np.array([k]) for k in range(3)]
    assert [[int(rows[0]) for rows in rotation.rows] for rotation in rotations(parts, 3)] == [
        [0, 1, 2],
        [1, 2, 0],
        [2, 0, 1],
    ]
    assert [[int(rows[0]) for rows in rotation.rows] for rotation in rotations(parts, 2)] == [[0, 1], [1, 2], [2, 0]]
    assert [rotation.number for rotation in rotations(parts, 3)] == [0, 1, 2]


@pytest.mark.parametrize(("n", "K"), [(10, 2), (11, 3), (3, 3), (100, 7)])
def test_parts_are_equal_disjoint_and_cover(n, K):
    parts = random_parts(np.random.default_rng(0), n, K)
    assert sorted(np.concatenate(parts)) == list(range(n))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("residual", [False, True])
def test_joint_descent_by_hand(residual):
    """Two full-batch epochs: V <- mu V + gradient + 2 lambda W, W <- W - eta V."""
    starts, data, _ = problem(n_rotations=1, residual=residual)
    machine, everything = starts[0], np.arange(40)
    velocity = [np.zeros_like(W) for W in flatten(machine.layers)]
    for epochs in (1, 2):
        velocity = [0.9 * V + slope for V, slope in zip(velocity, slopes(machine, data, everything, 1e-2), strict=True)]
        machine = with_layers(machine, [W - 1e-3 * V for W, V in zip(flatten(machine.layers), velocity, strict=True)])
        trained = run(starts, [Rotation(0, None)], data, learning_rate=1e-3, penalty=1e-2, max_iter=epochs)
        for W, expected in zip(flatten(trained.machines[0].layers), flatten(machine.layers), strict=True):
            np.testing.assert_allclose(W, expected, atol=1e-9)
    assert trained.losses[1] < trained.losses[0]


@pytest.mark.parametrize("residual", [False, True])
def test_one_sweep_of_adds_by_hand(residual):
    """Layers 1..L in turn, each on its own part, the others fixed."""
    starts, data, parts = problem(residual=residual)
    runs = rotations(parts, 3)
    trained = run(starts, runs, data, penalty=1e-2)
    for start, rotation, result in zip(starts, runs, trained.machines, strict=True):
        machine = start
        for layer, rows in enumerate(rotation.rows):
            gradient = slopes(machine, data, rows, 1e-2)
            moving = {id(W) for W in machine.layers[layer]}
            matrices = [
                W - 1e-2 * G if id(W) in moving else W for W, G in zip(flatten(machine.layers), gradient, strict=True)
            ]
            machine = with_layers(machine, matrices)
        for W, expected in zip(flatten(result.layers), flatten(machine.layers), strict=True):
            np.testing.assert_allclose(W, expected, atol=1e-8)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_rows_outside_its_part_do_not_touch_a_layer(batch_size):
    """Changing X and y where layer l of rotation j does not train leaves its first update as it was; changing its own
    part does not."""
    starts, data, parts = problem()
    step = Step((1e-2,) * 3, 0.9, batch_size, 1e-3)
    for rotation in rotations(parts, 3):
        for layer, rows in enumerate(rotation.rows):
            updated = []
            for changed in (None, np.setdiff1d(np.arange(40), rows), rows):
                X, Y = data.rows.X.copy(), data.rows.Y.copy()
                if changed is not None:
                    X[changed], Y[changed] = 9.0, -7.0
                machine = with_layers(starts[0], [W.copy() for W in flatten(starts[0].layers)])
                velocity = [np.zeros_like(W) for W in flatten(machine.layers)]
                changed_data = training_data(machine, X, Y, data.rows.weights)
                step.visit(machine, velocity, layer, changed_data, rows, np.random.default_rng(0))
                updated.append(machine.layers)
            same, other = updated[1][layer][0], updated[2][layer][0]
            np.testing.assert_array_equal(updated[0][layer][0], same)
            assert (updated[0][layer][0] != other).any()
            for l in set(range(3)) - {layer}:
                np.testing.assert_array_equal(updated[0][l][0], starts[0].layers[l][0])


def test_y_of_the_last_part_moves_the_last_layer_only():
    """The same through `train`: in the first sweep of rotation j, y of layer 3's part cannot reach layers 1 and 2."""
    starts, data, parts = problem()
    runs = rotations(parts, 3)
    before = run(starts, runs, data)
    for j, rotation in enumerate(runs):
        Y = data.rows.Y.copy()
        Y[rotation.rows[2]] += 1
        after = run(starts, runs, replace(data, rows=replace(data.rows, Y=Y)))
        for layer in (0, 1):
            np.testing.assert_array_equal(after.machines[j].layers[layer][0], before.machines[j].layers[layer][0])
        assert (after.machines[j].layers[2][0] != before.machines[j].layers[2][0]).any()


def test_training_does_not_change_what_it_was_given():
    starts, data, parts = problem()
    copies = [[W.copy() for W in flatten(machine.layers)] for machine in starts]
    run(starts, rotations(parts, 3), data, max_iter=5, batch_size=4)
    for machine, kept in zip(starts, copies, strict=True):
        for W, copy in zip(flatten(machine.layers), kept, strict=True):
            np.testing.assert_array_equal(W, copy)


@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize("max_iter", [30, 50, 120, 400])
def test_the_best_weights_are_restored(max_iter, rotate):
    """The loss of the machines returned is the smallest of the curve, wherever in the run it was; mini-batches make the
    curve uneven."""
    starts, data, parts = problem(n_rotations=3 if rotate else 1)
    runs = rotations(parts, 3) if rotate else [Rotation(0, None)]
    trained = run(starts, runs, data, learning_rate=0.1, batch_size=5, max_iter=max_iter, patience=1000)
    assert np.argmin(trained.losses) < max_iter - 1
    assert np.mean([loss(machine, data) for machine in trained.machines]) == min(trained.losses)
    assert trained.n_iter == len(trained.losses) == max_iter


@pytest.mark.parametrize("patience", [1, 7, 60])
def test_training_stops_after_patience_epochs_without_improvement(patience):
    starts, data, parts = problem()
    trained = run(starts, rotations(parts, 3), data, learning_rate=0.05, batch_size=5, max_iter=3000, patience=patience)
    best = int(np.argmin(trained.losses)) + 1
    assert trained.n_iter == len(trained.losses) == best + patience < 3000
    records = np.flatnonzero(np.diff(np.minimum.accumulate([np.inf, *trained.losses])))
    assert np.diff(records).max(initial=0) <= patience


def test_improvements_below_tol_do_not_count():
    """With tol = 1/2, only halving the loss is an improvement."""
    starts, data, _ = problem(n_rotations=1)
    trained = run(starts, [Rotation(0, None)], data, learning_rate=1e-5, tol=0.5, patience=10, max_iter=100)
    assert trained.n_iter == 11
    assert loss(trained.machines[0], data) == trained.losses[0] > min(trained.losses)


def test_a_longer_run_begins_like_a_shorter_one():
    starts, data, parts = problem()
    short, long = (
        run(starts, rotations(parts, 3), data, batch_size=5, max_iter=m, patience=1000).losses for m in (60, 130)
    )
    assert long[:60] == short


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 16])
def test_the_result_does_not_depend_on_n_jobs(batch_size):
    X, y, _ = make_example1(120, 4, random_state=0)
    model = MLKMRegressor(
        **FAITHFUL, cv="rotate", solver=GradientDescent(batch_size=batch_size, max_iter=70, patience=20)
    )
    alone, together = (
        model.set_params(n_jobs=n_jobs).fit(X, y) and (model.predict(X), model.loss_curve_) for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(alone[0], together[0])
    assert alone[1] == together[1]


@pytest.mark.parametrize("Machine", [MLKMRegressor, RKMRegressor])
@pytest.mark.parametrize("widths", [(24, 8), (16, 8, 4)], ids=str)
def test_every_rotation_has_weights_of_its_own(Machine, widths):
    X, y, _ = make_example1(100, 4, random_state=0)
    machines = (
        Machine(**FAITHFUL | {"widths": widths}, cv="rotate", solver=GradientDescent(max_iter=5)).fit(X, y).machines_
    )
    assert len(machines) == len(widths)
    for i in range(len(machines)):
        for j in range(i):
            for W, V in zip(flatten(machines[i].layers), flatten(machines[j].layers), strict=True):
                assert not np.shares_memory(W, V)
                assert (W != V).all()
            for phi, psi in zip(machines[i].maps, machines[j].maps, strict=True):
                np.testing.assert_array_equal(phi.frequencies, psi.frequencies)


@pytest.mark.parametrize("Machine", [MLKMRegressor, RKMRegressor])
@pytest.mark.parametrize("seed", range(4))
def test_the_average_is_no_worse_than_the_rotations_are_on_average(Machine, seed):
    X, y, _ = make_example1(400, 4, random_state=100 + seed)
    options = FAITHFUL | {"random_state": seed}
    model = Machine(**options, cv="rotate", solver=GradientDescent(max_iter=60, batch_size=32)).fit(X[:200], y[:200])
    Z = model.x_scaler_.forward(X[200:])
    single = np.array([model.y_scaler_.backward(predict(machine, Z))[:, 0] for machine in model.machines_])
    np.testing.assert_allclose(model.predict(X[200:]), single.mean(axis=0), rtol=1e-10)
    assert np.mean((single.mean(axis=0) - y[200:]) ** 2) < np.mean((single - y[200:]) ** 2)


def test_a_run_that_never_has_a_finite_loss_is_one_clear_error():
    X, y, _ = make_example1(60, 4, random_state=0)
    with pytest.raises(
        ValueError, match=r"^Gradient descent diverged: the loss is .* lower learning_rate=1e\+200 or target_sd\.$"
    ):
        MLKMRegressor(**FAITHFUL, solver=GradientDescent(1e200, max_iter=20)).fit(X, y)


@pytest.mark.parametrize("learning_rate", [1e3, 1e6])
def test_a_run_that_only_gets_worse_is_the_same_error(learning_rate):
    X, y, _ = make_example1(60, 4, random_state=0)
    with pytest.raises(ValueError, match="diverged"):
        MLKMRegressor(**FAITHFUL, solver=GradientDescent(learning_rate, max_iter=20)).fit(X, y)
