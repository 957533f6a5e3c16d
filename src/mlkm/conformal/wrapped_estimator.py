"""The regressor inside a band: fitted with weights where there are any, and seen through the pipeline around it.

A second fit, of |residual| or of quantiles, runs on what the last step of a pipeline sees: categories are encoded and
gaps are filled there, and the steps before it are fitted once.
"""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from .._types import Array
from ..runtime.checks import brief


def last_step(model: Any) -> Any:
    """What predicts in the end: the last step of a pipeline, the model in a frozen one."""
    if isinstance(model, FrozenEstimator):
        return last_step(model.estimator)
    return last_step(model.steps[-1][1]) if isinstance(model, Pipeline) else model


def is_frozen(model: Any) -> bool:
    """Whether fitting leaves the last step as it is."""
    return isinstance(model, FrozenEstimator) or (isinstance(model, Pipeline) and is_frozen(model.steps[-1][1]))


def seen_by_last(model: Any, X: Any) -> Any:
    """What the last step of a fitted model sees of X."""
    if isinstance(model, FrozenEstimator):
        return seen_by_last(model.estimator, X)
    if not isinstance(model, Pipeline):
        return X
    return seen_by_last(model.steps[-1][1], model[:-1].transform(X) if len(model.steps) > 1 else X)


def check_regressor(estimator: Any) -> None:
    """Refuse what cannot be fitted."""
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
        raise TypeError(f"estimator must be a regressor, with fit and predict, as in Ridge(); got {brief(estimator)}.")


def has_std(model: Any) -> bool:
    """Whether `predict(X, return_std=True)` is offered."""
    predict = getattr(last_step(model), "predict", None)
    return predict is not None and "return_std" in signature(predict).parameters


def may_have_closed_form(model: Any) -> bool:
    """Whether the last step, once fitted, may know its fit without any row."""
    return hasattr(type(last_step(model)), "has_closed_form_")


def has_closed_form(model: Any) -> bool:
    """Whether the last step knows its fit without any row exactly."""
    return bool(getattr(last_step(model), "has_closed_form_", False))


def searches(model: Any) -> bool:
    """Whether the last step learns its features from the rows that it is fitted to."""
    return bool(getattr(last_step(model), "_searches", False))


def fit_arguments(estimator: Any, weights: Array | None) -> dict[str, Any]:
    """Weights as an argument of `fit`, or a message where it takes none."""
    if weights is None:
        return {}
    parameters = signature(estimator.fit).parameters
    if "sample_weight" in parameters or any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values()):
        return {"sample_weight": weights}
    raise ValueError(
        f"sample_weight was given, and fit of {type(estimator).__name__} takes none; fit it first, and weigh the"
        " calibration alone: conformalize(X, y, sample_weight=...)."
    )


def fit_regressor(
    estimator: Any, X: Any, y: Array, weights: Array | None = None, check: Callable[[Any], object] = lambda seen: None
) -> tuple[Any, Any]:
    """A fitted clone, and what its last step saw of X, which `check` may refuse before that step is fitted."""
    model = clone(estimator)
    if isinstance(model, FrozenEstimator):
        seen = seen_by_last(model, X)
        check(seen)
        return model, seen
    if not isinstance(model, Pipeline) or type(model).fit is not Pipeline.fit:  # others may change rows in their fit
        check(X)
        return model.fit(X, y, **fit_arguments(model, weights)), X
    before, (name, last) = model[:-1], model.steps[-1]
    seen = before.fit_transform(X, y) if len(model.steps) > 1 else X
    fitted, seen = fit_regressor(last, seen, y, weights, check)
    model.steps = [*before.steps, (name, fitted)]
    return model, seen
