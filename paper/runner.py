"""Compute the cells of experiments that are not done yet, side by side, and keep each as soon as it is there."""

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

import mlkm

from .experiment import Experiment, Options
from .experiments import EXPERIMENTS
from .store import Cell, Store

IDLE = 5  # seconds after which idle workers end; those of a run that was killed need half a minute more


def run_cell(name: str, cell: Cell, options: Options) -> tuple[Cell, dict[str, Any] | None, str]:
    """The measures of one cell with the wall-clock seconds of all of it, or what went wrong. One thread: cells run side
    by side."""
    begin = time.perf_counter()
    try:
        with threadpool_limits(1):
            _one_torch_thread()
            found = EXPERIMENTS[name].run(cell, options)
    except Exception:  # one cell that fails must not end the run; it is reported and tried again next time
        return cell, None, traceback.format_exc(limit=3)
    return cell, found | {"cell_seconds": time.perf_counter() - begin}, ""


def _one_torch_thread() -> None:
    try:
        import torch
    except ImportError:  # only the networks need it
        return
    torch.set_num_threads(1)


def store_of(experiment: Experiment, folder: Path, quick: bool = False) -> Store:
    """Cells of a quick run are no results and have a file of their own."""
    return Store(folder / f"{experiment.name}{'-quick' if quick else ''}.csv", (*experiment.measures, "cell_seconds"))


def pending(experiment: Experiment, options: Options, folder: Path, systems: Sequence[str] | None = None) -> list[Cell]:
    """The cells that are not done yet, of all systems or of some."""
    done = store_of(experiment, folder, options.quick).read()
    return [
        cell for cell in experiment.cells(options) if cell not in done and (systems is None or cell.system in systems)
    ]


def compute(
    experiment: Experiment,
    cells: Sequence[Cell],
    options: Options,
    folder: Path,
    n_jobs: int,
    advance: Callable[[Cell], None],
) -> Iterator[tuple[Cell, str]]:
    """Run the cells and keep their results; yields the cells that failed, with their errors."""
    store = store_of(experiment, folder, options.quick)
    work = (delayed(run_cell)(experiment.name, cell, options) for cell in cells)
    with parallel_config("loky", idle_worker_timeout=IDLE):
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    for cell, found, error in parallel(work):
        if found is None:
            yield cell, error
        else:
            store.append(cell, mlkm.__version__, found)
        advance(cell)
