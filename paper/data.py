"""The rows of every experiment, in two versions: `as-written` follows the paper's text, `as-coded` the published
program with its own seeds.

What the two versions differ in is told in docs/paper.md. Under `as-coded` the rows never change; a seed then only draws
the model.
"""

import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from mlkm.datasets import (
    example1_truth,
    example2_truth,
    fetch_sml2010,
    fetch_year_prediction,
    make_example1,
    make_example2,
    make_example3,
    make_example4,
)

WRITTEN, CODED, AVAILABLE = "as-written", "as-coded", "available rows"
AVAILABLE_CODED = "available rows, as-coded settings"
Array = np.ndarray


@dataclass(frozen=True)
class Sample:
    """Training, calibration and test rows; `f_test` is the noiseless truth at the test inputs where it is known."""

    X: Array
    y: Array
    X_cal: Array
    y_cal: Array
    X_test: Array
    y_test: Array
    f_test: Array | None = None

    @property
    def X_all(self) -> Array:
        """Training and calibration rows together: what the paper gives to kernel ridge and to random features."""
        return np.vstack([self.X, self.X_cal])

    @property
    def y_all(self) -> Array:
        return np.concatenate([self.y, self.y_cal])


def _legacy(seed: int) -> np.random.RandomState:
    """The stream after numpy.random.seed(seed), in which the published program drew its data."""
    return np.random.RandomState(seed)


def _three(make, seed: int, sizes: tuple[int, int, int], **options) -> Sample:
    """Independent training, calibration and test rows of one replication."""
    (X, y, _), (X_cal, y_cal, _), (X_test, y_test, f_test) = (
        make(max(n, 1), random_state=3 * seed + part, **options) for part, n in enumerate(sizes)
    )
    return Sample(X, y, X_cal[: sizes[1]], y_cal[: sizes[1]], X_test, y_test, f_test)


def example1(version: str, d: int, seed: int = 0, sizes: tuple[int, int, int] = (2000, 2000, 4000)) -> Sample:
    """As written: t = 1. As coded: t = 0.3 and one stream for each of E, U and the noise."""
    if version == WRITTEN:
        return _three(make_example1, seed, sizes, d=d)
    blocks = []
    for (e, u, noise), n in zip(((0, 1, 2), (3, 4, 5), (6, 7, 8)), sizes, strict=True):
        X = (_legacy(e).uniform(size=(n, d)) + 0.3 * _legacy(u).uniform(size=(n, 1))) / 1.3
        f = example1_truth(X)
        blocks.append((X, f + _legacy(noise).normal(size=n), f))
    return _sample(blocks)


def example2(version: str, d: int, seed: int = 0, sizes: tuple[int, int, int] = (2000, 2000, 4000)) -> Sample:
    """As written: f_4 = e^x + e^-1 - 1. As coded: e^+1, which moves the mean of y from 4.35 to 13.75."""
    if version == WRITTEN:
        return _three(make_example2, seed, sizes, d=d)
    blocks = []
    for (x, noise), n in zip(((0, 1), (2, 3), (4, 5)), sizes, strict=True):
        X = _legacy(x).uniform(size=(n, d))
        f = example2_truth(X, 1.0)
        blocks.append((X, f + _legacy(noise).normal(size=n), f))
    return _sample(blocks)


def _sample(blocks: list[tuple[Array, Array, Array]]) -> Sample:
    (X, y, _), (X_cal, y_cal, _), (X_test, y_test, f_test) = blocks
    return Sample(X, y, X_cal, y_cal, X_test, y_test, f_test)


def example3(version: str, function: str, law: str, seed: int = 0, n: int = 500, n_test: int = 1000) -> Sample:
    """As written: fresh test rows and coefficients for every seed. As coded: see `_coded3`. Neither has noise."""
    if version == CODED:
        return _coded3(function, law, n, n_test)
    return _three(make_example3, seed, (n, 0, n_test), function=function, law=law, coefficients=1000 + seed)


