"""What a model is given, and where real data are found."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Problem:
    """Training rows, test inputs, and what predictions are compared with.

    `X` is encoded and standardised; `raw` holds the inputs as they came, for trees. `y` and `target` are in the same
    units, `unit` of them to one of the original target. `target` is a noisy y or the noiseless truth, whichever the
    suite measures against.
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    target: np.ndarray
    raw: np.ndarray
    raw_test: np.ndarray
    unit: float = 1.0


@dataclass(frozen=True)
class Suite:
    """Named problems, each with several repetitions (splits or seeds), and the models that run on them.

    `metric` is "rmse" (in units of the standardised target) or "mse" (in squared units of the target as it came).
    """

    name: str
    metric: str
    sets: Sequence[str]
    models: Callable[[str], Sequence[str]]
    load: Callable[[str, int], Problem | None]
    by_split: bool = False


def data_home() -> Path:
    home = os.environ.get("MLKM_DATA_HOME")
    if not home or not Path(home).is_dir():
        raise SystemExit("Set MLKM_DATA_HOME to the folder that holds the benchmark's data files.")
    return Path(home)


def standardised(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, target: np.ndarray) -> Problem:
    """Inputs and targets centred and scaled by the training rows; errors are given back in the units of y."""
    mean, sd = X.mean(axis=0), X.std(axis=0)
    sd = np.where(sd > 1e-12 * np.maximum(1, np.abs(mean)), sd, 1)
    center, scale = y.mean(), y.std()
    return Problem(
        (X - mean) / sd, (y - center) / scale, (X_test - mean) / sd, (target - center) / scale, X, X_test, float(scale)
    )
