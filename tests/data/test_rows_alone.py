"""A row's prediction depends on the row alone: not on the rows beside it, their order, or the file that they came from.

The type of a column is inferred in the fit. Later every cell is read by that type, whatever the other cells are.
"""

import datetime
import decimal
import json
import re
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import mlkm
from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge, config_context, open_table, predict_table
from mlkm.cli.commands import app
from mlkm.data.tables import TableEncoder

N = 60
NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
HOURS = [datetime.datetime(2023, 3, 1) + datetime.timedelta(hours=31 * k) for k in range(N)]


def objects(cells):
    column = pd.Series([None] * N, dtype=object)
    column[:] = [cells[k % len(cells)] for k in range(N)]
    return column


def dtype(kind, cells):
    return pd.Series([cells[k % len(cells)] for k in range(N)], dtype=kind)


KINDS = {
    "floats": dtype("float64", [0.1, 2.0, None, -3.5, 1e-7]),
    "small floats": dtype("float32", [0.1, 2.0, None, -3.5]),
    "whole": dtype("int64", [3, 1, 4, 1, 5]),
    "large": dtype("int64", [2**60 + k for k in range(7)]),
    "truth": dtype("bool", [True, False, False]),
    "nullable whole": dtype("Int64", [3, None, 4, 1]),
    "nullable large": objects([2**60 + 1, "none", 2**60 + 2]),
    "nullable truth": dtype("boolean", [True, None, False]),
    "decimals": objects([decimal.Decimal("1.50"), decimal.Decimal("2"), None]),
    "words": dtype("str", ["red", "green", None, "blue"]),
    "objects": objects(["red", "green", None, "1"]),
    "categories": dtype("category", ["red", "green", None, "blue"]),
    "categories of numbers": pd.Series(pd.Categorical([[1.5, 2.0, 3.25][k % 3] for k in range(N)])),
    "many words": dtype("str", [f"{w} {k}" for k, w in enumerate(["alto", "brio", "clio"] * 9)]),
    "numbers in words": dtype("str", [f"{k} CC" for k in range(25)]),
    "leading zeros": dtype("str", ["02134", "2135", "K1A", "00501", "10001"]),
    "spelled numbers": dtype("str", ["1.50", "1e3", "x", "2", "0.5"]),
    "dates": pd.Series(pd.to_datetime(HOURS)).dt.normalize(),
    "times": pd.Series(pd.to_datetime(HOURS)).where(np.arange(N) % 7 > 0),
    "times of a zone": pd.Series(pd.to_datetime(HOURS)).dt.tz_localize("UTC").dt.tz_convert("America/New_York"),
    "times of UTC": pd.Series(pd.to_datetime(HOURS)).dt.tz_localize("UTC"),
    "date objects": objects([at.date() for at in HOURS]),
    "zone objects": objects([at.replace(tzinfo=NEW_YORK) for at in HOURS]),
    "spans": pd.Series(pd.to_timedelta(np.arange(N) * 977, unit="s")),
    "times of the day": objects([datetime.time(8, 30), datetime.time(17, 5, 30), datetime.time(0, 0)]),
    "truth and words": objects([True, False, "maybe"]),
    "numbers and words": objects([1, 2.5, 3.0, "none", decimal.Decimal("4.50"), 2**60 + 1]),
    "dates and words": objects([datetime.date(2020, 1, 2), pd.Timestamp("2020-01-03"), "never"]),
    "times and words": objects([pd.Timestamp("2020-01-02 10:30"), HOURS[5].replace(tzinfo=NEW_YORK), "never"]),
    "dates as words": dtype("str", ["2020-01-02", "2020-01-03", "never"]),
    "truth as words": dtype("str", ["True", "False", "maybe"]),
}
MIXED = {"nullable large", "truth and words", "numbers and words", "dates and words", "times and words"}


@pytest.fixture(scope="module")
def fitted():
    """A model for every kind of column, whose targets depend on the column, with the frame of its fit."""
    result = {}
    for kind, column in KINDS.items():
        x = np.linspace(-1, 1, N)
        y = pd.factorize(column)[0] % 7 + x
        frame = pd.DataFrame({"c": column, "x": x})
        result[kind] = MLKMRegressor(effort="fast", random_state=0).fit(frame, y), frame, y.std()
    return result


def parts():
    """Return index arrays: single rows, a few rows, and all rows in another order."""
    yield from ([k] for k in range(8))
    yield from ([0, 3], [1, 4, 7], [5, 5], list(np.random.default_rng(0).permutation(N)))


