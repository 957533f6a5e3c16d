"""A fitted model on other rows: the kernel that it has learned is kept, and solved on these."""

from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from .data import check_near, checked_weights, distinct_rows, fit_fence, standardiser
from .fit.apply import is_elsewhere
from .fit.refit import train_again
from .model.prior import Prior
from .runtime.callbacks import listening
from .runtime.checks import as_targets
from .runtime.seeds import root_seed
from .search.kernel_search import LearnedKernel
from .search.plan import Plan
from .variance import StackSummary


def refit(model: Any, X: Any, y: Any, sample_weight: Any, plan: Plan) -> Any:
    """The model, solved anew; it stays as it was where something is wrong."""
    check_is_fitted(model)
    if is_elsewhere(X):
        raise ValueError("refit takes rows in memory; call fit for rows in files or on a cluster.")
    first, seed = _first_layer(model), root_seed(model.random_state)
    with listening(model.verbose):
        inputs = model._read(X)
        targets = as_targets(y)
        check_consistent_length(inputs, targets)
        weights = checked_weights(sample_weight, len(targets))
        fence = fit_fence(inputs, model._careful, model._kinds.numbers, weights)
        if model._careful:
            inputs = np.clip(inputs, fence.low, fence.high)
        rows = distinct_rows(inputs, targets.reshape(len(targets), -1), weights, None, model._kinds)
        y_scaler = standardiser(rows.Y, rows.weights)
        span = rows.Y.min(axis=0), rows.Y.max(axis=0)
        why = "where the kernel that refit keeps has no value; correct it, or call fit"
        check_near(model.x_scaler_.forward(rows.X, out=rows.X), why)
        y_scaler.forward(rows.Y, out=rows.Y)
        plan = plan.sized(len(rows), model.n_features_in_).at(rows.X.shape[1], model.x_scaler_, seed=seed)
        fitted = train_again(rows, plan, first)
    model.y_scaler_, model._fence, model._single_output = y_scaler, fence, targets.ndim == 1
    weight = float(len(targets) if weights is None else weights.sum())
    model._store(fitted, span, plan, (rows, model._summary(fitted)), weight)
    model._kept_layer = first  # what comes after several of these depends on the last rows alone
    return model


def _first_layer(model: Any) -> LearnedKernel | Prior:
    """What `fit` has learned: the kernel, or the features that stand for it."""
    if hasattr(model, "_kept_layer"):
        return cast(LearnedKernel | Prior, model._kept_layer)
    _, fit = model._rows_of_fit if hasattr(model, "_rows_of_fit") else (None, None)
    found = LearnedKernel(fit.kernel, fit.noise) if isinstance(fit, StackSummary) else getattr(fit, "prior", None)
    several = isinstance(found, Prior) and len(model.machines_) > 1
    nothing = isinstance(found, LearnedKernel) and not found.kernel.terms
    if found is None or several or nothing or not getattr(model, "_learned", True):
        raise ValueError(
            "refit keeps a learned first layer, and this model has none: its scales were given, it has hidden layers or"
            " rotations, its rows taught nothing, or it was saved without them; call fit."
        )
    return found
