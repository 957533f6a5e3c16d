"""Exported models beside `predict`: agreement, size of the file, and time, one thread each.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.exported

Times are the least of several runs. Agreement is the largest difference from `predict`, relative to the range of the
predictions.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd

import mlkm
from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge
from mlkm.onnx import feed

HEAD = "| fit | type | file, MB | difference | 1000 rows: predict, ms | exported | one row: predict, ms | exported |"


def _numbers(n: int, d: int = 10, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Friedman's function of five of d uniform inputs, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d)).astype(np.float32).astype(np.float64)
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, f + rng.standard_normal(n)


def _table(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """The same with three of the inputs as words of 4, 20 and 100 levels, and numbers that are missing."""
    X, y = _numbers(n, 10, seed)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)])
    for name, levels in (("x5", 4), ("x6", 20), ("x7", 100)):
        frame[name] = [f"level {int(levels * x)}" for x in frame[name]]
    frame.loc[np.arange(n) % 7 == 0, "x1"] = np.nan
    return frame, y


def _least(f: Callable[[], Any], runs: int = 5) -> float:
    """Milliseconds."""
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        f()
        times.append(time.perf_counter() - begin)
    return 1e3 * min(times)


def _session(model: Any) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def row(name: str, model: Any, X: Any, dtype: str) -> str:
    exported = mlkm.to_onnx(model, dtype=dtype)
    session, inputs = _session(exported), feed(model, X, dtype=dtype)
    one, X_one = {key: value[:1] for key, value in inputs.items()}, X[:1]
    predict = model.predict_interval if isinstance(model, ConformalRegressor) else model.predict
    expected = model.predict(X)
    difference = np.abs(session.run(None, inputs)[0] - expected).max() / np.ptp(expected)
    times = [
        _least(lambda: predict(X)), _least(lambda: session.run(None, inputs)),
        _least(lambda: predict(X_one), 20), _least(lambda: session.run(None, one), 20),
    ]  # fmt: skip
    cells = [f"{len(exported.SerializeToString()) / 1e6:.2f}", f"{difference:.0e}", *(f"{t:.2f}" for t in times)]
    return f"| {name} | {dtype} | " + " | ".join(cells) + " |"


def main() -> None:
    (X, y), (frame, z) = _numbers(2000), _table(2000)
    later, later_frame = _numbers(1000, seed=1)[0], _table(1000, seed=1)[0]
    default, deep = MLKMRegressor(random_state=0), MLKMRegressor(widths=(256, 16), random_state=0)
    models = [
        ("kernels at 2000 rows, 10 inputs", default.fit(X, y), later),
        ("the same, a table with words", MLKMRegressor(random_state=0).fit(frame, z), later_frame),
        ("500 features", RandomFeatureRidge(500, random_state=0).fit(X, y), later),
        ("layers 256, 16", deep.fit(X, y), later),
        (
            "band, sigma of 1000 rows",
            ConformalRegressor(MLKMRegressor(random_state=0), random_state=0).fit(X, y),
            later,
        ),
    ]
    print(HEAD)
    print("|---|---|---|---|---|---|---|---|")
    for name, model, rows in models:
        for dtype in ("float32", "float64"):
            print(row(name, model, rows, dtype))


if __name__ == "__main__":
    main()
