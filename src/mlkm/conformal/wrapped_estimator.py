"""The regressor inside a band: how it is fitted, with weights where there are any, and looked at through the pipeline
around it; and the base class of the estimators that wrap one.

A second fit, of absolute residuals or of quantiles, runs on the inputs of the last step of a pipeline: categories are
encoded and missing values are filled in there, and the steps before it are fitted once.
"""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from .._types import Array, RandomState
from ..base import KernelMachine
from ..data.preparation import as_rows, given_rows
from ..estimators import MLKMRegressor
from ..exceptions import OutsideWarning, warn
from ..fit.apply import Predictions, new_rows, r2
from ..runtime.checks import brief, one_of


class Regressor(Protocol):
    """A regressor with scikit-learn's interface; rows may be an array, a frame or any other table that it takes."""

    def fit(self, X: object, y: Array, /) -> object:
        """Fit to rows and their targets."""

    def predict(self, X: object, /) -> Array:
        """Return the predicted means, (n,) or (n, k)."""


def columns(y: object) -> Array:
    """Return targets or predictions as a matrix (n, k)."""
    array = np.asarray(y, np.float64)
    return np.asarray(array.reshape(len(array), -1))


def last_step(model: Regressor) -> Regressor:
    """Return the regressor that predicts: the last step of a pipeline, or the model inside a frozen one."""
    if isinstance(model, FrozenEstimator):
        return last_step(model.estimator)
    return last_step(model.steps[-1][1]) if isinstance(model, Pipeline) else model


def is_frozen(model: Regressor) -> bool:
    """Return whether fitting leaves the last step unchanged."""
    return isinstance(model, FrozenEstimator) or (isinstance(model, Pipeline) and is_frozen(model.steps[-1][1]))


def last_inputs(model: Regressor, X: object) -> object:
    """Return the inputs of the last step of a fitted model at rows X."""
    if isinstance(model, FrozenEstimator):
        return last_inputs(model.estimator, X)
    if not isinstance(model, Pipeline):
        return X
    return last_inputs(model.steps[-1][1], model[:-1].transform(X) if len(model.steps) > 1 else X)


def has_std(model: Regressor) -> bool:
    """Return whether the regressor offers `predict(X, return_std=True)`."""
    predict = getattr(last_step(model), "predict", None)
    return predict is not None and "return_std" in signature(predict).parameters


def mean_and_std(model: Regressor, X: object) -> tuple[Array, Array]:
    """Return predicted means and standard deviations, each (n, k)."""
    predict: Callable[..., tuple[Array, Array]] = model.predict  # type: ignore[assignment]
    mean, std = predict(X, return_std=True)
    return columns(mean), columns(std)


def may_have_closed_form(model: Regressor) -> bool:
    """Return whether the last step, once fitted, may have leave-one-out predictions in closed form."""
    return hasattr(type(last_step(model)), "has_closed_form_")


def closed_form(model: Regressor) -> KernelMachine | None:
    """Return the last step if its leave-one-out predictions are known in closed form, else None."""
    last = last_step(model)
    return cast(KernelMachine, last) if getattr(last, "has_closed_form_", False) else None


def learns_features(model: Regressor) -> bool:
    """Return whether the last step learns its features from the rows that it is fitted to."""
    return bool(getattr(last_step(model), "_searches", False))


def fit_arguments(estimator: Regressor, weights: Array | None) -> dict[str, Array]:
    """Return the sample weights as an argument of `fit`, and refuse them where `fit` does not take any."""
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
    estimator: Regressor,
    X: object,
    y: Array,
    weights: Array | None = None,
    check: Callable[[object], object] = lambda inputs: None,
) -> tuple[Regressor, object]:
    """Return a fitted clone and the inputs of its last step, which `check` may refuse before that step is fitted."""
    model = clone(estimator)
    if isinstance(model, FrozenEstimator):
        inputs = last_inputs(model, X)
        check(inputs)
        return model, inputs
    if (
        not isinstance(model, Pipeline) or type(model).fit is not Pipeline.fit
    ):  # another class may change rows when it is fitted
        check(X)
        return model.fit(X, y, **fit_arguments(model, weights)), X
    before, (name, last) = model[:-1], model.steps[-1]
    inputs = before.fit_transform(X, y) if len(model.steps) > 1 else X
    fitted, inputs = fit_regressor(last, inputs, y, weights, check)
    model.steps = [*before.steps, (name, fitted)]
    return model, inputs