def in_memory(frame, kind):
    """Return the same rows in frames of other libraries, and as arrays."""
    yield frame
    yield frame.astype(object)
    yield frame.to_numpy(object)
    yield frame.to_numpy(object).tolist()
    if kind not in MIXED:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        yield table
        yield pl.from_arrow(table)
        yield table.to_pandas(types_mapper=pd.ArrowDtype)
        yield frame.convert_dtypes()


def in_files(frame, kind, folder):
    """Return the same rows in files, and as pandas reads them from there."""
    frame.to_csv(folder / "rows.csv", index=False)
    yield open_table(folder / "rows.csv")
    yield pd.read_csv(folder / "rows.csv")
    if kind not in MIXED:
        frame.to_parquet(folder / "rows.parquet", index=False)
        yield open_table(folder / "rows.parquet")
        yield pd.read_parquet(folder / "rows.parquet")


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_predicted_one_by_one_as_together(fitted, kind, tmp_path):
    model, frame, spread = fitted[kind]
    expected = model.predict(frame)
    for rows in parts():
        some = frame.iloc[rows].reset_index(drop=True)
        for k, form in enumerate([*in_memory(some, kind), *in_files(some, kind, tmp_path)]):
            note = f"{k}: {type(form)} of rows {rows}"
            np.testing.assert_allclose(model.predict(form), expected[rows], rtol=0, atol=1e-5 * spread, err_msg=note)


@pytest.mark.parametrize("kind", ["whole", "nullable truth", "words", "leading zeros", "truth as words", "dates",
                                  "times of a zone", "truth and words", "numbers and words"])  # fmt: skip
