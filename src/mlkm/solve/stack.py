"""The uncertainty of the default: a sum of kernels and, with few rows, ridge and the mean beside it.

Given its shares a stack of linear smoothers is one: with S_t the smoother of member t and p_t its share,

    f_{-i}(x) = sum_t p_t (f_t(x) - S_t(x)_i r_{t,i} / (1 - S_t(x_i)_i)).

A member for transformed targets is left out on the transformed scale, and back-transformed from there.

The leave-one-out error is divided between the noise and the variance of f. With u the mean variance of f at rows left
out, in units of the noise of the kernels' model, the share of f is u / (1 + u), times the square of the kernels' share,
times 1 - 1 / sqrt(n), since with few rows leave-one-out may underestimate the noise. The variance of f varies with x
like the posterior variance of the kernels. The noise variance is constant on the scale of the targets or, for a share
estimated from leave-one-out residuals, on the transformed scale.

Up to `FLOAT64_FACTOR_ROWS` rows all of this is exact. With more, the posterior is that of 4000 of the rows, with the
noise variance reduced in proportion.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .._types import Array
from ..data import Block
from ..model.machine import Columns, Machine, predict, predict_transformed
from ..model.sum_kernel import SumKernel, TransformedKernel
from ..model.transforms import BackTransform
from ..runtime.rules import RULES
from ..runtime.sizes import FLOAT64_FACTOR_ROWS
from .smoother import Dual, Functionals, Primal, Smoother, StoredFields, loo_residuals, primal_of_rows


@dataclass(frozen=True)
class RowFacts:
    """The number of distinct rows, their number with all copies, and half the range of every target."""

    n: int
    count: float
    reach: Array


@dataclass(frozen=True)
class Member:
    """A smoother with its share of the stack, and the back-transform if its targets are transformed."""

    share: float
    smoother: Smoother
    back_transform: BackTransform | None = None

    def loo_predictions(self, Y: Array, copies: Array) -> Array:
        """Return f_{-i}(x_i) at every training row; `Y` are the targets as the smoother has them."""
        left_out = Y - loo_residuals(self.smoother, copies)
        return left_out if self.back_transform is None else self.back_transform.mean(left_out)

    def changes(self, X: Array, copies: Array) -> Array:
        """Return f - f_{-i} at X, (rows of X, rows, k)."""
        changes = (self.smoother.weights(X) / copies)[:, :, None] * loo_residuals(self.smoother, copies)
        if self.back_transform is None:
            return np.asarray(changes)
        f = self.smoother.predict(X)
        return self.back_transform.mean(f)[:, None, :] - self.back_transform.mean(f[:, None, :] - changes)


@dataclass(frozen=True)
class StackUncertainty(StoredFields):
    """The uncertainty of a stack.

    Parameters
    ----------
    machines : the fitted machines: kernels with ridge and mean, those of transformed targets, hidden layers
    rows : the training rows
    kernel, kernel_noise : the kernel and the noise variance of its solve
    shares : of kernel, ridge and mean
    ridge_penalty : the penalty of the ridge
    loo_error : the error of rows left out, for every output
    transformed : the kernel for transformed targets, if there is one
    solved : how many rows, from the first on, were solved on; None for all
    stored_facts : facts of the rows where their targets are not stored
    """

    machines: tuple[Machine, ...]
    rows: Block
    kernel: SumKernel
    kernel_noise: float
    shares: tuple[float, float, float]
    ridge_penalty: float
    loo_error: Array
    transformed: TransformedKernel | None = None
    solved: int | None = None
    stored_facts: RowFacts | None = None

    @cached_property
    def solved_rows(self) -> Block:
        """Return the rows that were solved on, to which leave-one-out applies. The others are new to the fit: they have
        no leverage, and their residuals already are leave-one-out residuals."""
        return self.rows.take(slice(0, self.solved))

    @property
    def transformed_share(self) -> float:
        """Return the share of the kernel for transformed targets."""
        return 0.0 if self.transformed is None else self.transformed.share

    @cached_property
    def facts(self) -> RowFacts:
        """Return facts of the rows that were solved on."""
        rows = self.solved_rows
        return self.stored_facts or RowFacts(len(rows), float(rows.counts.sum()), np.ptp(rows.Y, axis=0) / 2)

    @cached_property
    def posterior_rows(self) -> Block:
        """Return the rows that the posterior is computed from."""
        few = self.facts.n <= FLOAT64_FACTOR_ROWS
        return self.solved_rows.take(slice(0, None if few else min(FLOAT64_FACTOR_ROWS, RULES.posterior_rows)))

    def _dual(self, kernel: SumKernel, noise: float, Y: Array) -> Dual:
        """Return the smoother of a kernel, whose leverages are in units of the noise of one copy of a row."""
        rows, n = self.posterior_rows, self.facts.n
        return Dual(kernel, rows.X, Y, noise * len(rows) / n / rows.weights, noise * self.facts.count / n)

    @cached_property
    def smoother(self) -> Dual:
        """Return the smoother of the kernel."""
        return self._dual(self.kernel, self.kernel_noise, self.posterior_rows.Y)

    @cached_property
    def _transformed_smoother(self) -> Dual | None:
        """Return the smoother of transformed targets, where it has a share."""
        there, Y = self.transformed, self.posterior_rows.Y
        if there is None or there.share == 0:
            return None
        return self._dual(there.kernel, there.noise, there.target_transform.forward(Y) if Y.size else Y)

    @cached_property
    def _left_out_leverages(self) -> Array:
        """Return the kernels' variance at every row by the fit without it, in units of their noise: 1 / (1 - h) - 1."""
        h = np.minimum(self.smoother.training_leverages / self.posterior_rows.copies, 1 - 1e-12)
        return np.asarray(h / (1 - h))

    @cached_property
    def usual(self) -> float:
        """Return the kernels' variance in units of their noise, on average over training rows left out."""
        at, rows = slice(0, RULES.usual_rows), self.solved_rows
        whole = len(self.posterior_rows) == self.facts.n
        leverage = self._left_out_leverages[at] if whole else self.smoother.leverage(rows.X[at])
        return max(float(np.average(leverage, weights=rows.weights[at])), 1e-12)

    @cached_property
    def spread(self) -> Array:
        """Return the average of the variance of y that constant noise on the transformed scale implies."""
        at, rows = slice(0, RULES.usual_rows), self.solved_rows
        if self.transformed is None:
            return np.ones(1)
        return np.asarray(np.average(self._spread(self.transformed, rows.X[at]), axis=0, weights=rows.weights[at]))

    @property
    def _shrunk(self) -> float:
        return float(1 - 1 / np.sqrt(self.facts.n))

    @property
    def _fit_share(self) -> float:
        """Return the share of the leave-one-out error that is due to the variance of f."""
        return float((self.shares[0] + self.transformed_share) ** 2 * self._shrunk * self.usual / (1 + self.usual))

    @property
    def noise(self) -> Array:
        """Return sigma^2 of every output, on average over x."""
        return self.loo_error * (1 - self._fit_share)

    @property
    def fit_variance(self) -> Array:
        """Return the variance of f where its leverage is one."""
        return self.loo_error * self._fit_share / self.usual

    def _std(self, X: Array, leverage: Array) -> Array:
        """Return the standard deviation of noise and fit together."""
        noise = self.noise
        if self.transformed is not None:
            v = self.transformed.noise_share
            noise = noise * (1 - v + v * self._spread(self.transformed, X) / self.spread)
        return np.asarray(np.sqrt(noise + self.fit_variance * leverage[:, None]))

    def _spread(self, transformed: TransformedKernel, X: Array) -> Array:
        """Return the variance of y that constant noise on the transformed scale implies, with y limited to its
        range."""
        spread = transformed.back_transform.deviation(predict_transformed(self.machines[1], X))
        return np.asarray(np.minimum(spread, self.facts.reach) ** 2 + 1e-300)

    def std(self, X: Array) -> Array:
        """Return sigma_y at every row of X, (n, k)."""
        return self._std(X, self.smoother.leverage(X))

    @property
    def learned(self) -> tuple[SumKernel, float] | None:
        """Return the kernel and its noise variance; None where the fit has no kernel."""
        return (self.kernel, self.kernel_noise) if self.kernel.terms else None

    @property
    def has_left_out(self) -> bool:
        """Return whether the fit without each of the rows is known in closed form."""
        return self.stored_facts is None and len(self.solved_rows) <= FLOAT64_FACTOR_ROWS

    @property
    def left_out_std(self) -> Array:
        """Return sigma_y at every distinct training row by the fit without it."""
        return self._std(self.solved_rows.X, self._left_out_leverages)

    def covariance(self, functionals: Functionals) -> Array:
        """Return a bound on the covariances of linear functionals of f, (k, c, c).

        With V_t the covariance of member t, p_t its share and s_t^2 the trace of V_t, it is
        (sum_t p_t s_t) sum_t p_t V_t / s_t, which is no less than the covariance of sum_t p_t f_t however the members
        are correlated. The mean and hidden layers, which have no V_t, count as kernels. Transformed targets are
        linearised at the prediction (the delta method).
        """
        line = self.shares[1]
        size = self.loo_error * self._shrunk / (1 + self.usual)
        covariances = [(1 - line - self.transformed_share, size[:, None, None] * self.smoother.covariance(functionals))]
        if line > 0:
            covariances.append((line, self.noise[:, None, None] * self._ridge.covariance(functionals)))
        if self.transformed is not None and self._transformed_smoother is not None:
            back = self._back_transformed(self.transformed, self._transformed_smoother, functionals)
            covariances.append((self.transformed_share, self._shrunk * back))
        return together(covariances)

    @cached_property
    def _ridge(self) -> Primal:
        """Return the smoother of the ridge on the inputs that are numbers."""
        rows = self.solved_rows
        return primal_of_rows(Columns(rows.inputs.numbers), rows, self.ridge_penalty)

    def _back_transformed(self, transformed: TransformedKernel, smoother: Dual, functionals: Functionals) -> Array:
        """Return the covariances of functionals of g^{-1}(f), (k, c, c): those of f with weights times the slope of
        the inverse transform."""
        slopes = transformed.back_transform.slope(predict_transformed(self.machines[1], functionals.X))
        shape = functionals.weights.shape
        each = [
            smoother.covariance(replace(functionals, weights=functionals.weights * s.reshape(shape))) for s in slopes.T
        ]
        return np.asarray(self._transformed_noise[:, None, None] * np.stack(each))

    @cached_property
    def _transformed_noise(self) -> Array:
        """Return the noise variance on the transformed scale, by leave-one-out."""
        rows, smoother = self.posterior_rows, self._transformed_smoother
        assert smoother is not None
        share = len(rows) / self.facts.n  # leverages are those in the fit to all rows, as the residuals are
        h = np.minimum(share * smoother.training_leverages / rows.copies, 1 - 1e-12)
        residuals = smoother.Y - predict_transformed(self.machines[1], rows.X)
        error = np.average((residuals / (1 - h)[:, None]) ** 2, axis=0, weights=rows.weights)
        return np.asarray(error / (1 + np.average(h / (1 - h), weights=rows.weights)))

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """Return the members that are linear in the targets, or in transformed ones, and have a share."""
        rows, (kernel, line, mean) = self.solved_rows, self.shares
        nothing = Columns(np.zeros(rows.X.shape[1], bool))
        every = [Member(kernel, self.smoother), Member(line, self._ridge)]
        every += [Member(mean, primal_of_rows(nothing, rows, 0.0))]
        if self.transformed is not None and self._transformed_smoother is not None:
            every.append(Member(self.transformed_share, self._transformed_smoother, self.transformed.back_transform))
        return tuple(member for member in every if member.share > 0)

    @property
    def left_out_residuals(self) -> Array:
        """Return y_i - f_{-i}(x_i), (distinct rows, k)."""
        rows, total = self.solved_rows, self._hidden_residuals
        there = rows.Y if self.transformed is None else self.transformed.target_transform.forward(rows.Y)
        for member in self.members:
            Y = rows.Y if member.back_transform is None else there
            total += member.share * (rows.Y - member.loo_predictions(Y, rows.copies))
        return total

    @property
    def _hidden_residuals(self) -> Array:
        """Return the residuals c (y - g(x)) of hidden layers with share c, which one row hardly changes."""
        hidden, rows = self.machines[1 + (self.transformed is not None) :], self.solved_rows
        share = 1 - sum(self.shares) - self.transformed_share if hidden else 0.0
        return np.asarray(share * rows.Y - sum(predict(m, rows.X) / len(self.machines) for m in hidden))

    def left_out_changes(self, X: Array) -> Array:
        """Return f(x) - f_{-i}(x) for every row x of X and every training row i."""
        total = np.zeros((len(X), len(self.solved_rows), self.solved_rows.Y.shape[1]))
        for member in self.members:
            total += member.share * member.changes(X, self.solved_rows.copies)
        return total

    @property
    def training_rows(self) -> Block | None:
        """Return the training rows, where they are stored with their targets."""
        return self.rows if self.stored_facts is None else None

    @property
    def background(self) -> Block | None:
        """Return the rows that effects are averaged over."""
        return self.training_rows

    def without_rows(self) -> "StackUncertainty":
        """Return the description with the inputs and weights that the posterior needs, and no targets: kernels are
        centred on inputs of rows, which a model has to store."""
        if self.stored_facts is not None:
            return self
        rows, at = self.solved_rows, slice(0, len(self.posterior_rows))
        inputs = Block(rows.X[at], np.zeros((at.stop, 0)), rows.weights[at], rows.copies[at], None, rows.kinds)
        return replace(self, rows=inputs, solved=None, stored_facts=self.facts)

    def to_send(self) -> "StackUncertainty":
        """Return a copy for predictions in other processes, without targets."""
        return self.without_rows()


def together(covariances: Sequence[tuple[float, Array]]) -> Array:
    """Return a bound on the covariances (k, c, c) of a sum of members, from shares and the covariances of each."""
    sizes = [np.sqrt(np.maximum(np.einsum("kcc->k", V), 1e-300))[:, None, None] for _, V in covariances]
    total = sum(share * size for (share, _), size in zip(covariances, sizes, strict=True))
    return np.asarray(total * sum(share * V / size for (share, V), size in zip(covariances, sizes, strict=True)))
