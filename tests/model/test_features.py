"""Random features: what is drawn, and the transformer `RandomFeatures`."""

import time
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mlkm import RandomFeatureRidge, RandomFeatures, config_context
from mlkm.kernels import Matern, as_kernel
from mlkm.model.draws import draw_features
from mlkm.model.features import FeatureMap, JointMap, as_orders
from mlkm.model.kernel_maps import GaussianMap
from mlkm.model.transforms import fit_rank_transform

KERNELS = ["gaussian", "matern", "laplacian", "cauchy"]
SAMPLINGS = ["iid", "orthogonal"]


def draw(seed=0, d=5, D=60, kernel="gaussian", **options):
    return draw_features(np.random.default_rng(seed), d, D, as_kernel(kernel), **options)


def test_features_are_the_formula():
    phi, X = draw(), np.random.default_rng(1).normal(size=(7, 5))
    np.testing.assert_allclose(phi.features(X), np.sqrt(2 / 60) * np.cos(X @ phi.frequencies + phi.phases), rtol=1e-13)
    assert phi.phases.min() >= 0
    assert phi.phases.max() <= 2 * np.pi


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("order", [1, 2, 3, 5, "full"])
def test_frequencies_have_as_many_nonzero_coordinates_as_their_order(order, kernel, sampling):
    phi = draw(kernel=kernel, interactions=order, sampling=sampling)
    assert (np.count_nonzero(phi.frequencies, axis=0) == (5 if order == "full" else order)).all()


def test_mixed_orders_share_the_features_equally():
    phi = draw(D=61, interactions=(1, 2, "full"))
    orders, counts = np.unique(np.count_nonzero(phi.frequencies, axis=0), return_counts=True)
    assert orders.tolist() == [1, 2, 5]
    assert counts.max() - counts.min() <= 1
    np.testing.assert_allclose(
        [(phi.amplitudes[np.count_nonzero(phi.frequencies, axis=0) == q] ** 2).sum() for q in orders], 2 / 3
    )


@pytest.mark.parametrize(("d", "q", "D"), [(5, 1, 23), (5, 2, 47), (6, 3, 50), (12, 3, 300), (40, 2, 1000), (40, 1, 7)])
def test_every_subset_of_inputs_is_used_equally_often_up_to_one(d, q, D):
    phi = draw(d=d, D=D, interactions=q)
    used = [tuple(np.flatnonzero(column)) for column in phi.frequencies.T]
    counts = dict.fromkeys(combinations(range(d), q), 0)
    for subset in used:
        counts[subset] += 1
    assert max(counts.values()) - min(counts.values()) <= 1


def test_orthogonal_frequencies_are_orthogonal_within_blocks():
    omega = draw(d=6, D=15, sampling="orthogonal").frequencies
    for block in (omega[:, :6], omega[:, 6:12], omega[:, 12:]):
        product = block.T @ block
        np.testing.assert_allclose(product, np.diag(np.diag(product)), atol=1e-12)


def test_orthogonal_sampling_lowers_the_variance_of_the_kernel_estimate():
    """Both variances are from 400 draws; their ratio is about 0.4 and its standard error about 0.04, so 0.8 is ten
    standard errors away."""
    X = np.array([[0.0] * 8, [0.35] * 8])
    variance = {}
    for sampling in SAMPLINGS:
        estimates = []
        for seed in range(400):
            omega = draw(seed, d=8, D=8, sampling=sampling).frequencies
            estimates.append(np.cos((X[1] - X[0]) @ omega).mean())
        variance[sampling] = np.var(estimates)
    assert variance["orthogonal"] < 0.8 * variance["iid"]


