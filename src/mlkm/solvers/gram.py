"""The one sum behind every closed form: products of shifted features, block of rows by block.

    G = sum_i w_i (F_i - m)(F_i - m)',    B = sum_i w_i (F_i - m)(Y_i - y)',    m, y the weighted means.

Features are shifted by a guess of their mean before they are multiplied, so that no digits are lost to it. Products are
taken in the features' own precision within a block and added in float64: memory O(block x D + D^2), whatever the number
of rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._threads import side_by_side, stop_if_asked
from .._types import Array
from ..rows.pieces import BLOCK


@dataclass(frozen=True)
class Gram:
    """G (D, D) and B (D, k) of centred features and targets, their means, and the sum of the weights."""

    FF: Array
    FY: Array
    f_mean: Array
    y_mean: Array
    total: float


def shifted_sums(
    features: Callable[[slice], Array], Y: Array, weights: Array, shift: Array, begins: range, block: int = BLOCK
) -> tuple[Array, Array, Array]:
    """sum w F F', sum w F Y' and sum w F over the blocks that begin there, F less the shift: products in the precision
    of the features, which are overwritten, and sums in float64."""
    n, D = len(Y), len(shift)
    FF, FY, total = np.zeros((D, D)), np.zeros((D, Y.shape[1])), np.zeros(D)
    product: Array = np.empty((D, D), shift.dtype)  # kept: fresh memory costs a quarter of the product's time
    for begin in begins:
        stop_if_asked()
        at = slice(begin, min(begin + block, n))
        F = features(at)
        F -= shift
        w = weights[at].astype(F.dtype)
        total += w @ F
        FY += F.T @ (w[:, None] * Y[at]).astype(F.dtype)
        F *= np.sqrt(w)[:, None]
        FF += np.matmul(F.T, F, out=product)
    return FF, FY, total


def gram(
    features: Callable[[slice], Array],
    Y: Array,
    weights: Array,
    shift: Array | None = None,
    block: int = BLOCK,
    *,
    lanes: bool = False,
) -> Gram:
    """One pass over the rows, whose features are given by slices and are overwritten; `lanes` sums on two threads."""
    n, total = len(Y), float(weights.sum())
    y_mean = weights @ Y / total
    if shift is None:
        shift = features(slice(0, min(n, block, 1000))).mean(axis=0)

    def sums(begins: range) -> tuple[Array, Array, Array]:
        return shifted_sums(features, Y - y_mean, weights, shift, begins, block)

    if n <= block or not lanes:
        FF, FY, mean = sums(range(0, n, block))
    else:  # every second block to the same sum, on however many threads: the result is the same
        both = side_by_side(lambda: sums(range(0, n, 2 * block)), lambda: sums(range(block, n, 2 * block)), wide=True)
        FF, FY, mean = (even + odd for even, odd in zip(*both, strict=True))
    mean /= total
    FF -= total * np.outer(mean, mean)
    return Gram(FF, FY, mean + shift, y_mean, total)
