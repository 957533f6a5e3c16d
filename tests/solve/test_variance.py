"""sigma_y(x) against the paper's formula written out, on every side it can be computed by."""

import pickle

import numpy as np
import pytest
from machines import jacobian, random_machine
from sklearn.base import clone
from sklearn.datasets import make_friedman1

from mlkm import MLKMRegressor, RandomFeatureRidge, RKMRegressor
from mlkm.data import plain_rows
from mlkm.model.machine import forward, output_factors, predict, predict_average
from mlkm.solve import GradientDescent
from mlkm.solve.smoother import Dual, Primal
from mlkm.solve.tangent import Tangent, factorised
from mlkm.solve.uncertainty import RidgeUncertainty

SMALL = {
    "kernels": "gaussian",
    "scales": 0.5,
    "interactions": "full",
    "linear": False,
    "solver": GradientDescent(batch_size=64),
    "random_state": 0,
}


def paper(J, G, residuals, p):
    """sigma^2 (g'(F'F)^{-1} g + 1) with sigma^2 = RSS / (n' - p), as printed."""
    sigma2 = (residuals**2).sum() / (len(J) - p)
    return np.sqrt(sigma2 * (np.einsum("np,pq,nq->n", G, np.linalg.pinv(J.T @ J, rcond=1e-13), G) + 1))


def damped(J, G, residuals, ridge):
    """The same with a ridge per weight, effective degrees of freedom n' - tr H."""
    inverse = np.linalg.inv(J.T @ J + np.diag(ridge))
    sigma2 = (residuals**2).sum() / (len(J) - np.trace(J @ inverse @ J.T))
    return np.sqrt(sigma2 * (np.einsum("np,pq,nq->n", G, inverse, G) + 1))