def test_scales_multiply_frequencies():
    scales = np.array([0.5, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(draw(scale=scales).frequencies, scales[:, None] * draw().frequencies)
    np.testing.assert_allclose(draw(scale=0.3).frequencies, 0.3 * draw().frequencies)


@pytest.mark.parametrize(("D", "interactions"), [(1, 1), (2, (1, 2)), (3, (1, 2, "full"))], ids=str)
def test_very_few_features_can_be_drawn(D, interactions):
    X = np.random.default_rng(0).normal(size=(4, 5))
    Z = RandomFeatures(n_features=D, interactions=interactions, random_state=0).fit_transform(X)
    assert Z.shape == (4, D)
    assert np.isfinite(Z).all()


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_sampling_is_fast(kernel, sampling):
    """2048 features of 90 inputs in under 50 ms, the best of several draws."""
    seconds = []
    for seed in range(8):
        begin = time.perf_counter()
        draw(seed, d=90, D=2048, kernel=kernel, sampling=sampling)
        seconds.append(time.perf_counter() - begin)
    assert min(seconds) < 0.15  # 0.03 to 0.05 on an idle machine


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("interactions", [1, (2, "full")], ids=str)
def test_features_depend_on_seed_and_sizes_only(interactions, sampling):
    rng = np.random.default_rng(0)
    model = RandomFeatures(30, Matern(1.5), interactions=interactions, sampling=sampling, random_state=3)
    first = vars(model.fit(rng.normal(size=(10, 4))).map_)
    second = vars(model.fit(5 + rng.uniform(size=(99, 4))).map_)
    other = vars(model.set_params(random_state=4).fit(rng.normal(size=(10, 4))).map_)
    for name in ("frequencies", "phases"):
        np.testing.assert_array_equal(first[name], second[name])
        assert (first[name] != other[name]).any()


def test_transform_is_the_map():
    X = np.random.default_rng(0).normal(size=(10, 4))
    model = RandomFeatures(20, "cauchy", scale=0.4, random_state=1).fit(X)
    np.testing.assert_allclose(model.transform(X), model.map_.features(X))


def test_output_containers_and_names():
    X = np.random.default_rng(0).normal(size=(10, 3))
    names = [f"randomfeatures{k}" for k in range(6)]
    model = RandomFeatures(n_features=6, random_state=0).fit(X)
    assert model.get_feature_names_out().tolist() == names
    plain = model.transform(X)
    for container, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        table = RandomFeatures(n_features=6, random_state=0).set_output(transform=container).fit(X).transform(X)
        assert isinstance(table, kind)
        assert list(table.columns) == names
        np.testing.assert_array_equal(np.asarray(table), plain)


def test_pandas_index_is_kept():
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.0, 1.0, 0.0]}, index=["x", "y", "z"])
    table = RandomFeatures(n_features=4).set_output(transform="pandas").fit_transform(X)
    assert table.index.tolist() == ["x", "y", "z"]


def test_float32_is_kept():
    X = np.random.default_rng(0).normal(size=(30, 4))
    model = RandomFeatures(50, "matern", random_state=0).fit(X)
    single = model.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert model.transform(X).dtype == np.float64
    np.testing.assert_allclose(single, model.transform(X), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_features": 0}, "number of random features must be a whole number of at least 1; got 0"),
        (
            {"n_features": 2, "interactions": (1, 2, "full")},
            "number of random features must be at least 3, one per interaction order; got 2",
        ),
        ({"scale": -1.0}, "A scale must be a positive number, or one per input"),
        ({"scale": [1.0, 2.0]}, r"A scale must be a positive number, or one per input \(3 here\)"),
        ({"scale": "wide"}, "A scale must be a positive number.*got 'wide'"),
        (
            {"interactions": "pairs"},
            "interactions must be 'full', a positive number of inputs or a tuple of these.*got 'pairs'",
        ),
        ({"interactions": ()}, "interactions must be 'full', a positive number of inputs or a tuple of these"),
        pytest.param(
            {"interactions": 1.5},
            "interactions must be 'full', a positive number of inputs or a tuple of these",
        ),
        *(
            pytest.param(
                {"n_features": n_features},
                "number of random features must be .* at least 1; got",
            )
            for n_features in (10.5, "many", None)
        ),
        ({"sampling": "sobol"}, "sampling must be 'iid' or 'orthogonal'; got 'sobol'"),
        ({"kernel": "rbf"}, "A kernel must be one of"),
    ],
    ids=str,
)
def test_bad_choices_are_explained(options, message):
    with pytest.raises(ValueError, match=message):
        RandomFeatures(**options).fit(np.eye(3))


