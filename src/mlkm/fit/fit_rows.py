"""The fit to training rows: they are scanned and prepared, and machines are trained in memory or block by block."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ..data.preparation import Preparation
from ..data.rows import Rows
from ..data.scan import Scan, scan
from ..data.tables.cells import Table
from ..data.training import Standardised, TrainingInputs, fit_preparation, in_blocks, in_memory
from ..exceptions import warn
from ..runtime.progress import announce, ending
from ..runtime.resources import Purpose, check_memory, generator, memory_budget
from ..runtime.sizes import EXACT_ROWS, MATRICES_HELD, ROW_COPIES
from ..search.plan import Plan
from .fitted import Fit
from .in_blocks import features_summed, train_in_blocks
from .train import train


def fit_rows(rows: Rows[Table], plan: Plan, categorical: Sequence[bool], seed: int, begin: float) -> Fit:
    """Fit the model that the plan describes.

    Parameters
    ----------
    rows : the training rows
    plan : what the constructor's values ask for
    categorical : for every column, whether it is a category though it holds numbers
    seed : the root of all random numbers
    begin : when the fit began, by `perf_counter`
    """
    d = rows.n_columns
    scanned = scan(rows, list(categorical), seed)
    plan = plan.sized(scanned.n, d, in_memory=rows.in_memory)
    with _timed(plan, begin, scanned.n, d, in_memory=rows.in_memory):
        preparation, inputs = fit_preparation(
            rows, scanned, with_levels=plan.takes_levels, automatic=plan.automatic, beyond=plan.policy.beyond
        )
        _warn_dropped(preparation)
        needed = 0.0 if rows.in_memory else ROW_COPIES * 8.0 * scanned.n * (d + preparation.n_outputs)
        if plan.sums(scanned.n) or (plan.n_parts is not None and needed > memory_budget()):
            return _fit_in_blocks(rows, scanned, inputs, preparation, plan, seed)
        check_memory(needed, "The rows of this fit", "fit on fewer rows")
        return _fit_in_memory(rows, scanned, inputs, preparation, plan, seed)


@contextmanager
def _timed(plan: Plan, begin: float, n: int, d: int, *, in_memory: bool) -> Iterator[None]:
    """Announce the cost of the enclosed fit, where it is long and can be estimated, and set the deadline of the fit."""
    if plan.closed_form:
        announce(lambda: plan.cost(n, d, in_memory=in_memory).announcement)
    with ending(plan.deadline(begin, n, d, in_memory=in_memory)):
        yield


def _fit_in_memory(
    given: Rows[Table], scanned: Scan, inputs: TrainingInputs, preparation: Preparation, plan: Plan, seed: int
) -> Fit:
    """Fit to all rows in memory."""
    block = given.gathered(inputs.unscaled)
    rows, preparation = in_memory(block, plan.folds(block.X, preparation.shaped(block.Y)), preparation)
    del block  # frees the inputs that are not standardised
    plan = plan.at(rows.X.shape[1], preparation.x_scaler, seed=seed)
    D = max(plan.widths or (0,))
    needed = MATRICES_HELD * 8.0 * D * min(len(rows), max(D, EXACT_ROWS))
    check_memory(needed, f"{D} features of {len(rows)} rows", "give fewer features")
    fitted = train(rows, plan, preparation.y_scaler, given.workers)
    return Fit.of(fitted, plan, preparation, scanned.weight, plan.n_rows or len(rows))


def _fit_in_blocks(
    given: Rows[Table], scanned: Scan, inputs: TrainingInputs, preparation: Preparation, plan: Plan, seed: int
) -> Fit:
    """Fit what needs rows together to a sample, then the rest to all rows, by sums or by descent."""
    salt = int(generator(seed, Purpose.PARTS).integers(2**62))
    standardised = Standardised(preparation, inputs, scanned.n / scanned.weight, plan.n_parts or 0, salt)
    training = in_blocks(given, scanned, standardised, keep=given.in_memory)
    rows, sample = training.rows, training.sample
    plan = plan.at(sample.X.shape[1], preparation.x_scaler, seed=seed, n_rows=rows.n)
    n_features = features_summed(plan, sample.X.shape[1], rows.n)
    fewer = f"give fewer features ({'widths' if plan.landmarks else 'n_features'})"  # the parameter of the estimator
    check_memory(MATRICES_HELD * 8.0 * n_features**2, f"The sums of {n_features} features", fewer)
    fitted = train_in_blocks(training, plan, preparation.y_scaler)
    return Fit.of(fitted, plan, preparation, scanned.weight, rows.n)


def _warn_dropped(preparation: Preparation) -> None:
    """Name the inputs that are ignored because their variation is lost in rounding."""
    reader = preparation.reader
    names = reader.names or range(len(reader.columns))
    dropped = [names[j] for j in np.unique(preparation.kinds.owners[preparation.x_scaler.rounded])]
    if dropped:
        words = ("inputs " if len(dropped) > 1 else "input ") + ", ".join(map(repr, dropped))
        warn(
            f"The values of {words} differ by rounding error only, beside their size, and are ignored; subtract a "
            "constant near them where their differences mean something."
        )
