"""Targets on a scale where they are nearly normal, the way back, and a fit on both scales."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import yeojohnson, yeojohnson_normmax

from mlkm import MLKMRegressor
from mlkm.model.machine import input_gradient, predict
from mlkm.model.transforms import (
    TargetTransform,
    fit_back_transform,
    fit_target_transform,
    inverse_yeo_johnson,
    share_of_spread,
    straightness,
    yeo_johnson,
)
from mlkm.search.policy import Policy, policy_context
from mlkm.solve import dual


def skewed(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.exp(0.6 * X[:, 0] + 0.4 * np.sin(2 * X[:, 1]) + 0.2 * rng.standard_normal(n))


@pytest.mark.parametrize("power", [0.0, 0.4, 1.0, 1.7, 2.0])
def test_the_transform_is_scipys_and_its_inverse_leads_back(power):
    u = np.linspace(-5, 5, 41)
    np.testing.assert_allclose(yeo_johnson(u, power), yeojohnson(u, power), atol=1e-12)
    np.testing.assert_allclose(inverse_yeo_johnson(yeo_johnson(u, power), power), u, atol=1e-10)


def test_the_power_is_that_of_the_largest_likelihood_within_its_bounds():
    y = np.random.default_rng(0).gamma(6.0, size=3000)
    power = fit_target_transform(y[:, None], np.ones(len(y)))
    u = (y - power.centre) / power.spread
    assert power.power[0] == pytest.approx(yeojohnson_normmax(u), abs=1e-3)
    heavy = fit_target_transform(np.exp(4 * np.random.default_rng(1).standard_normal((300, 1))), np.ones(300))
    assert 0 <= heavy.power[0] < 0.01


@given(st.floats(-1e3, 1e3), st.floats(0.01, 100), st.booleans())
@settings(max_examples=30, deadline=None)
def test_units_and_signs_of_targets_do_not_matter(origin, unit, mirrored):
    y, ones = np.random.default_rng(0).gamma(2.0, size=200)[:, None], np.ones(200)
    sign = -1 if mirrored else 1
    there = fit_target_transform(origin + sign * unit * y, ones)
    Z = sign * there.forward(origin + sign * unit * y)
    np.testing.assert_allclose(Z, fit_target_transform(y, ones).forward(y), atol=1e-3)


def test_a_weight_is_a_number_of_copies():
    y, copies = np.random.default_rng(0).gamma(2.0, size=(60, 1)), np.random.default_rng(1).integers(1, 4, 60)
    weighted, repeated = (
        fit_target_transform(y, copies.astype(float)),
        fit_target_transform(np.repeat(y, copies, 0), np.ones(copies.sum())),
    )
    for name in ("power", "mean", "sd"):  # quantiles of few rows depend a little on how copies are lumped
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), atol=0.05)


def test_beyond_the_training_targets_the_way_back_is_their_tangent():
    y = np.random.default_rng(0).lognormal(size=(300, 1))
    power = fit_target_transform(y, np.ones(300))
    h = 1e-5
    inside = (power.backward(power.high[None] - h) - power.backward(power.high[None] - 2 * h)) / h
    far = (power.backward(power.high[None] + 3) - power.backward(power.high[None] + 1)) / 2
    np.testing.assert_allclose(far, inside, rtol=1e-3)
    np.testing.assert_allclose(power.backward(power.forward(y)), y, rtol=1e-8)


def test_the_way_back_is_the_mean_over_the_errors():
    """Of a logarithm with normal errors, exp(f + s^2 / 2)."""
    z = np.linspace(-3, 3, 2001)[:, None]
    power = TargetTransform(*np.array([[0.0], [0.0], [1.0], [0.0], [1.0], [0.0], [8.0]]))  # y = exp(z) - 1 above zero
    errors = 0.3 * np.random.default_rng(0).standard_normal((20_000, 1))
    back_transform = fit_back_transform(power, errors, np.ones(len(errors)))
    f = z[(z > 1.5)[:, 0]]
    np.testing.assert_allclose(back_transform.mean(f) + 1, np.exp(f + 0.045), rtol=0.01)
    exact = np.sqrt(np.expm1(0.09)) * np.exp(f + 0.045)
    np.testing.assert_allclose(back_transform.deviation(f), exact, rtol=0.05)
    slope = (back_transform.mean(f + 1e-4) - back_transform.mean(f - 1e-4)) / 2e-4
    assert np.median(np.abs(back_transform.slope(f) / slope - 1)) < 1e-6
    np.testing.assert_allclose(back_transform.times(2.0).mean(f), 2 * back_transform.mean(f))


def test_straight_targets_have_one_scale_and_skewed_ones_two():
    X, y = skewed()
    model = MLKMRegressor(random_state=0).fit(X, y)
    assert len(model.machines_) == 2
    assert 0.1 < model.fitted_.uncertainty.transformed.share < 1
    plain = MLKMRegressor(random_state=0).fit(X, np.log(y))
    assert len(plain.machines_) == 1
    ones = np.ones(len(y))
    assert straightness(y[:, None], np.zeros((len(y), 1)), ones) == 1  # nothing to tell apart
    assert straightness(y[:, None], np.log(y)[:, None], ones) < 0.9


def test_a_fit_on_both_scales_beats_one_on_one():
    """Effects and noise multiply: error at new rows over some draws, without and with the other scale."""
    new = skewed(2000, seed=99)[0]
    truth = np.exp(0.6 * new[:, 0] + 0.4 * np.sin(2 * new[:, 1]) + 0.02)
    errors = []
    for straight in (0.99, -1.0):
        with policy_context(replace(Policy(), straight=straight)):
            fits = [MLKMRegressor(random_state=0).fit(*skewed(200, seed)).predict(new) for seed in range(4)]
        errors.append(np.mean([np.mean((f - truth) ** 2) for f in fits]))
    assert errors[0] < 0.85 * errors[1]


def test_noise_that_grows_with_the_level_is_told_from_noise_that_does_not():
    rng = np.random.default_rng(0)
    spread, ones = np.exp(rng.standard_normal((1000, 1))), np.ones(1000)
    assert share_of_spread(spread * rng.standard_normal((1000, 1)), spread, ones) > 0.9
    assert share_of_spread(rng.standard_normal((1000, 1)), spread, ones) < 0.05


def test_standard_deviations_grow_with_the_level():
    X, y = skewed(800)
    new, outcome = skewed(2000, seed=1)
    f, std = MLKMRegressor(random_state=0).fit(X, y).predict(new, return_std=True)
    order = np.argsort(f)
    low, high = order[:600], order[-600:]
    assert std[high].mean() > 2 * std[low].mean()
    for part in (low, high):  # the root mean square of standardised errors is near 1 at both ends
        assert 0.5 < np.sqrt(np.mean(((outcome - f) / std)[part] ** 2)) < 1.6


def test_gradients_go_through_the_link():
    X, y = skewed(200)
    model = MLKMRegressor(random_state=0).fit(X, y)
    machine, Z, h = model.machines_[1], 0.7 * np.random.default_rng(5).standard_normal((40, 3)), 1e-3
    gradient = input_gradient(machine, Z)
    numeric = np.stack(
        [(predict(machine, Z + h * e) - predict(machine, Z - h * e))[:, 0] / (2 * h) for e in np.eye(3)], axis=1
    )
    assert np.median(np.abs(gradient - numeric) / (np.abs(numeric) + 1e-2)) < 0.03  # in float32, with kinks


def test_leave_one_out_on_both_scales_is_that_of_fits_without_the_row():
    """Kernels, variances, shares and the way back held fixed."""
    X, y = skewed(90)
    model = MLKMRegressor(random_state=0).fit(X, y)
    fit, i = model.fitted_.uncertainty, 7
    rows, member = fit.rows, fit.members[-1]
    assert fit.transformed_share > 0
    kept = np.delete(np.arange(len(rows)), i)
    transformed = fit.transformed
    K = transformed.kernel.matrix(rows.X, rows.X) + np.diag(transformed.noise / rows.weights)
    Z, ones = transformed.target_transform.forward(rows.Y), np.ones((len(kept), 1))
    whole = np.block([[K[np.ix_(kept, kept)], ones], [ones.T, np.zeros((1, 1))]])
    solved = np.linalg.solve(whole, np.vstack([Z[kept], [[0.0]]]))
    without = transformed.kernel.matrix(rows.X[[i]], rows.X[kept]) @ solved[:-1] + solved[-1]
    np.testing.assert_allclose(
        member.loo_predictions(Z, rows.copies)[i], transformed.back_transform.mean(without)[0], atol=1e-6
    )
    new = np.vstack([rows.X[[i]], rows.X[:3] + 0.1])
    f = member.smoother.weights(new) @ Z
    there = transformed.kernel.matrix(new, rows.X[kept]) @ solved[:-1] + solved[-1]
    changes = member.changes(new, rows.copies)[:, i]
    np.testing.assert_allclose(
        changes, transformed.back_transform.mean(f) - transformed.back_transform.mean(there), atol=1e-6
    )
    left = model.leave_one_out(X, y)
    assert np.sqrt(np.mean(left.residuals**2)) < 0.7 * y.std()


def test_an_output_that_does_not_vary_stays_as_it_is_beside_a_skewed_one():
    X, y = skewed(150)
    model = MLKMRegressor(random_state=0).fit(X, np.c_[y**2, np.ones(150)])
    f, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(f[:, 1], 1, atol=1e-9)
    assert np.isfinite(std).all()


def test_the_other_scale_leaves_a_stack_of_which_it_has_next_to_nothing():
    """Three rows far out: all that is left is the mean, and noise is of one size."""
    X, y = skewed(150)
    y[:3] = 1e8
    model = MLKMRegressor(random_state=0).fit(X, y)
    fit = model.fitted_.uncertainty
    assert fit.transformed is None or fit.transformed_share >= Policy().least_share
    assert len(model.machines_) == 1 + (fit.transformed is not None)
    f, std = model.predict(X, return_std=True)
    assert np.isfinite(f).all()
    assert (std <= np.ptp(y)).all()


def test_errors_of_rows_left_out_are_of_rows_not_seen_where_not_all_are_solved_on():
    """With next to no noise no more than FLOAT64_FACTOR_ROWS rows are solved on; rows left out are among these."""
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((700, 2)), rng.standard_normal((500, 2))

    def f(Z):
        return np.exp(np.sin(2 * Z[:, 0]) + 0.5 * Z[:, 1])

    with pytest.MonkeyPatch.context() as patch, policy_context(replace(Policy(), stack_rows=300)):
        patch.setattr(dual, "FLOAT64_FACTOR_ROWS", 600)
        model = MLKMRegressor(random_state=0).fit(X, f(X))
    true = np.sqrt(np.mean((model.predict(new) - f(new)) ** 2))
    assert 0.3 * true < np.sqrt(model.loo_error_) < 10 * true
