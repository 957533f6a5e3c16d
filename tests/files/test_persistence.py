"""Model files: a loaded model says the same to the last bit, with and without its rows."""

import json
import os
import re
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from files import make
from saved_models import (
    BANDS,
    LAYERED,
    NEW,
    NEW_TABLE,
    REGRESSORS,
    SKEWED,
    TABLE,
    TARGETS,
    TRUSTED,
    TWO,
    X,
    Y,
    described,
    ridge,
    round_trip,
    same,
)
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from source_rows import SHORT_SEARCH
from threadpoolctl import threadpool_info

import mlkm
from mlkm import ConformalRegressor, Geometric, MLKMRegressor, OnlineConformal, RandomFeatureRidge, RandomFeatures
from mlkm.data.tables import TableEncoder
from mlkm.datasets import make_example1
from mlkm.kernels import Matern
from mlkm.report.facts import fit_facts
from mlkm.runtime.rules import RULES
from mlkm.search.policy import Policy, policy_context
from mlkm.solve import VariableProjection


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_predicts_the_same_to_the_last_bit(name, tmp_path):
    make, new = REGRESSORS[name]
    model = make()
    whole = round_trip(model, tmp_path)
    for given, loaded in zip(model.predict(new, return_std=True), whole.predict(new, return_std=True), strict=True):
        same(given, loaded)
    with pytest.warns(UserWarning, match="need the training rows") if name in LAYERED else nullcontext():
        without = round_trip(model, tmp_path, keep_rows=False)
    for loaded in (whole, without):
        assert type(loaded) is type(model)
        assert described(loaded) == described(model)
        same(loaded.predict(new), model.predict(new))
        same(loaded.outside(new), model.outside(new))
        same(loaded.feature_relevance_, model.feature_relevance_)
        assert loaded.loss_curve_ == model.loss_curve_
    same(whole.noise_variance_, model.noise_variance_)
    assert whole.has_closed_form_ == model.has_closed_form_
    if model.has_closed_form_ and new is NEW:
        target = TWO if name == "two outputs" else Y
        same(whole.leave_one_out(X, target).residuals, model.leave_one_out(X, target).residuals)
        same(whole.left_out_predictions(NEW[:5]), model.left_out_predictions(NEW[:5]))


@pytest.mark.parametrize("name", sorted(set(REGRESSORS) - LAYERED))
def test_standard_deviations_are_the_same_without_rows(name, tmp_path):
    """To the last bit of kernels, which are centred on inputs of rows; of features by their sums."""
    make, new = REGRESSORS[name]
    model = make()
    without = round_trip(round_trip(model, tmp_path, keep_rows=False), tmp_path, keep_rows=False)
    same(without.predict(new), model.predict(new))
    given, loaded = model.predict(new, return_std=True)[1], without.predict(new, return_std=True)[1]
    if isinstance(model, RandomFeatureRidge):
        np.testing.assert_allclose(loaded, given, rtol=1e-6)
        np.testing.assert_allclose(without.noise_variance_, model.noise_variance_, rtol=1e-6)
    else:
        same(loaded, given)
        same(without.noise_variance_, model.noise_variance_)
        assert without.fitted_.uncertainty.rows.Y.size == 0, "targets are not kept"


def test_of_many_rows_those_of_the_posterior_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("mlkm.solve.stack.RULES", replace(RULES, posterior_rows=50, usual_rows=40))
    monkeypatch.setattr("mlkm.solve.stack.FLOAT64_FACTOR_ROWS", 60)
    for targets in (Y, SKEWED):
        model = MLKMRegressor(random_state=0).fit(X, targets)
        without = round_trip(model, tmp_path, keep_rows=False)
        assert len(without.fitted_.uncertainty.rows) == 50
        same(without.predict(NEW, return_std=True)[1], model.predict(NEW, return_std=True)[1])
        assert fit_facts(without).rows == 120


