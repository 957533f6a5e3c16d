"""The penalty with the least leave-one-out error: a global minimum over a wide range, then a parabola through it.

Along log(penalty) the error is smooth, but it may have a flat stretch, or two valleys: a walk downhill from a guess
ends where rounding sends it. A grid sees the whole range; where one decomposition gives the error at every penalty it
costs nothing, and elsewhere the range is walked from a guess that a smaller problem gave. Of penalties that do equally
well the larger is taken: a factor of ten must lower the error by a hundredth of a percent.
"""

from collections.abc import Callable

import numpy as np

from .._types import Array

TIE = 1e-4 / np.log(10)  # what the logarithm of the error must fall by for a penalty lower by a factor of e
DECADES = (-14, 2)  # of the candidates, relative to the largest eigenvalue of the average product
PER_DECADE = 4


def candidates(top: float) -> Array:
    """Penalties from nearly none to nearly everything."""
    low, high = DECADES
    return np.asarray(top * np.logspace(low, high, PER_DECADE * (high - low) + 1))


def best_on_grid(grid: Array, error: Callable[[float], float], least: float = 0.0) -> float:
    """The global minimum on the grid from `least` on, moved to the vertex of the parabola through it and its
    neighbours."""
    grid = grid[grid >= least] if (grid >= least).any() else grid[-1:]
    values = np.array([_judged(penalty, error) for penalty in grid])
    at = int(np.argmin(values))
    if not 0 < at < len(grid) - 1 or not np.isfinite(values[at - 1 : at + 2]).all():
        return float(grid[at])
    return float(np.exp(_vertex(np.log(grid[at - 1 : at + 2]), values[at - 1 : at + 2])))


def best_near(
    guess: float, error: Callable[[float], float], step: float = 5.0, most: float = 1e8, least: float = 1e-8
) -> float:
    """The minimum of the valley around a guess: from a bracket found by steps, to the vertex of the parabola through
    it. It lies within `least` and `most` times the guess."""
    known: dict[int, float] = {}
    low, high = (int(np.floor(np.log(bound) / np.log(step))) for bound in (least, most))

    def value(k: int) -> float:
        if k not in known:
            known[k] = _judged(guess * step**k, error) if low <= k <= high else np.inf
        return known[k]

    k = 0
    while not np.isfinite(value(k)) and k < high:  # where nothing can be factorised a larger one is the only way
        k += 1
    while True:
        down, here, up = value(k - 1), value(k), value(k + 1)
        if down < here and down <= up:
            k -= 1
        elif up < here:
            k += 1
        else:
            break
    values, at = np.array([down, here, up]), np.log(guess) + np.log(step) * np.arange(k - 1, k + 2)
    return float(np.exp(_vertex(at, values))) if np.isfinite(values).all() else float(guess * step**k)


def _judged(penalty: float, error: Callable[[float], float]) -> float:
    value = error(float(penalty))
    return float(np.log(max(value, 1e-300)) - TIE * np.log(penalty)) if np.isfinite(value) and penalty > 0 else np.inf


def _vertex(x: Array, values: Array) -> float:
    """Where the parabola through three equally spaced points with the least in the middle has its vertex."""
    down, here, up = values
    bend = down - 2 * here + up
    return float(x[1] + (0.5 * (x[2] - x[1]) * (down - up) / bend if bend > 0 else 0.0))
