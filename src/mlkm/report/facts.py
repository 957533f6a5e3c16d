"""The facts of a report as plain data: every figure and sentence is made from these, and nothing else."""

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from .._types import Array
from ..data.tables.cells import RawColumn, Table
from ..explain import Effects
from ..fit.apply import Predictor
from ..fit.fitted import Fit
from ..runtime.checks import as_targets
from .held_out import DETAIL, BandFacts, Curve, Score, band_facts, baselines, curves, evenly, n_seen, score
from .words import number, percent, plural, seconds


class ReportedModel(Protocol):
    """A fitted regressor of this package."""

    fitted_: Fit

    def read_table(self, X: Any) -> Table:
        """Return the columns of the fit from a table."""

    def standardised(self, X: Any) -> Array:
        """Return the standardised inputs of a table."""

    def outside(self, X: Any) -> Array:
        """Return how far every row is outside the training range."""

    def effects(self, X: Any) -> Effects:
        """Return effects of the columns at the rows of X."""


class FitRecord(TypedDict, total=False):
    """A record of a fit, which `mlkm fit` keeps beside the model."""

    target: str
    table: str
    left_out: int
    weights: str | None
    split: str
    seconds: float
    seed: int
    effort: str | float
    mlkm: str


@dataclass(frozen=True)
class FitFacts:
    """The facts of a fit: columns, relevance, leave-one-out error, band, and what was recorded of it."""

    model: str
    rows: int | None
    columns: Mapping[str, str]
    relevance: Array | None
    loo_rmse: float | None
    level: float | None
    score: str | None
    n_calibration: int | None
    record: FitRecord

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.columns)

    @property
    def relevance_by_name(self) -> dict[str, float]:
        """Return the relevance of every column, where it is known."""
        return {} if self.relevance is None else dict(zip(self.names, self.relevance.tolist(), strict=True))

    @property
    def kinds(self) -> Counter[str]:
        """Return how many columns are numbers, categories and dates."""
        return Counter(self.columns.values())

    @property
    def target(self) -> str:
        """Return the name of the target, where it is known."""
        return str(self.record.get("target") or "the target")

    @property
    def band(self) -> str | None:
        """Return the level of the band and the number of calibration rows in words."""
        if self.level is None:
            return None
        return f"{percent(self.level)}, calibrated on {plural(self.n_calibration or 0, 'row')}"

    @property
    def time(self) -> str | None:
        """Return the time of the fit in words."""
        return None if self.record.get("seconds") is None else seconds(self.record["seconds"])

    def most_relevant(self, most: int) -> str:
        """Return the most relevant columns with their relevance in words."""
        if self.relevance is None:
            return ""
        first = np.argsort(-self.relevance, kind="stable")[:most]
        return ", ".join(f"{self.names[j]} {percent(float(self.relevance[j]))}" for j in first)

    def summary(self) -> list[tuple[str, str]]:
        """Return names and values of the facts in words."""
        rows = [
            ("rows", None if self.rows is None else f"{self.rows:,}"),
            ("inputs kept", None),
            ("relevance", None),
            ("leave-one-out error", None if self.loo_rmse is None else f"{number(self.loo_rmse)} (root mean square)"),
            ("band", self.band),
            ("time of the fit", self.time),
        ]
        if self.relevance is not None:
            d, most = len(self.columns), DETAIL.summary_columns
            rows[1] = ("inputs kept", f"{int((self.relevance > 0).sum())} of {plural(d, 'column')}")
            rows[2] = ("relevance", self.most_relevant(most) + ", ..." * (d > most))
        return [(name, value) for name, value in rows if value is not None]


@dataclass(frozen=True)
class Facts:
    """All facts of a report.

    `prediction` and `interval` are those of the held-out rows, `outside` is how far each is outside the training range,
    `notes` are sentences on what could not be shown, and `checked` says how the intervals came about.
    """

    fit: FitFacts
    y: Array
    prediction: Array
    interval: Array | None
    scores: tuple[Score, ...]
    band: BandFacts | None
    curves: tuple[Curve, ...]
    outside: Array | None
    notes: tuple[str, ...]
    checked: str | None = None

    @property
    def error(self) -> Array:
        """Return the residuals, observed less predicted."""
        return self.y - self.prediction


def reported_model(model: Predictor) -> ReportedModel | None:
    """Return the regressor of this package in a model, if there is one."""
    inner = getattr(model, "estimator_", model)
    return cast(ReportedModel, inner) if hasattr(inner, "fitted_") else None


