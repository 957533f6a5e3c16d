"""Whether few rows bear a search: with hundreds of scales and amplitudes the evidence can fit noise, and leave-one-out
on the features it leaves does not notice. Rows that the search has not seen do. Where they say no, there is one scale
for all inputs."""

from collections.abc import Callable

import numpy as np

from .._seeds import generator
from ..kernels import Kernel
from ..model.features import draw_features
from ..model.machine import predict
from ..model.prior import FirstLayer, Part
from ..rows import Rows
from ..solvers.blocked import loo
from ..solvers.ridge import ridge
from .width import fit_last_layer

_FEW_ROWS, _PER_INPUT, _MANY_ROWS = (
    300,
    10,
    1800,
)  # rows up to which a search is doubted: 300, or ten per input; never with rows left for a check
_LEAST = 10  # rows with which there is something to hold out
_FEATURES = 1500  # of the plain layer: many cost little here, and 300 lose 5 to 10 % on 700 rows of YearPredictionMSD
_SCALES, _SCALE_ROWS = (0.1, 0.25, 0.5, 1.0, 2.0), 700  # times 1/sqrt(order), and by how many rows they are compared


def doubtful(n: int, d: int) -> bool:
    """Whether n rows of d inputs are too few to trust a search unseen."""
    return _LEAST <= n <= max(_FEW_ROWS, _PER_INPUT * d) and n < _MANY_ROWS


def search_pays(rows: Rows, learned: Callable[[Rows], FirstLayer], plain: Callable[[Rows], FirstLayer]) -> bool:
    """Whether a layer learned from some rows predicts the others better than a plain one does; the others are m rows, a
    third, or half of up to 100.

    Better is by a share of 1/sqrt(m), about one standard error of such a comparison.
    """
    n = len(rows.X)
    held_out = np.arange(n) % (2 if n <= 100 else 3) == 0
    part, errors = rows.take(np.flatnonzero(~held_out)), []
    for make in (learned, plain):
        _, machine, _ = fit_last_layer(make(part), part, None)
        residuals = predict(machine, rows.X[held_out]) - rows.Y[held_out]
        errors.append(float(rows.weights[held_out] @ (residuals**2).sum(axis=1)))
    return bool(errors[0] < (1 - 1 / np.sqrt(held_out.sum())) * errors[1])


def plain_layer(
    rows: Rows, kernel: Kernel, order: int, slopes: tuple[float, ...], D: int | None, seed: int
) -> FirstLayer:
    """Features of one order at one scale for all inputs, and a linear term with one of the prior standard deviations
    `slopes` (none if there are none), both by leave-one-out."""
    X, Y, weights = rows.X[:_SCALE_ROWS], rows.Y[:_SCALE_ROWS], rows.weights[:_SCALE_ROWS]
    d = X.shape[1]
    candidates, errors = [], []
    for factor in _SCALES:
        phi = draw_features(generator(seed), d, D or _FEATURES, kernel, factor / np.sqrt(order), (order,))
        for slope in slopes or (None,):
            candidates.append(FirstLayer((Part(None, phi, 1.0),), None if slope is None else np.full(d, slope), 1e-2))
            errors.append(loo(ridge(candidates[-1].rows_of_features(X), Y, weights)))
    return candidates[int(np.argmin(errors))]
