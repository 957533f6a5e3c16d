"""One cell of a table: one fit, measured in a process of its own.

    python -m benchmarks.cell SUITE SET REPETITION MODEL THREADS

prints one line of JSON. The number of threads of BLAS and OpenMP must be set in the environment before the process
starts: `runner.measure` does so.
"""

import gc
import json
import platform
import resource
import sys
import time
import warnings
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from .problem import Problem
from .suites import ALL_MODELS, SUITES

ERROR, SKIPPED, OK = "failed", "skipped", "ok"


class PeakMemory:
    """The most memory resident at once inside the context, above what was resident at its start.

    Linux can forget the peak of loading the data (clear_refs). Where it cannot, the peak so far is the start, and the
    figure is a lower bound.
    """

    def __enter__(self) -> "PeakMemory":
        self.start = _peak_mb()
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
            self.start = _peak_mb()
        return self

    def __exit__(self, *_: object) -> None:
        self.mb = max(0.0, _peak_mb() - self.start)


def _peak_mb() -> float:
    """ru_maxrss counts kilobytes, on macOS bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if platform.system() == "Darwin" else 2**10)


def measure(suite: str, name: str, repetition: int, model: str, threads: int) -> dict[str, Any]:
    """Error, seconds, memory and versions of one fit."""
    problem, who = SUITES[suite].load(name, repetition), ALL_MODELS[model]
    if problem is None:
        return {"status": SKIPPED, "message": "no such split"}
    n, d = (problem.raw if who.raw else problem.X).shape
    result = {"n_train": n, "n_test": len(problem.target), "d": d, "versions": versions(who.package)}
    if reason := who.too_large(n, d):
        return {**result, "status": SKIPPED, "message": reason}
    with who.around():
        return {**result, **_fit(problem, who, SUITES[suite].metric, repetition, threads), "status": OK}


def _fit(problem: Problem, who: Any, metric: str, seed: int, threads: int) -> dict[str, Any]:
    X, X_test = (problem.raw, problem.raw_test) if who.raw else (problem.X, problem.X_test)
    estimator = who.build(seed, threads)
    if hasattr(estimator, "prepare"):
        estimator.prepare(len(X))
    gc.collect()
    with PeakMemory() as peak:
        begin, begin_cpu = time.perf_counter(), time.process_time()
        estimator.fit(X, problem.y)
        fit_seconds, fit_cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    begin = time.perf_counter()
    prediction = np.asarray(estimator.predict(X_test), dtype=np.float64).ravel()
    predict_seconds = time.perf_counter() - begin
    mse = float(np.mean((prediction - problem.target) ** 2))
    return {
        "error": np.sqrt(mse) if metric == "rmse" else mse * problem.unit**2,
        "fit_seconds": fit_seconds,
        "fit_cpu_seconds": fit_cpu,
        "predict_seconds": predict_seconds,
        "peak_mb": peak.mb,
    }


def versions(package: str) -> str:
    """Versions of Python, the arrays, this package and the model's own."""
    names = {
        "mlkm": "mlkm",
        "numpy": "numpy",
        "scipy": "scipy",
        "sklearn": "scikit-learn",
        package: {"sklearn": "scikit-learn"}.get(package, package),
    }
    found = [f"python {platform.python_version()}"]
    for name in dict.fromkeys(names.values()):
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return "; ".join(found)


def main() -> None:
    suite, name, repetition, model, threads = sys.argv[1:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = measure(suite, name, int(repetition), model, int(threads))
        except Exception as error:
            result = {"status": ERROR, "message": f"{type(error).__name__}: {error}"}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
