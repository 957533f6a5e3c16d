"""What all regressors share: standardised distinct rows in, an average of machines out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ._types import Array, IntArray
from .data import Block, checked_weights
from .data.tables.columns import Column
from .data.tables.frames import Table
from .data.tables.reading import Reader
from .data.training import as_rows
from .explain import Contributions, Effects, Explainer, PartialDependence
from .fit.apply import NO_WEIGHT, Predictions, finite_score, given_rows, new_rows, r2
from .fitting import Fitting
from .model.machine import predict_average
from .report import Reporting
from .runtime.checks import as_targets, check_given, whole, yes_no
from .search.cost import Cost
from .solve.uncertainty import LeftOut, Uncertainty, places

_SAVED_WITHOUT = "needs the training rows, which this model was saved without; save it with keep_rows=True."


class _NoRowsError(ValueError, AttributeError):
    """Also an attribute that is not there, so that `dir` and `hasattr` ask in peace."""


class KernelMachine(Reporting, RegressorMixin, Fitting):  # type: ignore[misc]
    """What all regressors share: standardised distinct rows in, an average of machines out."""

    def _targets(self, y: Any) -> Array:
        """Return y as numbers, with as many outputs as in the fit."""
        targets, k = as_targets(y), self._preparation.n_outputs
        n_outputs = 1 if targets.ndim < 2 else targets.shape[1]
        if n_outputs != k:
            raise ValueError(f"y must have {k} {'output' if k == 1 else 'outputs'}, as in the fit; got {n_outputs}.")
        return targets

    def _known(self, what: str = "A standard deviation") -> Uncertainty:
        """Return the uncertainty of the fit, or raise an error that names what was asked for."""
        if not hasattr(self, "_uncertainty"):
            raise _NoRowsError(f"{what} {_SAVED_WITHOUT}")
        return self._uncertainty

    @property
    def _training_rows(self) -> Block | None:
        """The training rows with their targets, where all of them are in memory."""
        return self._uncertainty.training_rows if hasattr(self, "_uncertainty") else None

    @property
    def _reader(self) -> Reader:
        return self._preparation.reader

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what effects are averaged over, which is computed again when needed."""
        state: dict[str, Any] = {**super().__getstate__()}
        state.pop("_seen", None)
        return state

    @property
    def noise_variance_(self) -> Any:
        """sigma^2 of `predict(X, return_std=True)`, on average over x, in squared units of y: a number, or one per
        output."""
        check_is_fitted(self)
        with np.errstate(over="ignore", under="ignore"):  # squares of numbers beyond 1e154
            noise = (np.sqrt(self._known("noise_variance_").noise) * self.y_scaler_.sd) ** 2
        return float(noise[0]) if self._preparation.single_output else noise

    @property
    def prediction_limits_(self) -> tuple[Array, Array]:
        """The least and the largest number that may be predicted, for every output; infinite where there is no
        limit."""
        check_is_fitted(self)
        return self._preparation.limits

    @property
    def has_closed_form_(self) -> bool:
        """Whether the fit without a row is known exactly (`leave_one_out`, `left_out_predictions`): one layer, solved
        in closed form, with its rows."""
        check_is_fitted(self)
        levels = self._preparation.levels
        if levels is not None and levels.crossed:  # inputs of a training row depend on the others' y
            return False
        return hasattr(self, "_uncertainty") and self._uncertainty.has_left_out

    def leave_one_out(self, X: ArrayLike, y: ArrayLike) -> LeftOut:
        """The rows of the fit, each seen by the fit without it: residuals y - f_{-i}(x_i) = r_i / (1 - h_i) and
        sigma_y(x_i) = sigma / sqrt(1 - h_i), (n, k) in the order given, h_i being the weight of the row in its own fit.

        Features and penalty are held fixed; a fit on another scale is left out there, and led back. Of equal rows one
        copy is left out; a row with a weight that is no number of copies, with all of it. For a row that the fit has
        not seen, f itself is the fit without it.
        """
        fit = self._closed_form("leave_one_out")
        Z, targets = self._preparation.inputs(self, X), self._targets(y)
        check_consistent_length(Z, targets)
        Y = self.y_scaler_.forward(targets.reshape(len(Z), -1).astype(float))
        place = places(fit.left_out_rows, Z, Y)
        f, std = fit.predict(Z)
        new = place[:, None] < 0
        std = np.where(new, std, fit.left_out_std[place])
        residuals = np.where(new, Y - f, fit.left_out_residuals[place])
        return LeftOut(residuals * self.y_scaler_.sd, std * self.y_scaler_.sd, place)

    def left_out_predictions(self, X: ArrayLike) -> Array:
        """f_{-i}(x), the prediction at every row of X by the fit without one copy of each distinct training row:
        (rows of X, distinct rows, outputs), within `prediction_limits_`.

        `leave_one_out(X, y).place` says where a training row is. f_{-i}(x) = f(x) - s_i(x) r_i / (1 - h_i), with
        s_i(x) the weight of the row in the fit at x.
        """
        fit = self._closed_form("left_out_predictions")
        Z = self._preparation.inputs(self, X)
        f = predict_average(self.machines_, Z)
        return self._preparation.within(self.y_scaler_.backward(f[:, None, :] - fit.left_out_changes(Z)), Z)

    def _closed_form(self, what: str) -> Uncertainty:
        """Return the uncertainty of a fit whose leave-one-out is known in closed form."""
        check_is_fitted(self)
        fit = self._known(what)
        if fit.rows is not None and fit.training_rows is None:
            raise ValueError(f"{what} {_SAVED_WITHOUT}")
        if not self.has_closed_form_:
            raise ValueError(
                f"{what} is known for one layer in closed form whose rows are in memory; this fit has hidden layers,"
                " rotations, descent, means of y for levels, or rows that are in files or on a cluster, or were not"
                " saved: take scikit-learn's cross_val_predict."
            )
        return fit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """The mean of y at every row of X: the average over the fitted machines.

        With automatic scales, inputs are used as they are up to one range beyond the training values, and replaced by
        the nearest training value from three ranges on (`mlkm.data.scaling`). Predictions exceed the training
        targets by at most half the range of these plus one range for every range by which inputs lie beyond theirs, and
        never by more than two ranges.

        With `return_std`, also the standard deviation of a new y there by the paper's estimator
        (`mlkm.solve.uncertainty`): the noise, plus the variance of f given the rows. The noise variance is constant or,
        for skewed targets and as far as leave-one-out residuals support it, constant on a transformed scale. The first
        such call factorises, which takes about as long as a fit with all choices given.
        """
        check_is_fitted(self)
        yes_no("return_std", return_std)
        shape = () if self._preparation.single_output else (self._preparation.n_outputs,)
        results = new_rows(X, self).apply(MachinePredictions(self, return_std), [shape] * (1 + return_std))
        return results if return_std else results[0]

    def _predict_block(self, X: ArrayLike, return_std: bool) -> tuple[Array, ...]:
        """Return predictions at rows in memory, with standard deviations where asked."""
        preparation = self._preparation
        Z = preparation.inputs(self, X)
        if not return_std:
            return (preparation.to_units(predict_average(self.machines_, Z), Z),)
        f, sigma = self._known("return_std").predict(Z)
        return preparation.to_units(f, Z), preparation.shaped(sigma * self.y_scaler_.sd)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination; of a table in files or a collection of dask it is summed up over pieces."""
        check_is_fitted(self)
        rows = as_rows(X, y, sample_weight)
        if rows is not None:
            return r2(rows, self)
        check_given(self, y)
        targets = self._targets(y)
        weights, f = checked_weights(sample_weight, len(targets)), self.predict(X)
        if weights is not None and not weights.any():
            raise ValueError(NO_WEIGHT)
        unit = 2.0 ** (np.frexp(np.abs(targets).max())[1] - 1)  # an exact factor, without which squares overflow
        with np.errstate(over="ignore"):
            return finite_score(float(r2_score(targets / unit, f / unit, sample_weight=weights)))

    def estimate_cost(self, n: int, d: int, *, in_memory: bool = True) -> Cost:
        """What a fit to n rows of d columns will take: `memory` in bytes, `seconds` on this machine to a factor of two
        or so, `way`, and `passes` over the rows.

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
        """How far every row is outside the training data: the largest distance of an input from the range of its
        training values, in units of that range; 0 inside. What a fit says of rows far outside is its prior, not data.
        A value that was drawn in in training, being ten ranges of the others away, is outside; an input that did not
        vary has the unit 1.

        Examples
        --------
        >>> from mlkm import MLKMRegressor
        >>> model = MLKMRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
        >>> model.outside([[1.5], [3.0]])
        array([0. , 0.5])
        """
        check_is_fitted(self)
        return self._preparation.outside(self._preparation.read(self, given_rows(X).together("outside")))

    def effects(self, X: ArrayLike, confidence_level: float = 0.95) -> Effects:
        """Effects of the columns at the rows of X, with bands: `effects.main(j)` is the effect of one column on its
        own, `effects.pair(i, j)` what two do together beyond that, with columns by place or name. Each has `values`,
        `band` and `band_simultaneous`; see `mlkm.explain.effects` for what they are.

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
        table = self._reader.table(self, given_rows(X).together("effects"))
        Z, single = self._preparation.inputs(self, table), self._preparation.single_output
        return self._explainer("effects").effects(Z, table, single, confidence_level)

    def explain(self, X: ArrayLike) -> Contributions:
        """What every column contributes to the prediction at every row of X: `values` (n, d), or (n, d, k) of several
        outputs, which with `baseline` add up to `predict(X)`. They are Shapley values: see
        `mlkm.explain.contributions`.

        Examples
        --------
        >>> from mlkm import MLKMRegressor
        >>> model = MLKMRegressor().fit([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]], [0.0, 1.0, 2.0, 3.0])
        >>> told = model.explain([[3.0, 0.0]])
        >>> bool(abs(told.baseline + told.values.sum() - model.predict([[3.0, 0.0]])[0]) < 1e-9)
        True
        """
        check_is_fitted(self)
        Z, single = self._preparation.inputs(self, given_rows(X).together("explain")), self._preparation.single_output
        return self._explainer("explain").contributions(Z, single)

    def _explainer(self, what: str) -> Explainer:
        """Return what effects and contributions are computed by, made at first use."""
        if not hasattr(self, "_seen"):
            self._seen = Explainer(PartialDependence(self, self.background_rows(what)))
        return self._seen

    # What explanations and reports ask of a fit (`explain.FittedModel`, `report.facts.ReportedModel`).

    @property
    def fitted_columns_(self) -> tuple[Column, ...]:
        """Return what the columns of the table of the fit are."""
        return self._reader.columns

    @property
    def fitted_names_(self) -> list[str]:
        """Return the names of the columns: those of the table, or x0, x1, ... where it had none."""
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        return [str(name) for name in names]

    @property
    def input_columns_(self) -> IntArray:
        """Return the place of the column that each input of the fit belongs to."""
        return self._preparation.kinds.owners

    @property
    def training_rows_(self) -> Block | None:
        """Return the distinct training rows, standardised, with their targets, where the model has all of them."""
        return self._training_rows

    @property
    def n_rows_(self) -> int:
        """Return the number of training rows; of rows that the model does not have, the sum of their weights."""
        rows = self._training_rows
        return round(float(self._total_weight if rows is None else rows.copies.sum()))

    def background_rows(self, what: str) -> Block:
        """Return training rows in an order by hashes of their content, or raise an error that names `what`."""
        rows = self._known(what).background
        if rows is None:
            raise ValueError(
                f"{what} averages over rows of the fit, and this model has none: it was given sums, or saved without"
                " rows; save it with keep_rows=True."
            )
        return rows

    def variance_estimator(self, what: str) -> Uncertainty:
        """Return the variance estimator in standardised units, or raise an error that names `what`."""
        return self._known(what)

    def read_table(self, X: Any) -> Table:
        """Return the columns of the fit from a table, in the types that they had there."""
        return self._reader.table(self, X)

    def standardised(self, X: Any) -> Array:
        """Return the standardised inputs of a table like that of the fit."""
        return self._preparation.inputs(self, X)

    def predict_standardised(self, Z: Array) -> Array:
        """Return predictions (n, k) in units of y at standardised inputs."""
        return self._preparation.within(self.y_scaler_.backward(predict_average(self.machines_, Z)), Z)


@dataclass(frozen=True)
class MachinePredictions(Predictions):
    """A function of rows in memory: what a regressor of this package predicts there."""

    def __call__(self, rows: Any) -> tuple[Array, ...]:
        return self.model._predict_block(rows, self.return_std)  # type: ignore[no-any-return]
