"""Rows that come and go, and models that are merged, are fits to all rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from mlkm import MLKMRegressor, RandomFeatureRidge, merge

MODEL = RandomFeatureRidge(60, scale=0.7, penalty=1e-4, random_state=0)


def rows(n=900, d=4, seed=0, outputs=None):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) + 3
    F = np.column_stack([np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2], X[:, 3]])
    Y = 100 + 10 * F + 0.1 * rng.standard_normal((n, 2))
    return X, Y[:, 0] if outputs is None else Y


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("cut", [30, 500])
def test_rows_added_forgotten_and_merged_are_a_fit_to_all(cut, outputs, linear):
    X, y = rows(outputs=outputs)
    w = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    model = clone(MODEL).set_params(linear=linear)
    first, second = (slice(0, cut), slice(cut, None))

    def fit(at, own=model):
        return clone(own).fit(X[at], y[at], w[at])

    every = fit(slice(None)).predict(X)
    added = fit(first).partial_fit(X[second], y[second], w[second])
    np.testing.assert_allclose(added.predict(X), every, rtol=1e-8)
    np.testing.assert_allclose(merge([fit(first), fit(second)]).predict(X), every, rtol=1e-8)
    left = fit(slice(None)).forget(X[first], y[first], w[first])
    np.testing.assert_allclose(left.predict(X), fit(second).predict(X), rtol=1e-8)
    np.testing.assert_allclose(left.penalty_, model.penalty)


def test_a_thousand_changes_hardly_drift():
    X, y = rows(1100)
    model = clone(MODEL).fit(X[:1000], y[:1000])
    before = model.predict(X)
    for k in range(500):
        at = slice(1000 + k % 100, 1001 + k % 100)
        model.partial_fit(X[at], y[at])
        model.forget(X[at], y[at])
    np.testing.assert_allclose(model.predict(X), before, rtol=1e-6)


def test_learned_features_are_held_and_sites_share_sums_alone():
    X, y = rows()
    first = RandomFeatureRidge(60, random_state=0).fit(X[:400], y[:400])
    site = first.without_rows().partial_fit(X[400:], y[400:])
    assert site._rows_of_fit[0] is None  # no row is kept
    assert site._rows_of_fit[1].sample is None
    both, refit = merge([first, site]), first.without_rows().partial_fit(X, y)
    np.testing.assert_allclose(both.predict(X), refit.predict(X), rtol=1e-8)
    assert first.row_sums().n == 400  # models that were merged stay as they were
    assert np.mean((both.predict(X) - y) ** 2) < 0.5 * y.var()
    std = both.predict(X, return_std=True)[1]
    assert (std > 0).all()
    assert both.loo_error_ == pytest.approx(first.loo_error_, rel=0.5)


def test_tables_come_and_go():
    X, y = rows(400)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(X[:, 0] > 3, "high", "low"))
    first = RandomFeatureRidge(60, random_state=0).fit(frame[:200], y[:200])
    added = clone(first).fit(frame[:200], y[:200]).partial_fit(frame[200:], y[200:])
    other = first.without_rows().partial_fit(frame[200:], y[200:])
    np.testing.assert_allclose(merge([first, other]).predict(frame), added.predict(frame), rtol=1e-8)


def test_what_cannot_be_is_explained_and_changes_nothing():
    X, y = rows(200)
    model = clone(MODEL).fit(X[:100], y[:100])
    before = model.predict(X)
    with pytest.raises(ValueError, match="Only rows that the model has"):
        model.forget(X, y)
    with pytest.raises(ValueError, match="must have 1 outputs"):
        model.partial_fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="different features"):
        merge([model, clone(MODEL).set_params(random_state=1).fit(X, y)])
    with pytest.raises(ValueError, match="different features"):
        merge([model, clone(MODEL).set_params(n_features=61).fit(X, y)])
    with pytest.raises(TypeError, match="got MLKMRegressor"):
        merge([model, MLKMRegressor()])
    with pytest.raises(ValueError, match="at least one"):
        merge([])
    np.testing.assert_array_equal(model.predict(X), before)


def test_models_of_other_columns_or_outputs_are_not_merged():
    X, y = rows(300)
    frame = pd.DataFrame(X, columns=list("abcd"))
    first = clone(MODEL).fit(frame[:150], y[:150])
    with pytest.raises(ValueError, match="same columns in the same order"):
        merge([first, clone(MODEL).fit(frame[150:][list("dcba")], y[150:])])
    with pytest.raises(ValueError, match="as many outputs"):
        merge([clone(MODEL).fit(X, y), clone(MODEL).fit(X, np.column_stack([y, y]))])


def test_later_targets_widen_the_limits_of_predictions():
    X, y = rows(600)
    X[300:, 0] += 3
    y[300:] += 2000
    model = RandomFeatureRidge(60, random_state=0).fit(X[:300], y[:300])
    other = model.without_rows().partial_fit(X[300:], y[300:])
    for both in (merge([model, other]), model.partial_fit(X[300:], y[300:])):
        assert abs(both.predict(X[300:]).mean() - y[300:].mean()) < 100


def test_rows_that_were_never_there_cannot_be_forgotten():
    X, y = rows(300)
    model = clone(MODEL).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="Only rows that the model has"):
        model.forget(X[:100] + 1, y[:100] + 1e4)
    np.testing.assert_array_equal(model.predict(X), before)
