"""The fetched data sets: the official split, checksums, and messages where a file is missing. Nothing is ever
downloaded here."""

import io
import os
import urllib.error
import zipfile
from pathlib import Path

import numpy as np
import pytest

from mlkm.datasets import fetch_sml2010, fetch_year_prediction
from mlkm.runtime import download as _fetch


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*args, **options):
        raise urllib.error.URLError("no network in tests")

    monkeypatch.setattr(_fetch.urllib.request, "urlopen", refuse)


@pytest.fixture
def year_layout(monkeypatch):
    """A generated file of the layout of YearPredictionMSD, short of most of its rows."""
    monkeypatch.setattr(_fetch, "YEAR_SPLIT", (30, 12))
    rng = np.random.default_rng(0)
    return np.column_stack([rng.integers(1922, 2012, 42), rng.normal(size=(42, 90)).round(5)])


def write_years(folder, table):
    (folder / "yearmsd").mkdir(exist_ok=True)
    np.savetxt(folder / "yearmsd" / "YearPredictionMSD.txt", table, delimiter=",", fmt=["%d"] + ["%.5f"] * 90)


SML_HOME = os.environ.get("MLKM_DATA_HOME")


@pytest.mark.skipif(
    SML_HOME is None or not (Path(SML_HOME) / "sml2010").exists(), reason="SML2010 is not under MLKM_DATA_HOME"
)
def test_sml2010_is_the_papers():
    """Facts of the two files: sizes, the shift of the mean between them, quarter hours in time order, and least squares
    as a fingerprint."""
    data = fetch_sml2010(download_if_missing=False)
    assert data.X_train.shape == (2764, 15)
    assert data.X_test.shape == (1373, 15)
    assert data.target_name == "Temperature_Habitacion_Sensor"
    assert data.feature_names[0] == "CO2_Comedor_Sensor"
    assert data.feature_names[-1] == "Humedad_Exterior_Sensor"
    assert data.y_train.mean() == pytest.approx(18.82, abs=0.005)
    assert data.y_test.mean() == pytest.approx(22.81, abs=0.005)
    assert data.y_test.var() == pytest.approx(6.42, abs=0.005)
    assert np.all(np.diff(data.times_train) > np.timedelta64(0, "m"))
    assert data.times_test[0] == np.datetime64("2012-04-18T00:00")
    ones = [np.column_stack([np.ones(len(X)), X]) for X in (data.X_train, data.X_test)]
    coefficients = np.linalg.lstsq(ones[0], data.y_train, rcond=None)[0]
    assert np.mean((ones[1] @ coefficients - data.y_test) ** 2) == pytest.approx(1.169, abs=5e-4)


def test_altered_sml2010_is_refused(tmp_path):
    (tmp_path / "sml2010").mkdir()
    for name in _fetch.SML_FILES:
        (tmp_path / "sml2010" / name).write_text("# 1:Date 2:Time\n18/04/2012 00:00\n")
    with pytest.raises(OSError, match="not the original file"):
        fetch_sml2010(data_home=tmp_path)


@pytest.mark.parametrize("fetch", [fetch_sml2010, fetch_year_prediction])
@pytest.mark.parametrize("download", [False, True])
def test_missing_files_are_asked_for_with_the_manual_steps(fetch, download, tmp_path, monkeypatch):
    """Without the file or the network the message names the archive, the file and the folder; MLKM_DATA_HOME is the
    default folder."""
    monkeypatch.setenv("MLKM_DATA_HOME", str(tmp_path))
    with pytest.raises(OSError, match="unpack it there") as caught:
        fetch(download_if_missing=download)
    assert str(tmp_path) in str(caught.value)
    assert "https://archive.ics.uci.edu/static/public/" in str(caught.value)
    assert ("no network" in str(caught.value)) is download
    assert not list(tmp_path.iterdir())


def test_year_prediction_keeps_the_official_split_and_the_files_row_order(tmp_path, year_layout):
    write_years(tmp_path, year_layout)
    for _ in range(2):  # from the text, then from the cache
        data = fetch_year_prediction(data_home=tmp_path)
        np.testing.assert_array_equal(np.vstack([data.X_train, data.X_test]), year_layout[:, 1:])
        np.testing.assert_array_equal(data.y_train, year_layout[:30, 0])
        np.testing.assert_array_equal(data.y_test, year_layout[30:, 0])
        assert len(data.feature_names) == 90
        (tmp_path / "yearmsd" / "YearPredictionMSD.txt").unlink(missing_ok=True)


def test_damaged_cache_is_read_again(tmp_path, year_layout):
    write_years(tmp_path, year_layout)
    fetch_year_prediction(data_home=tmp_path)
    np.save(tmp_path / "yearmsd" / "YearPredictionMSD.npy", np.zeros((42, 91)))
    np.testing.assert_array_equal(fetch_year_prediction(data_home=tmp_path).X_train, year_layout[:30, 1:])


@pytest.mark.parametrize(
    ("rows", "first", "message"),
    [(41, 2000, "41 rows of 91"), (42, 1800, "years from 1922"), (42, 1999.5, "years from 1922")],
)
def test_another_layout_is_refused(rows, first, message, tmp_path, year_layout):
    table = year_layout[:rows].copy()
    table[0, 0] = first
    (tmp_path / "yearmsd").mkdir()
    np.savetxt(tmp_path / "yearmsd" / "YearPredictionMSD.txt", table, delimiter=",")
    with pytest.raises(OSError, match=message):
        fetch_year_prediction(data_home=tmp_path)


def test_download_unpacks_also_an_inner_archive(tmp_path, year_layout, monkeypatch):
    write_years(tmp_path, year_layout)
    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w") as file:
        file.write(tmp_path / "yearmsd" / "YearPredictionMSD.txt", "folder/YearPredictionMSD.txt")
    with zipfile.ZipFile(outer, "w") as file:
        file.writestr("inner.zip", inner.getvalue())
    monkeypatch.setattr(_fetch.urllib.request, "urlopen", lambda *args, **options: io.BytesIO(outer.getvalue()))
    data = fetch_year_prediction(data_home=tmp_path / "fresh")
    np.testing.assert_array_equal(data.X_train, year_layout[:30, 1:])


def test_archive_without_the_file_is_reported(tmp_path, monkeypatch):
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w") as file:
        file.writestr("readme.md", "nothing here")
    monkeypatch.setattr(_fetch.urllib.request, "urlopen", lambda *args, **options: io.BytesIO(empty.getvalue()))
    with pytest.raises(OSError, match="does not contain"):
        fetch_sml2010(data_home=tmp_path)
