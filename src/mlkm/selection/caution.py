"""Whether few rows bear a search: with hundreds of scales and amplitudes the evidence can fit noise, and leave-one-out on the features it leaves does
not notice. Rows that the search has not seen do."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .._types import IntArray
from ..machine import predict
from ..rows import Rows
from .first_layer import FirstLayer
from .last_layer import fit_last_layer

_FEW_ROWS, _PER_INPUT, _MANY_ROWS = 300, 10, 1800  # rows up to which a search is doubted: 300, or ten per input; never with rows left for a check
_LEAST = 10  # rows with which there is something to hold out
_WORTH = 0.95  # share of the plain error that the learned one must stay below


def doubtful(n: int, d: int) -> bool:
    """Whether n rows of d inputs are too few to trust a search unseen."""
    return _LEAST <= n <= max(_FEW_ROWS, _PER_INPUT * d) and n < _MANY_ROWS


def search_pays(rows: Rows, learned: Callable[[Rows], FirstLayer], plain: Callable[[Rows], FirstLayer]) -> bool:
    """Whether a layer learned from some rows predicts the others better than a plain one does; the others are a third, or half of up to 100 rows."""
    n = len(rows.X)
    held_out = np.arange(n) % (2 if n <= 100 else 3) == 0
    part, errors = _some(rows, np.flatnonzero(~held_out)), []
    for make in (learned, plain):
        _, machine, _ = fit_last_layer(make(part), part, None)
        residuals = predict(machine, rows.X[held_out]) - rows.Y[held_out]
        errors.append(float(rows.weights[held_out] @ (residuals**2).sum(axis=1)))
    return bool(errors[0] < _WORTH * errors[1])


def _some(rows: Rows, index: IntArray) -> Rows:
    weights = rows.weights[index] / rows.weights[index].mean()
    return replace(rows, X=rows.X[index], Y=rows.Y[index], weights=weights, copies=rows.copies[index], fold=None, place=np.arange(len(index)))
