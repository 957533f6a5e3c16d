"""A word of warning where intervals are asked for outside the training data."""

from typing import Any

import numpy as np

from ..exceptions import OutsideWarning, warn
from ..fit.apply import is_elsewhere
from ..runtime.checks import one_of


def look_outside(model: Any, X: Any, outside: Any) -> None:
    """Warn, where that is asked for, if rows are outside: coverage is that of rows like those of the calibration."""
    if one_of("outside", outside, ("ignore", "warn")) == "ignore":
        return
    if is_elsewhere(X) or not hasattr(model, "outside"):
        raise ValueError(
            "outside='warn' needs rows in memory and a regressor that has outside(X), as MLKMRegressor has; got"
            f" {type(X).__name__} and {type(model).__name__}."
        )
    far = np.asarray(model.outside(X))
    if (far > 0).any():
        warn(
            f"{int((far > 0).sum())} of {len(far)} rows are outside the training data, by up to {far.max():.2g} of its"
            " range: intervals there hold only if y goes on as it does inside.",
            OutsideWarning,
        )
