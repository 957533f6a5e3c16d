"""The variance and leave-one-out of the default: a sum of kernels and, with few rows, ridge and the mean beside it.

Given its shares a stack of linear smoothers is one: with S_t the smoother of member t and p_t its share,

    f_{-i}(x) = sum_t p_t (f_t(x) - S_t(x)_i r_{t,i} / (1 - S_t(x_i)_i)).

A kernel for targets on another scale is left out on that scale, and led back from there.

The error of rows left out is shared between the noise and the variance of f as the kernels' own model has it: of a unit
of noise and u of f at rows left out, on average, u / (1 + u) is due to f, times the square of the kernels' share, and
less a share of 1 / sqrt(n): with few rows leave-one-out may find no noise where there is some. Along x the second part
follows the posterior variance of the kernels. Noise is of one size: on the scale of the targets or, in a share that
rows left out tell, on the other scale.

Up to `LARGEST` rows all of this is exact. Above, the posterior is that of 4000 of the rows, with noise lower in
proportion.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .._types import Array
from ..data import Rows
from ..model.machine import Machine, predict, predict_average, predict_linked
from ..model.sum_kernel import SumKernel, TransformedKernel
from ..solve.dual import EXACT
from .functionals import Functionals
from .pieces import row_blocks
from .row_facts import RowFacts, facts_of
from .smoothers import KernelSmoother, RidgeSmoother, Smoother, factorised

LARGEST = EXACT
_POSTERIOR = 4000  # rows of the posterior where there are more than that: each prediction takes their square
_USUAL_ROWS = 1000  # the first of these, at which the usual variance of f is taken


@dataclass(frozen=True)
class StackSummary:
    """The kernel, the noise variance of its solve, the shares of kernel, ridge and mean, the penalty of ridge, the
    error of rows left out for every output, the kernel for targets on another scale, facts of the rows where their
    targets are not kept, and the number of rows, from the first on, that were solved on, None for all."""

    kernel: SumKernel
    noise: float
    shares: tuple[float, float, float]
    ridge_penalty: float
    loo_error: Array
    warped: TransformedKernel | None = None
    facts: RowFacts | None = None
    solved: int | None = None

    def solved_rows(self, rows: Rows) -> Rows:
        """Return the training rows that were solved on. The others are new to the fit: they have no leverage, and their
        residuals already are leave-one-out residuals."""
        return rows.take(slice(0, self.solved))

    @property
    def of_warped(self) -> float:
        """Its share."""
        return 0.0 if self.warped is None else self.warped.share

    @property
    def of_hidden(self) -> float:
        """The share of hidden layers: the rest."""
        return 1 - sum(self.shares) - self.of_warped


def n_posterior(n: int, largest: int = LARGEST) -> int:
    """How many of n rows the posterior is of."""
    return n if n <= largest else min(largest, _POSTERIOR)


class StackVariance:
    """sigma_y(x) of the default's fit, and its leave-one-out, factorised once."""

    def __init__(self, machines: Sequence[Machine], rows: Rows, fit: StackSummary, largest: int = LARGEST) -> None:
        self.machines, self.fit = machines, fit
        self.rows = rows = fit.solved_rows(rows)
        self._there: Array | None = None
        self.facts = fit.facts or facts_of(rows)
        n = self.facts.n
        self.some = rows.take(slice(0, n_posterior(n, largest)))
        self.kernel = self._smoother(fit.kernel, fit.noise)
        self.unit = float(fit.noise * self.facts.count / n)  # the noise of one copy of a row
        at, whole = slice(0, _USUAL_ROWS), len(self.some) == n
        relative = self._left_out[at] if whole else self._relative(rows.X[at])
        self.usual = max(float(np.average(relative, weights=rows.weights[at])), 1e-12)
        self.spread = np.ones(1)
        if fit.warped is not None:
            self.spread = np.average(self._spread(fit.warped, rows.X[at]), axis=0, weights=rows.weights[at])
        share = (fit.shares[0] + fit.of_warped) ** 2 * (1 - 1 / np.sqrt(n)) * self.usual / (1 + self.usual)
        self.noise, self.of_fit = fit.loo_error * (1 - share), fit.loo_error * share

    def _smoother(self, kernel: SumKernel, noise: float) -> KernelSmoother:
        return factorised(kernel, self.some, noise * len(self.some) / self.facts.n)

    @cached_property
    def _left_out(self) -> Array:
        """The kernels' variance at every training row without it, in units of their noise: 1 / (1 - h) - 1."""
        own = np.minimum(self.kernel.own / self.rows.copies, 1 - 1e-12)
        return np.asarray(own / (1 - own))

    def _std(self, X: Array, relative: Array) -> Array:
        """Of noise and fit; as far as noise has one size on the other scale, it is as large as that scale makes it."""
        noise = self.noise
        if (warped := self.fit.warped) is not None:
            v = warped.noise_share
            noise = noise * (1 - v + v * self._spread(warped, X) / self.spread)
        return np.asarray(np.sqrt(noise + self.of_fit * relative[:, None] / self.usual))

    def _spread(self, warped: TransformedKernel, X: Array) -> Array:
        """The variance of y that noise of one size on the other scale has, y being within its range."""
        spread = np.minimum(warped.link.deviation(predict_linked(self.machines[1], X)), self.facts.reach)
        return np.asarray(spread**2 + 1e-300)

    @property
    def left_out_std(self) -> Array:
        """sigma_y at every distinct training row by the fit without it."""
        return self._std(self.rows.X, self._left_out)

    def _mean(self, X: Array) -> Array:
        return predict_average(self.machines, X)

    def _relative(self, X: Array) -> Array:
        """The kernels' variance in units of that of their noise."""
        pieces = row_blocks(len(X), len(self.kernel.X))
        return np.concatenate([self.kernel.posterior(X[at]) for at in pieces]) / self.unit

    def predict(self, X: Array) -> tuple[Array, Array]:
        """f and sigma_y, both (n, k)."""
        return self._mean(X), self._std(X, self._relative(X))

    def covariance(self, of: Functionals) -> Array:
        """What the rows leave of linear functionals of f, (k, c, c).

        With V_t what they leave of member t, p_t its share and s_t^2 the trace of V_t, it is
        (sum_t p_t s_t) sum_t p_t V_t / s_t, which is no less than what they leave of sum_t p_t f_t however the members
        hang together. The mean and hidden layers, which have no V_t, count as kernels. On another scale f is taken as
        linear near what is predicted (the delta method).
        """
        fit, (_, line, _) = self.fit, self.fit.shares
        shrunk = 1 - 1 / np.sqrt(self.facts.n)
        size = fit.loo_error * shrunk / ((1 + self.usual) * self.unit)  # as in `predict`: of_fit / usual
        members = [(1 - line - fit.of_warped, size[:, None, None] * self.kernel.covariance(of))]
        if line > 0:
            slopes = RidgeSmoother(self.rows, fit.ridge_penalty).covariance(of.of(lambda X: X, of.X.shape[1]))
            members.append((line, self.noise[:, None, None] * slopes))
        if fit.warped is not None and self.warped is not None:
            members.append((fit.of_warped, shrunk * self._led_back(fit.warped, self.warped, of)))
        return _together(members)

    def _led_back(self, warped: TransformedKernel, smoother: KernelSmoother, of: Functionals) -> Array:
        """What the rows leave of functionals of g^{-1}(f), with f the kernel for targets on another scale: those of f
        with weights times the slope of the way back, in units of the noise there."""
        slopes = warped.link.slope(predict_linked(self.machines[1], of.X))
        each = [smoother.covariance(replace(of, weights=of.weights * s.reshape(of.weights.shape))) for s in slopes.T]
        return np.asarray(self._size_there(warped, smoother)[:, None, None] * np.stack(each))

    def _size_there(self, warped: TransformedKernel, smoother: KernelSmoother) -> Array:
        """The noise on the other scale that rows left out tell, in units of that of the solve; found once."""
        if self._there is None:
            some = self.some
            of_all = len(some) / self.facts.n  # leverages are those in the fit to all rows, as the residuals are
            own = np.minimum(of_all * smoother.own / some.copies, 1 - 1e-12)
            missed = warped.power.forward(some.Y) - predict_linked(self.machines[1], some.X)
            error = np.average((missed / (1 - own)[:, None]) ** 2, axis=0, weights=some.weights)
            unit = warped.noise * self.facts.count / self.facts.n
            self._there = error / ((1 + np.average(own / (1 - own), weights=some.weights)) * unit)
        return self._there

    def _members(self) -> Iterator[tuple[float, Smoother]]:
        """Those that are linear in y and have a share."""
        every: list[Smoother] = [
            self.kernel,
            RidgeSmoother(self.rows, self.fit.ridge_penalty),
            RidgeSmoother(self.rows, None),
        ]
        return ((share, member) for share, member in zip(self.fit.shares, every, strict=True) if share > 0)

    @cached_property
    def _missed(self) -> list[Array]:
        """What every member misses of a row that it has not seen."""
        return [_missed(member, self.rows.Y, self.rows) for _, member in self._members()]

    @cached_property
    def warped(self) -> KernelSmoother | None:
        """Of the kernel for targets on another scale, where it has a share."""
        warped = self.fit.warped
        return None if warped is None or warped.share == 0 else self._smoother(warped.kernel, warped.noise)

    @cached_property
    def _warped(self) -> "WarpedSmoother | None":
        """The kernel for targets on another scale, where it has a share."""
        warped, smoother = self.fit.warped, self.warped
        if warped is None or smoother is None:
            return None
        Z = warped.power.forward(self.rows.Y)
        return WarpedSmoother(warped, smoother, Z, _missed(smoother, Z, self.rows))

    @property
    def left_out_residuals(self) -> Array:
        """y_i - f_{-i}(x_i), (distinct rows, k)."""
        pairs = zip(self._members(), self._missed, strict=True)
        total = sum((share * missed for (share, _), missed in pairs), start=np.zeros_like(self.rows.Y))
        if self._warped is not None:
            total += self.fit.of_warped * (self.rows.Y - self._warped.left_out)
        return np.asarray(total + self._missed_by_hidden)

    @property
    def _missed_by_hidden(self) -> Array:
        """What hidden layers, which one row hardly moves, add to it: with their share c, c (y - g(x))."""
        hidden = self.machines[1 + (self.fit.warped is not None) :]
        by_them = sum((predict(m, self.rows.X) / len(self.machines) for m in hidden), start=0.0)
        return np.asarray((self.fit.of_hidden if hidden else 0.0) * self.rows.Y - by_them)

    def left_out_changes(self, X: Array) -> Array:
        """f - f_{-i} at X without one copy of each distinct training row i, (rows of X, distinct rows, k)."""
        total = np.zeros((len(X), len(self.rows), self.rows.Y.shape[1]))
        for (share, member), missed in zip(self._members(), self._missed, strict=True):
            total += share * (member.weights(X) / self.rows.copies)[:, :, None] * missed
        if self._warped is not None:
            total += self.fit.of_warped * self._warped.changes(X, self.rows.copies)
        return total


