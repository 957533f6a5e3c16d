"""Ranks in exact arithmetic, and quantiles with and without weights; `test_oracles.py` has the ranks of bands."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlkm.conformal.rank import (
    RowWeights,
    counts_up_to,
    quantiles,
    rank,
    row_quantiles,
    row_shares,
    rows_needed,
    shares_up_to,
    weighted_quantiles,
)
from mlkm.runtime.confidence import exact_level, exact_levels

LEVELS = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99]


def test_floating_point_would_be_wrong():
    assert np.ceil(0.55 * 100) == 56
    assert rank(99, exact_level(0.55)) == 55


@pytest.mark.parametrize("level", [*LEVELS, np.float32(0.9), Decimal("0.95"), Fraction(19, 20)])
def test_rows_needed_is_the_first_that_do(level):
    exact = exact_level(level)
    m = rows_needed(exact)
    assert rank(m, exact) <= m
    assert m == 1 or rank(m - 1, exact) > m - 1


@pytest.mark.parametrize("bad", [0, 1, 95, -0.1, float("nan"), Decimal("nan"), "0.9", None, True])
def test_levels_outside_the_unit_interval_are_refused(bad):
    with pytest.raises(ValueError, match="between 0 and 1"):
        exact_level(bad)


def test_several_levels():
    assert exact_levels([0.9, 0.5]) == exact_levels(np.array([0.9, 0.5])) == [Fraction(9, 10), Fraction(1, 2)]


@given(st.integers(1, 300), st.sampled_from(LEVELS), st.floats(0.01, 100))
def test_equal_weights_change_nothing(m, level, weight):
    scores = np.sort(np.random.default_rng(m).standard_normal(m))
    plain = quantiles(scores, [exact_level(level)])
    weighted = weighted_quantiles(scores, np.full(m, weight), np.full(3, weight), [exact_level(level)])
    np.testing.assert_array_equal(weighted, np.broadcast_to(plain, (3, 1)))


def weighted_example(m, n, seed):
    """Return values (n, m) with ties, and weights of which one in five is zero."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.standard_normal((n, m)), 1)
    old = rng.exponential(size=m) * (rng.random(m) > 0.2)
    return values, RowWeights(old, rng.exponential(size=n))


def bounded(values, old, new, level):
    """Return the least value that bounds enough weight, by trying all of them."""
    needed = float(level) * (old.sum() + new) * (1 - 1e-12)
    return min((value for value in values if old[values <= value].sum() >= needed), default=np.inf)


@pytest.mark.parametrize("m", [1, 2, 7, 30])
def test_weighted_quantiles_bound_enough_weight(m):
    levels = exact_levels([0.3, 0.5, 0.8, 0.95])
    values, weights = weighted_example(m, 6, m)
    expected = [
        [bounded(row, weights.old, w, level) for level in levels] for row, w in zip(values, weights.new, strict=True)
    ]
    np.testing.assert_array_equal(row_quantiles(values, levels, weights), expected)
    order = np.argsort(values[0], kind="stable")
    expected = [[bounded(values[0], weights.old, w, level) for level in levels] for w in weights.new]
    found = weighted_quantiles(values[0][order], weights.old[order], weights.new, levels)
    np.testing.assert_array_equal(found, expected)


def test_a_sum_of_weights_reaches_its_level_in_spite_of_rounding():
    """0.1 + 0.1 + 0.1 is above 0.3 and ten times 0.1 is below 1 in floating point."""
    scores, levels = np.arange(9.0), exact_levels([0.3, 0.9])
    weights = RowWeights(np.full(9, 0.1), np.full(1, 0.1))
    np.testing.assert_array_equal(weighted_quantiles(scores, *weights, levels), [[2, 8]])
    np.testing.assert_array_equal(row_quantiles(scores[None], levels, weights), [[2, 8]])


@pytest.mark.parametrize("m", [0, 1, 2, 7, 30])
def test_quantiles_of_rows_are_those_of_each(m):
    levels = exact_levels([0.5, 0.9, 0.1, 0.5])
    values, _ = weighted_example(m, 5, m)
    expected = [quantiles(np.sort(row), levels) for row in values]
    np.testing.assert_array_equal(row_quantiles(values, levels, None), expected)
    equal = RowWeights(np.ones(m), np.ones(5))
    np.testing.assert_array_equal(row_quantiles(values, levels, equal), expected)
    assert quantiles(np.sort(values[0]), levels).shape == (4,)


@pytest.mark.parametrize("m", [0, 1, 2, 7, 30])
def test_counts_and_shares_up_to_a_point_are_those_of_comparing_all(m):
    values, weights = weighted_example(m, 6, m)
    y = np.round(np.random.default_rng(m + 1).standard_normal((6, 9)), 1)
    scores = np.sort(values[0])
    base, unit = np.full((6, 9), 0.5), np.full((6, 9), 2.0)
    counts = counts_up_to(scores, base, unit, y)
    np.testing.assert_array_equal(counts, (0.5 + 2 * scores <= y[:, :, None]).sum(axis=2))
    below = values[:, None, :] <= y[:, :, None]
    np.testing.assert_allclose(row_shares(values, y, None), below.sum(axis=2) / (m + 1))
    total = (weights.old.sum() + weights.new)[:, None]
    np.testing.assert_allclose(row_shares(values, y, weights), below @ weights.old / total)
    first = [[weights.old[:count].sum() for count in row] for row in counts]
    expected = first / total if weights.old.sum() > 0 else np.zeros((6, 9))
    np.testing.assert_allclose(shares_up_to(counts, weights.old, weights.new), expected)


def test_without_any_weight_nothing_is_bounded():
    none, new, levels = np.zeros(3), np.zeros(2), exact_levels([0.5])
    assert np.isinf(weighted_quantiles(np.arange(3.0), none, np.ones(2), levels)).all()
    assert np.isinf(weighted_quantiles(np.empty(0), np.empty(0), np.ones(2), levels)).all()
    np.testing.assert_array_equal(shares_up_to(np.full((2, 1), 3), none, new), np.zeros((2, 1)))
    np.testing.assert_array_equal(row_shares(np.zeros((2, 3)), np.ones((2, 1)), RowWeights(none, new)), [[0], [0]])
