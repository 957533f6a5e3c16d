"""Bad inputs at every public entry point: what comes of them.

    python -m benchmarks.bad_inputs                # 3,000 cases with seed 0, less than a minute on one core
    python -m benchmarks.bad_inputs --seed 7 --cases 500 --show 40

A case is an entry point, one of its arguments, and a value from a pool of bad and odd ones in the place of a good one.
Each runs in a child process with an alarm, and its outcome is one of

* right: the call returns, with finite numbers of the right shape;
* clear: an error or a warning of one sentence (`fault_of`), or one of scikit-learn's sentences on arrays;
* unclear: an error in the words of another library, or one that breaks the rules for sentences;
* nonsense: the call returns NaN, infinity or the wrong shape without a word;
* hang: no end within a minute;
* crash: the interpreter ends.

The exit code is 1 if there is nonsense, a hang or a crash, or if more than 2 % are unclear.
"""

import argparse
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib.externals.loky import get_reusable_executor

import mlkm

from .bad_values import pool
from .entry_points import entries
from .world import Entry, World

SECONDS = 60
MEMORY = 6 * 10**9  # bytes of a child: what asks for more fails at once instead of filling the machine
PACKAGE, TESTED = str(Path(mlkm.__file__).parent), re.compile(r"site-packages[/\\](sklearn)[/\\]")
OURS_INSIDE = re.compile(
    r"\b_[A-Z]\w+|\bmlkm\.(?!kernels\b|solvers\b|load\b|save\b|merge\b|onnx\b|datasets\b|Event\b)\w+\.\w"
)
# scikit-learn's sentences on arrays, which its checks of estimators ask for
SKLEARN = (
    "A sparse",
    "Sparse",
    "Expected 2D",
    "Expected 2-dimensional",
    "Expected a",
    "Found array with",
    "Found input",
    "Found unknown",
    "Input ",
    "X has ",
    "X does not contain",
    "Complex data",
    "y should be a 1d",
    "The feature names",
    "This ",
    "Invalid parameter",
    "Singleton array",
    "Expected sequence or array-like",
    "Feature names are only",
    "The feature name",
    "Estimator ",
    "Cannot cast",
    "The least populated",
    "Cannot have number of splits",
    "Unable to",
    "dtype='numeric'",
    "k-fold cross-validation requires",
    "The number of folds",
    "Expected cv as an integer",
    "Unexpected value",
)


def fault_of(message: str) -> str:
    """What is wrong with a message of ours, empty where it is one clear sentence."""
    if not message:
        return "empty"
    if "\n" in message:
        return "more than one line"
    if not message.endswith("."):
        return "no full stop"
    if not re.match(r"[A-Z/'\"`]|\w+[ (,.'_]|--?\w", message):
        return "begins with neither a capital nor a name"
    if re.search(r"0x[0-9a-f]{4,}", message):
        return "an address in memory"
    if OURS_INSIDE.search(message):
        return f"an inner name, {OURS_INSIDE.search(message)[0]}"  # type: ignore[index]
    if re.search(r"np\.(str_|float|int|bool)", message):
        return "a type of NumPy"
    return "" if len(message) <= 320 else f"{len(message)} characters"


