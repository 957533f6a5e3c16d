"""Quantiles and shares of the distribution that a band stands for.

Statistical tests draw with fixed seeds; the false-alarm rate of each is stated.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from saved_models import round_trip
from scipy.stats import beta, kstest, kstwo
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold

import mlkm
from mlkm import ConformalRegressor, RandomFeatureRidge, open_table

FAST = RandomFeatureRidge(20, "gaussian", 1.0, penalty=1e-3, random_state=0)
LINE = LinearRegression()
LEVELS = np.array([0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97])
CASES = [(score, "split", 5) for score in ("auto", "variance", "absolute", "residual", "quantile")] + [
    ("absolute", "cross", 4), ("variance", "cross", 4), ("residual", "cross", 4), ("quantile", "cross", 4),
    ("absolute", "cross", "loo"), ("variance", "cross", "loo"),
]  # fmt: skip


def drawn(n, seed=0):
    """Noise that is skewed and grows with x_1."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    return X, X.sum(axis=1) + (0.5 + X[:, 0]) * (rng.exponential(size=n) - 1)


def fitted(score, method, cv, k=1):
    X, y = drawn(200)
    Y = y if k == 1 else np.column_stack([y * 10**j for j in range(k)])
    return ConformalRegressor(FAST, score=score, method=method, cv=cv, random_state=0).fit(X, Y)


def frozen(n=100, seed=9):
    return FrozenEstimator(Ridge().fit(*drawn(n, seed)))


@pytest.mark.parametrize(("score", "method", "cv"), CASES)
def test_quantiles_are_upper_bounds_that_rise_and_shares_are_their_inverse(score, method, cv):
    band, (X, _) = fitted(score, method, cv), drawn(50, seed=1)
    m = band.n_calibration_
    quantiles = band.predict_quantile(X, LEVELS)
    assert quantiles.shape == (50, len(LEVELS))
    assert (np.diff(quantiles, axis=1) >= 0).all()
    np.testing.assert_array_equal(quantiles, band.predict_interval(X, LEVELS, side="upper")[1][:, 1])
    shares = band.predict_cdf(X, quantiles)
    ranks = np.ceil(np.round(LEVELS * (m + 1), 9))
    np.testing.assert_allclose(shares, np.broadcast_to(ranks / (m + 1), shares.shape), atol=1e-12)
    assert (band.predict_cdf(X, np.nextafter(quantiles, -np.inf)) < LEVELS).all()
    rising = band.predict_cdf(X, np.append(np.linspace(-5, 10, 40), 1e3)[None])
    assert (np.diff(rising, axis=1) >= 0).all()
    assert rising.min() >= 0
    assert rising.max() == pytest.approx(m / (m + 1))


def test_quantiles_are_the_textbooks():
    X, y = drawn(99, seed=3)
    model = frozen()
    band = ConformalRegressor(model, score="absolute").conformalize(X, y)
    signed, (new, _) = np.sort(y - model.predict(X)), drawn(7, seed=4)
    found = band.predict_quantile(new, [0.005, 0.1, 0.101, 0.9])
    np.testing.assert_allclose(found, model.predict(new)[:, None] + signed[[0, 9, 10, 89]], rtol=1e-12)
    at = model.predict(new) + 0.3
    np.testing.assert_allclose(band.predict_cdf(new, at), np.full(7, (signed <= 0.3).sum() / 100), atol=1e-12)
    for q, same in ((0.1, True), (0.101, False)):
        lower = band.predict_interval(new, 1 - q, side="lower")[1][:, 0, 0]
        np.testing.assert_allclose(lower, model.predict(new) + signed[9], rtol=1e-12)
        assert np.allclose(lower, band.predict_quantile(new, q)) == same


