"""The kernels of the default, one file each. A new one is a file with its map and its term of the search, and a line in
`default_terms`."""

from .additive import Additive
from .base import Parameter, Parameters, Placement, Prepared, ProductKernelMap, SearchRows, SearchTerm, Term, Values
from .gaussian import Gaussian, GaussianMap
from .laplace import Laplace, LaplaceMap
from .levels import LevelMap, Levels
from .linear import Linear, LinearMap

__all__ = [
    "Additive",
    "Gaussian",
    "GaussianMap",
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
    "default_terms",
]


def default_terms(n_frequencies: int) -> tuple[SearchTerm, ...]:
    """Return the terms that the default's search learns, in the order of their sum."""
    return (
        Additive(n_frequencies),
        Gaussian(),
        Laplace(),
        Levels(),
        Linear(),
    )
