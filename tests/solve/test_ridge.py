"""The closed form: ridge on random features, exact leave-one-out, and its limit, kernel ridge regression."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.preprocessing import KernelCenterer

from mlkm import MLKMRegressor, RandomFeatureRidge, RandomFeatures
from mlkm.kernels import as_kernel
from mlkm.solve.ridge import ridge

KERNELS = ["gaussian", "matern", "laplacian", "cauchy"]
SIZES = [pytest.param(40, 12, id="primal"), pytest.param(25, 60, id="dual")]


def arrays(n=40, D=12, k=1, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, D)) + 1, rng.standard_normal((n, k)) + 3, rng.uniform(0.2, 2.0, n)


def regression(n=80, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(1, 2, (n, d))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 5 + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(("n", "D"), SIZES)
def test_ridge_is_that_of_scikit_learn(n, D, k, weighted):
    """(1/n) sum w (y - f)^2 + lambda |c|^2 with weights of mean one is scikit-learn's with alpha = n lambda; the
    intercept is free."""
    F, Y, weights = arrays(n, D, k)
    weights = weights if weighted else np.ones(n)
    for penalty in (1e-6, 1e-2, 10.0):
        fit = ridge(F, Y, weights if weighted else None, penalty)
        reference = Ridge(alpha=n * penalty, solver="svd").fit(F, Y, sample_weight=weights / weights.mean())
        np.testing.assert_allclose(fit.coefficients, np.atleast_2d(reference.coef_).reshape(k, D).T, atol=1e-8)
        np.testing.assert_allclose(fit.intercept, np.ravel(reference.intercept_), atol=1e-8)


def test_weights_do_not_depend_on_their_unit():
    F, Y, weights = arrays()
    np.testing.assert_allclose(
        ridge(F, Y, weights, 1e-2).coefficients, ridge(F, Y, 7 * weights, 1e-2).coefficients, rtol=1e-10
    )


def test_dual_side_equals_primal_side():
    """More features than rows, most of them zero: the same fit as without the zeros, by the other decomposition."""
    F, Y, weights = arrays(40, 12, 2)
    wide = np.hstack([F, np.zeros((40, 50))])
    primal, dual = ridge(F, Y, weights, 1e-3), ridge(wide, Y, weights, 1e-3)
    np.testing.assert_allclose(dual.coefficients[:12], primal.coefficients, atol=1e-10)
    np.testing.assert_allclose(dual.coefficients[12:], 0, atol=1e-12)
    np.testing.assert_allclose(dual.loo_residuals, primal.loo_residuals, atol=1e-10)
    chosen = ridge(F, Y, weights), ridge(wide, Y, weights)
    assert chosen[0].penalty == pytest.approx(chosen[1].penalty, rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize(("n", "D"), SIZES)
def test_leave_one_out_is_brute_force(n, D, k, weighted):
    """Every row left out in turn and everything refitted, the intercept included."""
    F, Y, weights = arrays(n, D, k)
    weights = weights / weights.mean() if weighted else np.ones(n)
    for penalty in (1e-4, 1e-1):
        left_out = np.empty_like(Y)
        for i in range(n):
            others = np.arange(n) != i
            model = Ridge(alpha=n * penalty, solver="svd").fit(F[others], Y[others], sample_weight=weights[others])
            left_out[i] = Y[i] - np.ravel(model.predict(F[i : i + 1]))
        fit = ridge(F, Y, weights if weighted else None, penalty)
        np.testing.assert_allclose(fit.loo_residuals, left_out, atol=1e-8)
        np.testing.assert_allclose(fit.loo_error, np.average(left_out**2, axis=0, weights=weights), rtol=1e-8)


@pytest.mark.parametrize(("n", "D"), [(40, 12), (25, 60)])
def test_leave_one_out_stays_exact_on_noiseless_data(n, D):
    """Targets in the span of the features and hardly any penalty: residuals are tiny, and nothing is clipped."""
    F, _, _ = arrays(n, D)
    Y = F @ np.ones((D, 1))
    fit = ridge(F, Y, penalty=1e-12)
    brute = []
    for i in range(n):
        others = np.arange(n) != i
        model = Ridge(alpha=n * 1e-12, solver="svd").fit(F[others], Y[others])
        brute.append(Y[i, 0] - np.ravel(model.predict(F[i : i + 1]))[0])
    np.testing.assert_allclose(fit.loo_residuals[:, 0], brute, rtol=1e-4, atol=1e-9)


def test_the_chosen_penalty_has_the_smallest_leave_one_out_error():
    F, _, weights = arrays(40, 30)
    Y = F[:, :2].sum(axis=1, keepdims=True) + np.random.default_rng(1).standard_normal((40, 1))
    chosen = ridge(F, Y, weights)
    for factor in np.logspace(-6, 6, 49):
        assert ridge(F, Y, weights, chosen.penalty * factor).loo_error >= chosen.loo_error * (1 - 2e-3)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("D", [30, 200])
def test_one_layer_is_ridge_on_random_features(kernel, D):
    """The features are those of `RandomFeatures` with the same seed; alpha = n lambda, and
    standardising y changes nothing."""
    X, y = regression()
    model = RandomFeatureRidge(D, kernel, 0.4, interactions="full", linear=False, penalty=1e-3, random_state=7).fit(
        X, y
    )
    phi = RandomFeatures(D, kernel, scale=0.4, random_state=7).fit(X)
    new = np.random.default_rng(1).normal(1, 2, (50, 3))
    reference = Ridge(alpha=1e-3 * len(X), solver="svd").fit(phi.transform(X), y)
    np.testing.assert_allclose(model.predict(new), reference.predict(phi.transform(new)), atol=1e-8)


def test_one_layer_machine_is_random_feature_ridge():
    X, y = regression()
    single = RandomFeatureRidge(50, "matern", 0.3, interactions=(1, 2), linear=True, penalty=1e-3, random_state=7).fit(
        X, y
    )
    machine = MLKMRegressor(
        (50,),
        "matern",
        0.3,
        interactions=(1, 2),
        linear=True,
        relevance=False,
        penalty=1e-3,
        solver="ridge",
        random_state=7,
    )
    np.testing.assert_allclose(machine.fit(X, y).predict(X), single.predict(X), rtol=1e-10)


def test_leave_one_out_error_is_in_squared_units_of_y():
    X, y = regression()
    options = {
        "n_features": 30,
        "kernel": "gaussian",
        "scale": 0.4,
        "interactions": "full",
        "linear": False,
        "penalty": 1e-2,
        "random_state": 0,
    }
    model = RandomFeatureRidge(**options).fit(X, y)
    Z = RandomFeatures(30, "gaussian", scale=0.4, random_state=0).fit_transform(X)
    assert model.loo_error_ == pytest.approx(ridge(Z, y[:, None], penalty=1e-2).loo_error, rel=1e-8)
    assert RandomFeatureRidge(**options).fit(X, 10 * y).loo_error_ == pytest.approx(100 * model.loo_error_, rel=1e-8)


def test_leave_one_out_error_of_several_outputs_is_the_mean_of_theirs():
    X, y = regression()
    Y = np.column_stack([y, 100 * np.random.default_rng(0).standard_normal(len(y))])
    model = RandomFeatureRidge(30, "gaussian", 0.4, interactions="full", linear=False, penalty=1e-2, random_state=0)
    single = [model.fit(X, Y[:, j]).loo_error_ for j in range(2)]
    assert model.fit(X, Y).loo_error_ == pytest.approx(np.mean(single), rel=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_distance_to_kernel_ridge_falls_like_one_over_root_D(kernel):
    """A free intercept is kernel ridge with a centred kernel and a centred y. Root mean squared distances over 12
    seeds; slope on log scales."""
    X, y = regression(n=60, d=2)
    new = np.random.default_rng(1).normal(1, 2, (60, 2))
    scale, penalty = 0.5, 0.05
    K = as_kernel(kernel)
    centre = KernelCenterer().fit(K(scale * X, scale * X))
    exact = KernelRidge(alpha=penalty * len(X), kernel="precomputed").fit(
        centre.transform(K(scale * X, scale * X)), y - y.mean()
    )
    limit = y.mean() + exact.predict(centre.transform(K(scale * new, scale * X)))
    widths = [128, 512, 2048, 8192]
    distances = []
    for D in widths:
        models = (
            RandomFeatureRidge(
                D, kernel, scale, interactions="full", linear=False, penalty=penalty, random_state=seed
            ).fit(X, y)
            for seed in range(12)
        )
        distances.append(np.sqrt(np.mean([(model.predict(new) - limit) ** 2 for model in models])))
    slope = np.polyfit(np.log(widths), np.log(distances), 1)[0]
    assert -0.6 < slope < -0.4


def test_the_penalty_of_many_rows_is_found_far_from_its_beginning():
    """The leave-one-out error of noise is flat around the first guess, 1e-2/n, and least at a penalty above 1."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2600, 200)), rng.standard_normal(2600)
    model = RandomFeatureRidge(50, relevance=False, random_state=0).fit(X[:1600], y[:1600])
    assert model.penalty_ > 1
    assert np.mean((model.predict(X[1600:]) - y[1600:]) ** 2) < 1.1