def fit_facts(model: Predictor) -> FitFacts:
    """Return what is known of a fit without any row."""
    inner, band = reported_model(model), hasattr(model, "predict_interval")
    record = cast(FitRecord, {**getattr(inner, "fit_facts_", {}), **getattr(model, "fit_facts_", {})})
    columns = {} if inner is None else dict(zip(inner.fitted_.names, inner.fitted_.columns, strict=True))
    return FitFacts(
        type(getattr(model, "estimator_", model)).__name__,
        None if inner is None else inner.fitted_.n_rows,
        {name: column.kind for name, column in columns.items()},
        None if inner is None else np.asarray(inner.fitted_.relevance),
        None if inner is None else float(inner.fitted_.loo_error) ** 0.5,
        _level(model) if band else None,
        getattr(model, "score", None) if band else None,
        getattr(model, "n_calibration_", None),
        record,
    )


def _level(band: Any) -> float:
    return float(np.max(band.confidence_level))


def gather(model: Predictor, X: Any, y: ArrayLike, interval: Array | None = None, checked: str | None = None) -> Facts:
    """Return all facts of a fitted regressor or band, judged by held-out rows.

    Parameters
    ----------
    model : a fitted regressor or band
    X, y : held-out rows
    interval : intervals (n, 2) of a band that did not see these rows; by default those of the model
    checked : a sentence that says how they came about
    """
    check_is_fitted(model)
    y = as_targets(y)
    if y.ndim > 1 and y.shape[1] > 1:
        raise ValueError(f"A report is about one target; got y with {y.shape[1]}.")
    y = y.reshape(-1)
    inner, fit, notes = reported_model(model), fit_facts(model), list[str]()
    table = X if inner is None else inner.read_table(X)
    prediction = np.asarray(model.predict(table)).reshape(-1)
    check_consistent_length(prediction, y)
    largest = max(np.abs(y).max(), np.abs(prediction).max())
    if largest > DETAIL.largest:
        raise ValueError(
            f"A report needs outcomes and predictions of at most {DETAIL.largest:g}, whose squares float64 holds; got"
            f" {largest:.3g}: fit and judge in other units."
        )
    if interval is None:
        interval = _interval(model, table, prediction, notes)
    scores, Z, category = [score(fit.model, y, prediction, fit.record.get("seconds"))], None, None
    if inner is not None:
        Z, category = inner.standardised(table), _category(fit, table)
        scores += _baselines(inner, Z, y, notes)
    band = None if interval is None else band_facts(y, prediction, interval, fit.level, Z, category)
    shown = () if inner is None else _effects(inner, fit, table, notes)
    outside = None if inner is None else inner.outside(table)
    return Facts(fit, y, prediction, interval, tuple(scores), band, shown, outside, tuple(notes), checked)


def _interval(model: Any, X: Any, prediction: Array, notes: list[str]) -> Array | None:
    """Return the intervals of a band, or those by the standard deviations of a fit, where it has them."""
    if hasattr(model, "predict_interval"):
        return np.asarray(model.predict_interval(X, _level(model))[1])[:, :, 0]
    try:
        std = np.asarray(model.predict(X, return_std=True)[1]).reshape(-1)
    except (TypeError, ValueError):
        notes.append("There is no band: the model has no standard deviations.")
        return None
    return np.stack([prediction - 1.96 * std, prediction + 1.96 * std], axis=1)


def _baselines(inner: ReportedModel, Z: Array, y: Array, notes: list[str]) -> list[Score]:
    """Return the errors of simple models where the model has its training rows, and note what to know of these."""
    rows = inner.fitted_.training_rows
    if rows is None:
        notes.append("Simple models are not shown beside it: the training rows are not in the model.")
        return []
    scaler = inner.fitted_.y_scaler
    seen = n_seen(rows, Z, scaler.forward(y[:, None]))
    if seen > DETAIL.seen_share * len(y):
        notes.append(f"{seen:,} of {len(y):,} rows are rows of the fit itself: what is said here is too good.")
    return baselines(rows, np.asarray(scaler.backward(rows.Y))[:, 0], Z, y)


def _category(fit: FitFacts, table: Table) -> tuple[str, RawColumn] | None:
    """Return the name and the values of the category with the largest relevance."""
    places = [j for j, kind in enumerate(fit.columns.values()) if kind == "category"]
    if not places or fit.relevance is None:
        return None
    j = max(places, key=fit.relevance.__getitem__)
    return fit.names[j], table.columns[j]


def _effects(inner: ReportedModel, fit: FitFacts, table: Table, notes: list[str]) -> tuple[Curve, ...]:
    """Return effects at some of the held-out rows, or note why there are none."""
    at = evenly(len(table), DETAIL.effect_rows)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tuple(curves(inner.effects(table[at]), inner.fitted_.relevance, fit.rows or 0))
    except ValueError as problem:
        notes.append(f"Effects are not shown: {problem}")
        return ()
