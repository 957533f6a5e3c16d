"""Kernels, and that random features have them as their mean: E[phi(x)'phi(x')] = K(x, x')."""

import pickle
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Matern as SklearnMatern
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVR

from mlkm.kernels import Cauchy, Gaussian, Kernel, Laplacian, Matern, as_kernel
from mlkm.model.draws import draw_features

KERNELS = [Gaussian(), Matern(0.5), Matern(1.5), Matern(2.5), Matern(0.8), Laplacian(), Cauchy()]
SAMPLINGS = ["iid", "orthogonal"]
INTERACTIONS = [1, 2, "full", (1, 2, "full"), (1, "full")]
POINTS = np.array([[0.0, 0.0, 0.0, 0.0], [0.9, -0.4, 0.6, 0.3], [0.2, 1.1, -0.5, -0.8]])
SCALES = np.array([1.0, 0.7, 1.2, 0.9])
DRAWS, FEATURES = 300, 101

# False alarms: one t-test per kernel, sampling, interaction and pair of points. All of them together have level 5e-4
# (Bonferroni).
N_TESTS = len(KERNELS) * len(SAMPLINGS) * len(INTERACTIONS) * 3
BOUND = student.ppf(1 - 5e-4 / N_TESTS / 2, DRAWS - 1)


def exact_kernel(kernel, X, interactions):
    """The kernel of an interaction order q: the mean over all subsets of q inputs; of several orders: the mean over
    orders."""
    d = X.shape[1]
    orders = [d if q == "full" else q for q in (interactions if isinstance(interactions, tuple) else (interactions,))]
    return np.mean(
        [np.mean([kernel(X[:, s], X[:, s]) for s in map(list, combinations(range(d), q))], axis=0) for q in orders],
        axis=0,
    )


def estimates(kernel, sampling, interactions):
    """phi(x)'phi(x') in independent draws of phi, (draws, points, points)."""
    maps = (
        draw_features(np.random.default_rng([seed, 7]), 4, FEATURES, kernel, SCALES, interactions, sampling)
        for seed in range(DRAWS)
    )
    return np.array([phi @ phi.T for phi in (phi.features(POINTS) for phi in maps)])


def largest_t(sample, K):
    """The largest studentised distance between the mean of the draws and K(x, x'), over pairs of points."""
    pairs = np.triu_indices(len(POINTS), 1)
    statistics = (sample.mean(axis=0) - K) / (sample.std(axis=0, ddof=1) / np.sqrt(DRAWS))
    return np.abs(statistics[pairs]).max()


@pytest.mark.parametrize("interactions", INTERACTIONS, ids=str)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_features_have_the_kernel_as_their_mean(kernel, sampling, interactions):
    """Level 5e-4 over all cases; and the same test sees a scale that is wrong by 20 % in every case, so it has
    power."""
    sample = estimates(kernel, sampling, interactions)
    assert largest_t(sample, exact_kernel(kernel, SCALES * POINTS, interactions)) < BOUND
    assert largest_t(sample, exact_kernel(kernel, 1.2 * SCALES * POINTS, interactions)) > BOUND
    assert largest_t(sample, exact_kernel(kernel, SCALES * POINTS / 1.2, interactions)) > BOUND


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_features_have_norm_one_on_average(kernel, sampling):
    """K(x, x) = 1, at the level 5e-4 over the 14 cases."""
    norms = []
    for seed in range(DRAWS):
        phi = draw_features(np.random.default_rng([seed, 8]), 4, FEATURES, kernel, 1.0, (1, 2), sampling)
        norms.append((phi.features(POINTS[1:2]) ** 2).sum())
    statistic = (np.mean(norms) - 1) / (np.std(norms, ddof=1) / np.sqrt(DRAWS))
    assert abs(statistic) < student.ppf(1 - 5e-4 / 14 / 2, DRAWS - 1)


def points(seed=0, shape=(20, 3)):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("nu", [0.5, 0.8, 1.5, 2.2, 2.5, 3.5])
def test_matern_is_that_of_scikit_learn(nu):
    X, Y = points(0), points(1, (10, 3))
    np.testing.assert_allclose(Matern(nu)(X, Y), SklearnMatern(nu=nu)(X, Y), rtol=1e-10, atol=1e-14)


def test_gaussian_and_laplacian_are_those_of_scikit_learn():
    X, Y = points(0), points(1, (10, 3))
    np.testing.assert_allclose(Gaussian()(X, Y), rbf_kernel(X, Y, gamma=0.5), rtol=1e-10)
    np.testing.assert_allclose(Laplacian()(X, Y), laplacian_kernel(X, Y, gamma=1.0), rtol=1e-10)


def test_cauchy_is_its_formula():
    X, Y = points(0), points(1, (10, 3))
    expected = [[np.prod([1 / (1 + (a - b) ** 2) for a, b in zip(x, y, strict=True)]) for y in Y] for x in X]
    np.testing.assert_allclose(Cauchy()(X, Y), expected, rtol=1e-12)


