"""Multi-Layer Kernel Machines: nonparametric regression that needs no tuning.

>>> from mlkm import MLKMRegressor
>>> from mlkm.datasets import make_example1
>>> X, y, f = make_example1(n=200, d=4, random_state=0)
>>> MLKMRegressor(random_state=0).fit(X, y).predict(X).shape
(200,)
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    from . import datasets, exceptions, kernels, metrics, solvers
    from . import onnx as onnx
    from . import plotting as plotting
    from . import tables as tables
    from .conformal import ConformalRegressor, OnlineConformal
    from .data.table_files import open_table
    from .estimators import MLKMRegressor, RandomFeatureRidge, RKMRegressor
    from .files import load, save
    from .fit.apply import predict_table
    from .incremental import merge
    from .model.scales import Geometric
    from .onnx import to_onnx
    from .random_features import RandomFeatures
    from .runtime.progress import Event
    from .runtime.resources import config_context

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

_ROOMS = ("onnx", "plotting", "tables")  # beside those above, which need no other packages
_HOMES = {
    "ConformalRegressor": "conformal",
    "Event": "runtime.progress",
    "Geometric": "model.scales",
    "MLKMRegressor": "estimators",
    "OnlineConformal": "conformal",
    "RKMRegressor": "estimators",
    "RandomFeatureRidge": "estimators",
    "RandomFeatures": "random_features",
    "config_context": "runtime.resources",
    "load": "files",
    "merge": "incremental",
    "open_table": "data.table_files",
    "predict_table": "fit.apply",
    "save": "files",
    "to_onnx": "onnx",
}


if not TYPE_CHECKING:  # a checker would take any name for one of the package

    def __getattr__(name: str) -> object:
        """Return a name or a room, which is imported when it is first asked for: `import mlkm` alone takes no time."""
        if name in _HOMES:
            found = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        elif name.isidentifier() and not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
            found = import_module(f".{name}", __name__)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS, *(name for name in globals() if name.startswith("__"))})
