"""The kernels of the default, one file each. A new one is a file with its map and its term of the search, and a line in
`default_terms`."""

from .additive import Additive
from .gaussian import GaussianMap, GaussianTerm
from .laplace import Laplace, LaplaceMap
from .level_effects import LevelMap, Levels
from .linear import Linear, LinearMap
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
    "default_terms",
]


def default_terms(n_frequencies: int) -> tuple[SearchTerm, ...]:
    """Return the terms that the default's search learns, in the order of their sum."""
    return (
        Additive(n_frequencies),
        GaussianTerm(),
        Laplace(),
        Levels(),
        Linear(),
    )
