"""What `mlkm demo` computes: what each step from kernel ridge to MLKM buys, and the published machines, each with a
95 % band.

The data are Example 2 of the paper with ten inputs, of which the first acts through three others as well, and a
staircase in the fifth: something for single inputs, for relevances and for the rough kernel to find. They were chosen
to show each step.
"""

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
from ..datasets import example2_truth, make_example2
from ..estimators import MLKMRegressor, RandomFeatureRidge, RKMRegressor
from ..solve import GradientDescent

N_INPUTS = 10
_STEPS = np.array([0.86, -2.0, 0.28, 2.0, -0.86, 1.42, -1.42, -0.28])  # heights of the staircase, left to right


@dataclass(frozen=True)
class DemoData:
    """Training and calibration rows with noise, test rows with and without; `stairs` says whether the truth has the
    staircase."""

    X: Array
    y: Array
    X_calibration: Array
    y_calibration: Array
    X_test: Array
    y_test: Array
    f_test: Array
    stairs: bool

    def truth(self, X: Array) -> Array:
        """The noiseless mean at rows in [0, 1)."""
        return example2_truth(X) + (staircase(X) if self.stairs else 0.0)


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


def staircase(X: Array) -> Array:
    """A step function of the fifth input: eight steps of equal length."""
    steps: Array = _STEPS[np.minimum((len(_STEPS) * X[:, 4]).astype(np.intp), len(_STEPS) - 1)]
    return steps


def draw_data(n: int, seed: int, *, stairs: bool = True) -> DemoData:
    samples = []
    for rows, own in ((n, seed), (n, seed + 2), (4000, seed + 1)):
        X, y, f = make_example2(rows, N_INPUTS, random_state=own)
        steps = staircase(X) if stairs else np.zeros(rows)
        samples.append((X, y + steps, f + steps))
    (X, y, _), (X_calibration, y_calibration, _), (X_test, y_test, f_test) = samples
    return DemoData(X, y, X_calibration, y_calibration, X_test, y_test, f_test, stairs)


def steps_to_mlkm(seed: int) -> list[tuple[str, Any]]:
    """From kernel ridge with its usual grid search to our default, one step at a time."""
    grid = {"kernelridge__alpha": np.logspace(-2, 0, 3), "kernelridge__gamma": np.logspace(-2.5, -1, 3)}
    one_scale: dict[str, Any] = {"n_features": 400, "relevance": False, "linear": False, "random_state": seed}
    return [
        (
            "kernel ridge, 3 x 3 grid",
            GridSearchCV(make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")), grid, cv=3),
        ),
        ("random features, one scale", RandomFeatureRidge(interactions="full", **one_scale)),
        ("+ single inputs", RandomFeatureRidge(interactions=(1, "full"), **one_scale)),
        ("+ relevances learned", RandomFeatureRidge(random_state=seed)),
        ("+ kernels at all rows = MLKM", MLKMRegressor(random_state=seed)),
    ]


def published_machines(seed: int) -> list[tuple[str, Any]]:
    """The paper's two machines, trained as in its Algorithm 1 without rotations."""
    descent = GradientDescent(1e-3, momentum=0.9, batch_size=128, max_iter=400, patience=100)
    paper: dict[str, Any] = {"penalty": 1e-4, "cv": None, "solver": descent, "random_state": seed}
    return [
        ("MLKM as published, 400 epochs", MLKMRegressor.published((64, 8), 1.0, **paper)),
        ("RKM as published, 400 epochs", RKMRegressor.published((64, 8), 1.0, **paper)),
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
