"""Bands in time order: the share of misses stays near alpha along any sequence."""

from copy import copy

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


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_decaying_step_follows_scores_that_were_near_zero(level):
    """The model is exact on all rows of fit, noise comes later: once the unit was frozen at 1e-16, and coverage 0."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 2))
    y = X[:, 0] + np.where(np.arange(4000) < 1000, 0, rng.standard_normal(4000))
    for scale in (1.0, 1e-6, 1e6):
        band = OnlineConformal(LinearRegression(), confidence_level=level, method="decaying")
        interval = band.fit(X[:1000], scale * y[:1000]).predict_online(X[1000:], scale * y[1000:])[1]
        assert metrics.coverage(scale * y[1000:], interval).share > level - 0.04
        assert abs(metrics.coverage(scale * y[2000:], interval[1000:]).share - level) < 0.02
        assert metrics.mean_width(interval[1000:]) < 6 * scale


@pytest.mark.parametrize("window", [1, 2, 5])
def test_few_scores_in_the_window_still_keep_the_level(window):
    """One score has no range to reach beyond: once the width was 0 for window=1, and so was coverage."""
    X, y = drifting()
    band = OnlineConformal(LinearRegression(), confidence_level=0.9, window=window).fit(X[:600], y[:600])
    interval = band.predict_online(X[600:], y[600:])[1]
    assert abs(metrics.coverage(y[600:], interval).share - 0.9) < 0.02
    assert metrics.mean_width(interval) < 40


@pytest.fixture
def waiting():
    """A band with rows 200 to 209 predicted, in three calls; and what it would be without any."""
    X, y = drifting(300)
    model = LinearRegression().fit(X[:100], y[:100])
    band = OnlineConformal(model).conformalize(X[100:200], y[100:200])
    fresh = OnlineConformal(model).conformalize(X[100:200], y[100:200])
    for rows in (slice(200, 204), slice(204, 205), slice(205, 210)):
        band.predict_interval(X[rows])
    return band, fresh, X, y


def test_outcomes_may_come_late(waiting):
    """`predict_interval(a); predict_interval(b); update(y_a)` is about a."""
    band, fresh, X, y = waiting
    np.testing.assert_array_equal(band.waiting_, np.arange(10))
    band.update(y[200:204])
    fresh.predict_interval(X[200:204])
    fresh.update(y[200:204])
    np.testing.assert_array_equal(band.predict_interval(X)[1], fresh.predict_interval(X)[1])
    band.drop(band.waiting_[6:])
    band.update(y[204])
    np.testing.assert_array_equal(band.waiting_, np.arange(5, 10))
    with pytest.raises(ValueError, match="6 outcomes where 5 predicted rows wait"):
        band.update(y[205:211])
    with pytest.raises(NotFittedError, match="needs a fitted regressor"):
        OnlineConformal(LinearRegression()).conformalize(X, y)


def test_outcomes_may_come_in_any_order_or_never(waiting):
    band, fresh, X, y = waiting
    for numbers in ([7, 2], [0]):
        band.update(y[200 + np.array(numbers)], rows=numbers)
    np.testing.assert_array_equal(band.waiting_, [1, 3, 4, 5, 6, 8, 9])
    for row in (7, 2, 0):
        fresh.predict_interval(X[200 + row : 201 + row])
    fresh.update(y[[207, 202, 200]])
    band.drop([1, 3])
    np.testing.assert_array_equal(band.waiting_, [4, 5, 6, 8, 9])
    assert len(band.drop().waiting_) == 0
    np.testing.assert_array_equal(band.predict_interval(X)[1], fresh.predict_interval(X)[1])
    for bad in ([0], [11, 11], ["a"], [10.5]):
        for act in (band.drop, lambda rows: band.update(np.zeros(len(rows)), rows)):
            with pytest.raises(ValueError, match="rows must be numbers"):
                act(bad)
    with pytest.raises(ValueError, match="one number per outcome, 2 of them; got 1"):
        band.update([1.0, 2.0], rows=[11])


def test_late_outcomes_are_judged_by_the_interval_that_was_given():
    """Outcomes always come 30 rows late; the share of misses of the intervals given stays near alpha."""
    X, y = drifting()
    band = OnlineConformal(LinearRegression(), confidence_level=0.9, step=0.01).fit(X[:600], y[:600])
    hits = []
    for begin in range(600, 3000, 30):
        rows = slice(begin, begin + 30)
        hits.append(metrics.inside(y[rows], band.predict_interval(X[rows])[1]))
        if begin > 600:
            band.update(y[begin - 30 : begin])
    assert len(band.waiting_) == 30
    assert abs(np.concatenate(hits).mean() - 0.9) < 0.03


def test_a_copy_may_be_asked_without_a_trace(waiting):
    band, _, X, _ = waiting
    copy(band).predict_interval(X)
    np.testing.assert_array_equal(band.waiting_, np.arange(10))


def test_fit_then_conformalize_trains_on_all_rows_of_fit():
    X, y = drifting(300)
    band = OnlineConformal(LinearRegression()).fit(X[:200], y[:200])
    half = band.predict(X)
    np.testing.assert_allclose(half, LinearRegression().fit(X[:100], y[:100]).predict(X))
    band.conformalize(X[200:], y[200:])
    np.testing.assert_allclose(band.predict(X), LinearRegression().fit(X[:200], y[:200]).predict(X))
    weighted = OnlineConformal(LinearRegression()).fit(X[:200], y[:200], sample_weight=np.arange(200.0))
    np.testing.assert_allclose(
        weighted.predict(X), LinearRegression().fit(X[:100], y[:100], np.arange(100.0)).predict(X)
    )


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
    assert len(band.waiting_) == 4
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
    for end in band._thresholds:
        assert end.ordered == sorted(end.recent)
        assert len(end.recent) == (150 if window is None else window)
        rank = (1 - end.level) * (len(end.recent) + 1)  # of the scores, and of the new one among them
        if 1 < rank < len(end.recent):
            assert end.ordered[int(rank) - 1] <= end.value <= end.ordered[int(rank)]


LAWS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "skewed": lambda rng, n: rng.exponential(size=n) - 1,
}


@pytest.mark.parametrize("method", ["adaptive", "decaying"])
@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("law", LAWS)
def test_where_nothing_changes_the_level_holds_from_the_first_outcome_on(law, level, method):
    """Two-sided tests of the coverage of the first 50 outcomes over 250 series, and of 1000 outcomes over ten: 24
    comparisons at 4.2 standard errors have a false-alarm rate below 1e-3. A band that begins at alpha covers 0.01 to
    0.02 less of the first 50 at 95 %, five standard errors or more."""
    model, rng = LinearRegression().fit([[0.0], [1.0]], [0.0, 0.0]), np.random.default_rng(5)
    band = OnlineConformal(model, confidence_level=level, method=method)

    def shares(series, steps, start=60):
        inside = []
        for _ in range(series):
            y = LAWS[law](rng, start + steps)
            X = np.zeros((start + steps, 1))
            interval = band.conformalize(X[:start], y[:start]).predict_online(X[start:], y[start:])[1]
            inside.append(metrics.coverage(y[start:], interval).share)
        return np.mean(inside), np.std(inside, ddof=1) / np.sqrt(series)

    for series, steps in ((250, 50), (10, 1000)):
        mean, error = shares(series, steps)
        error = max(error, np.sqrt(level * (1 - level) / (series * steps)))
        assert abs(mean - level) < 4.2 * error


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "x"}, "method must be"),
        ({"method": "decaying", "decay": 0.5}, "decay must be"),
        ({"score": "nonsense"}, "score must be 'auto', .* or 'quantile'; got 'nonsense'"),
        ({"step": -1}, "step must be a finite number above 0; got"),
        ({"step": np.nan}, "step must be a finite number above 0; got"),
        ({"window": -3}, "window must be a whole number of at least 1; got -3"),
        ({"window": 0}, "window must be a whole number of at least 1; got 0"),
        ({"calibration_size": 1.5}, "calibration_size must be"),
    ],
)
def test_messages(parameters, message):
    X, y = drifting(100)
    with pytest.raises(ValueError, match=message):
        OnlineConformal(LinearRegression(), **parameters).fit(X, y)
    with pytest.raises(ValueError, match=r"window must be a whole number of at least 1; got 2\.5"):
        OnlineConformal(LinearRegression(), window=2.5).fit(X, y)
    with pytest.raises(ValueError, match="one output"):
        OnlineConformal(LinearRegression()).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="one output"):
        OnlineConformal(LinearRegression().fit(X, np.column_stack([y, y]))).conformalize(X, y)
