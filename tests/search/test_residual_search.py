"""The second search, on what the first one has missed, and how features are shared among kernels."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_rows import TERMS, searched

from mlkm.data import plain_rows
from mlkm.model.kernel_maps import GaussianMap
from mlkm.model.machine import predict
from mlkm.model.sum_kernel import SumKernel, Term
from mlkm.search.evidence import learn, learn_together, start
from mlkm.search.kernel_features import shared
from mlkm.search.kernel_search import LearnedKernel, with_residual_search
from mlkm.search.plan import Plan
from mlkm.search.policy import Policy
from mlkm.solve.dual import solve_dual

SMALL = replace(Policy(), draws=1, joint_rows=200, variance_rows=300, left_samples=8)


def plan(policy):
    return replace(Plan.parse({"linear": True}, landmarks=True).at(d=4), policy=policy)


def two_pairs(n, second, seed=0):
    """A product of two inputs, another one of two others, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    f = X[:, 0] * X[:, 1] + second * np.sin(2 * X[:, 2]) * X[:, 3]
    return X, f, f + 0.3 * rng.standard_normal(n)


def blind():
    """A kernel that sees the first pair only."""
    matrix = np.diag([0.5, 0.5, 0.0, 0.0])
    return LearnedKernel(SumKernel((Term(None, GaussianMap(np.zeros((0, 4)), matrix), 4.0),), np.ones(4)), 0.1)


def error(learned, second):
    X, f, y = two_pairs(4000, second)
    rows = plain_rows(X[:2000], y[:2000, None])
    fit = solve_dual(learned.kernel, rows, learned.noise)
    machine = learned.kernel.machine(rows.X, fit.alpha, fit.intercept, fit.single)
    return float(np.mean((predict(machine, X[2000:])[:, 0] - f[2000:]) ** 2))


def test_the_evidence_of_equal_samples_is_that_of_one():
    X, _, y = two_pairs(120, 1.0)
    sample = searched(plain_rows(X, y[:, None]))
    begin, policy = start(sample, TERMS), replace(Policy(), joint_prior=(0.0, 0.0))
    one, several = learn(sample, begin, policy, 8), learn_together([sample] * 4, begin, policy, 8)
    for term, name in ((term, name) for term, own in one.items() for name in own):
        np.testing.assert_allclose(
            several[term][name], one[term][name], rtol=1e-6
        )  # threads of BLAS may round otherwise


def test_samples_share_one_prior():
    """Rows in four samples have the prior of as many rows in one."""
    X, _, y = two_pairs(80, 1.0)
    sample = searched(plain_rows(X, y[:, None]))
    begin, strong = start(sample, TERMS), replace(Policy(), joint_prior=(40.0, 40.0))
    away = [
        sum(np.sum((found[term][name] - begin[term][name]) ** 2) for term in begin for name in begin[term])
        for found in (learn(sample, begin, strong, 30), learn_together([sample] * 4, begin, strong, 30))
    ]
    assert away[1] > 1.5 * away[0]


def test_what_a_kernel_does_not_see_is_found_in_what_it_leaves():
    X, _, y = two_pairs(2000, 1.0)
    found = with_residual_search(blind(), plain_rows(X, y[:, None]), 1.0, plan(SMALL))
    assert len(found.kernel.terms) > 1
    assert error(found, 1.0) < 0.2 * error(blind(), 1.0)


def test_where_nothing_is_missed_nothing_is_lost():
    X, _, y = two_pairs(2000, 0.0)
    found = with_residual_search(blind(), plain_rows(X, y[:, None]), 1.0, plan(SMALL))
    assert error(found, 0.0) < 1.2 * error(blind(), 0.0)


@pytest.mark.parametrize(
    ("n", "d", "policy", "number"),
    [
        (20_000, 20, Policy(), 6),
        (20_000, 5, Policy(), 8),
        (1000, 5, Policy(), 0),  # one sample is no more than the first search has seen
        (20_000, 5, replace(Policy(), left_samples=0), 0),
    ],
)
def test_how_many_samples_there_are(n, d, policy, number):
    assert policy.residual_samples(n, d) == (number, 800)


@pytest.mark.parametrize(
    ("n", "n_features", "share"),
    [(20_000, None, 0.0), (20_001, None, 1.0), (100_000, 1000, 0.1), (10**6, 1000, 1.0), (10**7, 1000, 1.0)],
)
def test_the_second_search_is_in_proportion_to_the_work_on_given_features(n, n_features, share):
    assert Policy().residual_share(n, n_features) == pytest.approx(share)
    assert Policy().residual_samples(n, 5, share)[0] == (8 if share == 1 else 0)


def test_features_are_shared_by_standard_deviations():
    terms = [Term(None, GaussianMap(np.zeros((0, 1)), np.eye(1)), variance) for variance in (9.0, 1.0, 0.0)]
    assert [(term.variance, number) for term, number in shared(terms, 100)] == [(9.0, 75), (1.0, 25)]
    assert list(shared(terms[2:], 100)) == []
    assert list(shared([], 100)) == []
