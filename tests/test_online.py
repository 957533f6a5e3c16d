"""Bands in time order: the share of misses stays near alpha along any sequence."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from mlkm import ConformalRegressor, OnlineConformal, RandomFeatureRidge, metrics


def not_in_time_order(band):
    """A row of weight 2 has one time, its two copies have two."""
    checks = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(checks, "the later half of the rows starts the calibration, whatever their weights")


@parametrize_with_checks([OnlineConformal(Ridge())], expected_failed_checks=not_in_time_order)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def drifting(n=3000, seed=0):
    """The noise quadruples and the mean moves, from the middle on."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    late = np.arange(n) > n // 2
    return X, X[:, 0] + np.where(late, 2.0, 0.0) + np.where(late, 4.0, 1.0) * rng.standard_normal(n)


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_level_is_kept_through_a_drift(level):
    """Misses are not independent, so the margin is two points rather than a standard error; a fixed band loses ten or
    more."""
    X, y = drifting()
    band = OnlineConformal(LinearRegression(), confidence_level=level).fit(X[:600], y[:600])
    share = metrics.coverage(y[600:], band.predict_online(X[600:], y[600:])[1]).share
    assert abs(share - level) < 0.02
    fixed = ConformalRegressor(LinearRegression(), confidence_level=level, score="absolute", random_state=0).fit(
        X[:600], y[:600]
    )
    assert metrics.coverage(y[600:], fixed.predict_interval(X[600:])[1]).share < level - 0.1


def test_the_decaying_step_settles_at_the_quantile():
    """Where nothing drifts, both ends end near the true quantiles, 1.645, although the model is off by 1 and the start
    knows 20 rows."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20_000, 1)), 1 + rng.standard_normal(20_000)
    model = LinearRegression().fit(X[:2], [0, 0])
    band = OnlineConformal(model, confidence_level=0.9, method="decaying").conformalize(X[:20], y[:20])
    interval = band.predict_online(X[20:], y[20:])[1]
    assert abs(metrics.coverage(y[20:], interval).share - 0.9) < 0.01
    np.testing.assert_allclose(interval[-5000:, :, 0].mean(axis=0), [1 - 1.645, 1 + 1.645], atol=0.1)


@pytest.mark.parametrize("method", ["adaptive", "decaying"])
def test_row_by_row_and_at_once_are_the_same(method):
    X, y = drifting(400)
    model = OnlineConformal(RandomFeatureRidge(10, scale=1.0, random_state=0), score="variance", method=method)
    at_once = clone(model).fit(X[:200], y[:200]).predict_online(X[200:], y[200:])[1]
    band = clone(model).fit(X[:200], y[:200])
    rows = []
    for x, outcome in zip(X[200:], y[200:], strict=True):
        rows.append(band.predict_interval(x[None])[1])
        band.update(outcome)
    np.testing.assert_allclose(np.vstack(rows), at_once, rtol=1e-9)


def test_outcomes_may_come_late():
    X, y = drifting(300)
    band = OnlineConformal(LinearRegression()).conformalize
    with pytest.raises(NotFittedError, match="needs a fitted regressor"):
        band(X, y)
    model = LinearRegression().fit(X[:100], y[:100])
    band = OnlineConformal(model).conformalize(X[100:200], y[100:200])
    band.predict_interval(X[200:210])
    band.update(y[200:204]).update(y[204])
    with pytest.raises(ValueError, match="6 outcomes where 5 predicted rows wait"):
        band.update(y[205:211])


def test_outcomes_are_checked_and_leave_the_band_as_it_was():
    X, y = drifting(300)
    with pytest.raises(NotFittedError):
        OnlineConformal(LinearRegression()).update(1.0)
    band = OnlineConformal(LinearRegression()).fit(X[:200], y[:200])
    before = band.predict_interval(X[200:202])[1]
    for bad in (np.nan, [1.0, np.inf]):
        with pytest.raises(ValueError, match="Input y contains"):
            band.update(bad)
    np.testing.assert_array_equal(band.update([]).predict_interval(X[200:202])[1], before)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        band.conformalize(X[:10], y[:9])


def test_calibrating_anew_forgets_the_earlier_model():
    X, y = drifting(300)
    model = LinearRegression().fit(X[:100], y[:100])
    band = OnlineConformal(LinearRegression()).fit(X, -y).set_params(estimator=model).conformalize(X[100:], y[100:])
    fresh = OnlineConformal(model).conformalize(X[100:], y[100:])
    np.testing.assert_array_equal(band.predict_interval(X)[1], fresh.predict_interval(X)[1])


@pytest.mark.parametrize("window", [None, 7])
def test_the_threshold_is_the_quantile_of_the_latest_scores(window):
    X, y = drifting(200)
    band = OnlineConformal(LinearRegression(), window=window, confidence_level=0.8).fit(X[:100], y[:100])
    band.predict_online(X[100:], y[100:])
    for end in band._ends:
        assert end.ordered == sorted(end.recent)
        assert len(end.recent) == (150 if window is None else window)
        if 0 < end.level < 1:
            assert end.threshold == pytest.approx(np.quantile(end.recent, 1 - end.level))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "x"}, "method must be"),
        ({"method": "decaying", "decay": 0.5}, "decay must be"),
        ({"step": -1}, "step must be positive"),
        ({"step": np.nan}, "step must be positive"),
        ({"window": -3}, "window == -3"),
        ({"window": 0}, "window == 0"),
        ({"calibration_size": 1.5}, "calibration_size must be"),
    ],
)
def test_messages(parameters, message):
    X, y = drifting(100)
    with pytest.raises(ValueError, match=message):
        OnlineConformal(LinearRegression(), **parameters).fit(X, y)
    with pytest.raises(TypeError, match="window must be an instance of"):
        OnlineConformal(LinearRegression(), window=2.5).fit(X, y)
    with pytest.raises(ValueError, match="one output"):
        OnlineConformal(LinearRegression()).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="one output"):
        OnlineConformal(LinearRegression().fit(X, np.column_stack([y, y]))).conformalize(X, y)
