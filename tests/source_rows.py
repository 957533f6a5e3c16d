"""Rows for tests of sources: numbers, a mixed table, a file of them, and a policy by which few rows are many."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mlkm.search.policy import Policy

# a search of few rows and steps, for tests that compare fits with each other whatever they have found
SHORT_SEARCH = {
    "first_joint_rows": 100,
    "joint_rows": 200,
    "joint_steps": (3, 3),
    "variance_rows": 200,
    "left_samples": 2,
}
FEW = Policy(kernel_rows=(300, 300), layer_work=(1e8, 100, 100), **SHORT_SEARCH)  # many rows are many from 300 on


def numbers(n=1000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) + np.arange(d)
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)


def mixed(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    city = rng.choice([f"city {k}" for k in range(12)], n).astype(object)
    frame = pd.DataFrame(
        {
            "x": rng.standard_normal(n),
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.uniform(0, 2, n)),
            "city": np.where(rng.random(n) < 0.05, None, city),
            "kind": pd.Categorical(rng.choice(["a", "b", "c"], n)),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
        }
    )
    effect = pd.Series(city).str.slice(5).astype(float).to_numpy() / 5
    y = np.sin(2 * frame["x"]) + frame["size"].fillna(3) + effect + 0.1 * rng.standard_normal(n)
    return frame, y.to_numpy()


def write(path, frame, y, rows=250, **more):
    pq.write_table(pa.Table.from_pandas(frame.assign(y=y, **more), preserve_index=False), path, row_group_size=rows)
    return path
