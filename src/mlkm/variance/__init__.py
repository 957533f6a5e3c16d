"""The paper's variance estimator, and leave-one-out with it."""

from .estimator import FitSummary, Variance
from .left_out import LeftOut, left_out_fits, places

__all__ = ["FitSummary", "LeftOut", "Variance", "left_out_fits", "places"]
