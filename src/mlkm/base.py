"""What all regressors share: standardised distinct rows in, an average of machines out."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from ._config import check_memory
from ._seeds import Purpose, generator, root_seed
from ._types import Array, RandomState
from ._whole import all_or_nothing
from .auto.plan import Plan, in_closed_form, is_automatic, make_plan, takes_levels
from .auto.policy import current_policy
from .fit.in_pieces import train_in_pieces
from .fit.train import Fitted, train
from .model.machine import predict_average
from .rows import Inputs, Rows, checked_weights, distinct_rows, fit_fence, folds_of, standardiser
from .sources.apply import Predictions, apply_rows, is_elsewhere, r2, sendable
from .sources.arrays import TableSource
from .sources.base import Source
from .sources.prepare import as_source, prepared
from .sources.scan import Scan, gathered, scan
from .tables.columns import encode
from .tables.frames import Table
from .tables.means import fit_numbers
from .tables.reading import category_mask, checked_table, reader_of, set_names
from .variance import (
    LARGEST,
    FitSummary,
    LeftOut,
    StackSummary,
    StackVariance,
    SummedVariance,
    SumsSummary,
    Variance,
    places,
)

_COPIES = 4  # of the rows that a fit in memory holds at the same time, about


class KernelMachine(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What all regressors share: standardised distinct rows in, an average of machines out."""

    random_state: RandomState
    categorical_features: Any

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, cv: Any = None, **choices: Any) -> Self:
        """Read, plan, train, store: all of it or nothing."""
        with all_or_nothing(self):
            seed, source = root_seed(self.random_state), as_source(X, y, sample_weight)
            summed = in_closed_form(cv=cv, **choices)
            if source is not None:
                categorical, found = self._scanned(source, seed)
                if summed and found.n > current_policy().kernel_rows[0]:
                    return self._fit_in_pieces(source, found, categorical, choices, seed)
                given = self._gathered(source, found)
            else:
                if y is None:
                    raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
                given = checked_table(self, X, y, sample_weight)
                if summed and len(given[0]) > current_policy().kernel_rows[0]:
                    return self._fit_many(*given, choices, seed)
            rows = self._rows(*given, cv, choices, seed)
            plan = self._plan(rows.X.shape[1], cv, seed, choices)
            fitted = train(rows, plan, self.y_scaler_)
            weight = float(len(given[1]) if given[2] is None else given[2].sum())
            return self._store(fitted, self._range(rows), plan, (rows, self._summary(fitted)), weight)

    def _plan(self, d: int, cv: Any, seed: int, choices: Any, n_rows: int | None = None) -> Plan:
        """What was asked for; in closed form features of a given scale are held where the inputs' origin is."""
        unit = np.where(np.isfinite(self.x_scaler_.sd), self.x_scaler_.sd, 1.0)
        origin = self.x_scaler_.mean / unit if in_closed_form(cv=cv, **choices) else None
        return make_plan(d, unit, rotate=cv is not None, seed=seed, n_rows=n_rows, origin=origin, **choices)

    def _scanned(self, source: Source, seed: int) -> tuple[list[bool], Scan]:
        """What the columns of a source are, where they are categories by choice, and what a pass over them finds."""
        set_names(self, source.names, source.n_columns)
        categorical = category_mask(self.categorical_features, source.names, source.n_columns)
        found = scan(source, categorical, seed)
        if found.targets is None:
            raise ValueError("The table has no target; name it, as in open_table(path, target='price'), or pass y.")
        return categorical, found

    def _gathered(self, source: Source, found: Scan) -> tuple[Table, Array, Array | None]:
        """All rows in memory: as few as kernels are solved on, or as many as fits that are no sums can take."""
        check_memory(_COPIES * 8 * found.n * (source.n_columns + found.sample.Y.shape[1]), "The rows of this fit")
        table, Y, weights = gathered(source)
        targets = Y[:, 0] if source.single_output else Y
        return table, targets, checked_weights(weights, len(weights))

    def _fit_many(self, table: Table, targets: Array, weights: Array | None, choices: Any, seed: int) -> Self:
        """Rows in memory, but so many that they are summed up."""
        Y = targets.astype(np.float64).reshape(len(targets), -1)
        weights = np.ones(len(Y)) if weights is None else weights
        source = TableSource(table, Y, weights, targets.ndim == 1)
        categorical = category_mask(self.categorical_features, table.names, len(table.columns))
        return self._fit_in_pieces(source, scan(source, categorical, seed), categorical, choices, seed, True)

    def _fit_in_pieces(
        self, source: Source, found: Scan, categorical: list[bool], choices: Any, seed: int,
        keep: bool = False,
    ) -> Self:  # fmt: skip
        """Layer 1 from a sample, then sums over all rows."""
        with_levels, self._careful = (
            takes_levels(cv=None, **choices),
            is_automatic(choices["scales"], choices["solver"]),
        )
        ready = prepared(source, found, categorical, with_levels=with_levels, careful=self._careful, keep=keep)
        recipe = ready.recipe
        self._single_output, self._reader, self._kinds = source.single_output, recipe.reader, recipe.kinds
        self._numbers, self._fence = None if recipe.numbers is None else recipe.numbers.whole, ready.fence
        self.x_scaler_, self.y_scaler_ = recipe.in_use, recipe.y_scaler
        if self.x_scaler_.rounded.any():
            self._warn_dropped()
        plan = self._plan(ready.sample.X.shape[1], None, seed, choices, ready.pieces.n_rows)
        trained = train_in_pieces(ready.sample, ready.of_all, ready.pieces, plan)
        fitted = trained.fitted
        summary = SumsSummary(trained.prior, fitted.solution.penalty, trained.sums, fitted.solution.loo_error)
        return self._store(fitted, (ready.low, ready.high), plan, (ready.rows, summary), found.weight)

    def _rows(self, table: Table, targets: Array, weights: Array | None, cv: Any, choices: Any, seed: int) -> Rows:
        """Merged and standardised rows; stores the scalings. With automatic scales, numbers far beyond all others
        are held."""
        self._reader = reader_of(table, weights, self.categorical_features)
        inputs = encode(self._reader.columns, table)
        self._single_output, Y = targets.ndim == 1, targets.astype(np.float64).reshape(len(targets), -1)
        kinds, self._numbers = self._reader.inputs, None
        if kinds.levels.any() and not takes_levels(cv=cv, **choices):
            rng = generator(seed, Purpose.LEVELS)
            self._numbers, inputs = fit_numbers(inputs, Y, kinds, weights, rng)
            kinds = Inputs(np.zeros(inputs.shape[1], np.intp), self._numbers.owners)
        self._kinds, self._careful = kinds, is_automatic(choices["scales"], choices["solver"])
        self._fence = fit_fence(inputs, self._careful, kinds.numbers)
        if self._careful:
            inputs = np.clip(inputs, self._fence.low, self._fence.high)
        fold = folds_of(cv, inputs, targets)
        rows = distinct_rows(inputs, Y, weights, fold, kinds)
        self.x_scaler_ = standardiser(rows.X, rows.weights, constant=np.inf, left=~kinds.numbers)
        self.y_scaler_ = standardiser(rows.Y, rows.weights)
        if self.x_scaler_.rounded.any():
            self._warn_dropped()
        self.x_scaler_.forward(rows.X, out=rows.X)  # copies of the fit's own
        self.y_scaler_.forward(rows.Y, out=rows.Y)
        return rows

    def _range(self, rows: Rows) -> tuple[Array, Array]:
        """The least and the largest target."""
        with np.errstate(over="ignore"):
            return self.y_scaler_.backward(rows.Y.min(axis=0)), self.y_scaler_.backward(rows.Y.max(axis=0))

    def _warn_dropped(self) -> None:
        """Name the inputs that are ignored because their variation is lost in rounding."""
        columns = np.unique(self._kinds.owners[self.x_scaler_.rounded])
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[columns].tolist()
        inputs = ("inputs " if len(names) > 1 else "input ") + ", ".join(map(repr, names))
        warnings.warn(
            f"The values of {inputs} differ by rounding error only, beside their size, and are ignored; subtract a "
            "constant near them where their differences mean something.",
            UserWarning,
            stacklevel=5,
        )

    def _store(
        self, fitted: Fitted, span: tuple[Array, Array], plan: Plan, training: tuple[Any, Any], weight: float
    ) -> Self:
        """Fitted attributes, in the units of y where they have any; for automatic scales, how far predictions may
        go."""
        solution, (low, high) = fitted.solution, span
        self.machines_ = solution.machines
        self.widths_, self.scales_, self.penalty_ = fitted.widths, fitted.scales, solution.penalty
        self.n_iter_, self.loss_curve_ = solution.n_iter, solution.trace
        with np.errstate(over="ignore", under="ignore"):  # squares of numbers beyond 1e154
            self.loo_error_ = float(np.mean((np.sqrt(solution.loo_error) * self.y_scaler_.sd) ** 2))
        self.feature_relevance_ = np.bincount(self._kinds.owners, fitted.relevance, minlength=self.n_features_in_)
        with np.errstate(over="ignore"):
            beyond = plan.policy.beyond * (high - low) if plan.automatic else np.inf
            self._limits = low - beyond, high + beyond
        self._rows_of_fit, self._total_weight = training, weight
        self.__dict__.pop("_variance", None)
        return self

    @staticmethod
    def _summary(fitted: Fitted) -> FitSummary | StackSummary:
        """What the variance needs to know of the fit."""
        solution, stack = fitted.solution, fitted.stack
        if stack is None:
            return FitSummary(fitted.prior, solution.penalty, solution.hidden_penalty, solution.loo_error)
        return StackSummary(stack.kernel, stack.noise, stack.shares, stack.ridge_penalty, stack.loo_error, stack.warped)

    @property
    def _training(self) -> tuple[Any, Any]:
        """The training rows, and what the variance needs to know of the fit."""
        if not hasattr(self, "_rows_of_fit"):
            raise ValueError(
                "return_std, noise_variance_ and leave-one-out need the training rows, which this model was saved"
                " without; save it with keep_rows=True."
            )
        return self._rows_of_fit

    def _read(self, X: Any) -> Array:
        """The inputs of a table like that of the fit, in its units."""
        inputs = self._reader.read(self, X)
        return inputs if self._numbers is None else self._numbers.numbers(inputs)

    def __getstate__(self) -> dict[str, Any]:
        """Without the factorisation behind `return_std`, which is made again when needed."""
        state: dict[str, Any] = {**super().__getstate__()}
        state.pop("_variance", None)
        return state

    def _sigma(self) -> Variance | StackVariance | SummedVariance:
        """The factorised variance estimator, made at first use."""
        if not hasattr(self, "_variance"):
            rows, fit = self._training
            self._variance: Variance | StackVariance | SummedVariance = (
                SummedVariance(self.machines_, fit)
                if isinstance(fit, SumsSummary)
                else StackVariance(self.machines_, rows, fit)
                if isinstance(fit, StackSummary)
                else Variance(self.machines_, rows, fit)
            )
        return self._variance

    @property
    def noise_variance_(self) -> Any:
        """sigma^2 of `predict(X, return_std=True)`, on average over x, in squared units of y: a number, or one per
        output."""
        check_is_fitted(self)
        with np.errstate(over="ignore", under="ignore"):  # squares of numbers beyond 1e154
            noise = (np.sqrt(self._sigma().noise) * self.y_scaler_.sd) ** 2
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
        in closed form, with its rows."""
        check_is_fitted(self)
        if not hasattr(self, "_rows_of_fit"):
            return False
        rows, fit = self._training
        if self._numbers is not None and self._numbers.crossed:  # inputs of a training row depend on the others' y
            return False
        if isinstance(fit, StackSummary):
            return len(rows) <= LARGEST
        return fit.prior is not None and len(self.machines_) == 1 and rows is not None

    def leave_one_out(self, X: ArrayLike, y: ArrayLike) -> LeftOut:
        """The rows of the fit, each seen by the fit without it: residuals y - f_{-i}(x_i) = r_i / (1 - h_i) and
        sigma_y(x_i) = sigma / sqrt(1 - h_i), (n, k) in the order given, h_i being the weight of the row in its own fit.

        Features and penalty are held fixed; a fit on another scale is left out there, and led back. Of equal rows one
        copy is left out; a row with a weight that is no number of copies, with all of it. For a row that the fit has
        not seen, f itself is the fit without it.
        """
        variance = self._closed_form()
        inputs, targets = self._read(X), check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(inputs, targets)
        Z, Y = self._inputs(inputs), self.y_scaler_.forward(targets.reshape(len(inputs), -1).astype(float))
        place = places(variance.rows, Z, Y)
        f, std = variance.predict(Z)
        new = place[:, None] < 0
        std = np.where(new, std, variance.left_out_std[place])
        residuals = np.where(new, Y - f, variance.left_out_residuals[place])
        return LeftOut(residuals * self.y_scaler_.sd, std * self.y_scaler_.sd, place)

    def left_out_predictions(self, X: ArrayLike) -> Array:
        """f_{-i}(x), the prediction at every row of X by the fit without one copy of each distinct training row:
        (rows of X, distinct rows, outputs), within `prediction_limits_`.

        `leave_one_out(X, y).place` says where a training row is. f_{-i}(x) = f(x) - s_i(x) r_i / (1 - h_i), with
        s_i(x) the weight of the row in the fit at x.
        """
        variance = self._closed_form()
        Z = self._inputs(self._read(X))
        f, _ = variance.predict(Z)
        return np.clip(self.y_scaler_.backward(f[:, None, :] - variance.left_out_changes(Z)), *self._limits)

    def _closed_form(self) -> Variance | StackVariance:
        check_is_fitted(self)
        if hasattr(self, "_rows_of_fit") and not self.has_closed_form_:
            raise ValueError(
                "Leave-one-out is known for one layer in closed form whose rows are in memory; this fit has hidden"
                " layers, rotations, descent, means of y for levels, or rows elsewhere: take scikit-learn's"
                " cross_val_predict."
            )
        rows, fit = self._training
        if isinstance(fit, SumsSummary):
            return Variance(self.machines_, rows, FitSummary(fit.prior, fit.penalty, 0.0, fit.loo_error))
        found = self._sigma()
        assert not isinstance(found, SummedVariance)
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """The mean of y at every row of X: the average over the fitted machines.

        With automatic scales, predictions stay within the training targets and twice their range on either side.

        With `return_std`, also the standard deviation of a new y there by the paper's estimator (`mlkm.variance`):
        noise of one size everywhere, or where targets are skewed as far as rows left out say so, of one size on a scale
        where they are not, plus what the rows leave undetermined. The first such call factorises, which takes
        about as long as a fit with all choices given.
        """
        check_is_fitted(self)
        if is_elsewhere(X):
            tail = () if self._single_output else (len(self.y_scaler_.mean),)
            found = apply_rows(Predictions(sendable(self, return_std), return_std), X, [tail] * (1 + return_std))
            return found if return_std else found[0]
        Z = self._inputs(self._read(X))
        if not return_std:
            return self._in_units(predict_average(self.machines_, Z))
        f, sigma = self._sigma().predict(Z)
        return self._in_units(f), self._shaped(sigma * self.y_scaler_.sd)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination; of a table in files or a collection of dask it is summed up over pieces."""
        check_is_fitted(self)
        source = as_source(X, y, sample_weight)
        return float(super().score(X, y, sample_weight)) if source is None else r2(source, self)

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
        return self._fence.outside(self._read(X))

    def _inputs(self, X: Array) -> Array:
        """Standardised inputs; with automatic scales no further out than a range beyond the training values."""
        return self.x_scaler_.forward(self._fence.held(X) if self._careful else X)

    def _in_units(self, f: Array) -> Array:
        """Predictions in the units of y, within the limits."""
        return self._shaped(np.clip(self.y_scaler_.backward(f), *self._limits))

    def _shaped(self, Y: Array) -> Array:
        return Y[:, 0] if self._single_output else Y
