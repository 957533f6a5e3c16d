"""The paper's two real data sets: found under a data folder, downloaded where allowed, checked, and split as their
authors split them."""

import hashlib
import io
import os
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from .._types import Array
from .atomic import atomic_write
from .checks import file_path, yes_no

__all__ = ["data_home_folder", "fetch_sml2010", "fetch_year_prediction"]

SML_PAGE = "https://archive.ics.uci.edu/dataset/274/sml2010"
SML_ARCHIVE = "https://archive.ics.uci.edu/static/public/274/sml2010.zip"
# SHA-256 of the measurements alone, header dropped and blanks made single: copies in circulation differ in the header's
# leading "#".
SML_FILES = {
    "NEW-DATA-1.T15.txt": "e799fef98af7864f65590c1ac010e7a38b2ab333ac33beb16cad3ab349d94082",
    "NEW-DATA-2.T15.txt": "8e9aadd582679d54ebd4f67e3abb1a73fbe4b0ebd60b0b10b8ec21c671a01665",
}
SML_TARGET = 4  # Temperature_Habitacion_Sensor; columns are numbered from 1, as in the header
SML_INPUTS = (*range(6, 19), 22, 23)

YEAR_PAGE = "https://archive.ics.uci.edu/dataset/203/yearpredictionmsd"
YEAR_ARCHIVE = "https://archive.ics.uci.edu/static/public/203/yearpredictionmsd.zip"
YEAR_FILE = "YearPredictionMSD.txt"
YEAR_SPLIT = (463_715, 51_630)  # the first rows train, the last ones test: no artist is in both
YEAR_INPUTS = 90
YEARS = (1922, 2011)


