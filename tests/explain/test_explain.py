"""Effects of columns, their bands, and contributions to single predictions."""

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from mixed_table import CITIES, mixed

from mlkm import MLKMRegressor, RandomFeatureRidge, RKMRegressor, plotting
from mlkm.datasets import make_example1
from mlkm.explain.effects import Grid, simultaneous_factor
from mlkm.explain.partial_dependence import knots_along, knots_of
from mlkm.solve import GradientDescent
from mlkm.solve.smoother import Functionals
from mlkm.solve.stack import together


def components(X):
    """Of Example 1, centred over the rows."""
    s1, c1, s4 = np.sin(2 * np.pi * X[:, 0]), np.cos(2 * np.pi * X[:, 0]), np.sin(2 * np.pi * X[:, 3])
    f1 = 6 * (0.1 * s1 + 0.2 * c1 + 0.3 * s1**2 + 0.4 * c1**3 + 0.5 * s1**3)
    F = np.stack([f1, 3 * (2 * X[:, 1] - 1) ** 2, 5 * X[:, 2], 4 * s4 / (2 - s4)], axis=1)
    return F - F.mean(axis=0)


def inside(f, band):
    return (band[0] <= f) & (f <= band[1])


@pytest.fixture(scope="module")
def additive():
    X, y, _ = make_example1(500, 5, noise=0.3, random_state=0)
    return MLKMRegressor(random_state=0).fit(X, y), X, y


