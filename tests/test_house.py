"""What `benchmarks.house`, `benchmarks.walks` and `benchmarks.before_after` count and time."""

import ast
import dataclasses
import doctest
import sys
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest
from benchmarks import before_after, house, sentences
from benchmarks.sentences import is_fragment
from benchmarks.walks import Passed, files_passed

from mlkm.runtime.rules import RULES, Rules
from mlkm.search.policy import Policy


def counted(folder, **files):
    """Return the modules and the figures of a package with these files, whose names have __ for the slash."""
    for name, text in files.items():
        path = folder / "mlkm" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    modules = house.read(folder)
    return modules, house.figures(modules)


def test_code_lines_leave_out_blanks_comments_and_docstrings(tmp_path):
    text = '''
        """A module.

        Its second paragraph."""
        # a comment

        def f(x):  # another one
            """Return x."""
            return """two
            lines"""
        '''
    modules, _ = counted(tmp_path, a=text)
    assert [house.code_lines(module) for module in modules] == [3]


def test_habits_are_counted_with_their_places(tmp_path):
    text = '''
        """A module."""
        from typing import Any, Protocol
        BLOCK = 2**10
        _PAIR: tuple[float, float] = (1.0, -2.0)
        LARGER = 4 * BLOCK
        FLAG, NAME = True, "1"
        class Own(Protocol):
            """A class."""
            def method(self, other: Any) -> None:
                """Reach into another object."""
                super()._private = self._private + other._private
                isinstance(other, Own) or isinstance(other, (int, Own)) or isinstance(other, int)
                other.__class__
        '''
    _, places = counted(tmp_path, room__a=text)
    assert [line.split(" ")[0] for line in places["module-level numbers"]] == [f"room/a.py:{n}" for n in (4, 5, 6)]
    assert places["private reaches"] == ["room/a.py:12 other._private"]
    assert len(places["isinstance on own types"]) == len(places["Any"]) == 2


# numbers of the package outside `runtime/sizes.py` that decide nothing, and what they are
DECIDE_NOTHING = {
    "cli/console.py": ({"FAILED", "USAGE"}, "codes with which a command ends"),
    "data/level_encoding.py": ({"_SALT"}, "a number that hashes begin with"),
    "data/tables/columns.py": ({"NUMBER", "LEVEL", "TEXT"}, "codes of the kinds of inputs"),
    "data/folds.py": ({"_ODD"}, "the multiplier of hashes"),
    "files/archive.py": (
        {"_LONGEST_NOTE", "_SIDES", "_ARRAYS", "_WORDS", "_LISTS", "_LARGEST"},
        "limits that keep a hostile file from taking memory",
    ),
    "files/decode.py": ({"_MOST_PARTS", "_STATE"}, "limits of hostile files, and the size of a generator's state"),
    "files/schema.py": ({"_MOST_COLUMNS"}, "a limit of hostile files"),
    "files/store.py": ({"SCHEMA"}, "the version of the format of files"),
    "runtime/download.py": ({"SML_TARGET", "YEAR_SPLIT", "YEAR_INPUTS", "YEARS"}, "what published data sets are"),
}