def test_chunks_of_dask_are_predicted_as_together(fitted, kind):
    dd = pytest.importorskip("dask.dataframe")
    model, frame, spread = fitted[kind]
    found = model.predict(dd.from_pandas(frame, npartitions=N // 2)).compute(scheduler="synchronous")
    np.testing.assert_allclose(found, model.predict(frame), rtol=0, atol=1e-5 * spread)


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.integers(-8, 8).map(lambda k: k / 4),
    st.integers(-8, 8).map(lambda k: decimal.Decimal(k) / 4),
    st.integers(0, 9).map(lambda k: HOURS[k]),
    st.integers(0, 9).map(lambda k: HOURS[k].date()),
    st.integers(0, 9).map(lambda k: HOURS[k].replace(tzinfo=NEW_YORK)),
    st.integers(0, 9).map(lambda k: HOURS[k].replace(tzinfo=datetime.UTC)),
    st.sampled_from(["red", "green", "K1A", "00501", "1.50"]),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(CELLS, min_size=2, max_size=8), st.randoms(use_true_random=False))
def test_cells_of_any_kind_are_read_one_by_one_as_together(cells, random):
    """This holds even if pandas infers a type for a part of a mixed column."""
    frame = pd.DataFrame({"c": pd.Series(cells, dtype=object)})
    encoder = TableEncoder()
    whole = encoder.fit_transform(frame)
    np.testing.assert_array_equal(encoder.transform(frame), whole)
    order = random.sample(range(len(cells)), len(cells))
    for rows in ([[k] for k in range(len(cells))], [order, order[:2]]):
        for own in rows:
            for some in (frame.iloc[own], frame.iloc[own].infer_objects(), frame.iloc[own].convert_dtypes()):
                np.testing.assert_array_equal(encoder.transform(some), whole[own])


def test_types_of_other_libraries_are_read_one_by_one_as_together():
    """Types that pandas does not have are read alike in the fit and later, and from other libraries."""
    colours = pl.Enum(["red", "green", "blue"])
    frame = pl.DataFrame(
        {
            "enumeration": pl.Series(["red", None, "blue", "green"], dtype=colours),
            "category": pl.Series(["1", "b", None, "b"], dtype=pl.Categorical),
            "decimal": pl.Series(["1.50", None, "2.25", "3.00"]).cast(pl.Decimal(10, 2)),
            "span": pl.Series([datetime.timedelta(seconds=90), None] * 2),
            "time": pl.Series([datetime.time(8, 30), datetime.time(17, 5), None, datetime.time(0)]),
            "day": pl.Series([at.date() for at in HOURS[:4]]),
            "at": pl.Series([at.replace(tzinfo=NEW_YORK) for at in HOURS[::15]]),
            "whole": pl.Series([2**60 + 1, None, 3, 4]),
        }
    )
    encoder = TableEncoder(categorical_features=["decimal"])
    whole = encoder.fit_transform(frame)
    for k in range(4):
        for some in (frame[k], frame[k].to_arrow(), frame[k].to_pandas(), pd.DataFrame(frame[k].to_dicts())):
            np.testing.assert_array_equal(encoder.transform(some), whole[[k]])


def test_instants_are_the_same_in_every_zone(fitted):
    """Dates without a zone are local times of the zone of the fit; text has an offset."""
    model, frame, _ = fitted["times of a zone"]
    expected = model.predict(frame)
    for zone in ("UTC", "Asia/Kolkata", "Australia/Lord_Howe", datetime.timezone(datetime.timedelta(hours=-3))):
        other = frame.assign(c=frame["c"].dt.tz_convert(zone))
        for form in (other, other.astype(object), other.assign(c=other["c"].astype(str))):
            np.testing.assert_array_equal(model.predict(form), expected)
    np.testing.assert_array_equal(model.predict(frame.assign(c=frame["c"].dt.tz_localize(None))), expected)
    assert np.abs(model.predict(frame.assign(c=frame["c"] + pd.Timedelta("3h"))) - expected).max() > 0.01


def test_truth_values_and_dates_are_what_they_were_however_they_are_written(fitted):
    model, frame, _ = fitted["truth"]
    for true, false in ((True, False), ("True", "False"), ("true", "false"), (1, 0), ("1", "0"), (1.0, 0.0)):
        written = frame.assign(c=frame["c"].map({True: true, False: false}).astype(object))
        np.testing.assert_array_equal(model.predict(written), model.predict(frame))
    model, frame, _ = fitted["times"]
    for form in ("%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.000000Z"):
        np.testing.assert_array_equal(model.predict(frame.assign(c=frame["c"].dt.strftime(form))), model.predict(frame))


def odd_rows(folder):
    """Return a model, rows with three cells of another type than in the fit, and the rows with these cells missing."""
    n = 60
    frame = pd.DataFrame({"x": np.arange(n) / n, "when": pd.date_range("2024-01-01", periods=n)}).astype(object)
    model = RandomFeatureRidge(20, scale=0.5, random_state=0).fit(frame.infer_objects(), np.arange(n) % 7.0)
    odd = frame.copy()
    odd.loc[[3, 5], "x"], odd.loc[9, "when"] = "tall", "yesterday"
    gone = frame.copy()
    gone.loc[[3, 5], "x"], gone.loc[9, "when"] = None, None
    odd.assign(y=0.0).to_csv(folder / "odd.csv", index=False)
    return model, odd, gone


ODD = (
    "Column 'x' held numbers in the fit, and 2 cells that are not numbers are taken as missing, such as 'tall'; column"
    " 'when' held dates in the fit, and 1 cell that is not a date is taken as missing, such as 'yesterday'."
)


def test_cells_that_do_not_fit_are_missing_with_one_warning(tmp_path, monkeypatch):
    model, odd, gone = odd_rows(tmp_path)
    expected = model.predict(gone)
    monkeypatch.setattr("mlkm.data.table_files.block_rows", lambda n_columns: 4)  # many pieces
    for form in (odd, odd.to_numpy(object), open_table(tmp_path / "odd.csv")):
        named = ODD if not isinstance(form, np.ndarray) else ODD.replace("'x'", "0").replace("'when'", "1")
        with pytest.warns() as warned:
            found = model.predict(form)
        told = [str(own.message) for own in warned if "valid feature names" not in str(own.message)]
        assert told == [named]
        assert warned[-1].filename == __file__
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    with pytest.warns() as warned:
        predict_table(model, tmp_path / "odd.csv", tmp_path / "out.parquet")
    assert [str(own.message) for own in warned] == [ODD]
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "out.parquet")["prediction"], expected, rtol=0, atol=1e-9)


def test_words_among_numbers_that_are_levels_are_new_levels():
    frame = pd.DataFrame({"k": [1, 2, 3] * 5})
    encoder = TableEncoder(categorical_features=["k"]).fit(frame)
    with pytest.warns(UserWarning, match="1 cell that is not a number is taken as a new level, such as 'b'"):
        found = encoder.transform(pd.DataFrame({"k": ["3.0", True, "b", None, 2]}))
    assert found[:, 0].tolist() == [2, 0, -1, -1, 1]


