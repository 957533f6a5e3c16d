"""From rows as they are given to a fitted machine: read, plan, train, store."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ._types import Array, RandomState
from .data import Standardiser
from .data.preparation import Preparation, Standardised, TrainingInputs, Unscaled, fit_preparation
from .data.rows import Block, Rows
from .data.scan import Scan, scan
from .data.tables.frames import Table
from .data.tables.reading import category_mask, checked_table, set_names
from .data.training import as_rows, in_blocks, in_memory, table_rows
from .exceptions import NoSignalWarning, warn
from .fit.in_blocks import features_summed, train_in_blocks
from .fit.train import Fitted, train
from .runtime.atomic import all_or_nothing
from .runtime.callbacks import CallbackSupportMixin, listening, tasks_of, with_callbacks
from .runtime.checks import check_given
from .runtime.deadline import ending
from .runtime.memory import check_memory, memory_budget
from .runtime.progress import announce
from .runtime.seeds import Purpose, generator, root_seed
from .runtime.sizes import MATRICES_HELD, ROW_COPIES
from .search.plan import Plan
from .search.policy import Policy
from .solve.ridge import EXACT_ROWS
from .solve.stack import StackUncertainty
from .solve.uncertainty import SAMPLE_ROWS, RidgeUncertainty, Uncertainty


@contextmanager
def _timed(plan: Plan, begin: float, n: int, d: int, *, in_memory: bool) -> Iterator[None]:
    """Announce what the fit inside takes, where that is long and can be estimated, and end it by its deadline."""
    if plan.closed_form:
        announce(lambda: plan.cost(n, d, in_memory=in_memory).announcement)
    with ending(plan.deadline(begin, n, d, in_memory=in_memory)):
        yield


class Fitting(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """How a regressor is fitted to rows in memory, in files and on clusters."""

    _widths_name: ClassVar[str] = "widths"  # the parameter for the number of features
    random_state: RandomState
    categorical_features: Any
    n_features_in_: int
    _preparation: Preparation

    def _plan(self) -> Plan:
        """Return what the constructor's values ask for, checked."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to inputs X (n, d) and targets y (n,) or (n, k)."""
        return self._fit(self._plan(), X, y, sample_weight)

    @with_callbacks
    def _fit(self, plan: Plan, X: Any, y: Any, sample_weight: ArrayLike | None) -> Self:
        """Read, plan, train, store: all of it or nothing, as a task that callbacks are notified of."""
        tasks = tasks_of(self, X, y, sample_weight)
        with all_or_nothing(self), listening(getattr(self, "verbose", 0), tasks):
            self._fit_to(plan, X, y, sample_weight)
        if tasks is not None:
            tasks.finish()
        return self

    def _fit_to(self, plan: Plan, X: Any, y: Any, sample_weight: ArrayLike | None) -> Self:
        begin, seed, rows = perf_counter(), root_seed(self.random_state), as_rows(X, y, sample_weight)
        if rows is None:
            check_given(self, y)
            rows = table_rows(*checked_table(self, X, y, sample_weight))
        else:
            set_names(self, rows.names, rows.n_columns)
        d = rows.n_columns
        found = scan(rows, category_mask(self.categorical_features, rows.names, d), seed)
        plan = plan.sized(found.n, d, in_memory=rows.in_memory)
        with _timed(plan, begin, found.n, d, in_memory=rows.in_memory):
            inputs = self._prepare(rows, found, plan)
            needed = 0.0 if rows.in_memory else ROW_COPIES * 8.0 * found.n * (d + self._preparation.n_outputs)
            if plan.sums(found.n) or (plan.n_parts is not None and needed > memory_budget()):
                return self._fit_in_blocks(rows, found, inputs, plan, seed)
            check_memory(needed, "The rows of this fit", "fit on fewer rows")
            return self._fit_in_memory(rows, found, inputs, plan, seed)

    def _prepare(self, rows: Rows[Table], found: Scan, plan: Plan) -> TrainingInputs:
        """Fit the preparation of later rows, and return that of the training rows."""
        self._preparation, inputs = fit_preparation(
            rows, found, with_levels=plan.takes_levels, automatic=plan.automatic, beyond=plan.policy.beyond
        )
        if self.x_scaler_.rounded.any():
            self._warn_dropped()
        return inputs

    def _fit_in_memory(self, given: Rows[Table], found: Scan, inputs: TrainingInputs, plan: Plan, seed: int) -> Self:
        """Fit to all rows in memory."""
        block = given.gathered(Unscaled(inputs))
        fold = plan.folds(block.X, self._preparation.shaped(block.Y))
        rows, self._preparation = in_memory(block, fold, self._preparation)
        plan = plan.at(rows.X.shape[1], self.x_scaler_, seed=seed)
        D = max(plan.widths or (0,))
        needed = MATRICES_HELD * 8.0 * D * min(len(rows), max(D, EXACT_ROWS))
        check_memory(needed, f"{D} features of {len(rows)} rows", "give fewer features")
        fitted = train(rows, plan, self.y_scaler_, given.workers)
        return self._store(fitted, plan, self._uncertainty_of(fitted, rows), found.weight)

    def _fit_in_blocks(self, given: Rows[Table], found: Scan, inputs: TrainingInputs, plan: Plan, seed: int) -> Self:
        """Fit what needs rows together to a sample, then sum up or descend over all of them."""
        salt = int(generator(seed, Purpose.PARTS).integers(2**62))
        standardised = Standardised(self._preparation, inputs, found.n / found.weight, plan.n_parts or 0, salt)
        training = in_blocks(given, found, standardised, keep=given.in_memory)
        rows, sample = training.rows, training.sample
        plan = plan.at(sample.X.shape[1], self.x_scaler_, seed=seed, n_rows=rows.n)
        n_features = features_summed(plan, sample.X.shape[1], rows.n)
        fewer = f"give fewer features ({self._widths_name})"
        check_memory(MATRICES_HELD * 8.0 * n_features**2, f"The sums of {n_features} features", fewer)
        trained = train_in_blocks(training, plan, self.y_scaler_)
        fitted, solution = trained.fitted, trained.fitted.solution
        uncertainty = RidgeUncertainty(
            solution.machines, solution.penalty, solution.loo_error, training.kept, fitted.prior,
            features=trained.layers, sums=trained.sums, error=trained.error,
            sample=sample.take(slice(0, SAMPLE_ROWS)),
        )  # fmt: skip
        return self._store(fitted, plan, uncertainty, found.weight)

    @property
    def x_scaler_(self) -> Standardiser:
        """The scaling of the inputs."""
        return self._preparation.x_scaler

    @property
    def y_scaler_(self) -> Standardiser:
        """The scaling of the targets."""
        return self._preparation.y_scaler

    @property
    def _searches(self) -> bool:
        """Whether a fit learns the scale of layer 1."""
        return self._plan().automatic

    def _warn_dropped(self) -> None:
        """Name the inputs that are ignored because their variation is lost in rounding."""
        columns = np.unique(self._preparation.kinds.owners[self.x_scaler_.rounded])
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[columns].tolist()
        inputs = ("inputs " if len(names) > 1 else "input ") + ", ".join(map(repr, names))
        warn(
            f"The values of {inputs} differ by rounding error only, beside their size, and are ignored; subtract a "
            "constant near them where their differences mean something."
        )

    def _warn_useless(self, n: int, error: Array, policy: Policy) -> None:
        """Where rows left out are predicted no better than by the mean, on average over outputs that vary; `error` is
        in units of the targets' variance."""
        varies = error > 0
        enough, most = policy.useless
        if n >= enough and varies.any() and error[varies].mean() >= most:
            with np.errstate(over="ignore", under="ignore"):
                variance = float(np.mean(self.y_scaler_.sd**2))
            warn(
                f"The fit predicts rows left out no better than their mean: loo_error_ is {self.loo_error_:.3g}, and"
                f" the variance of y is {variance:.3g}; the inputs may tell nothing of y, or too little for {n} rows.",
                NoSignalWarning,
            )

    def _store_error(self, loo_error: Array) -> None:
        """Set `loo_error_` in squared units of y, from that of standardised targets."""
        with np.errstate(over="ignore", under="ignore"):  # squares of numbers beyond 1e154
            error = np.sqrt(loo_error) * self.y_scaler_.sd
            self.loo_error_ = float(np.mean(error**2))
        if np.isinf(self.loo_error_) or (self.loo_error_ == 0 and error.any()):
            warn(
                f"loo_error_ is {self.loo_error_:g}: it is in squared units of y, and the square of {error.max():.3g}"
                " is outside the range of floating point numbers; rescale y."
            )

    def _store(self, fitted: Fitted, plan: Plan, uncertainty: Uncertainty, weight: float) -> Self:
        """Set fitted attributes, in the units of y where they have any."""
        solution, owners = fitted.solution, self._preparation.kinds.owners
        self.machines_ = solution.machines
        self.widths_, self.scales_, self.penalty_ = fitted.widths, fitted.scales, solution.penalty
        self.n_iter_, self.loss_curve_ = solution.n_iter, solution.trace
        self._store_error(solution.loo_error)
        self.feature_relevance_ = np.bincount(owners, fitted.relevance, minlength=self.n_features_in_)
        self._uncertainty, self._total_weight, self._learned = uncertainty, weight, plan.learned
        for name in ("_seen", "_kept_layer"):
            self.__dict__.pop(name, None)
        n = plan.n_rows or (0 if uncertainty.rows is None else len(uncertainty.rows))
        self._warn_useless(n, solution.loo_error, plan.policy)
        return self

    @staticmethod
    def _uncertainty_of(fitted: Fitted, rows: Block[Array]) -> Uncertainty:
        """Describe the uncertainty of a fit to rows in memory."""
        solution, stack = fitted.solution, fitted.stack
        if stack is None:
            return RidgeUncertainty(
                solution.machines, solution.penalty, solution.loo_error, rows, fitted.prior, solution.hidden_penalty
            )
        return StackUncertainty(
            solution.machines, rows, stack.kernel, stack.noise, stack.shares, stack.ridge_penalty, stack.loo_error,
            stack.warped, stack.solved,
        )  # fmt: skip
