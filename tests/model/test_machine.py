"""MLKM and RKM as functions: derivatives against finite differences, and their sizes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import central_differences, jacobian, random_machine, random_maps

from mlkm.kernels import Gaussian
from mlkm.model.draws import draw_features
from mlkm.model.features import JointMap
from mlkm.model.machine import (
    Columns,
    LastInputs,
    Machine,
    averaged,
    backward,
    flatten,
    forward,
    gradients,
    input_gradient,
    layer_shapes,
    output_factors,
    positions,
    predict,
    predict_average,
    predict_transformed,
    with_last,
    with_layers,
)
from mlkm.model.transforms import BackTransform, fit_rank_transform

KINDS = [
    pytest.param(
        {"widths": (6, 5, 4)[:L], "residual": residual, "skip": skip, "linear": linear, "n_outputs": 2},
        id=f"{'RKM' if residual else 'MLKM'}-L{L}{'-skip' * skip}{'-linear' * linear}",
    )
    for residual in (False, True)
    for L in (1, 2, 3)
    for skip in (False, True)
    for linear in (False, True)
]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def numeric_jacobian(machine, X):
    """df/dW by central differences, (n, outputs, p)."""
    return central_differences(lambda matrices: predict(with_layers(machine, matrices), X), flatten(machine.layers))


def flat(matrices):
    return np.concatenate([M.ravel() for M in matrices])


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_with_respect_to_the_weights(kind, rng):
    """Factors of the Jacobian and gradients agree with finite differences, for every output."""
    machine, X = random_machine(rng, **kind), rng.standard_normal((4, 3))
    J = numeric_jacobian(machine, X)
    tape = forward(machine, X)
    v = rng.standard_normal(len(X))
    for output in range(2):
        factors = output_factors(machine, tape, output)
        np.testing.assert_allclose(jacobian(factors), J[:, output], rtol=1e-5, atol=1e-7)
        pulled = gradients(backward(machine, tape, np.outer(v, np.eye(2)[output])))
        np.testing.assert_allclose(flat(pulled), v @ J[:, output], rtol=1e-5, atol=1e-7)
    cotangent = rng.standard_normal((4, 2))
    np.testing.assert_allclose(
        flat(gradients(backward(machine, tape, cotangent))), np.einsum("no,nop->p", cotangent, J), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_with_respect_to_the_inputs(kind, rng):
    machine, X, step = random_machine(rng, **kind), rng.standard_normal((4, 3)), 1e-6
    for output in range(2):
        numeric = np.stack(
            [
                (predict(machine, X + step * e) - predict(machine, X - step * e))[:, output] / (2 * step)
                for e in np.eye(3)
            ],
            axis=1,
        )
        np.testing.assert_allclose(input_gradient(machine, X, output), numeric, rtol=1e-5, atol=1e-7)


@given(
    seed=st.integers(0, 10**6),
    widths=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    n=st.integers(1, 6),
    d=st.integers(1, 4),
)
def test_gradients_are_the_adjoint_of_the_jacobian(seed, widths, flags, n, d):
    """<v, J u> = <J'v, u>."""
    rng = np.random.default_rng(seed)
    residual, skip, linear = flags
    machine = random_machine(rng, d, tuple(widths), 2, residual, skip, linear)
    tape = forward(machine, rng.standard_normal((n, d)))
    v, u = rng.standard_normal(n), [rng.standard_normal(W.shape) for W in flatten(machine.layers)]
    pulled = gradients(backward(machine, tape, np.outer(v, [0.0, 1.0])))
    moved = jacobian(output_factors(machine, tape, 1)) @ flat(u)
    assert flat(pulled) @ flat(u) == pytest.approx(v @ moved, rel=1e-9, abs=1e-9)


def with_bias(h):
    return np.hstack([h, np.ones((len(h), 1))])


def test_mlkm_is_its_formula(rng):
    machine, X = random_machine(rng, widths=(6, 5, 4)), rng.standard_normal((7, 3))
    h = machine.maps[0].features(X)
    for phi, (W,) in zip(machine.maps[1:], machine.layers[:-1], strict=True):
        h = phi.features(with_bias(h) @ W)
    np.testing.assert_allclose(predict(machine, X), with_bias(h) @ machine.layers[-1][0], rtol=1e-12)


def test_rkm_is_its_formula(rng):
    machine, X = random_machine(rng, widths=(6, 5, 4), residual=True), rng.standard_normal((7, 3))
    h = machine.maps[0].features(X)
    for phi, (W1, W2) in zip(machine.maps[1:], machine.layers[:-1], strict=True):
        u = with_bias(h) @ W1
        h = with_bias(phi.features(u)) @ W2 + u
    np.testing.assert_allclose(predict(machine, X), with_bias(h) @ machine.layers[-1][0], rtol=1e-12)


