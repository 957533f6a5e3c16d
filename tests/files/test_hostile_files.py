"""Model files that are forged, damaged or interrupted: nothing of a file runs, and every refusal is a sentence."""

import dataclasses
import importlib
import io
import json
import os
import pickle
import pkgutil
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sklearn
from benchmarks import mutations
from saved_models import NEW, TABLE, TARGETS, X, Y, same, words
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor, StackingRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler

import mlkm
from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge
from mlkm.files.store import SCHEMA
from mlkm.runtime.records import is_record


class Evil(BaseEstimator):
    """What a pickle would run."""

    def __init__(self, command="touch"):
        self.command = command

    def __reduce__(self):
        return os.system, (f"{self.command} hacked",)


def entries_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path, entries):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def forged(path, change):
    """The file with its description changed by `change`, and rewritten."""
    entries = entries_of(path)
    description = json.loads(entries["model.json"])
    change(description["objects"])
    entries["model.json"] = json.dumps(description)
    written(path, entries)


def records_of(value, name):
    """Yield the fields of all records of a name in a description."""
    if isinstance(value, dict) and value.get("record", [None])[0] == name:
        yield value["record"][1]
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from records_of(inner, name)


def with_attribute(name, attribute, value):
    """Return a change of one attribute of the first estimator or record of a name."""

    def change(objects):
        for described in objects:
            if described["make"].split(".")[-1] == name:
                state = described["state"]["dict"]
                state[:] = [[key, old] for key, old in state if key != attribute] + [[attribute, value]]
                return
        next(records_of(objects, name))[attribute] = value

    return change


def refusal(path, **choices):
    """The sentence by which a file is refused."""
    with pytest.raises(ValueError, match=r"model\.mlkm' ") as refused:
        mlkm.load(path, **choices)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith(".")
    return str(refused.value)


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A file of a small model, in a folder of its own that is the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.mlkm"
    mlkm.save(Ridge().fit(X, Y), path)
    return path


@pytest.fixture(scope="module")
def small():
    return RandomFeatureRidge(8, scale=1.0, random_state=0).fit(X[:30], Y[:30])