@pytest.fixture(scope="module")
def product():
    """Two columns that matter by their product only, and one that does not."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 3))
    y = 3 * X[:, 0] * X[:, 1] + 0.05 * rng.standard_normal(400)
    return MLKMRegressor(random_state=0).fit(X, y), X


@pytest.fixture(scope="module")
def table():
    frame, y = mixed(150)
    return MLKMRegressor(random_state=0).fit(frame, y), frame, y


def deep(X, y):
    return MLKMRegressor(widths=(32, 6), random_state=0).fit(X, y)


def residual(X, y):
    return RKMRegressor(widths=(32, 6), random_state=0).fit(X, y)


def published(X, y):
    descent = GradientDescent(learning_rate=1e-2, max_iter=50)
    return MLKMRegressor.published(widths=(24, 6), penalty=1e-3, scales=1.0, solver=descent, random_state=0).fit(X, y)


def one_layer(X, y):
    return RandomFeatureRidge(random_state=0).fit(X, y)


def skewed(X, y):
    """A fit with a second scale."""
    return MLKMRegressor(random_state=0).fit(X, np.exp(y / 2))


FITS = [one_layer, deep, residual, published, skewed]


def test_effects_of_an_additive_truth_are_its_components(additive):
    model, X, _ = additive
    effects, truth = model.effects(X), components(X)
    for j in range(4):
        error = effects.main(j).values - truth[:, j]
        assert np.mean(error**2) < 0.02 * np.var(truth[:, j])
    assert np.std(effects.main(4).values) < 0.05
    for i, j in [(0, 1), (2, 3), (0, 4)]:
        assert np.abs(effects.pair(i, j).values).max() < 0.15  # y has a standard deviation of 4


def test_main_effects_have_mean_zero_over_the_training_rows(additive):
    model, X, _ = additive
    for j in range(5):
        assert abs(model.effects(X).main(j).values.mean()) < 1e-10
    assert abs(model.effects(X).pair(0, 1).values.mean()) < 1e-10


def test_an_effect_is_partial_dependence(additive):
    """With all rows as background, by predictions alone; it differs by what fewer rows make of interactions."""
    model, X, _ = additive
    at = np.linspace(0.2, 0.8, 7)
    Z = np.repeat(X[None], len(at), axis=0)
    Z[:, :, 0] = at[:, None]
    dependence = model.predict(Z.reshape(-1, 5)).reshape(len(at), -1).mean(axis=1)
    rows = X[:7].copy()
    rows[:, 0] = at
    values = model.effects(rows).main(0).values
    np.testing.assert_allclose(np.diff(values), np.diff(dependence), atol=0.05)


def test_a_product_is_a_pair_and_no_main_effects(product):
    model, X = product
    effects, truth = model.effects(X), 3 * (X[:, 0] - X[:, 0].mean()) * (X[:, 1] - X[:, 1].mean())
    pair = effects.pair(0, 1).values
    assert np.mean((pair - (truth - truth.mean())) ** 2) < 0.01 * np.var(truth)
    assert max(np.std(effects.main(j).values) for j in range(3)) < 0.1 * np.std(truth)
    assert np.std(effects.pair(0, 2).values) < 0.05 * np.std(truth)


def test_contributions_tell_columns_that_interact_from_one_that_does_not_matter(product):
    model, X = product
    told = model.explain(X[:100])
    size = np.abs(told.values).mean(axis=0)
    assert 0.8 < size[0] / size[1] < 1.25
    assert size[2] < 0.05 * size[0]
    # each of the two has half of the product
    half = 1.5 * X[:100, 0] * X[:100, 1]
    assert max(np.mean((told.values[:, j] - half) ** 2) for j in (0, 1)) < 0.1 * np.var(half)


def test_a_linear_truth_has_straight_effects_with_its_slopes():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 3))
    y = X @ [2.0, -1.0, 0.0] + 0.1 * rng.standard_normal(300)
    effects = MLKMRegressor(random_state=0).fit(X, y).effects(X)
    for j, slope in enumerate([2.0, -1.0, 0.0]):
        effect, centred = effects.main(j), X[:, j] - X[:, j].mean()
        assert abs(effect.values @ centred / (centred @ centred) - slope) < 0.03
        assert np.abs(effect.values - slope * centred).max() < 0.2
        assert effect.std.max() > 0


@pytest.mark.parametrize("fitted", FITS)
def test_every_fit_has_effects_bands_and_contributions(fitted):
    X, y, _ = make_example1(150, 5, noise=0.3, random_state=2)
    model = fitted(X, y)
    effects, some = model.effects(X), X[:20]
    for effect in (effects.main(0), effects.main(2), effects.pair(0, 3)):
        (low, high), (lowest, highest) = effect.band, effect.band_simultaneous
        assert effect.values.shape == low.shape == highest.shape == (150,)
        assert np.isfinite(effect.std).all()
        assert (effect.std > 0).all()
        assert (lowest <= low).all()
        assert (low < effect.values).all()
        assert (highest >= high).all()
        assert (highest - lowest).sum() > 1.1 * (high - low).sum()
    told = model.explain(some)
    np.testing.assert_allclose(told.baseline + told.values.sum(axis=1), model.predict(some), rtol=1e-9)
    assert told.names == ["x0", "x1", "x2", "x3", "x4"]
    size = np.abs(told.values).mean(axis=0)
    assert size[0] > size[4]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_contributions_add_up_whatever_the_number_of_columns(n):
    rng = np.random.default_rng(n)
    X = rng.uniform(-1, 1, (60, n))
    model = RandomFeatureRidge(n_features=40, scale=1.0, random_state=0).fit(X, np.prod(X + 1, axis=1))
    told = model.explain(X)
    np.testing.assert_allclose(told.baseline + told.values.sum(axis=1), model.predict(X), rtol=1e-9, atol=1e-12)


def test_contributions_of_an_additive_fit_are_its_main_effects():
    """Whatever the few background rows: the main effects there make up for them."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 6))
    y = X @ np.arange(6.0)
    model = RandomFeatureRidge(n_features=200, interactions=1, random_state=0).fit(X, y)
    effects, told = model.effects(X), model.explain(X)
    for j in range(6):
        np.testing.assert_allclose(told.values[:, j], effects.main(j).values, atol=0.02 * y.std())
    assert abs(told.baseline - model.predict(X).mean()) < 0.01 * y.std()


def test_bands_of_f_are_those_of_predict(additive):
    """A functional that is f at a place has the variance that `predict` gives f there."""
    model, X, _ = additive
    sigma = replace(model.fitted_.uncertainty, machines=model.machines_[:1], shares=(1.0, 0.0, 0.0), transformed=None)
    Z = model.standardised(X[:5])
    own = np.einsum("kcc->ck", sigma.covariance(Functionals(Z, np.ones((5, 1)), np.eye(5))))
    np.testing.assert_allclose(own, sigma.std(Z) ** 2 - sigma.noise, rtol=1e-6)


