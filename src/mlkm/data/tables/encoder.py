"""The numbers that a table becomes, for people who want to see them."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..._types import Array
from ...runtime.checks import named_parameters
from .columns import encode
from .reading import fit_reader


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A table as the inputs that the regressors see, before standardising.

    A number stays as it is, missing ones are the median; where some were missing, another input says which. A category
    is the number of its level, which means only whether two rows have the same one (-1: a level not seen before), and
    coordinates of its text where levels are many. A date is a number of days and places on the circles of the year, the
    week and the day. y plays no part.

    Parameters
    ----------
    categorical_features : "from_dtype", None, names, places or a mask, default="from_dtype"
        Columns that are categories though they hold numbers.

    Examples
    --------
    >>> from mlkm.tables import TableEncoder
    >>> encoder = TableEncoder().fit([[1.5, "red"], [None, "blue"], [2.5, "red"]])
    >>> encoder.get_feature_names_out().tolist()
    ['x0', 'x0 missing', 'x1']
    >>> encoder.transform([[1.0, "green"]]).tolist()
    [[1.0, 0.0, -1.0]]
    """

    @named_parameters
    def __init__(self, categorical_features: Any = "from_dtype") -> None:
        self.categorical_features = categorical_features

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find what every column is."""
        self.reader_ = fit_reader(self, X, None, None, self.categorical_features)[0]
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit, and the inputs of the same table."""
        self.reader_, table, _, _ = fit_reader(self, X, None, None, self.categorical_features)
        return encode(self.reader_.columns, table)

    def transform(self, X: Any) -> Array:
        """The inputs (n, p); columns are found by their names."""
        check_is_fitted(self)
        return self.reader_.read(self, X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the inputs."""
        check_is_fitted(self)
        return np.array(self.reader_.input_names, object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags
