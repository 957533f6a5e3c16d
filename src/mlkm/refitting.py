"""A fitted model on other rows: the kernel that it has learned is kept, and solved on these."""

from typing import Any, cast

from sklearn.utils.validation import check_consistent_length, check_is_fitted

from .data import checked_weights
from .fit.apply import given_rows
from .fit.refit import train_again
from .model.prior import Prior
from .runtime.callbacks import listening
from .runtime.checks import as_targets
from .runtime.seeds import root_seed
from .search.kernel_search import LearnedKernel
from .search.plan import Plan


def refit(model: Any, X: Any, y: Any, sample_weight: Any, plan: Plan) -> Any:
    """The model, solved anew; it stays as it was where something is wrong."""
    check_is_fitted(model)
    if not given_rows(X).in_memory:
        raise ValueError("refit takes rows in memory; call fit for rows in files or on a cluster.")
    first, seed = _first_layer(model), root_seed(model.random_state)
    with listening(model.verbose):
        before = model._preparation
        inputs, targets = before.read(model, X), as_targets(y)
        check_consistent_length(inputs, targets)
        weights = checked_weights(sample_weight, len(targets))
        rows, preparation = before.refitted(inputs, targets, weights)
        plan = plan.sized(len(rows), model.n_features_in_).at(rows.X.shape[1], model.x_scaler_, seed=seed)
        fitted = train_again(rows, plan, first)
    model._preparation = preparation
    weight = float(len(targets) if weights is None else weights.sum())
    model._store(fitted, plan, model._uncertainty_of(fitted, rows), weight)
    model._kept_layer = first  # what comes after several of these depends on the last rows alone
    return model


def _first_layer(model: Any) -> LearnedKernel | Prior:
    """What `fit` has learned: the kernel, or the features that stand for it."""
    if hasattr(model, "_kept_layer"):
        return cast(LearnedKernel | Prior, model._kept_layer)
    learned = model._uncertainty.learned if hasattr(model, "_uncertainty") else None
    if learned is None or not getattr(model, "_learned", True):
        raise ValueError(
            "refit keeps a learned first layer, and this model has none: its scales were given, it has hidden layers or"
            " rotations, its rows taught nothing, or it was saved without them; call fit."
        )
    return LearnedKernel(*learned) if isinstance(learned, tuple) else cast(Prior, learned)