def test_members_of_a_stack_vary_together_at_most():
    """With equal members it is what they leave; with others no less than were they one error, or independent."""
    A, B = (M @ M.T for M in np.random.default_rng(0).standard_normal((2, 3, 3)))
    np.testing.assert_allclose(together([(0.3, A[None]), (0.7, A[None])])[0], A)
    bound = together([(0.3, A[None]), (0.7, B[None])])[0]
    a, b = np.linalg.cholesky(A), np.linalg.cholesky(B)
    for sign in (-1, 0, 1):
        own = 0.09 * A + 0.49 * B + sign * 0.21 * (a @ b.T + b @ a.T)
        assert np.linalg.eigvalsh(bound - own).min() > -1e-10


@pytest.mark.parametrize("fitted", [one_layer, deep, residual])
def test_covariance_at_a_place_is_the_leverage_there(fitted):
    X, y, _ = make_example1(60, 4, noise=0.3, random_state=2)
    model = fitted(X, y)
    (smoother,), Z = model.fitted_.uncertainty.smoothers[0], model.standardised(X[:5])
    own = smoother.covariance(Functionals(Z, np.ones((5, 1)), np.eye(5)))
    np.testing.assert_allclose(np.diag(own), smoother.leverage(Z), rtol=1e-3)
    # a difference of two means of two rows each, by hand
    T, pair = np.array([[1.0, -1.0]]), np.full((2, 2), 0.5)
    c = np.array([0.5, 0.5, -0.5, -0.5])
    whole = smoother.covariance(Functionals(Z[:4], np.ones((4, 1)), np.eye(4)))
    np.testing.assert_allclose(smoother.covariance(Functionals(Z[:4], pair, T))[0, 0], c @ whole @ c, rtol=1e-6)


def test_kernels_leave_of_functionals_what_the_dense_formula_says(additive):
    model, X, _ = additive
    smoother, Z = model.fitted_.uncertainty.smoother, model.standardised(X[:6])
    own = smoother.covariance(Functionals(Z, np.ones((6, 1)), np.eye(6)))
    np.testing.assert_allclose(np.diag(own), smoother.leverage(Z), rtol=1e-6, atol=1e-10)
    K, C = smoother.kernel.matrix(Z, smoother.X), np.linalg.inv(smoother.L @ smoother.L.T)
    rest = 1 - K @ C.sum(axis=1)
    dense = smoother.kernel.matrix(Z, Z) - K @ C @ K.T + np.outer(rest, rest) / C.sum()
    np.testing.assert_allclose(own, dense / smoother.noise, atol=1e-8 / smoother.noise)


def test_the_factor_for_all_places_lies_between_one_place_and_independent_ones():
    one = simultaneous_factor(np.zeros((3, 3)), 0.95)
    assert one == pytest.approx(1.96, abs=0.001)
    assert simultaneous_factor(np.ones((20, 20)), 0.95) == pytest.approx(one, abs=0.12)
    assert simultaneous_factor(np.eye(20), 0.95) == pytest.approx(3.02, abs=0.12)  # (1 - a)^20 = 0.95, two-sided


@pytest.mark.slow
def test_bands_hold_the_truth():
    """Over 16 tables, four components each: the share of places inside the 95 % band, on average, and of whole curves
    in the simultaneous one.

    Over these tables the share of places has the mean 0.97 and a standard deviation of 0.03, that of curves 0.94 and
    0.11: were the bands as they are, a mean of 16 tables beyond a limit would be more than ten standard errors away,
    and were 90 % of places and 85 % of curves inside, still more than six, a probability below 1e-8.
    """
    places, curves, wider = [], [], []
    for seed in range(16):
        X, y, _ = make_example1(250, 4, random_state=seed)
        effects, truth = MLKMRegressor(random_state=0).fit(X, y).effects(X), components(X)
        for j in range(4):
            effect = effects.main(j)
            places.append(inside(truth[:, j], effect.band).mean())
            curves.append(inside(truth[:, j], effect.band_simultaneous).all())
            wider.append(np.ptp(effect.band_simultaneous, axis=0).mean() / np.ptp(effect.band, axis=0).mean())
    assert 0.85 <= np.mean(places) <= 1
    assert np.mean(curves) >= 0.65
    assert np.min(wider) > 1.1
    assert np.max(wider) < 2


