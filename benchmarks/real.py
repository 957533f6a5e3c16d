"""Real data: sets of `.npz` files under MLKM_DATA_HOME.

A file holds X, y and, where present, `test_mask` (n, k) or `is_test` (n,) and `categorical` (d,). Without a standard
split a tenth of the rows is test, by `default_rng(1000 + split)`. At most 20,000 training rows (`default_rng(2000 +
split)`) and 10,000 test rows. Categorical columns of at most 20 levels are one-hot, centred but not scaled; all other
columns and y are standardised on the training rows. Trees get the columns as they came.
"""

import numpy as np

from .problem import Problem, data_home

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


def categorical(name: str) -> np.ndarray:
    """Which columns of a set are categories."""
    with np.load(data_home() / f"{name}.npz", allow_pickle=False) as file:
        return file["categorical"].astype(bool) if "categorical" in file.files else np.zeros(file["X"].shape[1], bool)


def load(
    name: str, split: int, most_train: int = 20_000, most_test: int = 10_000, most_levels: int = 20
) -> Problem | None:
    """One split of one set; None where the set has no such split."""
    with np.load(data_home() / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"], file["y"].astype(np.float64).ravel()
        masks = file["test_mask"].astype(bool) if "test_mask" in file.files else None
        if masks is None and "is_test" in file.files:
            masks = file["is_test"].astype(bool)[:, None]
    if masks is not None and split >= masks.shape[1]:
        return None
    train, test = _rows(len(y), split, None if masks is None else masks[:, split])
    test = test[:most_test]
    if len(train) > most_train:
        train = train[np.random.default_rng(2000 + split).permutation(len(train))[:most_train]]
    raw, raw_test = X[train].astype(np.float64), X[test].astype(np.float64)
    medians = np.nan_to_num(np.nanmedian(raw, axis=0))
    raw, raw_test = np.where(np.isnan(raw), medians, raw), np.where(np.isnan(raw_test), medians, raw_test)
    few_levels = [
        is_nominal and len(np.unique(column[~np.isnan(column)])) <= most_levels
        for is_nominal, column in zip(categorical(name), X.T, strict=True)
    ]
    encoded, encoded_test = _encoded(raw, raw_test, np.array(few_levels, bool))
    center, scale = y[train].mean(), y[train].std()
    return Problem(encoded, (y[train] - center) / scale, encoded_test, (y[test] - center) / scale, raw, raw_test)


def _rows(n: int, split: int, is_test: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows: the standard split, or a tenth at random."""
    if is_test is not None:
        return np.flatnonzero(~is_test), np.flatnonzero(is_test)
    order, n_test = np.random.default_rng(1000 + split).permutation(n), round(0.1 * n)
    return order[n_test:], order[:n_test]


def _encoded(raw: np.ndarray, raw_test: np.ndarray, one_hot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standardised columns first, then the one-hot blocks of the others; a level not seen in training is all zeros
    before centring."""
    A, B = raw[:, ~one_hot], raw_test[:, ~one_hot]
    mean, sd = A.mean(axis=0), A.std(axis=0)
    sd = np.where(sd > 1e-12 * np.maximum(1, np.abs(mean)), sd, 1)
    blocks, blocks_test = [(A - mean) / sd], [(B - mean) / sd]
    for j in np.flatnonzero(one_hot):
        levels = np.unique(raw[:, j])
        on, on_test = (raw[:, [j]] == levels).astype(np.float64), (raw_test[:, [j]] == levels).astype(np.float64)
        blocks.append(on - on.mean(axis=0))
        blocks_test.append(on_test - on.mean(axis=0))
    return np.hstack(blocks), np.hstack(blocks_test)
