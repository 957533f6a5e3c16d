"""Rows that come and go, and models that meet: the closed form with its features held fixed is a matter of sums.

    (F'WF + w lambda) c = F'WY

A model keeps F'WF and F'WY, so rows are added and taken away by adding and subtracting theirs, and the models of sites
that share no rows are merged by adding their sums. The result is the fit to all rows, to rounding. Rows are not
taken away where rows far beyond the others have left rounding errors in the sums that are larger than those of a fit.
"""

import operator
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from joblib import hash as hash_of
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ._types import Array
from .data import Standardiser, checked_weights
from .data.inputs import NO_TARGET, checked_targets
from .data.preparation import Preparation
from .data.rows import Block, MemoryRows, Rows
from .data.tables.frames import Table
from .data.training import as_rows
from .fit.apply import new_rows, sendable
from .model.machine import Machine
from .model.prior import Prior
from .runtime.atomic import all_or_nothing
from .runtime.checks import as_targets, brief, check_given
from .solve.smoother import primal
from .solve.sums import Sums, SumsOf
from .solve.uncertainty import SAMPLE_ROWS, RidgeUncertainty, Uncertainty

_SAME = 1e-6  # by which features of two models may differ
_FAR = 1e100  # standard deviations of y beyond which targets are measured in larger units
_MOST_LOST = 1e6  # largest ratio of the earlier sums of squares to those after rows are taken away


@dataclass(frozen=True)
class Solved:
    """The machine, and the leave-one-out error of every output as if all rows had the mean leverage."""

    machine: Machine
    loo_error: Array


def solved_sums(prior: Prior, sums: Sums, penalty: float) -> Solved:
    """Solve the ridge of these sums."""
    if sums.weight <= 0:  # no rows yet
        k = len(sums.Y)
        return Solved(prior.machine(np.zeros((len(sums.F), k)), np.zeros(k)), np.full(k, np.nan))
    smoother = primal(prior, sums, penalty)
    C, varies = smoother.coefficients, sums.centred()[2] > 0
    # The residual sum of squares is not known below the rounding errors of its terms, so these are its lower bound.
    F_peak, Y_peak = np.sqrt(sums.peaks())
    rounding = np.finfo(np.float64).eps * (Y_peak + F_peak * np.abs(C).sum(axis=0)) ** 2 * varies
    squares = np.maximum(smoother.residual_squares, rounding)
    error = squares / sums.weight / max(1 - smoother.degrees / max(sums.n, 1), 1e-3) ** 2
    return Solved(prior.machine(C, smoother.intercept), error)


def in_units(sums: Sums, theirs: Standardiser, ours: Standardiser, moved: Array) -> Sums:
    """Sums of targets standardised by `theirs` as those of targets standardised by `ours`, and of features that are
    more by `moved`: with y' = a y + b and F' = F + m."""
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


@dataclass(frozen=True)
class LaterSums:
    """The sums of a block of later rows, with the features of a model."""

    model: Any
    prior: Prior
    shift: Array

    def __call__(self, block: Block[Table]) -> Sums:
        model, preparation = self.model, self.model._preparation
        k = preparation.n_outputs
        if not block.Y.shape[1]:
            raise ValueError(NO_TARGET)
        if block.Y.shape[1] != k:
            raise ValueError(f"y must have {k} outputs, as in the fit; got {block.Y.shape[1]}.")
        X, Y = preparation.inputs(model, block.X), preparation.y_scaler.forward(block.Y)
        return SumsOf(self.prior, self.shift, double=True)(Block(X, Y, block.weights))


