"""Names for the array types that run through the package."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]  # float32 where the caller gave float32
IntArray: TypeAlias = NDArray[np.intp]
BoolArray: TypeAlias = NDArray[np.bool_]
RandomState: TypeAlias = int | np.random.RandomState | None
TableLike: TypeAlias = Any  # X as users hand it in: an array, lists of rows, a frame, or a collection of dask
