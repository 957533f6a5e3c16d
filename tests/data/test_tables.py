"""Tables as people have them: columns of any kind, at a fit and later."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from mixed_table import mixed
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge, RKMRegressor
from mlkm.data import LEVEL, NUMBER, TEXT, Inputs
from mlkm.data.level_encoding import numbers_in_memory
from mlkm.data.tables import TableEncoder
from mlkm.data.tables.cells import read_frame
from mlkm.data.tables.columns import Reader, days, on_circle
from mlkm.data.tables.reading import cycles_of, fit_columns


def test_what_columns_become():
    frame, _ = mixed()
    frame["word"] = [f"level {'abcde'[k % 5]}{'fghij'[k // 5 % 5]}{'kl'[k // 25 % 2]}" for k in range(len(frame))]
    table = read_frame(frame)
    columns = fit_columns(table, [False] * 6)
    reader = Reader(columns, table.names)
    inputs, X = reader.inputs, reader.encoded(table)
    assert X.shape == (len(frame), len(inputs.kinds))
    assert np.isfinite(X).all()
    assert inputs.kinds[inputs.owners == 0].tolist() == [NUMBER]
    assert inputs.kinds[inputs.owners == 1].tolist() == [NUMBER, LEVEL]
    assert inputs.kinds[inputs.owners == 2].tolist() == [LEVEL]
    assert inputs.kinds[inputs.owners == 3].tolist() == [NUMBER] * 5  # trend, year, week
    assert inputs.kinds[inputs.owners == 4].tolist() == [NUMBER]
    assert set(inputs.kinds[inputs.owners == 5]) == {LEVEL, TEXT}
    np.testing.assert_array_equal(X[:, 2] == 1, frame["size"].isna())


def test_the_same_hour_is_at_the_same_place_on_every_day():
    """To the last bit, for ranks would tell apart what rounding makes different."""
    hours = days(np.arange("1960-01-01", "2030-01-01", dtype="datetime64[h]").astype("datetime64[us]"))
    for cycle, places in (("day", 24), ("week", 7 * 24)):
        assert len(np.unique(np.stack(on_circle(hours, cycle)), axis=1).T) == places


def test_cycles_of_dates():
    def found(dates):
        return cycles_of(days(np.array(dates, "datetime64[us]")))

    assert found(np.arange("2020-01", "2023-01", dtype="datetime64[M]")) == ("year",)
    assert found(np.arange("2020-01-01", "2020-02-20", dtype="datetime64[D]")) == ("week",)
    assert found(np.arange("2020-01-01", "2020-01-03", dtype="datetime64[h]")) == ("day",)
    assert found(["2020-01-01"]) == ()


def as_polars(frame):
    return pl.DataFrame({name: frame[name].astype(object).where(frame[name].notna(), None).to_list() for name in frame})


def as_arrow(frame):
    pa = pytest.importorskip("pyarrow")
    return pa.Table.from_pandas(frame)


@pytest.mark.parametrize("container", [as_polars, as_arrow, lambda frame: frame.convert_dtypes()])
def test_frames_of_all_libraries_are_the_same_table(container):
    frame, y = mixed()
    model = MLKMRegressor(random_state=0).fit(frame, y)
    other = clone(model).fit(container(frame), y)
    np.testing.assert_allclose(other.predict(container(frame)), model.predict(frame), rtol=1e-9)
    assert other.feature_names_in_.tolist() == list(frame)


def test_a_table_is_fitted_as_it_is():
    frame, y = mixed(400)
    later, f = mixed(300, seed=1)
    model = MLKMRegressor(random_state=0).fit(frame, y)
    assert np.sqrt(np.mean((model.predict(later) - f) ** 2)) < 0.4 * f.std()
    assert model.feature_relevance_.shape == (5,)
    assert model.feature_relevance_.sum() == pytest.approx(1)
    assert model.feature_relevance_[[0, 2, 3]].min() > 3 * model.feature_relevance_[4]
    np.testing.assert_allclose(model.predict(later[["city", "old", "when", "size", "x"]]), model.predict(later))
    with pytest.raises(ValueError, match="no column 'city'"):
        model.predict(later.drop(columns="city"))


def test_the_order_of_rows_does_not_matter():
    frame, y = mixed()
    order = np.random.default_rng(0).permutation(len(frame))
    a = MLKMRegressor(random_state=0).fit(frame, y).predict(frame)
    b = MLKMRegressor(random_state=0).fit(frame.iloc[order], y[order]).predict(frame)
    np.testing.assert_allclose(a, b, atol=1e-8)


def test_an_unknown_level_has_more_uncertainty_and_is_outside():
    frame, y = mixed(300)
    frame["city"] = frame["city"].astype(object).fillna("Oslo")
    model = MLKMRegressor(random_state=0).fit(frame, y)
    known = frame.iloc[:20].copy()
    unknown = known.assign(city="Atlantis")
    _, std = model.predict(known, return_std=True)
    mean, wider = model.predict(unknown, return_std=True)
    assert np.isfinite(mean).all()
    assert (wider > std).all()
    assert (model.outside(unknown) >= 1).all()
    gone = known.assign(city=None, x=np.nan, when=pd.NaT)  # missing for the first time
    assert np.isfinite(model.predict(gone)).all()


def test_missing_values_that_tell_something_are_used():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(400)
    gone = rng.random(400) < 0.3
    y = x + 2 * gone + 0.2 * rng.standard_normal(400)
    X = np.where(gone, np.nan, x)[:, None]
    model = MLKMRegressor(random_state=0).fit(X[:300], y[:300])
    error = model.predict(X[300:]) - y[300:]
    assert np.sqrt(np.mean(error[~gone[300:]] ** 2)) < 0.35  # the noise is 0.2
    assert abs(model.predict([[np.nan]])[0] - 2) < 0.3


def test_numbers_are_categories_where_asked():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 30, 600)
    effect = rng.standard_normal(30)
    X = np.column_stack([code, rng.standard_normal(600)]).astype(float)
    y = effect[code] + 0.2 * rng.standard_normal(600)
    truth, every = effect, np.column_stack([np.arange(30), np.zeros(30)])
    errors = []
    for given in ("from_dtype", [0], [True, False]):
        model = MLKMRegressor(categorical_features=given, random_state=0).fit(X, y)
        errors.append(np.sqrt(np.mean((model.predict(every) - truth) ** 2)))
    assert errors[1] == errors[2] < 0.15
    assert errors[1] < errors[0]
    named = pd.DataFrame(X, columns=["code", "x"])
    model = MLKMRegressor(categorical_features=["code"], random_state=0).fit(named, y)
    np.testing.assert_allclose(model.predict(named.iloc[:30]), model.predict(named.iloc[:30]))
    with pytest.raises(ValueError, match="'colour', which is no column"):
        MLKMRegressor(categorical_features=["colour"]).fit(named, y)


@pytest.mark.parametrize(
    "model",
    [
        RandomFeatureRidge(n_features=200, random_state=0),
        MLKMRegressor(widths=(60, 8), random_state=0),
        RKMRegressor(widths=(60, 8), cv="rotate", random_state=0),
        MLKMRegressor(widths=(60, 8), scales=0.5, solver="gradient", random_state=0),
    ],
    ids=["ridge", "deep", "rotate", "descent"],
)
def test_other_fits_take_tables_as_numbers(model):
    frame, y = mixed(300)
    later, f = mixed(300, seed=1)
    fitted = clone(model).fit(frame, y)
    assert np.sqrt(np.mean((fitted.predict(later) - f) ** 2)) < f.std()
    assert fitted.feature_relevance_.shape == (5,)
    assert np.isfinite(fitted.predict(later.assign(city="Atlantis"))).all()


def test_weights_outputs_and_objects():
    frame, y = mixed(120)
    w = np.random.default_rng(0).integers(1, 4, 120)
    repeated = np.repeat(np.arange(120), w)
    a = MLKMRegressor(random_state=0).fit(frame, y, sample_weight=w).predict(frame)
    b = MLKMRegressor(random_state=0).fit(frame.iloc[repeated], y[repeated]).predict(frame)
    np.testing.assert_allclose(a, b, atol=1e-7)
    both = MLKMRegressor(random_state=0).fit(frame, np.column_stack([y, -y])).predict(frame)
    np.testing.assert_allclose(both[:, 0], -both[:, 1], atol=1e-8)
    objects = frame[["x", "city"]].to_numpy(object)
    c = MLKMRegressor(random_state=0).fit(objects, y).predict(objects)
    np.testing.assert_allclose(c, MLKMRegressor(random_state=0).fit(frame[["x", "city"]], y).predict(frame), rtol=1e-9)
    d = MLKMRegressor(random_state=0).fit(objects.tolist(), y).predict(objects.tolist())
    np.testing.assert_allclose(c, d, rtol=1e-9)


def test_bands_take_tables():
    frame, y = mixed(400)
    later, f = mixed(1000, seed=1)
    for options in ({}, {"method": "cross"}):
        band = ConformalRegressor(MLKMRegressor(random_state=0), confidence_level=0.9, random_state=0, **options)
        _, interval = band.fit(frame, y).predict_interval(later)
        inside = (interval[:, 0, 0] <= f) & (f <= interval[:, 1, 0])
        # 200 or 400 calibration rows: the coverage itself has a standard deviation of .02; four of them
        assert 0.82 < inside.mean() < 0.98


def test_shuffled_targets_are_noise():
    """No leak of y through levels: many of them, one row or two each."""
    rng = np.random.default_rng(0)
    errors = []
    for n in (300, 1500):
        frame = pd.DataFrame({"id": [f"customer {k}" for k in rng.integers(0, n // 2, n)], "x": rng.standard_normal(n)})
        y = rng.standard_normal(n)
        half = n // 2
        model = MLKMRegressor(random_state=0).fit(frame[:half], y[:half])
        f = model.predict(frame[half:])
        errors.append(np.mean((f - y[half:]) ** 2) / np.mean((y[:half].mean() - y[half:]) ** 2))
    assert max(errors) < 1.06


def test_bad_cells_are_named():
    frame, y = mixed(50)
    with pytest.raises(ValueError, match="infinity in column 'x'"):
        MLKMRegressor().fit(frame.assign(x=np.inf), y)
    with pytest.raises(TypeError, match="must be a string or a number"):
        MLKMRegressor().fit(frame.assign(x=[{"a": 1}] * 50), y)
    with pytest.raises(ValueError, match="minimum of 1"):
        MLKMRegressor().fit(frame.iloc[:0], y[:0])


def test_times_and_spans_are_numbers():
    frame = pd.DataFrame(
        {
            "at": [datetime.time(8, 30), None],
            "took": pd.to_timedelta(["90s", None]),
            "on": [datetime.date(2020, 1, 2), None],
            "zone": pd.to_datetime(["2020-01-01 12:00", None]).tz_localize("Europe/Berlin"),
        }
    )
    at, took, on, zone = read_frame(frame).columns
    assert at[0] == 8.5 * 3600
    assert took[0] == 90
    assert on[0] == np.datetime64("2020-01-02")
    assert zone[0] == np.datetime64("2020-01-01T12:00")
    assert np.isnan([at[1], took[1]]).all()
    assert np.isnat([on[1], zone[1]]).all()


@parametrize_with_checks([TableEncoder()])
def test_the_encoder_is_a_transformer(estimator, check):
    check(estimator)


def test_the_encoder_shows_what_the_regressors_see():
    frame, y = mixed(60)
    encoder = TableEncoder()
    X = encoder.fit_transform(frame)
    np.testing.assert_array_equal(encoder.transform(frame[["old", "city", "when", "size", "x"]]), X)
    names = encoder.get_feature_names_out()
    assert X.shape == (60, len(names))
    assert names[:4].tolist() == ["x", "size", "size missing", "city"]
    rows = MLKMRegressor(random_state=0).fit(frame, y).fitted_.uncertainty.rows
    assert set(rows.X[:, 3]) == set(X[:, 3])


def test_levels_as_numbers_are_cross_fitted_weighted_and_for_every_output():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 15, 600).astype(float)
    effect = rng.standard_normal(15)
    Y = np.column_stack([effect[codes.astype(int)], -effect[codes.astype(int)]]) + 0.1 * rng.standard_normal((600, 2))
    inputs = Inputs(np.array([LEVEL]), np.array([0]))
    levels, X = numbers_in_memory(codes[:, None], Y, inputs, None)
    assert X.shape == (600, 2)
    assert levels.crossed
    np.testing.assert_allclose(levels.encoders[0].values[:, 0], effect, atol=0.1)
    np.testing.assert_allclose(levels.numbers(np.array([[-1.0]]))[0], Y.mean(axis=0), atol=1e-9)
    w = np.where(np.arange(600) < 300, 1.0, 0.0)
    spoiled = np.where(w[:, None] > 0, Y, 1e6)
    a, b = (numbers_in_memory(codes[:, None], T, inputs, w)[0] for T in (Y, spoiled))
    np.testing.assert_allclose(a.encoders[0].values, b.encoders[0].values)


def test_levels_of_one_row_each_do_not_tell_its_target():
    rng = np.random.default_rng(0)
    noise, inputs = rng.standard_normal((600, 1)), Inputs(np.array([LEVEL]), np.array([0]))
    _, X = numbers_in_memory(np.arange(600.0)[:, None], noise, inputs, None)
    assert len(np.unique(X.round(12))) <= 5  # the means of the others, by fold


def test_later_columns_take_the_form_they_had():
    frame, y = mixed(60)
    model = MLKMRegressor(effort="fast", random_state=0).fit(frame, y)
    row = frame.iloc[[0]]
    for gone in ({"x": None}, {"when": None}, {"old": None}, {"city": None}):
        assert np.isfinite(model.predict(row.astype(object).assign(**gone))).all()
    text = row.astype(object).assign(x=str(row["x"].iloc[0]), when=str(row["when"].iloc[0])[:10])
    np.testing.assert_allclose(model.predict(text), model.predict(row), rtol=1e-9)
    with pytest.warns(UserWarning, match="Column 'x' held numbers in the fit, and 1 cell .* missing, such as 'tall'"):
        odd = model.predict(row.astype(object).assign(x="tall"))
    np.testing.assert_array_equal(odd, model.predict(row.assign(x=np.nan)))
    with pytest.warns(UserWarning, match=r"Column 'when' held dates in the fit, and 1 cell .* such as .*3\.0"):
        odd = model.predict(row.assign(when=3.0))
    np.testing.assert_array_equal(odd, model.predict(row.assign(when=pd.NaT)))
    np.testing.assert_array_equal(model.predict(frame.assign(tags=[[1]] * 60)), model.predict(frame))
    model.leave_one_out(frame, y)
    assert model.feature_names_in_.tolist() == list(frame)


def test_what_cells_of_unusual_types_are():
    zone = datetime.timezone(datetime.timedelta(hours=5))
    frame = pd.DataFrame(
        {
            "code": pd.Categorical([3, 1, 3]),
            "price": [decimal.Decimal("1.5"), None, decimal.Decimal("2")],
            "took": np.array([datetime.timedelta(seconds=90), None, None], object),
            "at": np.array([datetime.datetime(2020, 1, 1, 12, tzinfo=zone), None, None], object),
        }
    )
    code, price, took, at = read_frame(frame).columns
    assert code.tolist() == ["3", "1", "3"]
    assert price[0] == 1.5
    assert took[0] == 90
    assert at[0] == np.datetime64("2020-01-01T12:00")
    dates = TableEncoder().fit(np.array([["2020-01-01"], ["2020-06-01"]], "M8[ns]"))
    assert dates.transform(np.array([["1970-01-02"]], "M8[s]"))[0, 0] == 1
    assert TableEncoder().fit_transform([[datetime.date(1970, 1, 2), 1.0]])[0].tolist() == [1.0, 1.0]
    hidden = np.ma.masked_array([[1.0], [2.0]], mask=[[False], [True]])
    assert TableEncoder().fit_transform(hidden)[:, 1].tolist() == [0.0, 1.0]