def warn_outside(model: Regressor, X: object, outside: str) -> None:
    """Warn, if `outside` asks for it, of rows outside the training data, since the coverage of a band holds for rows
    like those of its calibration only."""
    if one_of("outside", outside, ("ignore", "warn")) == "ignore":
        return
    if not given_rows(X).in_memory or not hasattr(model, "outside"):
        raise ValueError(
            "outside='warn' needs rows in memory and a regressor that has outside(X), as MLKMRegressor has; got"
            f" {type(X).__name__} and {type(model).__name__}."
        )
    distance = np.asarray(model.outside(X))
    if (distance > 0).any():
        warn(
            f"{int((distance > 0).sum())} of {len(distance)} rows are outside the training data, by up to"
            f" {distance.max():.2g} of its range: intervals there hold only if y goes on as it does inside.",
            OutsideWarning,
        )


class ScoreName(str):
    """The name of a conformity score, which can be called: with X and y it returns R^2 of the regressor it belongs
    to."""

    regressor: "ConformalEstimator"

    def __call__(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination of the mean; for rows in files or on a cluster it is that of the
        regressor inside."""
        source = as_rows(X, y, sample_weight)
        if source is not None:
            check_is_fitted(self.regressor, "estimator_")
            return r2(source, self.regressor.estimator_)
        return float(RegressorMixin.score(self.regressor, X, y, sample_weight))


class ScoreParameter:
    """The attribute `score`, which is both a parameter of a band and scikit-learn's method: it is assigned as a string
    and read as a string that can be called."""

    def __get__(self, regressor: "ConformalEstimator | None", owner: type | None = None) -> Any:
        """Return the parameter as a string that can be called, and of the class its method."""
        if regressor is None:
            return RegressorMixin.score
        name = vars(regressor)["score"]
        if isinstance(name, str):
            name = ScoreName(name)
            name.regressor = regressor
        return name

    def __set__(self, regressor: "ConformalEstimator", name: object) -> None:
        regressor.__dict__["score"] = name


class ConformalEstimator(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The base class of all estimators around a regressor: it has the parameter `score`, the default regressor and the
    mean."""

    score = ScoreParameter()
    estimator: Regressor | None
    random_state: RandomState
    estimator_: Any  # a fitted regressor, whose further attributes depend on its class

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters as they were given, and with `deep` those of the regressor inside.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of `estimator`.

        Returns
        -------
        dict of parameter names to values.

        Examples
        --------
        >>> from mlkm import ConformalRegressor
        >>> ConformalRegressor(score="absolute").get_params()["score"]
        'absolute'
        """
        return {**super().get_params(deep), "score": vars(self)["score"]}

    def predict(self, X: object) -> Array:
        """Return the mean of y, which is the prediction of `estimator_`.

        Parameters
        ----------
        X : array, frame, table in files or Dask collection
            The rows to predict.

        Returns
        -------
        array (n,), or (n, k) for k outputs.

        Examples
        --------
        >>> import numpy as np
        >>> from mlkm import ConformalRegressor
        >>> from sklearn.linear_model import LinearRegression
        >>> X = np.arange(20.0)[:, None]
        >>> ConformalRegressor(LinearRegression(), random_state=0).fit(X, X[:, 0]).predict([[2.5]]).round(6)
        array([2.5])
        """
        check_is_fitted(self, "estimator_")
        rows = new_rows(X, self.estimator_)
        mean: Array = rows.apply(Predictions(self.estimator_), [self.row_shape_])[0]
        return np.asarray(mean) if rows.in_memory else mean

    @property
    def row_shape_(self) -> tuple[int, ...]:
        """Return the shape of the prediction of a row: () for one-dimensional targets, else (k,)."""
        return ()

    def _checked_regressor(self) -> Regressor:
        """Return the regressor to fit, by default `MLKMRegressor`, and refuse objects that cannot be fitted."""
        estimator = MLKMRegressor(random_state=self.random_state) if self.estimator is None else self.estimator
        if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            raise TypeError(
                f"estimator must be a regressor, with fit and predict, as in Ridge(); got {brief(estimator)}."
            )
        return cast(Regressor, estimator)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(MLKMRegressor() if self.estimator is None else self.estimator).input_tags
        return tags
