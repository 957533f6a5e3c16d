"""Algorithm 1 as the paper writes it: rotations, sweeps over layers, stopping, averaging, on one block or on many."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import central_differences, random_machine

from mlkm import MLKMRegressor, RKMRegressor
from mlkm.data import plain_rows
from mlkm.data.rows import tree_sum
from mlkm.datasets import make_example1
from mlkm.model.machine import flatten, positions, predict, with_layers
from mlkm.runtime.resources import Purpose, generator
from mlkm.solve import GradientDescent
from mlkm.solve.descent import Descent, OneBlock, Step, census, copied, part_number, random_parts, train
from mlkm.solve.training_rows import loss, loss_gradient, training_rows

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
    """Machines to start from, rows, and random parts."""
    rng = np.random.default_rng(seed)
    X, Y, weights = rng.standard_normal((n, 3)), rng.standard_normal((n, 2)), rng.uniform(0.5, 1.5, n)
    base = random_machine(rng, widths=(6, 5, 4), n_outputs=2, **kind)
    starts = [
        with_layers(base, [rng.uniform(-0.5, 0.5, W.shape) for W in flatten(base.layers)]) for _ in range(n_rotations)
    ]
    return starts, plain_rows(X, Y, weights), random_parts(rng, n, 3)


class Cut:
    """One block cut into several at the given rows."""

    def __init__(self, block, cuts):
        piece, ends = block.block, sorted(cuts)
        at = [slice(a, b) for a, b in zip([0, *ends], [*ends, len(piece)], strict=True)]
        self.n = len(piece)
        self.pieces = [
            replace(
                piece,
                X=piece.X[s],
                Y=piece.Y[s],
                weights=piece.weights[s],
                fold=None if piece.fold is None else piece.fold[s],
            )
            for s in at
        ]

    def map_reduce(self, f, add):
        return tree_sum(map(f, self.pieces), add)

    def blocks(self):
        return iter(self.pieces)


def run(
    starts,
    parts,
    rows,
    *,
    cuts=None,
    learning_rate=1e-2,
    momentum=0.9,
    batch_size=None,
    penalty=1e-3,
    passes=1,
    **options,
):
    """Descend on parts, or jointly where there are none."""
    settings = {"max_iter": 1, "patience": 100, "tol": 0.0} | options
    step = Step((learning_rate,) * starts[0].depth, momentum, batch_size, penalty, passes)
    block = OneBlock.of(rows, parts)
    pieces = block if cuts is None else Cut(block, cuts)
    counted = census(pieces, len(parts))
    return train(Descent(starts, pieces, len(parts), counted, np.ones(1), step, seed=0), **settings)


def matrices_of(trained):
    return [W for machine in trained.machines for W in flatten(machine.layers)]


def slopes(machine, data, rows, penalty):
    """Gradient of the weighted mean of squared errors on `rows` plus lambda |W|^2 (biases free), by central
    differences; one array per matrix."""
    X, Y, weights = data.X, data.Y, data.weights

    def objective(matrices):
        errors = ((predict(with_layers(machine, matrices), X[rows]) - Y[rows]) ** 2).sum(axis=1)
        return np.average(errors, weights=weights[rows]) + penalty * sum((W[:-1] ** 2).sum() for W in matrices)

    matrices = flatten(machine.layers)
    flat = central_differences(objective, matrices)
    cuts = np.cumsum([W.size for W in matrices])[:-1]
    return [part.reshape(W.shape) for part, W in zip(np.split(flat, cuts), matrices, strict=True)]


def test_layer_l_of_rotation_j_has_part_j_plus_l_minus_1():
    assert [[part_number(j, l, 3) for l in range(3)] for j in range(3)] == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    assert [[part_number(j, l, 3) for l in range(2)] for j in range(3)] == [[0, 1], [1, 2], [2, 0]]


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
        trained = run(starts, (), data, learning_rate=1e-3, penalty=1e-2, max_iter=epochs)
        for W, expected in zip(flatten(trained.machines[0].layers), flatten(machine.layers), strict=True):
            np.testing.assert_allclose(W, expected, atol=1e-9)
    assert trained.losses[1] < trained.losses[0]


@pytest.mark.parametrize("residual", [False, True])
def test_one_sweep_of_adds_by_hand(residual):
    """Layers 1..L in turn, each on its own part, the others fixed."""
    starts, data, parts = problem(residual=residual)
    trained = run(starts, parts, data, penalty=1e-2)
    for j, (start, result) in enumerate(zip(starts, trained.machines, strict=True)):
        machine = start
        for layer in range(3):
            gradient = slopes(machine, data, parts[(j + layer) % 3], 1e-2)
            moving = {id(W) for W in machine.layers[layer]}
            matrices = [
                W - 1e-2 * G if id(W) in moving else W for W, G in zip(flatten(machine.layers), gradient, strict=True)
            ]
            machine = with_layers(machine, matrices)
        for W, expected in zip(flatten(result.layers), flatten(machine.layers), strict=True):
            np.testing.assert_allclose(W, expected, atol=1e-8)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_rows_outside_its_part_do_not_touch_a_layer(batch_size):
    """Changing X and y where layers 1..l of rotation j do not train leaves the first update of layer l as it was;
    changing the part of layer l does not, nor does it touch the layers before."""
    starts, rows, parts = problem()
    before = run(starts, parts, rows, batch_size=batch_size).machines
    for j in range(3):
        for layer in range(3):
            seen = np.concatenate([parts[(j + l) % 3] for l in range(layer + 1)])
            X, Y = rows.X.copy(), rows.Y.copy()
            X[np.setdiff1d(np.arange(40), seen)], Y[np.setdiff1d(np.arange(40), seen)] = 9.0, -7.0
            after = run(starts, parts, replace(rows, X=X, Y=Y), batch_size=batch_size, max_iter=1).machines[j]
            np.testing.assert_array_equal(after.layers[layer][0], before[j].layers[layer][0])
            X, Y = rows.X.copy(), rows.Y.copy()
            X[parts[(j + layer) % 3]], Y[parts[(j + layer) % 3]] = 0.9, -0.7
            after = run(starts, parts, replace(rows, X=X, Y=Y), batch_size=batch_size, max_iter=1).machines[j]
            assert (after.layers[layer][0] != before[j].layers[layer][0]).any()
            for l in range(layer):
                np.testing.assert_array_equal(after.layers[l][0], before[j].layers[l][0])


def test_y_of_the_last_part_moves_the_last_layer_only():
    """The same through `train`: in the first sweep of rotation j, y of layer 3's part cannot reach layers 1 and 2."""
    starts, data, parts = problem()
    before = run(starts, parts, data)
    for j in range(3):
        Y = data.Y.copy()
        Y[parts[(j + 2) % 3]] += 1
        after = run(starts, parts, replace(data, Y=Y))
        for layer in (0, 1):
            np.testing.assert_array_equal(after.machines[j].layers[layer][0], before.machines[j].layers[layer][0])
        assert (after.machines[j].layers[2][0] != before.machines[j].layers[2][0]).any()


