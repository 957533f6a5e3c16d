"""The one sum behind every closed form: products of shifted features, block of rows by block.

    G = sum_i w_i (F_i - m)(F_i - m)',    B = sum_i w_i (F_i - m)(Y_i - y)',    m, y the weighted means.

Features are shifted by a guess of their mean before they are multiplied, so that no digits are lost to it. Products are
taken in the features' own precision within a block and added in float64: memory O(block x D + D^2), whatever the number
of rows.

What a ridge needs of its rows: sums that add up over blocks, files, workers and sites.

    sum w,   sum w F,   sum w Y,   sum w F F',   sum w F Y',   sum w Y Y  (output by output),

of features and targets less fixed shifts near their means, so that no digits are lost to these. Rows are added and
taken away by adding and subtracting such sums. This is exact up to rounding errors, which are relative to the largest
values that the sums have had: rows far beyond all others leave such errors behind when they are taken away.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from .._types import Array
from ..data import Rows
from ..data.rows import BLOCK, Block
from ..model.last import Features
from ..model.prior import Prior
from ..runtime.threads import side_by_side, stop_if_asked


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


ROUNDING = 4 * float(np.finfo(np.float64).eps)  # error of a sum of squares, relative to its largest value so far


@dataclass(frozen=True)
class Sums:
    """The number of rows, their weight, and the sums themselves, in float64; `shift` is that of the features. The peaks
    are the largest values that the sum of squares of any feature, and of any target, has had before."""

    shift: Array
    n: float
    weight: float
    F: Array
    Y: Array
    FF: Array
    FY: Array
    YY: Array
    F_peak: float = 0.0
    Y_peak: float = 0.0

    def __add__(self, other: "Sums") -> "Sums":
        return self._with(other, 1.0)

    def __sub__(self, other: "Sums") -> "Sums":
        return self._with(other, -1.0)

    def _with(self, other: "Sums", sign: float) -> "Sums":
        names = [field.name for field in fields(self)][1:-2]
        result = Sums(self.shift, *(getattr(self, name) + sign * getattr(other, name) for name in names))
        both = zip(self.peaks(), other.peaks(), result.peaks(), strict=True)
        F_peak, Y_peak = (max(peaks) for peaks in both)
        return replace(result, F_peak=F_peak, Y_peak=Y_peak)

    def peaks(self) -> tuple[float, float]:
        """Return the largest sums of squares, of features and of targets, so far. By the Cauchy-Schwarz inequality
        their products bound all other sums."""
        return max(self.F_peak, float(np.diag(self.FF).max())), max(self.Y_peak, float(self.YY.max()))

    def times(self, factor: float) -> "Sums":
        """With weights times a factor."""
        names = ("weight", "F", "Y", "FF", "FY", "YY", "F_peak", "Y_peak")
        return Sums(self.shift, self.n, *(factor * getattr(self, name) for name in names))

    @property
    def f_mean(self) -> Array:
        return np.asarray(self.F / self.weight + self.shift)

    @property
    def y_mean(self) -> Array:
        return np.asarray(self.Y / self.weight)

    def centred(self) -> tuple[Array, Array, Array]:
        """sum w F F', sum w F Y' and sum w Y Y of features and targets less their means."""
        f, y = self.F / self.weight, self.Y / self.weight
        FF = self.FF - self.weight * np.outer(f, f)
        return FF, self.FY - self.weight * np.outer(f, y), self.YY - self.weight * y**2

    def lost(self) -> float:
        """Return the largest ratio of a peak to the present centred sum of squares: by this factor rounding errors are
        larger than those of new sums."""
        FF, _, YY = self.centred()
        present = float(np.diag(FF).max()), float(YY.min())
        return max(peak / now if now > 0 else np.inf for peak, now in zip(self.peaks(), present, strict=True))

    def are_of_rows(self) -> bool:
        """Whether the matrix of all sums of products is positive semidefinite up to rounding, as it is for any rows."""
        FF, FY, YY = self.centred()
        F_room, Y_room = (ROUNDING * (len(FF) + 1) * peak for peak in self.peaks())
        FF[np.diag_indices(len(FF))] += F_room
        try:
            explained = solve_triangular(cholesky(FF, lower=True), FY, lower=True)
        except (LinAlgError, ValueError):  # not definite, or not finite
            return False
        return bool((YY + Y_room >= (explained**2).sum(axis=0)).all())


def add_in_place(first: Sums, second: Sums) -> Sums:
    """Their sum, in the arrays of the first."""
    for name in ("F", "Y", "FF", "FY", "YY"):
        own = getattr(first, name)
        own += getattr(second, name)
    return Sums(
        first.shift, first.n + second.n, first.weight + second.weight, first.F, first.Y, first.FF, first.FY, first.YY
    )


@dataclass(frozen=True)
class SumsOf:
    """Features of unit prior variance, and their shift: a function of a piece that can be sent to its rows."""

    prior: Features
    shift: Array

    def __call__(self, piece: Block) -> Sums:
        """Products of at most `BLOCK` rows in the precision of the features, added in float64."""
        inputs, Y, weights = self.prior.inputs(piece.X), piece.Y, piece.weights
        shift, every = self.shift.astype(inputs.dtype), range(0, len(Y), BLOCK)
        FF, FY, F = shifted_sums(lambda at: self.prior.rows_of_features(inputs[at]), Y, weights, shift, every)
        return Sums(self.shift, float(len(Y)), float(weights.sum()), F, weights @ Y, FF, FY, weights @ Y**2)


def sums_of(prior: Features, X: Array) -> SumsOf:
    """With a shift by the mean feature of some rows."""
    return SumsOf(prior, np.asarray(prior.rows_of_features(prior.inputs(X)).mean(axis=0, dtype=np.float64)))


def sums_of_rows(prior: Prior, rows: Rows) -> Sums:
    """In float64, with a weight that is the number of rows with all their copies."""
    shift = prior.rows_of_features(rows.X).mean(axis=0)
    sums = SumsOf(replace(prior, precise=True), shift)(Block(rows.X, rows.Y, rows.weights))
    n = float(rows.copies.sum())
    return replace(sums, n=n).times(n / sums.weight)
