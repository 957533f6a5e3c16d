"""sigma_y(x) as operations, for fits of one layer: from the leverages of its smoothers.

A triangular solve with the factor L is a product with its inverse, which is stored: for at most `LARGEST` rows or
features.
"""

from functools import singledispatch
from typing import Any

import numpy as np
from scipy.linalg import lapack

from .._types import Array
from ..model.prior import Prior
from ..model.sum_kernel import SumKernel
from ..solve.smoother import Dual, Primal
from ..solve.stack import StackUncertainty
from ..solve.tangent import Flat, InnerProducts, Tangent
from ..solve.uncertainty import RidgeUncertainty
from .graph import Graph
from .machines import first_features, last_inputs, machine_output
from .piecewise import link_deviation, on_ranks

LARGEST = 2000  # rows or features of a factor: 32 MB


def sigma(graph: Graph, model: Any, Z: str) -> str:
    """Add sigma_y at every standardised row, (n, k), in the units of y."""
    return graph("Mul", _std(model.fitted_.known(), graph, Z), model.y_scaler_.sd)


@singledispatch
def _std(uncertainty: Any, graph: Graph, Z: str) -> str:
    """Add sigma_y at every standardised row, (n, k)."""
    raise TypeError(f"The variance of {type(uncertainty).__name__} is not exported.")


@_std.register
def _of_stack(uncertainty: StackUncertainty, graph: Graph, Z: str) -> str:
    noise: Any = uncertainty.noise
    if (warped := uncertainty.warped) is not None:
        f = machine_output(graph, uncertainty.machines[1], Z, double=True)
        spread = graph("Min", link_deviation(graph, f, warped.link), uncertainty.facts.reach)
        relative = graph("Div", graph("Add", graph("Mul", spread, spread), np.array(1e-300)), uncertainty.spread)
        v = warped.noise_share
        noise = graph("Mul", graph("Add", graph("Mul", relative, np.array(v)), np.array(1 - v)), noise)
    smoother = uncertainty.smoother
    _check_size(len(smoother.X))
    k, diagonal = _kernel(graph, uncertainty.kernel, smoother.X, Z)
    leverage = _dual_leverage(graph, smoother, k, diagonal)
    return graph("Sqrt", graph("Add", graph("Mul", leverage, uncertainty.fit_variance), noise))


@_std.register
def _of_ridge(uncertainty: RidgeUncertainty, graph: Graph, Z: str) -> str:
    """Add sqrt(max(sigma^2 (leverage + 1), least)), the leverage being the average over machines."""
    if uncertainty.sums and uncertainty.prior is None:
        raise ValueError(
            "The variance of a fit to rows in pieces is not exported where it has hidden layers; take"
            " score='absolute', 'residual' or 'quantile'."
        )
    machine = uncertainty.machines[0]
    if machine.depth > 1:
        raise _not_exported()
    first = first_features(graph, machine, Z)
    F = last_inputs(graph, machine, Z, first, first)
    leverages = [_leverage(smoother, graph, F) for (smoother,) in uncertainty.smoothers]
    leverage = graph("Div", graph.total(leverages), np.array(float(len(leverages))))
    squared = graph("Mul", graph("Add", leverage, np.array(1.0)), uncertainty.noise)
    return graph("Sqrt", graph("Max", squared, uncertainty.least))


@singledispatch
def _leverage(smoother: Any, graph: Graph, F: str) -> str:
    """Add the leverage, (n, 1), at rows whose last layer has the inputs F."""
    raise TypeError(f"The leverage of {type(smoother).__name__} is not exported.")


@_leverage.register
def _of_primal(smoother: Primal, graph: Graph, F: str) -> str:
    """Add (|R (F(x) - mean)|^2 + 1) / n."""
    R, sums = smoother.R, smoother.sums
    _check_size(len(R))
    z = graph("Sub", graph("MatMul", F, _folded(smoother.features, R).T), R @ sums.f_mean)
    return graph("Div", graph("Add", graph.row_sums(graph("Mul", z, z)), np.array(1.0)), np.array(sums.weight))


@_leverage.register
def _of_dual(smoother: Dual, graph: Graph, F: str) -> str:
    assert isinstance(smoother.kernel, InnerProducts)
    features = smoother.kernel.features
    _check_size(max(len(smoother.X), features.n_features))
    H = graph("MatMul", F, _folded(features, np.eye(features.n_features)).T)
    k = graph("MatMul", H, features.rows_of_features(smoother.X).T)
    return _dual_leverage(graph, smoother, k, graph.row_sums(graph("Mul", H, H)))


def _dual_leverage(graph: Graph, smoother: Dual, k: str, diagonal: str) -> str:
    """Add (max(k(x, x) - |L^{-1} k|^2, 0) + (1 - 1'C k)^2 / 1'C 1) / noise, (n, 1)."""
    z = graph("MatMul", k, np.asarray(lapack.dtrtri(smoother.L, lower=1)[0]).T)
    left = graph("Max", graph("Sub", diagonal, graph.row_sums(graph("Mul", z, z))), np.array(0.0))
    missing = graph("Sub", np.array(1.0), graph("MatMul", k, smoother.total[:, None]))
    posterior = graph("Add", left, graph("Div", graph("Mul", missing, missing), smoother.total.sum()))
    return graph("Div", posterior, np.array(smoother.noise))


def _folded(features: Any, B: Array) -> Array:
    """Return B (m, D) for features as a matrix for the inputs of the last layer."""
    if isinstance(features, Flat):
        return _folded(features.features, B)
    if isinstance(features, Prior):
        return features.scaled(B, transposed=True)
    if isinstance(features, Tangent):  # of one layer: the inputs themselves
        return B
    raise _not_exported()


def _not_exported() -> ValueError:
    return ValueError(
        f"The variance of hidden layers, or of more than {LARGEST} features and rows, is not exported; take"
        " score='absolute', 'residual' or 'quantile'."
    )


def _kernel(graph: Graph, kernel: SumKernel, X: Array, Z: str) -> tuple[str, str]:
    """K between rows Z and the rows X of the fit, (n, m), and K(x, x), (n, 1)."""
    matrices, diagonals, constant = [], [], 0.0
    for term in kernel.terms:
        F = term.at(X, np.float64).graph(graph, on_ranks(graph, Z, term.ranks), double=True)
        if term.phi.is_product:
            at_rows = term.phi.features(term.seen(X))
            matrices.append(graph("MatMul", F, term.variance * at_rows.T))
            diagonals.append(graph("Mul", graph.row_sums(graph("Mul", F, F)), np.array(term.variance)))
        else:
            matrices.append(graph("Mul", F, np.array(term.variance)))
            constant += term.variance * float(term.diagonal(X))
    if kernel.linear is not None:
        scaled = graph("Mul", Z, kernel.linear)
        matrices.append(graph("MatMul", scaled, (X * kernel.linear).T))
        diagonals.append(graph.row_sums(graph("Mul", scaled, scaled)))
    k = graph.total(matrices)
    own = graph("Mul", graph.row_sums(k), np.array(0.0)) if not diagonals else graph.total(diagonals)
    return k, graph("Add", own, np.array(constant))


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise ValueError(
            f"sigma_y(x) is exported up to {LARGEST} training rows or features, since a square table of them is stored;"
            f" this fit has {size}: take score='absolute', 'residual' or 'quantile'."
        )
