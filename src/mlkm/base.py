"""The base class of all regressors: it checks the parameters, fits to the rows, and stores one `Fit`."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ._types import Array, RandomState
from .data import Standardiser, checked_weights
from .data.preparation import as_rows, given_rows, table_rows
from .data.rows import Rows
from .data.tables.cells import Table
from .data.tables.reading import category_mask, checked_table, set_names
from .explain import Contributions, Effects
from .fit.apply import NO_WEIGHT, Predictions, finite_score, new_rows, r2
from .fit.fit_rows import fit_rows
from .fit.fitted import Fit
from .model.machine import Machine
from .report import Reporting
from .runtime.callbacks import CallbackSupportMixin, reported, with_callbacks
from .runtime.checks import all_or_nothing, as_targets, check_given, whole, yes_no
from .runtime.resources import root_seed
from .search.cost import Cost
from .search.plan import Plan
from .solve.smoother import LeftOut


class KernelMachine(Reporting, RegressorMixin, CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """The base class of all regressors. The result of a fit is `fitted_`; other fitted attributes are read from it."""

    fitted_: Fit
    n_features_in_: int
    random_state: RandomState
    categorical_features: object

    def _plan(self) -> Plan:
        """Check the constructor's values, and return the plan that they ask for."""
        raise NotImplementedError

    def fit(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to inputs X (n, d) and targets y (n,) or (n, k).

        Parameters
        ----------
        X : array, frame, table in files or Dask collection
            The training rows.
        y : array (n,) or (n, k), default=None
            The targets; None where X is an opened table, which names its target and weights itself.
        sample_weight : array (n,), default=None
            The weights of the rows, by default all 1.

        Returns
        -------
        self
        """
        return self._fit(self._plan(), X, y, sample_weight)

    @with_callbacks
    def _fit(self, plan: Plan, X: object, y: object, sample_weight: ArrayLike | None) -> Self:
        """Read the rows, fit and store the result; an error leaves the estimator as it was. Callbacks are notified."""
        begin = perf_counter()
        with self._reported(X, y, sample_weight), all_or_nothing(self):
            rows, seed = self._rows(X, y, sample_weight), root_seed(self.random_state)
            categorical = category_mask(self.categorical_features, rows.names, rows.n_columns)
            self.fitted_ = fit_rows(rows, plan, categorical, seed, begin)
        return self

    def _reported(self, X: object, y: object, sample_weight: ArrayLike | None) -> AbstractContextManager[None]:
        """Report the progress of the enclosed fit, if `verbose` or a callback asks for it."""
        verbose = getattr(self, "verbose", 0)
        quiet = type(verbose) in (bool, int) and not verbose and not getattr(self, "_skl_callbacks", None)
        return nullcontext() if quiet else reported(self, X, y, sample_weight, verbose)

    def _rows(self, X: object, y: object, sample_weight: ArrayLike | None) -> Rows[Table]:
        """Return the rows of a fit, and store the names of their columns."""
        rows = as_rows(X, y, sample_weight)
        if rows is None:
            check_given(self, y)
            return table_rows(*checked_table(self, X, y), sample_weight)
        set_names(self, rows.names, rows.n_columns)
        return rows

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the regressor is fitted."""
        return hasattr(self, "fitted_")

    @property
    def _searches(self) -> bool:
        """Return whether a fit learns the scale of layer 1."""
        return self._plan().automatic

    @property
    def machines_(self) -> tuple[Machine, ...]:
        """Return the fitted machines, one per rotation; the prediction is their average."""
        return self.fitted_.machines

    @property
    def widths_(self) -> tuple[int, ...]:
        """Return the number of features of each layer."""
        return self.fitted_.widths

    @property
    def scales_(self) -> tuple[float | Array, ...]:
        """Return the scale of each layer; that of layer 1 is for standardised inputs."""
        return self.fitted_.scales

    @property
    def penalty_(self) -> float:
        """Return the penalty in use."""
        return self.fitted_.penalty

    @property
    def n_iter_(self) -> int:
        """Return the number of epochs run."""
        return self.fitted_.n_iter

    @property
    def loss_curve_(self) -> list[float]:
        """Return the overall loss after each epoch, for targets of variance 1."""
        return self.fitted_.loss_curve

    @property
    def loo_error_(self) -> float:
        """Return the mean squared leave-one-out error, in squared units of y."""
        return self.fitted_.loo_error

    @property
    def feature_relevance_(self) -> Array:
        """Return how much each column matters, as shares that sum to 1."""
        return self.fitted_.relevance

    @property
    def x_scaler_(self) -> Standardiser:
        """Return the scaling of the inputs."""
        return self.fitted_.preparation.x_scaler

    @property
    def y_scaler_(self) -> Standardiser:
        """Return the scaling of the targets."""
        return self.fitted_.preparation.y_scaler

    def _targets(self, y: object) -> Array:
        """Return y as numbers, with as many outputs as in the fit."""
        targets, k = as_targets(y), self.fitted_.preparation.n_outputs
        n_outputs = 1 if targets.ndim < 2 else targets.shape[1]
        if n_outputs != k:
            raise ValueError(f"y must have {k} {'output' if k == 1 else 'outputs'}, as in the fit; got {n_outputs}.")
        return targets

    @property
    def noise_variance_(self) -> float | Array:
        """Return sigma^2 of `predict(X, return_std=True)`, on average over x, in squared units of y: a number, or one
        per output."""
        check_is_fitted(self)
        noise = self.fitted_.noise_variance
        return float(noise[0]) if self.fitted_.preparation.single_output else noise

    @property
    def prediction_limits_(self) -> tuple[Array, Array]:
        """Return the least and the largest number that may be predicted, for every output; infinite where there is no
        limit."""
        check_is_fitted(self)
        return self.fitted_.preparation.limits

    @property
    def has_closed_form_(self) -> bool:
        """Return whether the fit without a row is known exactly (`leave_one_out`, `left_out_predictions`), as for one
        layer solved in closed form whose rows are stored."""
        check_is_fitted(self)
        return self.fitted_.has_closed_form

    def leave_one_out(self, X: ArrayLike, y: ArrayLike) -> LeftOut:
        """Return leave-one-out residuals and standard deviations at the rows of the fit.

        The residuals are y - f_{-i}(x_i) = r_i / (1 - h_i), the standard deviations sigma_y(x_i) = sigma / sqrt(1 -
        h_i), with h_i the leverage of the row.

        Features and penalty are held fixed. For a fit to transformed targets, the row is left out on the transformed
        scale, and the prediction is back-transformed. Of equal rows one copy is left out; a row whose weight is not a
        number of copies is left out with all of its weight. For a row that the fit has not seen, f itself is used.

        Parameters
        ----------
        X : array or frame (n, d)
            Rows of the fit, in memory and in any order.
        y : array (n,) or (n, k)
            Their targets.

        Returns
        -------
        LeftOut
            Its `residuals` and `std` are (n, k), in the order given; `place` (n,) is the index of each row in
            `left_out_predictions`, -1 for a row that the fit has not seen.
        """
        check_is_fitted(self)
        self.fitted_.check_closed_form("leave_one_out")
        Z, targets = self.standardised(X), self._targets(y)
        check_consistent_length(Z, targets)
        return self.fitted_.leave_one_out(Z, targets)

    def left_out_predictions(self, X: ArrayLike) -> Array:
        """Return the leave-one-out predictions f_{-i}(x) at every row of X, by the fits without one copy of each
        distinct training row i.

        `leave_one_out(X, y).place` gives the index i of a training row. f_{-i}(x) = f(x) - s_i(x) r_i / (1 - h_i), with
        s_i(x) the weight of the row in the fit at x.

        Parameters
        ----------
        X : array or frame (n, d)
            The rows, in memory.

        Returns
        -------
        array (n, distinct training rows, k)
            The predictions, within `prediction_limits_`.
        """
        check_is_fitted(self)
        self.fitted_.check_closed_form("left_out_predictions")
        return self.fitted_.left_out_predictions(self.standardised(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def predict(self, X: object, return_std: bool = False) -> Any:
        """Return the mean of y at every row of X, which is the average over the fitted machines.

        With automatic scales, inputs are used as they are up to one range beyond the training values, and replaced by
        the nearest training value from three ranges on (`mlkm.data.preparation`). Predictions exceed the training
        targets by at most half of their range, plus one range for every range by which inputs lie beyond their training
        values, and never by more than two ranges.

        With `return_std`, the standard deviation of a new y is returned as well, by the paper's estimator
        (`mlkm.solve.uncertainty`): its square is the noise variance plus the variance of f given the rows. The noise
        variance is constant or, for skewed targets and as far as leave-one-out residuals support it, constant on a
        transformed scale. The first such call factorises a matrix, which takes about as long as a fit without a search.

        Parameters
        ----------
        X : array, frame, table in files or Dask collection
            The rows to predict.
        return_std : bool, default=False
            Whether to return standard deviations too.

        Returns
        -------
        array (n,), or (n, k) for k outputs; with `return_std` the mean and the standard deviation, both of this shape.
        """
        check_is_fitted(self)
        yes_no("return_std", return_std)
        preparation = self.fitted_.preparation
        shape = () if preparation.single_output else (preparation.n_outputs,)
        given = given_rows(X)
        rows = given if given.in_memory else new_rows(given, self)
        results = rows.apply(MachinePredictions(self, return_std), [shape] * (1 + return_std))
        return results if return_std else results[0]

    def score(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination, averaged over outputs; for a table in files or a Dask collection it
        is summed up block by block.

        Parameters
        ----------
        X : array, frame, table in files or Dask collection
            The rows to predict.
        y : array (n,) or (n, k), default=None
            The targets; None where X is an opened table, which names its target and weights itself.
        sample_weight : array (n,), default=None
            The weights of the rows, by default all 1.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        rows = as_rows(X, y, sample_weight)
        if rows is not None:
            return r2(rows, self)
        check_given(self, y)
        targets = self._targets(y)
        weights, f = checked_weights(sample_weight, len(targets)), self.predict(X)
        if weights is not None and not weights.any():
            raise ValueError(NO_WEIGHT)
        unit = 2.0 ** (np.frexp(np.abs(targets).max())[1] - 1)  # a power of two, so that squares cannot overflow
        with np.errstate(over="ignore"):
            return finite_score(float(r2_score(targets / unit, f / unit, sample_weight=weights)))

    def estimate_cost(self, n: int, d: int, *, in_memory: bool = True) -> Cost:
        """Estimate the cost of a fit to n rows of d columns.

        Parameters
        ----------
        n : int
            The number of rows.
        d : int
            The number of columns.
        in_memory : bool, default=True
            Whether the rows are in memory, not in files or on a cluster.

        Returns
        -------
        Cost
            Its `memory` is in bytes; `seconds` is the time on this machine, to within a factor of about two; `way` says
            how the fit is computed, and `passes` how often all rows are read.

        Examples
        --------
        >>> from mlkm import RandomFeatureRidge
        >>> cost = RandomFeatureRidge(1000).estimate_cost(10_000_000, 20, in_memory=False)
        >>> cost.passes, cost.memory < 2e9
        (2, True)
        """
        plan, n, d, in_memory = self._plan(), whole("n", n), whole("d", d), yes_no("in_memory", in_memory)
        return plan.sized(n, d, in_memory=in_memory).cost(n, d, in_memory=in_memory)

    def outside(self, X: ArrayLike) -> Array:
        """Return how far every row is outside the training data: the largest distance of an input from the range of its
        training values, in units of that range, and 0 inside.

        The prediction for a row far outside is determined by the prior rather than by data. A value that was winsorised
        in training, because it lay more than ten ranges from the others, counts as outside. For an input that did not
        vary the unit is 1.

        Parameters
        ----------
        X : array or frame (n, d)
            The rows, in memory.

        Returns
        -------
        array (n,)

        Examples
        --------
        >>> from mlkm import MLKMRegressor
        >>> model = MLKMRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
        >>> model.outside([[1.5], [3.0]])
        array([0. , 0.5])
        """
        check_is_fitted(self)
        preparation = self.fitted_.preparation
        return preparation.outside(preparation.read(self, given_rows(X).together("outside")))

    def effects(self, X: ArrayLike, confidence_level: float = 0.95) -> Effects:
        """Return the effects of the columns at the rows of X, with confidence bands.

        The main effect of a column is `effects.main(j)`, and the interaction of two columns is `effects.pair(i, j)`,
        with columns given by index or name. Each has `values`, `band` and `band_simultaneous`, which
        `mlkm.explain.effects` defines.

        Parameters
        ----------
        X : array or frame (n, d)
            The rows, in memory.
        confidence_level : float, default=0.95
            The level of the bands, between 0 and 1.

        Returns
        -------
        Effects

        Examples
        --------
        >>> from mlkm import MLKMRegressor
        >>> from mlkm.datasets import make_example1
        >>> X, y, f = make_example1(n=300, d=4, random_state=0)
        >>> effect = MLKMRegressor(random_state=0).fit(X, y).effects(X).main(2)
        >>> lower, upper = effect.band
        >>> effect.values.shape, bool((lower < effect.values).all()), bool((effect.values < upper).all())
        ((300,), True, True)
        """
        check_is_fitted(self)
        table, single = self.read_table(given_rows(X).together("effects")), self.fitted_.preparation.single_output
        explainer = self.fitted_.explainer("effects")
        return Effects(explainer, self.standardised(table), table, single, confidence_level)

    def explain(self, X: ArrayLike) -> Contributions:
        """Return what every column contributes to the prediction at every row of X, by Shapley values
        (`mlkm.explain.contributions`).

        Parameters
        ----------
        X : array or frame (n, d)
            The rows, in memory.

        Returns
        -------
        Contributions
            Its `values` (n, d), or (n, d, k) for several outputs, summed over columns and added to `baseline`, are
            `predict(X)`.

        Examples
        --------
        >>> from mlkm import MLKMRegressor
        >>> model = MLKMRegressor().fit([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]], [0.0, 1.0, 2.0, 3.0])
        >>> parts = model.explain([[3.0, 0.0]])
        >>> bool(abs(parts.baseline + parts.values.sum() - model.predict([[3.0, 0.0]])[0]) < 1e-9)
        True
        """
        check_is_fitted(self)
        Z = self.standardised(given_rows(X).together("explain"))
        single = self.fitted_.preparation.single_output
        return self.fitted_.explainer("explain").contributions(Z, single)

    def read_table(self, X: object) -> Table:
        """Return the columns of the fit from a table, in the types that they had in the fit.

        Parameters
        ----------
        X : array or frame (n, d)
            The rows, in memory.

        Returns
        -------
        Table
        """
        return self.fitted_.preparation.reader.table(self, X)

    def standardised(self, X: object) -> Array:
        """Return the standardised inputs of a table with the columns of the fit.

        Parameters
        ----------
        X : array or frame (n, d)
            The rows, in memory.

        Returns
        -------
        array (n, inputs)
        """
        return self.fitted_.preparation.inputs(self, X)


@dataclass(frozen=True)
class MachinePredictions(Predictions):
    """A function from rows in memory to the predictions of a regressor of this package."""

    def __call__(self, rows: object) -> tuple[Array, ...]:
        model = cast(KernelMachine, self.model)
        fit, Z = model.fitted_, model.standardised(rows)
        results = fit.predict_with_std(Z) if self.return_std else (fit.predict(Z),)
        return tuple(map(fit.preparation.shaped, results))