def test_commands_read_later_files_by_the_fit(tmp_path):
    """Codes with leading zeros, truth values and dates keep their types in a file without other words, and cells of
    another type are noted."""
    k = np.arange(200)
    frame = pd.DataFrame(
        {
            "zip": np.array(["02134", "K1A", "00501", "10001"])[k % 4],
            "ok": np.array(["True", "False", "maybe"])[k % 3],
            "x": k / 200,
        }
    )
    y = np.array([0.0, 10.0, 20.0, 30.0])[k % 4] + np.array([0.0, 3.0, 6.0])[k % 3]
    model = MLKMRegressor(effort="fast", random_state=0).fit(frame[:100], y[:100])
    band = ConformalRegressor(model, confidence_level=0.9).conformalize(frame[100:], y[100:])
    mlkm.save(band, tmp_path / "m.mlkm")
    later = frame[(frame["zip"] != "K1A") & (frame["ok"] != "maybe")]
    later.assign(y=y[later.index]).to_csv(tmp_path / "later.csv", index=False)
    words = ["predict", tmp_path / "m.mlkm", tmp_path / "later.csv", "--out", tmp_path / "p.csv"]
    assert CliRunner().invoke(app, list(map(str, words))).exit_code == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], band.predict(later), atol=1e-6)
    words = [
        "report",
        tmp_path / "m.mlkm",
        tmp_path / "later.csv",
        "--target",
        "y",
        "--out",
        tmp_path / "r.html",
        "--json",
    ]
    told = CliRunner().invoke(app, list(map(str, words)))
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["scores"][0]["rmse"] < 0.5
    later.assign(x="tall").to_csv(tmp_path / "later.csv", index=False)
    words = ["predict", tmp_path / "m.mlkm", tmp_path / "later.csv", "--out", tmp_path / "p.csv"]
    told = CliRunner().invoke(app, list(map(str, words)))
    assert told.exit_code == 0
    assert told.stderr.count(f"Column 'x' held numbers in the fit, and {len(later)} cells") == 1


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_no_rows_are_refused_as_scikit_learn_does(fitted, tmp_path):
    model, frame, _ = fitted["words"]
    none = frame[:0]
    none.to_csv(tmp_path / "none.csv", index=False)
    forms = [
        none,
        none.to_numpy(object),
        pa.Table.from_pandas(none),
        pl.from_pandas(none),
        open_table(tmp_path / "none.csv"),
    ]
    for form in forms:
        for method in (model.predict, model.outside) if hasattr(form, "shape") else (model.predict,):
            with pytest.raises(
                ValueError, match=r"Found array with 0 sample\(s\) \(shape=\(0, 2\)\) while a minimum of 1"
            ):
                method(form)
    with pytest.raises(ValueError, match="no rows to predict"):
        predict_table(model, tmp_path / "none.csv", tmp_path / "out.csv")


def test_a_long_cell_of_a_csv_is_read(tmp_path):
    rows = "".join(f"{k},w{k % 3},{k % 3}\n" for k in range(40))
    (tmp_path / "rows.csv").write_text(f"a,b,y\n{rows}41,{'long ' * 600_000},1\n{rows}")
    model = RandomFeatureRidge(20, scale=0.5, random_state=0).fit(open_table(tmp_path / "rows.csv", "y"))
    assert model.predict(open_table(tmp_path / "rows.csv")).shape == (81,)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_memory_is_checked_before_a_table_is_read(kind, tmp_path, monkeypatch):
    frame = pd.DataFrame({"x": np.ones(100_000), "y": np.ones(100_000)})
    path = tmp_path / f"rows.{kind}"
    getattr(frame, f"to_{kind}")(path, index=False)
    monkeypatch.setattr("mlkm.data.table_files.FileRows.batches", None)  # no row is read
    with config_context(max_memory="1MB"):
        told = CliRunner().invoke(app, ["fit", str(path), "--target", "y", "--out", str(tmp_path / "m.mlkm")])
    assert told.exit_code == 1
    assert re.match(r"The rows of this table need about \d+\.\d MB, and 1\.0 MB may be taken", told.stderr)


def test_marks_of_missing_values_are_levels_where_they_were_in_the_fit(tmp_path):
    frame = pd.DataFrame({"c": ["NA", "nan", "-", "5"] * 15, "x": np.arange(60.0)})
    y = frame["c"].map({"NA": 0.0, "nan": 2.0, "-": 4.0, "5": 6.0}) + 0.01 * frame["x"]
    frame.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    table = mlkm.open_table(tmp_path / "rows.csv", target="y")
    as_levels = MLKMRegressor(effort="fast", random_state=0).fit(frame, y)
    np.testing.assert_allclose(as_levels.predict(table), as_levels.predict(frame), atol=1e-9)
    as_missing = MLKMRegressor(effort="fast", random_state=0).fit(table)
    np.testing.assert_allclose(as_missing.predict(frame), as_missing.predict(table), atol=1e-9)
    assert as_levels.predict(frame[:1]) < 0.5
    assert as_missing.predict(frame[:1]) > 0.5  # both marks are missing there
