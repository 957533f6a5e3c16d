"""Sums over pieces of rows: the same whatever the pieces come from."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlkm.data import Block, plain_rows
from mlkm.data.preparation import merged_stats, stats_of
from mlkm.data.rows import FAN, MemoryRows, block_rows, in_order, tree_sum
from mlkm.kernels import Gaussian
from mlkm.model.draws import draw_features
from mlkm.model.prior import Part, Prior
from mlkm.solve.ridge import ridge, system_of_sums
from mlkm.solve.sums import add_in_place, sums_of


@given(st.integers(1, 300))
def test_the_tree_is_that_of_groups_of_eight(n):
    """Level by level, groups of eight added one after the other: what tasks of a cluster do."""
    leaves = [f"{k} " for k in range(n)]

    def add(a, b):
        return f"({a}+{b})"

    level = leaves
    while len(level) > 1:
        groups = [level[k : k + FAN] for k in range(0, len(level), FAN)]
        level = [group[0] if len(group) == 1 else reduce(add, group) for group in groups]
    assert tree_sum(leaves, add) == level[0]


def test_no_rows_have_no_sum():
    with pytest.raises(ValueError, match="no rows"):
        tree_sum([], max)


def test_results_come_in_order_and_errors_end_the_work():
    assert list(in_order(lambda k: k * k, range(20))) == [k * k for k in range(20)]

    def broken(k):
        if k == 3:
            raise RuntimeError("broken")
        return k

    with pytest.raises(RuntimeError, match="broken"):
        list(in_order(broken, range(20)))


def test_pieces_are_whole_blocks_of_a_bounded_size():
    for d in (1, 20, 1000, 5000):
        assert block_rows(d) % 2048 == 0
        assert block_rows(d) * d <= 2**22 or block_rows(d) == 2048


def test_ridge_on_sums_is_ridge_on_rows():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((40_000, 3)), rng.uniform(0.5, 2, 40_000)
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]]) + 5
    rows = plain_rows(X, Y, w)
    phi = draw_features(np.random.default_rng(1), 3, 30, Gaussian())
    prior = Prior((Part(phi, 1.0),), np.ones(3), 1e-2, precise=True)
    left = Block(rows.X[-500:], rows.Y[-500:], rows.weights[-500:])
    sums = MemoryRows(rows).map_reduce(sums_of(prior, left.X), add_in_place)
    fit, reference = system_of_sums(sums, prior, left).fit(1e-3), ridge(prior.rows_of_features(X), Y, w, 1e-3)
    np.testing.assert_allclose(fit.coefficients, reference.coefficients, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(fit.intercept, reference.intercept, rtol=1e-8)
    np.testing.assert_allclose(fit.loo_residuals, reference.loo_residuals[-500:], rtol=1e-6, atol=1e-9)
    assert sums.n == 40_000


def test_sums_add_and_subtract():
    rng = np.random.default_rng(0)
    X, Y, w = rng.standard_normal((300, 2)), rng.standard_normal((300, 1)), rng.uniform(0, 2, 300)
    phi = draw_features(np.random.default_rng(1), 2, 10, Gaussian())
    of = sums_of(Prior((Part(phi, 1.0),), None, 1e-2, precise=True), X[:50])
    all_of_them = of(Block(X, Y, w))
    a, b = of(Block(X[:100], Y[:100], w[:100])), of(Block(X[100:], Y[100:], w[100:]))
    for sums in (a + b, all_of_them + b - b, add_in_place(of(Block(X[:100], Y[:100], w[:100])), b)):
        np.testing.assert_allclose(sums.FF, all_of_them.FF, atol=1e-10)
        np.testing.assert_allclose(sums.FY, all_of_them.FY, atol=1e-10)
        assert sums.n == 300
        assert sums.weight == pytest.approx(w.sum())


@given(st.integers(1, 40), st.integers(0, 2**31), st.sampled_from([1e-200, 1.0, 1e200]))
def test_statistics_of_parts_are_those_of_all(cut, seed, size):
    rng = np.random.default_rng(seed)
    X, w = size * (7 + rng.standard_normal((41, 3))), rng.uniform(0.1, 3, 41)
    whole, parts = stats_of(X, w), merged_stats(stats_of(X[:cut], w[:cut]), stats_of(X[cut:], w[cut:]))
    ends = np.sort(X, axis=0)
    np.testing.assert_array_equal(parts.low, ends[:2])
    np.testing.assert_array_equal(parts.high, ends[-2:])
    np.testing.assert_array_equal(whole.low, parts.low)
    np.testing.assert_allclose(parts.mean, np.average(X / size, axis=0, weights=w) * size, rtol=1e-12)
    np.testing.assert_allclose(parts.sd / size, whole.sd / size, rtol=1e-9)
