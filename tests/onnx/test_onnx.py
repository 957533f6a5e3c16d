"""Exported models against `predict`: to 1e-4 of the range of predictions in float32, and in float64 to 1e-9 of what the
fit is in float64, since `predict` itself has its kernels in float32 where noise allows that."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from exported import DTYPES, assert_agree, assert_like_predict, fitted, in_double, numbers, run, words
from mixed_table import mixed
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mlkm
from mlkm import MLKMRegressor, RandomFeatureRidge, RandomFeatures
from mlkm.onnx import feed, register
from mlkm.onnx.graph import Graph
from mlkm.onnx.machines import piecewise


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
    assert any(machine.back_transform is not None for machine in fitted("skewed").machines_)
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
    columns = dict(zip(model.fitted_.preparation.reader.names, model.fitted_.preparation.reader.columns, strict=True))
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
    preparation = model.fitted_.preparation
    inputs = preparation.read(model, frame.assign(engine=None, name=None))
    at = [j for j, name in enumerate(model.fitted_.preparation.reader.input_names) if name in ("engine", "name")]
    inputs[:, at] = -1
    Z = preparation.standardised(inputs)
    expected = preparation.to_units(mlkm.model.machine.predict_average(in_double(model).machines_, Z), Z)
    new = frame.assign(engine="never seen", name="neither")
    got = run(mlkm.to_onnx(model, dtype="float64"), feed(model, new, dtype="float64"))["mean_"]
    assert_agree(got, expected, "float64")


def test_an_empty_word_may_be_a_level():
    frame = pd.DataFrame({"word": ["", "a", None, "b"] * 10})
    model = RandomFeatureRidge(random_state=0).fit(frame, [0.0, 1.0, 2.0, 3.0] * 10)
    got = run(mlkm.to_onnx(model), feed(model, frame))["mean"]
    np.testing.assert_allclose(got, model.predict(frame), atol=1e-5)


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


def test_points_are_stored_once(tmp_path):
    """One table for all terms that see the inputs, and one for those that see ranks."""
    model = of_table("kernels")
    parts = [(ranks, phi) for ranks, phi in model.machines_[0].maps[0].parts if hasattr(phi, "points")]
    exported = mlkm.to_onnx(model, tmp_path / "model.onnx")
    tables = [tensor for tensor in exported.graph.initializer if list(tensor.dims) == list(parts[0][1].points.T.shape)]
    assert len(tables) == len({ranks is None for ranks, _ in parts}) < len(parts)
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
    got = run(graph.model(), {"X": X})["y"]
    for x, k, v, own in zip(X.T, knots, values, got.T, strict=True):
        inside = (x >= k[0]) & (x <= k[-1]) if beyond else np.ones(len(x), bool)
        np.testing.assert_allclose(own[inside], np.interp(x, k, v)[inside], rtol=0, atol=1e-12)
        if beyond and len(k) > 1:
            high = x > k[-1]
            slope = (v[-1] - v[-2]) / (k[-1] - k[-2])
            np.testing.assert_allclose(own[high], v[-1] + slope * (x[high] - k[-1]), rtol=1e-9)


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_the_file_is_written_behind_a_link_and_into_a_folder_that_is_there(tmp_path):
    link, path = tmp_path / "link.onnx", tmp_path / "model.onnx"
    link.symlink_to(path)
    graph = mlkm.to_onnx(fitted("ridge"), str(link))
    assert link.is_symlink()
    assert path.read_bytes() == graph.SerializeToString()
    with pytest.raises(FileNotFoundError, match=r"There is no folder '.*nowhere' to write 'model\.onnx' to"):
        mlkm.to_onnx(fitted("ridge"), tmp_path / "nowhere" / "model.onnx")


def test_the_example_of_the_page_runs(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "onnx.md").read_text()
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(re.search(r"```python\n(.*?)```", page, re.S).group(1), names)
    np.testing.assert_allclose(names["mean"], names["band"].predict(names["frame"][:4]), rtol=1e-4)
    assert "array" in capsys.readouterr().out


def test_nothing_of_onnx_is_imported_before_it_is_needed():
    code = "import sys, mlkm; assert not {'onnx', 'onnxruntime', 'skl2onnx'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_package_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "mlkm\[onnx\]"'):
        mlkm.to_onnx(fitted("ridge"))
