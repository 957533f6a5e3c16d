"""The paper's variance estimator, and leave-one-out with it."""

from .estimator import Training, Variance, leave_one_out, left_out_fits

__all__ = ["Training", "Variance", "leave_one_out", "left_out_fits"]
