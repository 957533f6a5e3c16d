"""Exported bands against `predict_interval`, and what is refused."""

from functools import cache

import numpy as np
import pytest
from exported import DTYPES, assert_agree, fitted, in_double, numbers, run
from mixed_table import mixed
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mlkm
from mlkm import ConformalRegressor, MLKMRegressor, OnlineConformal, RandomFeatureRidge
from mlkm.onnx import feed


@cache
def band(score, kind="default"):
    X, y, _ = numbers(300)
    inside = {"default": MLKMRegressor(random_state=0), "ridge": RandomFeatureRidge(60, scale=0.5, random_state=0)}
    inside["wide"] = RandomFeatureRidge(600, scale=0.5, penalty=1e-3, random_state=0)
    inside["pipeline"] = make_pipeline(StandardScaler(), inside["ridge"])
    inside["other"] = Ridge()
    inside["two outputs"] = inside["skewed"] = inside["default"]
    targets = {"skewed": np.exp(2 * y / y.std()), "two outputs": np.column_stack([y, y**2])}.get(kind, y)
    level = [0.8, 0.9] if kind == "two outputs" else 0.9
    return ConformalRegressor(inside[kind], score=score, confidence_level=level, random_state=0).fit(X, targets)


@DTYPES
@pytest.mark.parametrize(
    ("score", "kind"),
    [(score, "default") for score in ("absolute", "variance", "residual", "quantile")]
    + [("variance", kind) for kind in ("skewed", "two outputs", "ridge", "wide", "pipeline")]
    + [("absolute", "two outputs"), ("residual", "pipeline"), ("quantile", "other"), ("absolute", "other")],
)
def test_an_exported_band_is_predict_interval(score, kind, dtype):
    own = band(score, kind)
    X = numbers()[2].astype(dtype)
    got = run(mlkm.to_onnx(own, dtype=dtype), {"X": X})
    mean, interval = (in_double(own) if dtype == "float64" else own).predict_interval(X.astype(np.float64))
    lower, upper = interval[:, 0], interval[:, 1]
    if kind != "two outputs":
        lower, upper = lower[:, 0], upper[:, 0]
    for name, expected in (("mean", mean), ("lower", lower), ("upper", upper)):
        assert_agree(got[name], expected, dtype)


@DTYPES
@pytest.mark.parametrize("learned", [False, True])
def test_a_band_of_a_fit_from_sums(learned, dtype):
    """As after partial_fit, in files or saved without rows."""
    X, y, later = numbers(300)
    model = RandomFeatureRidge(60, scale="auto" if learned else 0.5, random_state=0).fit(X[:100], y[:100])
    own = ConformalRegressor(FrozenEstimator(model.partial_fit(X[100:200], y[100:200]))).conformalize(X[200:], y[200:])
    later = later.astype(dtype)
    got = run(mlkm.to_onnx(own, dtype=dtype), {"X": later})
    mean, interval = own.predict_interval(later.astype(np.float64))
    for name, expected in (("mean", mean), ("lower", interval[:, 0, 0]), ("upper", interval[:, 1, 0])):
        assert_agree(got[name], expected, dtype)


@cache
def of_table_band(score):
    frame, y = mixed(200)
    frame = frame.assign(x=frame["x"].astype("float32"), size=frame["size"].astype("float32"))
    return ConformalRegressor(MLKMRegressor(random_state=0), score=score, random_state=0).fit(frame, y), frame


def test_a_band_at_the_end_of_a_pipeline():
    X, y, later = numbers(300)
    last = ConformalRegressor(RandomFeatureRidge(60, scale=0.5, random_state=0), random_state=0)
    model = make_pipeline(StandardScaler(), last).fit(X, y)
    got = run(mlkm.to_onnx(model, dtype="float64"), {"X": later})
    interval = last.predict_interval(model[:-1].transform(later))[1]
    assert_agree(got["lower"], interval[:, 0, 0], "float64")


@DTYPES
@pytest.mark.parametrize("score", ["variance", "quantile"])
def test_a_band_of_a_table(score, dtype):
    own, frame = of_table_band(score)
    got = run(mlkm.to_onnx(own, dtype=dtype), feed(own, frame, dtype=dtype))
    mean, interval = (in_double(own) if dtype == "float64" else own).predict_interval(frame)
    for name, expected in (("mean", mean), ("lower", interval[:, 0, 0]), ("upper", interval[:, 1, 0])):
        assert_agree(got[name], expected, dtype)


def test_weights_of_calibration_rows_are_in_the_threshold():
    X, y, later = numbers()
    own = ConformalRegressor(FrozenEstimator(fitted("ridge")), score="absolute", random_state=0)
    own.conformalize(X, y, sample_weight=np.linspace(0.5, 2, len(y)))
    got = run(mlkm.to_onnx(own, dtype="float64"), {"X": later})
    np.testing.assert_allclose(got["upper"], own.predict_interval(later)[1][:, 1, 0], rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: MLKMRegressor(), NotFittedError, "not fitted"),
        (lambda: Ridge().fit(*numbers()[:2]), TypeError, "got Ridge"),
        (lambda: OnlineConformal(), TypeError, "got OnlineConformal"),
        (lambda: ConformalRegressor(Ridge(), method="cross").fit(*numbers()[:2]), ValueError, "method='cross'"),
        (lambda: ConformalRegressor(Ridge(), method="bootstrap").fit(*numbers()[:2]), ValueError, "method='bootstrap'"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_a_sentence(make, error, words):
    with pytest.raises(error, match=words) as caught:
        mlkm.to_onnx(make())
    assert "\n" not in str(caught.value)


def test_bands_that_are_refused():
    X, y, _ = numbers()
    grouped = ConformalRegressor(FrozenEstimator(fitted("ridge")), score="absolute")
    grouped.conformalize(X, y, groups=np.arange(len(y)) % 2)
    with pytest.raises(ValueError, match="calibrated by groups"):
        mlkm.to_onnx(grouped)
    deep = ConformalRegressor(FrozenEstimator(fitted("residual")), score="variance").conformalize(X, y)
    with pytest.raises(ValueError, match="hidden layers, or of more than 2000 features and rows"):
        mlkm.to_onnx(deep)
    with pytest.raises(ValueError, match="dtype must be"):
        mlkm.to_onnx(fitted("ridge"), dtype="float16")


def test_too_many_rows_for_a_variance_are_refused(monkeypatch):
    monkeypatch.setattr("mlkm.onnx.export.EXPORTED_SIDE", 20)
    with pytest.raises(ValueError, match="up to 20 training rows or features"):
        mlkm.to_onnx(band("variance"))
