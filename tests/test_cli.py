"""The command line, and what `import mlkm` brings with it."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from mlkm.cli.commands import app

MODELS = ["kernel ridge", "random features", "MLKM as published", "RKM as published", "MLKM "]


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
    assert result.output.count("│") >= 5 * 5 or result.output.count("|") >= 5 * 5
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000
    assert (tmp_path / "components-band.png").stat().st_size > 20_000


def test_demo_refuses_too_few_rows(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--n", "3", "--picture", str(tmp_path / "none.png")])
    assert result.exit_code == 2
    assert not (tmp_path / "none.png").exists()


def test_help_names_the_commands():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output


HEAVY = ["matplotlib", "pandas", "polars", "pyarrow", "typer", "rich", "torch"]


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["mlkm", "mlkm.cli"])
def test_import_brings_nothing_that_scikit_learn_does_not(module):
    """scikit-learn itself imports pandas and rich where they are installed."""
    code = f"""
import sys, sklearn.model_selection, sklearn.utils.validation
before = set(sys.modules)
import {module}
print([name for name in {HEAVY} if name in sys.modules and name not in before])"""
    output = python(code)
    assert output.stdout.strip() == "[]", output.stderr


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
