"""The evidence: the marginal likelihood of a Bayesian linear model, and its gradient with respect to the features or
the kernel.

For targets Y (n, k) whose columns are N(0, F F' + s2 I), with A = F'F + s2 I, C = A^-1 F'Y and R = Y - F C, the
negative log evidence has the gradient

    d/dF = k F A^-1 - R C'/s2,

which costs O(n D^2) and needs no automatic differentiation. Values and gradients are per row and output, so that they
compare across sizes.
"""

import numpy as np
from scipy.linalg import lapack

from .._types import Array

IMPOSSIBLE = 1e3  # the value of a point where a factorisation fails: the line search turns back
_MILD = 3e5  # sum of squares of the features per noise variance up to which float32 will do


def evidence(F: Array, Y: Array, noise: float) -> tuple[float, Array, float]:
    """Negative log evidence of centred features F, with its gradients in F and in the noise variance.

    Features may be in float32, factors are always in float64, and so are sums of products where the noise is small
    beside them: in float32 the value would be off by up to 1e-3 per row there, and a line search lost in the rounding.
    Elsewhere it is off by less than 1e-5.
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
    """By the D x D matrix A = F'F + s2 I. Y'(FF' + s2 I)^-1 Y is the least value of |Y - FC|^2/s2 + |C|^2, which errors
    of C enter squared."""
    n, D = F.shape
    k = Y.shape[1]
    rounded = F.dtype == np.float32 and float(np.vdot(F, F)) < _MILD * noise
    wide = F if rounded else F.astype(np.float64, copy=False)
    A: Array = (wide.T @ wide).astype(np.float64, copy=False)
    A[np.diag_indices(D)] += noise
    L = factor(A)
    if L is None:
        return IMPOSSIBLE, np.zeros_like(F), 0.0
    C = lapack.dpotrs(L, wide.T @ Y.astype(wide.dtype, copy=False), lower=1)[0]
    R = Y - wide @ C.astype(wide.dtype, copy=False)
    logdet = 2 * float(np.log(np.diag(L)).sum()) + (n - D) * np.log(noise)
    quadratic = float(np.vdot(R, R)) / noise + float(np.vdot(C, C))
    inverse = inverse_of(L.astype(np.float32) if rounded else L)
    scale = n * k
    dF = F @ (inverse / n).astype(F.dtype, copy=False)
    dF -= R.astype(F.dtype) @ (C.T / (noise * scale)).astype(F.dtype)
    dnoise = 0.5 * (k * ((n - D) / noise + float(np.trace(inverse))) - float(np.vdot(R, R)) / noise**2)
    return 0.5 * (k * logdet + quadratic) / scale, dF, dnoise / scale


def factor(A: Array) -> Array | None:
    """The lower Cholesky factor of A; None where A is not positive definite. A is overwritten: symmetric in C order, it
    is its own transpose in Fortran order, and LAPACK works in place."""
    L, failed = lapack.dpotrf(A.T, lower=1, overwrite_a=1)
    return None if failed else L


def inverse_of(L: Array) -> Array:
    """The inverse of L L'. L is overwritten."""
    invert = lapack.spotri if L.dtype == np.float32 else lapack.dpotri
    lower = invert(L, lower=1, overwrite_c=1)[0]  # its other triangle is zero
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
    logdet = 2 * float(np.log(np.diag(L)).sum())
    dK: Array = inverse_of(L)
    alpha = dK @ Y
    value = 0.5 * (float(np.vdot(Y, alpha)) + k * logdet)
    if k > 1:
        dK *= k
    dK -= alpha @ alpha.T
    dK *= 0.5 / (n * k)
    return value / (n * k), dK
