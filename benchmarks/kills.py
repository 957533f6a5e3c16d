"""Outputs of commands that are killed at random moments: python -m benchmarks.kills [--kills 100] [--seed 0]

`mlkm fit`, `predict`, `report` and `export`, the functions behind them and `python -m paper` get SIGKILL or SIGTERM in
turn, half of them with an earlier output in place. One half of the moments is drawn from the whole run, the other half
from the time between the first file that is opened for writing and the end. Afterwards every output must be complete,
or as it was before: absent, or the earlier file. No other file may be in the folder or in the temporary folder, nothing
in shared memory, and no process may be running after a minute.

Every command runs in a fork of a process that has imported the package, in its own session, so that no time is spent
on imports. It runs on Linux only, and takes about five minutes on one idle processor, and at most twenty. The exit code
is 1 if an output is broken, anything is left behind, or fewer kills were made.
"""

import argparse
import contextlib
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from paper import __main__ as paper
from paper.runner import store_of

import mlkm
import mlkm.cli.commands
from mlkm import ConformalRegressor, RandomFeatureRidge
from mlkm.cli import main as command_line

TABLE, MODEL, EXPERIMENT = "table.csv", "fitted.mlkm", "rates"
LATER = ("matplotlib.figure", "onnx", "plotly.offline", "pyarrow.csv", "pyarrow.dataset", "pyarrow.parquet")
GRACE, TIMEOUT, LIMIT = (
    60.0,
    120.0,
    1200.0,
)  # seconds for children after a kill, for a process to end, for all
PAPER = [f"{EXPERIMENT}-quick.csv", f"{EXPERIMENT}.md", "index.html", f"figures/{EXPERIMENT}.png"]


@dataclass(frozen=True)
class Job:
    """A function to run in a folder with the table and a model, the files it writes, and its share of the kills."""

    name: str
    run: Callable[[], object]
    writes: Sequence[str]
    share: int


def command(*words: str) -> Callable[[], object]:
    def run() -> None:
        sys.argv = ["mlkm", *words]
        command_line()

    return run


def functions() -> None:
    """Write every output of the Python functions, from one fit."""
    frame = pd.read_csv(TABLE)
    X, y = frame.drop(columns="y"), frame["y"]
    model = RandomFeatureRidge(100, scale=0.5, random_state=0).fit(X[:200], y[:200])
    band = ConformalRegressor(model).conformalize(X[200:], y[200:])
    mlkm.save(band, "model.mlkm")
    mlkm.to_onnx(band, "model.onnx")
    for name in ("predictions.csv", "predictions.parquet"):
        mlkm.predict_table(band, TABLE, name)
    band.report(X, y).save("report.html")


JOBS = [
    Job(
        "mlkm fit",
        command("fit", TABLE, "--target", "y", "--effort", "fast", "--out", "model.mlkm", "--report", "report.html"),
        ["model.mlkm", "report.html"],
        20,
    ),
    Job("mlkm predict", command("predict", MODEL, TABLE, "--out", "predictions.csv"), ["predictions.csv"], 14),
    Job("mlkm report", command("report", MODEL, TABLE, "--out", "report.html"), ["report.html"], 14),
    Job("mlkm export", command("export", MODEL, "--onnx", "model.onnx"), ["model.onnx"], 14),
    Job(
        "functions",
        functions,
        ["model.mlkm", "model.onnx", "predictions.csv", "predictions.parquet", "report.html"],
        18,
    ),
    Job(
        "paper",
        lambda: paper.main([EXPERIMENT, "--quick", "--jobs", "1", "--output", "."]),
        PAPER,
        16,
    ),
    Job(
        "paper --jobs 2",
        lambda: paper.main([EXPERIMENT, "--quick", "--jobs", "2", "--output", "."]),
        PAPER,
        4,
    ),
]


