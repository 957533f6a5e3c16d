"""Exported models against `predict`: to 1e-4 of the range of predictions in float32, and in float64 to 1e-9 of what the
fit is in float64, since `predict` itself has its kernels in float32 where noise allows that."""

import subprocess
import sys
from copy import copy
from dataclasses import replace
from functools import cache

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from mixed_table import mixed
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mlkm
from mlkm import ConformalRegressor, MLKMRegressor, OnlineConformal, RandomFeatureRidge, RandomFeatures, RKMRegressor
from mlkm.datasets import make_example1
from mlkm.model.features import JointMap
from mlkm.onnx import feed, register
from mlkm.onnx.graph import Graph
from mlkm.onnx.piecewise import piecewise
from mlkm.onnx.proto import as_model

TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


def run(model, inputs):
    """All outputs of an exported model, by name."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, inputs), strict=True))


def in_double(model):
    """The same fit with all kernels in float64."""
    if isinstance(model, ConformalRegressor):
        band = copy(model)
        scored = model._band.scored
        both = {name: in_double(getattr(scored, name)) for name in ("model", "spread")}
        band._band = replace(model._band, scored=replace(scored, **both))
        return band
    if not hasattr(model, "machines_"):
        return model
    result = copy(model)
    result.machines_ = tuple(map(_machine_in_double, model.machines_))
    if hasattr(model, "_variance"):
        result._variance = copy(model._variance)  # with the noise that was measured
        result._variance.machines = result.machines_
    return result


def _machine_in_double(machine):
    if not isinstance(machine.maps[0], JointMap):
        return machine
    parts = [
        (warp, replace(phi, points=phi.points.astype(np.float64)) if hasattr(phi, "points") else phi)
        for warp, phi in machine.maps[0].parts
    ]
    return replace(machine, maps=(JointMap(tuple(parts)), *machine.maps[1:]))


def assert_agree(got, expected, dtype):
    """To the tolerance of the type, of the number itself and of the range of the first rows, which are training rows;
    predictions at rows far outside may be large."""
    assert got.shape == expected.shape
    limit = TOLERANCE[dtype]
    np.testing.assert_allclose(got, expected, rtol=limit, atol=limit * np.ptp(expected[:20]))


def assert_like_predict(model, X, dtype):
    """The export at all rows and at single ones is what `predict` says of the same inputs."""
    exported, inputs = mlkm.to_onnx(model, dtype=dtype), feed(model, X, dtype=dtype)
    seen = inputs["X"].astype(np.float64) if "X" in inputs else X
    expected = (in_double(model) if dtype == "float64" else model).predict(seen)
    got = run(exported, inputs)["mean"]
    assert got.dtype == dtype
    assert_agree(got, expected, dtype)
    one = run(exported, {name: column[3:4] for name, column in inputs.items()})["mean"]
    assert_agree(np.concatenate([got[:3], one, got[4:]]), expected, dtype)


@cache
def numbers(n=150):
    """Training rows, targets, and rows some of which are far outside."""
    X, y, _ = make_example1(n=n, d=4, random_state=0)
    return X, y, np.vstack([X[:20], 1.5 * X[20:40], 30.0 * X[40:45]])


def words(n=150, seed=1):
    """A table whose words hold numbers and have texts, with missing values everywhere."""
    rng = np.random.default_rng(seed)
    name, engine = rng.integers(0, 40, n), rng.integers(8, 20, n)
    x = rng.standard_normal(n)
    y = np.sin(name) + 0.3 * engine + x + 0.1 * rng.standard_normal(n)
    names = np.array([f"{'abcd'[k % 4]}lpha {'tuvwxyz'[k % 7]}eta {k}x" for k in range(40)], object)
    frame = pd.DataFrame(
        {"mean": x, "name": names[name], "engine": [f"{100 * e} CC" for e in engine], "code": rng.integers(0, 5, n)}
    )
    frame.loc[rng.random(n) < 0.1, "name"] = None
    frame.loc[rng.random(n) < 0.1, "mean"] = np.nan
    return frame, y


@cache
def fitted(kind):
    X, y, _ = numbers()
    steep = np.column_stack([np.exp(2 * y / y.std()), y])
    rough = MLKMRegressor(random_state=0)
    return {
        "default": lambda: rough.fit(X, y),
        "skewed": lambda: rough.fit(X, steep[:, 0]),
        "two outputs": lambda: rough.fit(X, steep),
        "noiseless": lambda: rough.fit(X, X[:, 0] + np.sin(X[:, 1])),
        "constant": lambda: rough.fit(np.ones((20, 2)), np.arange(20.0)),
        "scaled": lambda: rough.fit(StandardScaler().fit_transform(X), y),
        "one input": lambda: rough.fit(X[:, :1], y),
        "best": lambda: MLKMRegressor(effort="best", random_state=0).fit(X[:100], y[:100]),
        "two layers": lambda: MLKMRegressor(widths=(64, 8), random_state=0).fit(X, steep),
        "residual": lambda: RKMRegressor(widths=(32, 4), random_state=0).fit(X, y),
        "published": lambda: MLKMRegressor.published(
            widths=(32, 8), penalty=1e-3, random_state=0, solver=mlkm.solvers.GradientDescent(max_iter=30)
        ).fit(X, y),
        "ridge": lambda: RandomFeatureRidge(random_state=0).fit(X, y),
        "laplacian": lambda: RandomFeatureRidge(80, "laplacian", 0.5, random_state=0).fit(X, y),
    }[kind]()


@DTYPES
@pytest.mark.parametrize(
    "kind",
    [
        *("default", "skewed", "two outputs", "noiseless", "constant", "one input", "best"),
        *("two layers", "residual", "published", "ridge", "laplacian"),
    ],
)
def test_an_exported_regressor_predicts_what_it_predicts(kind, dtype):
    X = numbers()[2][:, : {"constant": 2, "one input": 1}.get(kind, 4)]
    assert_like_predict(fitted(kind), X, dtype)


def test_the_fits_above_have_a_second_scale_several_machines_and_hidden_layers():
    assert any(machine.link is not None for machine in fitted("skewed").machines_)
    assert len(fitted("published").machines_) == 2
    assert fitted("residual").machines_[0].residual
    assert fitted("two layers").machines_[0].depth == 2


def test_float64_is_predict_itself_where_a_fit_has_no_float32():
    model, X = fitted("noiseless"), numbers()[2]
    assert all(phi.points.dtype == np.float64 for _, phi in model.machines_[0].maps[0].parts if hasattr(phi, "points"))
    got = run(mlkm.to_onnx(model, dtype="float64"), {"X": X})["mean"]
    assert_agree(got, model.predict(X), "float64")


@cache
def of_table(kind):
    makes = {
        "kernels": MLKMRegressor(random_state=0),
        "features": RandomFeatureRidge(random_state=0),
        "layers": MLKMRegressor(widths=(32, 4), random_state=0),
    }
    return makes[kind].fit(*mixed(150))


@DTYPES
@pytest.mark.parametrize("kind", ["kernels", "features", "layers"])
def test_tables_are_encoded_inside(kind, dtype):
    model = of_table(kind)
    later, _ = mixed(60, seed=1)
    later["city"] = later["city"].astype(object)
    later.loc[:5, "city"] = "Quito"  # was never seen, and is no text of its own with so few levels
    later.loc[3:8, "when"] = pd.NaT
    later.loc[5:9, ["x", "size"]] = np.nan
    for name in ("x", "size"):
        later[name] = later[name].astype(dtype)
    assert_like_predict(model, later, dtype)


@cache
def of_words():
    return MLKMRegressor(categorical_features=["code"], random_state=0).fit(*words())


@DTYPES
def test_words_have_numbers_and_texts(dtype):
    frame, model = words()[0], of_words()
    columns = dict(zip(model._reader.names, model._reader.columns, strict=True))
    assert columns["name"].text is not None
    assert columns["engine"].numerals
    frame["mean"] = frame["mean"].astype(dtype)
    exported, inputs = mlkm.to_onnx(model, dtype=dtype), feed(model, frame, dtype=dtype)
    assert {i.name: i.type.tensor_type.elem_type for i in exported.graph.input} == {
        "mean": 1 if dtype == "float32" else 11, "name": 8, "engine": 8, "code": 8,
    }  # fmt: skip
    expected = (in_double(model) if dtype == "float64" else model).predict(frame)
    (got,) = run(exported, inputs).values()  # not called "mean", which is a column
    assert_agree(got, expected, dtype)


def test_a_new_word_is_a_missing_one_that_matches_no_row():
    """The one difference: of its text and the numbers in it nothing is known."""
    frame, model = words()[0], of_words()
    inputs = model._read(frame.assign(engine=None, name=None))
    at = [j for j, name in enumerate(model._reader.input_names) if name in ("engine", "name")]
    inputs[:, at] = -1
    expected = model._in_units(mlkm.model.machine.predict_average(in_double(model).machines_, model._inputs(inputs)))
    new = frame.assign(engine="never seen", name="neither")
    got = run(mlkm.to_onnx(model, dtype="float64"), feed(model, new, dtype="float64"))["mean_"]
    assert_agree(got, expected, "float64")


def test_an_empty_word_may_be_a_level():
    frame = pd.DataFrame({"word": ["", "a", None, "b"] * 10})
    model = RandomFeatureRidge(random_state=0).fit(frame, [0.0, 1.0, 2.0, 3.0] * 10)
    got = run(mlkm.to_onnx(model), feed(model, frame))["mean"]
    np.testing.assert_allclose(got, model.predict(frame), atol=1e-5)


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


@cache
def of_table_band(score):
    frame, y = mixed(200)
    frame = frame.assign(x=frame["x"].astype("float32"), size=frame["size"].astype("float32"))
    return ConformalRegressor(MLKMRegressor(random_state=0), score=score, random_state=0).fit(frame, y), frame


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


@DTYPES
def test_pipelines_with_steps_of_scikit_learn(dtype):
    X, y, later = numbers()
    holes = X.copy()
    holes[::7, 1] = np.nan
    far = 1e6 + later  # what a scaler loses in float32, if it is not in float64
    model = make_pipeline(SimpleImputer(), StandardScaler(), RandomFeatureRidge(60, scale=0.5, random_state=0))
    model.fit(1e6 + holes, y)
    seen = far.astype(dtype)
    got = run(mlkm.to_onnx(model, dtype=dtype), {"X": seen})["mean"]
    expected = model.predict(seen.astype(np.float64))
    assert_agree(got, expected, dtype)


def test_columns_of_a_pipeline_by_name():
    X, y, later = numbers()
    frame, later = (pd.DataFrame(rows, columns=list("abcd")) for rows in (X, later))
    steps = ColumnTransformer([("scaled", StandardScaler(), ["b", "a"]), ("kept", "passthrough", ["d"])])
    model = make_pipeline(steps, RandomFeatureRidge(60, scale=0.5, random_state=0)).fit(frame, y)
    got = run(mlkm.to_onnx(model, dtype="float64"), {"X": later.to_numpy()})["mean"]
    np.testing.assert_allclose(got, model.predict(later), rtol=1e-9)


@DTYPES
def test_skl2onnx_knows_the_regressors_once_registered(dtype):
    import skl2onnx

    register()
    X, y, later = numbers()
    later = later.astype(dtype)
    scaler = StandardScaler().fit(X)
    for model in (
        Pipeline([("scaler", scaler), ("last", fitted("scaled"))]),
        make_pipeline(scaler, RandomFeatures(50, scale=0.5, random_state=0), Ridge()).fit(X, y),
    ):
        got = run(skl2onnx.to_onnx(model, later[:1]), {"X": later})["variable"]
        expected = model.predict(later.astype(np.float64))
        assert_agree(got[:, 0] if got.ndim == 2 else got, expected, "float32")  # as `predict` has its kernels


def test_skl2onnx_takes_words_by_its_own_encoders():
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType, StringTensorType

    register()
    frame, y = words()
    frame = frame.assign(mean=frame["mean"].fillna(0.0))[["mean", "engine"]]
    steps = ColumnTransformer(
        [("scaled", StandardScaler(), ["mean"]), ("hot", OneHotEncoder(sparse_output=False), ["engine"])]
    )
    model = make_pipeline(steps, RandomFeatureRidge(60, scale=0.5, random_state=0)).fit(frame, y)
    types = [("mean", DoubleTensorType([None, 1])), ("engine", StringTensorType([None, 1]))]
    inputs = {"mean": frame[["mean"]].to_numpy(), "engine": frame[["engine"]].to_numpy(object)}
    got = run(skl2onnx.to_onnx(model, initial_types=types), inputs)["variable"]
    np.testing.assert_allclose(got[:, 0], model.predict(frame), rtol=1e-6, atol=1e-6)


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
    with pytest.raises(ValueError, match="hidden layers"):
        mlkm.to_onnx(deep)
    with pytest.raises(ValueError, match="dtype must be"):
        mlkm.to_onnx(fitted("ridge"), dtype="float16")


def test_too_many_rows_for_a_variance_are_refused(monkeypatch):
    monkeypatch.setattr("mlkm.onnx.sigma.LARGEST", 20)
    with pytest.raises(ValueError, match="up to 20 training rows or features"):
        mlkm.to_onnx(band("variance"))


def test_points_are_stored_once(tmp_path):
    """One table for all terms that see the inputs, and one for those that see ranks."""
    model = of_table("kernels")
    parts = [(warp, phi) for warp, phi in model.machines_[0].maps[0].parts if hasattr(phi, "points")]
    exported = mlkm.to_onnx(model, tmp_path / "model.onnx")
    tables = [tensor for tensor in exported.graph.initializer if list(tensor.dims) == list(parts[0][1].points.T.shape)]
    assert len(tables) == len({warp is None for warp, _ in parts}) < len(parts)
    assert (tmp_path / "model.onnx").read_bytes() == exported.SerializeToString()


@pytest.mark.parametrize("beyond", [False, True])
def test_piecewise_linear_functions_are_interp(beyond):
    rng = np.random.default_rng(0)
    knots = [np.sort(rng.standard_normal(size)) for size in (1, 2, 5, 16, 17, 256)]
    values = [rng.standard_normal(len(k)) for k in knots]
    X = rng.uniform(-4, 4, (500, len(knots)))
    X[:5] = [k[-1] for k in knots]
    X[5:9] = [k[0] for k in knots]
    graph = Graph()
    graph.output(
        "y", piecewise(graph, graph.input("X", "float64", (len(knots),)), knots, values, beyond), "float64", (6,)
    )
    got = run(as_model(graph), {"X": X})["y"]
    for x, k, v, own in zip(X.T, knots, values, got.T, strict=True):
        inside = (x >= k[0]) & (x <= k[-1]) if beyond else np.ones(len(x), bool)
        np.testing.assert_allclose(own[inside], np.interp(x, k, v)[inside], rtol=0, atol=1e-12)
        if beyond and len(k) > 1:
            high = x > k[-1]
            slope = (v[-1] - v[-2]) / (k[-1] - k[-2])
            np.testing.assert_allclose(own[high], v[-1] + slope * (x[high] - k[-1]), rtol=1e-9)


def test_nothing_of_onnx_is_imported_before_it_is_needed():
    code = "import sys, mlkm; assert not {'onnx', 'onnxruntime', 'skl2onnx'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_package_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "mlkm\[onnx\]"'):
        mlkm.to_onnx(fitted("ridge"))