@pytest.mark.parametrize("score", ["variance", "absolute", "residual", "quantile"])
def test_outcomes_are_at_most_a_quantile_as_often_as_its_level_says(score):
    """60 draws of 59 calibration and 200 new rows, four levels: mean shares in [q, q + 1/60], 3.9 standard errors, so
    that there are less than 1e-3 false alarms for every score."""
    levels, hits = [0.1, 0.5, 0.9, 0.95], []
    for k in range(60):
        X, y = drawn(359, seed=100 + k)
        band = ConformalRegressor(FAST, score=score, calibration_size=59, cv=2, random_state=k).fit(X[:159], y[:159])
        hits.append((y[159:, None] <= band.predict_quantile(X[159:], levels)).mean(axis=0))
    mean, error = np.mean(hits, axis=0), np.std(hits, axis=0, ddof=1) / np.sqrt(60)
    assert (mean >= np.array(levels) - 3.9 * error).all()
    assert (mean <= np.array(levels) + 1 / 60 + 3.9 * error).all()


def test_cross_quantiles_are_near_their_levels():
    """Given the fit, the share of 4000 new outcomes up to a quantile of 300 rows varies about as a beta of their order
    statistics; 4.5 standard deviations and a point for fits on four fifths of the rows."""
    X, y = drawn(4300, seed=5)
    for method, cv in (("cross", 5), ("cross", "loo")):
        band = ConformalRegressor(FAST, score="absolute", method=method, cv=cv).fit(X[:300], y[:300])
        hits = (y[300:, None] <= band.predict_quantile(X[300:], LEVELS)).mean(axis=0)
        spread = np.sqrt(beta.var(LEVELS * 301, (1 - LEVELS) * 301) + LEVELS * (1 - LEVELS) / 4000)
        assert (np.abs(hits - LEVELS) < 4.5 * spread + 0.01).all()


@pytest.mark.parametrize("score", ["variance", "absolute", "residual", "quantile"])
def test_shares_of_new_outcomes_are_uniform(score):
    """The distance of shares from the uniform is that of two samples, 500 calibration and 2000 new scores, by
    Kolmogorov and Smirnov: less than 1e-5 false alarms each. A model of no use does it as well."""
    X, y = drawn(3000, seed=6)
    for model in (FAST, Ridge()) if score == "residual" else (FAST,):
        band = ConformalRegressor(model, score=score, calibration_size=500, random_state=0).fit(X[:1000], y[:1000])
        shares = band.predict_cdf(X[1000:], y[1000:])
        distance = kstest(shares, "uniform").statistic - 1 / 501
        assert kstwo.sf(distance, 400) > 1e-5  # 500 x 2000 / 2500
    useless = FrozenEstimator(DummyRegressor().fit(X[500:510], y[500:510]))
    shares = ConformalRegressor(useless).conformalize(X[:500], y[:500]).predict_cdf(X[1000:], y[1000:])
    assert kstwo.sf(kstest(shares, "uniform").statistic - 1 / 501, 400) > 1e-5


@pytest.mark.parametrize("method", ["split", "cross"])
def test_shapes_of_one_and_of_several_outputs(method):
    X, y = drawn(6, seed=2)
    one, two = (fitted("absolute", method, 3, k) for k in (1, 2))
    assert one.predict_quantile(X, 0.5).shape == (6,)
    assert one.predict_quantile(X, (0.5,)).shape == (6, 1)
    assert two.predict_quantile(X, 0.5).shape == (6, 2)
    assert two.predict_quantile(X, [0.2, 0.5, 0.7]).shape == (6, 3, 2)
    np.testing.assert_allclose(two.predict_quantile(X, LEVELS)[..., 0], one.predict_quantile(X, LEVELS), rtol=1e-6)
    for given, shape in ((1.0, (6,)), (y, (6,)), (pd.Series(y), (6,)), (np.ones((6, 4)), (6, 4)), ([[0, 1]], (6, 2))):
        assert one.predict_cdf(X, given).shape == shape
    Y = np.column_stack([y, 10 * y])
    for given, shape in ((1.0, (6, 2)), (Y, (6, 2)), (Y[:1], (6, 2)), (np.ones((6, 4, 2)), (6, 4, 2))):
        assert two.predict_cdf(X, given).shape == shape
    np.testing.assert_allclose(two.predict_cdf(X, Y)[:, 0], one.predict_cdf(X, y), atol=1e-6)
    np.testing.assert_array_equal(one.predict_cdf(X, [[0.5, 1.0]])[:, 1], one.predict_cdf(X, 1.0))
    np.testing.assert_array_equal(two.predict_cdf(X, Y[:, None])[:, 0], two.predict_cdf(X, Y))
    assert fitted("absolute", method, 3).fit(X, y[:, None]).predict_cdf(X, y[:, None]).shape == (6, 1)
    for band, bad in ((one, np.ones(5)), (one, np.ones((5, 2))), (two, y), (two, np.ones((6, 3))), (one, Y[None])):
        with pytest.raises(ValueError, match=r"y must be a number, or have the shape \(6,.* got \("):
            band.predict_cdf(X, bad)
    with pytest.raises(ValueError, match="y contains NaN"):
        one.predict_cdf(X, np.nan)


