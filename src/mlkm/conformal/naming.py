"""`score` is both a parameter of a band and scikit-learn's method that scores a regressor. Here it is a string that can
be called."""

from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..data.training import as_rows
from ..fit.apply import r2


class ScoreName(str):
    """The name of a conformity score; called with X and y, R^2 of the regressor it belongs to."""

    def __new__(cls, name: str, regressor: Any) -> "ScoreName":
        word = super().__new__(cls, name)
        word.regressor = regressor
        return word

    regressor: Any

    def __call__(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        source = as_rows(X, y, sample_weight)
        if source is not None:
            check_is_fitted(self.regressor, "estimator_")
            return r2(source, self.regressor.estimator_)
        return float(RegressorMixin.score(self.regressor, X, y, sample_weight))


class ScoreParameter:
    """The attribute `score`: assigned as a string, read as a string that can be called."""

    def __get__(self, regressor: Any, owner: Any = None) -> Any:
        if regressor is None:
            return RegressorMixin.score
        name = vars(regressor)["score"]
        return ScoreName(name, regressor) if isinstance(name, str) else name

    def __set__(self, regressor: Any, name: Any) -> None:
        vars(regressor)["score"] = name


class WithScoreParameter:
    """For bands: what `get_params` returns is what was given, as `clone` asks."""

    score = ScoreParameter()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of this estimator, and with `deep` of the regressor inside."""
        return {**super().get_params(deep), "score": vars(self)["score"]}  # type: ignore[misc]
