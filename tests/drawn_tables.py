"""Small tables of numbers as hypothesis draws them, and the models that are fitted to them."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st
from sklearn.base import clone

from mlkm import MLKMRegressor, RandomFeatureRidge, RKMRegressor
from mlkm.solve import GradientDescent

EXPLICIT = {
    "widths": (16, 6),
    "kernels": "gaussian",
    "scales": (0.8, 1.0),
    "interactions": "full",
    "relevance": False,
    "linear": False,
    "penalty": 1e-4,
    "solver": GradientDescent(2e-3, max_iter=40),
    "random_state": 0,
}
BATCHES = {"solver": GradientDescent(2e-3, max_iter=40, batch_size=16)}
RIDGE = {"kernel": "matern", "interactions": (1, "full"), "linear": True, "random_state": 0}

# Features of a given scale do not depend on the rows, so that rows can be added and taken away.
HELD = {
    "ridge": RandomFeatureRidge(40, scale=0.5, penalty=1e-3, **RIDGE),
    "mlkm-ridge": MLKMRegressor(**EXPLICIT | {"widths": (40,), "scales": 0.5, "solver": "ridge"}),
}
DESCENT = {
    "mlkm": MLKMRegressor(**EXPLICIT),
    "mlkm-linear": MLKMRegressor(**EXPLICIT | {"linear": True, "interactions": 2}),
    "mlkm-batches": MLKMRegressor(**EXPLICIT | BATCHES),
    "rkm-deep": RKMRegressor(**EXPLICIT | {"widths": (16, 8, 4), "scales": 0.8}),
    "rkm-rotate-batches": RKMRegressor(**EXPLICIT | BATCHES, cv="rotate"),
}
LEARNED = {
    "ridge-auto": RandomFeatureRidge(random_state=0),
    "mlkm-auto": MLKMRegressor(random_state=0),
}
ALL = HELD | DESCENT | LEARNED


def every(models):
    return pytest.mark.parametrize("model", [pytest.param(model, id=name) for name, model in models.items()])


@dataclass(frozen=True)
class Drawn:
    """Rows with distinct values, with ties within columns, or each repeated with another y, and as targets a smooth
    function of them with noise."""

    n: int
    d: int
    seed: int
    kind: str

    @property
    def rows(self):
        rng = self.rng
        X = rng.normal(1, 1, (self.n, self.d))
        if self.kind == "ties":
            X = np.round(2 * X) / 2
        if self.kind == "twice":
            X[self.n // 2 :] = X[: self.n - self.n // 2]
        return X, 3 + np.sin(X[:, 0]) + X[:, -1] + 0.2 * rng.standard_normal(self.n)

    @property
    def rng(self):
        return np.random.default_rng(self.seed)


tables = st.builds(
    Drawn,
    st.integers(20, 50),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["plain", "ties", "twice"]),
)


def fit_predict(model, X, y, new=None, **options):
    return clone(model).fit(X, y, **options).predict(X if new is None else new)