@dataclass(frozen=True)
class WarpedSmoother:
    """A kernel for z = g(y): its smoother, z, and what it misses of the z of a row that it has not seen."""

    warped: TransformedKernel
    smoother: KernelSmoother
    Z: Array
    missed: Array

    @property
    def left_out(self) -> Array:
        """What it predicts of y at every row without it."""
        return self.warped.link.mean(self.Z - self.missed)

    def changes(self, X: Array, copies: Array) -> Array:
        """f - f_{-i} at X, (rows of X, rows, k)."""
        weights, link = self.smoother.weights(X), self.warped.link
        f = weights @ self.Z
        return link.mean(f)[:, None, :] - link.mean(f[:, None, :] - (weights / copies)[:, :, None] * self.missed)


def _together(members: Sequence[tuple[float, Array]]) -> Array:
    """A bound on the covariances (k, c, c) of a sum of members, each with its share and its own covariances."""
    sizes = [np.sqrt(np.maximum(np.einsum("kcc->k", V), 1e-300))[:, None, None] for _, V in members]
    total = sum(share * size for (share, _), size in zip(members, sizes, strict=True))
    return np.asarray(total * sum(share * V / size for (share, V), size in zip(members, sizes, strict=True)))


def _missed(member: Smoother, Y: Array, rows: Rows) -> Array:
    """What a member misses of a row that it has not seen."""
    room = np.maximum(1 - member.own / rows.copies, 1e-12)
    return np.asarray((Y - member.weights(rows.X) @ Y) / room[:, None])
