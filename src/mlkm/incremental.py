"""Adding, forgetting and merging rows: with features held fixed, the closed form needs only sums over the rows.

    (F'WF + w lambda) c = F'WY

A model stores F'WF and F'WY, so rows are added and removed by adding and subtracting their sums, and the models of
sites that share no rows are merged by adding theirs. The result is the fit to all rows, up to rounding. Rows are not
removed where extreme rows have left rounding errors in the sums that are larger than those of a fit.
"""

import operator
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Self

import numpy as np
from joblib import hash as hash_of
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ._types import Array
from .base import KernelMachine
from .data import checked_weights
from .data.folds import NO_TARGET, checked_targets
from .data.preparation import as_rows
from .data.rows import Block, MemoryRows, Rows
from .data.tables.cells import Table
from .fit.apply import new_rows, sendable
from .fit.fitted import Span, wider
from .model.prior import Prior
from .runtime.checks import all_or_nothing, as_targets, brief, check_given
from .runtime.sizes import SAME_FEATURES
from .solve.sums import Sums, SumsOf


def later_sums(block: Block[Table], model: KernelMachine, prior: Prior, shift: Array) -> Sums:
    """Return the sums of a block of later rows with the features of a model, or refuse it where its targets are missing
    or their number is not that of the fit."""
    preparation = model.fitted_.preparation
    k = preparation.n_outputs
    if not block.Y.shape[1]:
        raise ValueError(NO_TARGET)
    if block.Y.shape[1] != k:
        raise ValueError(f"y must have {k} outputs, as in the fit; got {block.Y.shape[1]}.")
    rows = Block(model.standardised(block.X), preparation.y_scaler.forward(block.Y), block.weights)
    return SumsOf(prior, shift, double=True)(rows)


