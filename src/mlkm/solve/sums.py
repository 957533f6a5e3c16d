"""Sums over rows that a ridge needs: of weights, features, targets and their products.

    sum w,   sum w F,   sum w Y,   sum w F F',   sum w F Y',   sum w Y Y  (output by output)

Features are shifted by a guess of their mean before they are multiplied, so that no digits are lost to it. Products are
computed in the precision of the features within a block of rows and added in float64: memory O(block x D + D^2),
whatever the number of rows.

Such sums add up over blocks, files, workers and sites, and rows are taken away by subtracting theirs. This is exact up
to rounding errors, which are relative to the largest values that the sums have had: rows far beyond all others leave
such errors behind when they are taken away.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from .._types import Array
from ..data import Standardiser
from ..data.rows import Block, Rows
from ..model.machine import Features
from ..runtime.resources import side_by_side, stop_if_asked
from ..runtime.sizes import BLOCK, SHIFT_ROWS, SUM_ROUNDING


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
        """Return the sums with other sums added or subtracted, and the largest peaks so far."""
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
        """Return the sums with all weights multiplied by a factor."""
        names = ("weight", "F", "Y", "FF", "FY", "YY", "F_peak", "Y_peak")
        return Sums(self.shift, self.n, *(factor * getattr(self, name) for name in names))

    def in_units(self, theirs: Standardiser, ours: Standardiser, moved: Array | float = 0.0) -> "Sums":
        """Convert sums of targets standardised by `theirs` to those of targets standardised by `ours` and of features
        that are larger by `moved`: with y' = a y + b and F' = F + m."""
        a, b = theirs.sd / ours.sd, (theirs.mean - ours.mean) / ours.sd
        m = np.zeros(len(self.F)) + moved
        Y = a * self.Y + self.weight * b
        FY = self.FY * a + np.outer(self.F, b) + np.outer(m, Y)
        YY = a**2 * self.YY + 2 * a * b * self.Y + self.weight * b**2
        FF = self.FF + np.outer(self.F, m) + np.outer(m, self.F) + self.weight * np.outer(m, m)
        root, (F_peak, Y_peak) = np.sqrt(self.weight), np.sqrt(self.peaks())
        F_peak = float(F_peak + root * np.abs(m).max(initial=0.0)) ** 2
        Y_peak = float(np.max(a * Y_peak + np.abs(b) * root)) ** 2
        return Sums(self.shift, self.n, self.weight, self.F + self.weight * m, Y, FF, FY, YY, F_peak, Y_peak)

    @property
    def f_mean(self) -> Array:
        """Return the weighted mean of the features."""
        return np.asarray(self.F / self.weight + self.shift)

    @property
    def y_mean(self) -> Array:
        """Return the weighted mean of the targets."""
        return np.asarray(self.Y / self.weight)

    def centred(self) -> tuple[Array, Array, Array]:
        """Return sum w F F', sum w F Y' and sum w Y Y of features and targets less their means."""
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
        """Return whether the matrix of all sums of products is positive semidefinite up to rounding, as it is for any
        rows."""
        FF, FY, YY = self.centred()
        F_room, Y_room = (SUM_ROUNDING * (len(FF) + 1) * peak for peak in self.peaks())
        FF[np.diag_indices(len(FF))] += F_room
        try:
            explained = solve_triangular(cholesky(FF, lower=True), FY, lower=True)
        except (LinAlgError, ValueError):  # not definite, or not finite
            return False
        return bool((YY + Y_room >= (explained**2).sum(axis=0)).all())


def sums_of_slices(
    features: Callable[[slice], Array],
    Y: Array,
    weights: Array,
    shift: Array,
    block: int = BLOCK,
    *,
    lanes: bool = False,
) -> Sums:
    """Return the sums over rows in memory, whose features are given by slices and are overwritten: products in the
    precision of the features, and sums in float64. `lanes` sums on two threads."""
    n, D = len(Y), len(shift)

    def part(first: int, step: int) -> tuple[Array, Array, Array]:
        """Return the sums over every `step`-th block from the first one on."""
        FF, FY, total = np.zeros((D, D)), np.zeros((D, Y.shape[1])), np.zeros(D)
        product: Array = np.empty((D, D), shift.dtype)  # reused: fresh memory costs a quarter of the product's time
        for begin in range(first, n, step):
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

    if lanes and n > block:  # every second block to the same sum, on however many threads: the result is the same
        both = side_by_side(lambda: part(0, 2 * block), lambda: part(block, 2 * block), wide=True)
        FF, FY, F = (even + odd for even, odd in zip(*both, strict=True))
    else:
        FF, FY, F = part(0, block)
    return Sums(shift, float(n), float(weights.sum()), F, weights @ Y, FF, FY, weights @ Y**2)


@dataclass(frozen=True)
class SumsByPart:
    """The sums over the rows of a part and over all other rows, for several layers; a part of None is all rows."""

    of: tuple["SumsOf", ...]
    parts: tuple[int | None, ...]

    def __call__(self, piece: Block) -> list[list[Sums]]:
        """Return for every layer the sums inside and outside of its part, or over all rows."""
        inside = [None if part is None else np.asarray(piece.fold == part) for part in self.parts]
        return [
            [sums(piece)] if own is None else [sums(piece.rows(own)), sums(piece.rows(~own))]
            for sums, own in zip(self.of, inside, strict=True)
        ]


def sums_by_part(
    layers: Sequence[Features], parts: Sequence[int | None], rows: Rows, X: Array
) -> list[tuple[Sums, Sums]]:
    """Return for every layer the sums over its part and over all rows; features are shifted by their mean at X."""
    found = rows.map_reduce(SumsByPart(tuple(sums_of(layer, X) for layer in layers), tuple(parts)), _add_each)
    return [(inside, sum(others, start=inside)) for inside, *others in found]


def _add_each(a: list[list[Sums]], b: list[list[Sums]]) -> list[list[Sums]]:
    return [[add_in_place(x, y) for x, y in zip(*of_layer, strict=True)] for of_layer in zip(a, b, strict=True)]


def add_in_place(first: Sums, second: Sums) -> Sums:
    """Return the total, in the arrays of the first."""
    for name in ("F", "Y", "FF", "FY", "YY"):
        total = getattr(first, name)
        total += getattr(second, name)
    return replace(first, n=first.n + second.n, weight=first.weight + second.weight)


@dataclass(frozen=True)
class SumsOf:
    """The sums over a piece of rows, as a function that can be sent to the rows.

    Features are shifted by `shift`. They are computed in float64 if `double`, else in the precision that the features
    choose for many rows.
    """

    features: Features
    shift: Array
    double: bool = False

    def __call__(self, block: Block) -> Sums:
        """Return the sums: products of at most `BLOCK` rows in the precision of the features, added in float64."""
        inputs = block.X if self.double else self.features.inputs(block.X)
        of_slice, shift = (lambda at: self.features.rows_of_features(inputs[at])), self.shift.astype(inputs.dtype)
        return replace(sums_of_slices(of_slice, block.Y, block.weights, shift), shift=self.shift)


def sums_of(features: Features, X: Array) -> SumsOf:
    """Return the function that sums over a piece, with features shifted by their mean at the rows of X."""
    return SumsOf(features, np.asarray(features.rows_of_features(features.inputs(X)).mean(axis=0, dtype=np.float64)))


def sums_of_rows(features: Features, rows: Block) -> Sums:
    """Return the sums over rows in memory, in float64, with a weight that is the number of rows with all copies."""
    shift = features.rows_of_features(rows.X[:SHIFT_ROWS]).mean(axis=0)
    sums = SumsOf(features, shift, double=True)(Block(rows.X, rows.Y, rows.weights))
    n = float(rows.copies.sum())
    return replace(sums, n=n).times(n / sums.weight)
