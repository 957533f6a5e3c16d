"""A fit: how rows are prepared, the machines, their uncertainty, and the facts that describe them.

All that a model knows after `fit` is one `Fit`. Its methods take standardised inputs (`Preparation.inputs`) and return
numbers in the units of y.

Where one layer is solved in closed form, rows are added and removed by their sums, with the features held fixed:

    (F'WF + w lambda) c = F'WY

The sums of rows are added or subtracted, and the result is the fit to all rows that remain, up to rounding.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, cast

import numpy as np

from .._types import Array
from ..data import Block, Standardiser
from ..data.preparation import Preparation
from ..data.tables.columns import Column
from ..data.training import refitted
from ..exceptions import NoSignalWarning, warn
from ..explain import Explainer
from ..model.machine import Machine, predict_average
from ..model.prior import Prior
from ..runtime.records import from_record, to_record
from ..runtime.rules import RULES
from ..runtime.sizes import FURTHEST_TARGET, LARGEST_LOSS
from ..search.kernel_search import LearnedKernel
from ..search.plan import Plan
from ..search.policy import Policy, Seen
from ..solve.closed_form import solved_sums
from ..solve.smoother import LeftOut, StoredFields, places
from ..solve.sums import Sums
from ..solve.uncertainty import RidgeUncertainty, Uncertainty
from .train import Fitted, train_again

Span = tuple[Array, Array]  # the least and the largest target of every output
_SAVED_WITHOUT = "needs the training rows, which this model was saved without; save it with keep_rows=True."


class NoRowsError(ValueError, AttributeError):
    """Raised where a fit without rows is asked for what needs them; also an AttributeError, for `hasattr`."""


@dataclass(frozen=True, eq=False)
class Fit(StoredFields):
    """The result of a fit.

    Attributes
    ----------
    preparation : from tables to standardised inputs, and from predictions to the units of y
    machines : one per rotation; the prediction is their average
    uncertainty : standard deviations and leave-one-out; None where the model was saved without what they need
    widths, scales, penalty : the numbers of features, the scales and the penalty in use
    n_iter, loss_curve : the epochs of a descent, and the loss after each
    loo_error : the mean squared leave-one-out error in squared units of y
    relevance : how much each column matters, summing to one
    weight : the sum of the weights of all rows
    learned : whether the scales of layer 1 were learned
    seen : the rows that each kind of choice has seen
    kept_layer : the learned first layer that `refit` was given, where this fit is its result
    """

    preparation: Preparation
    machines: tuple[Machine, ...]
    uncertainty: Uncertainty | None
    widths: tuple[int, ...]
    scales: tuple[Any, ...]
    penalty: float
    n_iter: int
    loss_curve: list[float]
    loo_error: float
    relevance: Array
    weight: float
    learned: bool
    seen: Seen = field(default_factory=Seen)
    kept_layer: LearnedKernel | Prior | None = None

    @classmethod
    def of(cls, fitted: Fitted, plan: Plan, preparation: Preparation, weight: float, n_rows: int) -> Self:
        """Return the fit of a trained solution, with a warning if it predicts no better than the mean."""
        solution, reader = fitted.solution, preparation.reader
        relevance: Array = np.bincount(  # type: ignore[assignment]
            preparation.kinds.owners, fitted.relevance, minlength=len(reader.columns)
        )
        error = error_in_units(solution.loo_error, preparation.y_scaler)
        _warn_useless(n_rows, solution.loo_error, error, preparation.y_scaler, plan.policy)
        seen = _seen_by_features(plan, n_rows) if fitted.seen is None else fitted.seen
        return cls(
            preparation, solution.machines, fitted.uncertainty, fitted.widths, fitted.scales, solution.penalty,
            solution.n_iter, solution.trace, error, relevance, weight, plan.learned, seen,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the record that a model file holds."""
        return to_record(self)[1]

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Fit":
        """Return the fit of such a record; invalid values are refused."""
        fit: Fit = from_record("fit", values)
        return fit

    # --- columns and targets

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the training table with their kinds."""
        return self.preparation.reader.columns

    @property
    def names(self) -> list[str]:
        """Return the names of the columns: those of the table, or x0, x1, ... where it had none."""
        return list(self.preparation.reader.names or (f"x{j}" for j in range(len(self.columns))))

    @property
    def y_scaler(self) -> Standardiser:
        """Return the scaling of the targets."""
        return self.preparation.y_scaler

    # --- predictions

    def predict(self, Z: Array) -> Array:
        """Return predictions at standardised inputs, (n, k), within their limits."""
        return self._to_units(predict_average(self.machines, Z), Z)

    def predict_with_std(self, Z: Array) -> tuple[Array, Array]:
        """Return predictions and the standard deviations of a new y, both (n, k)."""
        sigma = self.known("return_std").std(Z)
        return self.predict(Z), sigma * self.y_scaler.sd

    def _to_units(self, f: Array, Z: Array) -> Array:
        return self.preparation.within(self.y_scaler.backward(f), Z)

    def known(self, what: str = "A standard deviation") -> Uncertainty:
        """Return the uncertainty in standardised units, or raise an error that names what was asked for."""
        if self.uncertainty is None:
            raise NoRowsError(f"{what} {_SAVED_WITHOUT}")
        return self.uncertainty

    @property
    def noise_variance(self) -> Array:
        """Return sigma^2 of every output, on average over x, in squared units of y."""
        with np.errstate(over="ignore", under="ignore"):  # squares of numbers beyond 1e154
            return np.asarray((np.sqrt(self.known("noise_variance_").noise) * self.y_scaler.sd) ** 2)

    # --- leave-one-out

    @property
    def has_closed_form(self) -> bool:
        """Return whether the fit without a row is known exactly."""
        levels = self.preparation.levels
        if levels is not None and levels.crossed:  # inputs of a training row depend on the others' y
            return False
        return self.uncertainty is not None and self.uncertainty.has_left_out

    def check_closed_form(self, what: str) -> None:
        """Raise an error that names what was asked for, if leaving rows out has no closed form."""
        fit = self.known(what)
        if fit.rows is not None and fit.training_rows is None:
            raise ValueError(f"{what} {_SAVED_WITHOUT}")
        if not self.has_closed_form:
            raise ValueError(
                f"{what} is known for one layer in closed form whose rows are in memory; this fit has hidden layers,"
                " rotations, descent, means of y for levels, or rows that are in files or on a cluster, or were not"
                " saved: take scikit-learn's cross_val_predict."
            )

    def leave_one_out(self, Z: Array, targets: Array) -> LeftOut:
        """Return leave-one-out residuals and standard deviations at given rows, in the order given; a row that the fit
        has not seen is predicted by the fit itself."""
        fit, unit = self.known("leave_one_out"), self.y_scaler.sd
        Y = self.y_scaler.forward(targets.reshape(len(Z), -1).astype(float))
        place = places(fit.solved_rows, Z, Y)
        new = place[:, None] < 0
        std = np.where(new, fit.std(Z), fit.left_out_std[place])
        residuals = np.where(new, Y - predict_average(self.machines, Z), fit.left_out_residuals[place])
        return LeftOut(residuals * unit, std * unit, place)

    def left_out_predictions(self, Z: Array) -> Array:
        """Return f_{-i}(x) without one copy of each distinct training row i, (rows of Z, distinct rows, k)."""
        changes = self.known("left_out_predictions").left_out_changes(Z)
        f = predict_average(self.machines, Z)
        return self._to_units(f[:, None, :] - changes, Z)

    # --- the rows of the fit

    @property
    def training_rows(self) -> Block | None:
        """Return the distinct training rows, standardised, with their targets, where the fit has all of them."""
        return None if self.uncertainty is None else self.uncertainty.training_rows

    @property
    def n_rows(self) -> int:
        """Return the number of training rows, or the sum of their weights if the rows are not stored."""
        rows = self.training_rows
        return round(float(self.weight if rows is None else rows.copies.sum()))

    def background(self, what: str) -> Block:
        """Return training rows in an order by hashes of their content, or raise an error that names `what`."""
        rows = self.known(what).background
        if rows is None:
            raise ValueError(
                f"{what} averages over rows of the fit, and this model has none: it was given sums, or saved without"
                " rows; save it with keep_rows=True."
            )
        return rows

    def explainer(self, what: str) -> Explainer:
        """Return what computes effects and contributions of the columns, or raise an error that names `what`."""
        self.background(what)
        return self._explainer

    @cached_property
    def _explainer(self) -> Explainer:
        rows, uncertainty = self.background("explain"), self.known("explain")
        return Explainer(self.preparation, self.machines, uncertainty, self.names, rows)

    def without_rows(self) -> "Fit":
        """Return the fit of a model saved without rows: it has standard deviations only where they need no rows."""
        return replace(self, uncertainty=None if self.uncertainty is None else self.uncertainty.without_rows())

    def to_send(self, with_std: bool) -> "Fit":
        """Return a copy for other processes, without the training rows unless standard deviations need them."""
        return replace(self, uncertainty=self.uncertainty.to_send() if with_std and self.uncertainty else None)

    # --- other rows

    def refit(self, X: Array, targets: Array, weights: Array | None, plan: Plan, seed: int) -> "Fit":
        """Return the fit to other rows with the first layer that this one has learned."""
        first = self.first_layer()
        rows, preparation = refitted(self.preparation, X, targets, weights)
        plan = plan.sized(len(rows), len(self.columns)).at(rows.X.shape[1], preparation.x_scaler, seed=seed)
        fitted = train_again(rows, plan, first)
        weight = float(len(targets) if weights is None else weights.sum())
        n = plan.n_rows or len(rows)
        again = Fit.of(fitted, plan, preparation, weight, n)
        return replace(again, kept_layer=first)  # the result of several refits depends on the last rows alone

    def first_layer(self) -> LearnedKernel | Prior:
        """Return the learned first layer: the kernel, or the features that approximate it."""
        if self.kept_layer is not None:
            return self.kept_layer
        learned = None if self.uncertainty is None else self.uncertainty.learned
        if learned is None or not self.learned:
            raise ValueError(
                "refit keeps a learned first layer, and this model has none: its scales were given, it has hidden"
                " layers or rotations, its rows taught nothing, or it was saved without them; call fit."
            )
        return LearnedKernel(*learned) if isinstance(learned, tuple) else learned

    @property
    def prior(self) -> Prior:
        """Return the features of one layer in closed form."""
        return cast(Prior, self.known().learned)

    @property
    def span(self) -> Span:
        """Return the least and the largest target of every output."""
        return self.preparation.low, self.preparation.high

    def sums(self, what: str = "row_sums") -> Sums:
        """Return the sums of the rows, or raise an error that names what was asked for."""
        sums = cast(RidgeUncertainty, self.known(what)).prior_sums()
        return sums.times(self.weight / sums.weight) if sums.weight > 0 else sums

    def plus(self, sums: Sums, span: Span) -> "Fit":
        """Return the fit with more rows, given by their sums and the range of their targets."""
        total = self.sums("partial_fit") + sums
        if not np.isfinite(total.FF).all():
            raise ValueError(
                "The inputs of these rows are so far from those of the fit that their squares overflow; call fit"
                " with all rows."
            )
        return self.with_sums(total, wider(self.span, span))

    def minus(self, sums: Sums) -> "Fit":
        """Return the fit without a part of its rows, given by their sums."""
        ours = self.sums("forget")
        if sums.n >= ours.n or sums.weight > ours.weight * (1 - 1e-9):
            raise ValueError(
                f"Only rows that the model has can be forgotten, and not all of them: it has {ours.n:g} rows of weight"
                f" {ours.weight:g}, and {sums.n:g} of weight {sums.weight:g} were given."
            )
        rest = ours - sums
        if not rest.are_of_rows():
            raise ValueError(
                "Only rows that the model has can be forgotten, with the weights that they had; the sums without these"
                " are not those of any rows: call fit with the rows that are to stay."
            )
        if rest.lost() > LARGEST_LOSS:
            raise ValueError(
                "These rows cannot be forgotten: rows far beyond those that would remain have been added, and rounding"
                " errors of their sums are too large for the remaining sums; call fit with the rows that are to stay."
            )
        return self.with_sums(rest)

    def with_sums(self, sums: Sums, span: Span | None = None) -> "Fit":
        """Return the fit to rows of these sums, its features, scalings and penalty held fixed; with a span, that is the
        range of their targets."""
        low, high = self.span if span is None else span
        prior, background = self.prior, self.known().background
        machine, loo_error = solved_sums(prior, sums, self.penalty)
        uncertainty = RidgeUncertainty(
            (machine,), self.penalty, loo_error, prior=prior, features=(prior,),
            sums=(sums.times(sums.n / sums.weight) if sums.weight > 0 else sums,),
            sample=None if background is None or sums.n == 0 else background.take(slice(0, RULES.effect_rows)),
        )  # fmt: skip
        error = error_in_units(loo_error, self.y_scaler)
        return replace(
            self, preparation=replace(self.preparation, low=low, high=high), machines=(machine,),
            uncertainty=uncertainty, loo_error=error, weight=sums.weight,
        )  # fmt: skip

    def emptied(self, what: str) -> "Fit":
        """Return the fit to no rows, its features, scalings and penalty held fixed."""
        return self.with_sums(replace(self.sums(what).times(0.0), n=0.0))

    def measured_for(self, span: Span, what: str) -> "Fit":
        """Return the fit with targets in larger units, if the span is so wide that squares would overflow."""
        units, sums = self.y_scaler, self.sums(what)
        reach = np.abs(np.stack(span) / 4 - units.mean / 4).max(axis=0)
        far = reach / FURTHEST_TARGET > units.sd
        if not far.any():
            return self
        larger = replace(units, sd=np.where(far, reach, units.sd))
        there = replace(self, preparation=replace(self.preparation, y_scaler=larger))
        return there.with_sums(sums.in_units(units, larger))


def wider(a: Span, b: Span) -> Span:
    """Return the range that contains both."""
    return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])


def error_in_units(loo_error: Array, units: Standardiser) -> float:
    """Return the mean of the outputs' leave-one-out errors, those of standardised targets, in squared units of y."""
    with np.errstate(over="ignore", under="ignore"):  # squares of numbers beyond 1e154
        root = np.sqrt(loo_error) * units.sd
        error = float(np.mean(root**2))
    if np.isinf(error) or (error == 0 and root.any()):
        warn(
            f"loo_error_ is {error:g}: it is in squared units of y, and the square of {root.max():.3g} is outside the"
            " range of floating point numbers; rescale y."
        )
    return error


def _warn_useless(n: int, loo_error: Array, error: float, units: Standardiser, policy: Policy) -> None:
    """Warn if leave-one-out predictions are no better than the mean, on average over outputs that vary."""
    varies = loo_error > 0
    enough, most = policy.useless
    if n >= enough and varies.any() and loo_error[varies].mean() >= most:
        with np.errstate(over="ignore", under="ignore"):
            variance = float(np.mean(units.sd**2))
        warn(
            f"The fit predicts rows left out no better than their mean: loo_error_ is {error:.3g}, and the variance of"
            f" y is {variance:.3g}; the inputs may tell nothing of y, or too little for {n} rows.",
            NoSignalWarning,
        )


def _seen_by_features(plan: Plan, n: int) -> Seen:
    """Return the rows that the choices of a fit by features have seen: all, since the penalty, the layers that are
    trained and the scales are chosen by errors of fits to all rows."""
    seen = Seen()
    if plan.penalty is None or plan.penalties:
        seen = seen.by("noise", 0, n)
    if plan.depth > 1 or plan.automatic:
        seen = seen.by("kernels", 0, n)
    return seen.by("inputs", 0, n).by("variances", 0, n) if plan.learned else seen
