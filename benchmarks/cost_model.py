"""What a closed form costs, checked against measurements: `python -m benchmarks.cost_model out/ --plot scale.svg`.

One layer of D features on n rows of d columns, on W workers of one thread each:

    products     n D^2                   multiplications, in float32
    features     n D (d + cosine)
    bytes read   n d b in every pass, b bytes a number, two passes: the scan and the sums
    bytes sent   8 D^2 for each task of eight pieces, up a tree of fan-in eight; the rows stay where they are

    seconds = solve(D) + scan n d / W + n D^2 / (W P) + n D / (W C) + tasks 8 D^2 / (W B)

P, C and B, products, cosines and bytes that are added up per second and worker, are measured on one thread first, and
so are the scan and the solve. Measured are fits to collections of dask on 1, 2 and 4 processes; with more processes
than processors there is nothing to gain, and the model knows the number of processors.
"""

import argparse
import json
import os
from pathlib import Path
from time import perf_counter

import numpy as np

from .big_table import rows as rows_of_group
from .streams import slope

D, COLUMNS, GROUP = 500, 20, 100_000


def block(group, n=GROUP):
    X, y, _ = rows_of_group(int(group), n)
    return np.column_stack([X, y])


def collections(n):
    """Rows that are made where they are used."""
    import dask.array as da
    from dask import delayed

    sizes = [min(GROUP, n - begin) for begin in range(0, n, GROUP)]
    parts = [
        da.from_delayed(delayed(block, pure=False)(k, size), (size, COLUMNS + 1), np.float32)
        for k, size in enumerate(sizes)
    ]
    Z = da.concatenate(parts)
    return Z[:, :COLUMNS], Z[:, COLUMNS]


def model():
    from mlkm import RandomFeatureRidge

    return RandomFeatureRidge(D, scale=0.3, penalty=1e-6, random_state=0)


def rates():
    """Of one thread: seconds per row of the scan and of making it, products, cosines and added bytes per second, and
    the seconds of a solve."""
    from mlkm.data.preparation import array_rows
    from mlkm.data.scan import scan

    F = np.random.default_rng(0).standard_normal((2048, D), dtype=np.float32)
    G = np.zeros((D, D))
    X, y = block(0)[:, :COLUMNS], block(0)[:, COLUMNS]

    def seconds(work, repeats=3):
        times = []
        for _ in range(repeats):
            begin = perf_counter()
            work()
            times.append(perf_counter() - begin)
        return min(times)

    return {
        "products": F.shape[0] * D**2 / seconds(lambda: F.T @ F),
        "cosines": F.size / seconds(lambda: np.cos(F)),
        "added": G.nbytes / seconds(lambda: np.add(G, G)),
        "scan": seconds(lambda: scan(array_rows(X, y, np.ones(len(y)), True), [False] * COLUMNS, 0)) / len(y),
        "made": seconds(lambda: block(0)) / GROUP,
        "solve": seconds(lambda: np.linalg.eigh(F.T @ F)),
    }


def modelled(n, workers, rate, features=D, cores=None):
    """Seconds of a fit."""
    at_once = min(workers, cores or workers)
    each = rate["scan"] + 2 * rate["made"] + features**2 / rate["products"] + features / rate["cosines"]
    tasks = max(n / 131_072, 1)
    return rate["solve"] + (n * each + tasks * 8 * features**2 / rate["added"]) / at_once


def measured(n, workers):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        X, y = collections(n)
        model().fit(X[:GROUP], y[:GROUP])  # workers import what they need
        begin = perf_counter()
        model().fit(X, y)
        return perf_counter() - begin


def plot(results, streams, path):
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for workers, colour in zip((1, 2, 4), ("C0", "C1", "C2"), strict=True):
        own = [r for r in results["fits"] if r["workers"] == workers]
        if own:
            n = [r["n"] for r in own]
            left.loglog(n, [r["measured"] for r in own], "o", color=colour, label=f"{workers} workers, measured")
            left.loglog(n, [r["modelled"] for r in own], "-", color=colour, label=f"{workers} workers, model")
    left.set(xlabel="rows", ylabel="seconds", title=f"{D} features on a cluster of Dask")
    left.legend(fontsize=8)
    for name, label in (("given", "scale given"), ("ridge", "scale learned"), ("default", "default")):
        sizes = sorted(int(key.split()[1]) for key in streams if key.startswith(name + " "))
        if sizes:
            right.loglog(sizes, [streams[f"{name} {n}"]["seconds"] for n in sizes], "o-", label=f"{label}, s")
            right.loglog(sizes, [streams[f"{name} {n}"]["memory"] / 1e6 for n in sizes], "s--", alpha=0.5,
                         label=f"{label}, MB")  # fmt: skip
    right.set(xlabel="rows of a Parquet file", title="1000 features, and the default, from a file")
    right.legend(fontsize=7, ncols=2)
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 4_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    rate, fits = rates(), []
    for name, value in rate.items():
        print(f"{name:10} {value:.3g}")
    for workers in options.workers:
        for n in [n for n in options.rows if n > 20_000]:
            seconds, guess = measured(n, workers), modelled(n, workers, rate, cores=os.cpu_count())
            fits.append({"n": n, "workers": workers, "measured": seconds, "modelled": guess})
            print(f"{workers} workers, {n:>10,} rows: measured {seconds:7.1f} s, model {guess:7.1f} s", flush=True)
    far = {"machines": 100, "cores": 8, "n": 10**9, "features": 1000}
    seconds = modelled(far["n"], far["machines"] * far["cores"], rate, far["features"])
    print(f"10^9 rows, 1000 features, 100 machines of 8 such cores: {seconds:,.0f} s, of which products "
          f"{far['n'] * 1000**2 / rate['products'] / 800:,.0f} s; {8e6 * far['n'] / 131_072 / 1e9:,.0f} GB are sent, "
          f"{2 * far['n'] * COLUMNS * 4 / 1e9:,.0f} GB read")  # fmt: skip
    options.folder.mkdir(exist_ok=True, parents=True)
    results = {"rates": rate, "fits": fits}
    (options.folder / "cost_model.json").write_text(json.dumps(results, indent=1))
    streams = options.folder / "streams.json"
    if options.plot:
        plot(results, json.loads(streams.read_text()) if streams.exists() else {}, options.plot)
    for workers in options.workers:
        own = [r for r in fits if r["workers"] == workers]
        if len(own) > 1:
            print(f"{workers} workers: slope {slope([r['n'] for r in own], [r['measured'] for r in own]):.2f}")


if __name__ == "__main__":
    main()