class Incremental(KernelMachine):
    """A regressor of one layer in closed form, which adds, forgets and merges rows with its features held fixed."""

    def partial_fit(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows.

        The first call is `fit`; later calls hold the features, the scalings and the penalty fixed, and give the fit to
        all rows with these, up to rounding. `loo_error_` is then computed as if all rows had the mean leverage, with
        the features held fixed.

        Parameters
        ----------
        X : array, frame, table in files or Dask collection
            The rows to add.
        y : array (n,) or (n, k), default=None
            The targets; None where X is an opened table, which names its target and weights itself.
        sample_weight : array (n,), default=None
            The weights of the rows, by default all 1.

        Returns
        -------
        self
        """
        if not hasattr(self, "fitted_"):
            return self.fit(X, y, sample_weight)
        rows = self._later(X, y, sample_weight)
        span = rows.map_reduce(range_of, wider)
        with all_or_nothing(self):
            self.fitted_ = self.fitted_.measured_for(span, "partial_fit")
            self.fitted_ = self.fitted_.plus(self._sums_of(rows), span)
        return self

    def forget(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Remove rows that were given before, with the weights that they had. Predictions are then equal to those of a
        fit without them, with the same features, scalings and penalty, to 1e-6 standard deviations of y.

        Rows that the sums show were never given are refused, and so are rows so extreme that rounding errors of the
        remaining sums would be too large. The model then stays as it was: call `fit` without them.

        Parameters
        ----------
        X : array, frame, table in files or Dask collection
            The rows to remove.
        y : array (n,) or (n, k), default=None
            The targets; None where X is an opened table, which names its target and weights itself.
        sample_weight : array (n,), default=None
            The weights with which the rows were given, by default all 1.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self.fitted_.sums("forget")
        self.fitted_ = self.fitted_.minus(self._sums_of(self._later(X, y, sample_weight)))
        return self

    def without_rows(self) -> Self:
        """Return a copy with the same features, scalings and penalty and no rows, to which `partial_fit` adds the rows
        of another site, so that `mlkm.merge` can combine the models.

        Returns
        -------
        A regressor of the same class.
        """
        check_is_fitted(self)
        result = copy(self)
        result.fitted_ = self.fitted_.emptied("without_rows")
        return result

    def row_sums(self) -> Sums:
        """Return the sums over the rows. Adding, forgetting and merging need nothing else of the rows, so that no row
        has to leave a site.

        Returns
        -------
        Sums
        """
        check_is_fitted(self)
        return self.fitted_.sums("row_sums")

    def _later(self, X: object, y: object, sample_weight: ArrayLike | None) -> Rows[Table]:
        """Return later rows, checked against the columns of the fit."""
        source = as_rows(X, y, sample_weight)
        if source is not None:
            return new_rows(source, self)
        check_given(self, y)
        inputs = self.read_table(X)
        Y = checked_targets(as_targets(y))
        check_consistent_length(inputs.columns[0], Y)
        weights = checked_weights(sample_weight, len(Y))
        return MemoryRows(Block(inputs, Y, np.ones(len(Y)) if weights is None else weights), inputs.names)

    def _sums_of(self, rows: Rows[Table]) -> Sums:
        """Return the sums of later rows."""
        prior, shift = self.fitted_.prior, self.row_sums().shift
        of_block = partial(later_sums, model=sendable(self), prior=prior, shift=shift)
        with np.errstate(over="ignore", invalid="ignore"):  # rows whose squares overflow are refused later
            sums: Sums = rows.map_reduce(of_block, operator.add)
        return sums


def range_of(block: Block[Table]) -> Span:
    """Return the least and the largest target of every output."""
    return block.Y.min(axis=0), block.Y.max(axis=0)


def merge(models: Sequence[Incremental]) -> Incremental:
    """Merge models with the same features into one, which equals the fit to all of their rows up to rounding.

    Features are the same if `scale` is given and scale, seed and number of features agree; otherwise begin the others
    as `first.without_rows()`. The penalty is that of the first.

    Parameters
    ----------
    models : list or tuple of RandomFeatureRidge
        Fitted models, which share no rows.

    Returns
    -------
    RandomFeatureRidge

    Examples
    --------
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
    ours, span, moved = first.fitted_, first.fitted_.span, []
    for other in others:
        moved.append(_moved(first, other, ours.sums("merge"), other.fitted_.sums("merge")))
        span = wider(span, other.fitted_.span)
    ours = ours.measured_for(span, "merge")
    total = ours.sums("merge")
    for other, by in zip(others, moved, strict=True):
        total = total + other.fitted_.sums("merge").in_units(other.y_scaler_, ours.y_scaler, by)
    result: Incremental = copy(first)
    result.fitted_ = ours.with_sums(total, span)
    return result


def _moved(first: Incremental, other: Incremental, ours: Sums, theirs: Sums) -> Array:
    """Return by how much the shifted features of the first model exceed those of the other, or raise an error where
    that is not the same at all inputs, as the models then have different features."""
    preparations = [model.fitted_.preparation for model in (first, other)]
    tables = [(preparation.reader, preparation.levels) for preparation in preparations]
    plain = all(levels is None and reader.inputs.plain for reader, levels in tables)
    same = len(ours.shift) == len(theirs.shift) and first.n_features_in_ == other.n_features_in_
    if len(ours.Y) != len(theirs.Y):
        raise ValueError(f"Models to be merged must have as many outputs each; got {len(ours.Y)} and {len(theirs.Y)}.")
    names = [list(getattr(model, "feature_names_in_", [])) for model in (first, other)]
    if all(names) and names[0] != names[1]:
        raise ValueError(
            f"Models to be merged must have the same columns in the same order; got {names[0]} and {names[1]}."
        )
    if same and not plain:  # the kinds of the columns were inferred from the rows
        same = hash_of(tables[0]) == hash_of(tables[1])
    if same:
        d = len(first.x_scaler_.mean)
        unit = np.where(np.isfinite(first.x_scaler_.sd), first.x_scaler_.sd, 1.0)
        probes = first.x_scaler_.mean + unit * np.vstack([np.zeros(d), np.eye(d), -np.ones(d)])
        apart = _shifted(first, probes, ours.shift) - _shifted(other, probes, theirs.shift)
        if np.abs(apart - apart[0]).max() < SAME_FEATURES:
            return np.asarray(apart.mean(axis=0))
    raise ValueError(
        "The models have different features, whose sums cannot be added: give all of them the same scale, number of"
        " features and seed, or begin the others as first.without_rows()."
    )


def _shifted(model: Incremental, X: Array, shift: Array) -> Array:
    """Return the shifted features at inputs in their units."""
    return np.asarray(model.fitted_.prior.rows_of_features(model.x_scaler_.forward(X)) - shift)
