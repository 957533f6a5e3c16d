"""A row's prediction depends on the row alone: not on the rows beside it, their order, or the file that they came from.

What a column is, is decided in the fit. Later every cell is read by that, whatever the other cells of the batch are.
"""

import datetime
import decimal
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlkm import MLKMRegressor, open_table, predict_table

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
    """Rows one by one, a few of them, and all in another order."""
    yield from ([k] for k in range(8))
    yield from ([0, 3], [1, 4, 7], [5, 5], list(np.random.default_rng(0).permutation(N)))


def in_memory(frame, kind):
    """The same rows in frames of other libraries, and as arrays."""
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
    """The same rows in files, and as pandas reads them from there."""
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
