"""Fits do not depend on how the same rows are given, for tables drawn by hypothesis.

Models that learn their scales are tested on a few tables only, since a fit takes a third of a second. With other
rounding errors their searches end at another iterate, for which 1 % of the standard deviation of y is allowed; descent
amplifies rounding errors, too, and is allowed a millionth.
"""

import pickle

import numpy as np
from drawn_tables import ALL, DESCENT, HELD, LEARNED, every, fit_predict, tables
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from mlkm import RandomFeatureRidge, merge

seeds = st.integers(0, 2**32 - 1)


def few(model):
    """Return the number of tables on which a model is tested."""
    return {"mlkm-auto": 2, "ridge-auto": 3}.get(next(name for name in ALL if ALL[name] is model), 6)


def tried(model, check):
    """Run the check on drawn tables, fewer for slow models."""
    settings(max_examples=few(model))(given(tables, seeds)(check))()


def close(model, found, wanted, y):
    atol = 0.01 if model in LEARNED.values() else 1e-6
    np.testing.assert_allclose(found, wanted, rtol=0, atol=atol * y.std())


@every(ALL)
def test_weights_are_repetitions_and_have_no_unit(model):
    def check(table, seed):
        X, y = table.rows
        weights = np.random.default_rng(seed).integers(0, 4, len(X)).astype(float)
        weights[:2] = 1
        copies = np.repeat(np.arange(len(X)), weights.astype(int))
        weighted = fit_predict(model, X, y, sample_weight=weights)
        np.testing.assert_array_equal(weighted, fit_predict(model, X[copies], y[copies], new=X))
        some = weights > 0
        np.testing.assert_array_equal(weighted, fit_predict(model, X[some], y[some], X, sample_weight=weights[some]))
        assert np.abs(weighted - fit_predict(model, X, y)).max() > 1e-6
        real = weights + 0.3
        close(model, fit_predict(model, X, y, sample_weight=4 * real), fit_predict(model, X, y, sample_weight=real), y)

    tried(model, check)


@every(ALL)
def test_the_order_of_rows_and_a_second_fit_do_not_matter(model):
    def check(table, seed):
        X, y = table.rows
        fitted, order = clone(model).fit(X, y), np.random.default_rng(seed).permutation(len(X))
        found = fitted.predict(X)
        np.testing.assert_array_equal(found, fit_predict(model, X[order], y[order], new=X))
        again = clone(fitted)
        assert again.get_params() == model.get_params()
        np.testing.assert_array_equal(found, again.fit(X[order], y[order]).fit(X, y).predict(X))
        other = clone(model).set_params(random_state=seed % 1000 + 1)
        assert (found != fit_predict(other, X, y)).any()

    tried(model, check)


@every(DESCENT | LEARNED)
def test_shifts_of_X_do_not_matter(model):
    def check(table, seed):
        X, y = table.rows
        shift = np.random.default_rng(seed).uniform(-10, 10, X.shape[1])
        close(model, fit_predict(model, X + shift, y), fit_predict(model, X, y), y)

    tried(model, check)


@every(LEARNED)
def test_units_of_X_do_not_matter_where_scales_are_learned(model):
    def check(table, seed):
        X, y = table.rows
        unit = 10 ** np.random.default_rng(seed).uniform(-3, 3, X.shape[1])
        close(model, fit_predict(model, X * unit, y), fit_predict(model, X, y), y)

    tried(model, check)


@every(HELD | DESCENT)
def test_units_of_X_are_undone_by_scales(model):
    """gamma multiplies frequencies: X -> a X with gamma -> gamma / a is the same fit."""

    def check(table, seed):
        X, y = table.rows
        unit, other = 10 ** np.random.default_rng(seed).uniform(-1, 1, X.shape[1]), clone(model)
        if "scale" in model.get_params():
            other.set_params(scale=model.scale / unit)
        else:
            scales = model.scales if isinstance(model.scales, tuple) else (model.scales,) * len(model.widths)
            other.set_params(scales=(scales[0] / unit, *scales[1:]))
        np.testing.assert_allclose(fit_predict(other, X * unit, y), fit_predict(model, X, y), atol=1e-7 * y.std())

    tried(model, check)


