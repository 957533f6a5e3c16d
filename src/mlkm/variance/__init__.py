"""The paper's variance estimator, and leave-one-out with it."""

from .estimator import FitSummary, Variance
from .functionals import Functionals
from .left_out import LeftOut, places
from .stack import LARGEST, StackSummary, StackVariance
from .summed import SummedVariance, SumsSummary

__all__ = [
    "LARGEST",
    "FitSummary",
    "Functionals",
    "LeftOut",
    "StackSummary",
    "StackVariance",
    "SummedVariance",
    "SumsSummary",
    "Variance",
    "places",
]
