"""The command line, and what `import mlkm` brings with it."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import mlkm
from mlkm.cli.commands import app
from mlkm.cli.demo import draw_data, staircase

MODELS = [
    "kernel ridge",
    "random features, one scale",
    "+ single inputs",
    "+ relevances learned",
    "+ kernels at all rows = MLKM",
    "MLKM as published",
    "RKM as published",
]


@pytest.mark.slow
def test_demo_prints_a_table_and_saves_a_picture(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    picture = tmp_path / "components.png"
    result = CliRunner().invoke(app, ["demo", "--n", "200", "--picture", str(picture)])
    assert result.exit_code == 0, result.output
    for text in (
        "test MSE",
        "excess over noise",
        "fit seconds",
        "coverage",
        "length",
        "3.92",
        "200 training rows",
        *MODELS,
    ):
        assert text in result.output
    assert result.output.count("│") >= 7 * 5 or result.output.count("|") >= 7 * 5
    assert "with --smooth" in " ".join(result.output.split())  # wherever the line was broken
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000
    assert (tmp_path / "components-band.png").stat().st_size > 20_000


def test_demo_refuses_too_few_rows(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--n", "3", "--picture", str(tmp_path / "none.png")])
    assert result.exit_code == 2
    assert not (tmp_path / "none.png").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere/demo.png", "There is no folder .*nowhere' to write 'demo.png' to"),
        ("file/demo.png", "There is no folder .*file' to write 'demo.png' to"),
        ("", "An output needs the name of a file; got the folder"),
        ("demo.docx", r"The name of the picture must end in .*\.png.*; got .*demo\.docx"),
    ],
)
def test_demo_says_at_once_where_a_picture_cannot_be_saved(tmp_path, monkeypatch, name, message):
    monkeypatch.setattr("mlkm.cli.demo.draw_data", lambda *_, **__: pytest.fail("the demonstration began"))
    (tmp_path / "file").write_text("no folder")
    result = CliRunner().invoke(app, ["demo", "--picture", str(tmp_path / name)])
    assert result.exit_code == 2, result.output
    assert re.fullmatch(message + r".*\.\n", result.stderr)
    assert result.stdout == ""


def test_demo_draws_the_staircase_or_leaves_it_out():
    data, smooth = draw_data(300, 0), draw_data(300, 0, stairs=False)
    np.testing.assert_allclose(data.f_test, data.truth(data.X_test))
    np.testing.assert_allclose(smooth.f_test, smooth.truth(smooth.X_test))
    steps = np.unique((data.f_test - smooth.f_test).round(9))
    assert len(steps) == 8
    np.testing.assert_allclose(data.y - smooth.y, staircase(data.X), atol=1e-12)


def test_pictures_of_the_library_do_not_know_the_demonstration():
    code = "import sys, mlkm.plotting; print([name for name in sys.modules if name.startswith('mlkm.cli')])"
    assert python(code).stdout.strip() == "[]"


def test_help_names_the_commands():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output


HEAVY = ["dask", "distributed", "matplotlib", "onnx", "pandas", "plotly", "polars", "pyarrow", "typer", "rich", "torch"]


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("line", ["from mlkm import *", "import mlkm.cli"])
def test_import_brings_nothing_that_scikit_learn_does_not(line):
    """scikit-learn itself imports pandas and rich where they are installed."""
    code = f"""
import sys, sklearn.model_selection, sklearn.utils.validation
before = set(sys.modules)
{line}
print([name for name in {HEAVY} if name in sys.modules and name not in before])"""
    output = python(code)
    assert output.stdout.strip() == "[]", output.stderr


def test_import_alone_opens_no_room():
    output = python("import sys, mlkm; print([name for name in sys.modules if name.startswith('mlkm.')], *dir(mlkm))")
    rooms, _, names = output.stdout.partition("]")
    assert rooms == "['mlkm._version'", output.stderr
    shown = {name for name in names.split() if not name.startswith("__")}
    assert shown == {*mlkm.__all__, "onnx", "plotting", "tables"} - {"__version__"}


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'Regressor'"):
        mlkm.Regressor  # noqa: B018
    for name in ("a.b", "solvers.Ridge", "", "1"):
        assert not hasattr(mlkm, name)


@pytest.mark.slow
def test_a_checker_of_types_finds_names_that_are_not_there(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    home = Path(mlkm.__file__).parents[1]
    if home.name != "site-packages":  # which it knows
        monkeypatch.setenv("MYPYPATH", str(home))
    (tmp_path / "right.py").write_text(
        "import mlkm\nfrom mlkm import MLKMRegressor, merge\n"
        "print(MLKMRegressor(), merge, mlkm.tables.TableEncoder, mlkm.plotting.plot_band, mlkm.onnx.feed)\n"
    )
    (tmp_path / "wrong.py").write_text("from mlkm import MLKMRegresor\nprint(MLKMRegresor)\n")
    settings = ["--strict", "--ignore-missing-imports", f"--cache-dir={tmp_path / 'cache'}", "--follow-imports=silent"]
    output, problems, code = api.run([*settings, str(tmp_path / "right.py")])
    assert code == 0, output + problems
    output, _, code = api.run([*settings, str(tmp_path / "wrong.py")])
    assert code == 1
    assert 'has no attribute "MLKMRegresor"' in output


def test_the_library_works_without_any_of_them():
    code = f"""
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {HEAVY}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import mlkm
X, y, f = mlkm.datasets.make_example1(50, 4, random_state=0)
print(mlkm.RandomFeatureRidge(20, random_state=0).fit(X, y).predict(X).shape)"""
    output = python(code)
    assert output.stdout.strip() == "(50,)", output.stderr


def test_without_the_extra_one_sentence_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from mlkm.cli import main; main()"
    output = python(code)
    assert output.returncode == 1
    assert (
        output.stderr.strip()
        == "The mlkm command needs the package 'typer': install it with  pip install 'mlkm[demo]'."
    )