def raised_in(error: BaseException) -> str:
    """The file of the line that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].filename if frames else ""


def is_clear(error: BaseException) -> str:
    """Empty where an error is clear, else why it is not."""
    message, where = str(error), raised_in(error)
    if where.startswith(PACKAGE):
        return fault_of(message)
    if TESTED.search(where) and message.startswith(SKLEARN):
        return ""
    if isinstance(error, TypeError) and re.search(r"\(\) (got|missing|takes)", message):
        return ""  # Python's sentence on a wrong call
    return f"raised in {where.split('site-packages')[-1]}"


@dataclass(frozen=True)
class Outcome:
    """What came of a case."""

    entry: str
    argument: str
    value: str
    kind: str
    words: str = ""


class _LateError(BaseException):
    """The alarm; no `except Exception` catches it."""


def _alarm(*_: Any) -> None:
    raise _LateError


def judged(entry: Entry, argument: str, name: str, make: Callable[[], Any]) -> Outcome:
    """One case."""

    def outcome(kind: str, words: str = "") -> Outcome:
        return Outcome(entry.name, argument, name, kind, words)

    given = {**entry.good, argument: make()}
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = entry.call(**given)
            signal.alarm(0)
            if not isinstance(given[argument], Iterator):
                told = [str(one.message) for one in said if issubclass(one.category, (UserWarning, FutureWarning))]
                if not entry.right(result, given):
                    return outcome("clear", told[0]) if told else outcome("nonsense", repr(result)[:200])
        return outcome("right")
    except _LateError:
        return outcome("hang")
    except Exception as error:
        fault = is_clear(error)
        return outcome(
            "unclear" if fault else "clear", f"{type(error).__name__}: {error}"[:400] + (f" [{fault}]" if fault else "")
        )
    finally:
        signal.alarm(0)


def _child(cases: list[tuple[int, int, int]], pipe: Any, folder: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    os.chdir(folder)  # where files land whose names are bad ones
    world = World(Path(folder))
    every, values = entries(world), list(pool(world).items())
    for number, at, value in cases:
        entry, argument = every[at], sorted(every[at].good)[value % len(every[at].good)]
        name, make = values[value // len(every[at].good)]
        pipe.send(("begin", number, (entry.name, argument, name)))
        pipe.send(("end", number, judged(entry, argument, name, make)))
    pipe.send(("done", -1, None))
    get_reusable_executor().shutdown(kill_workers=True)  # workers of n_jobs, which the end of a child waits for


def drawn(seed: int, n: int) -> list[tuple[int, int, int]]:
    """Cases without repetition: entry points alike, then one of its arguments and values."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        every, values = entries(world), pool(world)
    rng, seen = np.random.default_rng(seed), set[tuple[int, int]]()
    while len(seen) < n:
        at = int(rng.integers(len(every)))
        seen.add((at, int(rng.integers(len(every[at].good) * len(values)))))
    order = rng.permutation(n)
    listed = sorted(seen)
    return [(int(k), *listed[i]) for k, i in enumerate(order)]


def swept(cases: list[tuple[int, int, int]]) -> Iterator[Outcome]:
    """Outcomes, in child processes that begin anew after a crash or a hang that no alarm ends."""
    context = multiprocessing.get_context("spawn")
    left = cases
    with tempfile.TemporaryDirectory() as folder:
        while left:
            ours, theirs = context.Pipe(duplex=False)
            child = context.Process(target=_child, args=(left, theirs, folder))
            child.start()
            theirs.close()
            begun, end = None, "crash"  # type: Any, str
            try:
                while ours.poll(SECONDS + 60):
                    what, number, content = ours.recv()
                    if what == "done":
                        left = []
                        break
                    if what == "begin":
                        begun = number, content
                    else:
                        begun = None
                        left = [case for case in left if case[0] != number]
                        yield content
                else:
                    end = "hang"
                    child.kill()
            except EOFError:
                pass
            if left:
                if begun is None:
                    raise RuntimeError("The child ended between two cases.")
                yield Outcome(*begun[1], end)
                left = [case for case in left if case[0] != begun[0]]
            child.join()


def main() -> int:
    parser = argparse.ArgumentParser(description="What comes of bad inputs at every public entry point.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--show", type=int, default=20, help="Examples of every kind that is not right or clear.")
    asked = parser.parse_args()
    found = list(swept(drawn(asked.seed, asked.cases)))
    counts = Counter(one.kind for one in found)
    for kind in ("unclear", "nonsense", "hang", "crash"):
        for one in [one for one in found if one.kind == kind][: asked.show]:
            print(f"{kind}: {one.entry}({one.argument}={one.value}): {one.words}")
    print(
        f"{len(found)} cases, seed {asked.seed}: "
        + ", ".join(f"{counts[kind]} {kind}" for kind in ("right", "clear", "unclear", "nonsense", "hang", "crash"))
    )
    return int(counts["nonsense"] + counts["hang"] + counts["crash"] > 0 or counts["unclear"] > 0.02 * len(found))


if __name__ == "__main__":
    sys.exit(main())
