"""Model files that are forged, damaged or interrupted: no code of a file runs, and every refusal is a sentence."""

import dataclasses
import importlib
import json
import os
import pickle
import pkgutil
import sys
import zipfile

import numpy as np
import pytest
import skops.io
from saved_models import NEW, X, Y, same
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import mlkm
from mlkm import (
    ConformalRegressor,
    MLKMRegressor,
)
from mlkm.persistence.files import SCHEMA
from mlkm.persistence.trusted import OWN, TRUSTED


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
