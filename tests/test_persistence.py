"""Model files: the same predictions to the last bit, no code of a file runs, and every refusal is a sentence."""

import dataclasses
import importlib
import json
import os
import pickle
import pkgutil
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io
from files import make
from mixed_table import mixed
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import mlkm
from mlkm import (
    ConformalRegressor,
    Geometric,
    MLKMRegressor,
    OnlineConformal,
    RandomFeatureRidge,
    RandomFeatures,
    RKMRegressor,
)
from mlkm.datasets import make_example1
from mlkm.kernels import Matern
from mlkm.persistence.files import SCHEMA
from mlkm.persistence.trusted import OWN, TRUSTED
from mlkm.solvers import GradientDescent, VariableProjection
from mlkm.tables import TableEncoder

X, Y, _ = make_example1(n=120, d=4, random_state=0)
NEW = make_example1(n=150, d=4, random_state=1)[0] * 1.5
SKEWED = np.exp(Y / 3)
TWO = np.column_stack([Y, X[:, 0]])
TABLE, TARGETS = mixed(150)
NEW_TABLE = mixed(80, seed=1)[0]
FAST = {"widths": (16, 4), "random_state": 0}
DESCENT = GradientDescent(learning_rate=1e-2, max_iter=20)


def words(n, seed):
    """A table with a column of many levels, and one of words that hold numbers."""
    rng = np.random.default_rng(seed)
    names = np.array(
        [f"{a} {b}" for a in ("red", "blue", "green", "grey", "dark") for b in ("car", "house", "bird", "x")]
    )
    number = rng.integers(1, 60, n)
    names = np.append(names, ["light car", "light bird", "pink house"])
    return np.column_stack([names[rng.integers(0, len(names), n)], [f"{k} CC" for k in number]]).astype(object)


def ridge(**choices):
    return RandomFeatureRidge(40, scale=1.0, random_state=0, **choices)


REGRESSORS = {
    "default": (lambda: MLKMRegressor(random_state=0).fit(X, Y), NEW),
    "another scale": (lambda: MLKMRegressor(random_state=0).fit(X, SKEWED), NEW),
    "two outputs": (lambda: MLKMRegressor(random_state=0).fit(X, TWO), NEW),
    "weights": (lambda: MLKMRegressor(random_state=0).fit(X, Y, sample_weight=np.arange(120) % 3), NEW),
    "mixed": (lambda: MLKMRegressor(random_state=0).fit(TABLE, TARGETS), NEW_TABLE),
    "mixed in layers": (lambda: MLKMRegressor(**FAST).fit(TABLE, TARGETS), NEW_TABLE),
    "words": (lambda: MLKMRegressor(random_state=0).fit(words(120, 0), Y), words(90, 1)),
    "projection": (lambda: MLKMRegressor(**FAST, solver=VariableProjection(max_iter=5)).fit(X, Y), NEW),
    "rotate": (lambda: MLKMRegressor(**FAST, cv="rotate").fit(X, Y), NEW),
    "folds": (lambda: MLKMRegressor(**FAST, cv=KFold(3)).fit(X, Y), NEW),
    "published": (
        lambda: MLKMRegressor.published((8, 4), Geometric(0.5, 1.5), penalty=1e-3, solver=DESCENT, random_state=0).fit(
            X, Y
        ),
        NEW,
    ),
    "residual": (lambda: RKMRegressor(**FAST).fit(X, Y), NEW),
    "published residual": (
        lambda: RKMRegressor.published((8, 4), (1.0, 1.0), penalty=1e-3, solver=DESCENT, random_state=0).fit(X, Y),
        NEW,
    ),
    "ridge": (lambda: ridge().fit(X, Y), NEW),
    "ridge by itself": (lambda: RandomFeatureRidge(40, random_state=0).fit(X, Y), NEW),
    "smooth": (lambda: ridge(kernel=Matern(nu=1.5)).fit(X, Y), NEW),
    "ridge on a table": (lambda: ridge().fit(TABLE, TARGETS), NEW_TABLE),
    "seeded": (lambda: ridge().set_params(random_state=np.random.RandomState(3)).fit(X, Y), NEW),
    "constant": (lambda: MLKMRegressor(random_state=0).fit(X, np.ones(len(X))), NEW),
    "one row": (lambda: MLKMRegressor(random_state=0).fit(X[:1], Y[:1]), NEW),
}

