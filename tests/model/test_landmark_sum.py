"""A sum of kernels at landmarks: features of the default with many rows."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_rows import kernel_and_rows
from mixed_table import mixed

from mlkm import MLKMRegressor
from mlkm.model.machine import predict
from mlkm.model.prior import SumPart
from mlkm.search.kernel_features import features_of
from mlkm.search.kernel_search import LearnedKernel
from mlkm.search.plan import Plan
from mlkm.search.policy import Policy, policy_context
from mlkm.solve.dual import solve_dual
from mlkm.solve.ridge import ridge


def plan_of(d, n_landmarks):
    policy = replace(Policy(), layer_work=(1e12, n_landmarks, n_landmarks))
    return replace(Plan.parse({}, landmarks=True).at(d), policy=policy)


def prior_and_rows(n=60, noise=1e-4):
    """Features at landmarks that are all of the rows, since more are asked for than there are."""
    kernel, rows = kernel_and_rows(n=n)
    return kernel, rows, features_of(LearnedKernel(kernel, noise), rows, plan_of(rows.X.shape[1], 500))


def test_with_all_rows_as_landmarks_ridge_is_kernel_ridge():
    kernel, rows, prior = prior_and_rows()
    noise = 0.05
    features_fit = ridge(prior.rows_of_features(rows.X), rows.Y, rows.weights, noise / len(rows))
    kernel_fit = solve_dual(kernel, rows, noise)
    new = rows.X + 0.1
    expected = predict(kernel.machine(rows.X, kernel_fit.alpha, kernel_fit.intercept), new)
    found = predict(prior.machine(features_fit.coefficients, features_fit.intercept), new)
    np.testing.assert_allclose(found, expected, atol=2e-3 * rows.Y.std())


def test_features_have_the_kernel_as_their_product():
    kernel, rows, prior = prior_and_rows()
    F = prior.rows_of_features(rows.X)
    np.testing.assert_allclose(F @ F.T, kernel.matrix(rows.X, rows.X), atol=1e-4)


def test_a_machine_is_its_features_times_their_coefficients():
    _, rows, prior = prior_and_rows()
    rng = np.random.default_rng(0)
    C, a = rng.standard_normal((prior.n_features, 2)), rng.standard_normal(2)
    expected = prior.rows_of_features(rows.X) @ C + a
    np.testing.assert_allclose(predict(prior.machine(C, a), rows.X), expected, rtol=1e-6, atol=1e-6)


def test_factors_lead_from_the_maps_to_the_features_and_back():
    _, rows, prior = prior_and_rows()
    phi = prior.machine(np.zeros((prior.n_features, 1)), np.zeros(1)).maps[0]
    raw = np.hstack([phi.features(rows.X), rows.X])
    np.testing.assert_allclose(prior.scaled(raw), prior.rows_of_features(rows.X), rtol=1e-6, atol=1e-6)
    B = np.random.default_rng(0).standard_normal((3, prior.n_features))
    there, back = prior.scaled(raw), prior.scaled(B, transposed=True)
    np.testing.assert_allclose(there @ B.T, raw @ back.T, rtol=1e-6, atol=1e-6)


def test_single_and_double_precision_agree():
    _, rows, prior = prior_and_rows(noise=0.1)
    assert not prior.precise
    F = prior.rows_of_features(rows.X)
    np.testing.assert_allclose(prior.rows_of_features(rows.X.astype(np.float32)), F, atol=2e-2 * np.abs(F).max())


@pytest.mark.parametrize("cv", [None, "rotate"])
def test_the_default_with_many_rows_of_a_table_has_one_set_of_landmarks(cv):
    """Levels, texts and missing values too; standard deviations are positive, and the width is that of the features."""
    frame, y = mixed(900)
    sizes = replace(Policy(), kernel_rows=(300, 300), layer_work=(1e12, 60, 60), joint_rows=200, left_samples=2)
    with policy_context(sizes):
        model = MLKMRegressor(cv=cv, random_state=0).fit(frame, y)
    mean, sd = model.predict(frame[:50], return_std=True)
    assert np.isfinite(mean).all()
    assert (sd > 0).all()
    if cv is None:
        prior = model.fitted_.uncertainty.prior
        assert sum(isinstance(part, SumPart) for part in prior.parts) == 1
        assert model.widths_ == (prior.width,)
        assert model.score(frame, y) > 0.5