class Place:
    """A fresh folder to run in, with a temporary folder beside it."""

    def __init__(self, root: Path, inputs: Path, old: Path | None = None) -> None:
        self.folder, self.temporary = root / "folder", root / "temporary"
        shutil.copytree(inputs, self.folder)
        if old is not None:
            shutil.copytree(old, self.folder, dirs_exist_ok=True)
        self.temporary.mkdir()

    def start(self, run: Callable[[], object], report_to: int | None = None) -> int:
        """Fork a process that calls `run`, and that reports to `report_to` when it first opens a file for writing."""
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            os.setsid()
            os.chdir(self.folder)
            os.environ["TMPDIR"], tempfile.tempdir = str(self.temporary), None
            if report_to is not None:
                tell_first_write(report_to)
            silent = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silent, stream)
            ended = run()
            code = int(ended) if isinstance(ended, int) else 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os._exit(code)

    def files(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if not path.is_dir()}


def tell_first_write(to: int) -> None:
    begin, told = time.monotonic(), []

    def hook(event: str, arguments: tuple) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if writes and not told and not str(arguments[0]).startswith("/dev"):
            told.append(True)
            os.write(to, f"{time.monotonic() - begin}".encode())

    sys.addaudithook(hook)


def measure(job: Job, place: Place) -> tuple[float, float]:
    """Return the seconds from the start to the first file, and to the end."""
    here, there = os.pipe()
    begin = time.monotonic()
    _, status = os.waitpid(place.start(job.run, there), 0)
    seconds = time.monotonic() - begin
    os.close(there)
    with os.fdopen(here) as pipe:
        first = float(pipe.read() or "nan")
    if status or not set(job.writes) <= place.files() or not first < seconds:
        raise SystemExit(f"{job.name} fails without being killed (status {status}, files {sorted(place.files())}).")
    return first, seconds


def kill(job: Job, place: Place, by: signal.Signals, after: float) -> bool:
    """Kill a process, and return whether it was still running then."""
    shared, child = set(os.listdir("/dev/shm")), place.start(job.run)
    time.sleep(after)
    ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.kill(child, by)
        status = wait(child)
    survivors = left_running(child)
    for pid in survivors:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    own = [name for name in set(os.listdir("/dev/shm")) - shared if f"{child}" in name]
    if survivors or own:
        print(f"{job.name}, {by.name}: processes {survivors}, shared memory {own} are left", flush=True)
        COUNTS["stale"] += len(survivors) + len(own)
    hit = os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 128 + by
    return not ended and hit


COUNTS: Counter[str] = Counter()


def wait(child: int) -> int:
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    raise SystemExit(f"Process {child} did not end in {TIMEOUT:g} s after its signal.")


def left_running(session: int) -> list[int]:
    """Return the processes of the session that do not end by themselves."""
    end = time.monotonic() + GRACE
    while (found := members(session)) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def members(session: int) -> list[int]:
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry))
    return found


def problems(job: Job, place: Place, good: Path, old: bool) -> list[str]:
    """Return a list of broken outputs and of files that should not be there."""
    found = [f"{name} is left" for name in sorted(place.files() - {*job.writes, TABLE, MODEL})]
    found += [f"{name} is left in the temporary folder" for name in os.listdir(place.temporary)]
    for name in job.writes:
        path = place.folder / name
        if not path.exists():
            found += [f"{name} is gone"] if old else []
            COUNTS["absent"] += 1
        elif old and path.read_bytes() == (good / name).read_bytes():
            COUNTS["as before"] += 1
        else:
            COUNTS["complete"] += 1
            found += [] if is_whole(path, good / name) else [f"{name} is broken"]
    return found