BANDS = {
    **{
        f"{score} {method}": lambda score=score, method=method: ConformalRegressor(
            ridge(), score=score, method=method, cv=3, random_state=0
        ).fit(X, Y)
        for score in ("variance", "absolute", "residual", "quantile")
        for method in ("split", "cross")
    },
    "bootstrap": lambda: ConformalRegressor(Ridge(), method="bootstrap", random_state=0).fit(X, Y),
    "loo": lambda: ConformalRegressor(ridge(), method="cross", cv="loo", random_state=0).fit(X, Y),
    "default": lambda: ConformalRegressor(random_state=0).fit(X, Y),
    "linear": lambda: ConformalRegressor(LinearRegression(), random_state=0).fit(X, Y),
    "gaussian process": lambda: ConformalRegressor(
        GaussianProcessRegressor(RBF() + WhiteKernel(), optimizer=None), random_state=0
    ).fit(X, Y),
    "several levels": lambda: ConformalRegressor(ridge(), confidence_level=[0.8, 0.9], random_state=0).fit(X, Y),
    "two outputs": lambda: ConformalRegressor(ridge(), score="absolute", random_state=0).fit(X, TWO),
    "weights": lambda: ConformalRegressor(ridge(), random_state=0).fit(X, Y, sample_weight=1 + np.arange(120) % 3),
    "pipeline": lambda: ConformalRegressor(
        make_pipeline(StandardScaler(), ridge()), score="quantile", random_state=0
    ).fit(X, Y),
    "frozen": lambda: ConformalRegressor(FrozenEstimator(ridge().fit(X, Y)), random_state=0).conformalize(
        NEW, NEW[:, 0]
    ),
    "splitter": lambda: ConformalRegressor(ridge(), method="cross", cv=GroupKFold(3)).fit(
        X, Y, groups=np.arange(120) % 6
    ),
}


def round_trip(model, folder, **choices):
    path = folder / "model.mlkm"
    mlkm.save(model, path, **choices)
    return mlkm.load(path)


def described(model):
    """With all parameters; a generator has another address."""
    return re.sub(r"0x\w+", "", str(model))


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_predicts_the_same_to_the_last_bit(name, tmp_path):
    make, new = REGRESSORS[name]
    model = make()
    whole = round_trip(model, tmp_path)
    for given, loaded in zip(model.predict(new, return_std=True), whole.predict(new, return_std=True), strict=True):
        same(given, loaded)
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


@pytest.mark.parametrize("name", BANDS)
def test_a_band_is_the_same_to_the_last_bit(name, tmp_path):
    band = BANDS[name]()
    loaded = round_trip(band, tmp_path)
    assert described(loaded) == described(band)
    for given, back in zip(band.predict_interval(NEW), loaded.predict_interval(NEW), strict=True):
        same(given, back)
    same(band.predict(NEW), loaded.predict(NEW))
    assert band.n_calibration_ == loaded.n_calibration_


def test_a_band_that_needs_no_rows_is_the_same_without_them(tmp_path):
    band = ConformalRegressor(ridge(), score="absolute", random_state=0).fit(X, Y)
    same(round_trip(band, tmp_path, keep_rows=False).predict_interval(NEW)[1], band.predict_interval(NEW)[1])
    band = ConformalRegressor(ridge(), score="variance", random_state=0).fit(X, Y)
    without = round_trip(band, tmp_path, keep_rows=False)
    same(without.predict(NEW), band.predict(NEW))
    with pytest.raises(ValueError, match=r"saved\s+without; save it with keep_rows=True"):
        without.predict_interval(NEW)


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
    assert loaded._ends[0].recent.maxlen == window


