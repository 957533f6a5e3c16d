"""Sizes of model files, and the time that saving and loading take: python -m benchmarks.files."""

import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

import mlkm
from mlkm.datasets import make_example1


def main(n: int = 20_000, d: int = 20) -> None:
    X, y, _ = make_example1(n=n, d=d, random_state=0)
    model = mlkm.MLKMRegressor(random_state=0).fit(X, y)
    said = model.predict(X[:1000])
    with tempfile.TemporaryDirectory() as folder:
        for keep_rows in (True, False):
            path = Path(folder) / "model.mlkm"
            times = [perf_counter()]
            mlkm.save(model, path, keep_rows=keep_rows)
            times.append(perf_counter())
            loaded = mlkm.load(path)
            times.append(perf_counter())
            same = np.array_equal(loaded.predict(X[:1000]), said)
            saving, loading = np.diff(times)
            size = path.stat().st_size / 1e6
            print(f"{keep_rows=!s:5}  {size:.1f} MB  save {saving:.2f} s  load {loading:.2f} s  bit-equal {same}")


if __name__ == "__main__":
    main()
