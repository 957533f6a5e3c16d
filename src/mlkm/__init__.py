"""Multi-Layer Kernel Machines: nonparametric regression that needs no tuning.

>>> from mlkm import MLKMRegressor
>>> from mlkm.datasets import make_example1
>>> X, y, f = make_example1(n=200, d=4, random_state=0)
>>> MLKMRegressor(random_state=0).fit(X, y).predict(X).shape
(200,)
"""

from . import datasets, kernels, metrics, solvers
from .conformal import ConformalRegressor, OnlineConformal
from .estimators import MLKMRegressor, RandomFeatureRidge, RKMRegressor
from .model.scales import Geometric
from .onnx import to_onnx
from .random_features import RandomFeatures

__version__ = "0.1.0"
__all__ = [
    "ConformalRegressor",
    "Geometric",
    "MLKMRegressor",
    "OnlineConformal",
    "RKMRegressor",
    "RandomFeatureRidge",
    "RandomFeatures",
    "datasets",
    "kernels",
    "metrics",
    "solvers",
    "to_onnx",
]