@pytest.mark.parametrize("kernel", [*KERNELS, Matern(3.7)], ids=repr)
def test_kernels_are_one_on_the_diagonal_symmetric_and_positive(kernel):
    K = kernel(points(), points())
    np.testing.assert_allclose(np.diag(K), 1, rtol=1e-12)
    np.testing.assert_allclose(K, K.T, rtol=1e-12)
    assert np.linalg.eigvalsh(K).min() > 0


@pytest.mark.parametrize("nu", [4.5, 5.0, 12.0, 40.0])
def test_smooth_matern_is_finite_at_and_near_zero_distance(nu):
    X = points()
    K = Matern(nu)(X, X + 1e-12)
    np.testing.assert_allclose(np.diag(Matern(nu)(X, X)), 1, rtol=1e-8)
    np.testing.assert_allclose(np.diag(K), 1, rtol=1e-8)


def test_matern_tends_to_gaussian():
    X = points()
    distance = [np.abs(Matern(nu)(X[:10], X[10:]) - Gaussian()(X[:10], X[10:])).max() for nu in (2, 8, 32)]
    assert distance[0] > 3 * distance[1] > 9 * distance[2]


@pytest.mark.parametrize("name", ["rbf", "Gaussian", "", None, 3, Gaussian, np.cos])
def test_a_bad_kernel_is_named_in_the_message(name):
    with pytest.raises(ValueError, match=r"one of 'gaussian', 'matern', 'laplacian', 'cauchy'.*; got ") as error:
        as_kernel(name)
    assert repr(name) in str(error.value) or getattr(name, "__name__", "?") in str(error.value)


@pytest.mark.parametrize("nu", [0, -1.0, np.inf, np.nan, "x", None, [1.5], 1j, True, np.array([0.5, 1.5])], ids=repr)
def test_bad_smoothness(nu):
    with pytest.raises(ValueError, match="smoothness nu of a Matern kernel must be a positive number"):
        Matern(nu)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("nu", [1e-310, 1e-5, 1e-2, 0.1])
def test_rough_matern_has_finite_features(nu, dtype):
    """Its frequencies overflowed, and the features were NaN. With nu to 0, the kernel is 1 at x = x' and 0 elsewhere:
    the mean of 4000 products, each at most 2, is within 6 standard errors of it."""
    phi = draw_features(np.random.default_rng(0), 4, 4000, Matern(nu), 1.0, "full", "iid").astype(dtype)
    product = np.vstack([phi.features(POINTS.astype(dtype))] * 2)
    product = product @ product.T
    assert np.isfinite(product).all()
    np.testing.assert_allclose(product[:3, :3], Matern(nu)(POINTS, POINTS), atol=6 * np.sqrt(1 / 4000))
    assert np.isfinite(Matern(nu)(POINTS, POINTS)).all()


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_between_two_vectors_a_kernel_is_a_number(kernel):
    K = kernel(POINTS, POINTS)
    for i, x in enumerate(POINTS):
        for j, y in enumerate(POINTS):
            assert np.ndim(kernel(x, y)) == 0
            assert float(kernel(x, y)) == pytest.approx(K[i, j], rel=1e-12)
            assert float(kernel(x.tolist(), y.tolist())) == float(kernel(x, y))


def test_kernel_ridge_takes_a_kernel():
    X, y = points(0, (40, 3)), points(1, (40,))
    ours, theirs = KernelRidge(kernel=Gaussian(), alpha=0.3), KernelRidge(kernel="rbf", gamma=0.5, alpha=0.3)
    np.testing.assert_allclose(ours.fit(X, y).predict(X[:9] + 1), theirs.fit(X, y).predict(X[:9] + 1), rtol=1e-9)
    search = GridSearchCV(KernelRidge(), {"kernel": [Gaussian(), Matern(1.5), Cauchy()]}, cv=2).fit(X, y)
    assert search.best_params_["kernel"] in KERNELS
    vectors = SVR(kernel=Laplacian()).fit(X, y)  # which asks for the matrix
    np.testing.assert_allclose(vectors.predict(X), SVR(kernel=_laplacian).fit(X, y).predict(X), rtol=1e-9)


def _laplacian(X, Y):
    return laplacian_kernel(X, Y, gamma=1.0)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels_clone_hash_and_pickle(kernel):
    assert {kernel, clone(kernel, safe=False), pickle.loads(pickle.dumps(kernel))} == {kernel}


@pytest.mark.parametrize("name", ["gaussian", "matern", "laplacian", "cauchy"])
def test_names_give_kernels(name):
    kernel = as_kernel(name)
    assert isinstance(kernel, Kernel)
    assert as_kernel(kernel) is kernel
