"""Multi-Layer Kernel Machines: nonparametric regression that needs no tuning.

>>> from mlkm import MLKMRegressor
>>> from mlkm.datasets import make_example1
>>> X, y, f = make_example1(n=200, d=4, random_state=0)
>>> MLKMRegressor(random_state=0).fit(X, y).predict(X).shape
(200,)
"""

from . import datasets, exceptions, kernels, metrics, solvers
from ._config import config_context
from ._progress import Event
from ._version import __version__
from .conformal import ConformalRegressor, OnlineConformal
from .estimators import MLKMRegressor, RandomFeatureRidge, RKMRegressor
from .incremental import merge
from .model.scales import Geometric
from .onnx import to_onnx
from .persistence import load, save
from .random_features import RandomFeatures
from .sources.files import open_table
from .sources.output import predict_table

__all__ = [
    "ConformalRegressor",
    "Event",
    "Geometric",
    "MLKMRegressor",
    "OnlineConformal",
    "RKMRegressor",
    "RandomFeatureRidge",
    "RandomFeatures",
    "__version__",
    "config_context",
    "datasets",
    "exceptions",
    "kernels",
    "load",
    "merge",
    "metrics",
    "open_table",
    "predict_table",
    "save",
    "solvers",
    "to_onnx",
]
