"""What a fit says of the columns of its table: effects, and contributions to single predictions."""

from .contributions import Contributions, contributions
from .effects import Effect, Effects
from .view import View

__all__ = ["Contributions", "Effect", "Effects", "View", "contributions"]
