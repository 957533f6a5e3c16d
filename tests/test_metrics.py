"""Metrics of a band, against their definitions."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from mlkm import metrics


def test_the_binomial_interval_is_exact():
    """Clopper and Pearson: at each end, the observed count is on the edge of the tail."""
    y, interval = np.r_[np.zeros(37), np.full(3, 9)], np.tile([-1.0, 1.0], (40, 1))
    result = metrics.coverage(y, interval)
    assert (result.share, result.n) == (37 / 40, 40)
    np.testing.assert_allclose([binom.sf(36, 40, result.low), binom.cdf(37, 40, result.high)], 0.025)
    everything = metrics.coverage(np.zeros(5), np.tile([-1.0, 1.0], (5, 1)))
    assert everything.high == 1
    assert metrics.coverage(np.full(5, 3), np.tile([-1.0, 1.0], (5, 1))).low == 0


def test_widths_may_be_infinite():
    interval = np.array([[0, 1], [0, 2], [-np.inf, np.inf]])
    assert metrics.mean_width(interval) == np.inf
    assert metrics.median_width(interval) == 2
    assert metrics.coverage([5, 1, 1e9], interval).share == 2 / 3
    assert metrics.winkler_score([5, 1, 1e9], interval, 0.9) == np.inf
    assert metrics.median_width(interval[1:]) == np.inf


def test_winkler_is_minimal_at_the_quantiles():
    """A proper score: of all intervals, the true quantiles have the least expected score."""
    y = np.random.default_rng(0).standard_normal(200_000)
    scores = [metrics.winkler_score(y, np.tile([-q, q], (len(y), 1)), 0.9) for q in (1.3, 1.645, 2.0)]
    assert min(scores) == scores[1]
    assert metrics.winkler_score([2.0], [[0.0, 1.0]], 0.9) == pytest.approx(1 + 20 * 1.0)


def test_winkler_is_told_the_level():
    """An 80 % band has no score until its level is known; 95 % was assumed once, 6.03 where 3.48 is right."""
    with pytest.raises(TypeError, match="confidence_level"):
        metrics.winkler_score([2.0], [[0.0, 1.0]])
    assert metrics.winkler_score([2.0], [[0.0, 1.0]], 0.8) == pytest.approx(1 + 10)


def test_groups_bins_and_slices_find_where_a_band_fails():
    rng = np.random.default_rng(0)
    X = rng.random((4000, 3))
    y = np.where(X[:, 1] > 0.8, 5.0, 1.0) * rng.standard_normal(4000)
    interval = np.tile([-3.0, 3.0], (4000, 1))
    shares = metrics.coverage_by_group(y, interval, X[:, 1] > 0.8)
    assert shares[True].share < 0.6 < 0.99 < shares[False].share
    bins = metrics.coverage_by_bin(y, interval, X[:, 1])
    assert len(bins) == 5
    assert min(part.share for *_, part in bins) == bins[-1][2].share
    assert metrics.worst_slice_coverage(X, y, interval) < 0.6
    calm = metrics.worst_slice_coverage(X, np.zeros(4000), interval)
    assert calm == 1


def test_width_bins_follow_the_widths():
    interval = np.column_stack([-np.arange(1.0, 101), np.arange(1.0, 101)])
    bins = metrics.coverage_by_bin(np.full(100, 50.0), interval, n_bins=4)
    assert [part.share for *_, part in bins] == [0, pytest.approx(0.04), 1, 1]
    assert bins[0][:2] == (2, 50)


def test_equal_values_share_a_bin():
    interval = np.random.default_rng(0).standard_normal((100, 1)) + np.array([-0.1, 0.1])  # widths equal up to rounding
    assert len(metrics.coverage_by_bin(np.zeros(100), interval)) == 1
    values = np.r_[np.zeros(90), np.arange(1.0, 11)]
    assert [(low, high, part.n) for low, high, part in metrics.coverage_by_bin(np.zeros(100), interval, values)] == [
        (0, 0, 90),
        (1, 10, 10),
    ]
    assert [part.n for *_, part in metrics.coverage_by_bin(np.zeros(100), interval, values, n_bins=20)] == [90, 5, 5]


def test_groups_may_be_objects():
    labels = pd.Series(["a", "b", "a"], dtype=object)
    shares = metrics.coverage_by_group([0, 5, 0], np.tile([-1.0, 1.0], (3, 1)), labels)
    assert {label: part.share for label, part in shares.items()} == {"a": 1, "b": 0}


def test_messages():
    for level in (1.0, 95):
        for metric in (metrics.winkler_score, metrics.coverage):
            with pytest.raises(ValueError, match="between 0 and 1"):
                metric(np.zeros(5), np.zeros((5, 2)), level)
    with pytest.raises(ValueError, match="one number per row"):
        metrics.coverage_by_bin(np.zeros(5), np.zeros((5, 2)), np.zeros(4))
    for X in (np.zeros(30), np.zeros((29, 2))):
        with pytest.raises(ValueError, match="one row per interval"):
            metrics.worst_slice_coverage(X, np.zeros(30), np.zeros((30, 2)))
    with pytest.raises(ValueError, match="one level at a time"):
        metrics.mean_width(np.zeros((5, 2, 2)))
    with pytest.raises(ValueError, match="one outcome per interval"):
        metrics.coverage(np.zeros(4), np.zeros((5, 2)))
    with pytest.raises(ValueError, match="one label per row"):
        metrics.coverage_by_group(np.zeros(5), np.zeros((5, 2)), ["a"])
    for y, interval in (([np.nan, 0.0], np.zeros((2, 2))), (np.zeros(2), [[0.0, 1.0], [np.nan, 1.0]])):
        for metric in (metrics.coverage, metrics.winkler_score):
            with pytest.raises(ValueError, match=r"none missing; row [01] has NaN"):
                metric(y, interval, 0.9)
    with pytest.raises(ValueError, match="none missing; row 1 has NaN"):
        metrics.mean_width([[0.0, 1.0], [np.nan, 1.0]])
    for gap in (np.nan, None, pd.NA, pd.NaT):
        labels = pd.Series(["a", "b", "a", gap], dtype=object)
        for groups in (labels, list(labels)):
            with pytest.raises(ValueError, match=r"groups must be labels .*, none missing; row 3 has none"):
                metrics.coverage_by_group(np.zeros(4), np.zeros((4, 2)), groups)
    with pytest.raises(ValueError, match="row 1 has none"):
        metrics.coverage_by_group(np.zeros(2), np.zeros((2, 2)), [1.0, np.nan])
    with pytest.raises(ValueError, match="at least 20 rows"):
        metrics.worst_slice_coverage(np.zeros((5, 1)), np.zeros(5), np.zeros((5, 2)))