def test_places_and_names_are_the_same_columns(table):
    model, frame, _ = table
    effects = model.effects(frame)
    assert effects.main("city") is effects.main(2) is effects.main(-3)
    assert effects.pair("x", "city") is effects.pair(2, 0)
    assert effects.names == list(frame.columns)
    assert model.explain(frame[:2]).names == list(frame.columns)


@pytest.mark.parametrize("bad", ["colour", 5, -6, 1.0, True, None])
def test_a_column_that_is_none_is_refused_in_one_sentence(table, bad):
    model, frame, _ = table
    with pytest.raises(ValueError, match=r"^A column must be a place from 0 to 4 or one of the names 'x', .*; got"):
        model.effects(frame).main(bad)


def test_bad_choices_are_refused(table):
    model, frame, _ = table
    with pytest.raises(ValueError, match="A pair must be two columns; got 'x' twice"):
        model.effects(frame).pair("x", 0)
    for level in (0, 1, 95, "high", np.nan):
        with pytest.raises(ValueError, match="confidence_level must be"):
            model.effects(frame, confidence_level=level)


@pytest.mark.parametrize("make", [MLKMRegressor, RandomFeatureRidge])
def test_every_kind_of_column_has_one_effect(make):
    frame, y = mixed(150)
    model = make(random_state=0).fit(frame, y)
    effects = model.effects(frame)
    for name in frame.columns:
        effect = effects.main(name)
        assert effect.values.shape == (150,)
        assert np.isfinite(np.stack([*effect.band, *effect.band_simultaneous])).all()
    city = effects.main("city").values
    by_level = {level: city[(frame["city"] == level).to_numpy()] for level in CITIES}
    assert all(np.ptp(values) < 1e-9 for values in by_level.values())  # one value per level
    found = [by_level[level].mean() for level in ("Cairo", "Oslo", "Rome", "Lima")]
    np.testing.assert_allclose(np.diff(found), 1.0, atol=0.4)  # the truth goes up by one
    missing = city[frame["city"].isna().to_numpy()]
    assert np.ptp(missing) < 1e-9
    gone = frame["size"].isna().to_numpy()
    assert np.ptp(effects.main("size").values[gone]) < 1e-9
    season = np.cos(2 * np.pi * (frame["when"].dt.day_of_year - 1) / 365.25)
    assert np.corrcoef(effects.main("when").values, season)[0, 1] > 0.9
    assert effects.pair("city", "when").values.shape == effects.pair("size", "x").band[0].shape == (150,)


def test_contributions_of_every_kind_of_column_add_up(table):
    model, frame, _ = table
    told = model.explain(frame[:30])
    assert told.values.shape == (30, 5)
    np.testing.assert_allclose(told.baseline + told.values.sum(axis=1), model.predict(frame[:30]), rtol=1e-9)
    size = dict(zip(told.names, np.abs(told.values).mean(axis=0), strict=True))
    assert min(size["x"], size["city"], size["when"]) > 3 * max(size["old"], size["size"])


def test_levels_and_values_that_no_training_row_had(table):
    model, frame, _ = table
    new = frame[:3].copy()
    new["city"] = ["Paris", "Oslo", None]
    new["x"] = [50.0, -50.0, np.nan]
    new["when"] = pd.to_datetime(["2030-01-01", None, "2020-05-05"])
    effects = model.effects(new)
    for name in new.columns:
        assert np.isfinite(np.stack([effects.main(name).values, *effects.main(name).band])).all()
    told = model.explain(new)
    np.testing.assert_allclose(told.baseline + told.values.sum(axis=1), model.predict(new), rtol=1e-9)


def test_several_outputs_have_effects_of_their_own(additive):
    _, X, y = additive
    Y = np.stack([y, 10 * X[:, 2] + 0.1 * np.random.default_rng(0).standard_normal(len(y))], axis=1)[:200]
    X = X[:200]
    for make in (MLKMRegressor, lambda random_state: MLKMRegressor(widths=(32, 6), random_state=random_state)):
        model = make(random_state=0).fit(X, Y)
        effect = model.effects(X).main(2)
        assert effect.values.shape == effect.band[0].shape == effect.band_simultaneous[1].shape == (200, 2)
        slopes = [np.polyfit(X[:, 2], values, 1)[0] for values in effect.values.T]
        np.testing.assert_allclose(slopes, [5, 10], rtol=0.15)
        told = model.explain(X[:10])
        assert told.values.shape == (10, 5, 2)
        assert np.shape(told.baseline) == (2,)
        np.testing.assert_allclose(told.baseline + told.values.sum(axis=1), model.predict(X[:10]), rtol=1e-9)
        assert model.effects(X[:4]).pair(0, 2).band[0].shape == (4, 2)


