"""The systems that are compared: what each is, on which rows it is fitted, and what is measured of it.

KRR, RF, NN, ResNet, MLKM, RKM and the cross-fitted MLKM+ and RKM+ are the paper's, in its settings. In the version
`as-coded`, MLKM and RKM are trained exactly as the published program trains them (`paper.networks`); in the version
`as-written` they are this package's own faithful estimators. The mean, least squares, kernel ridge with centred targets
and a tuned scale, CatBoost and LightGBM are rows that the paper does not have. `mlkm` is the default of this package,
nothing given but the seed; that of `RKMRegressor` is the same fit, since one layer has no residual block.
"""

import time
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mlkm import MLKMRegressor, RandomFeatures, RKMRegressor
from mlkm.solve import GradientDescent

from .data import Array, Sample
from .settings import Descent, Shape

PAPER = ("KRR", "RF", "NN", "ResNet", "MLKM", "RKM", "MLKM+", "RKM+")
MISSING = ("mean", "least squares", "KRR, centred and tuned", "CatBoost", "LightGBM")
OURS = ("mlkm",)
ORDER = (*PAPER, *MISSING, *OURS)
DETERMINISTIC = (
    "KRR",
    "mean",
    "least squares",
    "KRR, centred and tuned",
)  # on fixed rows a second seed would repeat the first


def plain(name: str, seed: int, quick: bool = False) -> Any:
    """A system that needs no setting of the paper's."""
    match name:
        case "mean":
            return DummyRegressor()
        case "least squares":
            return LinearRegression()
        case "KRR, centred and tuned":
            return kernel_ridge_tuned(seed, quick)
        case "CatBoost":
            from catboost import CatBoostRegressor

            return CatBoostRegressor(
                verbose=0,
                thread_count=1,
                random_seed=seed,
                allow_writing_files=False,
                iterations=200 if quick else 1000,
            )
        case "LightGBM":
            from lightgbm import LGBMRegressor

            return LGBMRegressor(verbose=-1, n_jobs=1, random_state=seed)
        case "mlkm":
            return MLKMRegressor(random_state=seed)
    raise ValueError(f"unknown system {name!r}; the plain ones are {(*MISSING, *OURS)}")


def kernel_ridge(alpha: float | None, seed: int, scale: float = 1.0) -> Any:
    """KRR as in the paper: exp(-scale^2 |x - x'|^2 / 2), no intercept, targets as they are; alpha by five-fold search
    if not given."""
    model = KernelRidge(kernel="rbf", gamma=scale**2 / 2, alpha=1.0 if alpha is None else alpha)
    return model if alpha is not None else _searched(model, {"alpha": np.logspace(-7, 0, 8)}, seed)


def kernel_ridge_tuned(seed: int, quick: bool = False) -> Any:
    """KRR with centred targets, standardised inputs, and penalty and scale by five-fold search: what the paper's KRR
    lacks."""
    grid = {"alpha": np.logspace(-5, 1, 3 if quick else 5), "gamma": np.logspace(-3, 0.5, 3 if quick else 6)}
    search = _searched(KernelRidge(kernel="rbf"), grid, seed)
    return make_pipeline(StandardScaler(), TransformedTargetRegressor(search, transformer=StandardScaler()))


def random_features(alpha: float | None, seed: int, scale: float = 1.0, D: int = 500) -> Any:
    """RF as in the paper: ridge with an intercept on D Gaussian random features; alpha by five-fold search if not
    given."""
    ridge = Ridge(alpha=1.0 if alpha is None else alpha, solver="cholesky" if alpha is None else "svd")
    last = ridge if alpha is not None else _searched(Ridge(solver="cholesky"), {"alpha": np.logspace(-7, 0, 8)}, seed)
    return make_pipeline(RandomFeatures(D, "gaussian", scale, random_state=seed), last)


def _searched(model: Any, grid: dict[str, Array], seed: int) -> Any:
    return GridSearchCV(model, grid, scoring="neg_mean_squared_error", cv=KFold(5, shuffle=True, random_state=seed))


def faithful(name: str, shape: Shape, descent: Descent, seed: int) -> Any:
    """This package's MLKM, RKM, MLKM+ or RKM+: Algorithm 1 by gradient descent, without or with rotations; stops after
    T = 100 epochs."""
    machine = RKMRegressor if name.startswith("RKM") else MLKMRegressor
    solver = GradientDescent(
        descent.learning_rate, descent.momentum, descent.batch_size, max_iter=descent.epochs, patience=100
    )
    return Patient(
        machine.published(
            shape.widths,
            shape.scales,
            kernels=shape.kernels,
            penalty=descent.weight_decay / 2,
            cv="rotate" if name.endswith("+") else None,
            solver=solver,
            random_state=seed,
        )
    )


class Patient:
    """Descent with the given learning rate or, where it diverges, a third of it, and so on: the paper's text gives no
    learning rates."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Array, y: Array) -> Any:
        for _ in range(12):
            try:
                return self.model.fit(X, y)
            except ValueError as error:
                if "diverged" not in str(error):
                    raise
            rate = self.model.get_params()["solver__learning_rate"] / 3
            self.model.set_params(solver__learning_rate=rate)
        raise ValueError(f"gradient descent still diverges with learning_rate={rate:.1g}")

    def predict(self, X: Array) -> Array:
        return self.model.predict(X)


def measure(model: Any, sample: Sample, *, all_rows: bool = False) -> dict[str, float]:
    """Fit, then the errors on training and test rows and the seconds of the fit."""
    X, y = (sample.X_all, sample.y_all) if all_rows else (sample.X, sample.y)
    begin = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - begin
    found = {
        "test_mse": float(np.mean((model.predict(sample.X_test) - sample.y_test) ** 2)),
        "train_mse": float(np.mean((model.predict(X) - y) ** 2)),
        "seconds": seconds,
    }
    if sample.f_test is not None:
        found["excess"] = float(np.mean((model.predict(sample.X_test) - sample.f_test) ** 2))
    return found


def band_of(model: Any, sample: Sample, score: str = "variance") -> dict[str, float]:
    """The 95 % band of a fitted model calibrated on the calibration rows: mean length and coverage on the test rows."""
    from sklearn.frozen import FrozenEstimator

    from mlkm import ConformalRegressor

    fitted = model.model if isinstance(model, Patient) else model
    band = ConformalRegressor(FrozenEstimator(fitted), confidence_level=0.95, score=score).conformalize(
        sample.X_cal, sample.y_cal
    )
    return lengths(band.predict_interval(sample.X_test)[1], sample.y_test)


def lengths(interval: Array, y: Array) -> dict[str, float]:
    """Mean length and coverage of intervals of shape (n, 2, 1)."""
    lower, upper = interval[:, 0, 0], interval[:, 1, 0]
    return {"length": float(np.mean(upper - lower)), "coverage": float(np.mean((lower <= y) & (y <= upper)))}
