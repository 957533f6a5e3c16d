"""Ranks in exact arithmetic, and quantiles with and without weights; `test_oracles.py` has the ranks of bands."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlkm.conformal.rank import quantiles, rank, rows_needed, weighted_quantiles
from mlkm.runtime.levels import exact_level, exact_levels

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