def test_one_row_and_any_order_of_rows_say_the_same(additive):
    model, X, _ = additive
    some, order = X[:40], np.random.default_rng(0).permutation(40)
    whole, turned, single = model.effects(some), model.effects(some[order]), model.effects(some[:1])
    for effect in (lambda e: e.main(0), lambda e: e.pair(0, 1)):
        a, b, c = effect(whole), effect(turned), effect(single)
        assert c.values.shape == c.band[0].shape == (1,)
        np.testing.assert_allclose(b.values, a.values[order], atol=1e-8)
        np.testing.assert_allclose(b.band_simultaneous[0], a.band_simultaneous[0][order], atol=1e-8)
        np.testing.assert_allclose([c.values[0], c.band[1][0]], [a.values[0], a.band[1][0]], atol=1e-6)
    told = model.explain(some)
    np.testing.assert_allclose(model.explain(some[order]).values, told.values[order], atol=1e-6)
    np.testing.assert_allclose(model.explain(some[:1]).values, told.values[:1], atol=1e-6)  # kernels in float32


def test_effects_are_the_same_every_time_and_after_pickling(additive):
    model, X, _ = additive
    again = pickle.loads(pickle.dumps(model))
    a, b = model.effects(X[:30]).main(1), again.effects(X[:30]).main(1)
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_allclose(a.band_simultaneous[1], b.band_simultaneous[1], rtol=1e-12)
    np.testing.assert_array_equal(model.explain(X[:5]).values, again.explain(X[:5]).values)


def test_a_new_fit_forgets_the_effects_of_the_old_one(additive):
    _, X, y = additive
    model = RandomFeatureRidge(n_features=30, scale=1.0, random_state=0).fit(X, y)
    before = model.effects(X).main(0).values
    model.fit(X, -y)
    after = RandomFeatureRidge(n_features=30, scale=1.0, random_state=0).fit(X, -y).effects(X).main(0).values
    np.testing.assert_array_equal(model.effects(X).main(0).values, after)
    assert np.abs(before + after).max() < 0.2 * np.abs(before).max()


def test_bands_widen_with_the_level(additive):
    model, X, _ = additive
    narrow, wide = (model.effects(X, confidence_level=level).main(0) for level in (0.5, 0.99))
    np.testing.assert_array_equal(narrow.values, wide.values)
    ratio = np.ptp(wide.band, axis=0) / np.ptp(narrow.band, axis=0)
    np.testing.assert_allclose(ratio, 2.5758 / 0.6745, rtol=1e-3)
    assert (np.ptp(wide.band_simultaneous, axis=0) > np.ptp(narrow.band_simultaneous, axis=0)).all()


def test_weights_are_copies(additive):
    _, X, y = additive
    X, y, w = X[:80], y[:80], np.repeat([1, 2], 40)
    weighted = RandomFeatureRidge(n_features=50, scale=1.0, random_state=0).fit(X, y, w)
    copied = RandomFeatureRidge(n_features=50, scale=1.0, random_state=0).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    a, b = (model.effects(X[:10]).main(0) for model in (weighted, copied))
    np.testing.assert_allclose(a.values, b.values, atol=1e-8)
    np.testing.assert_allclose(a.band[0], b.band[0], atol=1e-8)


def test_knots_are_all_values_where_they_are_few_and_close_elsewhere():
    np.testing.assert_array_equal(knots_along(np.array([3.0, 1.0, 1.0, 2.0]), 36), [1, 2, 3])
    x = np.random.default_rng(0).exponential(size=5000)
    knots = knots_along(x, 36)
    assert len(knots) <= 36
    assert (knots[0], knots[-1]) == (x.min(), x.max())
    assert np.diff(knots).min() > 0
    assert np.diff(knots).max() < np.ptp(x) / 12


