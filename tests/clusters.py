"""Clusters, rows and models of the tests of dask collections."""

import dask.array as da
import distributed
import numpy as np
import pandas as pd
from sklearn.base import clone

from mlkm import RandomFeatureRidge
from mlkm.auto.policy import Policy, policy_context

FEW = Policy(kernel_rows=(300, 300), layer_work=(1e8, 100, 100))  # many rows are many from 300 on
GIVEN = RandomFeatureRidge(40, scale=0.5, penalty=1e-6, random_state=0)
N = 40_000  # three pieces of 16,384 rows


def start(n_workers, processes=True):
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=processes, dashboard_address=":0", silence_logs="CRITICAL"
    )


def numbers(n=N, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) + np.arange(d)
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)


def mixed(n=800, seed=0):
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


def collections(X, y, rows=7000, y_rows=11_000):
    """As arrays of dask, whose chunks of rows are not the same."""
    return da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=y_rows)


def fitted(model, *rows, **settings):
    with policy_context(FEW):
        return clone(model).fit(*rows, **settings)


def equal(result, expected, tolerance=1e-8):
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