@pytest.mark.parametrize("residual", [False, True])
def test_skip_and_linear_add_their_terms_to_the_last_layer(residual, rng):
    machine, X = (
        random_machine(rng, widths=(6, 4), residual=residual, skip=True, linear=True),
        rng.standard_normal((7, 3)),
    )
    W = machine.layers[-1][0]
    below = len(W) - 6 - 3 - 1
    plain = Machine(machine.maps, (*machine.layers[:-1], (np.vstack([W[:below], W[-1:]]),)), residual)
    extra = machine.maps[0].features(X) @ W[below : below + 6] + X @ W[below + 6 : below + 9]
    np.testing.assert_allclose(predict(machine, X), predict(plain, X) + extra, rtol=1e-12)


def test_known_first_features_change_nothing(rng):
    machine, X = random_machine(rng, widths=(6, 4), skip=True, linear=True), rng.standard_normal((7, 3))
    np.testing.assert_array_equal(forward(machine, X, machine.maps[0].features(X)).output, predict(machine, X))


@pytest.mark.parametrize(
    ("d", "widths", "mlkm", "rkm"),
    [
        (4, (32, 8), 273, 345),
        (8, (64, 8), 529, 601),
        (16, (256, 16), 4129, 4401),
        (128, (256, 16), 4129, 4401),
        (15, (100, 50), 5101, 7651),
        (10, (64, 32, 16, 8), 2753, 4153),
        (5, (10, 10, 10, 10), 341, 671),
        (90, (256, 128, 64), 41217, 61889),
    ],
)
def test_numbers_of_parameters_are_those_of_the_paper(d, widths, mlkm, rkm, rng):
    maps = random_maps(rng, d, widths)
    for residual, count in ((False, mlkm), (True, rkm)):
        layers = tuple(tuple(np.zeros(shape) for shape in layer) for layer in layer_shapes(maps, 1, residual))
        assert Machine(maps, layers, residual).n_parameters == count


def test_replacing_weights_keeps_the_rest(rng):
    machine = random_machine(rng, widths=(6, 5, 4), residual=True)
    doubled = with_layers(machine, [2 * W for W in flatten(machine.layers)])
    assert replace(doubled, layers=machine.layers) == replace(machine)
    assert [len(layer) for layer in doubled.layers] == [2, 2, 1]
    np.testing.assert_array_equal(doubled.layers[1][1], 2 * machine.layers[1][1])


def test_an_average_of_machines_is_their_sum_with_shares(rng):
    machines = [random_machine(rng, widths=(6, 5), n_outputs=2, d=3) for _ in range(3)]
    X, shares = rng.standard_normal((7, 3)), (0.5, 0.2, 0.4)
    expected = sum(share * predict(machine, X) for share, machine in zip(shares, machines, strict=True))
    np.testing.assert_allclose(np.mean([predict(m, X) for m in averaged(machines, shares)], axis=0), expected)


@pytest.mark.parametrize("long", [0, 2**40], ids=["side by side", "in turn"])
def test_predictions_are_averaged(long, rng, monkeypatch):
    monkeypatch.setattr("mlkm.model.machine.PARALLEL_ENTRIES", long)
    machines = [random_machine(rng, widths=(6, 5), d=3) for _ in range(3)]
    X = rng.standard_normal((7, 3))
    for group in (machines[:1], machines[:2], machines):
        np.testing.assert_allclose(predict_average(group, X), np.mean([predict(m, X) for m in group], axis=0))


def test_predictions_do_not_depend_on_blocks(rng):
    machine, X = random_machine(rng, widths=(6, 5), d=3), rng.standard_normal((100, 3))
    np.testing.assert_allclose(predict(machine, X, entries=1), predict(machine, X), rtol=1e-12)


NARROW = [
    pytest.param({"residual": residual, "skip": skip, "linear": linear}, id=str((residual, skip, linear)))
    for residual in (False, True)
    for skip in (False, True)
    for linear in (False, True)
]


def narrow_machine(rng, residual, skip=False, linear=False):
    """A machine whose second map has fewer inputs than features: R^3 -> R^6 -> R^2 -> R^5."""
    maps = (draw_features(rng, 3, 6, Gaussian()), draw_features(rng, 2, 5, Gaussian()))
    shapes = layer_shapes(maps, 2, residual, skip, linear)
    return Machine(maps, tuple(tuple(map(rng.standard_normal, layer)) for layer in shapes), residual, skip, linear)


