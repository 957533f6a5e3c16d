"""The regressor inside a band: pipelines with categories, weights, folds that keep groups together, and what is refused
before anything is fitted."""

import time
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn import __version__ as sklearn_version
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder
from sklearn.utils.fixes import parse_version

from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge, metrics
from mlkm.conformal.quantile import fit_quantiles
from mlkm.conformal.wrapped_estimator import fit_regressor
from mlkm.datasets import make_example1
from mlkm.kernels import Gaussian
from mlkm.model.draws import draw_features
from mlkm.solve import GradientDescent
from mlkm.solve.ridge import ridge

FAST = RandomFeatureRidge(20, "gaussian", 1.0, penalty=1e-3, random_state=0)


class Counted:
    """How often `fit` was called, in a list that clones share."""

    calls: list

    def fit(self, X, y, sample_weight=None):
        self.calls.append(len(X))
        return super().fit(X, y, sample_weight)


class CountedRidge(Counted, Ridge):
    calls = []  # noqa: RUF012


class CountedFeatures(Counted, RandomFeatureRidge):
    calls = []  # noqa: RUF012


class CountedScaler(StandardScaler):
    calls = []  # noqa: RUF012

    def fit(self, X, y=None, sample_weight=None):
        self.calls.append(len(X))
        return super().fit(X, y, sample_weight)


@pytest.fixture
def counters():
    for kind in (CountedRidge, CountedFeatures, CountedScaler):
        kind.calls.clear()
    return CountedRidge, CountedFeatures, CountedScaler


