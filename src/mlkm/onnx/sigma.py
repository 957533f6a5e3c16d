"""sigma_y(x) as operations, for fits of one layer: the posterior variance of the kernels, or leverages of features.

A triangular solve with the factor L is a product with its inverse, which is stored: so many rows or features are
exported and no more.
"""

from typing import Any

import numpy as np
from scipy.linalg import lapack

from .._types import Array
from ..model.machine import Machine
from ..model.prior import Prior
from ..model.sum_kernel import SumKernel
from ..variance import StackVariance, SummedVariance, Variance
from ..variance.sides import Dual, Primal
from .graph import Graph
from .machines import first_features, last_inputs, machine_output
from .piecewise import link_deviation, on_ranks

LARGEST = 2000  # rows or features of a factor: 32 MB


def sigma(graph: Graph, model: Any, Z: str) -> str:
    """sigma_y at every standardised row, (n, k), in the units of y."""
    variance = model._sigma()
    if isinstance(variance, StackVariance):
        std = _of_stack(graph, variance, Z)
    elif isinstance(variance, Variance):
        std = _of_layer(graph, variance, Z)
    elif isinstance(variance, SummedVariance) and isinstance(variance.fit.prior, Prior):
        std = _of_sums(graph, variance, variance.fit.prior, Z)
    else:
        raise ValueError(
            "The variance of a fit to rows in pieces is not exported where it has hidden layers; take"
            " score='absolute', 'residual' or 'quantile'."
        )
    return graph("Mul", std, model.y_scaler_.sd)


def _of_stack(graph: Graph, variance: StackVariance, Z: str) -> str:
    noise: Any = variance.noise
    if (warped := variance.fit.warped) is not None:
        f = machine_output(graph, variance.machines[1], Z, double=True)
        spread = graph("Min", link_deviation(graph, f, warped.link), variance.facts.reach)
        relative = graph("Div", graph("Add", graph("Mul", spread, spread), np.array(1e-300)), variance.spread)
        v = warped.noise_share
        noise = graph("Mul", graph("Add", graph("Mul", relative, np.array(v)), np.array(1 - v)), noise)
    of_fit = graph("Mul", _posterior(graph, variance, Z), variance.of_fit / (variance.unit * variance.usual))
    return graph("Sqrt", graph("Add", of_fit, noise))


def _posterior(graph: Graph, variance: StackVariance, Z: str) -> str:
    """max(k(x, x) - |L^{-1} k|^2, 0) + (1 - 1'C k)^2 / 1'C 1, (n, 1)."""
    smoother = variance.kernel
    _check_size(len(smoother.X))
    k, own = _kernel(graph, smoother.kernel, smoother.X, Z)
    z = graph("MatMul", k, _inverse(smoother.L).T)
    left = graph("Max", graph("Sub", own, graph.row_sums(graph("Mul", z, z))), np.array(0.0))
    missing = graph("Sub", np.array(1.0), graph("MatMul", k, smoother.total[:, None]))
    return graph("Add", left, graph("Div", graph("Mul", missing, missing), smoother.total.sum()))


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


def _of_layer(graph: Graph, variance: Variance, Z: str) -> str:
    """sqrt(max(sigma^2 (leverage + 1), least)), the leverage being the average over machines."""
    leverages = []
    for of_machine in variance.sides:
        for side in of_machine:
            machine = getattr(side.gradients, "machine", None)
            if machine is None or machine.depth > 1:
                raise ValueError(
                    f"The variance of hidden layers, or of more than {LARGEST} features and rows, is not exported; take"
                    " score='absolute', 'residual' or 'quantile'."
                )
            F = _last_inputs(graph, machine, Z)
            leverages.append(_primal(graph, side, F) if isinstance(side, Primal) else _dual(graph, side, F))
    leverage = graph("Div", graph.total(leverages), np.array(float(len(leverages))))
    squared = graph("Mul", graph("Add", leverage, np.array(1.0)), variance.noise)
    return graph("Sqrt", graph("Max", squared, variance.least))


def _of_sums(graph: Graph, variance: SummedVariance, prior: Prior, Z: str) -> str:
    """sqrt(sigma^2 (leverage + 1)), the leverage being (|L^{-1} (T'F - mean)|^2 + 1) / n with T the prior's factors."""
    inverse, sums = variance.inverse, variance.fit.sums
    _check_size(len(inverse))
    F = _last_inputs(graph, variance.machines[0], Z)
    z = graph("Sub", graph("MatMul", F, prior.scaled(inverse, transposed=True).T), inverse @ sums.f_mean)
    leverage = graph("Div", graph("Add", graph.row_sums(graph("Mul", z, z)), np.array(1.0)), np.array(sums.weight))
    return graph("Sqrt", graph("Mul", graph("Add", leverage, np.array(1.0)), variance.noise))


def _last_inputs(graph: Graph, machine: Machine, Z: str) -> str:
    first = first_features(graph, machine, Z)
    return last_inputs(graph, machine, Z, first, first)


def _primal(graph: Graph, side: Primal, F: str) -> str:
    """|M (g - mean)|^2 + 1/N."""
    _check_size(len(side.M))
    z = graph("MatMul", graph("Sub", F, side.mean), np.asarray(side.M, np.float64).T)
    return graph("Add", graph.row_sums(graph("Mul", z, z)), np.array(1 / side.n))


def _dual(graph: Graph, side: Dual, F: str) -> str:
    """(k(x, x) - |L^{-1} k(x)|^2 + 1) / N, of gradients less their mean."""
    _check_size(max(len(side.L), side.gradients.n_parameters))
    H = graph("MatMul", F, side.gradients.scaled(np.eye(side.gradients.n_parameters)))
    k = graph("MatMul", H, side.pairs[0][0].T)
    to_mean, within = graph("MatMul", k, side.shares[:, None]), float(side.shares @ side.means)
    own = graph("Add", graph("Sub", graph.row_sums(graph("Mul", H, H)), graph("Mul", to_mean, np.array(2.0))), within)
    centred = graph("Sub", graph("Sub", k, to_mean), side.means - within)
    z = graph("MatMul", centred, _inverse(side.L).T)
    left = graph("Max", graph("Sub", own, graph.row_sums(graph("Mul", z, z))), np.array(0.0))
    return graph("Div", graph("Add", left, np.array(1.0)), np.array(side.n))


def _inverse(L: Array) -> Array:
    return np.asarray(lapack.dtrtri(L, lower=1)[0])


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise ValueError(
            f"sigma_y(x) is exported up to {LARGEST} training rows or features, since a square table of them is stored;"
            f" this fit has {size}: take score='absolute', 'residual' or 'quantile'."
        )
