"""Explanations of a fit by the columns of its table: effects, and contributions to single predictions."""

from .contributions import Contributions, Explainer
from .effects import Effect, Effects
from .partial_dependence import PartialDependence

__all__ = ["Contributions", "Effect", "Effects", "Explainer", "PartialDependence"]
