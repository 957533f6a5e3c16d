"""Peers that are more than a constructor call: searches, validation rows and rows left out, as scikit-learn style `fit`
and `predict`.

`seed` is the number of the split or the seed of the simulation. Inputs are standardised and targets have mean 0 and
variance 1 on the training rows, except for trees, which see the inputs as they came.
"""

from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.spatial.distance import cdist, pdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import _safe_indexing


def hold_out(n: int, seed: int, share: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to stop by."""
    order, n_validation = np.random.default_rng(3000 + seed).permutation(n), round(share * n)
    return order[n_validation:], order[:n_validation]


class GaussianKernelRidge:
    """Kernel ridge, (K + a I) w = y - mean(y) with k(x, x') = exp(-|x - x'|^2 / (2 l^2)).

    l (times the median distance) and a are chosen by 3-fold cross-validation on at most 3000 rows: the whole grid on
    the first fold, the best six pairs on the others (with at most 1200 rows the whole grid on all). The final fit uses
    at most 6000 rows.
    """

    lengths = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)
    ridges = (1e-6, 1e-4, 1e-3, 1e-2, 0.1, 1)

    def __init__(self, seed: int = 0, search_rows: int = 3000, fit_rows: int = 6000):
        self.seed, self.search_rows, self.fit_rows = seed, search_rows, fit_rows

    def fit(self, X: np.ndarray, y: np.ndarray) -> "GaussianKernelRidge":
        order = np.random.default_rng(4000 + self.seed).permutation(len(X))
        rows = order[: self.search_rows]
        median = np.median(pdist(X[order[:1000]]))
        grid = list(product(median * np.array(self.lengths), self.ridges))
        fold = np.arange(len(rows)) % 3
        errors = self._errors(X[rows], y[rows], fold == 0, grid)
        if len(rows) > 1200:
            grid = sorted(grid, key=lambda pair: errors[pair])[:6]
        for k in (1, 2):
            more = self._errors(X[rows], y[rows], fold == k, grid)
            errors = {pair: errors[pair] + more[pair] for pair in grid}
        self.length, self.ridge = min(grid, key=lambda pair: errors[pair])
        rows = order[: self.fit_rows]
        self.X, self.mean = X[rows], y[rows].mean()
        self.weights = self._solve(_squared_distances(self.X, self.X), self.length, y[rows] - self.mean, [self.ridge])[
            self.ridge
        ]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        blocks = np.array_split(X, max(1, len(X) // 2000))
        return (
            np.concatenate(
                [_gaussian(_squared_distances(block, self.X), self.length) @ self.weights for block in blocks]
            )
            + self.mean
        )

    def _errors(
        self, X: np.ndarray, y: np.ndarray, is_test: np.ndarray, grid: list[tuple[float, float]]
    ) -> dict[tuple[float, float], float]:
        """Mean squared error on one fold for every pair of length and ridge."""
        A, B = X[~is_test], X[is_test]
        inner, cross, mean = _squared_distances(A, A), _squared_distances(B, A), y[~is_test].mean()
        errors = dict.fromkeys(grid, np.inf)
        for length in {length for length, _ in grid}:
            ridges = [ridge for other, ridge in grid if other == length]
            K = _gaussian(cross, length)
            for ridge, weights in self._solve(inner, length, y[~is_test] - mean, ridges).items():
                errors[length, ridge] = float(np.mean((K @ weights + mean - y[is_test]) ** 2))
        return errors

    @staticmethod
    def _solve(
        squared_distances: np.ndarray, length: float, y: np.ndarray, ridges: Iterable[float]
    ) -> dict[float, np.ndarray]:
        """Weights by ridge, without those whose matrix is not positive definite in floating point."""
        K, solutions = _gaussian(squared_distances, length), {}
        for ridge in ridges:
            np.fill_diagonal(K, 1 + ridge)
            with suppress(LinAlgError):
                solutions[ridge] = cho_solve(cho_factor(K), y)
        return solutions


def _squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return cdist(A, B, "sqeuclidean")


def _gaussian(squared_distances: np.ndarray, length: float) -> np.ndarray:
    return np.exp(squared_distances / (-2 * length**2))


class FourierRidge:
    """scikit-learn's `RBFSampler` and `RidgeCV`; the length scale by the leave-one-out error of `RidgeCV` on at most
    2000 rows."""

    lengths = (1 / 4, 1 / 2, 1, 2, 4)

    def __init__(self, seed: int = 0, n_features: int = 1000, search_rows: int = 2000):
        self.seed, self.n_features, self.search_rows = seed, n_features, search_rows

    def fit(self, X: np.ndarray, y: np.ndarray) -> "FourierRidge":
        rows = np.random.default_rng(4000 + self.seed).permutation(len(X))[: self.search_rows]
        median = np.median(pdist(X[rows[:1000]]))
        scores = {
            length: self._pipeline(length * median, min(500, self.n_features)).fit(X[rows], y[rows])[-1].best_score_
            for length in self.lengths
        }
        self.model = self._pipeline(max(scores, key=lambda length: scores[length]) * median, self.n_features).fit(X, y)
        return self

    def _pipeline(self, length: float, n_features: int) -> Any:
        sampler = RBFSampler(gamma=1 / (2 * length**2), n_components=n_features, random_state=self.seed)
        return make_pipeline(sampler, RidgeCV(alphas=np.logspace(-6, 3, 19)))

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(X)


class StoppedTrees:
    """A boosting library's regressor, stopped when the error on a tenth of the rows has not fallen for 50 rounds."""

    def __init__(self, model: Any, seed: int, **fit_options: Any):
        self.model, self.seed, self.fit_options = model, seed, fit_options

    def fit(self, X: np.ndarray, y: np.ndarray) -> "StoppedTrees":
        rows, validation = hold_out(len(X), self.seed)
        inside, outside = (_safe_indexing(X, at) for at in (rows, validation))
        self.model.fit(inside, y[rows], eval_set=[(outside, y[validation])], **self.fit_options)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(X)


class GaussianProcess:
    """scikit-learn's Gaussian process with a scale for every input and a noise term, on at most 1500 rows."""

    def __init__(self, seed: int = 0, most_rows: int = 1500):
        self.seed, self.most_rows = seed, most_rows

    def fit(self, X: np.ndarray, y: np.ndarray) -> "GaussianProcess":
        d = X.shape[1]
        kernel = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(np.full(d, np.sqrt(d)), (1e-2, 1e4)) + WhiteKernel(
            0.1, (1e-8, 10)
        )
        rows = np.random.default_rng(4000 + self.seed).permutation(len(X))[: self.most_rows]
        self.model = GaussianProcessRegressor(kernel, random_state=self.seed).fit(X[rows], y[rows])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(X)


class RecursiveFeatureMachine:
    """xRFM with its defaults, in float32, the iteration chosen on a tenth of the rows; at most 9000 rows to fit and
    1000 to choose by."""

    def __init__(self, seed: int = 0, most_rows: int = 10_000):
        self.seed, self.most_rows = seed, most_rows

    def fit(self, X: np.ndarray, y: np.ndarray) -> "RecursiveFeatureMachine":
        import torch
        from xrfm import xRFM

        rows, validation = hold_out(len(X), self.seed)
        rows, validation = rows[: self.most_rows - self.most_rows // 10], validation[: self.most_rows // 10]
        arrays = [
            torch.from_numpy(a.astype(np.float32)) for a in (X[rows], y[rows, None], X[validation], y[validation, None])
        ]
        self.model = xRFM(device=torch.device("cpu"), tuning_metric="mse", random_state=self.seed, verbose=False)
        self.model.fit(*arrays)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        import torch

        return np.asarray(self.model.predict(torch.from_numpy(X.astype(np.float32)))).ravel()


class Float32:
    """A model that is given float32 inputs and targets."""

    def __init__(self, model: Any):
        self.model = model

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Float32":
        self.model.fit(X.astype(np.float32), y.astype(np.float32))
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict(X.astype(np.float32)), dtype=np.float64).ravel()