@pytest.fixture(scope="module")
def cars():
    """Numbers with gaps beside names; noise that grows with one of them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.random(800), "miles": rng.random(800), "make": rng.choice(["Fiat", "Opel", "Seat"], 800)}
    )
    y = frame.age + 2 * (frame.make == "Fiat") + (0.1 + frame.age) * rng.standard_normal(800)
    return frame.assign(miles=frame.miles.where(rng.random(800) > 0.1)), y.to_numpy()


def around(last, encoder=None):
    """The pipeline for `cars`."""
    encoder = OneHotEncoder() if encoder is None else encoder
    return make_pipeline(
        make_column_transformer((SimpleImputer(), ["age", "miles"]), (encoder, ["make"]), sparse_threshold=1.0), last
    )


@pytest.mark.parametrize("score", ["auto", "residual", "quantile"])
@pytest.mark.parametrize("last", [FAST, Ridge()], ids=["features", "ridge"])
def test_scores_work_around_pipelines_with_categories(cars, last, score):
    """4.1 standard errors, from 200 calibration and 400 test rows."""
    X, y = cars
    model = around(last, OneHotEncoder(sparse_output=last is not FAST))
    band = ConformalRegressor(model, confidence_level=0.8, score=score, random_state=0).fit(X[:400], y[:400])
    interval = band.predict_interval(X[400:])[1]
    share = metrics.coverage(y[400:], interval).share
    assert abs(share - 0.8) < 4.1 * np.sqrt(0.16 * (1 / 200 + 1 / 400))
    widths = metrics.widths(interval)
    late = X.age[400:] > 0.5
    assert score == "auto" or widths[late].mean() > 1.2 * widths[~late].mean()  # the noise is followed


# before scikit-learn 1.9 folds were a number, and shuffled or not
FOLDS = {"cv": 3, "shuffle": False} if parse_version(sklearn_version) < parse_version("1.9") else {"cv": KFold(3)}


@pytest.mark.parametrize("encoder", [OneHotEncoder(sparse_output=False), TargetEncoder(**FOLDS)])
def test_the_pipeline_is_fitted_as_it_would_fit_itself(cars, encoder):
    """`TargetEncoder` encodes its training rows otherwise than later ones: the last step must see the former."""
    X, y = cars
    model, seen = fit_regressor(around(Ridge(), encoder), X, y)
    np.testing.assert_array_equal(model.predict(X), clone(around(Ridge(), encoder)).fit(X, y).predict(X))
    assert seen.shape[0] == 800
    assert list(model.feature_names_in_) == ["age", "miles", "make"]


def test_the_residual_score_fits_a_pipeline_twice_not_seven_times(counters):
    """Once, and once to the residuals that leave-one-out knows; the steps before are fitted once."""
    _, features_fits, scaler_fits = (kind.calls for kind in counters)
    X, y, _ = make_example1(200, 4, random_state=0)
    model = make_pipeline(CountedScaler(), CountedFeatures(20, "gaussian", 1.0, penalty=1e-3, random_state=0))
    ConformalRegressor(model, score="residual", random_state=0).fit(X, y)
    assert (len(features_fits), len(scaler_fits)) == (2, 1)


def test_the_residual_score_of_a_frozen_model_has_a_spread_of_its_own():
    rng = np.random.default_rng(0)
    X = rng.random((1200, 1))
    y = 10 + (0.1 + X[:, 0]) * rng.standard_normal(1200)
    model = FrozenEstimator(LinearRegression().fit(X[:300], y[:300]))
    band = ConformalRegressor(model, confidence_level=0.8, score="residual", random_state=0).fit(X[300:900], y[300:900])
    widths = metrics.widths(band.predict_interval(np.array([[0.1], [0.9]]))[1])
    assert 2 < widths[1] / widths[0] < 10  # 5 in truth; the model itself predicts 10 at both


def test_steps_before_a_frozen_one_are_fitted():
    X, y, _ = make_example1(200, 4, random_state=0)
    model = make_pipeline(StandardScaler(), FrozenEstimator(Ridge().fit(X[:50], y[:50])))
    for score in ("absolute", "residual", "quantile"):
        band = ConformalRegressor(model, score=score, random_state=0).fit(X[50:], y[50:])
        assert np.isfinite(band.predict_interval(X)[1]).all()


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({"score": "residual", "cv": "x"}, np.eye(100), "cv must be 'loo', a number of folds, a splitter"),
        ({"score": "residual", "cv": 2.5}, np.eye(100), "cv must be 'loo', a number of folds, .*; got 2.5"),
        ({"method": "cross", "cv": "rotate"}, np.eye(100), "cv must be 'loo', a number of folds, a splitter"),
        ({"method": "cross", "cv": [([0], [1])]}, np.eye(100), "must cover every row"),
        ({"method": "cross", "cv": GroupKFold(3)}, np.eye(100), r"needs to know which rows to keep together"),
        ({"score": "residual", "cv": GroupKFold(3)}, np.eye(100), r"needs to know which rows to keep together"),
        ({"method": "cross", "cv": "loo"}, np.eye(100), "closed form"),
        ({"score": "quantile"}, np.full((100, 2), np.inf), "infinity"),
        ({"score": "quantile"}, pd.DataFrame({"a": [1.0, np.inf] * 50}), "infinity in column 'a'"),
        ({"score": "quantile", "calibration_size": 98}, np.eye(100), "at least 5 rows to fit two quantiles; got 2"),
        ({"score": "quantile", "calibration_size": 97}, np.eye(100), "at least 5 rows to fit two quantiles; got 3"),
        ({"score": "quantile", "method": "cross", "cv": KFold(2)}, np.eye(4), "at least 5 rows"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_fitted(counters, parameters, X, message):
    with pytest.raises(ValueError, match=message):
        ConformalRegressor(CountedRidge(), random_state=0, **parameters).fit(X, np.arange(float(len(X))))
    assert CountedRidge.calls == []


def test_folds_by_groups_are_no_matter_where_residuals_have_a_closed_form():
    X, y, _ = make_example1(100, 4, random_state=0)
    model = RandomFeatureRidge(20, scale=1.0, random_state=0)
    bands = [ConformalRegressor(model, score="residual", cv=cv, random_state=0).fit(X, y) for cv in (5, GroupKFold(3))]
    np.testing.assert_array_equal(*(band.predict_interval(X)[1] for band in bands))
    deep = MLKMRegressor((8, 3), solver=GradientDescent(max_iter=2), random_state=0)
    with pytest.raises(ValueError, match=r"needs to know which rows to keep together: fit\(X, y, groups=...\)\.$"):
        ConformalRegressor(deep, score="residual", cv=GroupKFold(3), random_state=0).fit(X, y)


def test_quantiles_check_what_the_last_step_sees_before_it_is_fitted(counters, cars):
    X, y = cars
    model = make_pipeline(make_column_transformer(("passthrough", ["age", "miles"])), CountedRidge())
    with pytest.raises(ValueError, match="infinity"):
        ConformalRegressor(model, score="quantile", random_state=0).fit(X.assign(miles=np.inf), y)
    assert CountedRidge.calls == []


@pytest.mark.parametrize("estimator", ["ridge", Ridge, 3])
def test_only_regressors_are_fitted(estimator):
    with pytest.raises(TypeError, match="estimator must be a regressor"):
        ConformalRegressor(estimator).fit(np.eye(9), np.arange(9.0))


def test_the_default_score_works_around_any_regressor():
    """sigma_y where there is one, else one width."""
    X, y, _ = make_example1(200, 4, random_state=0)
    for model, score in ((LinearRegression(), "absolute"), (FAST, "variance"), (DummyRegressor(), "absolute")):
        for method in ("split", "cross"):
            bands = (
                ConformalRegressor(model, method=method, random_state=0, **asked).fit(X, y)
                for asked in ({}, {"score": score})
            )
            a, b = (band.predict_interval(X, 0.8)[1] for band in bands)
            np.testing.assert_array_equal(a, b)
    fitted = ConformalRegressor(LinearRegression().fit(X[:100], y[:100])).conformalize(X[100:], y[100:])
    assert np.isfinite(fitted.predict_interval(X)[1]).all()


def test_folds_that_keep_groups_together_cover_new_groups():
    """Neighbours of the same group tell its level, those of other groups do not. 60 groups of 10 rows, 400 new groups:
    folds of rows cover less than half, folds of groups at least 1 - 2 alpha (5 standard errors of 60 groups below
    1 - alpha)."""
    rng = np.random.default_rng(0)
    centre, level = rng.random((460, 2)), rng.standard_normal(460)
    group = np.repeat(np.arange(60), 10)
    X, y = centre[group] + 1e-4 * rng.random((600, 2)), level[group] + 0.1 * rng.standard_normal(600)
    X_new, y_new = centre[60:], level[60:] + 0.1 * rng.standard_normal(400)
    rows, groups = (
        ConformalRegressor(KNeighborsRegressor(3), confidence_level=0.9, method="cross", cv=cv)
        for cv in (KFold(5, shuffle=True, random_state=0), GroupKFold(5))
    )
    plain = rows.fit(X, y).predict_interval(X_new)[1]
    together = groups.fit(X, y, groups=group).predict_interval(X_new)[1]
    assert metrics.coverage(y_new, plain).share < 0.5
    assert 0.8 < metrics.coverage(y_new, together).share < 0.97
    few = groups.set_params(confidence_level=0.5).predict_interval(X[:10], groups=group[:10])[1]  # or within a group
    assert np.isfinite(few).all()


@pytest.mark.parametrize("method", ["split", "cross"])
def test_weights_of_fit_weigh_the_fit_and_the_calibration(method):
    """New rows have x nearer 1, where noise is larger: weights are the ratio of densities 2x / 1. 4.1 standard
    errors."""
    rng = np.random.default_rng(0)
    n = 4000 if method == "split" else 1500
    X, X_new = rng.random((n, 1)), np.sqrt(rng.random((n, 1)))
    y, y_new = (Z[:, 0] ** 2 + (0.2 + 3 * Z[:, 0] ** 2) * rng.standard_normal(n) for Z in (X, X_new))
    weights, new_weights = 2 * X[:, 0], 2 * X_new[:, 0]
    band = ConformalRegressor(Ridge(), confidence_level=0.9, method=method, random_state=0)
    plain = clone(band).fit(X, y).predict_interval(X_new)[1]
    assert metrics.coverage(y_new, plain).share < 0.87
    band.fit(X, y, sample_weight=weights)
    share = metrics.coverage(y_new, band.predict_interval(X_new, sample_weight=new_weights)[1]).share
    assert abs(share - 0.9) < 4.1 * np.sqrt(0.09 * (4 / 3 / (2000 if method == "split" else 1500) + 1 / n))
    safe = band.predict_interval(X_new)[1]
    assert metrics.coverage(y_new, safe).share >= share
    if method == "cross":
        np.testing.assert_allclose(band.predict(X), Ridge().fit(X, y, sample_weight=weights).predict(X))


@pytest.mark.parametrize(
    "parameters",
    [
        {"score": "variance"},
        {"score": "residual"},
        {"score": "quantile"},
        {"method": "cross"},
        {"method": "cross", "cv": "loo"},
        {"method": "bootstrap"},
    ],
    ids=str,
)
def test_equal_weights_of_any_size_change_nothing(parameters):
    X, y, _ = make_example1(120, 4, random_state=0)
    model = RandomFeatureRidge(10, "gaussian", 1.0, penalty=1e-3, random_state=0)
    band = ConformalRegressor(model, confidence_level=0.8, random_state=0, **parameters)
    plain = clone(band).fit(X, y).predict_interval(X)[1]
    for size in (1.0, 1e306, 1e-300):
        weighted = clone(band).fit(X, y, sample_weight=np.full(120, size)).predict_interval(X)[1]
        np.testing.assert_allclose(weighted, plain, rtol=1e-9, atol=1e-9)


def test_leave_one_out_with_weights_is_that_of_copies():
    X, y, _ = make_example1(60, 4, random_state=0)
    copies = np.arange(60) % 3
    weighted, repeated = (
        ConformalRegressor(FAST, confidence_level=0.8, method="cross", cv="loo").fit(*rows)
        for rows in ((X, y, None, copies), (np.repeat(X, copies, axis=0), np.repeat(y, copies)))
    )
    X_new = make_example1(30, 4, random_state=1)[0]
    np.testing.assert_allclose(
        weighted.predict_interval(X_new, sample_weight=np.ones(30))[1], repeated.predict_interval(X_new)[1], rtol=1e-9
    )


def test_weights_that_the_regressor_cannot_take_are_refused(counters):
    X, y, _ = make_example1(60, 4, random_state=0)
    band = ConformalRegressor(KNeighborsRegressor(), random_state=0)
    with pytest.raises(ValueError, match="sample_weight was given, and fit of KNeighborsRegressor takes none"):
        band.fit(X, y, sample_weight=np.ones(60))
    with pytest.raises(ValueError, match="all weights of calibration rows are zero"):
        band.set_params(method="cross", estimator=CountedRidge()).fit(X, y, sample_weight=np.zeros(60))
    assert CountedRidge.calls == []


def test_regressors_offer_leave_one_out_in_the_order_given():
    """Against refits with the same features and ridge: rows given twice, and rows of weight zero, which no fit saw."""
    X, y, _ = make_example1(50, 4, random_state=0)
    weights = np.r_[np.full(45, 2.0), np.zeros(5)]
    model = clone(FAST).fit(X, y, sample_weight=weights)
    assert model.has_closed_form_
    rows = model.leave_one_out(X, y)
    np.testing.assert_array_equal(rows.place < 0, weights == 0)
    np.testing.assert_allclose(rows.residuals[45:, 0], (y - model.predict(X))[45:], rtol=1e-9)
    left = model.left_out_predictions(X)
    own = left[np.arange(45), rows.place[:45], 0]
    np.testing.assert_allclose(rows.residuals[:45, 0], y[:45] - own, rtol=1e-8)
    leverage = 1 - (y - model.predict(X))[:45] / rows.residuals[:45, 0]
    np.testing.assert_allclose(rows.std[:45, 0] ** 2 * (1 - leverage), model.noise_variance_, rtol=1e-8)
    low, high = model.prediction_limits_
    assert low.shape == high.shape == (1,)
    deep = MLKMRegressor((8, 4), solver=GradientDescent(max_iter=2), random_state=0).fit(X, y)
    assert not deep.has_closed_form_
    with pytest.raises(ValueError, match="one layer in closed form"):
        deep.leave_one_out(X, y)


@pytest.mark.parametrize(("n", "d"), [(8000, 1), (2000, 100)])
def test_quantile_fits_cost_about_a_ridge_path(n, d):
    """Two quantiles against the ridge path on as many features: 1.4 and 1.5 times its CPU time when written, 60 and 30
    times before; the bar leaves room for a busy machine."""
    rng = np.random.default_rng(0)
    X = rng.random((n, d))
    y = np.sin(4 * X[:, 0]) + (0.2 + X[:, 0]) * rng.standard_normal(n)
    phi = draw_features(rng, d, int(np.clip(4 * np.sqrt(n), 50, 400)), Gaussian(), 1 / np.sqrt(d), (1, "full"))
    clock = [time.process_time()]
    for work in (
        lambda: fit_quantiles(X, y, Fraction(9, 10), 0),
        lambda: ridge(np.hstack([X, phi.features(X)]), y[:, None]),
    ):
        work()
        clock.append(time.process_time())
    quantiles, path = np.diff(clock)
    assert quantiles < 8 * path


def test_quantile_fits_minimise_the_check_loss():
    """One input, no features to speak of: the fit has no direction along which the check loss falls by more than what
    smoothing costs."""
    rng = np.random.default_rng(0)
    X = rng.random((3000, 1))
    y = (0.5 + X[:, 0]) * rng.standard_normal(3000)
    lower, upper = fit_quantiles(X, y, Fraction(4, 5), 0).predict(X)
    for tau, q in ((0.1, lower[:, 0]), (0.9, upper[:, 0])):
        loss = lambda change, tau=tau, q=q: np.mean((tau - (y < q + change)) * (y - q - change))  # noqa: E731
        for along in (np.ones(3000), X[:, 0] - 0.5, (X[:, 0] - 0.5) ** 2):
            assert min(loss(0.1 * along), loss(-0.1 * along)) > loss(0) * 0.999
        assert abs((y < q).mean() - tau) < 0.01
