"""What all regressors share: standardised distinct rows in, an average of machines out."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ._types import Array
from .fit.train import Fitted
from .model.machine import predict
from .rows import Rows, checked_weights, distinct_rows, folds_of, standardiser
from .variance.estimator import Training, Variance

# ranges of the training targets by which a prediction may leave them: an input far out must not be answered with
# nonsense
_BEYOND = 2.0


class KernelMachine(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What all regressors share: standardised distinct rows in, an average of machines out."""

    _residual = False

    def _rows(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, cv: Any = None, *, automatic: bool
    ) -> Rows:
        """Validated, merged and standardised rows; stores the scalings, and for automatic scales how far predictions
        may go."""
        inputs, targets = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        weights = checked_weights(sample_weight, len(inputs))
        self._single_output = targets.ndim == 1
        rows = distinct_rows(
            inputs, targets.astype(np.float64).reshape(len(targets), -1), weights, folds_of(cv, inputs, targets)
        )
        self.x_scaler_, self.y_scaler_ = (
            standardiser(rows.X, rows.weights, constant=np.inf),
            standardiser(rows.Y, rows.weights),
        )
        low, high = rows.Y.min(axis=0), rows.Y.max(axis=0)
        beyond = _BEYOND * (high - low) if automatic else np.inf
        self._limits = low - beyond, high + beyond
        return replace(rows, X=self.x_scaler_.forward(rows.X), Y=self.y_scaler_.forward(rows.Y))

    def _units(self) -> Array:
        """Standard deviations of the inputs, 1 where an input does not vary."""
        return np.where(np.isfinite(self.x_scaler_.sd), self.x_scaler_.sd, 1.0)

    def _store(self, fitted: Fitted, rows: Rows) -> Self:
        """Fitted attributes, in the units of y where they have any."""
        self.machines_ = fitted.machines
        self.widths_, self.scales_, self.penalty_ = fitted.widths, fitted.scales, fitted.penalty
        self.n_iter_, self.loss_curve_ = fitted.n_iter, fitted.losses
        self.loo_error_ = float(np.mean(fitted.loo_error * self.y_scaler_.sd**2))
        self.feature_relevance_ = fitted.relevance
        counts = rows.weights * (rows.copies.sum() / len(rows.X))
        self._training = Training(
            rows.X, rows.Y, counts, rows.copies, fitted.first, fitted.hidden_penalty, fitted.penalty, fitted.loo_error
        )
        self.__dict__.pop("_variance", None)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Without the factorisation behind `return_std`, which is made again when needed."""
        state: dict[str, Any] = {**super().__getstate__()}
        state.pop("_variance", None)
        return state

    def _sigma(self) -> Variance:
        """The factorised variance estimator, made at first use."""
        if not hasattr(self, "_variance"):
            self._variance = Variance(self.machines_, self._training)
        return self._variance

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """The mean of y at every row of X: the average over the fitted machines.

        With automatic scales, predictions stay within the training targets and twice their range on either side.

        With `return_std`, also the standard deviation of a new y there by the paper's estimator (`mlkm.variance`):
        noise of one size everywhere, plus what the rows leave undetermined. The first such call factorises, which takes
        about as long as a fit with all choices given.
        """
        check_is_fitted(self)
        Z = self.x_scaler_.forward(validate_data(self, X, reset=False, dtype=np.float64))
        if not return_std:
            return self._in_units(np.mean([predict(machine, Z) for machine in self.machines_], axis=0))
        f, sigma = self._sigma().predict(Z)
        return self._in_units(f), self._shaped(sigma * self.y_scaler_.sd)

    def _in_units(self, f: Array) -> Array:
        """Predictions in the units of y, within the limits."""
        return self._shaped(np.clip(self.y_scaler_.backward(f), *self._limits))

    def _shaped(self, Y: Array) -> Array:
        return Y[:, 0] if self._single_output else Y
