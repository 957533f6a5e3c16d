"""Prediction bands with a guarantee: conformal prediction around any regressor."""

from .online import OnlineConformal
from .regressor import ConformalRegressor

__all__ = ["ConformalRegressor", "OnlineConformal"]
