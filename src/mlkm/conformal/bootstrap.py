"""The paper's baseline: the basic bootstrap. It is an interval for f(x), and has no guarantee for y."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from .._types import Array
from ..runtime.seeds import Purpose, generator
from .request import Request, as_interval, check_weights
from .scores import columns
from .wrapped_estimator import fit_regressor

_REPLICATES = 80  # as in the paper


@dataclass(frozen=True)
class Bootstrap:
    """A fit to all rows, and fits to rows drawn with replacement."""

    model: Any
    replicates: tuple[Any, ...]
    n_calibration: int

    @property
    def n_outputs(self) -> int:
        return len(self.model.y_scaler_.mean)

    def interval(self, X: Any, request: Request) -> tuple[Array, Array]:
        """f and [2f - q_high, 2f - q_low]: without the noise of y, it covers y less often than its level says."""
        if request.groups is not None or request.joint:
            raise ValueError("method='bootstrap' has no groups and no joint intervals; take method='split'.")
        check_weights(None, request)
        mean = columns(self.model.predict(X))
        fits = np.stack([columns(model.predict(X)) for model in self.replicates])
        tails = np.array([float(1 - level) / (2 if request.side == "both" else 1) for level in request.levels])
        low, high = (np.moveaxis(np.quantile(fits, share, axis=0), 0, 1) for share in (tails, 1 - tails))
        lower, upper = 2 * mean[:, None, :] - high, 2 * mean[:, None, :] - low
        return mean, as_interval(lower, upper, request.side, (lower + upper) / 2)


def fit_bootstrap(estimator: Any, X: Any, y: Array, seed: int, weights: Array | None = None) -> Bootstrap:
    """Rows are drawn with replacement, each with its weight."""
    fits = [fit_regressor(estimator, X, y, weights)[0]]
    for b in range(_REPLICATES):
        rows = generator(seed, Purpose.BOOTSTRAP, b).integers(len(y), size=len(y))
        own = None if weights is None else weights[rows]
        fits.append(fit_regressor(estimator, _safe_indexing(X, rows), y[rows], own)[0])
    return Bootstrap(fits[0], tuple(fits[1:]), len(y))
