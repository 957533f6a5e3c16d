"""Coverage of bands with few rows: python -m benchmarks.coverage [estimator ...] [--draws 200]

Every method with a guarantee (split, CV+ with five folds, cv="loo") is tested with every score and each estimator of
the package, on draws of three problems in turn: 40 rows of 30 inputs that are independent of y, 30 rows of 60 inputs
of which two matter, and an additive function of 3 inputs with 60 or 24 rows. Each draw has 25 new rows; the level is
90 %.

A case fails if its mean coverage is below its guarantee, 1 - alpha for split and 1 - 2 alpha for the others, by more
than three standard errors over the draws; bands by cv="loo" also fail below 0.87. The exit code is then 1.

All cases take about half an hour on one core. To save time, fits to the same rows are made once; fits that learn their
features compute `loo_error_` from one held-out fold instead of five, on which no guarantee depends; and CV+ of the
default with score="residual", which needs ten fits, runs on every fourth draw.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from time import process_time
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge, RKMRegressor, metrics
from mlkm.search.policy import Policy, policy_context
from mlkm.solve import GradientDescent

LEVEL, FLOOR = 0.9, 0.87
NEW = 25  # new rows of a draw
FEW_EPOCHS = GradientDescent(max_iter=20)
QUICKER = replace(Policy(), fifths=(0, 0))
FITTED: dict[Any, dict[str, Any]] = {}


class Remembered:
    """An estimator whose fits to the same rows, which several scores and methods need, are made once."""

    def fit(self, X, y=None, sample_weight=None):
        key = type(self), repr(self.get_params()), X.tobytes(), np.asarray(y).tobytes()
        if key not in FITTED:
            super().fit(X, y, sample_weight)
            FITTED[key] = dict(vars(self))
        vars(self).update(FITTED[key])
        return self


class MLKM(Remembered, MLKMRegressor):
    pass


class RKM(Remembered, RKMRegressor):
    pass


class RFR(Remembered, RandomFeatureRidge):
    pass


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "default": lambda: MLKM(random_state=0),
    "widths": lambda: MLKM((200,), random_state=0),
    "rkm": lambda: RKM((32, 8), solver=FEW_EPOCHS, random_state=0),
    "ridge": lambda: RFR(random_state=0),
    "given scale": lambda: RFR(100, scale=0.3, random_state=0),
    "published": lambda: MLKM.published((32, 8), 0.3, penalty=1e-3, solver=FEW_EPOCHS, random_state=0),
}


def noise(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_normal((n, 30)), rng.standard_normal(n)


def many_inputs(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((n, 60))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * rng.standard_normal(n)


def additive(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(-1, 1, (n, 3))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.standard_normal(n)


PROBLEMS = ((noise, 40), (many_inputs, 30), (additive, 60), (noise, 40), (many_inputs, 30), (additive, 24))


def cases(name: str) -> list[tuple[str, Any, str]]:
    found = [(method, 5, score) for method in ("split", "cross") for score in SCORES]
    closed = name not in ("rkm", "published")
    return found + [("cross", "loo", score) for score in ("absolute", "variance") if closed]


SCORES = ("absolute", "variance", "residual", "quantile")


def share(name: str, case: tuple[str, Any, str], draw: int) -> float:
    """Return the share of the new rows of a draw that are inside the band."""
    (make, n), (method, cv, score) = PROBLEMS[draw % len(PROBLEMS)], case
    rng = np.random.default_rng([draw, n])
    X, y = make(rng, n + NEW)
    model = ESTIMATORS[name]()
    band = ConformalRegressor(model, confidence_level=LEVEL, method=method, cv=cv, score=score, random_state=draw)
    band.fit(X[:n], y[:n])
    return float(metrics.coverage(y[n:], band.predict_interval(X[n:])[1]).share)


def measured(name: str, draws: int) -> bool:
    """Print every case of an estimator, and return whether all of them keep their guarantee."""
    shares, begin = np.full((len(cases(name)), draws), np.nan), process_time()
    for draw in range(draws):
        FITTED.clear()
        for number, case in enumerate(cases(name)):
            if draw % 4 == 0 or (name, *case) != ("default", "cross", 5, "residual"):
                shares[number, draw] = share(name, case, draw)
    kept = []
    for (method, cv, score), every in zip(cases(name), shares, strict=True):
        own = every[~np.isnan(every)]
        promise = LEVEL if method == "split" else 2 * LEVEL - 1
        error = own.std(ddof=1) / np.sqrt(len(own))
        kept.append(own.mean() >= promise - 3 * error and (cv != "loo" or own.mean() >= FLOOR))
        how = method if method == "split" else f"{method} cv={cv}"
        verdict = "ok" if kept[-1] else "FAIL"
        print(f"{name:11s} {how:12s} {score:8s} {own.mean():.3f} +- {error:.3f}, promised {promise:.2f}: {verdict}")
    print(f"{name}: {process_time() - begin:.0f} s for {draws} draws", flush=True)
    return all(kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("estimator", nargs="*", help=", ".join(ESTIMATORS))
    parser.add_argument("--draws", type=int, default=200)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # fits to noise, and cv="loo" by folds, warn
    kept = []
    for name in arguments.estimator or ESTIMATORS:
        with policy_context(QUICKER) if name in ("widths", "ridge") else nullcontext():
            kept.append(measured(name, arguments.draws))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
