"""What a report says, as plain data: every figure and sentence is made from this, and nothing else."""

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from .._types import Array
from ..data.tables.columns import CategoryColumn, Column, DateColumn
from ..data.tables.frames import Table
from ..runtime.checks import as_targets
from .accuracy import Score, Training, baselines, score
from .band import BandFacts, band_facts
from .curves import Curve, curves

_LOOKED_AT = 400  # rows at which effects are looked at
_SEEN = 0.05  # of the rows may be like training rows by chance
_LARGEST = 1e150  # number whose square, and sums of them, float64 holds


@dataclass(frozen=True)
class FitFacts:
    """What was fitted; `said` is what the one who fitted wrote down, such as the name of the target."""

    model: str
    rows: int | None
    kinds: Mapping[str, int]
    names: tuple[str, ...]
    relevance: Array | None
    loo_rmse: float | None
    level: float | None
    score: str | None
    n_calibration: int | None
    said: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """`prediction` and `interval` are those of the held-out rows, `outside` how far each is outside the training
    range."""

    fit: FitFacts
    y: Array
    prediction: Array
    interval: Array | None
    scores: tuple[Score, ...]
    band: BandFacts | None
    curves: tuple[Curve, ...]
    outside: Array | None
    notes: tuple[str, ...]


def machine_of(model: Any) -> Any:
    """The kernel machine inside, if there is one."""
    inner = getattr(model, "estimator_", model)
    return inner if hasattr(inner, "feature_relevance_") and hasattr(inner, "_view") else None


def fit_facts(model: Any) -> FitFacts:
    """What is known of a fit without looking at any row."""
    inner = machine_of(model)
    said = {**getattr(inner, "fit_facts_", {}), **getattr(model, "fit_facts_", {})}
    name = type(getattr(model, "estimator_", model)).__name__
    band = hasattr(model, "predict_interval")
    level = float(np.max(model.confidence_level)) if band else None
    of_band = (level, getattr(model, "score", None) if band else None, getattr(model, "n_calibration_", None))
    if inner is None:
        return FitFacts(name, None, {}, (), None, None, *of_band, said)
    names = getattr(inner, "feature_names_in_", [f"x{j}" for j in range(inner.n_features_in_)])
    kinds = Counter(kind_of(column) for column in inner._reader.columns)
    return FitFacts(
        name, _n_rows(inner), kinds, tuple(map(str, names)), np.asarray(inner.feature_relevance_),
        float(inner.loo_error_) ** 0.5, *of_band, said,
    )  # fmt: skip


def kind_of(column: Column) -> str:
    return "category" if isinstance(column, CategoryColumn) else "date" if isinstance(column, DateColumn) else "number"


def _n_rows(inner: Any) -> int | None:
    rows = inner._own_rows
    return round(float(rows.copies.sum() if rows is not None else inner._total_weight))


def gather(model: Any, X: Any, y: Any, interval: Array | None = None, said: Mapping[str, Any] | None = None) -> Facts:
    """All facts, from held-out rows; `interval` (n, 2) is that of a band which did not see these rows, by default the
    model's own, and `said` what is known of them."""
    check_is_fitted(model)
    y = as_targets(y)
    if y.ndim > 1 and y.shape[1] > 1:
        raise ValueError(f"A report is about one target; got y with {y.shape[1]}.")
    y = y.reshape(-1)
    inner, fit, notes = machine_of(model), fit_facts(model), list[str]()
    fit = replace(fit, said={**fit.said, **(said or {})})
    table = None if inner is None else inner._reader.table(inner, X)
    prediction = np.asarray(model.predict(X if table is None else table)).reshape(-1)
    check_consistent_length(prediction, y)
    largest = max(np.abs(y).max(), np.abs(prediction).max())
    if largest > _LARGEST:
        raise ValueError(
            f"A report needs outcomes and predictions of at most {_LARGEST:g}, whose squares float64 holds; got"
            f" {largest:.3g}: fit and judge in other units."
        )
    if interval is None:
        interval = _interval(model, X if table is None else table, prediction, notes)
    scores = [score(fit.model, y, prediction, fit.said.get("seconds"))]
    if inner is None:
        band = _band(fit, y, prediction, interval, None, None)
        return Facts(fit, y, prediction, interval, tuple(scores), band, (), None, tuple(notes))
    assert table is not None
    Z = inner._inputs(inner._read(table))
    training = _training(inner, Z)
    if training is None:
        notes.append("Simple models are not shown beside it: the training rows are not in the model.")
    else:
        scores += baselines(training, y)
        seen = _seen(training, inner.y_scaler_.forward(y[:, None]))
        if seen > _SEEN * len(y):
            notes.append(f"{seen:,} of {len(y):,} rows are rows of the fit itself: what is said here is too good.")
    band = _band(fit, y, prediction, interval, Z, _category(inner, fit, table))
    shown = _effects(inner, fit, table, notes)
    return Facts(fit, y, prediction, interval, tuple(scores), band, shown, inner.outside(table), tuple(notes))


def _interval(model: Any, X: Any, prediction: Array, notes: list[str]) -> Array | None:
    """The band of a conformal model, or of the standard deviations of a fit, where it has them."""
    if hasattr(model, "predict_interval"):
        level = float(np.max(model.confidence_level))
        return np.asarray(model.predict_interval(X, level)[1])[:, :, 0]
    try:
        std = np.asarray(model.predict(X, return_std=True)[1]).reshape(-1)
    except (TypeError, ValueError):
        notes.append("There is no band: the model has no standard deviations.")
        return None
    return np.stack([prediction - 1.96 * std, prediction + 1.96 * std], axis=1)


def _band(fit: FitFacts, y: Array, p: Array, interval: Array | None, Z: Array | None, by: Any) -> BandFacts | None:
    if interval is None:
        return None
    return band_facts(y, p, interval, fit.level or 0.95, fit.level is not None, Z, by)


def _training(inner: Any, Z: Array) -> Training | None:
    rows = inner._own_rows
    if rows is None:
        return None
    return Training(rows, np.asarray(inner.y_scaler_.backward(rows.Y))[:, 0], Z)


def _seen(training: Training, targets: Array) -> int:
    """How many held-out rows are training rows."""
    known = {row.tobytes() for row in np.hstack([training.rows.X, training.rows.Y])}
    return sum(row.tobytes() in known for row in np.hstack([training.held_out, targets]))


def _category(inner: Any, fit: FitFacts, table: Table) -> tuple[str, Any] | None:
    """The category that matters most."""
    places = [j for j, column in enumerate(inner._reader.columns) if isinstance(column, CategoryColumn)]
    if not places or fit.relevance is None:
        return None
    j = max(places, key=lambda place: fit.relevance[place])  # type: ignore[index]
    return fit.names[j], table.columns[j]


def _effects(inner: Any, fit: FitFacts, table: Table, notes: list[str]) -> tuple[Curve, ...]:
    assert fit.relevance is not None
    at = np.unique(np.linspace(0, len(table) - 1, min(_LOOKED_AT, len(table))).round().astype(int))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tuple(curves(inner.effects(table[at]), fit.relevance, fit.rows or 0))
    except ValueError as problem:
        notes.append(f"Effects are not shown: {problem}")
        return ()
