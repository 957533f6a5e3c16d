"""`RandomFeatures`: the random features of any kernel as a scikit-learn transformer."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from ._types import Array, RandomState
from .kernels import Kernel, KernelLike, as_kernel
from .model.draws import Sampling, draw_features
from .model.features import Interactions
from .model.scales import check_scale
from .runtime.checks import as_numbers, brief, check_different_names, named_parameters
from .runtime.resources import Purpose, generator, root_seed


class RandomFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Random features phi with E[phi(x)'phi(x')] = K(gamma x, gamma x').

    Parameters
    ----------
    n_features : int, default=500
        D, the number of features.
    kernel : str or kernel, default="gaussian"
        "gaussian", "matern", "laplacian", "cauchy" or an object of `mlkm.kernels`, such as `Matern(nu=1.5)`.
    scale : float or array of shape (d,), default=1.0
        gamma, which multiplies the frequencies: the length scale is 1/gamma. One number, or one per input.
    interactions : "full", int or tuple of these, default="full"
        How many inputs one feature sees: 1 for an additive kernel, 2 for pairs, "full" for all; a tuple averages the
        kernels of its orders.
    sampling : {"iid", "orthogonal"}, default="iid"
        Independent frequencies, or frequencies orthogonal within blocks, which lowers the variance of the kernel
        estimate.
    random_state : int, RandomState or None, default=None
        Seed of the frequencies and phases. They do not depend on the data.

    Attributes
    ----------
    map_ : FeatureMap
        Frequencies, phases and amplitudes.
    n_features_in_ : int
        Number of inputs d.

    Examples
    --------
    >>> import numpy as np
    >>> from mlkm import RandomFeatures
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0]])
    >>> phi = RandomFeatures(200_000, "gaussian", random_state=0).fit_transform(X)
    >>> np.round(phi @ phi.T, 2)
    array([[1.  , 0.37],
           [0.37, 1.  ]])
    """

    @named_parameters
    def __init__(
        self,
        n_features: int = 500,
        kernel: KernelLike = "gaussian",
        scale: float | ArrayLike = 1.0,
        interactions: Interactions = "full",
        sampling: Sampling = "iid",
        random_state: RandomState = None,
    ) -> None:
        self.n_features = n_features
        self.kernel = kernel
        self.scale = scale
        self.interactions = interactions
        self.sampling = sampling
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw the features; only the number of columns of X matters.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            Rows of numbers.
        y : object, default=None
            Ignored.

        Returns
        -------
        self

        Examples
        --------
        >>> from mlkm import RandomFeatures
        >>> RandomFeatures(100, random_state=0).fit([[0.0, 1.0]]).map_.n_features
        100
        """
        d = validate_data(self, _of_numbers(X), dtype=[np.float64, np.float32]).shape[1]
        if isinstance(self.n_features, (str, Kernel)):
            raise ValueError(
                f"The number of random features must be a whole number and at least 1; got {brief(self.n_features)}:"
                " the number comes first and the kernel second, as in RandomFeatures(500, 'gaussian')."
            )
        self.map_ = draw_features(
            generator(root_seed(self.random_state), Purpose.FEATURES),
            d,
            self.n_features,
            as_kernel(self.kernel),
            check_scale(self.scale, d),
            self.interactions,
            self.sampling,
        )
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Return phi(x) for every row x.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            Rows of numbers.

        Returns
        -------
        array of shape (n, D), in the floating type of X.

        Examples
        --------
        >>> from mlkm import RandomFeatures
        >>> features = RandomFeatures(100, random_state=0).fit([[0.0, 1.0]])
        >>> features.transform([[0.5, 1.0], [2.0, 0.0]]).shape
        (2, 100)
        """
        check_is_fitted(self)
        inputs: Array = validate_data(self, _of_numbers(X), reset=False, dtype=[np.float64, np.float32])
        return self.map_.astype(inputs.dtype).features(inputs)

    @property
    def _n_features_out(self) -> int:
        return self.map_.n_features

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _of_numbers(X: ArrayLike) -> ArrayLike:
    """Return a table of numbers, or a frame as it is, since its columns have names."""
    check_different_names(X)
    if isinstance(X, np.ndarray) and X.dtype == object and any(isinstance(x, dict) for x in X.flat):
        return X  # scikit-learn's checks of estimators ask for its own words on these
    numbers: Array = as_numbers("X", X)
    return X if hasattr(X, "columns") and numbers.size else numbers
