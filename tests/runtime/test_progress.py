"""How far a fit is: events, what is shown, and that nothing depends on who listens."""

import io
import sys
import threading
import time

import numpy as np
import pytest

import mlkm
from mlkm import Event, MLKMRegressor, RandomFeatureRidge, RKMRegressor
from mlkm.data.rows import in_order
from mlkm.datasets import make_example2
from mlkm.runtime import progress
from mlkm.runtime.callbacks import Lines, RichBars, listening, words_of
from mlkm.runtime.resources import side_by_side
from mlkm.search.policy import Policy, policy_context
from mlkm.solve import GradientDescent

X, Y, _ = make_example2(n=300, d=4, noise=0.3, random_state=0)
SKEWED = np.exp(Y / Y.std())
SMALL = Policy(joint_rows=80, first_joint_rows=60, joint_steps=(4, 3), variance_rows=80, variance_steps=3)

MODELS = {
    "default": (MLKMRegressor(random_state=0), {"search", "kernel variances", "solve", "held out"}),
    "ridge": (RandomFeatureRidge(40, random_state=0), {"search", "kernel variances"}),
    "deep": (MLKMRegressor(widths=(30, 4), random_state=0), {"search", "kernel variances", "depth", "last layer"}),
    "rotations": (RKMRegressor(widths=(30, 4), cv="rotate", random_state=0), {"rotations", "last layer"}),
    "descent": (
        MLKMRegressor(widths=(16, 4), scales=1.0, solver=GradientDescent(max_iter=60), penalty=1e-3, random_state=0),
        {"epochs"},
    ),
    "folds": (
        MLKMRegressor(widths=(8, 2), scales=1.0, solver=GradientDescent(max_iter=3), penalty="cv", random_state=0),
        {"penalty", "epochs"},
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("targets", [Y, SKEWED], ids=["plain", "skewed"])
def test_events_are_in_order_and_change_no_bit(name, targets):
    model, stages = MODELS[name]
    events: list[Event] = []
    with policy_context(SMALL):
        silent = model.set_params(verbose=0).fit(X, targets)
        without = silent.predict(X), silent.loo_error_, silent.feature_relevance_
        told = model.set_params(verbose=events.append).fit(X, targets)
    for a, b in zip(without, (told.predict(X), told.loo_error_, told.feature_relevance_), strict=True):
        np.testing.assert_array_equal(a, b)
    assert stages <= {event.stage for event in events}
    by_stage: dict[str, list[Event]] = {}
    for event in events:
        assert event.total is None or 0 <= event.done <= event.total
        by_stage.setdefault(event.stage, []).append(event)
    for own in by_stage.values():
        assert own[0].done == 0
        assert own[0].left is None
        assert own[-1].left == 0

        begins = [k for k, e in enumerate(own) if e.done == 0 and e.left is None]
        for begin, end in zip(begins, [*begins[1:], len(own)], strict=True):  # the same stage may come again
            done = [e.done for e in own[begin:end]]
            assert done == sorted(done)


def test_passes_over_many_rows_are_told():
    events: list[Event] = []
    rng = np.random.default_rng(0)
    X, model = rng.random((40_000, 2)), RandomFeatureRidge(20, scale=1.0, random_state=0, verbose=events.append)
    model.fit(X, X.sum(axis=1))
    passes = [event for event in events if event.stage == "rows" and event.left == 0]
    assert passes
    assert all(event.done == event.total == 3 for event in passes)


def test_passes_over_a_file_know_their_length(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    A = rng.random((20_000, 2))
    parquet.write_table(pa.table({"a": A[:, 0], "b": A[:, 1], "y": A.sum(axis=1)}), tmp_path / "t.parquet")
    events: list[Event] = []
    table = mlkm.open_table(tmp_path / "t.parquet", target="y")
    RandomFeatureRidge(10, scale=1.0, random_state=0, verbose=events.append).fit(table)
    assert {event.total for event in events if event.stage == "rows"} == {2}


def test_a_stage_inside_another_is_part_of_it():
    events: list[Event] = []
    with listening(events.append), progress.stage("outer", 2) as step:
        with progress.stage("inner", 5) as inner:
            inner()
            progress.advance(3)
        step()
        progress.advance()
    assert [(e.stage, e.done) for e in events] == [("outer", 0), ("outer", 1), ("outer", 2)]
    assert events[1].left == pytest.approx(events[1].seconds)


def test_steps_of_two_threads_are_told_one_at_a_time(monkeypatch):
    """Who listens is known in threads, and none of their steps is lost or told while another one is."""
    monkeypatch.setattr("mlkm.runtime.resources.blas_threads", lambda: 2)
    monkeypatch.setattr("mlkm.data.rows.blas_threads", lambda: 4)
    events, inside, threads = [], threading.Lock(), set()

    def listener(event):
        assert inside.acquire(blocking=False)
        time.sleep(0.0005)
        events.append(event)
        threads.add(threading.get_ident())
        inside.release()

    def work():
        for _ in range(50):
            progress.advance()

    with listening(listener):
        with progress.stage("both", 1000):
            side_by_side(work, work)
        with progress.stage("pieces", 1000):
            list(in_order(lambda k: progress.advance(), range(50)))
    assert [e.done for e in events if e.stage == "both" and 0 < e.done < 1000] == list(range(1, 101))
    assert [e.done for e in events if e.stage == "pieces" and 0 < e.done < 1000] == list(range(1, 51))
    assert len(threads) > 1


def test_a_fit_in_threads_has_the_same_bits(monkeypatch):
    monkeypatch.setattr("mlkm.runtime.resources.blas_threads", lambda: 2)
    events: list[Event] = []
    with policy_context(SMALL):
        silent = MLKMRegressor(random_state=0).fit(X, SKEWED).predict(X)
        told = MLKMRegressor(random_state=0, verbose=events.append).fit(X, SKEWED).predict(X)
    np.testing.assert_array_equal(silent, told)
    assert {"search", "kernel variances", "solve", "held out"} == {event.stage for event in events}


def test_an_error_of_the_function_ends_the_fit():
    class Enough(Exception):
        pass

    def stop(event):
        if event.done == 2:
            raise Enough

    with policy_context(SMALL), pytest.raises(Enough):
        MLKMRegressor(random_state=0, verbose=stop).fit(X, Y)
    with policy_context(SMALL), pytest.raises(RuntimeError, match="raised StopIteration"):
        MLKMRegressor(random_state=0, verbose=lambda event: next(iter(()))).fit(X, Y)
    assert not progress.is_listened_to()


@pytest.mark.parametrize("verbose", ["loud", -1, 0.5, None, int])
def test_other_values_are_refused(verbose):
    with pytest.raises(ValueError, match=r"verbose must be 0, 1 or a function of events; got"):
        MLKMRegressor(verbose=verbose).fit(X, Y)


def test_one_line_per_stage_where_stderr_is_no_terminal(capsys):
    with policy_context(SMALL):
        MLKMRegressor(random_state=0, verbose=1).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert sorted(line.split(":")[1].strip() for line in lines) == ["held out", "kernel variances", "search", "solve"]
    assert all(line.startswith("mlkm: ") and line.endswith(" s") for line in lines)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_short_fit_leaves_nothing_in_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with listening(1), progress.stage("search", 3) as step:
        step()
    assert terminal.getvalue() == ""


def test_a_terminal_without_rich_gets_lines(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with listening(1), progress.stage("search", 3) as step:
        step()
    assert terminal.getvalue() == "mlkm: search: 0.0 s\n"


def test_bars_of_rich(monkeypatch):
    pytest.importorskip("rich")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("mlkm.runtime.callbacks.QUIET_SECONDS", 0.0)
    bars = RichBars()
    for event in (Event("search", 0, 4, 0.0, None), Event("search", 2, 4, 9.0, 9.0), Event("rows", 3, None, 1.0, None)):
        bars.tell(event)
    bars.say("about 2 GB", Event("estimate", 0, None, 0.0, 9.0))
    bars.tell(Event("search", 4, 4, 18.0, 0.0))
    bars.close()
    drawn = terminal.getvalue()
    assert "search" in drawn
    assert "about 2 GB" in drawn


def test_what_is_left_is_said_of_long_stages_only():
    assert words_of(Event("rows", 2, None, 1.0, None)) == "rows: 2, 1.0 s"
    assert "left" not in words_of(Event("rows", 1, 3, 1.0, 2.0))
    assert words_of(Event("rows", 1, 3, 4.0, 8.0)).endswith("about 8 s left")


def test_a_long_fit_is_told_before_it_begins():
    events: list[Event] = []
    lines = io.StringIO()
    with progress.telling(Lines(lines)):
        progress.announce(lambda: ("3 GB and 2 min", 120.0))
        progress.announce(lambda: ("1 GB and 2 s", 2.0))
    assert lines.getvalue() == "mlkm: 3 GB and 2 min\n"
    with listening(events.append):
        progress.announce(lambda: ("3 GB and 2 min", 120.0))
    assert events == [Event("estimate", 0, None, 0.0, 120.0)]
    progress.announce(lambda: pytest.fail("nobody listens"))


def test_a_model_with_a_function_is_saved_without_it(tmp_path):
    with policy_context(SMALL):
        model = MLKMRegressor(random_state=0, verbose=lambda event: None).fit(X, Y)
    for keep_rows in (True, False):
        mlkm.save(model, tmp_path / "model.mlkm", keep_rows=keep_rows)
        loaded = mlkm.load(tmp_path / "model.mlkm")
        assert loaded.verbose == 0
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_step_that_nobody_hears_costs_nothing():
    """A fit has some hundred of them: a millisecond in all."""
    begin = time.perf_counter()
    for _ in range(1000):
        progress.advance()
    assert time.perf_counter() - begin < 0.05
