"""The paper's variance estimator, and leave-one-out with it."""

from .estimator import FitSummary, Variance
from .functionals import Functionals
from .kept import kept_without_rows
from .layers import LayersSummary, LayersVariance
from .left_out import LeftOut, places
from .of_fit import AnyVariance, summed_up, variance_of
from .stack import LARGEST, StackSummary, StackVariance
from .summed import SHOWN, SummedVariance, SumsSummary

__all__ = [
    "LARGEST",
    "SHOWN",
    "AnyVariance",
    "FitSummary",
    "Functionals",
    "LayersSummary",
    "LayersVariance",
    "LeftOut",
    "StackSummary",
    "StackVariance",
    "SummedVariance",
    "SumsSummary",
    "Variance",
    "kept_without_rows",
    "places",
    "summed_up",
    "variance_of",
]
