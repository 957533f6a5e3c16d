"""Which rows the choices of a fit have seen: the targets of all others may be exchanged without changing a choice."""

from dataclasses import replace

import numpy as np
import pytest

from mlkm import MLKMRegressor, RandomFeatureRidge
from mlkm.datasets import make_example2
from mlkm.fit.train import train
from mlkm.search.plan import Plan
from mlkm.search.policy import Policy, policy_context

N = 3000
SMALL = replace(
    Policy(), first_joint_rows=80, joint_rows=150, checked_rows=120, screened_rows=200, variance_rows=200,
    variance_steps=3, joint_steps=(3, 3), none_dropped=3,
)  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    """Return the standardised training rows of a fit, in the order in which its searches see them."""
    X, y, _ = make_example2(n=N, d=5, noise=0.1, random_state=0)
    with policy_context(SMALL):
        model = MLKMRegressor(random_state=0).fit(X, y)
    return model.fitted_.training_rows, model.fitted_.seen


def choices(rows):
    """Return all choices of a default fit to standardised rows as plain numbers, and the rows that they have seen."""
    with policy_context(SMALL):
        plan = Plan.parse({}, landmarks=True).sized(len(rows), rows.X.shape[1]).at(rows.X.shape[1], seed=0)
        fitted = train(rows, plan, _units(rows))
    stack = fitted.uncertainty
    terms = [np.ravel(value) for term in stack.kernel.terms for value in _numbers(term)]
    return np.concatenate(
        [*terms, stack.kernel.linear, [stack.kernel_noise, *stack.shares, stack.transformed is None]]
    ), fitted.seen


def _units(rows):
    from mlkm.data import Standardiser

    k = rows.Y.shape[1]
    return Standardiser(np.zeros(k), np.ones(k), np.zeros(k, bool))


def _numbers(term):
    phi = {name: value for name, value in vars(term.phi).items() if name != "points"}
    return [term.variance, *(value for value in phi.values() if isinstance(value, (float, np.ndarray)))]


def test_targets_of_rows_that_no_choice_has_seen_change_no_choice(rows):
    block, _ = rows
    before, seen = choices(block)
    mask = seen.mask(N, "inputs", "kernels", "variances", "noise", "shares")  # a transform depends on their values only
    assert 300 <= mask.sum() <= 700
    others = np.flatnonzero(~mask)
    Y = block.Y.copy()
    Y[others] = Y[np.random.default_rng(0).permutation(others)]
    after, _ = choices(replace(block, Y=Y))
    np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["kernels", "variances"])
def test_targets_of_rows_that_were_seen_change_choices(rows, kind):
    block, _ = rows
    before, seen = choices(block)
    at = np.flatnonzero(seen.mask(N, kind))
    Y = block.Y.copy()
    Y[at] = Y[np.random.default_rng(0).permutation(at)]
    after, _ = choices(replace(block, Y=Y))
    assert len(after) != len(before) or np.abs(after - before).max() > 1e-3


def test_the_fit_says_what_its_choices_have_seen(rows):
    block, seen = rows
    assert len(block) == N
    assert seen.mask(N, "transform").all()
    assert seen.mask(N, "inputs").sum() == 200  # of five inputs those go on that tell something
    assert not seen.mask(N, "shares").any()  # nothing stands beside the kernels
    assert (seen.mask(N) >= seen.mask(N, "kernels")).all()


def test_few_rows_and_penalties_by_leave_one_out_have_seen_all():
    X, y, _ = make_example2(n=60, d=4, noise=0.1, random_state=0)
    assert MLKMRegressor(random_state=0).fit(X, y).fitted_.seen.mask(60, "shares").all()
    assert RandomFeatureRidge(20, scale=1.0, random_state=0).fit(X, y).fitted_.seen.mask(60, "noise").all()
    given = RandomFeatureRidge(20, scale=1.0, penalty=0.1, random_state=0).fit(X, y).fitted_
    assert not given.seen.mask(60).any()
