"""The standard deviation sigma_y(x) of a fit, its leave-one-out, and covariances of its effects.

An `Uncertainty` describes a fit: its machines, its rows or their sums, and the penalties in use. It can be stored, with
or without the rows, and is factorised at first use; the factorisation is never stored.

`RidgeUncertainty` is the paper's estimator, Section "Variance estimator for MLKM", for any machine:

    sigma_y^2(x) = sigma^2 (h(x) + 1),   sigma^2 = RSS / (N - tr H),   h(x) = g'(F'F + N Lambda)^{-1} g,

with g the gradient of f at x with respect to the weights, F its rows at the N training rows, and Lambda the ridge in
use. With Lambda = 0 and p < N it is the paper's formula, where N - tr H = N - p. The last intercept is not penalised.
Biases inside hidden layers are damped like the weights beside them: a direction that the rows do not determine would
have no finite variance. An average of machines (cross-fitting) takes the average of their leverages, each on all rows:
every layer of a rotation saw one part of the rows, and the rotations together saw them all.

Where rows are out of memory or distributed, F are the inputs of the last layer, by their sums. Hidden weights are then
taken as known: their part of the leverage is about their number over N, and N is large.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from .._types import Array
from ..data import Block
from ..model.machine import Features, Machine, predict_average
from ..model.prior import Prior
from ..runtime.rules import RULES
from ..runtime.sizes import EXACT_ROWS, LEAST_PENALTY, LOST_RESIDUALS, STORED_SUM_FEATURES
from .ridge import Spectrum, decomposed
from .smoother import Functionals, Primal, Smoother, StoredFields, primal
from .stack import StackUncertainty
from .sums import Sums, sums_of_rows
from .tangent import Flat, OuterProducts, Tangent, factorised


@dataclass(frozen=True)
class RidgeUncertainty(StoredFields):
    """The paper's variance estimator, from rows or from sums.

    Parameters
    ----------
    machines : the fitted machines, whose average is f
    penalty, hidden_penalty : the ridge of the last layer and of the hidden ones
    loo_error : the leave-one-out error of every output
    rows : the training rows, where they are in memory
    prior : the features of one layer in closed form, else None
    features, sums : for rows out of memory, the last layer's features of every machine and their sums
    error : the mean squared error of the average, where the sums do not give it
    sample : a few rows beside sums
    """

    machines: tuple[Machine, ...]
    penalty: float
    loo_error: Array
    rows: Block | None = None
    prior: Prior | None = None
    hidden_penalty: float = 0.0
    features: tuple[Features, ...] = ()
    sums: tuple[Sums, ...] = ()
    error: Array | None = None
    sample: Block | None = None

    @cached_property
    def _primals(self) -> list[Primal]:
        """Return the smoothers of the last layers by their sums."""
        return [primal(F, s, self.penalty) for F, s in zip(self.features, self.sums, strict=True)]

    @cached_property
    def smoothers(self) -> list[list[Smoother]]:
        """Return the smoothers of every machine: one for all outputs, or one for each where they share weights."""
        if self.sums:
            return [[smoother] for smoother in self._primals]
        if self.prior is not None:  # the same features for every machine
            return [[factorised(Flat(self.prior, self.prior.n_features), self.solved_rows, self.penalty)]]
        return [[factorised(g, self.solved_rows, self.penalty) for g in self._tangents(m)] for m in self.machines]

    def _tangents(self, machine: Machine) -> list[OuterProducts]:
        ratio = max(self.penalty, LEAST_PENALTY) / max(self.hidden_penalty, LEAST_PENALTY)
        outputs = range(1 if machine.depth == 1 else machine.layers[-1][0].shape[1])
        return [Tangent(machine, output, float(np.sqrt(ratio))) for output in outputs]

    @property
    def solved_rows(self) -> Block:
        """Return the distinct rows that were solved on, which leave-one-out is about."""
        assert self.rows is not None
        return self.rows

    @cached_property
    def _degrees(self) -> Array:
        """Return tr H for all outputs together or for each of them."""
        return np.asarray(np.mean([[s.degrees for s in of_machine] for of_machine in self.smoothers], axis=0))

    @cached_property
    def noise(self) -> Array:
        """Return RSS / (N - tr H), or where RSS is lost in the rounding of sums, the leave-one-out error."""
        if self.sums:
            n = self.sums[0].weight
            squares = self._squares_of_sums if self.error is None else self.error * n
            noise = squares / np.maximum(n - self._degrees, RULES.least_degrees)
            return np.where(np.isnan(squares), np.nan_to_num(self.loo_error), noise)
        counts = self.solved_rows.counts
        degrees = np.maximum(counts.sum() - self._degrees, RULES.least_degrees)
        return np.asarray(counts @ self._residuals**2 / degrees)

    @property
    def _squares_of_sums(self) -> Array:
        """Return the residual sum of squares, NaN where it is lost in rounding."""
        squares = self._primals[0].residual_squares
        return np.where(squares > LOST_RESIDUALS * np.maximum(self.sums[0].centred()[2], 1e-300), squares, np.nan)

    @cached_property
    def _residuals(self) -> Array:
        return np.asarray(self.solved_rows.Y - predict_average(self.machines, self.solved_rows.X))

    @cached_property
    def least(self) -> Array:
        """Return a lower bound of sigma_y^2: a fit that interpolates has no residuals, and its leave-one-out error is
        the only information on its errors. Sums are of so many rows that no fit interpolates."""
        if self.sums:
            return np.zeros_like(self.loo_error)
        share = np.minimum(self._degrees / self.solved_rows.counts.sum(), 1.0)
        return np.asarray(np.nan_to_num(share**2 * self.loo_error, nan=0.0, posinf=0.0))

    def std(self, X: Array) -> Array:
        """Return sigma_y at every row of X, (n, k)."""
        each = [np.column_stack([s.leverage(X) for s in of_machine]) for of_machine in self.smoothers]
        return np.asarray(np.sqrt(np.maximum(self.noise * (np.mean(each, axis=0) + 1), self.least)))

    def covariance(self, functionals: Functionals) -> Array:
        """Return the covariances of linear functionals of f given the rows, (k, c, c)."""
        noise = np.maximum(self.noise, self.least)
        each = [np.stack([s.covariance(functionals) for s in of_machine]) for of_machine in self.smoothers]
        return np.asarray(noise[:, None, None] * np.mean(each, axis=0))

    @property
    def learned(self) -> Prior | None:
        """Return the prior of a single machine, None of several."""
        return self.prior if len(self.machines) == 1 else None

    @property
    def has_left_out(self) -> bool:
        """Return whether the fit without each of the rows is known in closed form."""
        return self.rows is not None and self.prior is not None and len(self.machines) == 1

    @cached_property
    def _by_rows(self) -> "RidgeUncertainty":
        """Return the same fit by its rows, where there are sums beside them: these may be of float32."""
        return replace(self, features=(), sums=(), error=None, sample=None) if self.sums else self

    @cached_property
    def spectrum(self) -> Spectrum | None:
        """Return the decomposition of few rows: 1 - h_i from a Cholesky factor would be inaccurate if the fit nearly
        interpolates."""
        if self.prior is None or len(self.solved_rows) > EXACT_ROWS:
            return None
        return decomposed(self.prior.rows_of_features(self.solved_rows.X), self.solved_rows.Y, self.solved_rows.weights)

    @cached_property
    def left_out(self) -> tuple[Array, Array]:
        """Return the leave-one-out residuals, (distinct rows, k), and 1 - h_i for one copy of every row."""
        rows = self.solved_rows
        if self.spectrum is not None:
            return self.spectrum.left_out(self.penalty, rows.copies)
        left = np.maximum(1 - self.smoothers[0][0].training_leverages / rows.copies, 1e-12)
        return self._residuals / left[:, None], left

    @property
    def left_out_residuals(self) -> Array:
        """Return y_i - f_{-i}(x_i), (distinct rows, k)."""
        residuals: Array = self._by_rows.left_out[0]
        return residuals

    @property
    def left_out_std(self) -> Array:
        """Return sigma_y at every distinct training row by the fit without it."""
        return np.asarray(np.sqrt(self._by_rows.noise / self._by_rows.left_out[1][:, None]))

    def left_out_changes(self, X: Array) -> Array:
        """Return f(x) - f_{-i}(x) for every row x of X and every training row i."""
        fit = self._by_rows
        if fit.prior is None or fit.spectrum is None:
            weights = fit.smoothers[0][0].weights(X)
        else:
            weights = fit.spectrum.smoother(fit.prior.rows_of_features(X), self.penalty)
        return np.asarray((weights / fit.solved_rows.copies)[:, :, None] * self.left_out_residuals)

    @property
    def training_rows(self) -> Block | None:
        """Return the training rows, where they are stored."""
        return self.rows

    @property
    def background(self) -> Block | None:
        """Return the rows that effects are averaged over."""
        return self.sample if self.sums else self.rows

    def without_rows(self) -> "RidgeUncertainty | None":
        """Return the uncertainty with sums in place of rows, or None with more features than half of the rows, where a
        fit may interpolate and its residuals are needed."""
        if self.sums:
            return self.to_send()
        few = self.prior is not None and self.prior.n_features <= min(STORED_SUM_FEATURES, len(self.solved_rows) // 2)
        if len(self.machines) > 1 or not few or self.prior is None:
            return None
        return replace(self, rows=None, features=(self.prior,), sums=(self.prior_sums(),))

    def to_send(self) -> "RidgeUncertainty":
        """Return what predictions of other processes need: sums in place of rows where there are sums."""
        return replace(self, rows=None, sample=None) if self.sums else self

    def prior_sums(self) -> Sums:
        """Return the sums of the features of one layer in closed form."""
        if self.prior is None:
            raise ValueError("Rows come and go in fits in closed form only.")
        return self.sums[0] if self.sums else sums_of_rows(self.prior, self.solved_rows)


Uncertainty: TypeAlias = RidgeUncertainty | StackUncertainty  # both have the same public methods
