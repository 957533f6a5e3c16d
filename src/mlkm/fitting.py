"""From rows as they are given to a fitted machine: read, plan, train, store."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ._types import Array, RandomState
from .data import Inputs, Rows, checked_weights, distinct_rows, fit_fence, standardiser
from .data.prepare import as_source, prepared, split
from .data.scan import Scan, gathered, scan
from .data.source import NO_TARGET, Source, TableSource
from .data.tables.columns import encode
from .data.tables.frames import Table
from .data.tables.means import fit_numbers
from .data.tables.reading import category_mask, checked_table, reader_of, set_names
from .exceptions import NoSignalWarning, warn
from .fit.in_pieces import features_summed, train_in_pieces
from .fit.pairs import pairs_on
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
from .variance import SHOWN, FitSummary, StackSummary, summed_up


def _memory(source: Source, found: Scan) -> float:
    """Bytes that the rows of a source take in a fit in memory."""
    return float(ROW_COPIES * 8 * found.n * (source.n_columns + found.sample.Y.shape[1]))


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
        begin, seed, source = perf_counter(), root_seed(self.random_state), as_source(X, y, sample_weight)
        if source is not None:
            categorical, found = self._scanned(source, seed)
            n, d = found.n, source.n_columns
            plan = plan.sized(n, d, in_memory=False)
            with _timed(plan, begin, n, d, in_memory=False):
                if plan.sums(n) or (plan.n_parts is not None and _memory(source, found) > memory_budget()):
                    return self._fit_in_pieces(source, found, categorical, plan, seed)
                with pairs_on(source):
                    return self._fit_rows(self._gathered(source, found), plan, seed)
        check_given(self, y)
        given = checked_table(self, X, y, sample_weight)
        n, d = len(given[0]), len(given[0].columns)
        plan = plan.sized(n, d)
        with _timed(plan, begin, n, d, in_memory=True):
            return self._fit_many(*given, plan, seed) if plan.sums(n) else self._fit_rows(given, plan, seed)

    def _fit_rows(self, given: tuple[Table, Array, Array | None], plan: Plan, seed: int) -> Self:
        """Fit to rows in memory, as they are."""
        rows = self._rows(*given, plan, seed)
        plan = plan.at(rows.X.shape[1], self.x_scaler_, seed=seed)
        D = max(plan.widths or (0,))
        needed = MATRICES_HELD * 8.0 * D * min(len(rows), max(D, EXACT_ROWS))
        check_memory(needed, f"{D} features of {len(rows)} rows", "give fewer features")
        fitted = train(rows, plan, self.y_scaler_)
        weight = float(len(given[1]) if given[2] is None else given[2].sum())
        return self._store(fitted, self._range(rows), plan, (rows, self._summary(fitted)), weight)

    @property
    def _searches(self) -> bool:
        """Whether a fit learns the scale of layer 1."""
        return self._plan().automatic

    def _scanned(self, source: Source, seed: int) -> tuple[list[bool], Scan]:
        """What the columns of a source are, where they are categories by choice, and what a pass over them finds."""
        set_names(self, source.names, source.n_columns)
        categorical = category_mask(self.categorical_features, source.names, source.n_columns)
        found = scan(source, categorical, seed)
        if found.targets is None:
            raise ValueError(NO_TARGET)
        return categorical, found

    def _gathered(self, source: Source, found: Scan) -> tuple[Table, Array, Array | None]:
        """All rows in memory, where they fit."""
        check_memory(_memory(source, found), "The rows of this fit", "fit on fewer rows")
        table, Y, weights = gathered(source)
        targets = Y[:, 0] if source.single_output else Y
        return table, targets, checked_weights(weights, len(weights))

    def _fit_many(self, table: Table, targets: Array, weights: Array | None, plan: Plan, seed: int) -> Self:
        """Rows in memory, but so many that they are summed up."""
        Y = targets.astype(np.float64).reshape(len(targets), -1)
        weights = np.ones(len(Y)) if weights is None else weights
        source = TableSource(table, Y, weights, targets.ndim == 1)
        categorical = category_mask(self.categorical_features, table.names, len(table.columns))
        return self._fit_in_pieces(source, scan(source, categorical, seed), categorical, plan, seed, keep=True)

    def _fit_in_pieces(
        self, source: Source, found: Scan, categorical: list[bool], plan: Plan, seed: int, keep: bool = False
    ) -> Self:
        """What needs rows together from a sample, then sums or descent over all of them."""
        self._careful = plan.automatic
        ready = prepared(source, found, categorical, with_levels=plan.takes_levels, careful=plan.automatic, keep=keep)
        recipe = ready.recipe
        self._single_output, self._reader, self._kinds = source.single_output, recipe.reader, recipe.kinds
        self._numbers, self._fence = None if recipe.numbers is None else recipe.numbers.whole, ready.fence
        self.x_scaler_, self.y_scaler_ = recipe.in_use, recipe.y_scaler
        if self.x_scaler_.rounded.any():
            self._warn_dropped()
        plan = plan.at(ready.sample.X.shape[1], self.x_scaler_, seed=seed, n_rows=ready.pieces.n_rows)
        n_features = features_summed(plan, ready.sample.X.shape[1], ready.pieces.n_rows)
        fewer = f"give fewer features ({self._widths_name})"
        check_memory(MATRICES_HELD * 8.0 * n_features**2, f"The sums of {n_features} features", fewer)
        n_parts = plan.n_parts or 0
        ready = split(ready, found, n_parts, seed)
        trained = train_in_pieces(ready.sample, ready.of_all, ready.pieces, plan, self.y_scaler_, n_parts)
        fitted, solution, some = trained.fitted, trained.fitted.solution, ready.sample.take(slice(0, SHOWN))
        summary = summed_up(trained.layers, solution.penalty, trained.sums, trained.error, solution.loo_error, some)
        return self._store(fitted, (ready.low, ready.high), plan, (ready.rows, summary), found.weight)

    def _rows(self, table: Table, targets: Array, weights: Array | None, plan: Plan, seed: int) -> Rows:
        """Merged and standardised rows; stores the scalings. With automatic scales, numbers far beyond all others
        are held."""
        self._reader = reader_of(table, weights, self.categorical_features)
        inputs = encode(self._reader.columns, table)
        self._single_output, Y = targets.ndim == 1, targets.astype(np.float64).reshape(len(targets), -1)
        kinds, self._numbers = self._reader.inputs, None
        if kinds.levels.any() and not plan.takes_levels:
            rng = generator(seed, Purpose.LEVELS)
            self._numbers, inputs = fit_numbers(inputs, Y, kinds, weights, rng)
            kinds = Inputs(np.zeros(inputs.shape[1], np.intp), self._numbers.owners)
        self._kinds, self._careful = kinds, plan.automatic
        self._fence = fit_fence(inputs, self._careful, kinds.numbers, weights)
        if self._careful:
            inputs = np.clip(inputs, self._fence.low, self._fence.high)
        rows = distinct_rows(inputs, Y, weights, plan.folds(inputs, targets), kinds)
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

    def _store(
        self, fitted: Fitted, span: tuple[Array, Array], plan: Plan, training: tuple[Any, Any], weight: float
    ) -> Self:
        """Fitted attributes, in the units of y where they have any; for automatic scales, how far predictions may
        go."""
        solution, (low, high) = fitted.solution, span
        self.machines_ = solution.machines
        self.widths_, self.scales_, self.penalty_ = fitted.widths, fitted.scales, solution.penalty
        self.n_iter_, self.loss_curve_ = solution.n_iter, solution.trace
        self._store_error(solution.loo_error)
        self.feature_relevance_ = np.bincount(self._kinds.owners, fitted.relevance, minlength=self.n_features_in_)
        with np.errstate(over="ignore"):
            beyond = plan.policy.beyond * (high - low) if plan.automatic else np.inf
            self._limits = low - beyond, high + beyond
        self._span, self._beyond = span, plan.policy.beyond if plan.automatic else np.inf
        self._rows_of_fit, self._total_weight, self._learned = training, weight, plan.learned
        for name in ("_variance", "_seen", "_kept_layer"):
            self.__dict__.pop(name, None)
        self._warn_useless(plan.n_rows or len(training[0]), solution.loo_error, plan.policy)
        return self

    @staticmethod
    def _summary(fitted: Fitted) -> FitSummary | StackSummary:
        """What the variance needs to know of the fit."""
        solution, stack = fitted.solution, fitted.stack
        if stack is None:
            return FitSummary(fitted.prior, solution.penalty, solution.hidden_penalty, solution.loo_error)
        return StackSummary(
            stack.kernel, stack.noise, stack.shares, stack.ridge_penalty, stack.loo_error, stack.warped,
            solved=stack.solved,
        )  # fmt: skip
