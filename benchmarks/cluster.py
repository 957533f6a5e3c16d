"""A fit on a cluster of two processes with one thread each, beside the fit in memory with two threads.

    python -m benchmarks.cluster                       400,000 rows
    python -m benchmarks.cluster --rows 2000000        bars: at most 1.3 times the time in memory, client below 500 MB

Blocks of 100,000 x 50 numbers in float32 are made and kept by the workers; in memory the same blocks are one array. The
sides take turns, each fit in memory in a process of its own; the least time of either is compared. The client's memory
is what the fits add to the peak of its process, which the scheduler is in too.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
from time import perf_counter, sleep

import numpy as np

from mlkm import RandomFeatureRidge

BLOCK, COLUMNS, THREADS = 100_000, 50, 2


def model() -> RandomFeatureRidge:
    return RandomFeatureRidge(n_features=500, scale=0.3, penalty=1e-6, random_state=0)


def block(k: int) -> np.ndarray:
    """Inputs and, last, a target."""
    rng = np.random.default_rng([0, k])
    Z = rng.standard_normal((BLOCK, COLUMNS + 1), dtype=np.float32)
    Z[:, -1] = np.sin(Z[:, 0]) + Z[:, 1] * Z[:, 2] + 0.1 * Z[:, -1]
    return Z


def in_memory(rows: int) -> dict[str, float]:
    Z = np.concatenate([block(k) for k in range(rows // BLOCK)])
    X, y = np.ascontiguousarray(Z[:, :-1]), Z[:, -1].copy()
    del Z
    begin = perf_counter()
    fitted = model().fit(X, y)
    return {"seconds": perf_counter() - begin, "first": float(fitted.predict(X[:1])[0])}


def in_another_process(rows: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.cluster", "--rows", str(rows), "--memory"]
    limits = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(THREADS))
    done = subprocess.run(command, env={**os.environ, **limits}, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


class Peak:
    """The most memory of this process beyond what it had at first, in MB, looked at a hundred times a second."""

    def __enter__(self) -> "Peak":
        import psutil

        self.process, self.stop, self.most = psutil.Process(), threading.Event(), 0
        self.before = self.process.memory_info().rss
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        return self

    def _look(self) -> None:
        while not self.stop.is_set():
            self.most = max(self.most, self.process.memory_info().rss)
            sleep(0.01)

    def __exit__(self, *problem: object) -> None:
        self.stop.set()
        self.thread.join()

    @property
    def megabytes(self) -> float:
        return (self.most - self.before) / 1e6


def on_cluster(X: object, y: object) -> tuple[dict[str, float], float]:
    with Peak() as peak:
        begin = perf_counter()
        fitted = model().fit(X, y)
        seconds = perf_counter() - begin
    first = float(fitted.predict(block(0)[:1, :-1])[0])
    return {"seconds": seconds, "first": first}, peak.megabytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000, help="a multiple of 100,000")
    parser.add_argument("--repeats", type=int, default=3, help="fits of either side (default 3)")
    parser.add_argument("--memory", action="store_true", help="one fit in memory alone, as JSON")
    given = parser.parse_args()
    if given.memory:
        print(json.dumps(in_memory(given.rows)))
        return

    import dask.array as da
    from dask import delayed
    from distributed import Client, LocalCluster, wait

    settings = {"n_workers": THREADS, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        shape = (BLOCK, COLUMNS + 1)
        made = [da.from_delayed(delayed(block)(k), shape, np.float32) for k in range(given.rows // BLOCK)]
        Z = da.concatenate(made)
        X, y = client.persist([Z[:, :-1], Z[:, -1]])
        wait([X, y])
        sides: dict[str, list[dict[str, float]]] = {"cluster": [], "memory": []}
        growth = []
        for _ in range(given.repeats):
            found, megabytes = on_cluster(X, y)
            growth.append(megabytes)
            sides["cluster"].append(found)
            sides["memory"].append(in_another_process(given.rows))
        seconds = {name: [found["seconds"] for found in runs] for name, runs in sides.items()}
        apart = abs(sides["cluster"][0]["first"] - sides["memory"][0]["first"])
    for name, times in seconds.items():
        print(f"{name:8}", "  ".join(f"{own:.2f} s" for own in times))
    print(f"{given.rows:,} rows: cluster / memory = {min(seconds['cluster']) / min(seconds['memory']):.2f}")
    print(f"client's memory: {max(growth):.0f} MB more at most;  a prediction differs by {apart:.1e}")


if __name__ == "__main__":
    main()
