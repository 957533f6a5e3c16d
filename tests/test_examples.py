"""Every script of the gallery runs, without a warning."""

import runpy
from pathlib import Path

import pytest

SHELVES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(SHELVES.glob("*/plot_*.py"))


def test_the_gallery_has_three_shelves():
    assert {script.parent.name for script in SCRIPTS} == {"start", "analysis", "paper"}
    assert len(SCRIPTS) >= 12


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: f"{script.parent.name}/{script.stem}")
def test_a_script_of_the_gallery_runs(script, monkeypatch, tmp_path):
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.chdir(tmp_path)
    try:
        runpy.run_path(str(script), run_name="__main__")
        for number in plt.get_fignums():
            plt.figure(number).canvas.draw()  # what is wrong with a picture shows when it is drawn
    finally:
        plt.close("all")
    assert not list(tmp_path.iterdir()), "a script leaves no files behind"
