"""From rows as they are given to a fitted machine: read, plan, train, store."""

from contextlib import AbstractContextManager
from numbers import Real
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ._types import Array, RandomState
from .data import Standardiser, parts_elsewhere
from .data.preparation import Preparation, TrainingInputs, fit_preparation
from .data.prepare import as_source, in_memory, in_pieces
from .data.scan import Scan, scan
from .data.source import Source, table_source
from .data.tables.reading import category_mask, checked_table, set_names
from .exceptions import NoSignalWarning, warn
from .fit.in_pieces import features_summed, train_in_pieces
from .fit.pairs import pairs_on
from .fit.train import Fitted, train
from .runtime.atomic import all_or_nothing
from .runtime.callbacks import CallbackSupportMixin, listening, tasks_of, with_callbacks
from .runtime.checks import check_given, is_auto
from .runtime.deadline import Deadline, ending
from .runtime.memory import check_memory, memory_budget
from .runtime.progress import announce
from .runtime.seeds import root_seed
from .search.cost import Cost, cost_of_default, cost_of_features, within
from .search.first_layer import width_of
from .search.plan import Plan, in_closed_form, is_automatic, make_plan, policy_for, takes_levels
from .search.policy import Policy, check_effort, current_policy, with_effort
from .solve.ridge import EXACT_ROWS
from .variance import SHOWN, FitSummary, StackSummary, summed_up

_SQUARES = 6  # matrices of features, or of their products, that a fit holds at the same time, about
_ENOUGH = 30  # rows from which on it is said that a fit is useless
_USELESS = 0.99  # of the variance of y: error of rows left out from which on it is
_COPIES = 4  # of the rows that a fit in memory holds at the same time, about


def _memory(source: Source, found: Scan) -> float:
    """Bytes that the rows of a source take in a fit in memory."""
    return float(_COPIES * 8 * found.n * (source.n_columns + found.sample.Y.shape[1]))