def data_home_folder(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return `data_home`, or the environment variable MLKM_DATA_HOME, or ~/mlkm_data."""
    usual = os.environ.get("MLKM_DATA_HOME") or "~/mlkm_data"
    return file_path("data_home", usual if data_home is None else data_home).expanduser()


def fetch_sml2010(*, data_home: str | os.PathLike[str] | None = None, download_if_missing: bool = True) -> Bunch:
    """Load SML2010: the temperature of a room from 15 sensors every quarter of an hour, 2764 rows of spring 2012 to
    train and the 1373 next to test.

    Target and inputs are the paper's: the room's temperature (column 4), and carbon dioxide, humidity, lighting and the
    weather outside (columns 6-18, 22, 23). Rows are in time order.

    Parameters
    ----------
    data_home : path, default=None
        Folder with a subfolder `sml2010`; by default the environment variable MLKM_DATA_HOME, else `~/mlkm_data`.
    download_if_missing : bool, default=True
        Whether to download files that are not there; otherwise they are asked for by an OSError that says where to put
        them.

    Returns
    -------
    Bunch with `X_train`, `y_train`, `X_test`, `y_test`, `feature_names`, `target_name`, and `times_train`, `times_test`
    (datetime64, minutes).
    """
    folder = data_home_folder(data_home) / "sml2010"
    _require(folder, tuple(SML_FILES), SML_ARCHIVE, SML_PAGE, download_if_missing)
    (train, names), (test, _) = (_read_sml(folder / name, checksum) for name, checksum in SML_FILES.items())
    columns = [column - 1 for column in (SML_TARGET, *SML_INPUTS)]
    values = [np.array([[row[j] for j in columns] for row in rows], dtype=np.float64) for rows in (train, test)]
    times = [np.array([_time(row[0], row[1]) for row in rows], dtype="datetime64[m]") for rows in (train, test)]
    return _split(values[0], values[1], [names[j] for j in columns], times_train=times[0], times_test=times[1])


def _read_sml(path: Path, checksum: str) -> tuple[list[list[str]], list[str]]:
    """Return the rows of measurements, as text, and the names of the columns."""
    lines = [line.split() for line in path.read_text(encoding="ascii").splitlines() if line.strip()]
    header, rows = [word for word in lines[0] if word != "#"], lines[1:]
    found = hashlib.sha256("\n".join(" ".join(row) for row in rows).encode()).hexdigest()
    if found != checksum:
        raise OSError(
            f"{path} is not the original file: its measurements have SHA-256 {found}, expected {checksum}; take it from"
            f" {SML_PAGE}."
        )
    return rows, [word.split(":", 1)[-1] for word in header]


def _time(date: str, clock: str) -> str:
    day, month, year = date.split("/")
    return f"{year}-{month}-{day}T{clock}"


def fetch_year_prediction(
    *, data_home: str | os.PathLike[str] | None = None, download_if_missing: bool = True
) -> Bunch:
    """Load YearPredictionMSD: the release year of a song from 90 averages and covariances of its timbre; 463,715 rows
    to train and 51,630 to test.

    The split is the official one, in which no artist has songs on both sides; rows keep the order of the file, so that
    row numbers of the file hold in the training rows followed by the test rows. The text is read once and kept beside
    the original as an array with a checksum.

    Parameters
    ----------
    data_home : path, default=None
        Folder with a subfolder `yearmsd`; by default the environment variable MLKM_DATA_HOME, else `~/mlkm_data`.
    download_if_missing : bool, default=True
        Whether to download the file (about 200 MB) if it is not there; otherwise it is asked for by an OSError that
        says where to put it.

    Returns
    -------
    Bunch with `X_train`, `y_train`, `X_test`, `y_test`, `feature_names`, `target_name`.
    """
    folder = data_home_folder(data_home) / "yearmsd"
    table = _read_checksummed(folder / "YearPredictionMSD.npy")
    if table is None:
        _require(folder, (YEAR_FILE,), YEAR_ARCHIVE, YEAR_PAGE, download_if_missing)
        table = np.loadtxt(folder / YEAR_FILE, delimiter=",", dtype=np.float64, ndmin=2)
        _check_year_layout(table, folder / YEAR_FILE)
        _write_checksummed(folder / "YearPredictionMSD.npy", table)
    averages, covariances = range(1, 13), range(1, YEAR_INPUTS - 11)
    names = [f"TimbreAvg{j}" for j in averages] + [f"TimbreCovariance{j}" for j in covariances]
    return _split(table[: YEAR_SPLIT[0]], table[YEAR_SPLIT[0] :], ["year", *names])


def _split(train: Array, test: Array, names: list[str], **others: Array) -> Bunch:
    """Return rows to train and to test, whose first column is the target, and what else there is."""
    parts = {"train": train, "test": test}
    inputs = {f"X_{part}": rows[:, 1:] for part, rows in parts.items()}
    targets = {f"y_{part}": rows[:, 0] for part, rows in parts.items()}
    return Bunch(**inputs, **targets, feature_names=names[1:], target_name=names[0], **others)


def _check_year_layout(table: Array, path: Path) -> None:
    """Refuse a file that is not laid out as YearPredictionMSD is."""
    expected = (sum(YEAR_SPLIT), YEAR_INPUTS + 1)
    if table.shape != expected:
        raise OSError(
            f"{path} is not the original file: it has {table.shape[0]} rows of {table.shape[1]} values, expected"
            f" {expected[0]} of {expected[1]}."
        )
    years = table[:, 0]
    if years.min() < YEARS[0] or years.max() > YEARS[1] or np.any(years != np.round(years)):
        raise OSError(
            f"{path} is not the original file: its first column should be years from {YEARS[0]} to {YEARS[1]}."
        )


def _read_checksummed(path: Path) -> Array | None:
    """Return the array stored at `path`, or None if it is missing or damaged."""
    record = path.with_suffix(".sha256")
    if not (path.exists() and record.exists()) or _sha256(path) != record.read_text(encoding="ascii").strip():
        return None
    table: Array = np.load(path, allow_pickle=False)
    return table


def _write_checksummed(path: Path, table: Array) -> None:
    """Keep the array; in a folder that cannot be written to, the text is simply read again next time."""
    try:
        with atomic_write(path) as file:
            np.save(file, table, allow_pickle=False)
        with atomic_write(path.with_suffix(".sha256")) as file:
            file.write(_sha256(path).encode())
    except OSError:
        return


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _require(folder: Path, names: tuple[str, ...], archive: str, page: str, download: bool) -> None:
    """Make sure that the files are in the folder, by download if allowed, or say what to do."""
    missing = [name for name in names if not (folder / name).exists()]
    if not missing:
        return
    yes_no("download_if_missing", download)
    needed = f"{', '.join(missing)} must be in {str(folder)!r}"
    by_hand = f"download {archive} ({page}) and unpack it there, or set MLKM_DATA_HOME."
    if not download:
        raise FileNotFoundError(f"{needed}; {by_hand}")
    try:
        with urllib.request.urlopen(archive, timeout=60) as response:
            members = _members(response.read(), missing)
    except (urllib.error.URLError, TimeoutError, zipfile.BadZipFile) as error:
        raise OSError(f"{needed}, and the download failed ({error}); {by_hand}") from error
    absent = [name for name in missing if name not in members]
    if absent:
        raise OSError(f"{needed}, and the archive does not contain {', '.join(absent)}; {by_hand}")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in members.items():
        with atomic_write(folder / name) as file:
            file.write(content)


def _members(archive: bytes, names: list[str]) -> dict[str, bytes]:
    """Return the named files of a zip archive, in whatever folder or inner zip archive they are."""
    found: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        for member in file.namelist():
            base = member.rsplit("/", 1)[-1]
            if base in names:
                found[base] = file.read(member)
            elif base.endswith(".zip"):
                found |= _members(file.read(member), names)
    return found