def test_groups_given_as_a_series_are_kept(tmp_path):
    import pandas as pd

    groups = pd.Series(np.where(NEW[:, 0] > 0, "high", "low"), index=np.arange(len(NEW)) + 7)
    band = ConformalRegressor(FrozenEstimator(ridge().fit(X, Y))).conformalize(NEW, NEW[:, 0], groups=groups)
    loaded = round_trip(band, tmp_path)
    same(loaded.predict_interval(NEW, groups=groups)[1], band.predict_interval(NEW, groups=groups)[1])


def test_transformers_are_the_same(tmp_path):
    features = RandomFeatures(30, Matern(1.5), random_state=0).fit(X)
    same(round_trip(features, tmp_path).transform(NEW), features.transform(NEW))
    encoder = TableEncoder().fit(TABLE)
    loaded = round_trip(encoder, tmp_path)
    same(loaded.transform(NEW_TABLE), encoder.transform(NEW_TABLE))
    assert loaded.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()


def test_pipelines_and_searches_are_the_same(tmp_path):
    columns = ColumnTransformer(
        [("one hot", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["city"])], remainder="drop"
    )
    pipeline = make_pipeline(columns, ridge()).fit(TABLE, TARGETS)
    same(round_trip(pipeline, tmp_path).predict(NEW_TABLE), pipeline.predict(NEW_TABLE))
    search = GridSearchCV(
        make_pipeline(StandardScaler(), FunctionTransformer(np.tanh), ridge()),
        {"randomfeatureridge__scale": [0.5, 1.0]},
        cv=KFold(3),
        scoring="neg_mean_squared_error",
    ).fit(X, Y)
    loaded = round_trip(search, tmp_path, keep_rows=False)
    same(loaded.predict(NEW), search.predict(NEW))
    assert loaded.best_params_ == search.best_params_
    assert loaded.score(X, Y) == search.score(X, Y)


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
    model = ridge().fit(X, Y)
    without = round_trip(model, tmp_path, keep_rows=False)
    assert not without.has_closed_form_
    for call in (
        lambda: without.predict(NEW, return_std=True),
        lambda: without.noise_variance_,
        lambda: without.leave_one_out(X, Y),
        lambda: without.left_out_predictions(NEW),
    ):
        with pytest.raises(ValueError, match="need the training rows, which this model was saved without"):
            call()
    assert model.has_closed_form_, "the model that was saved keeps its rows"
    assert without.fit(X, Y).has_closed_form_, "a new fit has rows again"


def test_equal_arrays_are_written_once(tmp_path):
    """The points of every kernel of a fit are the same rows, on their own scale or as ranks."""
    big, y, _ = make_example1(n=200, d=4, random_state=0)
    model = MLKMRegressor(random_state=0).fit(big, y)
    maps = [part for machine in model.machines_ for _, part in machine.maps[0].parts if hasattr(part, "points")]
    path = tmp_path / "model.mlkm"
    mlkm.save(model, path, keep_rows=False)
    with zipfile.ZipFile(path) as archive:
        arrays = [np.load(archive.open(name)) for name in archive.namelist() if name.endswith(".npy")]
    tables = [array for array in arrays if array.shape == maps[0].points.shape]
    assert len(maps) > len(tables)
    assert len(tables) <= 2
    loaded = mlkm.load(path)
    kept = [part for machine in loaded.machines_ for _, part in machine.maps[0].parts if hasattr(part, "points")]
    assert len({id(part.points) for part in kept}) == len(tables)


@pytest.mark.slow
def test_a_default_fit_to_20000_rows_is_under_5_megabytes(tmp_path):
    """The fit takes some 20 seconds."""
    big, y, _ = make_example1(n=20_000, d=20, random_state=0)
    model = MLKMRegressor(random_state=0).fit(big, y)
    path = tmp_path / "model.mlkm"
    mlkm.save(model, path, keep_rows=False)
    assert path.stat().st_size < 5e6
    same(mlkm.load(path).predict(big[:500]), model.predict(big[:500]))


