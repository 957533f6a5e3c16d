"""The classes of scikit-learn that a model file may hold without `trusted`, and the checks of their objects.

Their parameters and attributes are plain values. Parameters that can be a function, the name of a file or a number of
processes must have one harmless value: a file with another value needs `trusted`. `INVARIANTS` are conditions that
compiled code relies on.
"""

from collections.abc import Callable
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import compose, impute, linear_model, model_selection, preprocessing
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import Pipeline

Value = bool | float | str | None
_Array = NDArray[np.generic]
_List = list[Value] | list[list[Value]] | list[_Array]
Plain = Value | tuple[Value, ...] | _List | _Array | np.dtype | type | np.random.RandomState
_Numbers = float | NDArray[np.floating] | NDArray[np.integer] | None

ALWAYS = {
    "n_features_in_": int,
    "feature_names_in_": NDArray[np.object_],
    "_sklearn_version": str,
    "_sklearn_output_config": dict[str, Literal["default", "pandas", "polars"]],
}


def _with(numbers: str = "", objects: str = "", **others: object) -> dict[str, object]:
    """Return the type hints of attributes: `numbers` names those that are numbers or arrays of them, `objects` those
    that are estimators or other values, each of which is checked by its class."""
    return ALWAYS | dict.fromkeys(numbers.split(), _Numbers) | dict.fromkeys(objects.split(), object) | others


_Step = tuple[str, object]
_Column = tuple[str, object, object]
_ENCODER = _with(categories_=list[_Array], min_frequency=None, max_categories=None, _infrequent_enabled=Literal[False])
_LINEAR = _with("coef_ intercept_ n_iter_ rank_ singular_ dual_gap_ l1_ratio", solver_=str)
_SPLITTER: dict[str, object] = dict.fromkeys(("_default_test_size", "unique_folds", "shuffle", "random_state"), Plain)

OTHERS: dict[type, dict[str, object]] = {
    preprocessing.StandardScaler: _with("mean_ var_ scale_ n_samples_seen_"),
    preprocessing.MinMaxScaler: _with("n_samples_seen_ scale_ min_ data_min_ data_max_ data_range_"),
    preprocessing.MaxAbsScaler: _with("n_samples_seen_ max_abs_ scale_"),
    preprocessing.RobustScaler: _with("center_ scale_"),
    preprocessing.OneHotEncoder: _ENCODER
    | {
        "feature_name_combiner": Literal["concat"],
        "drop_idx_": _Array | None,
        "_drop_idx_after_grouping": _Array | None,
        "_n_features_outs": list[int],
    },
    preprocessing.OrdinalEncoder: _ENCODER | {"_missing_indices": dict[int, int]},
    impute.SimpleImputer: _with(
        strategy=Literal["mean", "median", "most_frequent", "constant"],
        statistics_=_Array,
        indicator_=impute.MissingIndicator | None,
        _fit_dtype=np.dtype,
        _fill_dtype=np.dtype,
    ),
    impute.MissingIndicator: _with("features_ _n_features", _precomputed=bool),
    preprocessing.FunctionTransformer: _with(func=None, inverse_func=None, kw_args=None, inv_kw_args=None),
    preprocessing.PolynomialFeatures: _with("_min_degree _max_degree n_output_features_ _n_out_full"),
    PCA: _with(
        "mean_ noise_variance_ n_samples_ n_components_ components_ explained_variance_ explained_variance_ratio_"
        " singular_values_",
        _fit_svd_solver=str,
    ),
    linear_model.LinearRegression: _LINEAR,
    linear_model.Ridge: _LINEAR,
    linear_model.Lasso: _LINEAR,
    linear_model.ElasticNet: _LINEAR,
    KernelRidge: _with("dual_coef_ X_fit_", "kernel", kernel_params=None),
    FrozenEstimator: _with(objects="estimator"),
    compose.TransformedTargetRegressor: _with(
        "_training_dim", "regressor transformer regressor_ transformer_", func=None, inverse_func=None
    ),
    Pipeline: _with(steps=list[_Step], memory=None),
    compose.ColumnTransformer: _with(
        objects="remainder",
        transformers=list[_Column],
        transformers_=list[_Column],
        n_jobs=Literal[None, 1],
        transformer_weights=dict[str, float] | None,
        verbose_feature_names_out=bool,
        sparse_output_=bool,
        output_indices_=dict[str, slice],
        _columns=list[object],
        _remainder=_Column,
        _n_features=int,
        _transformer_to_input_indices=dict[str, list[int]],
        _transformers_feature_names_out=_Array,
    ),
    model_selection.GroupKFold: _SPLITTER,
    model_selection.GroupShuffleSplit: _SPLITTER,
    model_selection.KFold: _SPLITTER,
    model_selection.ShuffleSplit: _SPLITTER,
    model_selection.TimeSeriesSplit: _SPLITTER,
    model_selection.LeaveOneGroupOut: {},
    model_selection.LeaveOneOut: {},
    model_selection.PredefinedSplit: {"test_fold": Plain, "unique_folds": Plain},
}


def _encodes(encoder: preprocessing.OneHotEncoder) -> bool:
    """Return whether indices of indicators are within the columns of their sparse matrix, which does not check them."""
    if not hasattr(encoder, "categories_"):
        return True
    state, categories = vars(encoder), encoder.categories_
    dropped = state["_drop_idx_after_grouping"]
    if dropped is not None and (dropped.shape != (len(categories),) or not all(map(_is_among, dropped, categories))):
        return False
    left_out = [False] * len(categories) if dropped is None else [place is not None for place in dropped]
    widths = [len(levels) - out for levels, out in zip(categories, left_out, strict=True)]
    plain = state["_infrequent_enabled"] is False and state["_n_features_outs"] == widths
    return plain and all(map(_is_sorted, categories))


def _is_among(place: object, categories: NDArray[np.generic]) -> bool:
    return place is None or (isinstance(place, int) and 0 <= place < len(categories))


def _is_sorted(categories: NDArray[np.generic]) -> bool:
    """Return whether numbers are in increasing order, NaN last, since they are looked up by bisection."""
    if categories.ndim != 1 or categories.dtype.kind in "OU":
        return categories.ndim == 1
    last = categories.dtype.kind == "f" and len(categories) > 0 and np.isnan(categories[-1])
    known = categories[:-1] if last else categories
    return bool(np.greater(known[1:], known[:-1]).all())


def _few_products(powers: preprocessing.PolynomialFeatures) -> bool:
    """Return whether there are as many products of columns as the parameters say, and at most 100,000."""
    if not hasattr(powers, "n_output_features_"):
        return True
    low, high, d = vars(powers)["_min_degree"], vars(powers)["_max_degree"], powers.n_features_in_
    if not (0 <= low <= high <= 10 and 0 < d <= 10**4):
        return False
    degrees = range(max(1, low), high + 1)
    products = sum(comb(d, k) if powers.interaction_only else comb(d + k - 1, k) for k in degrees)
    return bool(powers.n_output_features_ == products + bool(powers.include_bias) <= 10**5)


INVARIANTS: dict[type, Callable[..., bool]] = {
    preprocessing.OneHotEncoder: _encodes,
    preprocessing.PolynomialFeatures: _few_products,
}