def test_rows_come_and_go_in_a_model_that_was_saved_without_them(tmp_path):
    """As in docs/scale.md: standard deviations come from the sums, and so does what is added or merged."""
    big, y, _ = make_example1(n=400, d=4, random_state=0)
    model = ridge(penalty=1e-3).fit(big[:200], y[:200])
    without = round_trip(model, tmp_path, keep_rows=False)
    other = ridge(penalty=1e-3).fit(big[200:], y[200:])
    both = mlkm.merge([without, round_trip(other, tmp_path, keep_rows=False)])
    expected = mlkm.merge([model, other])
    np.testing.assert_allclose(both.predict(NEW), expected.predict(NEW), rtol=1e-9, atol=1e-9)
    streamed = round_trip(expected, tmp_path, keep_rows=False)
    same(streamed.predict(NEW, return_std=True)[1], expected.predict(NEW, return_std=True)[1])
    without.partial_fit(big[200:], y[200:])
    np.testing.assert_allclose(without.predict(NEW), expected.predict(NEW), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", BANDS)
def test_a_band_is_the_same_to_the_last_bit(name, tmp_path):
    band = BANDS[name]()
    loaded = round_trip(band, tmp_path, TRUSTED.get(name, ()))
    assert described(loaded) == described(band)
    for given, back in zip(band.predict_interval(NEW), loaded.predict_interval(NEW), strict=True):
        same(given, back)
    same(band.predict(NEW), loaded.predict(NEW))
    assert band.n_calibration_ == loaded.n_calibration_


def test_a_band_that_needs_no_rows_is_the_same_without_them(tmp_path):
    band = ConformalRegressor(ridge(), score="absolute", random_state=0).fit(X, Y)
    same(round_trip(band, tmp_path, keep_rows=False).predict_interval(NEW)[1], band.predict_interval(NEW)[1])
    for method in ("split", "cross"):
        band = ConformalRegressor(method=method, cv=3, random_state=0).fit(X, SKEWED)
        without = round_trip(band, tmp_path, keep_rows=False)
        same(without.predict_interval(NEW)[1], band.predict_interval(NEW)[1])
    few = RandomFeatureRidge(20, scale=1.0, random_state=0)
    band = ConformalRegressor(make_pipeline(StandardScaler(), few), random_state=0).fit(X, Y)
    without = round_trip(band, tmp_path, keep_rows=False)
    np.testing.assert_allclose(without.predict_interval(NEW)[1], band.predict_interval(NEW)[1], rtol=1e-6)


@pytest.mark.parametrize("name", ["variance split", "variance cross", "loo"])
def test_a_band_that_would_have_no_intervals_is_refused(name, tmp_path):
    """More features than half the rows of a fit: their sums do not tell sigma."""
    band = BANDS[name]().set_params(cv=2)
    if name == "variance cross":
        band.fit(X, Y)
    with pytest.raises(ValueError, match="needs the training rows for its intervals: save it with keep_rows=True"):
        mlkm.save(band, tmp_path / "band.mlkm", keep_rows=False)
    assert list(tmp_path.iterdir()) == []


def test_a_band_of_the_default_without_rows_is_exported(tmp_path):
    pytest.importorskip("onnxruntime")
    for targets in (Y, SKEWED):
        band = ConformalRegressor(random_state=0).fit(X, targets)
        without = round_trip(band, tmp_path, keep_rows=False)
        assert mlkm.to_onnx(without).SerializeToString() == mlkm.to_onnx(band).SerializeToString()
        assert without.report(NEW, NEW[:, 0]).facts.band is not None


@pytest.mark.parametrize("method", ["adaptive", "decaying"])
@pytest.mark.parametrize("window", [30, None])
def test_an_online_band_goes_on_where_it_was(method, window, tmp_path):
    band = OnlineConformal(Ridge(), method=method, window=window).fit(X, Y)
    band.predict_online(X[:40], Y[:40])
    band.predict_interval(NEW[:5])
    loaded = round_trip(band, tmp_path)
    same(loaded.waiting_, band.waiting_)
    for b in (band, loaded):
        b.update(Y[:3])
    for given, back in zip(
        band.predict_online(NEW, Y.mean() + NEW[:, 0]), loaded.predict_online(NEW, Y.mean() + NEW[:, 0]), strict=True
    ):
        same(given, back)
    assert loaded._thresholds[0].recent.maxlen == window


def test_groups_given_as_a_series_or_as_dates_are_kept(tmp_path):
    import pandas as pd

    groups = pd.Series(np.where(NEW[:, 0] > 0, "high", "low"), index=np.arange(len(NEW)) + 7)
    band = ConformalRegressor(FrozenEstimator(ridge().fit(X, Y))).conformalize(NEW, NEW[:, 0], groups=groups)
    loaded = round_trip(band, tmp_path)
    same(loaded.predict_interval(NEW, groups=groups)[1], band.predict_interval(NEW, groups=groups)[1])
    days = np.where(NEW[:, 0] > 0, np.datetime64("2020-01-01"), np.datetime64("2021-06-01"))
    band.conformalize(NEW, NEW[:, 0], groups=days)
    same(round_trip(band, tmp_path).predict_interval(NEW, groups=days)[1], band.predict_interval(NEW, groups=days)[1])


def test_transformers_are_the_same(tmp_path):
    features = RandomFeatures(30, Matern(1.5), random_state=0).fit(X)
    same(round_trip(features, tmp_path).transform(NEW), features.transform(NEW))
    encoder = TableEncoder().fit(TABLE)
    loaded = round_trip(encoder, tmp_path)
    same(loaded.transform(NEW_TABLE), encoder.transform(NEW_TABLE))
    assert loaded.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()


STEPS = {
    "standard": (StandardScaler(), X),
    "standard, gaps": (StandardScaler(), np.where(X > 1.5, np.nan, X)),
    "range": (MinMaxScaler(clip=True), X),
    "largest": (MaxAbsScaler(), X),
    "robust": (RobustScaler(), X),
    "components": (PCA(2, whiten=True), X),
    "products": (PolynomialFeatures((1, 2), interaction_only=True), X),
    "as they are": (FunctionTransformer(feature_names_out="one-to-one"), X),
    "middle": (SimpleImputer(strategy="median", add_indicator=True), np.where(X > 1.5, np.nan, X)),
    "constant": (SimpleImputer(strategy="constant", fill_value="none"), TABLE[["city"]]),
    "one hot": (OneHotEncoder(drop="if_binary", handle_unknown="ignore", sparse_output=False), TABLE[["city"]]),
    "one hot of numbers": (OneHotEncoder(categories=[[0.0, 1.0, np.nan]]), np.array([[0.0], [1.0], [np.nan]])),
    "ordinal": (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), TABLE[["city"]]),
    "frame": (StandardScaler().set_output(transform="pandas"), TABLE[["x"]]),
    "columns of a frame": (
        ColumnTransformer([("a", StandardScaler(), ["x"])]).set_output(transform="pandas"),
        TABLE[["x"]],
    ),
    "features": (RandomFeatures(5, random_state=0).set_output(transform="pandas"), TABLE[["x"]]),
    "columns": (
        ColumnTransformer([("a", StandardScaler(), ["x"]), ("b", "passthrough", slice(0, 1))], remainder="passthrough"),
        TABLE[["x", "old"]],
    ),
    "weights": (
        ColumnTransformer([("a", OneHotEncoder(), [1])], transformer_weights={"a": 2.0}, n_jobs=1),
        np.round(X),
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_scikit_learn_are_the_same(name, tmp_path):
    step, given = STEPS[name]
    step = clone(step).fit(given)
    loaded = round_trip(step, tmp_path)
    a, b = loaded.transform(given), step.transform(given)
    assert type(a) is type(b)
    same(*(one.toarray() if issparse(one) else one for one in (a, b)))
    assert loaded.get_feature_names_out().tolist() == step.get_feature_names_out().tolist()
    assert str(round_trip(clone(step), tmp_path)) == str(clone(step)), "unfitted"


@pytest.mark.parametrize(
    "model",
    [
        LinearRegression(positive=True),
        Ridge(solver="lsqr", random_state=np.random.RandomState(0)),
        Lasso(0.1),
        ElasticNet(0.1),
        KernelRidge(kernel="rbf", gamma=0.5),
        KernelRidge(kernel=Matern(1.5)),
        FrozenEstimator(Ridge().fit(X, Y)),
        TransformedTargetRegressor(ridge(), transformer=StandardScaler()),
        TransformedTargetRegressor(),
    ],
    ids=lambda model: type(model).__name__,  # no address of a random state
)
def test_regressors_of_scikit_learn_are_the_same(model, tmp_path):
    model = clone(model).fit(X, Y)
    same(round_trip(model, tmp_path).predict(NEW), model.predict(NEW))


@pytest.mark.parametrize(
    "cv",
    [ShuffleSplit(2), TimeSeriesSplit(3), LeaveOneGroupOut(), PredefinedSplit([0, 1] * 60), [([0, 1], [2])]],
    ids=str,
)
def test_splitters_are_the_same(cv, tmp_path):
    loaded = round_trip(ConformalRegressor(ridge(), method="cross", cv=cv), tmp_path)
    assert str(loaded.cv) == str(cv)
    if not isinstance(cv, list | LeaveOneGroupOut):
        assert loaded.cv.get_n_splits(X) == cv.get_n_splits(X)


def test_pipelines_and_searches_are_the_same(tmp_path):
    columns = ColumnTransformer(
        [("one hot", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["city"])], remainder="drop"
    )
    pipeline = make_pipeline(columns, ridge()).fit(TABLE, TARGETS)
    same(round_trip(pipeline, tmp_path).predict(NEW_TABLE), pipeline.predict(NEW_TABLE))
    columns.set_params(remainder="passthrough")
    pipeline = make_pipeline(columns, ridge()).fit(TABLE[["x", "city"]], TARGETS)
    same(round_trip(pipeline, tmp_path).predict(NEW_TABLE), pipeline.predict(NEW_TABLE))
    search = GridSearchCV(
        make_pipeline(StandardScaler(), FunctionTransformer(np.tanh), ridge()),
        {"randomfeatureridge__scale": [0.5, 1.0]},
        cv=KFold(3),
        scoring="neg_mean_squared_error",
    ).fit(X, Y)
    path = tmp_path / "search.mlkm"
    mlkm.save(search, path, keep_rows=False)
    with pytest.raises(ValueError, match=r"does not trust: .*GridSearchCV") as refused:
        mlkm.load(path)
    names = re.search("trust: (.*); if", str(refused.value))[1].split(", ")
    loaded = mlkm.load(path, trusted=names)
    same(loaded.predict(NEW), search.predict(NEW))
    assert loaded.best_params_ == search.best_params_
    assert loaded.score(X, Y) == search.score(X, Y)
    same(loaded.cv_results_["param_randomfeatureridge__scale"], search.cv_results_["param_randomfeatureridge__scale"])


def test_an_unfitted_model_is_carried_too(tmp_path):
    model = MLKMRegressor(scales=Geometric(0.5, 2.0), widths=(8, 4), solver=VariableProjection(max_iter=3))
    assert str(round_trip(model, tmp_path)) == str(model)


def test_after_loading_conformalize_calibrates_the_model_there_is(tmp_path):
    band = ConformalRegressor(ridge(), random_state=0).fit(X, Y)
    loaded = round_trip(band, tmp_path)
    with pytest.warns(UserWarning, match="not pickled"):
        loaded.conformalize(NEW, NEW[:, 0])
    same(loaded.predict(NEW), band.predict(NEW))


def test_what_needs_rows_says_so_without_them(tmp_path):
    many = RandomFeatureRidge(100, scale=1.0, random_state=0).fit(X, Y)
    with pytest.warns(UserWarning, match="deviations of RandomFeatureRidge need the training rows"):
        without = round_trip(many, tmp_path, keep_rows=False)
    assert not without.has_closed_form_
    assert not hasattr(without, "noise_variance_")
    calls = {
        "return_std": lambda: without.predict(NEW, return_std=True),
        "noise_variance_": lambda: without.noise_variance_,
        "leave_one_out": lambda: without.leave_one_out(X, Y),
        "left_out_predictions": lambda: without.left_out_predictions(NEW),
        "effects": lambda: without.effects(NEW),
        "explain": lambda: without.explain(NEW),
        "partial_fit": lambda: without.partial_fit(X, Y),
        "forget": lambda: without.forget(X[:5], Y[:5]),
        "row_sums": without.row_sums,
        "without_rows": without.without_rows,
        "merge": lambda: mlkm.merge([without, many]),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=f"^{name} needs the training rows, which this model was saved without"):
            call()
    assert many.has_closed_form_, "the model that was saved keeps its rows"
    assert without.fit(X, Y).has_closed_form_, "a new fit has rows again"
    layered = REGRESSORS["projection"][0]()
    with pytest.warns(UserWarning, match="need the training rows"):
        without = round_trip(layered, tmp_path, keep_rows=False)
    with pytest.raises(ValueError, match=r"^refit keeps a learned first layer.*or it was saved without them"):
        without.refit(X, Y)


@pytest.mark.parametrize("name", ["default", "ridge"])
def test_what_looks_at_single_rows_says_so_without_them(name, tmp_path):
    without = round_trip(REGRESSORS[name][0](), tmp_path, keep_rows=False)
    assert not without.has_closed_form_
    for what, arguments in (
        ("leave_one_out", (X, Y)),
        ("left_out_predictions", (X,)),
        ("effects", (X,)),
        ("explain", (X,)),
    ):
        with pytest.raises(ValueError, match=f"^{what} .* saved"):
            getattr(without, what)(*arguments)


def test_the_default_is_refitted_without_its_rows(tmp_path):
    model = MLKMRegressor(random_state=0).fit(X, Y)
    without = round_trip(model, tmp_path, keep_rows=False)
    same(without.refit(X[:80], Y[:80]).predict(NEW), model.refit(X[:80], Y[:80]).predict(NEW))


def test_equal_arrays_are_written_once(tmp_path):
    """The points of every kernel of a fit are the same rows, on their own scale or as ranks."""
    big, y, _ = make_example1(n=200, d=4, random_state=0)
    model = MLKMRegressor(random_state=0).fit(big, y)
    maps = [part for machine in model.machines_ for _, part in machine.maps[0].parts if hasattr(part, "points")]
    path = tmp_path / "model.mlkm"
    mlkm.save(model, path, keep_rows=False)
    with zipfile.ZipFile(path) as archive:
        arrays = [np.load(archive.open(name)) for name in archive.namelist() if name.endswith(".npy")]
    tables = [array for array in arrays if array.shape == maps[0].points.shape and array.dtype == maps[0].points.dtype]
    assert len(maps) > len(tables)
    assert len(tables) <= 2
    loaded = mlkm.load(path)
    kept = [part for machine in loaded.machines_ for _, part in machine.maps[0].parts if hasattr(part, "points")]
    assert len({id(part.points) for part in kept}) == len(tables)


def test_a_default_fit_to_5000_rows_is_under_2_megabytes(tmp_path):
    """The size is that of the rows and coefficients, however short the search."""
    big, y, _ = make_example1(n=5000, d=20, random_state=0)
    with policy_context(Policy(**SHORT_SEARCH)):
        model = MLKMRegressor(random_state=0).fit(big, y)
    path = tmp_path / "model.mlkm"
    mlkm.save(model, path, keep_rows=False)
    assert path.stat().st_size < 2e6
    same(mlkm.load(path).predict(big[:500]), model.predict(big[:500]))


FRESH = """
import sys, mlkm, numpy as np
assert "mlkm.files" not in sys.modules
np.save("said.npy", mlkm.load("model.mlkm").predict(np.load("new.npy")))
"""


def test_another_process_predicts_the_same(tmp_path):
    model = MLKMRegressor(random_state=0).fit(X, SKEWED)
    mlkm.save(model, tmp_path / "model.mlkm", keep_rows=False)
    np.save(tmp_path / "new.npy", NEW)
    path = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", FRESH], check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
    same(np.load(tmp_path / "said.npy"), model.predict(NEW))


STORED = sorted(Path(__file__).parent.glob("*/*.mlkm"))
SINGLE = ("default", "skewed", "table")  # models with kernels in float32
FUSED = {"Haswell", "SkylakeX", "Zen"}  # processors that add as the one did on which the files were written


def limit(name):
    """How far another processor may lead away. Kernels in float32 differ by up to 2e-5 where products are not fused
    with sums (OPENBLAS_CORETYPE=Sandybridge), and by 2e-10 where they are."""
    blas = [part for part in threadpool_info() if part["user_api"] == "blas"]
    fused = all(part.get("architecture") in FUSED for part in blas)
    return 1e-4 if name in SINGLE and not fused else 1e-6


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_files_of_earlier_versions_predict_what_they_did(path):
    said = json.loads((path.parent / "answers.json").read_text())[path.stem]
    assert path.stat().st_size < 100_000
    for now, then in zip(make.answers(path.stem, mlkm.load(path)), said, strict=True):
        np.testing.assert_allclose(now, then, rtol=limit(path.stem), atol=limit(path.stem))


def test_every_kind_of_model_has_a_stored_file():
    assert {path.stem for path in STORED} >= set(make.MODELS)