def _coded3(function: str, law: str, n: int, n_test: int) -> Sample:
    """One draw of the coefficients. For the uniform sine ratio and both mixtures the test inputs start with the
    training inputs (the same seed), and for the mixtures the second half of the test targets lacks the sine ratios;
    `f_test` is the truth itself."""
    d, half = 10, 5
    coefficient_seed, test_seed = {"trig": (1, 2), "sin_ratio": (0, 0 if law == "uniform" else 1), "mix": (0, 0)}[
        function
    ]
    m = {"trig": d, "sin_ratio": d, "mix": half}[function]
    u, c = _legacy(coefficient_seed).uniform(1, 2, (m, 3)).T, _legacy(coefficient_seed).uniform(1, 2, (m, 2)).T

    def inputs(seed: int, rows: int) -> Array:
        if law == "uniform":
            return _legacy(seed).uniform(-2, 2, (rows, d))
        covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
        return _legacy(seed).multivariate_normal(np.zeros(d), covariance, rows)

    def trig(X: Array) -> Array:
        return (u[0] * np.sin(X) + u[1] * np.cos(X) + u[2] * np.sin(X) ** 2).sum(axis=1)

    def ratio(X: Array) -> Array:
        return (np.sin(c[0] * X) / (2 - np.sin(c[1] * X))).sum(axis=1)

    X, X_test = inputs(0, 500)[:n], inputs(test_seed, 1000)[:n_test]
    if function == "mix":  # as coded the sine ratios come first
        y, f_test = (ratio(Z[:, :half]) + trig(Z[:, half:]) for Z in (X, X_test))
        y_test = np.where(np.arange(len(X_test)) < 500, f_test, trig(X_test[:, half:]))
    else:
        y, f_test = (trig(Z) if function == "trig" else ratio(Z) for Z in (X, X_test))
        y_test = f_test
    return Sample(X, y, X[:0], y[:0], X_test, y_test, f_test)


def example4(version: str, d: int, seed: int = 0, n: int = 1000, n_test: int = 1000) -> Sample:
    """No noise in either version; as coded the seeds are 0 and 1."""
    if version == WRITTEN:
        return _three(make_example4, seed, (n, 0, n_test), d=d)
    X, X_test = _legacy(0).uniform(size=(1000, d))[:n], _legacy(1).uniform(size=(1000, d))[:n_test]
    y, f_test = ((Z[:, :10] + 2 * np.exp(-16 * Z[:, :10] ** 2)).sum(axis=1) for Z in (X, X_test))
    return Sample(X, y, X[:0], y[:0], X_test, f_test, f_test)


def sml2010(version: str, seed: int = 0, data_home: str | None = None) -> Sample:
    """Half of file 1 trains, half calibrates, file 2 tests. As written: inputs to [0, 1] by the training rows. As
    coded: standardised with the test inputs included, and one fixed split."""
    data = fetch_sml2010(data_home=data_home, download_if_missing=False)
    X, X_cal, y, y_cal = train_test_split(
        data.X_train, data.y_train, test_size=0.5, random_state=1 if version == CODED else seed
    )
    sample = Sample(X, y, X_cal, y_cal, data.X_test, data.y_test)
    if version == CODED:
        return _rescaled(sample, StandardScaler().fit(np.vstack([data.X_train, data.X_test])))
    return _rescaled(sample, MinMaxScaler().fit(X))


def small_years(version: str, seed: int = 0, data_home: str | None = None) -> Sample:
    """700 training, 500 calibration and 300 test rows. As coded: three blocks of consecutive rows of the full file,
    standardised together. As written: rows at random, training and calibration rows from the official training part,
    inputs to [0, 1]; `available rows`: from the sample. `available rows, as-coded settings` are the rows of `available
    rows`, standardised together as in the published program."""
    if version == CODED:
        full = _full_years(data_home)
        blocks = [full.rows(start, start + n) for start, n in ((300_000, 700), (400_000, 500), (500_000, 300))]
        return _standardised(Sample(*blocks[0], *blocks[1], *blocks[2]))
    X, y, X_test, y_test = _year_parts(version, data_home)
    rng = np.random.default_rng([seed, 8])
    chosen, tested = rng.choice(len(X), 1200, replace=False), rng.choice(len(X_test), 300, replace=False)
    train, cal = chosen[:700], chosen[700:]
    sample = Sample(X[train], y[train], X[cal], y[cal], X_test[tested], y_test[tested])
    return _standardised(sample) if version == AVAILABLE_CODED else _rescaled(sample, MinMaxScaler().fit(sample.X))


