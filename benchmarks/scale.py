"""Time and memory at sizes that matter, each against something measured in the same run.

* `sgemm`: `RandomFeatureRidge(n_features=2000)` on 200,000 x 30 in float32, beside the bare product Phi'Phi of that
  size.
* `rows`: 500,000 rows of Friedman's function with 15 inputs more than it uses and noise of variance 1, beside LightGBM.
* `grid`: 4000 rows of Example 1 with d = 8, beside kernel ridge with a 5 x 5 grid search.

The error is the mean squared distance to the noiseless truth.
"""

import numpy as np
from scipy.linalg.blas import sgemm

from mlkm.datasets import make_example1

from .problem import Problem, standardised

MODELS = {"sgemm": ["sgemm", "rfr2000"], "rows": ["mlkm", "lightgbm"], "grid": ["mlkm", "krr-grid"]}
SETS = list(MODELS)
LABELS = {"sgemm": "200,000 x 30, float32, 2000 features", "rows": "500,000 x 20", "grid": "Example 1, 4000 x 8"}


def load(name: str, seed: int) -> Problem:
    if name == "grid":
        X, y, _ = make_example1(4000, 8, random_state=seed)
        X_test, _, truth = make_example1(4000, 8, random_state=5000 + seed)
        return standardised(X, y, X_test, truth)
    if name == "rows":
        return standardised(*_friedman(500_000, 20, seed))
    X, y, X_test, truth = (a.astype(np.float32) for a in _friedman(200_000, 30, seed))
    return Problem(X, y, X_test, truth, X, X_test)


def _friedman(n: int, d: int, seed: int, n_test: int = 10_000) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Friedman's function of five of d uniform inputs: noisy training targets, noiseless test targets."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.uniform(size=(n + n_test, d))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X[:n], f[:n] + rng.standard_normal(n), X[n:], f[n:]


class Product:
    """Phi'Phi of n x 2000 numbers by one call of sgemm: the floor of any fit that solves for 2000 weights. It predicts
    zero.

    NumPy would notice that both factors are the same matrix and compute half of the product.
    """

    def __init__(self, n_features: int = 2000):
        self.n_features = n_features

    def prepare(self, n: int) -> None:
        """Allocate the features, which are not part of the time."""
        self.features = np.random.default_rng(0).standard_normal((n, self.n_features), dtype=np.float32)

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Product":
        self.product = sgemm(1.0, self.features.T, self.features.T, trans_b=True)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.zeros(len(X))