def test_too_few_rows_are_infinite_above_and_finite_below():
    X, y = drawn(18)
    band = ConformalRegressor(frozen(), score="absolute").conformalize(X, y)
    with pytest.warns(UserWarning, match=r"18 calibration rows are too few for the level 0.95, so its bound is"):
        assert np.isinf(band.predict_quantile(X, 0.95)).all()
    assert np.isfinite(band.predict_quantile(X, [1e-9, 0.94])).all()
    assert band.predict_cdf(X, 1e9).max() == pytest.approx(18 / 19)
    np.testing.assert_array_equal(band.predict_cdf(X, [[-np.inf, np.inf]]), np.tile([0.0, 1.0], (18, 1)))


@pytest.mark.parametrize("method", ["split", "cross"])
def test_limits_cut_quantiles_and_end_the_distribution(method):
    band, (X, _) = fitted("absolute", method, 3), drawn(20, seed=2)
    cut = band.predict_quantile(X, LEVELS, y_min=1.0, y_max=2.0)
    np.testing.assert_array_equal(cut, np.clip(band.predict_quantile(X, LEVELS), 1.0, 2.0))
    found = band.predict_cdf(X, [[0.9, 1.0, 1.5, 2.0, 3.0]], y_min=1.0, y_max=2.0)
    np.testing.assert_array_equal(found[:, [0, 3, 4]], np.tile([0.0, 1.0, 1.0], (20, 1)))
    np.testing.assert_array_equal(found[:, 1:3], band.predict_cdf(X, [[1.0, 1.5]]))
    with pytest.raises(ValueError, match="y_min must be below y_max"):
        band.predict_cdf(X, 1.0, y_min=2, y_max=1)


@pytest.mark.parametrize("method", ["split", "cross"])
def test_a_row_is_judged_by_its_group(method):
    X, y = drawn(600)
    group = np.where(np.arange(600) % 3 == 0, "loud", "calm")
    y = y + np.where(group == "loud", 20.0, 1.0) * np.random.default_rng(1).standard_normal(600)
    band = ConformalRegressor(Ridge(), score="absolute", method=method, random_state=0).fit(X, y, groups=group)
    new, labels = X[:30], group[:30]
    quantiles = band.predict_quantile(new, LEVELS, groups=labels)
    assert (np.ptp(quantiles, axis=1)[labels == "loud"] > 3 * np.ptp(quantiles, axis=1)[labels == "calm"].max()).all()
    shares = band.predict_cdf(new, quantiles, groups=labels)
    assert ((shares >= LEVELS - 1e-12) & (shares < LEVELS + 1 / 60)).all()
    for ask, of in ((band.predict_quantile, 0.5), (band.predict_cdf, 0.0)):
        with pytest.raises(ValueError, match="needs the groups"):
            ask(new, of)
    with pytest.warns(UserWarning, match="no calibration rows in group new"):
        assert (band.predict_cdf(new, 0.0, groups=["new"] * 30) == 0).all()


def test_groups_that_only_named_the_folds_are_not_asked_for():
    X, y = drawn(120)
    band = ConformalRegressor(Ridge(), method="cross", cv=GroupKFold(4)).fit(X, y, groups=np.arange(120) % 8)
    np.testing.assert_allclose(band.predict_cdf(X, band.predict_quantile(X, 0.5)), np.full(120, 61 / 121), atol=1e-12)