@pytest.mark.parametrize("kernel", ["gaussian", Matern(1.5)], ids=repr)
def test_a_kernel_in_the_first_place_is_sent_to_the_second(kernel):
    with pytest.raises(
        ValueError, match=r"number of random features must be .*; got .*: the number comes first"
    ) as error:
        RandomFeatures(kernel, 20).fit(np.eye(3))
    assert repr(kernel) in str(error.value)


def test_the_number_comes_first_as_in_the_regressor():
    X = np.random.default_rng(0).normal(size=(20, 3))
    assert RandomFeatures(5).fit_transform(X).shape == (20, 5)
    assert RandomFeatureRidge(5, scale=1.0).fit(X, X[:, 0]).widths_ == (5,)


def test_orders_above_the_number_of_inputs_are_full():
    np.testing.assert_array_equal(draw(d=3, interactions=7).frequencies, draw(d=3, interactions="full").frequencies)


def test_a_kernel_of_the_users_own():
    """A kernel is any object with a value and a spectral law."""

    class Cosine:
        def __call__(self, X, Y):
            return np.cos(X @ np.ones((1, len(Y))) - Y.T)

        def frequencies(self, normal, rng):
            return np.sign(normal)

    X = np.array([[0.0], [1.0]])
    Z = RandomFeatures(50_000, Cosine(), random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, Cosine()(X, X), atol=6 * np.sqrt(2 / 50_000))


def test_subsets_of_many_inputs_are_of_the_order_and_of_all_inputs():
    """There are too many of them to list."""
    used = draw(d=40, D=500, interactions=3).frequencies != 0
    assert (used.sum(axis=0) == 3).all()
    assert used.any(axis=1).all()


def test_features_that_do_not_fit_into_memory_are_not_drawn():
    with config_context(max_memory=1_000_000):
        draw(d=50, D=2400)
        with pytest.raises(MemoryError, match=r"2600 features of 50 inputs need about 1\.0 MB"):
            draw(d=50, D=2600)


@pytest.mark.parametrize("bad", [0, -1, True, 1.0, "fully", np.timedelta64(2), (), (1, 0), (1, "all"), None], ids=str)
def test_orders_are_whole_numbers_of_inputs(bad):
    assert as_orders([np.int64(2), 1, 1, 9, "full"], 4) == (1, 2, 4)
    with pytest.raises(ValueError, match="interactions must be 'full', a positive number of inputs"):
        as_orders(bad, 4)


def pairs_of_cosines(n_pairs=5, d=3):
    """Cosines, then their sines, of amplitudes in no order."""
    rng = np.random.default_rng(3)
    omega, sizes = rng.standard_normal((d, n_pairs)), np.array([0.3, 0.9, 0.1, 0.7, 0.5])[:n_pairs]
    return FeatureMap(np.hstack([omega, omega]), np.repeat([0.0, -np.pi / 2], n_pairs), np.tile(sizes, 2))


@pytest.mark.parametrize(("most", "pairs"), [(10, [0, 1, 2, 3, 4]), (99, [0, 1, 2, 3, 4]), (7, [1, 3, 4]), (2, [1])])
def test_leading_features_are_pairs_of_the_largest_amplitudes(most, pairs):
    """Their kernel is that of these pairs, times the variance."""
    phi, X = pairs_of_cosines(), np.random.default_rng(4).standard_normal((6, 3))
    leading, apart = phi.leading(most, 4.0), X[:, None] - X
    expected = 4 * sum(phi.amplitudes[j] ** 2 * np.cos(apart @ phi.frequencies[:, j]) for j in pairs)
    np.testing.assert_allclose(leading.features(X) @ leading.features(X).T, expected, atol=1e-12)
    assert leading.n_features == 2 * len(pairs)


@pytest.mark.parametrize("most", [0, 1])
def test_one_leading_feature_is_the_largest_cosine(most):
    phi, X = pairs_of_cosines(), np.random.default_rng(4).standard_normal((6, 3))
    np.testing.assert_allclose(phi.leading(most, 1.0).features(X), phi.features(X)[:, [1]], atol=1e-12)


