"""Merging equal rows: the reason why weight k is the same as k copies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from mlkm.data import Block, distinct_rows
from mlkm.data.scan import merged_in_order


@st.composite
def tables(draw):
    """X, Y and weights with many equal rows and zero weights, but some positive weight."""
    n = draw(st.integers(1, 25))
    X = draw(npst.arrays(np.float64, (n, draw(st.integers(1, 3))), elements=st.sampled_from([-1.5, -0.0, 0.0, 2.0])))
    Y = draw(npst.arrays(np.float64, (n, draw(st.integers(1, 2))), elements=st.sampled_from([0.0, -0.0, 1.0])))
    weights = draw(npst.arrays(np.float64, n, elements=st.integers(0, 3).map(float)).filter(lambda w: w.sum() > 0))
    return X, Y, weights


def content(X, Y):
    return [tuple(row) for row in np.hstack([X, Y])]


@given(tables())
def test_weighted_sums_are_preserved(table):
    X, Y, weights = table
    rows = distinct_rows(X, Y, weights)
    for f in (lambda Z: Z, np.square, np.exp):
        merged = rows.weights @ f(np.hstack([rows.X, rows.Y])) / len(rows.X)
        np.testing.assert_allclose(merged, weights @ f(np.hstack([X, Y])) / weights.sum(), rtol=1e-12, atol=1e-12)
    assert rows.weights.mean() == pytest.approx(1)


@given(tables())
def test_rows_are_distinct_and_those_of_weight_zero_are_dropped(table):
    X, Y, weights = table
    rows = distinct_rows(X, Y, weights)
    kept = content(rows.X, rows.Y)
    assert len(kept) == len(set(kept))
    assert set(kept) == {row for row, w in zip(content(X, Y), weights, strict=True) if w > 0}


@given(tables(), st.data())
def test_some_of_the_rows_keep_their_relative_weights(table, data):
    rows = distinct_rows(*table)
    at = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, unique=True)))
    some = rows.take(at)
    assert some.weights.mean() == pytest.approx(1)
    np.testing.assert_allclose(some.weights * rows.weights[at[0]], rows.weights[at] * some.weights[0])
    np.testing.assert_array_equal(some.X, rows.X[at])
    np.testing.assert_array_equal(some.copies, rows.copies[at])


@given(tables(), st.integers(1, 9))
def test_blocks_are_all_rows_in_order(table, size):
    rows = distinct_rows(*table)
    blocks = list(rows.blocks(size))
    np.testing.assert_array_equal(np.vstack([rows.X[block] for block in blocks]), rows.X)
    assert all(len(rows.X[block]) <= size for block in blocks)


@given(tables(), st.randoms(use_true_random=False))
def test_the_order_given_does_not_matter(table, random):
    X, Y, weights = table
    order = list(range(len(X)))
    random.shuffle(order)
    rows, shuffled = distinct_rows(X, Y, weights), distinct_rows(X[order], Y[order], weights[order])
    np.testing.assert_array_equal(rows.X, shuffled.X)
    np.testing.assert_array_equal(rows.Y, shuffled.Y)
    np.testing.assert_array_equal(rows.weights, shuffled.weights)


@given(tables())
def test_weight_k_is_k_copies(table):
    X, Y, weights = table
    copies = np.repeat(np.arange(len(X)), weights.astype(int))
    rows, repeated = distinct_rows(X, Y, weights), distinct_rows(X[copies], Y[copies])
    np.testing.assert_array_equal(rows.X, repeated.X)
    np.testing.assert_array_equal(rows.Y, repeated.Y)
    np.testing.assert_array_equal(rows.weights, repeated.weights)


@given(tables(), st.data())
def test_rows_of_different_folds_stay_apart(table, data):
    X, Y, weights = table
    fold = data.draw(npst.arrays(np.intp, len(X), elements=st.integers(0, 2)))
    rows = distinct_rows(X, Y, weights, fold)
    given = {(*row, k) for row, k, w in zip(content(X, Y), fold, weights, strict=True) if w > 0}
    assert len(rows) == len(given)
    assert {(*row, k) for row, k in zip(content(rows.X, rows.Y), rows.fold, strict=True)} == given


def test_negative_zero_is_zero():
    rows = distinct_rows(np.array([[0.0], [-0.0]]), np.array([[-0.0], [0.0]]))
    assert len(rows.X) == 1


def test_numbers_that_differ_in_the_last_bit_are_different():
    x = np.array([[1.0], [np.nextafter(1.0, 2.0)]])
    assert len(distinct_rows(x, np.zeros((2, 1))).X) == 2


def test_the_order_has_nothing_to_do_with_the_values():
    """Of the first half of the rows, about half have a value below the median: false-alarm rate below 1e-4 (normal
    bound at 4 standard errors)."""
    x = np.random.default_rng(0).permutation(np.arange(2000.0))[:, None]
    below = (distinct_rows(x, 2 * x).X[:1000, 0] < 1000).sum()
    assert abs(below - 500) < 4 * np.sqrt(2000 / 16)


def test_no_weight_at_all_is_explained():
    with pytest.raises(ValueError, match="All sample weights are zero, so there is no row to fit"):
        distinct_rows(np.ones((3, 1)), np.ones((3, 1)), np.zeros(3))


def test_equal_rows_are_merged_into_the_first_in_the_order_given():
    X = np.array([[3.0, 1.0], [0.0, 2.0], [3.0, 1.0], [-0.0, 2.0], [5.0, 1.0], [0.0, 2.0], [7.0, 7.0]])
    Y = np.array([[1.0], [4.0], [1.0], [4.0], [1.0], [5.0], [2.0]])
    weights = np.array([1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    rows = merged_in_order(Block(X, Y, weights))
    np.testing.assert_array_equal(rows.X, [[3, 1], [0, 2], [5, 1], [0, 2]])
    np.testing.assert_array_equal(rows.Y[:, 0], [1, 4, 1, 5])
    np.testing.assert_allclose(rows.weights, np.array([2, 3, 1, 1]) * 4 / 7)
    np.testing.assert_array_equal(rows.copies, [2, 3, 1, 1])
