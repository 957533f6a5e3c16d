"""Cells in processes of their own, one after the other, into a CSV file that a second run continues."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .problem import data_home
from .suites import ALL_MODELS, SUITES

FIELDS = [
    "suite",
    "dataset",
    "repetition",
    "model",
    "threads",
    "metric",
    "status",
    "error",
    "fit_seconds",
    "fit_cpu_seconds",
    "predict_seconds",
    "peak_mb",
    "n_train",
    "n_test",
    "d",
    "commit",
    "versions",
    "message",
]
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Cell:
    """What identifies a result."""

    suite: str
    dataset: str
    repetition: int
    model: str
    threads: int


def cells(
    suites: Iterable[str],
    sets: Sequence[str] | None,
    models: Sequence[str] | None,
    splits: Sequence[int],
    seeds: Sequence[int],
    threads: int,
) -> list[Cell]:
    """All cells asked for: models take turns on one set and repetition, so that what is compared is measured close in
    time."""
    found = []
    for suite in (SUITES[name] for name in suites):
        for name in suite.sets:
            if sets is None or any(name == wanted or name.split("/")[-1] == wanted for wanted in sets):
                chosen = [model for model in suite.models(name) if models is None or model in models]
                found += [
                    Cell(suite.name, name, r, model, threads)
                    for r in (splits if suite.by_split else seeds)
                    for model in chosen
                ]
    return found


def read(path: Path) -> dict[Cell, dict[str, str]]:
    """The last result of every cell in the file."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {
            Cell(r["suite"], r["dataset"], int(r["repetition"]), r["model"], int(r["threads"])): r
            for r in csv.DictReader(file)
        }


def run(
    wanted: Sequence[Cell], path: Path, *, again: Sequence[str] = (), retry: bool = False, timeout: float = 3600
) -> None:
    """Measure what is not in the file yet, or what is to be measured again, and append each result as it comes."""
    for model in dict.fromkeys(cell.model for cell in wanted):
        if reason := ALL_MODELS[model].missing():
            print(f"Left out: {reason}", flush=True)
            wanted = [cell for cell in wanted if cell.model != model]
    if any(cell.suite in ("real", "sml2010", "tables") or "/" in cell.dataset for cell in wanted):
        data_home()  # stops here, not in every cell, where there is none
    done = read(path)
    left = [
        cell
        for cell in wanted
        if cell not in done or cell.model in again or (retry and done[cell]["status"] in ("failed", "timeout"))
    ]
    print(f"{len(wanted)} cells, {len(wanted) - len(left)} of them in {path.name} already", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text(",".join(FIELDS) + "\n")
    commit = _commit()
    for number, cell in enumerate(left, 1):
        result = measure(cell, timeout)
        with path.open("a", newline="") as file:
            row = {**vars(cell), "metric": SUITES[cell.suite].metric, "commit": commit, **result}
            csv.DictWriter(file, FIELDS).writerow({name: _short(value) for name, value in row.items()})
        print(
            f"[{number}/{len(left)}] {cell.suite} {cell.dataset} {cell.repetition} {cell.model}: {_told(result)}",
            flush=True,
        )


def measure(cell: Cell, timeout: float) -> dict[str, Any]:
    """One cell in a process of its own, with its threads set before any library is loaded."""
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(cell.threads))}
    environment["PYTHONPATH"] = os.pathsep.join([str(_ROOT), str(_ROOT / "src"), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "benchmarks.cell", *(str(value) for value in vars(cell).values())]
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"status": "timeout", "message": f"stopped after {timeout:.0f} s"}
    lines = ended.stdout.strip().splitlines()
    if ended.returncode or not lines:
        return {
            "status": "failed",
            "message": f"exit {ended.returncode}: {(ended.stderr.strip().splitlines() or ['no message'])[-1]}",
        }
    return json.loads(lines[-1])


def _commit() -> str:
    """The commit that was measured, with a plus sign where files differ from it."""
    git = ["git", "-C", str(_ROOT)]
    head = subprocess.run(
        [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    changed = subprocess.run(
        [*git, "status", "--porcelain", "src"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return head + ("+" if changed else "")


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _told(result: dict[str, Any]) -> str:
    if result["status"] != "ok":
        return f"{result['status']} ({result['message']})"
    return (
        f"error {result['error']:.4g}, fit {result['fit_seconds']:.2f} s, predict {result['predict_seconds']:.2f} s,"
        f" peak {result['peak_mb']:.0f} MB"
    )