class Incremental:
    """Adding, forgetting and merging rows for a regressor of one layer in closed form, its features held fixed."""

    _uncertainty: Uncertainty
    _total_weight: float
    machines_: tuple[Machine, ...]
    _preparation: Preparation

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows. The first call is `fit`; later ones hold the features, the scalings and the penalty, and are equal
        to a fit to all rows with these, to rounding. `loo_error_` is then computed as if all rows had the mean
        leverage, with the features held fixed."""
        if not hasattr(self, "machines_"):
            return cast(Self, self.fit(X, y, sample_weight))  # type: ignore[attr-defined]
        source = self._later(X, y, sample_weight)
        span = source.map_reduce(range_of, wider)
        with all_or_nothing(self):
            self._measured_for(self._sums("partial_fit"), span)
            sums = self._sums("partial_fit") + self._sums_of(source)
            if not np.isfinite(sums.FF).all():
                raise ValueError(
                    "The inputs of these rows are so far from those of the fit that their squares overflow; call fit"
                    " with all rows."
                )
            return self._with_sums(sums)._with_span(wider(_span(self), span))

    def forget(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take away rows that were given before, with the weights that they had. Predictions are then equal to those of
        a fit without them, with the same features, scalings and penalty, to 1e-6 standard deviations of y.

        Rows that, by the sums, were never given are refused, and so are rows so far beyond the others that rounding
        errors of the remaining sums would be too large. The model then stays as it was: call `fit` without them.
        """
        check_is_fitted(self)
        ours, less = self._sums("forget"), self._sums_of(self._later(X, y, sample_weight))
        if less.n >= ours.n or less.weight > ours.weight * (1 - 1e-9):
            raise ValueError(
                f"Only rows that the model has can be forgotten, and not all of them: it has {ours.n:g} rows of weight"
                f" {ours.weight:g}, and {less.n:g} of weight {less.weight:g} were given."
            )
        rest = ours - less
        if not rest.are_of_rows():
            raise ValueError(
                "Only rows that the model has can be forgotten, with the weights that they had; the sums without these"
                " are not those of any rows: call fit with the rows that are to stay."
            )
        if rest.lost() > _MOST_LOST:
            raise ValueError(
                "These rows cannot be forgotten: rows far beyond those that would remain have been added, and rounding"
                " errors of their sums are too large for the remaining sums; call fit with the rows that are to stay."
            )
        return self._with_sums(rest)

    def without_rows(self) -> Self:
        """A copy with the same features, scalings and penalty and no rows, to begin elsewhere: `partial_fit` adds some,
        `mlkm.merge` brings models together."""
        check_is_fitted(self)
        return copy(self)._with_sums(self._sums("without_rows").times(0.0), 0)

    def row_sums(self) -> Sums:
        """What the rows sum up to: all that must be known of them to add, forget and merge, and nothing else of them
        leaves a site."""
        check_is_fitted(self)
        return self._sums("row_sums")

    def _sums(self, what: str) -> Sums:
        """Return the sums of the fit, or raise an error that names what was asked for."""
        sums = cast(RidgeUncertainty, cast(Any, self)._known(what)).prior_sums()
        return sums.times(self._total_weight / sums.weight) if sums.weight > 0 else sums

    def _later(self, X: Any, y: Any, sample_weight: Any) -> Rows[Table]:
        """Later rows as a source."""
        source = as_rows(X, y, sample_weight)
        if source is not None:
            return new_rows(source, self)
        check_given(self, y)
        inputs = self._preparation.reader.table(self, X)
        Y = checked_targets(as_targets(y))
        check_consistent_length(inputs.columns[0], Y)
        weights = checked_weights(sample_weight, len(Y))
        return MemoryRows(Block(inputs, Y, np.ones(len(Y)) if weights is None else weights), inputs.names)

    def _sums_of(self, source: Rows[Table]) -> Sums:
        with np.errstate(over="ignore", invalid="ignore"):  # rows whose squares overflow are refused later
            sums: Sums = source.map_reduce(LaterSums(sendable(self), self._prior, self.row_sums().shift), operator.add)
        return sums

    def _measured_for(self, sums: Sums, span: tuple[Array, Array]) -> Self:
        """Measure targets in larger units if they are so far beyond those of the fit that squares would overflow."""
        units = self._preparation.y_scaler
        reach = np.abs(np.stack(span) / 4 - units.mean / 4).max(axis=0)
        far = reach / _FAR > units.sd
        if far.any():
            larger = replace(units, sd=np.where(far, reach, units.sd))
            self._with_sums(in_units(sums, units, larger, np.zeros(len(sums.F))), units=larger)
        return self

    def _with_span(self, span: tuple[Array, Array]) -> Self:
        """Return the model with targets in this range; predictions may leave it as far as in the fit."""
        self._preparation = replace(self._preparation, low=span[0], high=span[1])
        return self

    def _with_sums(self, sums: Sums, n: int | None = None, units: Standardiser | None = None) -> Self:
        if units is not None:
            self._preparation = replace(self._preparation, y_scaler=units)
        prior, background = self._prior, self._uncertainty.background
        sums, penalty = replace(sums, n=float(sums.n if n is None else n)), cast(Any, self).penalty_
        solved = solved_sums(prior, sums, penalty)
        self.machines_ = (solved.machine,)
        cast(Any, self)._store_error(solved.loo_error)
        self._total_weight = sums.weight
        self._uncertainty = RidgeUncertainty(
            self.machines_, penalty, solved.loo_error, prior=prior, features=(prior,), sums=(_averaging_to_one(sums),),
            sample=None if background is None or sums.n == 0 else background.take(slice(0, SAMPLE_ROWS)),
        )  # fmt: skip
        self.__dict__.pop("_seen", None)
        return self

    @property
    def _prior(self) -> Prior:
        """Return the features of the fit."""
        return cast(Prior, self._uncertainty.learned)