def test_training_does_not_change_what_it_was_given():
    starts, data, parts = problem()
    copies = [[W.copy() for W in flatten(machine.layers)] for machine in starts]
    run(starts, parts, data, max_iter=5, batch_size=4)
    for machine, kept in zip(starts, copies, strict=True):
        for W, copy in zip(flatten(machine.layers), kept, strict=True):
            np.testing.assert_array_equal(W, copy)


@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize("max_iter", [30, 50, 120, 400])
def test_the_best_weights_are_restored(max_iter, rotate):
    """The loss of the machines returned is the smallest of the curve, wherever in the run it was; mini-batches make the
    curve uneven."""
    starts, data, parts = problem(n_rotations=3 if rotate else 1)
    trained = run(
        starts, parts if rotate else (), data, learning_rate=0.1, batch_size=5, max_iter=max_iter, patience=1000
    )
    assert np.argmin(trained.losses) < max_iter - 1
    rows = training_rows(data, starts[0].maps[0])
    assert np.mean([loss(machine, rows) for machine in trained.machines]) == min(trained.losses)
    assert len(trained.losses) == max_iter


@pytest.mark.parametrize("patience", [1, 7, 60])
def test_training_stops_after_patience_epochs_without_improvement(patience):
    starts, data, parts = problem()
    trained = run(starts, parts, data, learning_rate=0.05, batch_size=5, max_iter=3000, patience=patience)
    best = int(np.argmin(trained.losses)) + 1
    assert len(trained.losses) == best + patience < 3000
    records = np.flatnonzero(np.diff(np.minimum.accumulate([np.inf, *trained.losses])))
    assert np.diff(records).max(initial=0) <= patience


