"""The evidence: the marginal likelihood of a Bayesian linear model, and its gradient with respect to the features or the kernel.

For targets Y (n, k) whose columns are N(0, F F' + s2 I), with A = F'F + s2 I, C = A^-1 F'Y and R = Y - F C, the negative log evidence has the
gradient

    d/dF = k F A^-1 - R C'/s2,

which costs O(n D^2) and needs no automatic differentiation. Values and gradients are per row and output, so that they compare across sizes.
"""

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from .._types import Array

IMPOSSIBLE = 1e3  # the value of a point where a factorisation fails: the line search turns back


def evidence(F: Array, Y: Array, noise: float) -> tuple[float, Array, float]:
    """Negative log evidence of centred features F, with its gradients in F and in the noise variance."""
    n, D = F.shape
    k = Y.shape[1]
    A = (F.T @ F).astype(np.float64)
    A[np.diag_indices(D)] += noise
    L, failed = lapack.dpotrf(A, lower=1, overwrite_a=1)
    if failed:
        return IMPOSSIBLE, np.zeros_like(F), 0.0
    FY = (F.T @ Y).astype(np.float64)
    C = scipy.linalg.cho_solve((L, True), FY, check_finite=False)
    R = Y - F @ C.astype(F.dtype)
    logdet = 2 * float(np.log(np.diag(L)).sum()) + (n - D) * np.log(noise)
    quadratic = (float(np.vdot(Y, Y)) - float(np.vdot(FY, C))) / noise
    inverse = _symmetric(lapack.dpotri(L, lower=1, overwrite_c=1)[0])
    dF = F @ (k * inverse).astype(F.dtype)
    dF -= R @ (C.T / noise).astype(F.dtype)
    dnoise = 0.5 * (k * ((n - D) / noise + float(np.trace(inverse))) - float(np.vdot(R, R)) / noise**2)
    scale = n * k
    return 0.5 * (k * logdet + quadratic) / scale, dF / F.dtype.type(scale), dnoise / scale


def kernel_evidence(K: Array, Y: Array) -> tuple[float, Array]:
    """Negative log evidence of targets N(0, K), K with the noise on its diagonal, and its gradient in K. K is overwritten."""
    n, k = Y.shape
    factor, invert = (lapack.spotrf, lapack.spotri) if K.dtype == np.float32 else (lapack.dpotrf, lapack.dpotri)
    L, failed = factor(K, lower=1, overwrite_a=1)
    if failed:
        return IMPOSSIBLE, np.zeros_like(K)
    alpha = scipy.linalg.cho_solve((L, True), Y, check_finite=False)
    value = 0.5 * (float(np.vdot(Y, alpha)) + 2 * k * float(np.log(np.diag(L).astype(np.float64)).sum()))
    dK = _symmetric(invert(L, lower=1, overwrite_c=1)[0])
    dK *= k
    dK -= alpha @ alpha.T
    dK *= K.dtype.type(0.5 / (n * k))
    return value / (n * k), dK


def _symmetric(lower: Array) -> Array:
    """The full matrix from its lower triangle."""
    full: Array = np.tril(lower)
    full += np.tril(lower, -1).T
    return full