@pytest.mark.parametrize(("method", "cv"), [("split", 5), ("cross", 4), ("cross", "loo")])
def test_weights_count_as_in_intervals(method, cv):
    X, y = drawn(300)
    weights, new = np.random.default_rng(1).uniform(0.2, 3, 300), drawn(40, seed=2)[0]
    band = ConformalRegressor(FAST, method=method, cv=cv, random_state=0).fit(X, y, sample_weight=weights)
    for own in (None, np.linspace(0.1, 3, 40)):
        quantiles = band.predict_quantile(new, LEVELS, sample_weight=own)
        np.testing.assert_array_equal(
            quantiles, band.predict_interval(new, LEVELS, side="upper", sample_weight=own)[1][:, 1]
        )
        shares = band.predict_cdf(new, quantiles, sample_weight=own)
        assert ((shares >= LEVELS - 1e-9) & (shares < LEVELS + 0.05)).all()
        assert (band.predict_cdf(new, np.nextafter(quantiles, -np.inf), sample_weight=own) < LEVELS).all()
    plain = ConformalRegressor(FAST, method=method, cv=cv, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="calibrated with weights"):
        plain.predict_cdf(new, 0.0, sample_weight=np.ones(40))


def test_equal_weights_are_none():
    X, y = drawn(100)
    band, new = ConformalRegressor(frozen()), drawn(40, seed=2)[0]
    plain = band.conformalize(X, y).predict_cdf(new, 1.0)
    np.testing.assert_allclose(band.conformalize(X, y, sample_weight=np.full(100, 7.0)).predict_cdf(new, 1.0), plain)


def test_ties_and_exact_fits():
    """Many equal scores: the quantile is one of them, and all of them count up to it."""
    X = np.zeros((60, 1))
    y = np.repeat([0.0, 1.0, 2.0], 20)
    band = ConformalRegressor(FrozenEstimator(DummyRegressor().fit(X, y))).conformalize(X, y)
    np.testing.assert_allclose(band.predict_quantile(X[:1], [0.1, 0.4, 0.9]), [[0, 1, 2]])
    shares = band.predict_cdf(X[:1], [[-0.1, 0.0, 0.5, 1.0, 2.0]])
    np.testing.assert_allclose(shares, np.array([[0, 20, 20, 40, 60]]) / 61)
    exact = ConformalRegressor(FAST, score="variance", random_state=0).fit(drawn(60)[0], np.full(60, 3.0))
    np.testing.assert_allclose(exact.predict_quantile(drawn(5)[0], LEVELS[:-1]), 3.0, atol=1e-6)


@pytest.mark.parametrize(("score", "method", "cv"), [CASES[1], CASES[3], CASES[5], CASES[-1]])
def test_a_saved_band_has_the_same_distribution(score, method, cv, tmp_path):
    band, (X, y) = fitted(score, method, cv), drawn(20, seed=2)
    loaded = round_trip(band, tmp_path)
    np.testing.assert_array_equal(loaded.predict_quantile(X, LEVELS), band.predict_quantile(X, LEVELS))
    np.testing.assert_array_equal(loaded.predict_cdf(X, y), band.predict_cdf(X, y))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
@pytest.mark.parametrize("name", ["variance", "quantile", "leave_one_out"])
def test_a_band_of_a_file_written_before_there_were_quantiles_has_them(name):
    band, (X, _) = mlkm.load(Path(__file__).parents[1] / "files" / "0.1.0" / f"{name}.mlkm"), drawn(20, seed=2)
    quantiles = band.predict_quantile(X, [0.2, 0.8])
    np.testing.assert_array_equal(quantiles, band.predict_interval(X, [0.2, 0.8], side="upper")[1][:, 1])
    assert (np.abs(band.predict_cdf(X, quantiles) - [0.2, 0.8]) <= 1 / (band.n_calibration_ + 1)).all()


