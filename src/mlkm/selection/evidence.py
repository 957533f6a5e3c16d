"""The evidence: the marginal likelihood of a Bayesian linear model, and its gradient with respect to the features or the kernel.

For targets Y (n, k) whose columns are N(0, F F' + s2 I), with A = F'F + s2 I, C = A^-1 F'Y and R = Y - F C, the negative log evidence has the
gradient

    d/dF = k F A^-1 - R C'/s2,

which costs O(n D^2) and needs no automatic differentiation. Values and gradients are per row and output, so that they compare across sizes.
"""

import numpy as np
from scipy.linalg import lapack

from .._types import Array

IMPOSSIBLE = 1e3  # the value of a point where a factorisation fails: the line search turns back


def evidence(F: Array, Y: Array, noise: float) -> tuple[float, Array, float]:
    """Negative log evidence of centred features F, with its gradients in F and in the noise variance.

    Features may be in float32, sums of products and factors are always in float64: in float32 the value would be off by up to 1e-3 per row, and a
    line search lost in the rounding.
    """
    n, D = F.shape
    return _from_rows(F, Y.astype(np.float64), noise) if n < D else _from_features(F, Y.astype(np.float64), noise)


def _from_rows(F: Array, Y: Array, noise: float) -> tuple[float, Array, float]:
    """By the n x n matrix F F' + s2 I."""
    wide = F.astype(np.float64, copy=False)
    K = wide @ wide.T
    K[np.diag_indices(len(K))] += noise
    value, dK = kernel_evidence(K, Y)
    return value, (2 * dK).astype(F.dtype) @ F, float(np.trace(dK))


def _from_features(F: Array, Y: Array, noise: float) -> tuple[float, Array, float]:
    """By the D x D matrix F'F + s2 I."""
    n, D = F.shape
    k = Y.shape[1]
    wide = F.astype(np.float64, copy=False)
    A = wide.T @ wide
    A[np.diag_indices(D)] += noise
    L, inverse = factor_and_inverse(A)
    if inverse is None:
        return IMPOSSIBLE, np.zeros_like(F), 0.0
    C = inverse @ (wide.T @ Y)
    R = Y - wide @ C
    logdet = 2 * float(np.log(L).sum()) + (n - D) * np.log(noise)
    quadratic = float(np.vdot(Y, R)) / noise
    scale = n * k
    dF = F @ (inverse / n).astype(F.dtype)
    dF -= R.astype(F.dtype) @ (C.T / (noise * scale)).astype(F.dtype)
    dnoise = 0.5 * (k * ((n - D) / noise + float(np.trace(inverse))) - float(np.vdot(R, R)) / noise**2)
    return 0.5 * (k * logdet + quadratic) / scale, dF, dnoise / scale


def factor_and_inverse(A: Array) -> tuple[Array, Array | None]:
    """The diagonal of the Cholesky factor of A, and the inverse of A; None where A is not positive definite. A is overwritten."""
    factor, invert = (lapack.spotrf, lapack.spotri) if A.dtype == np.float32 else (lapack.dpotrf, lapack.dpotri)
    # A symmetric matrix in C order is its own transpose in Fortran order: LAPACK works in place.
    L, failed = factor(A.T, lower=1, overwrite_a=1)
    if failed:
        return np.zeros(0), None
    diagonal = np.diag(L).copy()
    inverse = invert(L, lower=1, overwrite_c=1)[0]
    return diagonal, _symmetric(inverse)


def kernel_evidence(K: Array, Y: Array) -> tuple[float, Array]:
    """Negative log evidence of targets N(0, K), K with the noise on its diagonal, and its gradient in K. K is overwritten."""
    n, k = Y.shape
    L, inverse = factor_and_inverse(K)
    if inverse is None:
        return IMPOSSIBLE, np.zeros_like(K)
    alpha = inverse @ Y
    value = 0.5 * (float(np.vdot(Y, alpha)) + 2 * k * float(np.log(L.astype(np.float64)).sum()))
    dK: Array = inverse
    if k > 1:
        dK *= K.dtype.type(k)
    dK -= alpha @ alpha.T
    dK *= K.dtype.type(0.5 / (n * k))
    return value / (n * k), dK


def _symmetric(lower: Array) -> Array:
    """The full matrix from its lower triangle."""
    full: Array = np.tril(lower)
    full += np.tril(lower, -1).T
    return full
