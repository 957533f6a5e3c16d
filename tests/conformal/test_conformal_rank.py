"""Ranks in exact arithmetic, and quantiles with and without weights; `test_oracles.py` has the ranks of bands."""

import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlkm.conformal.rank import (
    RowWeights,
    Threshold,
    conformal_quantiles,
    counts_up_to,
    rank,
    row_shares,
    rows_needed,
    shares_up_to,
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
    plain = conformal_quantiles(scores[None], [exact_level(level)])
    equal = RowWeights(np.full(m, weight), np.full(3, weight))
    weighted = conformal_quantiles(scores[None], [exact_level(level)], equal)
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
    np.testing.assert_array_equal(conformal_quantiles(values, levels, weights), expected)
    expected = [[bounded(values[0], weights.old, w, level) for level in levels] for w in weights.new]
    np.testing.assert_array_equal(conformal_quantiles(values[:1], levels, weights), expected)


def test_a_sum_of_weights_reaches_its_level_in_spite_of_rounding():
    """0.1 + 0.1 + 0.1 is above 0.3 and ten times 0.1 is below 1 in floating point."""
    scores, levels = np.arange(9.0), exact_levels([0.3, 0.9])
    weights = RowWeights(np.full(9, 0.1), np.full(1, 0.1))
    np.testing.assert_array_equal(conformal_quantiles(scores[None], levels, weights), [[2, 8]])


@pytest.mark.parametrize("m", [0, 1, 2, 7, 30])
def test_quantiles_of_rows_are_those_of_each(m):
    levels = exact_levels([0.5, 0.9, 0.1, 0.5])
    values, _ = weighted_example(m, 5, m)
    padded = [np.append(np.sort(row), np.inf) for row in values]
    expected = [[row[min(rank(m, level), m + 1) - 1] for level in levels] for row in padded]
    np.testing.assert_array_equal(conformal_quantiles(values, levels), expected)
    equal = RowWeights(np.ones(m), np.ones(5))
    np.testing.assert_array_equal(conformal_quantiles(values, levels, equal), expected)
    assert conformal_quantiles(values[:1], levels).shape == (1, 4)


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
    order = np.argsort(values[0], kind="stable")
    first = [[weights.old[order][:count].sum() for count in row] for row in counts]
    points = (values[0], base[:, 0], unit[:, 0], y)
    np.testing.assert_allclose(shares_up_to(*points), counts / (m + 1))
    np.testing.assert_allclose(shares_up_to(*points, weights), first / total)
    small = RowWeights(1e-6 * weights.old, 1e-6 * weights.new)
    np.testing.assert_allclose(row_shares(values, y, small), below @ weights.old / total)
    np.testing.assert_allclose(shares_up_to(*points, small), first / total)


def test_without_any_weight_nothing_is_bounded():
    none, new, levels = np.zeros(3), np.zeros(2), exact_levels([0.5])
    for rows in (1, 2):
        values = np.tile(np.arange(3.0), (rows, 1))
        assert np.isinf(conformal_quantiles(values, levels, RowWeights(none, np.ones(2)))).all()
        assert np.isinf(conformal_quantiles(values, levels, RowWeights(none, new))).all()
        assert np.isinf(conformal_quantiles(values[:, :0], levels, RowWeights(np.empty(0), np.ones(2)))).all()
    point = (np.arange(3.0), np.zeros(2), np.ones(2), np.full((2, 1), 3.0))
    np.testing.assert_array_equal(shares_up_to(*point, RowWeights(none, new)), np.zeros((2, 1)))
    np.testing.assert_array_equal(row_shares(np.zeros((2, 3)), np.ones((2, 1)), RowWeights(none, new)), [[0], [0]])


def test_the_share_of_exponential_scores_above_a_threshold_is_alpha():
    """On average over 3000 samples, from a threshold beyond the largest of them to one below their median; the standard
    error of the mean is about 0.003."""
    scores = np.random.default_rng(0).exponential(size=(3000, 9))
    for alpha in (0.05, 0.1, 0.25, 0.5, 0.7):
        limits = [Threshold(row, alpha, "decaying", None, 0.6, None).value for row in scores]
        assert np.exp(-np.array(limits)).mean() == pytest.approx(alpha, abs=0.02), alpha


def decaying(scores, **options):
    settings = {"alpha": 0.2, "method": "decaying", "step": 0.5, "decay": 0.5, "window": None} | options
    return Threshold(np.asarray(scores, float), **settings)


def test_a_decaying_threshold_moves_by_its_formula():
    """Scores keep their size: steps are step * size * (number of scores)^-decay."""
    threshold = decaying(np.tile([1.0, -1.0], 8))
    for n, (score, miss) in enumerate([(1.0, 0), (-1.0, 0), (1.0, 0)], 17):
        before, reached = threshold.value, 2.0
        threshold.update(score, reached)
        assert threshold.value - before == pytest.approx(0.5 * n**-0.5 * (miss - 0.2))
    before = threshold.value
    threshold.update(1.0, 0.5)  # a miss
    assert threshold.value - before == pytest.approx(0.5 * 20**-0.5 * 0.8)


def test_steps_grow_with_the_scores():
    """The size is the mean of all scores so far, and scores count as earlier steps by as much as they have grown."""
    threshold = decaying(np.ones(9))
    before = threshold.value
    threshold.update(11.0, 1.0)
    unit = (9 * 1 + 11) / 10
    assert threshold.value - before == pytest.approx(0.5 * unit * (1 + 9 / unit) ** -0.5 * 0.8)


def test_small_scores_count_as_earlier_steps_as_large_ones_do():
    threshold = decaying(np.full(9, 0.1))
    before = threshold.value
    threshold.update(1.1, 0.1)
    unit = (9 * 0.1 + 1.1) / 10
    assert threshold.value - before == pytest.approx(0.5 * unit * (1 + 9 * 0.1 / unit) ** -0.5 * 0.8)


def test_the_mean_difference_of_scores_is_over_all_that_were_seen():
    threshold = decaying(np.array([1.0, 3.0, 2.0]))
    before = threshold.swing
    threshold.update(6.0, 10.0)
    assert threshold.swing == pytest.approx(before + (abs(6.0 - 2.0) - before) / 4)


def test_an_adaptive_threshold_moves_its_level_and_remembers_its_window():
    scores = np.random.default_rng(0).exponential(size=40)
    threshold = Threshold(scores, 0.1, "adaptive", 0.05, 0.6, 20)
    assert list(threshold.recent) == scores[20:].tolist()
    level = threshold.level
    threshold.update(7.0, 1.0)
    assert threshold.level == pytest.approx(level - 0.05 * 0.9)
    threshold.update(0.5, 1.0)
    assert threshold.level == pytest.approx(level - 0.05 * 0.9 + 0.05 * 0.1)
    assert list(threshold.recent) == [*scores[22:].tolist(), 7.0, 0.5]
    assert threshold.ordered == sorted(threshold.recent)


def test_a_threshold_of_an_exhausted_level_moves_out_by_ten_times_the_range():
    """Beyond the largest score by four gaps, and ten times the range of the scores per unit of the level below zero."""
    scores = np.array([0.0, 1.0, 3.0, 4.0])
    at_zero, below = (Threshold(scores, alpha, "decaying", None, 0.6, None).value for alpha in (0.0, -0.2))
    assert at_zero == pytest.approx(4 + 4 * 1)
    assert below - at_zero == pytest.approx(0.2 * 10 * 4)
    two = Threshold(np.array([1.0, 3.0]), 0.0, "decaying", None, 0.6, None)
    assert two.value == pytest.approx(3 + 4 * 2)
    rising = Threshold(np.array([2.0]), -0.5, "decaying", None, 0.6, None)
    assert rising.value == 2  # one score has neither a gap nor a range


def test_a_pickled_threshold_goes_on_as_before():
    threshold = Threshold(np.arange(30.0), 0.1, "adaptive", None, 0.6, 10)
    copy = pickle.loads(pickle.dumps(threshold))
    for one in (threshold, copy):
        one.update(50.0, one.value)
    assert (copy.value, copy.level, copy.recent) == (threshold.value, threshold.level, threshold.recent)
    assert copy.recent.maxlen == 10