def test_a_map_in_another_precision_is_the_same_map():
    phi, X = draw(), np.random.default_rng(1).standard_normal((7, 5))
    single = phi.astype(np.float32)
    assert {array.dtype for array in vars(single).values()} == {np.dtype(np.float32)}
    np.testing.assert_allclose(single.features(X), phi.features(X), atol=1e-5)


def joint_map(X):
    """Cosines of inputs, a kernel at points of their ranks, and cosines of their ranks."""
    ranks = fit_rank_transform(X, np.ones(len(X)))
    gaussian = GaussianMap(ranks.forward(X[:4]), np.diag([1.0, 0.5, 0.0]))
    return JointMap(((None, draw(d=3, D=6)), (ranks, gaussian), (ranks, draw(seed=1, d=3, D=5))))


def test_joint_maps_stand_side_by_side():
    X = np.random.default_rng(0).standard_normal((50, 3))
    phi = joint_map(X)
    Z = phi.features(X)
    assert Z.shape == (50, phi.n_features) == (50, 15)
    assert phi.features(X.astype(np.float32)).dtype == np.float64  # as the points of the kernel are
    assert JointMap(phi.maps[::2]).features(X.astype(np.float32)).dtype == np.float32
    for at, (ranks, part) in zip((slice(0, 6), slice(6, 10), slice(10, 15)), phi.parts, strict=True):
        np.testing.assert_allclose(Z[:, at], part.features(X if ranks is None else ranks.forward(X)), rtol=1e-12)
    assert draw().parts[0][0] is None
    assert JointMap(()).features(X).shape == (50, 0)


def test_the_pullback_of_joint_maps_is_that_of_differences():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    phi, step = joint_map(X), 1e-7
    Z, G = 0.7 * rng.standard_normal((9, 3)), rng.standard_normal((9, 15))
    slopes = [((phi.features(Z + step * e) - phi.features(Z - step * e)) * G).sum(axis=1) for e in np.eye(3)]
    np.testing.assert_allclose(phi.pullback(Z, G), np.stack(slopes, axis=1) / (2 * step), atol=1e-5)


class NumpyGraph:
    """Operations of a graph, computed at once."""

    def __call__(self, kind, *inputs):
        return {"MatMul": np.matmul, "Add": np.add, "Sin": np.sin, "Mul": np.multiply}[kind](*inputs)


def test_the_graph_of_cosines_has_their_features():
    phi, X = draw(), np.random.default_rng(1).standard_normal((7, 5))
    for given in (phi, phi.astype(np.float32)):
        found = given.graph(NumpyGraph(), X, double=False)
        assert found.dtype == given.dtype(double=False) == np.float64
        np.testing.assert_allclose(found, given.astype(np.float64).features(X), atol=1e-12)
    with pytest.raises(TypeError, match="JointMap is a feature map that to_onnx does not know"):
        JointMap(()).graph(NumpyGraph(), X, double=True)


def test_cosines_are_a_kernel_by_their_products():
    phi, rng = draw(), np.random.default_rng(1)
    A, B, alpha = rng.standard_normal((7, 5)), rng.standard_normal((8, 5)), rng.standard_normal((8, 2))
    K = phi.features(A) @ phi.features(B).T
    np.testing.assert_allclose(phi.between(phi.codes(A, float), phi.codes(B, float), float), K)
    np.testing.assert_allclose(phi.at(B).features(A) @ phi.weights(B, alpha), K @ alpha, atol=1e-12)
    np.testing.assert_allclose(phi.diagonal(A), np.diag(phi.features(A) @ phi.features(A).T))
    assert phi.is_product
    assert not phi.is_local
    assert phi.role == "single inputs"


def test_kernels_at_points_are_in_the_precision_of_these():
    points = np.random.default_rng(0).standard_normal((6, 3))
    single = GaussianMap(points.astype(np.float32), np.eye(3))
    assert single.features(points).dtype == single.dtype(double=False) == np.float32
    assert single.dtype(double=True) == np.float64
    assert GaussianMap(points, np.eye(3)).dtype(double=False) == np.float64
    assert not single.is_product
    assert not single.is_local
    assert single.diagonal(points) == 1
    np.testing.assert_allclose(np.diag(GaussianMap(points, np.eye(3)).features(points)), 1)
