"""What `mlkm fit` does with rows: which fit the model, which calibrate the band, and how the band is judged."""

from dataclasses import dataclass
from math import ceil
from time import perf_counter
from typing import Any, Literal

import numpy as np

from .._types import Array, IntArray
from .._version import __version__
from ..conformal import ConformalRegressor
from ..conformal.regressor import conformalize_checked
from ..estimators import MLKMRegressor
from ..runtime.levels import exact_level
from .reading import TargetRows

_SHARE = 0.2  # of the rows that calibrate
_ENOUGH = 2000  # rows to calibrate, at most: the share held is then sure to half a percent
_WANTED = 100  # rows to calibrate where a fifth is less, up to half of them
_FOLDS = 5

Split = Literal["random", "time"]


@dataclass(frozen=True)
class Fit:
    """A calibrated band, the rows that calibrated it, how they were chosen, and the intervals (n, 2) that others of
    them give each, NaN where none do."""

    band: ConformalRegressor
    calibration: TargetRows
    intervals: Array
    n_fitted: int
    split: Split


def calibration_rows(n: int, level: float) -> int:
    """How many of n rows calibrate a band of this level.

    >>> calibration_rows(1000, 0.95), calibration_rows(150, 0.95), calibration_rows(100_000, 0.95)
    (200, 75, 2000)
    """
    exact = exact_level(level)
    least = ceil(exact / (1 - exact))  # with fewer, intervals are infinite
    if least > n // 2:
        raise ValueError(
            f"A band at {100 * level:g} % needs {least} rows to be calibrated and as many to fit a model; the table has"
            f" {n} with a target: ask for a lower --confidence-level."
        )
    return max(least, min(max(int(n * _SHARE), min(_WANTED, n // 2)), _ENOUGH))


def parts(n: int, m: int, split: Split, seed: int) -> tuple[IntArray, IntArray]:
    """Rows that fit and rows that calibrate: by chance, or the last m of them."""
    order = np.arange(n) if split == "time" else np.random.default_rng(seed).permutation(n)
    return np.sort(order[: n - m]), np.sort(order[n - m :])


def fit_band(rows: TargetRows, *, level: float, split: Split, effort: Any, seed: int) -> Fit:
    """A band around the default, fitted to all rows but those that calibrate it.

    In time order a residual is measured by 1: sigma_y(x) grows where x leaves the training rows, which in time order is
    every row in the end. Weights belong to the fit; in the calibration every row counts once.
    """
    fitted, others = parts(len(rows), calibration_rows(len(rows), level), split, seed)
    own, calibration = rows.take(fitted), rows.take(others)
    begin = perf_counter()
    model = MLKMRegressor(effort=effort, random_state=seed).fit(own.inputs, own.y, own.weights)
    score: Literal["absolute", "variance"] = "absolute" if split == "time" else "variance"
    band = ConformalRegressor(model, confidence_level=level, score=score, random_state=seed)
    intervals = conformalize_checked(band, calibration.inputs, calibration.y, folds_of(len(calibration), split))
    seconds = perf_counter() - begin
    note_facts(band, split=split, seconds=round(seconds, 3), seed=seed, effort=effort)
    return Fit(band, calibration, intervals, len(own), split)


def note_facts(band: ConformalRegressor, **facts: Any) -> None:
    """Write down what was done: it goes with the model into its file."""
    band.fit_facts_ = {**getattr(band, "fit_facts_", {}), **facts, "mlkm": __version__}


def folds_of(n: int, split: Split) -> list[tuple[IntArray, IntArray]]:
    """Which calibration rows judge which: fifths by the other four, and in time order the later half by the earlier."""
    if split == "time":
        return [(np.arange(n // 2), np.arange(n // 2, n))]
    place = np.arange(n) % _FOLDS
    return [(np.flatnonzero(place != k), np.flatnonzero(place == k)) for k in range(_FOLDS)]


def judged(fit: Fit) -> tuple[TargetRows, Array, str]:
    """Held-out rows with intervals that do not know their outcomes, and a sentence that says how."""
    at = np.flatnonzero(~np.isnan(fit.intervals[:, 0]))
    if fit.split == "time":
        how = "These are the later half of the calibration rows; for this page the earlier half calibrated the band."
    else:
        how = (
            f"These are the calibration rows; for this page each of {_FOLDS} parts was judged by the other parts' band."
        )
    return fit.calibration.take(at), fit.intervals[at], how
