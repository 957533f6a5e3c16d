"""The climb of an evidence: L-BFGS until its last steps together gain next to nothing."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize

from .._threads import stop_if_asked
from .._types import Array
from .policy import Policy


def climb(
    objective: Callable[[Array], tuple[float, Array]],
    begin: Array,
    bounds: Sequence[tuple[float, float]],
    max_iter: int,
    least_gain: float,
    policy: Policy,
    *,
    longer: bool = False,
) -> tuple[Array, float]:
    """Where the negative log evidence per row is low, and its value; a climb ends when some steps together gain
    less than `least_gain`.

    With `longer`, `max_iter` steps are not the end for a climb that still makes good progress.
    """
    values: list[float] = []
    window = policy.judged_steps

    def enough(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        values.append(float(intermediate_result.fun))
        if len(values) > window and values[-1 - window] - values[-1] < (
            least_gain if len(values) < max_iter else policy.good_gain
        ):
            raise StopIteration

    def unless_stopped(x: Array) -> tuple[float, Array]:
        stop_if_asked()
        return objective(x)

    options: Any = {"maxiter": max_iter * (policy.longer if longer else 1), "maxcor": 20, "ftol": 1e-9, "maxls": 10}
    result = scipy.optimize.minimize(
        unless_stopped, begin, jac=True, method="L-BFGS-B", bounds=bounds, callback=enough, options=options
    )
    return np.asarray(result.x), float(result.fun)