class Fitting(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """How a regressor is fitted to rows in memory, in files and on clusters."""

    random_state: RandomState
    categorical_features: Any
    n_features_in_: int
    _preparation: Preparation

    @with_callbacks
    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, cv: Any = None, **choices: Any) -> Self:
        """Read, plan, train, store: all of it or nothing, as a task of which callbacks are told."""
        check_effort(self._effort)
        tasks = tasks_of(self, X, y, sample_weight)
        with all_or_nothing(self), listening(getattr(self, "verbose", 0), tasks):
            self._fit_to(X, y, sample_weight, cv, choices)
        if tasks is not None:
            tasks.finish()
        return self

    def _fit_to(self, X: Any, y: Any, sample_weight: ArrayLike | None, cv: Any, choices: dict[str, Any]) -> Self:
        seed, begin, summed = root_seed(self.random_state), perf_counter(), in_closed_form(cv=cv, **choices)
        source = as_source(X, y, sample_weight)
        here = source is None
        if source is None:
            check_given(self, y)
            source = table_source(*checked_table(self, X, y, sample_weight))
        else:
            set_names(self, source.names, source.n_columns)
        d = source.n_columns
        found = scan(source, category_mask(self.categorical_features, source.names, d), seed)
        policy = choices["policy"] = self._policy(found.n, d, here)
        with self._begun(begin, found.n, d, policy, summed, here):
            many = summed and found.n > policy.kernel_rows[0]
            by_parts = not here and parts_elsewhere(cv, 1) is not None
            inputs = self._prepare(source, found, cv, choices)
            if many or (by_parts and _memory(source, found) > memory_budget()):
                return self._fit_in_pieces(source, found, inputs, choices, seed, cv, keep=here)
            if not here:
                check_memory(_memory(source, found), "The rows of this fit", "fit on fewer rows")
            with pairs_on(source):
                return self._fit_rows(source, found, inputs, cv, choices, seed)

    def _prepare(self, source: Source, found: Scan, cv: Any, choices: dict[str, Any]) -> TrainingInputs:
        """Fit the preparation of later rows, and return that of the training rows."""
        self._preparation, inputs = fit_preparation(
            source,
            found,
            with_levels=takes_levels(cv=cv, **choices),
            automatic=is_automatic(choices["scales"], choices["solver"]),
            beyond=choices["policy"].beyond,
        )
        if self.x_scaler_.rounded.any():
            self._warn_dropped()
        return inputs

    def _fit_rows(
        self, source: Source, found: Scan, inputs: TrainingInputs, cv: Any, choices: dict[str, Any], seed: int
    ) -> Self:
        """Fit to all rows in memory."""
        rows, self._preparation = in_memory(source, self._preparation, inputs, cv)
        plan = self._plan(rows.X.shape[1], cv, seed, choices)
        D = max(plan.widths or (0,))
        needed = _SQUARES * 8.0 * D * min(len(rows), max(D, EXACT_ROWS))
        check_memory(needed, f"{D} features of {len(rows)} rows", "give fewer features")
        fitted = train(rows, plan, self.y_scaler_)
        return self._store(fitted, plan, (rows, self._summary(fitted)), found.weight)

    @property
    def x_scaler_(self) -> Standardiser:
        """The scaling of the inputs."""
        return self._preparation.x_scaler

    @property
    def y_scaler_(self) -> Standardiser:
        """The scaling of the targets."""
        return self._preparation.y_scaler

    @property
    def _effort(self) -> Any:
        return getattr(self, "effort", None)

    @property
    def _searches(self) -> bool:
        """Whether a fit learns the scale of layer 1."""
        return is_automatic(getattr(self, "scale", getattr(self, "scales", "auto")), getattr(self, "solver", "auto"))

    def _policy(self, n: int, d: int, in_memory: bool) -> Policy:
        """That of the effort asked for; by its cost, where that is a time."""
        if not isinstance(self._effort, Real):
            return policy_for(with_effort(current_policy(), self._effort), getattr(self, "solver", None))
        return within(float(self._effort), current_policy(), lambda policy: self._cost(n, d, policy, in_memory))

    def _begun(
        self, begin: float, n: int, d: int, policy: Policy, summed: bool, in_memory: bool
    ) -> AbstractContextManager[None]:
        """With a word on its cost, where it is long and known, and until when, where a time was given: at least a
        fourth of that is the search's."""
        if summed:
            announce(lambda: self._announced(n, d, policy, in_memory))
        if not isinstance(self._effort, Real):
            return ending(Deadline())
        seconds, cost = float(self._effort), self._cost(n, d, policy, in_memory)
        return ending(Deadline(begin + max(seconds - cost.after_search, seconds / 4), begin + seconds))

    def _cost(self, n: int, d: int, policy: Policy, in_memory: bool) -> Cost:
        """What a fit takes with this policy: of kernels where nothing is given, else of the features of layer 1."""
        given = getattr(self, "n_features", getattr(self, "widths", "auto"))
        if is_auto(given) and hasattr(self, "widths"):
            return cost_of_default(n, d, policy, in_memory)
        D = width_of(n, policy) if is_auto(given) else int(np.atleast_1d(given)[0])
        return cost_of_features(
            n, d, D, given=not is_auto(given), in_memory=in_memory, searched=self._searches, policy=policy
        )

    def _announced(self, n: int, d: int, policy: Policy, in_memory: bool) -> tuple[str, float]:
        cost = self._cost(n, d, policy, in_memory)
        return str(cost), cost.seconds

    def _plan(self, d: int, cv: Any, seed: int, choices: Any, n_rows: int | None = None) -> Plan:
        """What was asked for; in closed form features of a given scale are held where the inputs' origin is."""
        unit = np.where(np.isfinite(self.x_scaler_.sd), self.x_scaler_.sd, 1.0)
        origin = self.x_scaler_.mean / unit if in_closed_form(cv=cv, **choices) else None
        return make_plan(d, unit, rotate=cv is not None, seed=seed, n_rows=n_rows, origin=origin, **choices)

    def _fit_in_pieces(
        self,
        source: Source,
        found: Scan,
        inputs: TrainingInputs,
        choices: dict[str, Any],
        seed: int,
        cv: Any,
        *,
        keep: bool,
    ) -> Self:
        """Fit what needs rows together to a sample, then sum up or descend over all of them."""
        d = len(self.x_scaler_.mean)
        fewer = f"give fewer features ({'n_features' if hasattr(self, 'n_features') else 'widths'})"
        depth = self._plan(d, cv, seed, choices, found.n).depth
        n_parts = parts_elsewhere(cv, depth) or 0
        ready = in_pieces(source, found, self._preparation, inputs, keep=keep, n_parts=n_parts, seed=seed)
        plan = self._plan(d, cv, seed, choices, ready.pieces.n_rows)
        n_features = features_summed(plan, d, ready.pieces.n_rows)
        check_memory(_SQUARES * 8.0 * n_features**2, f"The sums of {n_features} features", fewer)
        trained = train_in_pieces(ready.sample, ready.of_all, ready.pieces, plan, self.y_scaler_, n_parts)
        fitted, solution, shown = trained.fitted, trained.fitted.solution, ready.sample.take(slice(0, SHOWN))
        summary = summed_up(trained.layers, solution.penalty, trained.sums, trained.error, solution.loo_error, shown)
        return self._store(fitted, plan, (ready.rows, summary), found.weight)

    def _warn_dropped(self) -> None:
        """Name the inputs that are ignored because their variation is lost in rounding."""
        columns = np.unique(self._preparation.kinds.owners[self.x_scaler_.rounded])
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[columns].tolist()
        inputs = ("inputs " if len(names) > 1 else "input ") + ", ".join(map(repr, names))
        warn(
            f"The values of {inputs} differ by rounding error only, beside their size, and are ignored; subtract a "
            "constant near them where their differences mean something."
        )

    def _warn_useless(self, n: int, error: Array) -> None:
        """Where rows left out are predicted no better than by the mean, on average over outputs that vary; `error` is
        in units of the targets' variance."""
        varies = error > 0
        if n >= _ENOUGH and varies.any() and error[varies].mean() >= _USELESS:
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

    def _store(self, fitted: Fitted, plan: Plan, training: tuple[Any, Any], weight: float) -> Self:
        """Set fitted attributes, in the units of y where they have any."""
        solution, owners = fitted.solution, self._preparation.kinds.owners
        self.machines_ = solution.machines
        self.widths_, self.scales_, self.penalty_ = fitted.widths, fitted.scales, solution.penalty
        self.n_iter_, self.loss_curve_ = solution.n_iter, solution.trace
        self._store_error(solution.loo_error)
        self.feature_relevance_ = np.bincount(owners, fitted.relevance, minlength=self.n_features_in_)
        self._rows_of_fit, self._total_weight, self._learned = training, weight, plan.learned
        for name in ("_variance", "_seen", "_kept_layer"):
            self.__dict__.pop(name, None)
        self._warn_useless(plan.n_rows or len(training[0]), solution.loo_error)
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
