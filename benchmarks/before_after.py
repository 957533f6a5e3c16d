"""CPU times of two checkouts side by side: python -m benchmarks.before_after --old PATH/TO/OTHER/CHECKOUT/src

Default fits to 500, 5,000 and 20,000 rows of Example 2 with 8 inputs, predictions of 10,000 rows by the model of 5,000,
and a default fit to a Parquet file of 10^6 rows (`benchmarks.big_table`). Both sides take turns, five times each, and
every run is a process of its own with one BLAS thread. The table has the minimum CPU time of each side, and new over
old. A small fit before the clock starts does the imports. `--quick` makes three runs and leaves out 20,000 and 10^6
rows. The exit code is 1 if a ratio is above 1.05.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time

from .big_table import names, write
from .walks import ROOT, SRC

MOST = 1.05  # new over old
PARQUET_ROWS = 1_000_000
TASKS = ("500", "5000", "20000", "parquet")
QUICK = ("500", "5000")


def seconds(call: Callable[[], object]) -> float:
    """Return the CPU time that a call takes in all threads of this process."""
    begin = process_time()
    call()
    return process_time() - begin


def fit_rows(n: int) -> dict[str, float]:
    """Return the CPU time of a fit to n rows, and with 5,000 rows that of predictions, the least of three."""
    from mlkm import MLKMRegressor
    from mlkm.datasets import make_example2

    X, y, _ = make_example2(n, 8, random_state=0)
    new_rows, _, _ = make_example2(10_000, 8, random_state=1)
    MLKMRegressor(random_state=0).fit(X[:100], y[:100]).predict(new_rows[:10])
    model = MLKMRegressor(random_state=0)
    times = {f"fit of {n:,} rows": seconds(lambda: model.fit(X, y))}
    if n == 5000:
        times["predict of 10,000 rows"] = min(seconds(lambda: model.predict(new_rows)) for _ in range(3))
    return times


def fit_parquet(folder: Path) -> dict[str, float]:
    """Return the CPU time of a fit to the large Parquet file of a folder."""
    from mlkm import MLKMRegressor, open_table

    small, large = (open_table(folder / f"{name}.parquet", target="y", features=names()) for name in ("small", "large"))
    MLKMRegressor(random_state=0).fit(small)
    return {f"fit of {PARQUET_ROWS:,} rows, Parquet": seconds(lambda: MLKMRegressor(random_state=0).fit(large))}


def run(task: str, src: Path, folder: Path) -> dict[str, float]:
    """Return the CPU times of a task by the package under `src`, in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.before_after", "--task", task, "--folder", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(src.resolve()), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    output = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    result = json.loads(output)
    if not Path(result["package"]).is_relative_to(src.resolve()):
        raise RuntimeError(f"the package was imported from {result['package']}, not from {src}")
    return result["seconds"]


def alternate(tasks: tuple[str, ...], old: Path, new: Path, runs: int, folder: Path) -> dict[str, tuple[float, float]]:
    """Return for every timing the least CPU time of the old and of the new package, whose runs take turns."""
    least: dict[str, tuple[float, float]] = {}
    for task in tasks:
        for _ in range(runs):
            before, after = run(task, old, folder), run(task, new, folder)
            for name in before:
                a, b = least.get(name, (float("inf"), float("inf")))
                least[name] = (min(a, before[name]), min(b, after[name]))
    return least


def table(least: dict[str, tuple[float, float]]) -> str:
    """Return the table of both sides and their ratios."""
    lines = [f"{'CPU seconds':<32}{'old':>9}{'new':>9}{'new/old':>9}   bar"]
    for name, (old, new) in least.items():
        lines.append(f"{name:<32}{old:>9.3f}{new:>9.3f}{new / old:>9.3f}   <= {MOST}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, help="the source tree (src) of the other checkout")
    parser.add_argument("--new", type=Path, default=SRC, help="the source tree, if not this one")
    parser.add_argument("--quick", action="store_true", help="three runs, at most 5,000 rows")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, help="these alone")
    parser.add_argument("--runs", type=int, help="runs of each side")
    parser.add_argument("--task", choices=TASKS, help="one run in this process, for the script itself")
    parser.add_argument("--folder", type=Path, help="where its files are")
    options = parser.parse_args()
    if options.task:
        import mlkm

        times = fit_parquet(options.folder) if options.task == "parquet" else fit_rows(int(options.task))
        print(json.dumps({"package": str(Path(mlkm.__file__).resolve()), "seconds": times}))
        return
    if options.old is None:
        parser.error("--old is the source tree to compare with")
    tasks = tuple(options.tasks or (QUICK if options.quick else TASKS))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "parquet" in tasks:
            write(folder / "small.parquet", 2000)
            write(folder / "large.parquet", PARQUET_ROWS)
        least = alternate(tasks, options.old, options.new, options.runs or (3 if options.quick else 5), folder)
    print(table(least))
    sys.exit(int(any(new > MOST * old for old, new in least.values())))


if __name__ == "__main__":
    main()
