"""Conjugate gradients for (K + diag(ridge)) alpha = Y, preconditioned by Nystroem's approximation of K at some rows.

With M landmarks, C = K_nM and K_MM = R R', the approximation is C K_MM^{-1} C' = B B', B = C R^{-T}. Its leading
eigenvectors U and eigenvalues l give the preconditioner

    P^{-1} = I - U diag(1 - (l_last + s) / (l + s)) U',

in which nothing cancels: it is positive in any precision.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg import blas

from .._threads import stop_if_asked
from .._types import Array

LANDMARKS = 1000  # of the preconditioner; n M^2 sums
_STEPS = 50
TOLERANCE = 0.05  # what is missing, relative to the residuals of the fit
_LOST = 1e-6  # eigenvalues, relative to the largest, that are lost in the rounding of float32


@dataclass(frozen=True)
class Preconditioner:
    """U (n, r) and 1 - (l_last + s) / (l + s)."""

    U: Array
    shrink: Array

    def __call__(self, r: Array) -> Array:
        inner = self.U.T @ r.astype(self.U.dtype)
        return np.asarray(r - self.U @ (self.shrink[:, None] * inner))


def preconditioner(K: Array, ridge: Array) -> Preconditioner:
    """For the system K, with the ridge on its diagonal."""
    n, s = len(K), float(np.mean(ridge))
    M = min(LANDMARKS, n)
    C = np.ascontiguousarray(K[:, :M])
    C[np.diag_indices(M)] -= ridge[:M].astype(C.dtype)
    A = C[:M].astype(np.float64)
    A[np.diag_indices(M)] += 1e-5 * np.trace(A) / M
    R = np.linalg.cholesky(A)
    B = C @ scipy.linalg.solve_triangular(R, np.eye(M), lower=True).T.astype(C.dtype)
    values, V = np.linalg.eigh((B.T @ B).astype(np.float64))
    kept = values > _LOST * values[-1]
    values, V = values[kept], V[:, kept]
    U = B @ (V / np.sqrt(values)).astype(B.dtype)
    return Preconditioner(U, (1 - (values[0] + s) / (values + s)).astype(U.dtype))


def conjugate_gradients(
    K: Array, Y: Array, ridge: Array, precondition: Preconditioner, tolerance: float = TOLERANCE
) -> Array:
    """alpha (n, k) with K alpha near Y, each column until what is missing is a share of what the fit leaves of Y, ridge
    times alpha. K is float32, symmetric and has the ridge on its diagonal."""
    alpha, residual = np.zeros_like(Y), Y.copy()
    z = precondition(residual)
    direction, size = z.copy(), (residual * z).sum(axis=0)
    going = np.arange(Y.shape[1])
    for _ in range(_STEPS):
        stop_if_asked()
        image = _product(K, direction)
        step = size / np.maximum((direction * image).sum(axis=0), 1e-300)
        alpha[:, going] += step * direction
        residual -= step * image
        left = ((ridge[:, None] * alpha[:, going]) ** 2).sum(axis=0)
        far = (residual**2).sum(axis=0) > tolerance**2 * left
        if not far.any():
            break
        going, residual, direction, size = going[far], residual[:, far], direction[:, far], size[far]
        z = precondition(residual)
        new = (residual * z).sum(axis=0)
        direction = z + (new / np.maximum(size, 1e-300)) * direction
        size = new
    return alpha


def _product(K: Array, V: Array) -> Array:
    """K V, column by column: with one triangle of K half of the memory is read."""
    columns = [blas.ssymv(1.0, K.T, v, lower=1) for v in V.T.astype(np.float32)]
    return np.stack(columns, axis=1).astype(np.float64)