@every(ALL)
def test_shifts_and_units_of_y_carry_over(model):
    def check(table, seed):
        X, y = table.rows
        shift, unit = np.random.default_rng(seed).uniform([-50, 0.01], [50, 100])
        close(model, (fit_predict(model, X, shift + unit * y) - shift) / unit, fit_predict(model, X, y), y)

    tried(model, check)


@every(LEARNED)
def test_the_order_of_columns_matters_less_than_noise(model):
    """Features are drawn per column, so that another order is another draw."""

    def check(table, seed):
        X, y = table.rows
        order = np.random.default_rng(seed).permutation(X.shape[1])
        fitted = clone(model).fit(X, y)
        moved = fit_predict(model, X[:, order], y) - fitted.predict(X)
        assert np.sqrt(np.mean(moved**2)) < np.sqrt(fitted.loo_error_)

    tried(model, check)


@every(ALL)
def test_a_constant_is_predicted_as_it_is(model):
    """A constant y is predicted exactly, and so is the mean of y if all rows are equal."""

    def check(table, seed):
        X, y = table.rows
        constant = np.random.default_rng(seed).normal() * 10.0 ** (seed % 9 - 4)
        same = fit_predict(model, X, np.full(len(X), constant), new=X + 1)
        np.testing.assert_allclose(same, constant, rtol=1e-12)
        mean = fit_predict(model, np.repeat(X[:1], len(X), axis=0), y, new=X[:1])
        np.testing.assert_allclose(mean, y.mean(), rtol=0.01)

    tried(model, check)


@every(ALL)
def test_a_prediction_depends_on_its_row_alone_and_survives_a_pickle(model):
    """The other rows and their order do not matter, up to float32 for kernels."""

    def check(table, seed):
        X, y = table.rows
        fitted, order = clone(model).fit(X, y), np.random.default_rng(seed).permutation(len(X))
        mean, std = fitted.predict(X, return_std=True)
        same = pickle.loads(pickle.dumps(fitted)).predict(X, return_std=True)
        np.testing.assert_array_equal(same, (mean, std))
        pairs = [fitted.predict(X[i : i + 1], return_std=True) for i in order]
        atol = (1e-5 if model is LEARNED["mlkm-auto"] else 1e-12) * y.std()
        np.testing.assert_allclose([pair[0][0] for pair in pairs], mean[order], rtol=0, atol=atol)
        np.testing.assert_allclose(fitted.predict(X[order]), mean[order], rtol=0, atol=atol)
        np.testing.assert_allclose([pair[1][0] for pair in pairs], std[order], rtol=1e-6, atol=atol)

    tried(model, check)


@settings(max_examples=15)
@given(tables, st.lists(st.integers(1, 12), min_size=1, max_size=5), seeds)
def test_rows_in_any_blocks_and_order_are_one_fit(table, sizes, seed):
    X, y = table.rows
    order = np.random.default_rng(seed).permutation(len(X))
    blocks = [part for part in np.split(order, np.cumsum([5, *sizes])) if len(part)]
    model = RandomFeatureRidge(30, scale=0.7, penalty=1e-4, random_state=0)
    added = clone(model)
    for part in blocks:
        added.partial_fit(X[part], y[part])
    whole = fit_predict(model, X, y)
    np.testing.assert_allclose(added.predict(X), whole, rtol=0, atol=1e-8 * y.std())
    halves = [clone(model).fit(X[part], y[part]) for part in np.array_split(order, 2)]
    np.testing.assert_allclose(merge(halves).predict(X), whole, rtol=0, atol=1e-8 * y.std())