def is_whole(path: Path, good: Path) -> bool:
    """Check a file in another process, so that this one has no threads and can be forked."""
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if _is_whole(path, good) else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def _is_whole(path: Path, good: Path) -> bool:
    """Whether a file equals the good one, or has the same content and end if it contains a time."""
    content = path.read_bytes()
    if path.name == f"{EXPERIMENT}-quick.csv":
        store = store_of(paper.EXPERIMENTS[EXPERIMENT], path.parent, quick=True)
        cells = len(store.read().cells)  # only complete lines are read
        return content.endswith(b"\n") and cells == content.count(b"\n") - 1
    if path.suffix == ".mlkm":
        X = pd.read_csv(path.parent / TABLE).drop(columns="y")
        return bool(np.allclose(mlkm.load(path).predict(X), mlkm.load(good).predict(X)))
    if path.suffix == ".html":
        return content[:15].lower() == b"<!doctype html>" and content.rstrip().endswith(b"</html>")
    if path.suffix == ".png":
        return content.startswith(b"\x89PNG") and content.endswith(b"IEND\xaeB`\x82")
    if path.suffix == ".md":
        return content.startswith(b"# ") and content.count(b"\n") == good.read_bytes().count(b"\n")
    return content == good.read_bytes()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    rng, begin = np.random.default_rng(given.seed), time.monotonic()
    with tempfile.TemporaryDirectory() as root:
        inputs = Path(root) / "inputs"
        write_inputs(inputs)
        for name in LATER:
            importlib.import_module(name)
        for number, job in enumerate(JOBS):
            kills = round(given.kills * job.share / 100)
            run_job(job, kills, inputs, Path(root) / str(number), rng, begin + LIMIT)
    outputs = ", ".join(f"{COUNTS[what]} {what}" for what in ("absent", "as before", "complete"))
    print(f"{COUNTS['kills']} kills in {time.monotonic() - begin:.0f} s: {outputs};", end=" ")
    print(f"{COUNTS['broken']} broken, {COUNTS['stale']} left behind")
    return 1 if COUNTS["broken"] or COUNTS["stale"] or COUNTS["kills"] < given.kills else 0


def write_inputs(folder: Path) -> None:
    """Write a table and a model of it, which is fitted in another process."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((300, 3)), columns=["a", "b", "c"])
    frame.assign(y=frame["a"] + 0.1 * rng.standard_normal(300)).to_csv(folder / TABLE, index=False)
    child = os.fork()
    if not child:
        code = 1
        try:
            os.chdir(folder)
            command("fit", TABLE, "--target", "y", "--effort", "fast", "--out", MODEL)()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("The model could not be fitted.")


def run_job(job: Job, kills: int, inputs: Path, root: Path, rng: np.random.Generator, deadline: float) -> None:
    done = Place(root / "good", inputs)
    spans = [measure(job, done)]
    good = root / "outputs"
    for name in job.writes:
        (good / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(done.folder / name, good / name)
        if not is_whole(done.folder / name, good / name):
            raise SystemExit(f"{job.name}: {name} is broken without a kill.")
    spans.append(measure(job, Place(root / "again", inputs, good)))  # python -m paper has less to do then
    for old, (first, seconds) in enumerate(spans):
        over = " where outputs are there" if old else ""
        print(f"{job.name}: {seconds:.2f} s, writing from {first:.2f} s on{over}", flush=True)
    hits = attempts = 0
    while hits < kills and attempts < 4 * kills and time.monotonic() < deadline:
        by, old = (signal.SIGKILL, signal.SIGTERM)[hits % 2], bool(hits // 2 % 2)
        place = Place(root / str(attempts), inputs, good if old else None)
        attempts += 1
        first, seconds = spans[old]
        after = rng.uniform(first if hits // 4 % 2 else 0, seconds)
        hit = kill(job, place, by, after)
        hits += hit
        if not hit:  # it ended before its signal
            spans[old] = 0.95 * first, 0.95 * seconds
        for problem in problems(job, place, good, old) if hit else ():
            COUNTS["broken" if problem.endswith(("broken", "gone")) else "stale"] += 1
            print(f"{job.name}, {by.name} after {after:.3f} s: {problem}", flush=True)
        shutil.rmtree(place.folder.parent)
    COUNTS["kills"] += hits
    print(f"{job.name}: {hits} kills, {attempts - hits} runs that ended before their signal", flush=True)


if __name__ == "__main__":
    sys.exit(main())
