"""Ridge regression from the sums of rows, and sums of targets in other units."""

from dataclasses import dataclass, replace

import numpy as np

from .._types import Array
from ..data import Standardiser
from ..model.machine import Machine
from ..model.prior import Prior
from ..runtime.sizes import FURTHEST_TARGET
from ..solve.smoother import primal
from ..solve.sums import Sums

Span = tuple[Array, Array]  # the least and the largest target of every output


@dataclass(frozen=True)
class SolvedSums:
    """The machine, and the leave-one-out error of every output as if all rows had the mean leverage."""

    machine: Machine
    loo_error: Array


def solved_sums(prior: Prior, sums: Sums, penalty: float) -> SolvedSums:
    """Solve the ridge of these sums."""
    if sums.weight <= 0:  # no rows yet
        k = len(sums.Y)
        return SolvedSums(prior.machine(np.zeros((len(sums.F), k)), np.zeros(k)), np.full(k, np.nan))
    smoother = primal(prior, sums, penalty)
    C, varies = smoother.coefficients, sums.centred()[2] > 0
    # The residual sum of squares is not known below the rounding errors of its terms, so these are its lower bound.
    F_peak, Y_peak = np.sqrt(sums.peaks())
    rounding = np.finfo(np.float64).eps * (Y_peak + F_peak * np.abs(C).sum(axis=0)) ** 2 * varies
    squares = np.maximum(smoother.residual_squares, rounding)
    error = squares / sums.weight / max(1 - smoother.degrees / max(sums.n, 1), 1e-3) ** 2
    return SolvedSums(prior.machine(C, smoother.intercept), error)


def in_units(sums: Sums, theirs: Standardiser, ours: Standardiser, moved: Array) -> Sums:
    """Convert sums of targets standardised by `theirs` to those of targets standardised by `ours` and of features that
    are larger by `moved`: with y' = a y + b and F' = F + m."""
    a, b = theirs.sd / ours.sd, (theirs.mean - ours.mean) / ours.sd
    FY = sums.FY * a + np.outer(sums.F, b)
    YY = a**2 * sums.YY + 2 * a * b * sums.Y + sums.weight * b**2
    Y = a * sums.Y + sums.weight * b
    F = sums.F + sums.weight * moved
    FF = sums.FF + np.outer(sums.F, moved) + np.outer(moved, sums.F) + sums.weight * np.outer(moved, moved)
    F_peak, Y_peak = np.sqrt(sums.peaks())
    F_peak += np.sqrt(sums.weight) * np.abs(moved).max(initial=0.0)
    Y_peak = np.max(a * Y_peak + np.abs(b) * np.sqrt(sums.weight))
    FY += np.outer(moved, Y)
    return Sums(sums.shift, sums.n, sums.weight, F, Y, FF, FY, YY, float(F_peak) ** 2, float(Y_peak) ** 2)


def wider(a: Span, b: Span) -> Span:
    """Return the range that holds both."""
    return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])


def units_for(units: Standardiser, span: Span) -> Standardiser | None:
    """Return larger units for targets so far beyond those of the fit that squares would overflow, else None."""
    reach = np.abs(np.stack(span) / 4 - units.mean / 4).max(axis=0)
    far = reach / FURTHEST_TARGET > units.sd
    return replace(units, sd=np.where(far, reach, units.sd)) if far.any() else None


def averaging_to_one(sums: Sums) -> Sums:
    """Return the sums of the same rows with weights that average to one."""
    return sums.times(sums.n / sums.weight) if sums.weight > 0 else sums
