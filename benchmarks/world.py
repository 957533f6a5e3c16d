"""What calls of `benchmarks.entry_points` need, and what their results are to look like."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mlkm
from mlkm import solve as solvers

N, D = 60, 3


class World:
    """What calls need: rows, fitted models, files. Made once in every child."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        self.folder = folder
        self.X = rng.uniform(size=(N, D))
        self.y = self.X[:, 0] + np.sin(3 * self.X[:, 1]) + 0.1 * rng.standard_normal(N)
        self.w = rng.uniform(0.5, 1.5, N)
        self.frame = pd.DataFrame(self.X, columns=["a", "b", "c"])
        self.ridge = mlkm.RandomFeatureRidge(20, scale=1.0, penalty=1e-3, random_state=0).fit(self.X, self.y)
        self.model = mlkm.MLKMRegressor(effort="fast", random_state=0).fit(self.X, self.y)
        self.named = mlkm.RandomFeatureRidge(20, scale=1.0, penalty=1e-3, random_state=0).fit(self.frame, self.y)
        descent = solvers.GradientDescent(max_iter=3)
        self.deep = mlkm.MLKMRegressor((8, 4), scales=1.0, solver=descent, random_state=0).fit(self.X, self.y)
        self.band = mlkm.ConformalRegressor(self.unfitted(), random_state=0, confidence_level=0.8).fit(self.X, self.y)
        self.online = mlkm.OnlineConformal(self.unfitted(), random_state=0).fit(self.X, self.y)
        self.effects = self.ridge.effects(self.X)
        self.mean, both = self.band.predict_interval(self.X)
        self.interval = both[:, :, 0]
        self.table = folder / "table.csv"
        self.frame.assign(y=self.y, w=self.w).to_csv(self.table, index=False)
        self.other = folder / "other.csv"
        self.other.write_text(self.table.read_text())
        self.file = folder / "model.mlkm"
        mlkm.save(self.ridge, self.file)

    def path(self, name: str) -> str:
        """Where a file may be written."""
        return str(self.folder / name)

    def unfitted(self) -> Any:
        return mlkm.RandomFeatureRidge(20, scale=1.0, penalty=1e-3, random_state=0)


@dataclass(frozen=True)
class Entry:
    """A call, its good arguments, and what its result is to look like."""

    name: str
    call: Callable[..., Any]
    good: dict[str, Any]
    right: Callable[[Any, dict[str, Any]], bool] = lambda result, given: True


def finite(result: Any, given: dict[str, Any]) -> bool:
    """All numbers of a result are finite."""
    if isinstance(result, (tuple, list)):
        return all(finite(part, given) for part in result)
    if isinstance(result, (float, int, np.ndarray, np.generic)):
        return bool(np.isfinite(np.asarray(result, np.float64)).all())
    return True


def per_row(*tail: int) -> Callable[[Any, dict[str, Any]], bool]:
    """Finite, one for every row of X."""

    def right(result: Any, given: dict[str, Any]) -> bool:
        first = result[0] if isinstance(result, tuple) else result
        n = given["X"].shape[0] if hasattr(given["X"], "shape") and given["X"].shape else len(given["X"])
        return finite(result, given) and np.shape(first)[:1] == (n,) and np.shape(first)[1:] == tail

    return right


def fed(result: Any, given: dict[str, Any]) -> bool:
    """What an ONNX model takes: NaN where a cell is missing or masked, and nowhere else."""
    X = np.ma.asarray(given["X"])
    return result.shape == X.shape and bool((np.isfinite(result) == ~(X.mask | pd.isna(X.data))).all())


def an_interval(result: Any, given: dict[str, Any]) -> bool:
    """Infinite ends are right, and NaN is not."""
    mean, both = result
    return finite(mean, given) and not np.isnan(both).any() and len(both) == len(mean)


def no_nan(result: Any, given: dict[str, Any]) -> bool:
    return not np.isnan(np.asarray(result, np.float64)).any()


def predicts(result: Any, given: dict[str, Any]) -> bool:
    """A fitted model predicts its rows."""
    X = given["X"]
    values = result.predict(X)
    return finite(values, given) and len(values) == len(X)