def rows_for(machine, n, seed=0, d=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    Y = predict(machine, X) + 0.3 * rng.standard_normal((n, machine.layers[-1][0].shape[1]))
    return X, Y, rng.standard_normal((17, d))


def dense(machine, X, output=0):
    return jacobian(output_factors(machine, forward(machine, X), output))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("widths", [(6,), (5, 4), (4, 3, 2)])
def test_without_ridge_it_is_the_papers_formula(widths, residual):
    """The biases of a residual block are redundant, so that the paper's matrix is singular for RKM: there p counts the
    weights that matter."""
    machine = random_machine(np.random.default_rng(1), widths=widths, residual=residual)
    X, Y, X_new = rows_for(machine, 400)
    J, G = dense(machine, X), dense(machine, X_new)
    variance = RidgeUncertainty((machine,), 0.0, np.zeros(1), plain_rows(X, Y))
    assert isinstance(variance.smoothers[0][0], Primal)
    spectrum = np.linalg.svd(J, compute_uv=False)
    p = int((spectrum > 1e-9 * spectrum[0]).sum())
    assert p == J.shape[1] or residual
    expected = paper(J, G, (Y - predict(machine, X))[:, 0], p)
    rounding = 1e-14 * (spectrum[0] / spectrum[p - 1]) ** 2  # of F'F, whoever inverts it
    np.testing.assert_allclose(
        variance.std(X_new)[:, 0], expected, rtol=max(1e-8, rounding) if p == J.shape[1] else 1e-4
    )


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(("widths", "n"), [((5, 4), 100), ((20, 10), 60), ((12, 6, 4), 90)])
def test_damped_it_is_the_dense_formula_by_either_side(widths, n, residual):
    machine = random_machine(
        np.random.default_rng(1), widths=widths, residual=residual, n_outputs=2, skip=True, linear=True
    )
    X, Y, X_new = rows_for(machine, n)
    variance = RidgeUncertainty((machine,), 1e-3, np.zeros(1), plain_rows(X, Y), hidden_penalty=1e-2)
    n_last = len(machine.layers[-1][0])
    n_hidden = machine.n_parameters - 2 * n_last
    for output, side in enumerate(variance.smoothers[0]):
        own = np.r_[np.arange(n_hidden), n_hidden + output + 2 * np.arange(n_last)]
        J, G = dense(machine, X, output)[:, own], dense(machine, X_new, output)[:, own]
        ridge = n * np.r_[np.full(n_hidden, 1e-2), np.full(n_last - 1, 1e-3), 0]
        assert isinstance(side, Primal if Tangent(machine, output, 1.0).n_features <= 2 * n else Dual)
        expected = damped(J, G, (Y - predict(machine, X))[:, output], ridge)
        np.testing.assert_allclose(variance.std(X_new)[:, output], expected, rtol=1e-8)


@pytest.mark.parametrize("n", [40, 300])
def test_one_layer_has_the_ridge_of_its_fit(n):
    """The closed form chooses its penalty on features of unit prior variance; tr H is the trace of the fit's own
    smoother."""
    X, y = make_friedman1(n, random_state=0)
    model = RandomFeatureRidge(100, "gaussian", 0.5, penalty=1e-3, random_state=0).fit(X, y)
    Z = model.x_scaler_.forward(X)
    F = np.hstack([model.machines_[0].maps[0].features(Z), 0.5 * X])  # slopes have the scale, as features have
    F -= F.mean(axis=0)
    A = F.T @ F + n * 1e-3 * np.eye(F.shape[1])
    H = F @ np.linalg.solve(A, F.T) + 1 / n
    mean, std = model.predict(X, return_std=True)
    sigma2 = ((y - mean) ** 2).sum() / (n - np.trace(H))
    np.testing.assert_allclose(std, np.sqrt(sigma2 * (np.diag(H) + 1)), rtol=1e-8)
    np.testing.assert_allclose(mean, model.predict(X), rtol=1e-10)


@pytest.mark.parametrize("n", [60, 300])
def test_leave_one_out_is_refitting_without_the_row(n):
    X, y = make_friedman1(n, random_state=0)
    model = RandomFeatureRidge(100, "gaussian", 0.5, penalty=1e-3, random_state=0).fit(X, y)
    variance = model.fitted_.uncertainty
    slopes = 0.5 * model.x_scaler_.sd
    Z, F_of = variance.rows.X, lambda Z: np.hstack([model.machines_[0].maps[0].features(Z), Z * slopes])
    f, changes = predict_average(variance.machines, Z[:5]), variance.left_out_changes(Z[:5])
    residuals = variance.left_out_residuals
    for i in (0, n // 2, n - 1):
        kept = np.arange(n) != i
        F, Y = F_of(Z[kept]), variance.rows.Y[kept]
        mean, Y_mean = F.mean(axis=0), Y.mean(axis=0)
        C = np.linalg.solve((F - mean).T @ (F - mean) + n * 1e-3 * np.eye(F.shape[1]), (F - mean).T @ (Y - Y_mean))
        np.testing.assert_allclose(
            residuals[i], variance.rows.Y[i] - (F_of(Z[[i]]) - mean) @ C[:, 0] - Y_mean, rtol=1e-6
        )
        np.testing.assert_allclose(f[:, 0] - changes[:, i, 0], (F_of(Z[:5]) - mean) @ C[:, 0] + Y_mean, rtol=1e-6)


@pytest.mark.parametrize("kind", [MLKMRegressor, RKMRegressor])
@pytest.mark.parametrize("cv", [None, "rotate"])
def test_any_fit_has_a_positive_finite_std(kind, cv):
    X, y = make_friedman1(150, random_state=0)
    for widths in ((8,), (16, 4), (32, 16)):
        model = clone(kind(widths, cv=cv, **SMALL)).set_params(solver__max_iter=20).fit(X, y)
        mean, std = model.predict(100 * X, return_std=True)
        assert mean.shape == std.shape == (150,)
        assert np.isfinite(std).all()
        assert (std > 0).all()


def test_projection_and_default_fits_have_a_std():
    X, y = make_friedman1(200, noise=1.0, random_state=0)
    for model in (MLKMRegressor((32, 4), random_state=0), MLKMRegressor(random_state=0)):
        std = model.fit(X, y).predict(X, return_std=True)[1]
        assert np.isfinite(std).all()
        assert 0.5 < np.median(std) < 2  # the noise has standard deviation 1


def test_the_default_fits_prior_is_used():
    """The shares of the members and their smoothers give back the fit."""
    rng = np.random.default_rng(0)
    X = rng.random((300, 2))
    y = np.sign(np.sin(9 * X[:, 0])) + X[:, 1] + 0.1 * rng.standard_normal(300)
    model = MLKMRegressor(random_state=0).fit(X, y)
    variance = model.fitted_.uncertainty
    new, Y = variance.rows.X[:50], variance.rows.Y
    fitted = sum(m.share * (m.smoother.weights(new) @ Y) for m in variance.members if m.back_transform is None)
    one = predict(model.machines_[0], new) / len(model.machines_)  # that of targets as they are
    np.testing.assert_allclose(fitted, one, atol=1e-3)  # the solve is in float32


def test_interpolation_constant_targets_and_copies_are_no_trouble():
    X, y = make_friedman1(40, random_state=0)
    for inputs, targets, penalty in [
        (X, y, 0.0),
        (X, np.ones(40), "auto"),
        (np.repeat(X[:4], 10, axis=0), y, 1e-3),
        (X[:, :1] * 0, y, 1e-3),
    ]:
        std = (
            RandomFeatureRidge(200, "gaussian", 0.5, penalty=penalty, random_state=0)
            .fit(inputs, targets)
            .predict(inputs, return_std=True)[1]
        )
        assert np.isfinite(std).all()
        assert (std >= 0).all()


def test_weight_k_is_k_copies_and_outputs_stand_alone():
    X, y = make_friedman1(80, random_state=0)
    weights = np.r_[np.full(40, 3), np.ones(40)].astype(int)
    model = RandomFeatureRidge(30, "gaussian", 0.5, penalty=1e-3, random_state=0)
    weighted = clone(model).fit(X, y, sample_weight=weights).predict(X, return_std=True)[1]
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).predict(X, return_std=True)[1]
    np.testing.assert_allclose(weighted, repeated, rtol=1e-10)
    both = clone(model).fit(X, np.column_stack([y, -2 * y])).predict(X, return_std=True)[1]
    alone = clone(model).fit(X, y).predict(X, return_std=True)[1]
    np.testing.assert_allclose(both, np.column_stack([alone, 2 * alone]), rtol=1e-8)


def test_random_projection_keeps_the_leverages():
    """Both sides above the limit: a thousand combinations of p = 1,265 gradients, 144 degrees of freedom: low by the
    ratio of the two."""
    machine = random_machine(np.random.default_rng(1), d=4, widths=(30, 24, 20))
    X, Y, _ = rows_for(machine, 1200, d=4)
    X_new = np.random.default_rng(5).standard_normal((200, 4))
    exact, rough = (factorised(Tangent(machine, 0, 1.0), plain_rows(X, Y), 1.0, side) for side in (5000, 1000))
    a, b = exact.leverage(X_new), rough.leverage(X_new)
    assert 0.8 < np.median(b / a) < 1.05
    assert np.corrcoef(np.log(a), np.log(b))[0, 1] > 0.9
    assert 0.85 < rough.degrees / exact.degrees < 1.05


def test_the_factorisation_is_made_once_and_never_pickled():
    X, y = make_friedman1(100, random_state=0)
    model = RandomFeatureRidge(30, "gaussian", 0.5, random_state=0).fit(X, y)
    assert "smoothers" not in vars(model.fitted_.uncertainty)
    std = model.predict(X, return_std=True)[1]
    smoothers = vars(model.fitted_.uncertainty)["smoothers"]
    model.predict(X, return_std=True)
    assert model.fitted_.uncertainty.smoothers is smoothers
    restored = pickle.loads(pickle.dumps(model))
    assert "smoothers" not in vars(restored.fitted_.uncertainty)
    np.testing.assert_array_equal(restored.predict(X, return_std=True)[1], std)
    model.fit(X, 2 * y)
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], 2 * std, rtol=1e-6)


def test_a_fit_that_interpolates_does_not_claim_to_know():
    """Leave-one-out picks a penalty of 1e-15 here; without it the standard deviation would be 1e-6, the error being
    0.4."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((650, 20))
    y = 2 * np.cos(2 * X[:, 0]) * np.exp(-(X[:, 1] ** 2)) + 0.3 * np.sin(3 * X[:, 2]) + 0.3 * rng.standard_normal(650)
    mean, sd = MLKMRegressor(random_state=0).fit(X[:150], y[:150]).predict(X[150:], return_std=True)
    assert 0.5 < sd.mean() / np.sqrt(np.mean((mean - y[150:]) ** 2)) < 2