def test_rows_in_files_and_on_a_cluster(tmp_path):
    da = pytest.importorskip("dask.array")
    pytest.importorskip("pyarrow")
    X, y = drawn(300)
    names, new = list("abc"), drawn(50, seed=2)[0]
    frame = pd.DataFrame(new, columns=names)
    frame.to_parquet(tmp_path / "new.parquet")
    table, points = open_table(tmp_path / "new.parquet"), [[0.5, 1.0, 2.0]]
    for Y in (y, np.column_stack([y, -y])):
        for method, cv, model in (("split", 5, FAST), ("cross", 4, FAST), ("cross", "loo", FAST), ("cross", 4, LINE)):
            band = ConformalRegressor(model, method=method, score="absolute", cv=cv, random_state=0)
            band.fit(pd.DataFrame(X, columns=names), Y)
            same = np.asarray(points)[..., None] * np.ones(2) if Y.ndim > 1 else points
            here = [band.predict_quantile(frame, 0.5), band.predict_quantile(frame, LEVELS)]
            here += [band.predict_cdf(frame, 1.0), band.predict_cdf(frame, same)]
            there = [band.predict_quantile(table, 0.5), band.predict_quantile(table, LEVELS)]
            there += [band.predict_cdf(table, 1.0), band.predict_cdf(table, same)]
            here.append(band.predict_interval(frame)[1])
            there.append(band.predict_interval(table)[1])
            for a, b in zip(here, there, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    band = ConformalRegressor(frozen()).conformalize(X, y)
    chunks = da.from_array(new, chunks=(20, 3))
    lazy = [band.predict_quantile(chunks, LEVELS), band.predict_cdf(chunks, points), band.predict_cdf(chunks, 1.0)]
    assert [own.shape for own in lazy] == [(50, len(LEVELS)), (50, 3), (50,)]
    np.testing.assert_allclose(lazy[0].compute(), band.predict_quantile(new, LEVELS), rtol=1e-12)
    np.testing.assert_allclose(lazy[1].compute(), band.predict_cdf(new, points), rtol=1e-12)
    with pytest.raises(ValueError, match=r"shape \(1,\) or \(1, points\)"):
        band.predict_cdf(chunks, np.ones(50))
    with pytest.raises(ValueError, match="y must be here"):
        band.predict_cdf(chunks, chunks[:, 0])
    with pytest.raises(ValueError, match="without groups and weights"):
        band.predict_quantile(chunks, 0.5, groups=np.zeros(50))


def test_a_band_of_very_many_rows_has_the_quantiles_it_was_calibrated_for(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    X, y = drawn(300)
    frame = pd.DataFrame(X, columns=list("abc"))
    frame.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    model = Ridge().fit(frame, y)
    source = open_table(tmp_path / "rows.parquet", "y")
    kept = ConformalRegressor(model, confidence_level=[0.5, 0.9]).conformalize(source)
    monkeypatch.setattr("mlkm.conformal.calibration.MOST_SCORES", 100)
    band = ConformalRegressor(model, confidence_level=[0.5, 0.9]).conformalize(source)
    np.testing.assert_allclose(band.predict_quantile(frame, [0.9, 0.5]), kept.predict_quantile(frame, [0.9, 0.5]))
    with pytest.raises(ValueError, match="knows the levels"):
        band.predict_quantile(frame, 0.8)
    with pytest.raises(ValueError, match="keeps quantiles and no scores, so that it has no predict_cdf"):
        band.predict_cdf(frame, 0.0)


def test_messages():
    X, y = drawn(60)
    band = ConformalRegressor(frozen()).conformalize(X, y)
    for bad in (0, 1.0, 95, -0.1, "half", None, [0.5, 1.5]):
        with pytest.raises(ValueError, match="q must be a number between 0 and 1"):
            band.predict_quantile(X, bad)
    with pytest.raises(ValueError, match="q must name at least one level"):
        band.predict_quantile(X, [])
    bootstrap = ConformalRegressor(Ridge(), method="bootstrap", random_state=0).fit(X, y)
    for ask in (bootstrap.predict_quantile, bootstrap.predict_cdf):
        with pytest.raises(ValueError, match="method='bootstrap' is a band for f"):
            ask(X, 0.5)
