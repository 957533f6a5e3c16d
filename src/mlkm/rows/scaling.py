"""Inputs and targets are standardised inside every estimator, so that scales, penalties and learning rates mean the
same on all data."""

from dataclasses import dataclass

import numpy as np

from .._types import Array


@dataclass(frozen=True)
class Standardiser:
    """z = (x - mean) / sd, column by column; a constant column is only centred, or zero whatever comes later where its
    sd is infinite."""

    mean: Array
    sd: Array

    def forward(self, X: Array) -> Array:
        return (X - self.mean) / self.sd

    def backward(self, Z: Array) -> Array:
        return Z * self.sd + self.mean


def standardiser(X: Array, weights: Array, constant: float = 1.0) -> Standardiser:
    """Weighted mean and standard deviation of each column; `weights` average to one. Constant columns get the sd
    `constant`."""
    X = np.asarray(X, np.float64)
    mean = weights @ X / len(X)
    sd = np.sqrt(weights @ (X - mean) ** 2 / len(X))
    # A column that varies by rounding error only is constant.
    return Standardiser(mean, np.where(sd > 1e-12 * np.maximum(1e-300, np.abs(mean)), sd, constant))
