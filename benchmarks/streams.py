"""Fits to a file of up to ten million rows: time, memory and accuracy. `python -m benchmarks.streams out/` .

* grow: 10^5, 10^6 and 10^7 rows of `benchmarks.big_table`; `RandomFeatureRidge(1000)` with a given and with a learned
  scale, and the default, each in a process of its own; slopes of log time and log peak memory.
* peer: LightGBM on as many of the rows as it takes below the memory asked for.
* blocks: 200,000 rows in memory, in pieces and as one big array of features, and the bare product of that size.

The error is the mean squared distance to the noiseless truth at 50,000 other rows. Peak memory is that of the process,
imports included. Two threads unless OPENBLAS_NUM_THREADS says otherwise.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

from .big_table import names, rows, truth, write

SIZES = (100_000, 1_000_000, 10_000_000)
MODELS = ("given", "ridge", "default")
WORDS = {
    "given": "RandomFeatureRidge(1000, scale=0.3, penalty=1e-6)",
    "ridge": "RandomFeatureRidge(1000)",
    "default": "MLKMRegressor()",
}


def model_of(name):
    from mlkm import MLKMRegressor, RandomFeatureRidge

    return {
        "given": lambda: RandomFeatureRidge(1000, scale=0.3, penalty=1e-6, random_state=0),
        "ridge": lambda: RandomFeatureRidge(1000, random_state=0),
        "default": lambda: MLKMRegressor(random_state=0),
    }[name]()


def error_of(predict):
    import pandas as pd

    X, _, _ = rows(1_000_000, 50_000)  # a group that no file has
    return float(np.mean((predict(pd.DataFrame(X, columns=names())) - truth(X)) ** 2))


def fit_file(name, path):
    from mlkm import open_table

    model, table = model_of(name), open_table(path, target="y", features=names())  # imports are no part of a fit
    begin = perf_counter()
    model.fit(table)
    seconds = perf_counter() - begin
    return {"seconds": seconds, "error": error_of(model.predict), "features": int(model.widths_[0])}


def fit_peer(path, n):
    """LightGBM with its defaults but 500 trees, from an array that is filled batch by batch."""
    import lightgbm
    import pyarrow.parquet as pq

    X, y, at = np.empty((n, 20), np.float32), np.empty(n, np.float32), 0
    for batch in pq.ParquetFile(path).iter_batches(100_000, columns=[*names(), "y"]):
        m = min(len(batch), n - at)
        for j, column in enumerate(batch.columns[:20]):
            X[at : at + m, j] = column.to_numpy()[:m]
        y[at : at + m] = batch.columns[20].to_numpy()[:m]
        at += m
        if at == n:
            break
    begin = perf_counter()
    peer = lightgbm.LGBMRegressor(n_estimators=500, n_jobs=2, verbose=-1).fit(X, y)
    return {
        "seconds": perf_counter() - begin,
        "error": error_of(lambda frame: peer.predict(frame.to_numpy())),
        "rows": n,
    }


def in_blocks(n=200_000, D=1000, d=20):
    """Sums in pieces, beside one array of all features and one product of it, and beside the bare product."""
    from scipy.linalg.blas import sgemm

    from mlkm.data import plain_rows
    from mlkm.data.rows import MemoryRows
    from mlkm.kernels import Gaussian
    from mlkm.model.draws import draw_features
    from mlkm.model.prior import Part, Prior
    from mlkm.solve.sums import add_in_place, sums_of

    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, 1))
    prior = Prior((Part(draw_features(rng, d, D, Gaussian(), 0.3), 1.0),), None, 1e-2)
    plain, pieces, of = plain_rows(X, Y), MemoryRows(plain_rows(X, Y)), sums_of(prior, X[:1000])

    def big():
        F = prior.rows_of_features(prior.inputs(plain.X))
        F -= of.shift.astype(F.dtype)
        return F.T @ F, F.T @ plain.Y.astype(F.dtype)

    F = rng.standard_normal((n, D), dtype=np.float32)
    cases = {
        "pieces": lambda: pieces.map_reduce(of, add_in_place),
        "one array": big,
        "bare sgemm": lambda: sgemm(1.0, F.T, F.T, trans_b=True),
    }
    times = {name: [] for name in cases}
    for _ in range(5):
        for name, work in cases.items():
            begin = perf_counter()
            work()
            times[name].append(perf_counter() - begin)
    return {name: float(np.median(own)) for name, own in times.items()}


def alone(*words):
    """The result of a part of this script in a process of its own, with its peak memory in bytes."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.streams", "--part", *map(str, words)]
    environment = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", **os.environ}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
    if status:
        raise RuntimeError(f"{' '.join(map(str, words))} failed")
    return {**json.loads(said.splitlines()[-1]), "memory": 1024 * usage.ru_maxrss}


def slope(sizes, values):
    """Of log value against log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--part", nargs="+", help="one part of the work, for the script itself")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--peer-rows", type=int, default=10_000_000)
    options = parser.parse_args()
    if options.part:
        kind, *words = options.part
        work = {
            "fit": lambda: fit_file(words[0], words[1]),
            "peer": lambda: fit_peer(words[0], int(words[1])),
            "blocks": in_blocks,
        }
        print(json.dumps(work[kind]()))
        return
    options.folder.mkdir(exist_ok=True, parents=True)
    results = {"load": os.getloadavg()[0]}
    for n in options.sizes:
        path = options.folder / f"rows{n}.parquet"
        if not path.exists():
            write(path, n)
        for name in options.models:
            found = alone("fit", name, path)
            results[f"{name} {n}"] = found
            print(f"{WORDS[name]:52} {n:>10,} rows  {found['seconds']:7.1f} s  {found['memory'] / 1e6:6.0f} MB  "
                  f"excess {found['error']:.4f}", flush=True)  # fmt: skip
    for name in options.models if len(options.sizes) > 1 else ():
        own = [results[f"{name} {n}"] for n in options.sizes]
        times, memory = (slope(options.sizes, [x[key] for x in own]) for key in ("seconds", "memory"))
        print(f"{WORDS[name]:52} slope of time {times:.2f}, of memory {memory:.2f}")
    n = min(options.peer_rows, max(options.sizes))
    peer = results["peer"] = alone("peer", options.folder / f"rows{max(options.sizes)}.parquet", n)
    print(f"{'LightGBM, 500 trees':52} {n:>10,} rows  {peer['seconds']:7.1f} s  {peer['memory'] / 1e6:6.0f} MB  "
          f"excess {peer['error']:.4f}")  # fmt: skip
    times = results["blocks"] = alone("blocks")
    print(f"200,000 x 1000 features: in pieces {times['pieces']:.2f} s, one array {times['one array']:.2f} s "
          f"({times['pieces'] / times['one array']:.2f}), bare sgemm {times['bare sgemm']:.2f} s "
          f"({times['pieces'] / times['bare sgemm']:.2f})")  # fmt: skip
    (options.folder / "streams.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
