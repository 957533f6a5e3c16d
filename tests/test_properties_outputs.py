"""Bands, files and other formats, for tables as hypothesis draws them: levels nest, quantiles rise, what is written and
read again predicts the same, and no global random state is touched."""

import random
from functools import cache

import numpy as np
import pandas as pd
import pytest
from drawn_tables import ALL, every, tables
from exported import TOLERANCE, run
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import mlkm
from mlkm import ConformalRegressor, RandomFeatureRidge

RIDGE = RandomFeatureRidge(30, scale=0.7, penalty=1e-2, random_state=0)
BANDS = {
    "split absolute": {"method": "split", "score": "absolute"},
    "split variance": {"method": "split", "score": "variance"},
    "split quantile": {"method": "split", "score": "quantile"},
    "cross residual": {"method": "cross", "score": "residual", "cv": 3},
    "cross variance": {"method": "cross", "score": "variance", "cv": 3},
    "leave-one-out": {"method": "cross", "score": "absolute", "cv": "loo"},
}
levels = st.lists(st.integers(1, 999).map(lambda k: k / 1000), min_size=2, max_size=6, unique=True).map(sorted)


@cache
def band_of(name, table):
    X, y = table.rows
    return ConformalRegressor(RIDGE, **BANDS[name], random_state=0).fit(X, y), X, y


@pytest.mark.filterwarnings("ignore:.* too few for the level")
@pytest.mark.parametrize("name", BANDS)
@settings(max_examples=8)
@given(table=tables, asked=levels)
def test_intervals_nest_and_quantiles_rise_and_invert_the_distribution(name, table, asked):
    band, X, y = band_of(name, table)
    _, interval = band.predict_interval(X, asked)
    low, high = interval[:, 0], interval[:, 1]
    assert ((low[:, 1:] <= low[:, :-1]) & (high[:, 1:] >= high[:, :-1])).all()
    assert (low <= high).all()
    one = [band.predict_interval(X, level)[1][:, :, 0] for level in asked]
    np.testing.assert_array_equal(np.stack(one, axis=2), interval)
    quantiles = band.predict_quantile(X, asked)
    assert (quantiles[:, 1:] >= quantiles[:, :-1]).all()
    reached = band.predict_cdf(X, quantiles)
    finite = np.isfinite(quantiles)
    assert (reached >= np.array(asked) - 1e-12)[finite].all()
    below = band.predict_cdf(X, np.nextafter(quantiles, -np.inf))
    assert (below < np.array(asked))[finite].all()
    points = np.sort(np.append(y, [-1e6, 1e6]))[None]
    rising = band.predict_cdf(X, points)
    assert (np.diff(rising, axis=1) >= 0).all()
    assert rising.min() >= 0
    assert rising.max() <= 1


@pytest.mark.filterwarnings("ignore:.* too few for the level")
@pytest.mark.parametrize("name", BANDS)
@settings(max_examples=4)
@given(table=tables, asked=levels)
def test_an_interval_depends_on_its_row_alone(name, table, asked):
    band, X, y = band_of(name, table)
    whole = band.predict_interval(X, asked)[1]
    each = np.concatenate([band.predict_interval(row[None], asked)[1] for row in X])
    np.testing.assert_allclose(each, whole, rtol=0, atol=1e-10 * y.std())


@every(ALL)
def test_files_predict_the_same(model, tmp_path):
    """A model that is saved and loaded, rows read from CSV and Parquet, and the ONNX model predict the same."""

    @settings(max_examples=1 if model is ALL["mlkm-auto"] else 2)
    @given(tables)
    def check(table):
        X, y = table.rows
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
        fitted = clone(model).fit(frame, y)
        mean = fitted.predict(frame)
        mlkm.save(fitted, tmp_path / "model.mlkm")
        np.testing.assert_array_equal(mlkm.load(tmp_path / "model.mlkm").predict(frame), mean)
        frame.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
        frame.assign(y=y).to_parquet(tmp_path / "rows.parquet", row_group_size=7)
        for name in ("rows.csv", "rows.parquet"):
            opened = mlkm.open_table(tmp_path / name, target="y")
            np.testing.assert_allclose(fitted.predict(opened), mean, rtol=0, atol=1e-6 * y.std())
        for dtype, close in TOLERANCE.items():
            graph = mlkm.to_onnx(fitted, dtype=dtype)
            found = next(iter(run(graph, mlkm.onnx.feed(fitted, frame, dtype=dtype)).values()))
            np.testing.assert_allclose(np.ravel(found), mean, rtol=0, atol=close * np.ptp(y))

    check()


@every(ALL)
def test_with_a_seed_the_global_random_states_are_left_alone(model, tmp_path):
    @settings(max_examples=1)
    @given(tables)
    def check(table):
        X, y = table.rows
        before, other = np.random.get_state(), random.getstate()  # noqa: NPY002
        fitted = clone(model).fit(X, y)
        fitted.predict(X, return_std=True)
        fitted.effects(X[:5]).main(0)
        mlkm.save(fitted, tmp_path / "model.mlkm")
        band = ConformalRegressor(RIDGE, confidence_level=0.8, random_state=0).fit(X, y)
        band.predict_interval(X)
        after = np.random.get_state()  # noqa: NPY002
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
        assert random.getstate() == other

    check()
