"""Train and test arrays of the real-data benchmark.

Sets are `.npz` files under MLKM_DATA_HOME with X, y and, where present, `test_mask` (n, k) or `is_test` (n,) and `categorical` (d,).
Without a standard split a tenth of the rows is test, by `default_rng(1000 + split)`. At most 20,000 training rows (`default_rng(2000 + split)`)
and 10,000 test rows. Categorical columns of at most 20 levels are one-hot, centred but not scaled; all other columns and y are standardised on
the training rows.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SETS = [
    "uci_evans/airfoil",
    "uci_evans/concrete",
    "uci_evans/energy",
    "uci_evans/housing",
    "uci_evans/yacht",
    "uci_evans/wine",
    "uci_evans/skillcraft",
    "uci_evans/parkinsons",
    "uci_evans/pumadyn32nm",
    "uci_evans/pol",
    "uci_evans/elevators",
    "uci_evans/kin40k",
    "uci_evans/protein",
    "gal_splits/kin8nm",
    "gal_splits/power-plant",
    "gal_splits/naval-propulsion-plant",
    "single/california_housing",
    "single/king_county",
    "single/miami_housing",
    "single/bike_sharing_hour",
    "single/seoul_bike",
    "single/appliances_energy",
    "single/sgemm_gpu",
    "single/beijing_pm25",
    "single/abalone",
    "single/space_ga",
    "single/sulfur",
    "yearmsd/yearmsd_8k",
]


@dataclass(frozen=True)
class Split:
    """Encoded inputs for all models, raw inputs for trees, standardised targets."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    T: np.ndarray
    T_test: np.ndarray


def data_home() -> Path:
    home = os.environ.get("MLKM_DATA_HOME")
    if not home or not Path(home).is_dir():
        raise SystemExit("Set MLKM_DATA_HOME to the folder that holds the benchmark's .npz files.")
    return Path(home)


def load(name: str, split: int, most_train: int = 20_000, most_test: int = 10_000, most_levels: int = 20) -> Split | None:
    """One split of one set; None where the set has no such split."""
    with np.load(data_home() / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"].astype(np.float64), file["y"].astype(np.float64).ravel()
        categorical = file["categorical"].astype(bool) if "categorical" in file.files else np.zeros(X.shape[1], bool)
        if "test_mask" in file.files:
            is_test = file["test_mask"][:, split].astype(bool)
        elif "is_test" in file.files:
            if split:
                return None
            is_test = file["is_test"].astype(bool)
        else:
            is_test = None
    if is_test is not None:
        test, train = np.flatnonzero(is_test), np.flatnonzero(~is_test)
    else:
        order = np.random.default_rng(1000 + split).permutation(len(y))
        n_test = round(0.1 * len(y))
        test, train = order[:n_test], order[n_test:]
    test = test[:most_test]
    if len(train) > most_train:
        train = train[np.random.default_rng(2000 + split).permutation(len(train))[:most_train]]
    A, B = X[train], X[test]
    medians = np.nan_to_num(np.nanmedian(A, axis=0))
    A, B = np.where(np.isnan(A), medians, A), np.where(np.isnan(B), medians, B)
    levels = np.array([len(np.unique(column[~np.isnan(column)])) for column in X.T])
    one_hot = np.flatnonzero(categorical & (levels <= most_levels))
    numeric = np.setdiff1d(np.arange(X.shape[1]), one_hot)
    sd = A[:, numeric].std(axis=0)
    mean = A[:, numeric].mean(axis=0)
    sd = np.where(sd > 1e-12 * np.maximum(1, np.abs(mean)), sd, 1)
    blocks = [((A[:, numeric] - mean) / sd, (B[:, numeric] - mean) / sd)]
    for j in one_hot:
        seen = np.unique(A[:, j])
        on, on_test = (A[:, [j]] == seen).astype(float), (B[:, [j]] == seen).astype(float)
        blocks.append((on - on.mean(axis=0), on_test - on.mean(axis=0)))
    center, scale = y[train].mean(), y[train].std()
    return Split(
        np.hstack([a for a, _ in blocks]), (y[train] - center) / scale, np.hstack([b for _, b in blocks]), (y[test] - center) / scale, A, B
    )  # fmt: skip