def test_lines_go_through_their_knots_and_are_close_between_them():
    x = np.sort(np.random.default_rng(0).uniform(0, 1, 500))[:, None]
    lines = knots_of("number", x, x, 36, 300)
    f = np.sin(6 * lines.points)
    np.testing.assert_allclose(lines.curve(f, lines.points), f, atol=1e-12)
    np.testing.assert_allclose(lines.curve(f, x), np.sin(6 * x), atol=1e-2)
    np.testing.assert_allclose(lines.linear(f, x), np.sin(6 * x), atol=5e-2)
    rows = SimpleNamespace(rows=SimpleNamespace(X=x), shares=np.full(500, 1 / 500), inputs=lambda j: np.arange(1))
    np.testing.assert_allclose(Grid(rows, (0,), (lines,)).masses().sum(), 1)
    assert len(lines.thinned(16)) == 16


def test_very_many_dates_are_looked_at_here_and_there():
    day = np.linspace(-1.5, 1.5, 2000)
    X = np.stack([day, np.cos(7 * day), np.sin(7 * day)], axis=1)
    lines = knots_of("date", X, X, 36, 300)
    assert len(lines) == 300
    f = lines.points[:, :1] + lines.points[:, 1:2]
    np.testing.assert_allclose(lines.curve(f, X), X[:, :1] + X[:, 1:2], atol=0.02)


def test_a_category_whose_levels_are_means_of_y():
    """Thirty levels are a number in a fit by features, and in training rows a mean of other rows."""
    rng = np.random.default_rng(0)
    level, x = rng.integers(0, 30, 400), rng.uniform(-1, 1, 400)
    size = rng.standard_normal(30)
    model = RandomFeatureRidge(categorical_features=[0], random_state=0).fit(
        np.stack([level, x], axis=1), size[level] + x + 0.1 * rng.standard_normal(400)
    )
    every = np.stack([np.arange(30.0), np.zeros(30)], axis=1)
    effects = model.effects(every)
    assert np.corrcoef(effects.main(0).values, size)[0, 1] > 0.95
    assert (np.ptp(effects.main(0).band, axis=0) > 0).all()
    assert np.isfinite(effects.pair(0, 1).band).all()


def test_pictures_of_effects(table, tmp_path):
    model, frame, _ = table
    effects = model.effects(frame)
    for name in frame.columns:
        figure = plotting.plot_effect(effects, name)
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
        assert figure.axes[0].get_xlabel() == name
    ticks = [tick.get_text() for tick in plotting.plot_effect(effects, "city").axes[0].get_xticklabels()]
    assert ticks == [*sorted(CITIES), "missing"]


def test_a_picture_of_one_of_several_outputs(additive):
    _, X, y = additive
    model = RandomFeatureRidge(n_features=30, scale=1.0, random_state=0).fit(X, np.stack([y, -y], axis=1))
    effects = model.effects(X)
    with pytest.raises(ValueError, match="for 2 outputs: say which one to draw, as in output=0; got None"):
        plotting.plot_effect(effects, 0)
    drawn = plotting.plot_effect(effects, 0, output=1).axes[0].lines[0].get_ydata()
    np.testing.assert_allclose(drawn, effects.main(0).values[np.argsort(X[:, 0]), 1])


def test_bands_where_only_a_part_of_the_rows_was_solved_on():
    """Only the 600 rows of the solve have a leverage; dividing the residuals of all 1500 rows by one minus a leverage
    would give bands of +-8,660 for y in [-182, 12]."""
    X = np.random.default_rng(0).uniform(size=(1500, 5))
    g = np.sin(9 * X[:, 0] * X[:, 1]) + np.cos(7 * X[:, 2] + 8 * X[:, 3]) + (X[:, 4] > 0.5)
    y = 12 - 1.2 * np.exp(1.7 * g)
    model = MLKMRegressor(effort=1e-3, random_state=0).fit(X, y)  # of 600 rows, as "fast" is of 6000
    effect = model.effects(X[:30]).main(4)
    assert np.ptp(effect.band, axis=0).max() < np.ptp(y)
    left = model.leave_one_out(X, y)
    new = left.place < 0
    assert new.sum() == 900
    np.testing.assert_allclose(left.residuals[new, 0], (y - model.predict(X))[new], atol=1e-8 * np.ptp(y))