def test_improvements_below_tol_do_not_count():
    """With tol = 1/2, only halving the loss is an improvement."""
    starts, data, _ = problem(n_rotations=1)
    trained = run(starts, (), data, learning_rate=1e-5, tol=0.5, patience=10, max_iter=100)
    assert len(trained.losses) == 11
    assert loss(trained.machines[0], training_rows(data, starts[0].maps[0])) == trained.losses[0] > min(trained.losses)


def test_a_longer_run_begins_like_a_shorter_one():
    starts, data, parts = problem()
    short, long = (run(starts, parts, data, batch_size=5, max_iter=m, patience=1000).losses for m in (60, 130))
    assert long[:60] == short


@given(
    st.sets(st.integers(1, 39), max_size=6),
    st.booleans(),
    st.booleans(),
    st.integers(1, 2),
    st.sampled_from([None, 14, 40]),
)
def test_full_batches_on_several_blocks_are_those_of_one(cuts, rotate, residual, passes, batch_size):
    """Wherever the rows are cut, and with more rows than any part has in a batch, weights agree to rounding."""
    starts, rows, parts = problem(n_rotations=3 if rotate else 1, residual=residual)
    settings = {"max_iter": 5, "passes": passes, "batch_size": batch_size if rotate or batch_size != 14 else None}
    one, several = (run(starts, parts if rotate else (), rows, cuts=at, **settings) for at in (None, cuts))
    np.testing.assert_allclose(several.losses, one.losses, rtol=1e-12)
    for V, W in zip(matrices_of(several), matrices_of(one), strict=True):
        np.testing.assert_allclose(V, W, rtol=1e-12, atol=1e-12)


@given(st.integers(1, 60), st.booleans(), st.integers(1, 2))
def test_mini_batches_on_one_block_are_those_of_memory(batch_size, rotate, passes):
    """One block that is streamed draws the mini-batches of memory, bit by bit."""
    starts, rows, parts = problem(n_rotations=3 if rotate else 1)
    settings = {"max_iter": 3, "passes": passes, "batch_size": batch_size}
    memory, streamed = (run(starts, parts if rotate else (), rows, cuts=at, **settings) for at in (None, ()))
    assert streamed.losses == memory.losses
    for V, W in zip(matrices_of(streamed), matrices_of(memory), strict=True):
        np.testing.assert_array_equal(V, W)


@given(st.sets(st.integers(1, 39), min_size=1, max_size=6), st.integers(1, 12), st.booleans())
def test_mini_batches_go_on_across_blocks(cuts, batch_size, rotate):
    """One epoch by hand: the blocks in the order of their permutations, one mini-batch after the other."""
    starts, rows, parts = problem(n_rotations=3 if rotate else 1)
    trained = run(starts, parts if rotate else (), rows, cuts=cuts, batch_size=batch_size)
    data, step = training_rows(rows, starts[0].maps[0]), Step((1e-2,) * 3, 0.9, batch_size, 1e-3)
    for j, start in enumerate(starts):
        machine, velocity = copied(start), [np.zeros_like(W) for W in flatten(start.layers)]
        rng = generator(0, Purpose.BATCHES, j, 0)
        for layer in range(3) if rotate else (None,):
            part = parts[(j + layer) % 3] if rotate else np.arange(40)
            ends = np.searchsorted(part, sorted(cuts))
            order = np.concatenate([rng.permutation(rows_of_block) for rows_of_block in np.split(part, ends)])
            mean_weight = rows.weights[part].mean()
            for begin in range(0, len(part), batch_size):
                batch, moving = order[begin : begin + batch_size], positions(machine, layer)
                gradient = loss_gradient(machine, moving, data, batch, mean_weight * len(batch))
                step.move(machine, velocity, moving, gradient)
        for W, expected in zip(flatten(trained.machines[j].layers), flatten(machine.layers), strict=True):
            np.testing.assert_allclose(W, expected, rtol=1e-10, atol=1e-12)


def test_without_more_said_a_step_is_one_pass_over_all_rows_with_momentum_and_no_penalty():
    starts, rows, parts = problem()
    block = OneBlock.of(rows, parts)
    descent = Descent(starts, block, 3, census(block, 3), np.ones(1), Step((1e-2,) * 3), seed=0)
    plain = train(descent, max_iter=3, patience=100, tol=0.0)
    said = run(starts, parts, rows, momentum=0.9, batch_size=None, penalty=0.0, passes=1, max_iter=3)
    assert plain.losses == said.losses


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
