"""The climb of an evidence: L-BFGS until its last steps together gain next to nothing.

The evidence: the marginal likelihood of targets Y (n, k) whose columns are N(0, K), and its gradient in the kernel.

Values and gradients are per row and output, so that they compare across sizes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize
from scipy.linalg import lapack

from .._types import Array
from ..runtime.deadline import search_is_late
from ..runtime.progress import advance
from ..runtime.threads import stop_if_asked


def climb(
    objective: Callable[[Array], tuple[float, Array]],
    begin: Array,
    bounds: Sequence[tuple[float, float]],
    max_iter: int,
    least_gain: tuple[float, int],
) -> Array:
    """Where the negative log evidence per row is low; a climb ends when so many steps together gain less than so much:
    a single one may be short, or when the search is late."""
    values: list[float] = []
    least, window = least_gain

    def enough(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        values.append(float(intermediate_result.fun))
        advance()
        if search_is_late() or (len(values) > window and values[-1 - window] - values[-1] < least):
            raise StopIteration

    def unless_stopped(x: Array) -> tuple[float, Array]:
        stop_if_asked()
        return objective(x)

    options: Any = {"maxiter": max_iter, "maxcor": 20, "ftol": 1e-9, "maxls": 10}
    result = scipy.optimize.minimize(
        unless_stopped, begin, jac=True, method="L-BFGS-B", bounds=bounds, callback=enough, options=options
    )
    advance(max_iter - len(values))  # those that were not needed
    return np.asarray(result.x)


IMPOSSIBLE = 1e3  # the value of a point where a factorisation fails: the line search turns back


def factor(A: Array) -> Array | None:
    """The lower Cholesky factor of A; None where A is not positive definite. A is overwritten: symmetric in C order, it
    is its own transpose in Fortran order, and LAPACK works in place."""
    L, failed = lapack.dpotrf(A.T, lower=1, overwrite_a=1)
    return None if failed else L


def inverse_of(L: Array) -> Array:
    """The inverse of L L'. L is overwritten."""
    lower = lapack.dpotri(L, lower=1, overwrite_c=1)[0]  # its other triangle is zero
    full: Array = lower + lower.T
    full[np.diag_indices(len(full))] /= 2
    return full


def kernel_evidence(K: Array, Y: Array) -> tuple[float, Array]:
    """Negative log evidence of targets N(0, K), K with the noise on its diagonal, and its gradient in K. K is
    overwritten."""
    n, k = Y.shape
    L = factor(K)
    if L is None:
        return IMPOSSIBLE, np.zeros_like(K)
    # In one piece: NumPy 1.26 rounds the logarithms of a view otherwise where their place in memory is right behind it.
    logdet = 2 * float(np.log(np.diag(L).copy()).sum())
    dK: Array = inverse_of(L)
    alpha = dK @ Y
    value = 0.5 * (float(np.vdot(Y, alpha)) + k * logdet)
    if k > 1:
        dK *= k
    dK -= alpha @ alpha.T
    dK *= 0.5 / (n * k)
    return value / (n * k), dK
