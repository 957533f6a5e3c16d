"""Calibrating anew, the weights, groups and sizes that are given, and what is said where they are wrong."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge, metrics, open_table
from mlkm.data import checked_weights
from mlkm.solve import GradientDescent

FAST = RandomFeatureRidge(20, "gaussian", 1.0, penalty=1e-3, random_state=0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    return X, X[:, 0] + 0.3 * rng.standard_normal(400)


def frozen(rows, n=50):
    return FrozenEstimator(Ridge().fit(rows[0][:n], rows[1][:n]))


@pytest.mark.parametrize("method", ["split", "cross"])
def test_calibrating_anew_forgets_the_earlier_model(rows, method):
    X, y = rows
    band = ConformalRegressor(Ridge(), score="absolute", method=method, random_state=0).fit(X, -y)
    model = frozen(rows)
    band.set_params(method="split", estimator=model).conformalize(X[50:], y[50:])
    fresh = ConformalRegressor(model, score="absolute").conformalize(X[50:], y[50:])
    np.testing.assert_array_equal(band.predict(X), model.predict(X))
    np.testing.assert_array_equal(band.predict_interval(X)[1], fresh.predict_interval(X)[1])


def test_calibrating_anew_takes_the_score_of_now(rows):
    X, y = rows
    band = (
        ConformalRegressor(FAST, score="variance", random_state=0)
        .fit(X[:200], y[:200])
        .set_params(score="absolute")
        .conformalize(X[200:], y[200:])
    )
    np.testing.assert_allclose(np.ptp(metrics.widths(band.predict_interval(X)[1])), 0, atol=1e-12)
    again = band.set_params(score="residual").conformalize(X[200:], y[200:])  # the rows of fit are still there
    assert np.ptp(metrics.widths(again.predict_interval(X)[1])) > 0.1
    with pytest.raises(NotFittedError, match="needs a fitted regressor"):
        band.set_params(score="absolute", estimator=Ridge()).conformalize(X, y)


@pytest.mark.parametrize("score", ["variance", "residual", "quantile"])
def test_fit_then_conformalize_trains_on_all_rows_of_fit(rows, score):
    """None need be set aside any more: the band is that of a model fitted to all of them."""
    X, y = rows
    band = ConformalRegressor(FAST, score=score, random_state=0).fit(X[:200], y[:200])
    half = band.predict(X)
    band.conformalize(X[200:300], y[200:300])
    model = clone(FAST).fit(X[:200], y[:200])
    np.testing.assert_array_equal(band.predict(X), model.predict(X))
    assert not np.allclose(half, band.predict(X))
    assert band.n_calibration_ == 100
    if score == "variance":
        fresh = ConformalRegressor(FrozenEstimator(model), score=score).conformalize(X[200:300], y[200:300])
        np.testing.assert_array_equal(band.predict_interval(X)[1], fresh.predict_interval(X)[1])
    model = band.estimator_
    assert band.conformalize(X[300:], y[300:]).estimator_ is model  # it is fitted once


def test_a_pickled_band_keeps_its_model_and_no_rows(rows):
    X, y = rows
    band = ConformalRegressor(Ridge(), random_state=0).fit(X, y)
    assert len(pickle.dumps(band)) < X.nbytes
    restored = pickle.loads(pickle.dumps(band))
    before = restored.predict(X)
    with pytest.warns(UserWarning, match="rows of fit are not pickled"):
        restored.conformalize(X[200:], y[200:])
    np.testing.assert_array_equal(restored.predict(X), before)
    trained_on_all = pickle.loads(pickle.dumps(band.conformalize(X, y)))
    np.testing.assert_array_equal(trained_on_all.conformalize(X, y).predict(X), Ridge().fit(X, y).predict(X))


def test_weights_are_checked(rows):
    X, y = rows
    band = ConformalRegressor(frozen(rows), score="absolute")
    with pytest.raises(ValueError, match="sum of sample_weight must be positive"):
        band.conformalize(X, y, sample_weight=np.zeros(400))
    band.conformalize(X, y, sample_weight=np.ones(400))
    for bad, message in (
        ([1, -1e3], "must not be negative"),
        ([1, 1, 1], "one entry per row"),
        ([[1], [1]], "one entry per row"),
    ):
        with pytest.raises(ValueError, match=message):
            band.predict_interval(X[:2], sample_weight=bad)


@pytest.mark.parametrize("size", [1e306, 1.7e308, 1e-300, 5e-324])
def test_weights_of_any_size_calibrate(rows, size):
    """Sums of such weights overflow or vanish: once a 90 % band covered 19 % with them."""
    X, y = rows
    band = ConformalRegressor(frozen(rows), confidence_level=0.9)
    plain = band.conformalize(X, y).predict_interval(X)[1]
    weighted = band.conformalize(X, y, sample_weight=np.full(400, size))
    np.testing.assert_array_equal(weighted.predict_interval(X)[1], plain)
    np.testing.assert_array_equal(weighted.predict_interval(X, sample_weight=np.full(400, size))[1], plain)
    if size < 1:
        with pytest.warns(UserWarning, match="weights of 1 of 2 new rows are too large"):
            interval = weighted.predict_interval(X[:2], sample_weight=[1.0, size])[1]
        np.testing.assert_array_equal(np.isinf(interval[:, 0, 0]), [True, False])


@pytest.mark.parametrize("weights", [(1e306, 1e306), (1.7e308, 1.7e308), (1e-300, 1e-300), (5e-324, 5e-324)])
def test_fits_take_weights_of_any_size(rows, weights):
    X, y = rows
    plain = clone(FAST).fit(X, y).predict(X, return_std=True)
    weighted = clone(FAST).fit(X, y, sample_weight=np.resize(weights, 400)).predict(X, return_std=True)
    np.testing.assert_allclose(weighted, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("weights", [(1e300, 1e-300), (1.7e308, 5e-324), (1.0, 1e-200), (3.0, 0.0)])
def test_weights_that_are_nothing_beside_others_are_zero(rows, weights):
    X, y = rows
    for model in (FAST, MLKMRegressor((8, 4), solver=GradientDescent(max_iter=3), random_state=0)):
        every_second = clone(model).fit(X[::2], y[::2]).predict(X, return_std=True)
        weighted = clone(model).fit(X, y, sample_weight=np.resize(weights, 400)).predict(X, return_std=True)
        np.testing.assert_allclose(weighted, every_second, rtol=1e-9, atol=1e-9)


def test_whole_weights_are_still_copies(rows):
    X, y = rows
    copies = np.arange(400) % 4
    weighted = clone(FAST).fit(X, y, sample_weight=copies).predict(X, return_std=True)
    repeated = clone(FAST).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies)).predict(X, return_std=True)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(checked_weights(copies, 400), copies)


def test_no_limit_may_be_said_as_none(rows):
    X, y = rows
    band = ConformalRegressor(frozen(rows)).conformalize(X, y)
    np.testing.assert_array_equal(band.predict_interval(X, y_min=None, y_max=None)[1], band.predict_interval(X)[1])
    assert band.predict_int(X, y_min=None, y_max=0.5).max() == 0.5
    with pytest.raises(TypeError, match="y_min must be a number, or None for no limit; got 'low'"):
        band.predict_interval(X, y_min="low")


def test_weights_too_large_are_told_of(rows):
    X, y = rows
    weights = np.ones(400)
    band = ConformalRegressor(frozen(rows), score="absolute").conformalize(X, y, sample_weight=weights)
    with pytest.warns(UserWarning, match="weights of 1 of 2 new rows are too large"):
        interval = band.predict_interval(X[:2], sample_weight=[1, 1e6])[1]
    np.testing.assert_array_equal(np.isinf(interval[:, 0, 0]), [False, True])
    weights[0] = 1e6
    with pytest.warns(UserWarning, match="weights of 2 of 2 new rows are too large"):
        band.conformalize(X, y, sample_weight=weights).predict_interval(X[:2])


def test_warnings_point_to_the_line_that_asked(rows):
    X, y = rows
    for method in ("split", "cross"):
        band = ConformalRegressor(Ridge(), confidence_level=0.99, score="absolute", method=method, random_state=0).fit(
            X[:20], y[:20]
        )
        for ask in (band.predict_interval, band.predict_int):
            with pytest.warns(UserWarning, match="too few") as caught:
                ask(X)
            assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("case", ["quantile", "absolute", "prefit", "loo"])
def test_joint_widths_are_of_the_order_of_the_separate_ones(rows, case):
    X, y = rows
    Y = np.column_stack([y, 1e4 * (X[:, 1] + 0.3 * np.random.default_rng(1).standard_normal(400))])
    if case == "prefit":
        band = ConformalRegressor(FrozenEstimator(Ridge().fit(X[:100], Y[:100])), score="absolute").conformalize(
            X[100:], Y[100:]
        )
    elif case == "loo":
        band = ConformalRegressor(FAST, score="absolute", method="cross", cv="loo").fit(X, Y)
    else:
        band = ConformalRegressor(FAST, score=case, random_state=0).fit(X, Y)
    each, joint = (band.predict_interval(X, 0.8, joint=joint)[1] for joint in (False, True))
    ratio = [metrics.mean_width(joint[..., k]) / metrics.mean_width(each[..., k]) for k in range(2)]
    assert 0.9 < min(ratio) <= max(ratio) < 2.5


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("kind", [Ridge, lambda: clone(FAST)])
def test_rows_elsewhere_must_have_the_targets_of_the_model(rows, outputs, kind, tmp_path):
    """None was accepted once, and two of them were both compared with the one output there is."""
    da = pytest.importorskip("dask.array")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(rows[0], columns=list("abc"))
    Y = np.column_stack([rows[1], -rows[1], rows[1] ** 2])
    frame.assign(u=Y[:, 0], v=Y[:, 1], w=Y[:, 2]).to_parquet(tmp_path / "rows.parquet")
    model = FrozenEstimator(kind().fit(frame, Y[:, 0] if outputs == 1 else Y[:, :2]))
    band = ConformalRegressor(model, score="absolute")
    dX = da.from_array(rows[0], chunks=(150, 3))

    def opened(target):
        return open_table(tmp_path / "rows.parquet", target=target, features=list("abc"))

    wrong = r"those that the model predicts, which are {}; got {} of every row"
    with pytest.raises(ValueError, match="The table has no target; name it, as in open_table"):
        band.conformalize(opened(None))
    with pytest.raises(ValueError, match=wrong.format(outputs, 3)):
        band.conformalize(opened(["u", "v", "w"]))
    by_place = ConformalRegressor(FrozenEstimator(kind().fit(rows[0], Y[:, 0] if outputs == 1 else Y[:, :2])))
    with pytest.raises(ValueError, match="The table has no target; name it, as in open_table"):
        by_place.conformalize(dX)
    with pytest.raises(ValueError, match=wrong.format(outputs, 3 - outputs)):
        by_place.conformalize(dX, da.from_array(Y[:, 0] if outputs == 2 else Y[:, :2], chunks=150))
    assert not hasattr(band, "estimator_")
    right = band.conformalize(opened("u" if outputs == 1 else ["u", "v"]))
    here = ConformalRegressor(model, score="absolute").conformalize(frame, Y[:, 0] if outputs == 1 else Y[:, :2])
    np.testing.assert_allclose(right.predict_interval(frame)[1], here.predict_interval(frame)[1])
    with pytest.raises(ValueError, match=wrong.format(outputs, 3)):
        right.score(opened(["u", "v", "w"]))


def test_a_band_knows_its_columns_wherever_rows_are(rows, tmp_path):
    """As a fit in memory does; after `conformalize` they are those of the model."""
    da = pytest.importorskip("dask.array")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(rows[0], columns=list("abc"))
    frame.assign(y=rows[1]).to_parquet(tmp_path / "rows.parquet")
    table, X, y = open_table(tmp_path / "rows.parquet", "y"), *(da.from_array(own, chunks=150) for own in rows)
    model = clone(FAST).fit(frame, rows[1])
    for band in (
        ConformalRegressor(FAST, random_state=0).fit(table),
        ConformalRegressor(model).conformalize(table),
        ConformalRegressor(FrozenEstimator(model)).conformalize(frame, rows[1]),
        ConformalRegressor(FAST, random_state=0).fit(frame, rows[1]).conformalize(table),
    ):
        assert band.n_features_in_ == 3
        assert list(band.feature_names_in_) == ["a", "b", "c"]
    band = ConformalRegressor(FAST, random_state=0).fit(X, y)
    assert band.n_features_in_ == 3
    assert not hasattr(band, "feature_names_in_")
    named = ConformalRegressor(FAST, random_state=0).fit(frame, rows[1])
    two = Ridge().fit(rows[0][:, :2], rows[1])
    named.set_params(estimator=two, score="absolute").conformalize(rows[0][:, :2], rows[1])
    assert named.n_features_in_ == 2
    assert not hasattr(named, "feature_names_in_")


class NoSpread(DummyRegressor):
    """A standard deviation of zero, save where x_1 is large."""

    def predict(self, X, return_std=False):
        mean = super().predict(X)
        return (mean, np.where(np.asarray(X)[:, 0] > self.edge_, 1.0, 0.0)) if return_std else mean


@pytest.mark.parametrize("edge", [1.0, np.inf])
def test_an_interval_does_not_depend_on_the_rows_beside_it(rows, edge):
    X, y = rows
    model = NoSpread().fit(X, y)
    model.edge_ = edge
    band = ConformalRegressor(FrozenEstimator(model), score="variance").conformalize(X[:300], y[:300])
    together = band.predict_interval(X[300:])[1]
    np.testing.assert_array_equal(
        np.vstack([band.predict_interval(X[i : i + 1])[1] for i in range(300, 400)]), together
    )
    if np.isinf(edge):  # the unit is 1
        fixed = ConformalRegressor(FrozenEstimator(model), score="absolute").conformalize(X[:300], y[:300])
        np.testing.assert_allclose(together, fixed.predict_interval(X[300:])[1])


def test_predict_int_takes_what_predict_interval_does(rows):
    X, y = rows
    groups, weights = np.arange(400) % 2, np.linspace(1, 2, 400)
    band = ConformalRegressor(frozen(rows), score="absolute").conformalize(X, y, sample_weight=weights, groups=groups)
    asked = {"side": "lower", "groups": groups, "sample_weight": weights, "y_min": -1.0}
    np.testing.assert_array_equal(
        band.predict_int(X, confidence=0.8, **asked), band.predict_interval(X, 0.8, **asked)[1][:, :, 0]
    )
    with pytest.raises(ValueError, match="at one level"):
        band.predict_int(X, confidence=[0.8, 0.9], groups=groups)
    with pytest.raises(ValueError, match="at one level"):
        band.set_params(confidence_level=[0.8, 0.9]).predict_int(X, groups=groups)


def test_groups_are_checked_by_fit(rows):
    X, y = rows
    band = ConformalRegressor(Ridge(), score="absolute", random_state=0)
    for method in ("split", "cross"):
        with pytest.raises(ValueError, match="one label per row"):
            band.set_params(method=method).fit(X, y, groups=np.zeros(399))
        with pytest.raises(ValueError, match=r"labels of one kind, .*, none missing; row 0 has none"):
            band.fit(X, y, groups=[None, "a"] * 200)
        with pytest.raises(ValueError, match=r"labels of one kind, .*; got int, str"):
            band.fit(X, y, groups=pd.Series([1, "a"] * 200, dtype=object))
        gaps = np.r_[np.zeros(3), np.nan, np.zeros(396)]
        with pytest.raises(ValueError, match=r"groups must be labels .*, none missing; row 3 has none"):
            band.fit(X, y, groups=gaps)
        band.fit(X, y, groups=np.zeros(400))
        with pytest.raises(ValueError, match=r"groups must be labels .*, none missing; row 3 has none"):
            band.predict_interval(X, groups=gaps)
    with pytest.raises(ValueError, match=r"groups must be labels .*, none missing; row 3 has none"):
        ConformalRegressor(frozen(rows)).conformalize(X, y, groups=gaps)
    with pytest.raises(ValueError, match="knows no groups"):
        band.set_params(method="bootstrap").fit(X, y, groups=np.zeros(400))


def test_quantiles_take_tables_by_name(rows):
    X, y = rows
    frame = pd.DataFrame({"a": np.where(X[:, 0] > 2, np.nan, X[:, 0]), "b": ["x", "y"] * 200})
    band = ConformalRegressor(DummyRegressor(), score="quantile", random_state=0).fit(frame, y)
    _, interval = band.predict_interval(frame)
    np.testing.assert_array_equal(band.predict_interval(frame.assign(c=0)[["c", "b", "a"]])[1], interval)


@pytest.mark.parametrize("size", [1.5, 0.0, -3, 400, "half"])
def test_calibration_size_is_checked(rows, size):
    with pytest.raises(ValueError, match="calibration_size must be a share of the rows below 1"):
        ConformalRegressor(Ridge(), score="absolute", calibration_size=size).fit(*rows)


def test_standard_deviations_of_a_fitted_model_of_two_outputs_are_not_scaled_again():
    """At 90 %, with 300 rows to calibrate and 300 to test, coverage outside [0.8, 0.99] has a chance below 1e-3."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 2))
    Y = (X + rng.standard_normal((900, 2))) * [1.0, 100.0]
    model = RandomFeatureRidge(40, scale=1.0, random_state=0).fit(X[:300], Y[:300])
    band = ConformalRegressor(FrozenEstimator(model), confidence_level=0.9, score="variance")
    interval = band.conformalize(X[300:600], Y[300:600]).predict_interval(X[600:])[1][:, :, 0]
    covered = ((interval[:, 0] <= Y[600:]) & (Y[600:] <= interval[:, 1])).mean(axis=0)
    assert (covered > 0.8).all()
    assert (covered < 0.99).all()


@pytest.mark.parametrize("method", ["split", "cross"])
def test_a_group_whose_rows_have_no_weight_has_infinite_intervals_that_say_so(method):
    rng, group = np.random.default_rng(0), np.repeat([0, 1], 100)
    X = rng.standard_normal((200, 2))
    y = X[:, 0] + rng.standard_normal(200)
    band = ConformalRegressor(Ridge(), method=method, score="absolute", cv=4, random_state=0)
    band.fit(X, y, sample_weight=(group == 0) * 1.0, groups=group)
    with pytest.warns(UserWarning, match="0 calibration rows in group 1 are too few"):
        _, interval = band.predict_interval(X[90:110], groups=group[90:110], sample_weight=np.zeros(20))
    assert np.isfinite(interval[:10]).all()
    assert np.isinf(interval[10:]).all()
    with pytest.warns(UserWarning, match="no calibration rows with a weight in group 1"):
        band.predict_cdf(X[90:110], np.zeros(20), groups=group[90:110])


def test_a_misspelt_score_is_refused_for_every_method():
    with pytest.raises(ValueError, match="score must be 'auto'"):
        ConformalRegressor(Ridge(), method="bootstrap", score="gamme").fit(np.eye(9), np.arange(9.0))
