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
from .variance import FitSummary, LeftOut, Variance, left_out_fits, places

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
        self._training = rows, FitSummary(fitted.first, fitted.penalty, fitted.hidden_penalty, fitted.loo_error)
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
            self._variance = Variance(self.machines_, *self._training)
        return self._variance

    @property
    def noise_variance_(self) -> Any:
        """sigma^2 of `predict(X, return_std=True)`, in squared units of y: a number, or one per output."""
        check_is_fitted(self)
        noise = self._sigma().noise * self.y_scaler_.sd**2
        return float(noise[0]) if self._single_output else noise

    @property
    def prediction_limits_(self) -> tuple[Array, Array]:
        """The least and the largest number that may be predicted, for every output; infinite where there is no
        limit."""
        check_is_fitted(self)
        return self._limits

    @property
    def has_closed_form_(self) -> bool:
        """Whether the fit without a row is known exactly (`leave_one_out`, `left_out_predictions`): one layer, solved
        in closed form."""
        check_is_fitted(self)
        return self._training[1].prior is not None and len(self.machines_) == 1

    def leave_one_out(self, X: ArrayLike, y: ArrayLike) -> LeftOut:
        """The rows of the fit, each seen by the fit without it: residuals y - f_{-i}(x_i) = r_i / (1 - h_i) and
        sigma_y(x_i) = sigma / sqrt(1 - h_i), (n, k) in the order given, h_i being the weight of the row in its own fit.

        Features and penalty are held fixed. Of equal rows one copy is left out; a row with a weight that is no number
        of copies, with all of it. For a row that the fit has not seen, f itself is the fit without it.
        """
        variance = self._closed_form()
        inputs, targets = validate_data(self, X, y, reset=False, multi_output=True, y_numeric=True, dtype=np.float64)
        Z, Y = self.x_scaler_.forward(inputs), self.y_scaler_.forward(targets.reshape(len(inputs), -1).astype(float))
        place = places(variance.rows, Z, Y)
        f, std = variance.predict(Z)
        left = np.where(place < 0, 1.0, variance.room[place])[:, None]
        std = np.where(place[:, None] < 0, std, np.sqrt(variance.noise / left))
        return LeftOut((Y - f) / left * self.y_scaler_.sd, std * self.y_scaler_.sd, place)

    def left_out_predictions(self, X: ArrayLike) -> Array:
        """f_{-i}(x), the prediction at every row of X by the fit without one copy of each distinct training row:
        (rows of X, distinct rows, outputs), within `prediction_limits_`.

        `leave_one_out(X, y).place` says where a training row is. f_{-i}(x) = f(x) - s_i(x) r_i / (1 - h_i), with
        s_i(x) the weight of the row in the fit at x.
        """
        variance = self._closed_form()
        Z = self.x_scaler_.forward(validate_data(self, X, reset=False, dtype=np.float64))
        f, weights = left_out_fits(variance, Z)
        changes = weights[:, :, None] * (variance.residuals / variance.room[:, None])
        return np.clip(self.y_scaler_.backward(f[:, None, :] - changes), *self._limits)

    def _closed_form(self) -> Variance:
        if not self.has_closed_form_:
            raise ValueError(
                "Leave-one-out is known for one layer in closed form; this fit has hidden layers, rotations or descent:"
                " take scikit-learn's cross_val_predict."
            )
        return self._sigma()

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