def _span(model: Incremental) -> tuple[Array, Array]:
    return model._preparation.low, model._preparation.high


def range_of(block: Block[Table]) -> tuple[Array, Array]:
    """The least and the largest targets."""
    return block.Y.min(axis=0), block.Y.max(axis=0)


def wider(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])


def _averaging_to_one(sums: Sums) -> Sums:
    return sums.times(sums.n / sums.weight) if sums.weight > 0 else sums


def merge(models: Sequence[Any]) -> Any:
    """One model of the rows of all of them, which must have the same features: equal to a fit to all rows, to rounding.

    Features are the same where `scale` is given, with the same seed and number; else begin the others as
    `first.without_rows()`. The penalty is that of the first.

    >>> import numpy as np
    >>> from mlkm import RandomFeatureRidge, merge
    >>> from mlkm.datasets import make_example1
    >>> X, y, f = make_example1(n=300, d=4, random_state=0)
    >>> model = RandomFeatureRidge(50, scale=1.0, penalty=1e-3, random_state=0)
    >>> from sklearn.base import clone
    >>> both = merge([clone(model).fit(X[:100], y[:100]), clone(model).fit(X[100:], y[100:])])
    >>> bool(np.allclose(both.predict(X), model.fit(X, y).predict(X)))
    True
    """
    if not isinstance(models, (list, tuple)):
        raise TypeError(f"merge takes a list of RandomFeatureRidge models; got {brief(models)}.")
    if not models:
        raise ValueError("merge needs at least one model; got an empty list.")
    first, *others = models
    for model in models:
        if not isinstance(model, Incremental):
            raise TypeError(f"merge takes RandomFeatureRidge models; got {type(model).__name__}.")
        check_is_fitted(model)
    span, moved = _span(first), []
    for other in others:
        moved.append(_moved(first, other, first._sums("merge"), other._sums("merge")))
        span = wider(span, _span(other))
    result = copy(first)._measured_for(first._sums("merge"), span)
    sums = result._sums("merge")
    for other, by in zip(others, moved, strict=True):
        sums = sums + in_units(other._sums("merge"), other.y_scaler_, result.y_scaler_, by)
    return result._with_sums(sums)._with_span(span)


def _moved(first: Any, other: Any, ours: Sums, theirs: Sums) -> Array:
    """By how much the shifted features of the first are more than those of the other, wherever it is looked: a
    constant, or they are other features."""
    tables = [(model._preparation.reader, model._preparation.levels) for model in (first, other)]
    plain = all(levels is None and reader.inputs.plain for reader, levels in tables)
    same = len(ours.shift) == len(theirs.shift) and first.n_features_in_ == other.n_features_in_
    if len(ours.Y) != len(theirs.Y):
        raise ValueError(f"Models to be merged must have as many outputs each; got {len(ours.Y)} and {len(theirs.Y)}.")
    names = [list(getattr(model, "feature_names_in_", [])) for model in (first, other)]
    if all(names) and names[0] != names[1]:
        raise ValueError(
            f"Models to be merged must have the same columns in the same order; got {names[0]} and {names[1]}."
        )
    if same and not plain:  # what columns are was found by the rows
        same = hash_of(tables[0]) == hash_of(tables[1])
    if same:
        d = len(first.x_scaler_.mean)
        unit = np.where(np.isfinite(first.x_scaler_.sd), first.x_scaler_.sd, 1.0)
        probes = first.x_scaler_.mean + unit * np.vstack([np.zeros(d), np.eye(d), -np.ones(d)])
        apart = _shifted(first, probes, ours.shift) - _shifted(other, probes, theirs.shift)
        if np.abs(apart - apart[0]).max() < _SAME:
            return np.asarray(apart.mean(axis=0))
    raise ValueError(
        "The models have different features, whose sums cannot be added: give all of them the same scale, number of"
        " features and seed, or begin the others as first.without_rows()."
    )


def _shifted(model: Any, X: Array, shift: Array) -> Array:
    """Features at inputs in their own units."""
    return np.asarray(model._prior.rows_of_features(model.x_scaler_.forward(X)) - shift)