HOSTILE = [
    "posix.system",
    "os.system",
    "builtins.eval",
    "builtins.getattr",
    "functools.partial",
    "subprocess.Popen",
    "mlkm.cli.main",
    "operator.methodcaller",
    "numpy.fromfile",
    "unheard_of.Thing",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._dia.dia_array",
    "sklearn.linear_model._ridge.Ridge.fit",
    "sklearn.feature_extraction.text.CountVectorizer",
    "sklearn.ensemble._stacking.StackingRegressor",
    "sklearn.tree._tree.Tree",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_asks_for_more_than_it_may_is_refused_by_name(name, saved):
    """The name is that of a class to be made, of a function to be called, or of a value."""
    before = saved.read_bytes()
    mlkm.load(saved)
    modules = set(sys.modules)
    for node in (
        {"call": name, "arguments": ["touch hacked"]},
        {"make": name, "arguments": ["touch hacked"]},
        {"make": name, "state": {"dict": []}},
    ):
        saved.write_bytes(before)
        forged(saved, lambda objects, node=node: objects.insert(0, node))
        assert f"does not trust: {name}; if you trust the author of the file, name them in trusted" in refusal(saved)
    saved.write_bytes(before)
    forged(saved, with_attribute("Ridge", "alpha", {"name": name}))
    assert f"does not trust: {name}; if" in refusal(saved)
    assert set(sys.modules) == modules, "nothing is imported for a name"
    assert os.listdir() == [saved.name]


def test_the_name_that_is_checked_is_the_name_that_is_made(saved):
    """In CVE-2025-54412 and 54413 of skops, one name was checked and another one was made or called."""
    ridge = "sklearn.linear_model._ridge.Ridge"
    before = saved.read_bytes()
    for extra in ({"call": "os.system"}, {"arguments": ["touch hacked"]}, {"name": "os.system"}, {"items": []}):
        saved.write_bytes(before)
        forged(saved, lambda objects, extra=extra: objects[0].update(extra))
        refusal(saved)
    for node in (
        {"call": ridge, "arguments": []},
        {"make": ridge, "arguments": ["touch hacked"]},
        {"make": [ridge, "os.system"], "state": {"dict": []}},
        {"make": {"name": ridge}, "state": {"dict": []}},
    ):
        saved.write_bytes(before)
        forged(saved, lambda objects, node=node: objects.__setitem__(0, node))
        refusal(saved)
    # os.system is defined as posix.system: trusting the first name does not trust the second.
    saved.write_bytes(before)
    forged(saved, lambda objects: objects.insert(0, {"call": "os.system", "arguments": ["touch hacked"]}))
    assert "os.system, and no class or function is defined under this name" in refusal(saved, trusted=["os.system"])
    for name in ("mlkm.files.store.os.system", "sklearn.base.BaseEstimator.__class__", "mlkm.load.__globals__"):
        saved.write_bytes(before)
        forged(saved, with_attribute("Ridge", "alpha", {"name": name}))
        assert "is defined under this name" in refusal(saved, trusted=[name])
    assert os.listdir() == [saved.name]


def transformer(function, **arguments):
    return FunctionTransformer(func=function, kw_args=arguments or None)


def test_a_model_of_scikit_learn_that_writes_or_reads_files_is_refused(tmp_path, monkeypatch):
    """Each of them is made of classes of scikit-learn alone, and would touch a file when it is asked to predict."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.mlkm"
    stack = StackingRegressor([("a", Ridge())])
    stack.estimators_, stack.stack_method_ = [np.array([b"#!/bin/sh"])], ["tofile"]
    stack.named_estimators_, stack.final_estimator_ = None, Ridge().fit(np.eye(2), [0.0, 1.0])
    target = np.array(str(tmp_path / "written"))
    steps = [transformer(str), transformer(np.logical_not, out=target, where=False, casting="unsafe"), stack]
    mlkm.save(Pipeline([(str(k), step) for k, step in enumerate(steps)]), path)
    told = refusal(path)
    assert "builtins.str" in told
    assert "numpy.logical_not" in told
    assert "StackingRegressor" in told
    counts = CountVectorizer(input="filename").fit([__file__])
    mlkm.save(make_pipeline(counts), path)
    assert "sklearn.feature_extraction.text.CountVectorizer" in refusal(path)
    mlkm.save(Pipeline([("a", StandardScaler()), ("b", Ridge())], memory="cache"), path)
    assert "does not trust: sklearn.pipeline.Pipeline; if you trust" in refusal(path)
    mlkm.save(Pipeline([("a", StandardScaler()), ("b", Ridge())]), path)
    forged(path, with_attribute("Pipeline", "memory", "cache"))
    assert "the attribute 'memory' of Pipeline is 'cache', which is not allowed" in refusal(path)
    mlkm.save(make_pipeline(transformer(np.tanh)), path)
    name = "sklearn.preprocessing._function_transformer.FunctionTransformer"
    assert f"does not trust: numpy.tanh, {name}; if you trust" in refusal(path)
    assert f"does not trust: {name}; if you trust" in refusal(path, trusted=["numpy.tanh"])
    same(mlkm.load(path, trusted=["numpy.tanh", name]).transform(NEW), np.tanh(NEW))
    assert os.listdir() == [path.name]


CRASHES = """
import json, sys, warnings, zipfile
import numpy as np
import mlkm
from test_hostile_files import forged, with_attribute
from sklearn.preprocessing import OneHotEncoder
from sklearn.pipeline import make_pipeline
from sklearn.linear_model import Ridge

def sparse(kind):
    array = {"tuple": [{"array": 0}, {"array": 1}, {"array": 1}]}
    return lambda objects: objects.insert(0, {"call": f"scipy.sparse._{kind[:3]}.{kind}", "arguments": [array]})

steps = make_pipeline(OneHotEncoder(drop="first"), Ridge()).fit(np.array([[1.0], [2.0], [3.0]]), [1.0, 2.0, 3.0])
changes = [
    sparse("csr_array"), sparse("dia_array"), sparse("csc_matrix"), sparse("csr_matrix"),
    with_attribute("OneHotEncoder", "_n_features_outs", [1]),
    with_attribute("OneHotEncoder", "_drop_idx_after_grouping", {"objects": [[1], [10]]}),
    with_attribute("OneHotEncoder", "_drop_idx_after_grouping", {"objects": [[1], [-5]]}),
    with_attribute("OneHotEncoder", "categories_", [{"tuple": []}]),
    with_attribute("Ridge", "random_state", {"random": ["MT19937", {"array": 0}, 10**9, 0, 0.0]}),
]
for change in changes:
    mlkm.save(steps, "model.mlkm")
    forged("model.mlkm", change)
    try:
        model = mlkm.load("model.mlkm")
    except ValueError as error:
        print("refused:", error)
    else:
        model.predict(np.arange(9.0)[:, None] % 3 + 1)
        print("loaded")
steps[0].categories_ = [np.array([3.0, 1.0, 2.0])]
mlkm.save(steps, "model.mlkm")
try:
    mlkm.load("model.mlkm")
except ValueError as error:
    print("refused:", error)
"""


def test_places_that_compiled_code_relies_on_are_checked(tmp_path):
    """They are loaded in another process, since unchecked files like these would crash it."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    run = subprocess.run([sys.executable, "-c", CRASHES], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert [line.split(":")[0] for line in run.stdout.splitlines()] == ["refused"] * 10, run.stdout


CONFUSED = {
    "an array for an object": ("preparation", "x_scaler", {"array": 0}),
    "an object for an array": ("feature map", "phases", {"record": ["gaussian", {}]}),
    "another class": ("preparation", "y_scaler", {"record": ["gaussian", {}]}),
    "a word for a number": ("RandomFeatureRidge", "penalty_", "1e-3"),
    "a number for a truth value": ("preparation", "single_output", 1),
    "a truth value for a number": ("RandomFeatureRidge", "n_features_in_", True),
    "a list for a tuple": ("RandomFeatureRidge", "machines_", []),
    "a method": ("RandomFeatureRidge", "predict", "x"),
    "a class": ("RandomFeatureRidge", "__class__", "x"),
    "a name that is no word": ("RandomFeatureRidge", {"tuple": ["penalty_"]}, 1.0),
    "nothing": ("standardiser", "mean", None),
    "words": ("machine", "residual", "yes"),
    "no maps": ("machine", "maps", {"tuple": []}),
    "one layer too many": ("machine", "layers", {"tuple": [{"tuple": []}, {"tuple": []}]}),
    "a tuple of another length": ("RandomFeatureRidge", "_rows_of_fit", {"tuple": [{"array": 0}]}),
    "places below zero": ("inputs", "kinds", "negative"),
    "places beyond": ("inputs", "owners", "huge"),
}


@pytest.mark.parametrize("name", CONFUSED)
def test_what_is_of_another_type_or_out_of_range_is_refused(name, small, tmp_path):
    path = tmp_path / "model.mlkm"
    mlkm.save(small, path)
    cls, attribute, value = CONFUSED[name]
    if value in ("negative", "huge"):
        entries = entries_of(path)
        entries["999.npy"] = npy(np.full(4, -1 if value == "negative" else 10**12))
        written(path, entries)
        value = {"array": 999}
    forged(path, with_attribute(cls, attribute, value))
    assert "damaged or forged: " in refusal(path)
    assert cls in refusal(path)


def test_arrays_whose_shapes_do_not_go_together_are_refused(small, tmp_path):
    path = tmp_path / "model.mlkm"
    for cls, attribute, array in (
        ("feature map", "phases", np.zeros(7)),
        ("feature map", "frequencies", np.zeros((4, 8, 1))),
        ("standardiser", "sd", np.zeros((4, 1))),
        ("block", "weights", np.zeros(29)),
        ("input range", "low", np.zeros(0)),
    ):
        mlkm.save(small, path)
        entries = entries_of(path)
        written(path, {**entries, "999.npy": npy(array)})
        forged(path, with_attribute(cls, attribute, {"array": 999}))
        assert f"the attributes of a {cls} are inconsistent" in refusal(path)


def test_objects_cannot_refer_to_themselves_or_too_often(saved):
    before = saved.read_bytes()
    for place in (0, 1, -1, 10**9, True, "0", 0.0):
        forged(saved, with_attribute("Ridge", "alpha", {"object": place}))
        assert "does not come before" in refusal(saved)
        saved.write_bytes(before)

    def doubled(objects):
        for k in range(60):
            steps = [{"tuple": [str(j), {"object": k}]} for j in range(2)]
            parts = {
                "steps": steps,
                "memory": None,
                "verbose": False,
                "transform_input": None,
                "_sklearn_version": sklearn.__version__,
            }
            state = {"dict": [[name, value] for name, value in parts.items()]}
            objects.append({"make": "sklearn.pipeline.Pipeline", "state": state})

    forged(saved, doubled)
    assert "refer to each other too often" in refusal(saved)
    saved.write_bytes(before)
    entries = entries_of(saved)
    written(saved, {**entries, "model.json": b"[" * 10**5})
    refusal(saved)


def npy(array, **choices):
    buffer = io.BytesIO()
    np.save(buffer, array, **choices)
    return buffer.getvalue()


def header(descr, shape, content=b""):
    words = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words + content


ARRAYS = {
    "objects": npy(np.array([Evil()], object), allow_pickle=True),
    "a pickle": pickle.dumps(Evil()),
    "records": npy(np.zeros(2, [("a", "<f8")])),
    "nested types": header("('<f8', (3,))", "(2,)", bytes(48)),
    "lengths of time": npy(np.zeros(4, "m8[us]")),
    "dates of a unit of its own": npy(np.zeros(4, "M8[7D]")),
    "complex numbers": npy(np.zeros(4, complex)),
    "raw bytes": npy(np.zeros(4, "V8")),
    "no letters": header("'<U1'", "(2,)", b"\xff" * 8),
    "no truth values": header("'|b1'", "(4,)", b"\x02" * 4),
    "a negative length": header("'<f8'", "(-4,)", bytes(32)),
    "a huge length": header("'<f8'", "(10000000000000,)", bytes(32)),
    "lengths whose product overflows": header("'<f8'", "(9223372036854775808, 9223372036854775808)", bytes(32)),
    "no rows of a huge length": header("'<f8'", "(0, 10000000000000)"),
    "more bytes than it says": npy(np.zeros(4)) + bytes(8),
    "fewer bytes than it says": npy(np.zeros(4))[:-8],
    "many sides": npy(np.zeros((1,) * 20)),
    "another version": b"\x93NUMPY\x02\x00" + npy(np.zeros(4))[8:],
    "a header that is a program": header("__import__('os').system('touch hacked')", "(4,)", bytes(32)),
    "a long header": header("'<f8'", "(4," + " " * 60000 + ")", bytes(32)),
    "nothing": b"",
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_is_none_is_refused(name, saved):
    written(saved, {**entries_of(saved), "0.npy": ARRAYS[name]})
    assert "damaged or forged: " in refusal(saved)
    assert os.listdir() == [saved.name]


def test_an_archive_that_no_model_has_is_refused(saved):
    entries = entries_of(saved)
    for name in ("../../evil.npy", "/tmp/evil", "x.pkl", "0.npy/", "schema.json", "\u0660.npy", "0" * 9 + ".npy"):
        written(saved, {**entries, name: b"x"})
        assert f"it has an entry {name!r}, which no model file has" in refusal(saved)
    written(saved, {**entries, "1.npy": entries["0.npy"]})
    saved.write_bytes(saved.read_bytes().replace(b"1.npy", b"0.npy"))
    assert "two of its entries have the same name" in refusal(saved)
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_LZMA) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    assert "neither stored nor deflated" in refusal(saved)
    written(saved, {**entries, "1.npy": entries["0.npy"]})
    content = bytearray(saved.read_bytes())
    first, second = (content.rindex(name) for name in (b"0.npy", b"1.npy"))  # in the directory at the end
    content[second - 4 : second] = content[first - 4 : first]  # where the entry begins
    saved.write_bytes(content)
    assert "overlaps another" in refusal(saved)


def peak(call):
    """Return the peak memory of a call, in MB."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def test_a_small_file_does_not_take_much_memory(saved):
    """Refuse entries of 80 MB that take 80 KB in the archive, or that claim to be small."""
    entries, size = entries_of(saved), 80_000_000
    zeros = header("'<f8'", f"({size // 8},)", bytes(size))
    for name, content in (("mlkm.json", bytes(size)), ("model.json", b" " * size), ("0.npy", zeros)):
        written(saved, {**entries, name: content})
        assert saved.stat().st_size < 1e6
        assert peak(lambda: refusal(saved)) < 5
    forged_size = saved.read_bytes().replace(struct.pack("<L", len(zeros)), struct.pack("<L", 1000))
    saved.write_bytes(forged_size)
    assert peak(lambda: refusal(saved)) < 5
    with zipfile.ZipFile(saved, "w") as archive:
        for name, content in {**entries, "model.json": b"[" + 10**6 * b"[]," + b"[]]"}.items():
            archive.writestr(name, content)
    assert "made of far more lists than that of a model" in refusal(saved)
    assert peak(lambda: refusal(saved)) < 10
    part = header("'<f8'", "(3000000,)", bytes(24_000_000))
    written(saved, {**entries, **{f"{k}.npy": part for k in range(3)}})
    forged(saved, with_attribute("Ridge", "alpha", [{"array": k} for k in range(3)]))
    assert "far more memory than a file of this size may" in refusal(saved)
    assert peak(lambda: refusal(saved)) < 100


def test_what_compresses_well_is_stored_so_that_it_can_be_read(tmp_path):
    model = Ridge().fit(X, Y)
    model.coef_ = np.zeros((9, 1_000_000))
    path = tmp_path / "model.mlkm"
    mlkm.save(model, path)
    assert path.stat().st_size > model.coef_.nbytes
    same(mlkm.load(path).coef_, model.coef_)


def test_a_pickle_is_refused_and_does_not_run(saved):
    saved.write_bytes(pickle.dumps(Evil()))
    assert "is no file that mlkm.save wrote" in refusal(saved)
    assert os.listdir() == [saved.name]


def test_a_type_of_the_users_own_is_named_and_can_be_trusted(tmp_path):
    path = tmp_path / "model.mlkm"
    forest = ConformalRegressor(RandomForestRegressor(3, random_state=0), random_state=0).fit(X, Y)
    mlkm.save(forest, path)
    told = refusal(path)
    names = told[told.index("trust: ") + 7 : told.index(";")].split(", ")
    assert names == [
        "sklearn.ensemble._forest.RandomForestRegressor",
        "sklearn.tree._classes.DecisionTreeRegressor",
        "sklearn.tree._tree.Tree",
    ]
    same(mlkm.load(path, trusted=names).predict_interval(NEW)[1], forest.predict_interval(NEW)[1])
    assert "does not trust: sklearn.tree._tree.Tree;" in refusal(path, trusted=names[:2])
    for trusted in ("sklearn.tree._tree.Tree", [3]):
        with pytest.raises(TypeError, match=r"as in \['package\.module\.Class'\]; got "):
            mlkm.load(path, trusted=trusted)


def test_a_class_of_scikit_learn_with_other_parameters_can_be_trusted(tmp_path):
    path = tmp_path / "model.mlkm"
    names = words(120, 0)
    model = make_pipeline(OneHotEncoder(max_categories=4, sparse_output=False), Ridge()).fit(names, Y)
    mlkm.save(model, path)
    name = "sklearn.preprocessing._encoders.OneHotEncoder"
    assert f"does not trust: {name}; if you trust" in refusal(path)
    same(mlkm.load(path, trusted=[name]).predict(names), model.predict(names))
    mlkm.save(PolynomialFeatures(30).fit(X), path)
    assert "does not trust: sklearn.preprocessing._polynomial.PolynomialFeatures; if you trust" in refusal(path)
    mlkm.save(PolynomialFeatures(2).fit(X), path)
    forged(path, with_attribute("PolynomialFeatures", "_max_degree", 3))
    assert "the attributes of PolynomialFeatures are inconsistent" in refusal(path)


def note(path, **changes):
    entries = entries_of(path)
    written(path, {**entries, "mlkm.json": json.dumps({**json.loads(entries["mlkm.json"]), **changes})})


def test_versions_are_written_and_another_schema_is_refused(saved):
    assert json.loads(entries_of(saved)["mlkm.json"]) == {"schema": SCHEMA, "mlkm": mlkm.__version__}
    note(saved, mlkm="9.0.0")
    mlkm.load(saved)
    note(saved, schema=SCHEMA + 1)
    assert f"mlkm 9.0.0 in schema {SCHEMA + 1}, and mlkm {mlkm.__version__} reads schema" in refusal(saved)
    assert refusal(saved).endswith("install a newer mlkm.")
    note(saved, schema=1)
    assert refusal(saved).endswith("save the model again.")
    for changes in ({"schema": "many"}, {"mlkm": "9\x1b[31m"}, {"mlkm": ["x"] * 300}):
        mlkm.save(Ridge(), saved)
        note(saved, **changes)
        assert "cut short, damaged or forged" in refusal(saved)


def test_files_that_are_no_models_are_refused(saved, tmp_path):
    with pytest.raises(FileNotFoundError):
        mlkm.load(tmp_path / "nowhere.mlkm")
    for name, content in (("empty", b""), ("text", b"a,b\n1,2\n")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"'.*{name}' is no file that mlkm\.save wrote"):
            mlkm.load(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "plain.zip", "w") as archive:
        archive.writestr("schema.json", "{}")
    with pytest.raises(ValueError, match=r"plain\.zip' is no file that mlkm\.save wrote"):
        mlkm.load(tmp_path / "plain.zip")
    entries = entries_of(saved)
    for model, words_of_it in (
        ({"objects": []}, "damaged or forged"),
        ({"objects": [{"make": "unheard of", "state": {"dict": []}}]}, "does not trust"),
        ({}, "damaged or forged"),
        ([], "damaged or forged"),
    ):
        written(saved, {**entries, "model.json": json.dumps(model)})
        assert words_of_it in refusal(saved)


def test_a_file_that_is_cut_short_or_damaged_is_refused(saved):
    content = saved.read_bytes()
    for n in (2, 30, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:n])
        refusal(saved)
    middle = len(content) // 3
    saved.write_bytes(content[:middle] + bytes(b ^ 255 for b in content[middle : middle + 40]) + content[middle + 40 :])
    refusal(saved)


def test_what_cannot_be_written_is_refused(tmp_path):
    path = tmp_path / "model.mlkm"
    with pytest.raises(TypeError, match="writes estimators, as in save"):
        mlkm.save([1, 2], path)
    with pytest.raises(TypeError, match="got type"):
        mlkm.save(MLKMRegressor, path)
    with pytest.raises(ValueError, match="Pipeline cannot be written to a file"):
        mlkm.save(make_pipeline(FunctionTransformer(lambda x: x), Ridge()), path)
    with pytest.raises(ValueError, match="ConformalRegressor cannot be written to a file"):
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


def test_every_kernel_and_feature_map_may_be_in_a_file():
    import mlkm.model

    names = [m.name for m in pkgutil.walk_packages(mlkm.model.__path__, "mlkm.model.")]
    parts = [part for name in [*names, "mlkm.kernels"] for part in vars(importlib.import_module(name)).values()]
    classes = [part for part in parts if isinstance(part, type) and dataclasses.is_dataclass(part)]
    kept = [cls for cls in classes if hasattr(cls, "n_features") or cls.__module__ == "mlkm.kernels"]
    unknown = {cls.__name__ for cls in kept if not is_record(object.__new__(cls))}
    assert len(kept) > 8
    assert unknown <= {"_Slopes"}, "name it in mlkm.files.schema"


def test_an_attribute_that_no_file_has_is_named(tmp_path):
    model = RandomFeatureRidge(8, scale=1.0, random_state=0).fit(TABLE, TARGETS)
    model.remark = "mine"
    with pytest.raises(ValueError, match="cannot be written to a file: RandomFeatureRidge has no attribute 'remark'"):
        mlkm.save(model, tmp_path / "model.mlkm")
    model.remark = None
    del model.remark
    model.fitted_ = dataclasses.replace(model.fitted_, penalty="much")
    with pytest.raises(ValueError, match=r"attribute 'penalty' of a fit is 'much', which is not allowed"):
        mlkm.save(model, tmp_path / "model.mlkm")


def test_mutations_are_refused_or_harmless(capsys):
    """Run a few of the mutations of `python -m benchmarks.mutations`."""
    assert mutations.main(n=40, seed=7) == 0, capsys.readouterr().out
