"""The kernels of the default. A new one is a file with its map and its term of the search, and a line in
`search.policy.default_terms`."""

from .gaussian import GaussianMap, GaussianTerm
from .laplace import Laplace, LaplaceMap
from .main_effects import Additive, LevelMap, Levels, Linear, LinearMap
from .term import Parameter, Parameters, Placement, Prepared, ProductKernelMap, SearchRows, SearchTerm, Term, Values

__all__ = [
    "Additive",
    "GaussianMap",
    "GaussianTerm",
    "Laplace",
    "LaplaceMap",
    "LevelMap",
    "Levels",
    "Linear",
    "LinearMap",
    "Parameter",
    "Parameters",
    "Placement",
    "Prepared",
    "ProductKernelMap",
    "SearchRows",
    "SearchTerm",
    "Term",
    "Values",
]