@pytest.mark.parametrize("kind", NARROW)
def test_maps_may_have_fewer_inputs_than_features(kind, rng):
    """f is its formula, and its derivatives are those of differences."""
    machine, X, step = narrow_machine(rng, **kind), rng.standard_normal((4, 3)), 1e-6
    first, second = machine.maps
    u = with_bias(first.features(X)) @ machine.layers[0][0]
    assert u.shape == (4, 2)
    h = with_bias(second.features(u)) @ machine.layers[0][1] + u if machine.residual else second.features(u)
    last = [h, *([first.features(X)] if machine.skip else []), *([X] if machine.linear else [])]
    np.testing.assert_allclose(predict(machine, X), with_bias(np.hstack(last)) @ machine.layers[-1][0], rtol=1e-11)
    J, tape = numeric_jacobian(machine, X), forward(machine, X)
    for output in range(2):
        factors = output_factors(machine, tape, output)
        np.testing.assert_allclose(jacobian(factors), J[:, output], rtol=1e-5, atol=1e-7)
        moved = [(predict(machine, X + step * e) - predict(machine, X - step * e))[:, output] for e in np.eye(3)]
        slopes = np.stack(moved, axis=1) / (2 * step)
        np.testing.assert_allclose(input_gradient(machine, X, output), slopes, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("residual", [False, True])
def test_positions_of_a_layer_are_its_matrices(residual, rng):
    machine = random_machine(rng, widths=(6, 5, 4), residual=residual)
    matrices = flatten(machine.layers)
    for layer in range(3):
        found = [matrices[k] for k in positions(machine, layer)]
        assert [id(W) for W in found] == [id(W) for W in machine.layers[layer]]
    assert positions(machine, None) == list(range(len(matrices)))


def bent(rng, k=2):
    """A back-transform that rises more the higher it is, and is linear between its knots."""
    knots = np.linspace(-2, 2, 5)[:, None] + np.zeros(k)
    return BackTransform(knots, np.exp(knots) * np.arange(1, k + 1), np.exp(knots))


def test_back_transformed_machines_predict_the_mean_of_y(rng):
    plain, X = random_machine(rng, widths=(6, 5), n_outputs=2), rng.standard_normal((9, 3))
    transformed = replace(plain, back_transform=bent(rng))
    np.testing.assert_array_equal(predict_transformed(transformed, X), predict(plain, X))
    np.testing.assert_allclose(predict(transformed, X), transformed.back_transform.mean(predict(plain, X)))
    for output in range(2):
        slopes = transformed.back_transform.slope(predict(plain, X))[:, [output]]
        expected = slopes * input_gradient(plain, X, output)
        np.testing.assert_allclose(input_gradient(transformed, X, output), expected, rtol=1e-12)


def test_shares_of_back_transformed_machines_are_shares_of_y(rng):
    plain, X = random_machine(rng, widths=(6, 5), n_outputs=2), rng.standard_normal((9, 3))
    machines, shares = (
        [replace(plain, back_transform=bent(rng)), plain, random_machine(rng, n_outputs=2)],
        (0.2, 0.7, 0.4),
    )
    expected = sum(share * predict(machine, X) for share, machine in zip(shares, machines, strict=True))
    np.testing.assert_allclose(predict_average(averaged(machines, shares), X), expected)


@pytest.mark.parametrize("linear", [False, True])
def test_one_layer_of_several_maps_is_the_sum_of_their_parts(linear, rng):
    X = rng.standard_normal((40, 3))
    ranks = fit_rank_transform(X, np.ones(40))
    phi = JointMap(((None, draw_features(rng, 3, 4, Gaussian())), (ranks, draw_features(rng, 3, 5, Gaussian()))))
    shape = layer_shapes((phi,), 2, linear=linear, n_inputs=3)[0][0]
    assert shape == (10 + 3 * linear, 2)
    machine = Machine((phi,), ((rng.standard_normal(shape),),), linear=linear)
    H = np.hstack([phi.features(X), X]) if linear else phi.features(X)
    np.testing.assert_allclose(predict(machine, X), with_bias(H) @ machine.layers[0][0], rtol=1e-11)
    np.testing.assert_allclose(forward(machine, X).output, predict(machine, X), rtol=1e-11)
    Z, step = rng.uniform(-0.7, 0.7, (6, 3)), 1e-7
    moved = [(predict(machine, Z + step * e) - predict(machine, Z - step * e))[:, 1] / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(input_gradient(machine, Z, 1), np.stack(moved, axis=1), rtol=1e-5, atol=1e-5)


def test_features_of_the_last_layer_make_the_machine(rng):
    machine = random_machine(rng, widths=(6, 5), n_outputs=2, skip=True, linear=True)
    X, below = rng.standard_normal((7, 3)), LastInputs(machine)
    H, C, a = below.rows_of_features(below.inputs(X)), rng.standard_normal((14, 2)), np.array([3.0, -1.0])
    np.testing.assert_allclose(predict(below.machine(C, a), X), H @ C + a, rtol=1e-11)
    np.testing.assert_array_equal(with_last(machine, machine.layers[-1][0]).layers[0][0], machine.layers[0][0])
    chosen = Columns(np.array([True, False, True]))
    np.testing.assert_array_equal(chosen.rows_of_features(chosen.inputs(X)), X[:, [0, 2]])


def test_depth_is_the_number_of_maps(rng):
    for widths in ((6,), (6, 5), (6, 5, 4)):
        machine = random_machine(rng, widths=widths)
        assert machine.depth == len(widths) == len(forward(machine, np.zeros((1, 3))).hidden)
