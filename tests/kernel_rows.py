"""Rows and a kernel for them, for tests of kernels and of their solves."""

import numpy as np

from mlkm.data import plain_rows
from mlkm.model.rank_transform import fit_warp
from mlkm.search import kernel_parameters as joint


def kernel_and_rows(n=60, d=3, seed=0, outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    Y = np.stack([np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n) for _ in range(outputs)], axis=1)
    rows = plain_rows(X, Y, rng.uniform(0.5, 2, n))
    p = joint.turned(joint.start(d, linear=True))
    p = {name: value + 0.2 * rng.standard_normal(value.shape) for name, value in p.items()}
    return joint.sum_kernel(p, fit_warp(X, np.ones(n)), np.arange(d), rows.inputs, 4), rows


def solved_exactly(K, Y):
    """alpha and the intercept of K alpha + a = Y with alpha summing to zero, K having the ridge on its diagonal."""
    ones = np.ones((len(K), 1))
    whole = np.block([[K, ones], [ones.T, np.zeros((1, 1))]])
    solved = np.linalg.solve(whole, np.vstack([Y, np.zeros((1, Y.shape[1]))]))
    return solved[:-1], solved[-1]