def large_years(version: str, data_home: str | None = None) -> Sample:
    """All rows of the official split (`available rows`: of the sample). As coded: standardised with the test inputs; as
    written: inputs to [0, 1]."""
    X, y, X_test, y_test = _year_parts(version, data_home)
    sample = Sample(X, y, X[:0], y[:0], X_test, y_test)
    return _rescaled(
        sample, StandardScaler().fit(np.vstack([X, X_test])) if version == CODED else MinMaxScaler().fit(X)
    )


def _standardised(sample: Sample) -> Sample:
    """Inputs of mean 0 and variance 1 over all rows, those of the test included, as in the published program."""
    return _rescaled(sample, StandardScaler().fit(np.vstack([sample.X, sample.X_cal, sample.X_test])))


def _rescaled(sample: Sample, scaler) -> Sample:
    X_cal = scaler.transform(sample.X_cal) if len(sample.X_cal) else sample.X_cal
    return replace(sample, X=scaler.transform(sample.X), X_cal=X_cal, X_test=scaler.transform(sample.X_test))


@dataclass(frozen=True)
class _Years:
    X: Array
    y: Array
    n_train: int

    def rows(self, begin: int, end: int) -> tuple[Array, Array]:
        return self.X[begin:end], self.y[begin:end]


@cache
def _full_years(data_home: str | None = None) -> _Years:
    data = fetch_year_prediction(data_home=data_home, download_if_missing=False)
    return _Years(
        np.vstack([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test]), len(data.y_train)
    )


def _year_parts(version: str, data_home: str | None) -> tuple[Array, Array, Array, Array]:
    if version in (AVAILABLE, AVAILABLE_CODED):
        with np.load(_folder(data_home) / "yearmsd" / "yearmsd_8k.npz", allow_pickle=False) as file:
            X, y, is_test = file["X"].astype(float), file["y"].astype(float), file["is_test"]
        return X[~is_test], y[~is_test], X[is_test], y[is_test]
    full = _full_years(data_home)
    return *full.rows(0, full.n_train), *full.rows(full.n_train, len(full.y))


def _folder(data_home: str | None) -> Path:
    return Path(data_home or os.environ.get("MLKM_DATA_HOME") or "~/mlkm_data").expanduser()


NEEDS_SML = (
    "needs SML2010: put NEW-DATA-1.T15.txt and NEW-DATA-2.T15.txt into the folder sml2010 under MLKM_DATA_HOME "
    "(mlkm.datasets.fetch_sml2010 does so where there is a network, and says how to do it by hand)."
)
NEEDS_YEARS = (
    "needs YearPredictionMSD: put YearPredictionMSD.txt into the folder yearmsd under MLKM_DATA_HOME "
    "(mlkm.datasets.fetch_year_prediction does so where there is a network, and says how to do it by hand)."
)


def has_sml(data_home: str | None = None) -> bool:
    return (_folder(data_home) / "sml2010" / "NEW-DATA-2.T15.txt").exists()


def year_versions(data_home: str | None = None) -> list[str]:
    """Which versions of the YearPredictionMSD studies can run: the sample's, and those of the full file where it is
    given."""
    folder = _folder(data_home) / "yearmsd"
    versions = [AVAILABLE] if (folder / "yearmsd_8k.npz").exists() else []
    full = any((folder / name).exists() for name in ("YearPredictionMSD.txt", "YearPredictionMSD.npy"))
    return versions + ([WRITTEN, CODED] if full else [])
