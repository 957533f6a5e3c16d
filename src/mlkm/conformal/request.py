"""What is asked of a band, and what all methods make of it: sides, groups and weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any, Self

import numpy as np

from .._types import Array
from ..data.inputs import scale_of
from ..runtime.checks import as_float, brief, one_of
from ..runtime.levels import groups_of


@dataclass(frozen=True)
class Request:
    """What an interval is asked for: levels, which sides are bounded, outputs one by one or jointly, labels and weights
    of the new rows."""

    levels: Sequence[Fraction]
    side: str = "both"
    joint: bool = False
    groups: Any = None
    weights: Array | None = None

    def __post_init__(self) -> None:
        one_of("side", self.side, ("both", "lower", "upper"))


@dataclass(frozen=True)
class Shift:
    """dQ/dP at the calibration rows, over the number that keeps sums of them finite."""

    weights: Array
    scale: float

    @classmethod
    def of(cls, given: Array | None) -> Self | None:
        """From weights as they were given; None where there are none."""
        if given is None:
            return None
        if not given.any():
            raise ValueError("The sum of sample_weight must be positive; all weights of calibration rows are zero.")
        return cls(given / scale_of(given), scale_of(given))

    def at(self, new: Array | None, n: int, rows: Any) -> Array:
        """The weights of n new rows on the same scale; by default the largest of the calibration rows `rows`."""
        if new is None:
            return np.full(n, self.weights[rows].max(initial=0.0))
        with np.errstate(over="ignore"):  # a weight that is infinite beside the others asks for an infinite interval
            return np.asarray(new / self.scale)


def check_weights(shift: Shift | None, request: Request) -> None:
    """New rows have weights where calibration rows had some."""
    if request.weights is not None and shift is None:
        raise ValueError(
            "sample_weight needs a band calibrated with weights: fit or conformalize(X, y, sample_weight=...)."
        )


def side_scores(below: Array, above: Array, request: Request) -> Array:
    """One score per row and output; with `joint`, the largest over the outputs."""
    scores = below if request.side == "lower" else above if request.side == "upper" else np.maximum(below, above)
    return np.broadcast_to(scores.max(axis=1, keepdims=True), scores.shape) if request.joint else scores


def as_interval(lower: Array, upper: Array, side: str, centre: Array) -> Array:
    """Stack both ends; a side that was not asked for is infinite. Neither end passes the centre, which does not depend
    on the level, so that intervals of higher levels contain those of lower ones even where ends would cross."""
    if side == "upper":
        return np.stack([np.full_like(upper, -np.inf), upper], axis=1)
    if side == "lower":
        return np.stack([lower, np.full_like(lower, np.inf)], axis=1)
    return np.stack([np.minimum(lower, centre), np.maximum(upper, centre)], axis=1)


def same_group(labels: Any, new_labels: Any, m: int, n: int, optional: bool = False) -> list[tuple[str, Any, Any]]:
    """For each group: words that name it, its calibration rows and its new rows. Without groups, one of all; so too
    where they are `optional` and the new rows have none."""
    if labels is None and new_labels is not None:
        raise ValueError(
            "groups were given for prediction but not for calibration; give them to fit or conformalize as well."
        )
    if labels is not None and new_labels is None and not optional:
        raise ValueError(
            "The band was calibrated by groups, so it needs the groups of the rows it is asked for: pass groups=...,"
            " as in predict_interval(X, groups=...)."
        )
    if new_labels is None:
        return [("", np.arange(m), np.arange(n))]
    values, place = groups_of(new_labels, n)
    old = np.asarray(labels)
    return [
        (f" in group {value!s}", np.flatnonzero(old == value), np.flatnonzero(place == g))
        for g, value in enumerate(values)
    ]


def limits_of(y_min: Any, y_max: Any) -> tuple[float, float]:
    """The values y cannot pass, infinite where there are none."""
    for name, limit in (("y_min", y_min), ("y_max", y_max)):
        if limit is not None and not isinstance(limit, Real):
            raise TypeError(f"{name} must be a number, or None for no limit; got {brief(limit)}.")
    low, high = -np.inf if y_min is None else as_float(y_min), np.inf if y_max is None else as_float(y_max)
    if not low < high:
        raise ValueError(f"y_min must be below y_max; got {brief(y_min)} and {brief(y_max)}.")
    return low, high
