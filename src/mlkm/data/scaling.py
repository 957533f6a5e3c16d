"""Inputs and targets are standardised inside every estimator, so that scales, penalties and learning rates mean the
same on all data."""

from dataclasses import dataclass

import numpy as np

from .._types import Array, BoolArray

_LARGEST = 1e300  # magnitude up to which differences, limits and intervals do not overflow
_FURTHEST = 1e100  # standard deviations up to which sums of squares of inputs do not overflow
ROUNDING = 64 * float(np.finfo(np.float64).eps)  # variation, relative to the largest magnitude, that is rounding error


@dataclass(frozen=True)
class Standardiser:
    """z = (x - mean) / sd, column by column.

    A column that does not vary is only centred, or zero whatever comes later where its sd is infinite; `rounded` marks
    those that vary by rounding error only. Columns of a size beyond 1e300 are refused.
    """

    mean: Array
    sd: Array
    rounded: BoolArray

    def __post_init__(self) -> None:
        size = np.where(np.isinf(self.sd), np.abs(self.mean), np.maximum(np.abs(self.mean), self.sd)).max(initial=0.0)
        if not size <= _LARGEST:
            raise ValueError(
                f"Inputs and targets must be of a size up to {_LARGEST:.0e}, since sums of larger numbers overflow;"
                f" got one of {size:.3g}: rescale it."
            )

    def forward(self, X: Array, out: Array | None = None) -> Array:
        """z, written into `out` if given, also where x and its mean are so large that their difference overflows."""
        large = max(X.max(initial=0.0), -X.min(initial=0.0), np.abs(self.mean).max(initial=0.0)) > 1e307
        half = 0.5 if large else 1.0
        Z = np.subtract(half * X if large else X, half * self.mean, out=out)
        Z /= half * self.sd
        return Z

    def backward(self, Z: Array) -> Array:
        return Z * self.sd + self.mean


def check_near(Z: Array, why: str) -> Array:
    """Standardised inputs, refused where kernels would square a number that is too large for it."""
    if (far := max(Z.max(initial=0.0), -Z.min(initial=0.0))) > _FURTHEST:
        raise ValueError(f"X has a number {far:.3g} standard deviations away from the mean of its column, {why}.")
    return Z


def standardiser(
    X: Array, weights: Array, constant: float | None = None, left: BoolArray | None = None
) -> Standardiser:
    """Weighted mean and standard deviation of each column; `weights` average to one.

    Columns are first divided by a power of two near their largest magnitude and shifted by their first value, both of
    which are exact: no square overflows or vanishes, and no digits are lost to a mean far from zero. A column that does
    not vary gets the sd `constant`, by default what rounding error would be. Columns that are to be `left` as they are
    have mean 0 and sd 1.
    """
    X = np.asarray(X, np.float64)
    kept = np.zeros(X.shape[1], bool) if left is None else left
    columns = [(0.0, 1.0, False) if k else _moments(x, weights, constant) for x, k in zip(X.T, kept, strict=True)]
    mean, sd, rounded = (np.array([column[k] for column in columns]) for k in range(3))
    return Standardiser(mean, sd, rounded.astype(bool))


def _moments(x: Array, weights: Array, constant: float | None) -> tuple[float, float, bool]:
    """Mean, sd, and whether the column varies, but by rounding error only."""
    exponent = int(np.frexp(np.abs(x).max())[1])
    u = np.ldexp(x, -exponent)
    first = float(u[0])
    u -= first
    spread = float(np.abs(u).max())
    varies = spread > ROUNDING
    inner = int(np.frexp(spread)[1]) if varies else 0
    u = np.ldexp(u, -inner)
    mean = float(weights @ u) / len(u)
    sd = float(np.sqrt(weights @ (u - mean) ** 2 / len(u)))
    centre = float(np.ldexp(first + np.ldexp(mean, inner), exponent))
    if varies:
        return centre, float(np.ldexp(sd, inner + exponent)), False
    least = max(ROUNDING * abs(centre), 1e-290)
    return (float(x[0]) if spread == 0 else centre), least if constant is None else constant, spread > 0
