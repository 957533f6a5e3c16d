"""Every table and figure of the paper at one command.

    python -m paper --list                     what there is
    python -m paper table2 --seeds 10          one experiment; a second run continues where the first stopped
    python -m paper all --quick                everything with fewer seeds, rows and epochs, to see it work
    python -m paper all                        everything
    python -m paper --document                 put the tables of the full run into docs/paper.md

Results go to paper/results (with --quick to results/paper-quick): raw numbers as CSV, tables as Markdown, figures, and
index.html with all of them. Real data are looked for under MLKM_DATA_HOME. Needs the extra `paper`: pip install -e
".[paper]".
"""

import argparse
import signal
import sys
import time
from pathlib import Path

from mlkm.runtime.atomic import interrupted_by_sigterm

from .experiment import Options
from .experiments import EXPERIMENTS
from .page import write_document, write_reports
from .runner import compute, pending
from .store import Unreadable

ROOT = Path(__file__).resolve().parents[1]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m paper", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="experiment", help="names of experiments, or all")
    parser.add_argument("--list", action="store_true", help="list the experiments")
    parser.add_argument("--seeds", type=_positive, help="replications of every cell (default 5, with --quick 1)")
    parser.add_argument(
        "--systems", nargs="+", metavar="SYSTEM", help="only these systems, by their names in the tables"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rows, epochs, dimensions and seeds")
    parser.add_argument("--jobs", type=_positive, default=2, help="cells computed side by side (default 2)")
    parser.add_argument("--output", type=Path, help="folder of the results")
    parser.add_argument("--data-home", help="folder of the real data; by default MLKM_DATA_HOME")
    parser.add_argument(
        "--document", action="store_true", help="put the tables found in the output folder into docs/paper.md"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in (*EXPERIMENTS, "all")]
    if unknown:
        parser.error(f"no experiment is called {', '.join(unknown)}; there are all, {', '.join(EXPERIMENTS)}")
    if not (options.names or options.list or options.document):
        parser.error("name an experiment, or all; --list shows them")
    return options


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1; got {text!r}")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    given = parse(arguments)
    try:
        with interrupted_by_sigterm():
            return _main(given)
    except KeyboardInterrupt as stop:
        print("python -m paper: stopped; the cells that are done are kept.", file=sys.stderr)
        return 128 + (stop.args[0] if stop.args else signal.SIGINT)
    except (OSError, Unreadable) as error:  # a folder that cannot be written, a file of results that is not one
        print(f"python -m paper: {error}", file=sys.stderr)
        return 2


def _main(given: argparse.Namespace) -> int:
    if given.list:
        for experiment in EXPERIMENTS.values():
            print(f"{experiment.name:10} {experiment.title}")
        return 0
    folder = given.output or (ROOT / "results" / "paper-quick" if given.quick else ROOT / "paper" / "results")
    folder.mkdir(parents=True, exist_ok=True)
    options = Options(given.seeds or (1 if given.quick else 5), given.quick, given.data_home)
    chosen = list(EXPERIMENTS.values()) if "all" in given.names else [EXPERIMENTS[name] for name in given.names]
    for experiment in chosen:
        cells = experiment.cells(options)
        if not cells:
            print(f"{experiment.name} {experiment.needs}")
        elif given.systems and not {cell.system for cell in cells} & set(given.systems):
            print(
                f"{experiment.name} has none of these systems; it has"
                f" {', '.join(dict.fromkeys(cell.system for cell in cells))}"
            )
    failures = _run(chosen, options, folder, given.jobs, given.systems)
    write_reports(folder, given.quick)
    print(f"Results: {folder / 'index.html'}")
    if given.document:
        write_document(folder, ROOT / "docs" / "paper.md")
    for name, cell, error in failures:
        print(
            f"\n{name}: {cell.version}, {cell.row}, {cell.system}, seed {cell.seed} failed.\n{error}", file=sys.stderr
        )
    return 1 if failures else 0


def _run(chosen, options: Options, folder: Path, n_jobs: int, systems: list[str] | None) -> list:
    """Run what is not done yet under one progress bar; returns what failed."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    waiting = {experiment.name: pending(experiment, options, folder, systems) for experiment in chosen}
    failures = []
    columns = (
        TextColumn("{task.description:24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        total = progress.add_task("all cells", total=sum(map(len, waiting.values())))
        for experiment in chosen:
            cells = waiting[experiment.name]
            begin, task = time.perf_counter(), progress.add_task(experiment.name, total=len(cells))

            def advance(_, task=task) -> None:
                progress.advance(task)
                progress.advance(total)

            failures += [
                (experiment.name, *failure) for failure in compute(experiment, cells, options, folder, n_jobs, advance)
            ]
            if cells:
                progress.console.print(f"{experiment.name}: {len(cells)} cells in {time.perf_counter() - begin:.0f} s")
    return failures


if __name__ == "__main__":
    sys.exit(main())
