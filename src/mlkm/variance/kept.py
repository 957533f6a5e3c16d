"""What is kept of a fit where its rows are not: what sigma_y(x) needs, where that is no table of the rows.

* Sums stay as they are, without the sample of rows beside them.
* The kernels of the default are centred on inputs of rows, which a model has to keep: those of the posterior stay, and
  targets go.
* Few features on many rows are summed up, and sigma_y(x) is the same but for rounding. With more features than half of
  the rows it would not be: there a fit may interpolate, and its residuals tell what sums do not.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..data import Rows
from ..model.machine import Machine
from ..solve.sums import sums_of_rows
from .estimator import FitSummary
from .layers import LayersSummary
from .row_facts import facts_of
from .stack import StackSummary, n_posterior
from .summed import SumsSummary

_FEW = 500  # features whose sums are kept: 2 MB


def kept_without_rows(machines: Sequence[Machine], rows: Any, fit: Any) -> tuple[Any, Any] | None:
    """In place of the rows and the summary of a fit; None where sigma_y(x) needs the rows."""
    if isinstance(fit, (SumsSummary, LayersSummary)):
        return None, replace(fit, sample=None)
    if isinstance(fit, StackSummary):
        return (rows, fit) if fit.facts is not None else _without_targets(fit.solved_rows(rows), fit)
    if len(machines) > 1 or not _are_few(rows, fit):
        return None
    return None, SumsSummary(fit.prior, fit.penalty, sums_of_rows(fit.prior, rows), fit.loo_error)


def _are_few(rows: Rows, fit: FitSummary) -> bool:
    return fit.prior is not None and fit.prior.n_features <= min(_FEW, len(rows) // 2)


def _without_targets(rows: Rows, fit: StackSummary) -> tuple[Rows, StackSummary]:
    """Return the inputs and weights that the posterior needs, and the facts of all rows that were solved on."""
    at = slice(0, n_posterior(len(rows)))
    nothing = np.zeros((len(rows.X[at]), 0))
    inputs = Rows(rows.X[at], nothing, rows.weights[at], rows.copies[at], None, rows.kinds)
    return inputs, replace(fit, facts=facts_of(rows), solved=None)
