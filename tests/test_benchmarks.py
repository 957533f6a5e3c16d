"""The benchmarks' own arithmetic: what the page says must follow from the results."""

import csv
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from mlkm.search.policy import current_policy

pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

import pandas as pd
from benchmarks import ablation, page, runner, summary
from benchmarks.peers import GaussianKernelRidge


def row(dataset, split, model, error, seconds, suite="real", **others):
    return {
        **dict.fromkeys(runner.FIELDS, ""),
        "suite": suite,
        "dataset": dataset,
        "repetition": split,
        "model": model,
        "threads": 1,
        "status": "ok",
        "error": error,
        "fit_seconds": seconds,
        "predict_seconds": 0.1,
        "peak_mb": 10,
        **others,
    }


@pytest.fixture
def results(tmp_path):
    rows = [
        row(name, 0, model, e, s)
        for name in ("a", "b")
        for model, e, s in (("mlkm", 0.2, 3.0), ("catboost", 0.25, 2.0), ("ridge", 0.9, 0.1))
    ]
    rows += [row("b", 0, "mlkm", 0.1, 1.0), row("a", 0, "gp", "", "", status="failed", message="no reason")]
    path = tmp_path / "cells.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, runner.FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_geometric_mean_clips_every_ratio():
    assert summary.geometric_mean(pd.Series([0.1, 8.0, np.nan])) == pytest.approx(1)
    assert summary.geometric_mean(pd.Series([0.9, 1.6])) == pytest.approx(1.2)


def test_last_result_of_a_cell_counts(results):
    real = summary.RealSummary.of(summary.read(results), None)
    assert real.ratio("mlkm", "best peer").tolist() == pytest.approx([0.8, 0.4])
    assert real.ratio_of_medians("mlkm") == pytest.approx(1)
    assert runner.read(results)[runner.Cell("real", "b", 0, "mlkm", 1)]["error"] == "0.1"


def test_page_names_the_means_and_what_failed(results, tmp_path):
    files = page.write(results, tmp_path / "page")
    text = (tmp_path / "page" / "index.md").read_text()
    assert {file.name for file in files} == {"index.md", "index.html", "accuracy-time.svg", "sets.svg"}
    assert f"{np.sqrt(0.8 * 0.5):.3f}" in text
    assert "no reason" in text


def test_models_take_turns_on_one_split():
    wanted = runner.cells(["real"], ["yacht"], ["mlkm", "catboost"], [0, 1], range(5), threads=2)
    assert [(cell.repetition, cell.model) for cell in wanted] == [
        (0, "mlkm"),
        (0, "catboost"),
        (1, "mlkm"),
        (1, "catboost"),
    ]


@pytest.mark.parametrize("name", sorted(ablation.LEVERS))
def test_a_lever_holds_for_its_fit_and_no_longer(name):
    """Every lever is the default with something replaced, for fits that begin inside."""
    lever, before = ablation.LEVERS[name], current_policy()
    with lever.around():
        changed = current_policy() != before
    assert changed == (lever.around is not nullcontext)
    assert current_policy() == before


def test_kernel_ridge_is_kernel_ridge():
    X = np.random.default_rng(0).standard_normal((90, 3))
    y = np.sin(X[:, 0]) + X[:, 1]
    ours = GaussianKernelRidge().fit(X, y)
    theirs = KernelRidge(kernel="rbf", gamma=1 / (2 * ours.length**2), alpha=ours.ridge).fit(X, y - y.mean())
    np.testing.assert_allclose(ours.predict(X[:9]), theirs.predict(X[:9]) + y.mean(), atol=1e-6)
