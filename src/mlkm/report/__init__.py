"""Reports: a fit judged by held-out rows, as one page that needs nothing else (`document`)."""

from .mixin import Reporting

__all__ = ["Reporting"]
