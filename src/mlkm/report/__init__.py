"""Reports: a fit judged by held-out rows, as one page that needs nothing else."""

from .document import Report, make_report
from .mixin import Reporting

__all__ = ["Report", "Reporting", "make_report"]
