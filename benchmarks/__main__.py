"""Our estimators and their peers on real data and on the paper's examples.

    MLKM_DATA_HOME=... python -m benchmarks run real --splits 0 1 --threads 2
    python -m benchmarks page --peers peers.csv

`run` measures error, seconds and peak memory, every fit in a process of its own, and appends to results/cells.csv;
cells already there are not run again. `page` writes tables and plots of that file to docs/benchmarks. `list` names the
suites, their sets and the models.
"""

import argparse
from pathlib import Path

from .models import MODELS
from .suites import ALL_MODELS, SUITES


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure")
    run.add_argument("named", nargs="*", metavar="SUITE", help="names of suites; all of them by default")
    run.add_argument("--suite", nargs="+", default=[], choices=[*SUITES, "all"], help="the same")
    run.add_argument("--sets", nargs="+", help="only these sets, with or without their folder")
    run.add_argument(
        "--models", nargs="+", choices=list(ALL_MODELS), metavar="MODEL", help="only these models; see `list`"
    )
    run.add_argument(
        "--splits", nargs="+", type=int, default=[0, 1], help="numbers of the splits of real data (default 0 1)"
    )
    run.add_argument("--seeds", type=int, default=5, help="seeds 0 to N-1 of everything that is simulated (default 5)")
    run.add_argument("--threads", type=int, default=1, help="threads of every fit (default 1)")
    run.add_argument("--timeout", type=float, default=3600, help="seconds after which a fit is stopped")
    run.add_argument(
        "--again",
        nargs="+",
        default=[],
        choices=list(ALL_MODELS),
        metavar="MODEL",
        help="measure these anew, after a change",
    )
    run.add_argument("--retry", action="store_true", help="try cells that failed once more")
    page = commands.add_parser("page", help="write the page")
    page.add_argument(
        "--peers", type=Path, help="further results of peers: a CSV file with columns dataset, split, method, rmse"
    )
    page.add_argument("--threads", type=int, help="of the results to show (default: the number with most results)")
    page.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder of the page")
    for command in (run, page):
        command.add_argument("--results", type=Path, default=Path("results/cells.csv"))
    commands.add_parser("list", help="suites, sets and models")
    args = parser.parse_args()
    if args.command == "run":
        from .runner import cells
        from .runner import run as measure_all

        suites = [*args.named, *args.suite]
        if unknown := [name for name in suites if name not in SUITES and name != "all"]:
            raise SystemExit(f"There is no suite {unknown[0]!r}; `python -m benchmarks list` names them.")
        suites = list(SUITES) if not suites or "all" in suites else suites
        wanted = cells(suites, args.sets, args.models, args.splits, range(args.seeds), args.threads)
        if not wanted:
            raise SystemExit("No cell matches --suite, --sets and --models; `python -m benchmarks list` names them.")
        measure_all(wanted, args.results, again=args.again, retry=args.retry, timeout=args.timeout)
    elif args.command == "page":
        from .page import write

        for file in write(args.results, args.out, args.peers, args.threads):
            print(file)
    else:
        for name, suite in SUITES.items():
            print(f"{name} ({suite.metric}): {', '.join(suite.sets)}")
        print("models: " + ", ".join(f"{name} ({model.label})" for name, model in MODELS.items()))
        print(
            "levers of the ablation: "
            + ", ".join(f"{name} ({model.label})" for name, model in ALL_MODELS.items() if name not in MODELS)
        )


if __name__ == "__main__":
    main()
