"""The climb of an evidence: L-BFGS until its last steps together gain next to nothing."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize

from .._deadline import search_is_late
from .._progress import advance
from .._threads import stop_if_asked
from .._types import Array


def climb(
    objective: Callable[[Array], tuple[float, Array]],
    begin: Array,
    bounds: Sequence[tuple[float, float]],
    max_iter: int,
    least_gain: tuple[float, int],
) -> Array:
    """Where the negative log evidence per row is low; a climb ends when so many steps together gain less than so much:
    a single one may be short, or when the search is late."""
    values: list[float] = []
    least, window = least_gain

    def enough(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        values.append(float(intermediate_result.fun))
        advance()
        if search_is_late() or (len(values) > window and values[-1 - window] - values[-1] < least):
            raise StopIteration

    def unless_stopped(x: Array) -> tuple[float, Array]:
        stop_if_asked()
        return objective(x)

    options: Any = {"maxiter": max_iter, "maxcor": 20, "ftol": 1e-9, "maxls": 10}
    result = scipy.optimize.minimize(
        unless_stopped, begin, jac=True, method="L-BFGS-B", bounds=bounds, callback=enough, options=options
    )
    advance(max_iter - len(values))  # those that were not needed
    return np.asarray(result.x)
