"""Clusters, rows and models of the tests of dask collections."""

import dask.array as da
import distributed
import numpy as np
from sklearn.base import clone
from source_rows import FEW

from mlkm import RandomFeatureRidge
from mlkm.search.policy import policy_context

GIVEN = RandomFeatureRidge(40, scale=0.5, penalty=1e-6, random_state=0)
N = 40_000  # three pieces of 16,384 rows


def start(n_workers, processes=True):
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=processes, dashboard_address=":0", silence_logs="CRITICAL"
    )


def collections(X, y, rows=7000, y_rows=11_000):
    """As arrays of dask, whose chunks of rows are not the same."""
    return da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=y_rows)


def fitted(model, *rows, **settings):
    with policy_context(FEW):
        return clone(model).fit(*rows, **settings)


def equal(result, expected, tolerance=1e-8):
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