def assigned(node):
    """Return the names that a statement assigns."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def test_numbers_are_fields_of_policy_or_rules_or_are_sizes():
    found = {}
    for module in house.read(house.SRC):
        numbers = {line.split(" ")[0] for line in house.module_numbers([module])}
        lines = [node for node in module.tree.body if module.place(node, "").strip() in numbers]
        if lines and module.path != "runtime/sizes.py":
            found[module.path] = {name for node in lines for name in assigned(node)}
    assert found == {path: names for path, (names, _) in DECIDE_NOTHING.items()}


def test_no_module_assigns_a_name_twice():
    """A constant that is defined again further down would change what lines before it mean."""
    for module in house.read(house.SRC):
        names = [name for node in module.tree.body for name in assigned(node)]
        assert len(names) == len(set(names)), module.path


def test_no_number_shares_its_name_with_another():
    fields = [field.name for rules in (Policy, Rules) for field in dataclasses.fields(rules)]
    others = [name for names, _ in DECIDE_NOTHING.values() for name in names]
    sizes = next(module for module in house.read(house.SRC) if module.path == "runtime/sizes.py")
    names = [*fields, *others, *(name for node in sizes.tree.body for name in assigned(node))]
    assert len(names) == len({name.lower().strip("_") for name in names})


def test_the_policy_shows_the_rules():
    assert Policy.rules is RULES
    with pytest.raises(TypeError):
        dataclasses.replace(Policy(), rules=RULES)


def test_docstrings_that_are_missing(tmp_path):
    text = '''
        """A module."""
        def public():
            def nested():
                return 1
            return nested
        def _short():
            return 1
        def _long():
            a = 1
            b = 2
            c = 3
            d = 4
            return a + b + c + d
        class Public:
            def method(self):
                return 1
        class _Private:
            """A class."""
            def __init__(self, a, b, c, d):
                self.a = a
                self.b = b
                self.c = c
                self.d = d
                self.e = 0
            def method(self):
                return 1
        '''
    _, places = counted(tmp_path, a=text, b="x = 1")
    missing = [line.split(" ")[1].rstrip(",") for line in places["functions without docstring"]]
    assert missing == ["public", "_long", "method"]
    assert places["modules and public classes without docstring"] == ["a.py:15 class Public", "b.py:1 module"]


@pytest.mark.parametrize(
    ("docstring", "fragment"),
    [
        ("Return the rows of both.", False),
        ("Orthogonalise the columns.", False),
        ("Lazily read the columns, where there are any.", False),
        ("Where rows are few, return all of them.", False),
        ("Equal rows are merged: one stands for all.", False),
        ("f(x) = sum_i a_i K(x, x_i).", False),
        ("Of the rows of both.", True),
        ("With which float32 will do.", True),
        ("What is missed of rows that are left out.", True),
        ("The same, in float32; products are computed in blocks.", True),
        ("Sum over rows.", True),
    ],
)
def test_a_sentence_has_a_verb(docstring, fragment):
    assert is_fragment(docstring) is fragment


def test_examples_of_sentences():
    assert doctest.testmod(sentences) == (0, 3)


def test_modules_and_classes_may_be_described_by_a_noun(tmp_path):
    text = '''
        """Of the rows."""
        class Kernel:
            """A kernel of one input."""
            def codes(self):
                """The codes of rows."""
        '''
    _, places = counted(tmp_path, a=text)
    assert [line.split(" ")[1] for line in places["docstring fragments"]] == ["module:", "codes:"]
    assert places["fragments that begin with a preposition"] == ["a.py:1 module: Of the rows."]


def test_names_used_twice(tmp_path):
    text = '"""A module."""\nclass {}:\n    """A class."""\n'
    _, places = counted(
        tmp_path, _levels=text.format("Split"), tables__levels=text.format("_Split"), rows=text.format("Rows")
    )
    assert places["class names used twice"] == ["Split: _levels.py:2, tables/levels.py:2"]
    assert places["module names used twice"] == ["levels: _levels.py, tables/levels.py"]


def test_a_tree_without_the_package_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no package mlkm"):
        house.read(tmp_path)


def test_files_are_passed_in_order_and_in_threads(tmp_path, monkeypatch):
    package = tmp_path / "walked"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "only_imported.py").write_text("def unused(): pass\n")
    (package / "pooled.py").write_text("def work(): pass\n")
    (package / "entry.py").write_text(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "POOL = ThreadPoolExecutor(1)\n"
        "def start():\n"
        "    from . import only_imported, pooled\n"
        "    POOL.submit(pooled.work).result()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        entry = import_module("walked.entry")
        assert files_passed(lambda: entry.start, package) == ["entry.py", "pooled.py"]
        entry.POOL.shutdown()
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "walked"]:
            del sys.modules[name]


def test_nothing_is_recorded_unless_asked_for():
    passed = Passed(Path(__file__).parent)
    passed(sys._getframe(), "call", None)
    assert passed.files() == []
    passed.recording = True
    passed(sys._getframe(), "return", None)
    passed(sys._getframe(), "call", None)
    assert passed.files() == [Path(__file__).name]


def test_a_walk_of_this_package():
    pytest.importorskip("pandas")
    files = house.walk("predict")
    assert 1 < len(files) == len(set(files))
    assert all((house.SRC / "mlkm" / file).is_file() for file in files)


def test_both_sides_take_turns_and_the_least_time_counts(monkeypatch):
    calls = []

    def run(task, src, folder):
        calls.append((task, src))
        return {f"fit of {task}": (2.0 if src == "old" else 1.0) + len(calls)}

    monkeypatch.setattr(before_after, "run", run)
    least = before_after.alternate(("500", "5000"), "old", "new", 2, None)
    assert calls == [(task, side) for task in ("500", "5000") for _ in range(2) for side in ("old", "new")]
    assert least == {"fit of 500": (3.0, 3.0), "fit of 5000": (7.0, 7.0)}
    assert before_after.table(least).splitlines()[1].split()[-4:] == ["3.000", "1.000", "<=", "1.05"]


def test_times_come_from_the_source_tree_that_was_named(tmp_path):
    package = tmp_path / "mlkm"
    package.mkdir()
    (package / "__init__.py").write_text(
        "class MLKMRegressor:\n"
        "    def __init__(self, random_state): pass\n"
        "    def fit(self, X, y): return self\n"
        "    def predict(self, X): return X\n"
    )
    (package / "datasets.py").write_text("def make_example2(n, d, random_state): return [0] * n, [0] * n, [0] * n\n")
    times = before_after.run("5000", tmp_path, tmp_path)
    assert list(times) == ["fit of 5,000 rows", "predict of 10,000 rows"]
    assert max(times.values()) < 0.1
