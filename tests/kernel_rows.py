"""Rows and a kernel for them, for tests of kernels and of their solves."""

import numpy as np

from mlkm.data import plain_rows
from mlkm.model.transforms import fit_rank_transform
from mlkm.search.evidence import refined, start, sum_kernel
from mlkm.search.policy import default_terms
from mlkm.search.terms import Placement, SearchRows

TERMS = default_terms(4)


def kernel_and_rows(n=60, d=3, seed=0, outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    Y = np.stack([np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n) for _ in range(outputs)], axis=1)
    rows = plain_rows(X, Y, rng.uniform(0.5, 2, n))
    ranks = fit_rank_transform(X, np.ones(n))
    p = moved(refined(start(searched(rows), TERMS), TERMS), rng)
    return sum_kernel(p, Placement(rows.inputs, np.arange(d), ranks), TERMS), rows


def moved(p, rng, size=0.2):
    """Parameters somewhere near these."""
    return {
        term: {name: value + size * rng.standard_normal(value.shape) for name, value in own.items()}
        for term, own in p.items()
    }


def searched(rows):
    """The same rows, all numbers, for a search."""
    ranks = fit_rank_transform(rows.X, rows.weights)
    return SearchRows(rows.X, ranks.forward(rows.X), rows.Y, rows.weights, np.zeros(rows.X.shape[1], bool))


def solved_exactly(K, Y):
    """alpha and the intercept of K alpha + a = Y with alpha summing to zero, K having the ridge on its diagonal."""
    ones = np.ones((len(K), 1))
    whole = np.block([[K, ones], [ones.T, np.zeros((1, 1))]])
    solved = np.linalg.solve(whole, np.vstack([Y, np.zeros((1, Y.shape[1]))]))
    return solved[:-1], solved[-1]
