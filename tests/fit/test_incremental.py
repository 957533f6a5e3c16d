"""Rows that come and go, and models that are merged, are fits to all rows."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from mlkm import MLKMRegressor, RandomFeatureRidge, merge
from mlkm.exceptions import NoSignalWarning

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
    assert site.fitted_.uncertainty.rows is None  # no row is kept
    assert site.fitted_.uncertainty.sample is None
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


@pytest.mark.parametrize("rows_of", [lambda X, y: (X[:100] + 1, y[:100] + 1e4), lambda X, y: (X[:1], y[:1] + 1e3)])
def test_rows_that_were_never_there_cannot_be_forgotten(rows_of):
    X, y = rows(300)
    model = clone(MODEL).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="Only rows that the model has"):
        model.forget(*rows_of(X, y))
    np.testing.assert_array_equal(model.predict(X), before)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(0, 20), st.booleans(), st.booleans(), st.sampled_from([1e-8, 1e-4]), st.integers(0, 1000), st.booleans()
)
def test_forgetting_is_exact_or_refused(exponent, far_x, linear, penalty, seed, in_fit):
    """A row 10^0 to 10^20 standard deviations out is added and forgotten again: predictions, errors and standard
    deviations are those without it, or the call is refused and changes nothing."""
    X, y = rows(150, seed=seed)
    if far_x and in_fit:  # beyond this, features lose digits, as inputs are standardised with this row
        exponent = min(exponent, 4)
    outlier = (X[:1] * 10**exponent, y[:1]) if far_x else (X[:1], y[:1] + y.std() * 10**exponent)
    model = clone(MODEL).set_params(linear=linear, penalty=penalty)
    if in_fit:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoSignalWarning)
            model.fit(np.vstack([X, outlier[0]]), np.append(y, outlier[1]))
    else:
        model.fit(X, y).partial_fit(*outlier)
    before = model.predict(X)
    never = model.without_rows().partial_fit(X, y)  # the same features and scalings
    refused = ""
    try:
        model.forget(*outlier)
    except ValueError as error:
        refused = str(error)
    if refused:
        assert "call fit with the rows that are to stay" in refused
        np.testing.assert_array_equal(model.predict(X), before)
        assert exponent > 2
        return
    mean, std = model.predict(X, return_std=True)
    expected, expected_std = never.predict(X, return_std=True)
    np.testing.assert_allclose(mean, expected, atol=1e-6 * y.std())
    np.testing.assert_allclose(std, expected_std, rtol=1e-3)
    assert model.loo_error_ == pytest.approx(never.loo_error_, rel=1e-3)


def test_what_rounding_hides_is_no_standard_deviation_of_zero():
    """With targets without noise, the residual sum of squares is all rounding error."""
    X, _ = rows(200)
    y = X[:, 0] - 2 * X[:, 1]
    model = RandomFeatureRidge(20, scale=0.7, penalty=1e-12, linear=True, random_state=0).fit(X[:100], y[:100])
    for changed in (model.partial_fit(X[100:], y[100:]), model.forget(X[50:150], y[50:150])):
        std = changed.predict(X, return_std=True)[1]
        assert ((std > 0) & (std < 1e-3 * y.std())).all()
        assert 0 < changed.loo_error_ < 1e-6 * y.var()


@pytest.mark.filterwarnings("ignore:loo_error_ is inf")
@pytest.mark.parametrize("value", [1e120, 1e160, -1e299])
@pytest.mark.parametrize("outputs", [None, 2])
def test_targets_of_any_size_can_be_added_and_merged(value, outputs):
    """The result is that of a fit to all rows, which standardises the targets."""
    X, y = rows(120, outputs=outputs)
    y[-2] = value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoSignalWarning)
        every = clone(MODEL).fit(X, y)
        last = clone(MODEL).fit(X[60:], y[60:])
    f, std = every.predict(X, return_std=True)
    first = clone(MODEL).fit(X[:60], y[:60])
    for both in (merge([first, last]), first.partial_fit(X[60:], y[60:])):
        mean, sigma = both.predict(X, return_std=True)
        np.testing.assert_allclose(mean / abs(value), f / abs(value), atol=1e-8)
        np.testing.assert_allclose(sigma / abs(value), std / abs(value), rtol=1e-6)
        assert both.loo_error_ > 1e150


def test_inputs_that_overflow_are_refused_and_change_nothing():
    X, y = rows(120)
    for size in (1e3, 1e9, 1e15):
        model = clone(MODEL).set_params(linear=True).fit(X[:100], y[:100]).partial_fit(size * X[100:], y[100:])
        assert np.isfinite(model.predict(X, return_std=True)).all()
    before = model.predict(X)
    with pytest.raises(ValueError, match="standard deviations away from the mean of its column"):
        model.partial_fit(1e200 * X[:2], y[:2])
    np.testing.assert_array_equal(model.predict(X), before)
