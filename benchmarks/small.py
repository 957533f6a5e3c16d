"""Small data: the sets of `uci_evans` with at most 1000 rows, all ten splits: python -m benchmarks.small [--sets ...]

Root mean squared errors over all splits of the default, CatBoost (1000 iterations), ridge and the mean, and
`loo_error_` beside the true error. `JUDGED` were not looked at while choices were made.
"""

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.linear_model import RidgeCV

from mlkm import MLKMRegressor

from .problem import data_home

JUDGED = ["breastcancer", "energy", "forest", "servo", "stock"]
DECIDED_ON = [
    "autompg", "autos", "challenger", "concreteslump", "fertility", "housing", "machine", "pendulum", "yacht",
]  # fmt: skip


def split(name: str, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Standardised on the training rows."""
    with np.load(data_home() / "uci_evans" / f"{name}.npz", allow_pickle=False) as file:
        X, y, test = file["X"].astype(float), file["y"].astype(float).ravel(), file["test_mask"][:, k].astype(bool)
    sd = X[~test].std(axis=0)
    X = (X - X[~test].mean(axis=0)) / np.where(sd > 0, sd, 1)
    y = (y - y[~test].mean()) / y[~test].std()
    return X[~test], y[~test], X[test], y[test]


def main() -> None:
    from catboost import CatBoostRegressor

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=[*DECIDED_ON, *JUDGED])
    ratios = []
    for name in parser.parse_args().sets:
        errors, left_out, seconds = np.zeros(4), 0.0, np.zeros(2)
        for k in range(10):
            X, y, X_test, y_test = split(name, k)
            begin = time.process_time()
            model = MLKMRegressor(random_state=k).fit(X, y)
            middle = time.process_time()
            trees = CatBoostRegressor(
                iterations=1000, thread_count=1, random_seed=k, logging_level="Silent", allow_writing_files=False
            ).fit(X, y)
            seconds += middle - begin, time.process_time() - middle
            line = RidgeCV(alphas=np.logspace(-4, 4, 17)).fit(X, y)
            predicted = [m.predict(X_test) for m in (model, trees, line)] + [np.zeros(len(y_test))]
            errors += [float(np.mean((f - y_test) ** 2)) for f in predicted]
            left_out += model.loo_error_
        rmse = np.sqrt(errors / 10)
        ratios.append(rmse[0] / rmse[1:])
        print(
            f"{name:14s} {len(y):4d} x {X.shape[1]:2d}: {rmse[0]:.4f}, / CatBoost {ratios[-1][0]:.3f}, / ridge"
            f" {ratios[-1][1]:.3f}, / mean {ratios[-1][2]:.3f}, loo / true {np.sqrt(left_out / errors[0]):.2f},"
            f" seconds {seconds[0] / 10:.1f} / {seconds[1] / 10:.1f}",
            flush=True,
        )
    ratios = np.array(ratios)
    print(
        f"geometric mean / CatBoost {np.exp(np.log(ratios[:, 0]).mean()):.3f}, worst / ridge {ratios[:, 1].max():.3f},"
        f" worst / mean {ratios[:, 2].max():.3f}"
    )


if __name__ == "__main__":
    main()
