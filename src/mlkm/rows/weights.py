"""Sample weights as the user gives them."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from .._types import Array


def checked_weights(sample_weight: ArrayLike | None, n: int) -> Array | None:
    """Sample weights as an array of n numbers, none negative."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, (int, float)):
        sample_weight = np.full(n, sample_weight)
    weights: Array = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have one entry per row, shape ({n},); got shape {weights.shape}.")
    if (weights < 0).any():
        raise ValueError(f"Sample weights must not be negative; the smallest is {weights.min():.3g}.")
    return weights
