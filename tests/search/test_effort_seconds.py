"""effort as a number of seconds: sizes by the estimate of their time, and a deadline that climbs look at."""

from dataclasses import fields
from time import perf_counter, process_time

import numpy as np
import pytest

import mlkm.runtime.progress as deadline
from mlkm import MLKMRegressor
from mlkm.datasets import make_example2
from mlkm.search.cost import cost_of_default, within
from mlkm.search.plan import Plan
from mlkm.search.policy import EFFORTS, LEAST, Policy, between, policy_context, with_effort

X, Y, F = make_example2(n=1500, d=4, noise=0.3, random_state=0)
TRAIN, TEST = slice(0, 500), slice(500, None)


def rmse(effort, n=500):
    model = MLKMRegressor(effort=effort, random_state=0).fit(X[:n], Y[:n])
    return float(np.sqrt(np.mean((model.predict(X[TEST]) - F[TEST]) ** 2)))


def test_any_time_gives_a_fit_and_more_is_not_worse():
    """A thousandth of a second gives the least there is; errors fall, but for chance."""
    errors = [rmse(seconds) for seconds in (1e-3, 0.05, 1, 5, 30)]
    assert max(errors) < 0.7 * F[TEST].std()
    for k in range(4):
        assert min(errors[k + 1 :]) < 1.15 * errors[k]
    assert errors[-1] < 1.1 * rmse("balanced")


@pytest.mark.parametrize("n", [3, 20, 60])
def test_few_rows(n):
    for seconds in (0.01, np.float64(2), 3):
        model = MLKMRegressor(effort=seconds, random_state=0).fit(X[:n], Y[:n])
        assert np.isfinite(model.predict(X)).all()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [2, 6])
def test_the_time_is_held(seconds):
    """On one thread, by the time of the process: what else a busy machine does is not the fit's."""
    A, y, _ = make_example2(n=3000, d=10, noise=0.3, random_state=0)
    begin = process_time()
    MLKMRegressor(effort=seconds, random_state=0).fit(A, y)
    assert process_time() - begin < 2 * 2 * seconds + 1  # two searches side by side


@pytest.mark.parametrize("effort", [-1, 0, float("nan"), float("inf"), "slow", True, [3]])
def test_other_values_are_refused(effort):
    with pytest.raises(
        ValueError, match=r"effort must be one of 'fast', 'balanced', 'best', or a .* seconds above 0; got"
    ):
        MLKMRegressor(effort=effort).fit(X[:10], Y[:10])


@pytest.mark.parametrize("n", [300, 3000, 15_000, 30_000, 1_000_000])
@pytest.mark.parametrize("d", [4, 50])
def test_sizes_go_up_with_the_time(n, d):
    costs = []
    for seconds in (0.01, 0.1, 1, 10, 100, 1e3, 1e4):
        policy = within(seconds, Policy(), lambda policy: cost_of_default(n, d, policy))
        costs.append(cost_of_default(n, d, policy).seconds)
        assert costs[-1] <= seconds or policy == _with(LEAST)
    assert policy == with_effort(Policy(), "best")
    assert (np.diff(costs) >= 0).all()


def _with(sizes):
    usual = {field.name: getattr(Policy(), field.name) for field in fields(Policy)}
    return Policy(**usual | sizes)


def test_between_two_efforts():
    for low, high in ((LEAST, EFFORTS["fast"]),):
        shared = {name: low[name] for name in high}
        assert between(shared, high, 0.0) == shared
        assert between(shared, high, 1.0) == high
        half = between(shared, high, 0.5)
        assert shared["joint_rows"] < half["joint_rows"] < high["joint_rows"]
        assert isinstance(half["joint_rows"], int)


def test_fields_that_were_replaced_stay():
    with policy_context(Policy(draws=3)):
        assert Plan.parse({"effort": 0.01}, landmarks=True).sized(100, 4).policy.draws == 3


def test_a_search_that_is_late_ends_with_what_it_has(monkeypatch):
    """Where the estimate is wrong by far: sizes of "best", and a second."""
    monkeypatch.setattr("mlkm.search.plan.within", lambda seconds, policy, cost: with_effort(policy, "best"))
    events = []
    begin = perf_counter()
    model = MLKMRegressor(effort=0.3, random_state=0, verbose=events.append).fit(X[TRAIN], Y[TRAIN])
    assert perf_counter() - begin < 20  # 6 s of "best" on one free core, and as a rule below 1 here
    steps = [event.done for event in events if event.stage == "search" and event.left != 0]
    assert len(steps) < 4 * 45 / 2
    assert np.sqrt(np.mean((model.predict(X[TEST]) - F[TEST]) ** 2)) < 0.7 * F[TEST].std()


def test_without_a_time_nothing_is_late():
    assert not deadline.search_is_late()
    with deadline.ending(deadline.Deadline(0.0, np.inf)):
        assert deadline.search_is_late()
        assert not deadline.fit_is_late()
        with deadline.without_search_end():
            assert not deadline.search_is_late()
    assert not deadline.search_is_late()


def test_a_time_that_is_more_than_enough_gives_the_fit_of_best_to_the_bit():
    A, y = X[:60], Y[:60]
    given, named = (MLKMRegressor(effort=effort, random_state=0).fit(A, y).predict(X) for effort in (1e4, "best"))
    np.testing.assert_array_equal(given, named)


def test_the_estimate_of_a_time_is_within_it():
    for seconds in (5, 50):
        cost = MLKMRegressor(effort=seconds).estimate_cost(8000, 10)
        assert cost.seconds <= seconds
        assert cost.after_search < cost.seconds
