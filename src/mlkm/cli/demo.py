"""What `mlkm demo` computes: models on Example 1 with d = 8, each with a 95 % band."""

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .. import metrics
from .._types import Array
from ..conformal import ConformalRegressor
from ..datasets import make_example1
from ..estimators import MLKMRegressor, RandomFeatureRidge, RKMRegressor
from ..solvers import GradientDescent


@dataclass(frozen=True)
class DemoData:
    """Training and calibration rows with noise, test rows with and without."""

    X: Array
    y: Array
    X_calibration: Array
    y_calibration: Array
    X_test: Array
    y_test: Array
    f_test: Array


@dataclass(frozen=True)
class Result:
    """One fitted model with its test error and its band; `excess` is the mean squared distance to the noiseless
    truth."""

    name: str
    model: Any
    mse: float
    excess: float
    seconds: float
    band: ConformalRegressor
    coverage: float
    length: float


def draw_data(n: int, seed: int) -> DemoData:
    X, y, _ = make_example1(n, d=8, random_state=seed)
    X_calibration, y_calibration, _ = make_example1(n, d=8, random_state=seed + 2)
    X_test, y_test, f_test = make_example1(4000, d=8, random_state=seed + 1)
    return DemoData(X, y, X_calibration, y_calibration, X_test, y_test, f_test)


def competitors(seed: int) -> list[tuple[str, Any]]:
    """Kernel ridge with its usual grid search, the paper's two published machines, and our one-layer and default
    fits."""
    grid = {"kernelridge__alpha": np.logspace(-3, 0, 4), "kernelridge__gamma": np.logspace(-2.5, -1, 4)}
    kernel_ridge = GridSearchCV(make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")), grid, cv=3)
    descent = GradientDescent(1e-3, momentum=0.9, batch_size=128, max_iter=400, patience=100)
    paper: dict[str, Any] = {"penalty": 1e-4, "cv": None, "solver": descent, "random_state": seed}
    return [
        ("kernel ridge (4 x 4 grid)", kernel_ridge),
        ("random features", RandomFeatureRidge(random_state=seed)),
        ("MLKM as published, 400 epochs", MLKMRegressor.published((64, 8), 1.0, **paper)),
        ("RKM as published, 400 epochs", RKMRegressor.published((64, 8), 1.0, **paper)),
        ("MLKM", MLKMRegressor(random_state=seed)),
    ]


def fit_and_score(name: str, model: Any, data: DemoData) -> Result:
    begin = time.perf_counter()
    mean = data.y.mean()  # kernel ridge has no intercept; the others do not mind
    model.fit(data.X, data.y - mean)
    seconds = time.perf_counter() - begin
    prediction = model.predict(data.X_test) + mean
    mse = float(np.mean((prediction - data.y_test) ** 2))
    score: Literal["variance", "absolute"] = "variance" if hasattr(model, "machines_") else "absolute"
    band = ConformalRegressor(model, score=score).conformalize(data.X_calibration, data.y_calibration - mean)
    interval = band.predict_interval(data.X_test)[1]
    share = metrics.coverage(data.y_test - mean, interval).share
    return Result(
        name,
        model,
        mse,
        float(np.mean((prediction - data.f_test) ** 2)),
        seconds,
        band,
        share,
        metrics.mean_width(interval),
    )
