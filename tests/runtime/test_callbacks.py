"""scikit-learn's callbacks, where it has them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge, load, save
from mlkm.datasets import make_example1

callback = pytest.importorskip("sklearn.callback", reason="callbacks come with scikit-learn 1.9")
X, y, _ = make_example1(n=150, d=4, random_state=0)


class Recorder:
    """Every hook that was called, with the tasks it was called for."""

    def __init__(self):
        self.calls = []

    def setup(self, estimator, context):
        self.calls.append(("setup", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context):
        self.calls.append(("end", context.task_name))

    def teardown(self, estimator, context):
        self.calls.append(("teardown", context.task_name))


@pytest.mark.parametrize("verbose", [0, [].append])
def test_stages_are_tasks_of_the_fit(verbose):
    recorder = Recorder()
    model = RandomFeatureRidge(20, verbose=verbose, random_state=0).set_callbacks(recorder).fit(X, y)
    calls = recorder.calls
    assert calls[:2] == [("setup", "fit"), ("begin", "fit")]
    assert calls[-2:] == [("end", "fit"), ("teardown", "fit")]
    inside = calls[2:-2]
    assert ("begin", "search") in inside
    for kind, name in inside:
        assert name != "fit"
        assert inside.count(("begin", name)) == inside.count(("end", name)), kind
    np.testing.assert_array_equal(
        model.predict(X), RandomFeatureRidge(20, random_state=0).fit(X, y).predict(X)
    )  # nothing else has changed
    assert not [name for name in vars(model) if "ctx" in name or "teardown" in name]


def test_a_fit_that_fails_is_torn_down_and_leaves_the_model_as_it_was():
    recorder = Recorder()
    model = MLKMRegressor(random_state=0).set_callbacks(recorder)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="inf"):
        model.fit(X, np.full(len(y), np.inf))
    assert recorder.calls[-1] == ("teardown", "fit")
    assert ("end", "fit") not in recorder.calls
    assert vars(model) == before


def test_clones_keep_them_and_bands_fit_with_them():
    recorder = Recorder()
    model = RandomFeatureRidge(20, random_state=0).set_callbacks(recorder)
    clone(model).fit(X, y)
    ConformalRegressor(model, random_state=0).fit(X, y)
    assert recorder.calls.count(("setup", "fit")) == recorder.calls.count(("teardown", "fit")) == 2


def test_the_bar_of_scikit_learn_runs(capsys):
    pytest.importorskip("rich")
    model = MLKMRegressor(random_state=0).set_callbacks(callback.ProgressBar()).fit(X, y)
    assert model.predict(X).shape == (150,)
    shown = capsys.readouterr().out
    assert "MLKMRegressor" in shown
    assert "search" in shown


@pytest.mark.parametrize("weights", [None, np.arange(150) % 3])
def test_the_score_of_the_training_rows_is_recorded_when_a_fit_is_over(weights):
    monitor = callback.ScoringMonitor(scoring="r2")
    model = RandomFeatureRidge(20, random_state=0).set_callbacks(monitor).fit(X, y, sample_weight=weights)
    (said,) = monitor.get_logs().data
    assert said["task_name"] == "fit"
    assert said["r2"] == pytest.approx(model.score(X, y, weights))


def test_the_score_is_recorded_for_frames_and_inside_bands():
    monitor = callback.ScoringMonitor(scoring=["r2", "neg_mean_squared_error"])
    model = MLKMRegressor(effort="fast", random_state=0).set_callbacks(monitor)
    model.fit(pd.DataFrame(X, columns=list("abcd")), y)
    ConformalRegressor(model, random_state=0).fit(X, y)
    for log in monitor.get_logs(select="all"):
        assert [set(said) >= {"r2", "neg_mean_squared_error"} for said in log.data] == [True]
    assert len(monitor.get_logs(select="all")) == 2


@pytest.mark.parametrize("keep_rows", [True, False])
def test_files_of_models_do_not_hold_them(keep_rows, tmp_path):
    model = RandomFeatureRidge(20, random_state=0).set_callbacks(Recorder()).fit(X, y)
    save(model, tmp_path / "model.mlkm", keep_rows=keep_rows)
    found = load(tmp_path / "model.mlkm")
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    assert not hasattr(found, "_skl_callbacks")