def test_texts_of_levels_do_not_become_thousands_of_entries(tmp_path):
    texts = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), max_features=300).fit(list(words(200, 0)[:, 0]))
    pipeline = make_pipeline(texts)
    path = tmp_path / "model.mlkm"
    mlkm.save(pipeline, path)
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) < 10
    same(mlkm.load(path).transform(["red car"]).toarray(), pipeline.transform(["red car"]).toarray())


class Evil(BaseEstimator):
    """What a pickle would run."""

    def __init__(self, command="touch"):
        self.command = command

    def __reduce__(self):
        return os.system, (f"{self.command} hacked",)


def forged(path, change):
    """The file with its description changed by `change`, and rewritten."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    description = json.loads(entries["schema.json"])
    change(description)
    entries["schema.json"] = json.dumps(description)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.mlkm"
    mlkm.save(Ridge().fit(X, Y), path)
    return path


def place(state):
    return lambda description: description["content"]["content"].update(intercept_=state)


COMMAND = {
    "__class__": "str",
    "__module__": "builtins",
    "__loader__": "JsonNode",
    "content": '"touch hacked"',
    "is_json": True,
}
ARGUMENTS = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": [COMMAND]}
NONE = {
    "__class__": "dict",
    "__module__": "builtins",
    "__loader__": "DictNode",
    "content": {},
    "key_types": {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": []},
}
FUNCTION = {"__class__": "system", "__module__": "posix", "__loader__": "FunctionNode"}
HOSTILE = {
    "posix.system": FUNCTION,
    "os.system": {
        "__class__": "system",
        "__module__": "os",
        "__loader__": "ConstructorFromReduceNode",
        "content": ARGUMENTS,
    },
    "builtins.eval": {"__class__": "eval", "__module__": "builtins", "__loader__": "TypeNode"},
    "functools.partial": {
        "__class__": "partial",
        "__module__": "functools",
        "__loader__": "PartialNode",
        "content": {"func": FUNCTION, "args": ARGUMENTS, "kwds": NONE, "namespace": NONE},
    },
    "subprocess.Popen": {
        "__class__": "Popen",
        "__module__": "subprocess",
        "__loader__": "ObjectNode",
        "content": ARGUMENTS,
    },
    "mlkm.cli.main": {
        "__class__": "main",
        "__module__": "mlkm.cli",
        "__loader__": "ConstructorFromReduceNode",
        "content": ARGUMENTS,
    },
    "operator.methodcaller": {
        "__class__": "methodcaller",
        "__module__": "operator",
        "__loader__": "OperatorFuncNode",
        "attrs": ARGUMENTS,
    },
    "sklearn.linear_model._ridge.Ridge.fit": {
        "__class__": "Ridge",
        "__module__": "sklearn.linear_model._ridge",
        "__loader__": "MethodNode",
        "content": {
            "func": "fit",
            "obj": {"__class__": "Ridge", "__module__": "sklearn.linear_model._ridge", "__loader__": "ObjectNode"},
        },
    },
    "unheard_of.Thing": {"__class__": "Thing", "__module__": "unheard_of", "__loader__": "ObjectNode"},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_asks_for_more_than_it_may_is_refused_by_name(name, saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    forged(saved, place(HOSTILE[name]))
    with pytest.raises(ValueError, match="does not trust: ") as refusal:
        mlkm.load(saved)
    assert name in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "hacked").exists()


def test_a_loader_that_is_not_known_is_refused(saved):
    forged(saved, place({"__class__": "system", "__module__": "os", "__loader__": "PickleNode"}))
    with pytest.raises(ValueError, match=r"model\.mlkm.* is damaged or forged"):
        mlkm.load(saved)


def test_a_pickle_is_refused_and_does_not_run(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bomb = pickle.dumps(Evil())
    (tmp_path / "pickle").write_bytes(bomb)
    with pytest.raises(ValueError, match=r"'.*pickle' is no file that mlkm\.save wrote"):
        mlkm.load(tmp_path / "pickle")
    # An array of objects is a pickle inside numpy's own file.
    with zipfile.ZipFile(saved) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".npy"))
        entries = {other: archive.read(other) for other in archive.namelist()}
    np.save(tmp_path / "objects.npy", np.array([Evil()], object), allow_pickle=True)
    entries[name] = (tmp_path / "objects.npy").read_bytes()
    with zipfile.ZipFile(saved, "w") as archive:
        for other, content in entries.items():
            archive.writestr(other, content)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        mlkm.load(saved)
    assert not (tmp_path / "hacked").exists()


def test_a_type_of_the_users_own_is_named_and_can_be_trusted(tmp_path):
    path = tmp_path / "forest.mlkm"
    forest = ConformalRegressor(RandomForestRegressor(3, random_state=0), random_state=0).fit(X, Y)
    mlkm.save(forest, path)
    with pytest.raises(ValueError, match=r"does not trust: sklearn\.tree\._tree\.Tree; if you do, name it in trusted="):
        mlkm.load(path)
    same(mlkm.load(path, trusted=["sklearn.tree._tree.Tree"]).predict_interval(NEW)[1], forest.predict_interval(NEW)[1])
    with pytest.raises(TypeError, match=r"as in \['sklearn\.tree\._tree\.Tree'\]"):
        mlkm.load(path, trusted="sklearn.tree._tree.Tree")


def note(path, **changes):
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries["mlkm.json"] = json.dumps({**json.loads(entries["mlkm.json"]), **changes}).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def test_versions_are_written_and_a_newer_schema_is_refused(saved):
    with zipfile.ZipFile(saved) as archive:
        assert json.loads(archive.read("mlkm.json")) == {"schema": SCHEMA, "mlkm": mlkm.__version__}
    note(saved, mlkm="9.0.0")
    mlkm.load(saved)
    note(saved, schema=SCHEMA + 1)
    with pytest.raises(
        ValueError, match=r"mlkm 9\.0\.0 in schema 2, and mlkm .* reads schemas up to 1: install a newer"
    ):
        mlkm.load(saved)
    note(saved, schema="many")
    with pytest.raises(ValueError, match="cut short or damaged"):
        mlkm.load(saved)


def test_files_that_are_no_models_are_refused(saved, tmp_path):
    with pytest.raises(FileNotFoundError):
        mlkm.load(tmp_path / "nowhere.mlkm")
    for name, content in (("empty", b""), ("text", b"a,b\n1,2\n")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"'.*{name}' is no file that mlkm\.save wrote"):
            mlkm.load(tmp_path / name)
    skops.io.dump(Ridge().fit(X, Y), tmp_path / "plain.skops")
    with pytest.raises(ValueError, match=r"plain\.skops' is no file that mlkm\.save wrote"):
        mlkm.load(tmp_path / "plain.skops")
    forged(saved, lambda description: (description.clear(), description.update(**COMMAND, protocol=2)))
    with pytest.raises(ValueError, match="holds no model, but an object of type str"):
        mlkm.load(saved)


def test_a_file_that_is_cut_short_or_damaged_is_refused(saved):
    content = saved.read_bytes()
    for n in (2, 30, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:n])
        with pytest.raises(ValueError, match=r"model\.mlkm' is "):
            mlkm.load(saved)
    middle = len(content) // 3
    saved.write_bytes(content[:middle] + bytes(b ^ 255 for b in content[middle : middle + 40]) + content[middle + 40 :])
    with pytest.raises(ValueError, match=r"model\.mlkm' is "):
        mlkm.load(saved)


def test_what_cannot_be_written_is_refused(tmp_path):
    path = tmp_path / "model.mlkm"
    with pytest.raises(TypeError, match="writes estimators, as in save"):
        mlkm.save([1, 2], path)
    with pytest.raises(TypeError, match="got type"):
        mlkm.save(MLKMRegressor, path)
    with pytest.raises(ValueError, match="Pipeline holds what cannot be written to a file"):
        mlkm.save(make_pipeline(FunctionTransformer(lambda x: x), Ridge()), path)
    with pytest.raises(ValueError, match="ConformalRegressor holds what cannot be written to a file"):
        mlkm.save(ConformalRegressor(Ridge(), cv=(part for part in ())), path)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_none_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no folder '.*nowhere' to write 'model\.mlkm' to"):
        mlkm.save(Ridge(), tmp_path / "nowhere" / "model.mlkm")
    with pytest.raises(IsADirectoryError, match="needs the name of a file; got the folder"):
        mlkm.save(Ridge(), tmp_path)


def test_an_interrupted_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    for place_of_fault in ((os, "fsync"), (os, "replace"), (zipfile.ZipFile, "writestr")):
        with monkeypatch.context() as patch:
            patch.setattr(*place_of_fault, interrupted)
            with pytest.raises(KeyboardInterrupt):
                mlkm.save(Ridge().fit(X, -Y), saved)
        assert saved.read_bytes() == before
        assert [path.name for path in saved.parent.iterdir()] == [saved.name]
    mlkm.save(Ridge().fit(X, -Y), saved)
    same(mlkm.load(saved).predict(NEW), Ridge().fit(X, -Y).predict(NEW))


@pytest.mark.skipif(os.name != "posix", reason="links and modes of POSIX")
def test_a_save_follows_links_and_the_umask(saved, tmp_path):
    link = tmp_path / "link.mlkm"
    link.symlink_to(saved)
    mlkm.save(Ridge().fit(X, -Y), str(link))
    assert link.is_symlink()
    same(mlkm.load(saved).predict(NEW), Ridge().fit(X, -Y).predict(NEW))
    plain = tmp_path / "plain"
    plain.write_text("")
    assert saved.stat().st_mode == plain.stat().st_mode


FRESH = """
import sys, mlkm, numpy as np
assert "skops" not in sys.modules
np.save("said.npy", mlkm.load("model.mlkm").predict(np.load("new.npy")))
"""


def test_another_process_predicts_the_same_and_imports_skops_late(tmp_path):
    model = MLKMRegressor(random_state=0).fit(X, SKEWED)
    mlkm.save(model, tmp_path / "model.mlkm", keep_rows=False)
    np.save(tmp_path / "new.npy", NEW)
    path = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", FRESH], check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
    same(np.load(tmp_path / "said.npy"), model.predict(NEW))


def test_skops_is_asked_for_by_name(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for call in (lambda: mlkm.save(Ridge(), tmp_path / "model"), lambda: mlkm.load(tmp_path / "model")):
        with pytest.raises(ImportError, match=r'pip install "mlkm\[save\]"'):
            call()


def test_every_trusted_name_exists_and_every_part_of_a_model_is_trusted():
    for name in TRUSTED:
        module, _, own = name.rpartition(".")
        assert hasattr(importlib.import_module(module), own), name
    passing = {"mlkm.model.machine.Tape"}  # what is never kept
    import mlkm.model

    modules = [importlib.import_module(f"mlkm.model.{m.name}") for m in pkgutil.iter_modules(mlkm.model.__path__)]
    kept = {
        f"{part.__module__}.{part.__name__}"
        for module in [*modules, mlkm.kernels]
        for part in vars(module).values()
        if dataclasses.is_dataclass(part) and part.__module__.startswith(("mlkm.model.", "mlkm.kernels"))
    }
    assert kept - passing <= set(OWN), "name what a model is made of in mlkm.persistence.trusted"


STORED = sorted((Path(__file__).parent / "files").glob("*/*.mlkm"))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_files_of_earlier_versions_predict_what_they_did(path):
    """Up to what another processor adds differently."""
    said = json.loads((path.parent / "answers.json").read_text())[path.stem]
    assert path.stat().st_size < 100_000
    for now, then in zip(make.answers(path.stem, mlkm.load(path)), said, strict=True):
        np.testing.assert_allclose(now, then, rtol=1e-6, atol=1e-6)


def test_every_kind_of_model_has_a_stored_file():
    assert {path.stem for path in STORED} >= set(make.MODELS)
