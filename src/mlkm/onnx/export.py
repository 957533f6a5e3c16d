"""The export of a fitted estimator to a model of the package onnx: its mean, and a split conformal band.

A band is [lower(x) - q u(x), upper(x) + q u(x)]: q is a constant of the calibration rows, and the score says what the
other terms are. sigma_y(x) comes from the leverages of smoothers. A triangular solve with a factor L is a product with
its inverse, which is stored: for at most `EXPORTED_SIDE` rows or features.
"""

from functools import singledispatch
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._types import Array
from ..base import KernelMachine
from ..conformal.bands import Band, Request, SplitBand
from ..conformal.quantile import QuantileBand
from ..conformal.regressor import ConformalRegressor
from ..conformal.scores import ScoredRegressor
from ..model.machine import Features
from ..model.prior import Prior
from ..model.sum_kernel import SumKernel
from ..runtime.atomic import atomic_write
from ..runtime.checks import brief, file_path, one_of
from ..runtime.confidence import exact_levels
from ..runtime.sizes import EXPORTED_SIDE
from ..solve.smoother import Dual, Primal, Smoother, SmootherKernel
from ..solve.stack import StackUncertainty
from ..solve.tangent import Flat, InnerProducts, Tangent
from ..solve.uncertainty import RidgeUncertainty, Uncertainty
from .graph import Graph
from .inputs import Source, level_numbers, standardised
from .machines import back_transformed, first_features, last_inputs, machine_output, on_ranks, standard_inputs
from .scikit_learn import output_of, through_steps

if TYPE_CHECKING:
    from onnx import ModelProto


def export(model: BaseEstimator, path: str | PathLike[str] | None, dtype: str) -> "ModelProto":
    """Return a fitted estimator as a model of onnx, and write it; see `mlkm.onnx.to_onnx`."""
    one_of("dtype", dtype, ("float32", "float64"))
    target = None if path is None else file_path("path", path)
    graph = Graph()
    _add_outputs(*through_steps(model, Source(graph, dtype)))
    result = graph.model()
    if target is not None:
        with atomic_write(target) as file:
            file.write(result.SerializeToString())
    return result


@singledispatch
def _add_outputs(model: BaseEstimator, source: Source) -> None:
    """Add the outputs of a fitted estimator to the graph, in the shapes that its methods return."""
    raise TypeError(
        "to_onnx exports MLKMRegressor, RKMRegressor, RandomFeatureRidge, ConformalRegressor and pipelines that end"
        f" with one of them; got {type(model).__name__}."
    )


@_add_outputs.register
def _add_mean(model: KernelMachine, source: Source) -> None:
    check_is_fitted(model)
    preparation = model.fitted_.preparation
    shape = () if preparation.single_output else (preparation.n_outputs,)
    source.graph.output("mean", output_of(model, source), source.dtype, shape)


@_add_outputs.register
def _add_band(model: ConformalRegressor, source: Source) -> None:
    """Add mean, lower and upper to the graph, without an axis of levels where a single one was asked for."""
    check_is_fitted(model, "estimator_")
    last, source = through_steps(model.estimator_, source)
    graph, band = source.graph, _split(model.band_, model)
    levels = exact_levels(model.confidence_level)
    f, *score = _score(band.scored, last, source)
    lower, upper, unit = (graph("Unsqueeze", tensor, [1]) for tensor in score)
    reach = graph("Mul", band.thresholds(Request(levels), 1), unit)
    centre = graph("Div", graph("Add", lower, upper), 2.0)
    low, high = graph("Min", graph("Sub", lower, reach), centre), graph("Max", graph("Add", upper, reach), centre)
    row = model.row_shape_
    shape = row if np.ndim(model.confidence_level) == 0 else (len(levels), *row)
    for name, tensor, at_row in (("mean", f, row), ("lower", low, shape), ("upper", high, shape)):
        graph.output(name, tensor, source.dtype, at_row)


@singledispatch
def _split(band: Band, regressor: ConformalRegressor) -> SplitBand:
    """Return a band that can be exported, or say why it cannot."""
    raise ValueError(
        f"A band is exported for method='split', where the interval is a function of x alone; got method="
        f"{brief(regressor.method)}."
    )


@_split.register
def _without_groups(band: SplitBand, regressor: ConformalRegressor) -> SplitBand:
    """Return the band itself, or refuse one that was calibrated by groups."""
    if band.scores.labels is not None:
        raise ValueError(
            "A band that was calibrated by groups is not exported, since its interval needs the group of every row;"
            " calibrate without groups."
        )
    return band


def _score(scored: ScoredRegressor, last: BaseEstimator, source: Source) -> tuple[str, str, str, str]:
    """Return f, lower, upper and the unit u of a score, each (n, k), as `ScoredRegressor.predict` does."""
    graph, f = source.graph, output_of(last, source)
    if scored.score == "variance" or scored.spread is not None:
        unit = _sigma(last, source) if scored.spread is None else output_of(scored.spread, source)
        return f, f, f, graph("Max", unit, np.asarray(scored.least, np.float64))
    scale = graph("Add", graph("Mul", f, 0.0), np.asarray(1.0 if scored.scale is None else scored.scale))
    if scored.band is None:
        return f, f, f, scale
    return f, *_quantiles(scored.band, source), scale


def _quantiles(band: QuantileBand, source: Source) -> tuple[str, str]:
    """Return both quantiles; where they cross, they are exchanged."""
    graph = source.graph
    X = level_numbers(graph, source.inputs(band.encoder.reader_), band.levels)
    Z = standardised(graph, X, band.x_scaler)
    F = graph.side_by_side([Z, band.phi.graph(graph, Z, True)])
    a, b = (graph("Add", graph("MatMul", F, W[1:]), W[0]) for W in (band.lower, band.upper))
    return graph("Min", a, b), graph("Max", a, b)


@singledispatch
def _sigma(model: BaseEstimator, source: Source) -> str:
    """Return sigma_y at every row, (n, k), in units of y."""
    raise ValueError(
        f"score='variance' is exported for regressors of mlkm; got {type(model).__name__}: take score='absolute'."
    )


@_sigma.register
def _sigma_of_machine(model: KernelMachine, source: Source) -> str:
    Z = standard_inputs(model.fitted_.preparation, source)
    std = _std(model.fitted_.known(), source.graph, Z)
    return source.graph("Mul", std, model.y_scaler_.sd)


@singledispatch
def _std(uncertainty: Uncertainty, graph: Graph, Z: str) -> str:
    """Return sigma_y at every standardised row, (n, k)."""
    raise TypeError(f"The variance of {type(uncertainty).__name__} is not exported.")


@_std.register
def _std_of_stack(uncertainty: StackUncertainty, graph: Graph, Z: str) -> str:
    """Return sqrt(leverage x variance of the fit + noise), the noise following the transformed scale of targets where
    there is one."""
    noise: Array | str = uncertainty.noise
    if (transformed := uncertainty.transformed) is not None:
        f, back = machine_output(graph, uncertainty.machines[1], Z, double=True), transformed.back_transform
        spread = graph("Min", back_transformed(graph, f, back.knots, back.deviations), uncertainty.facts.reach)
        relative = graph("Div", graph("Add", graph("Mul", spread, spread), 1e-300), uncertainty.spread)
        v = float(transformed.noise_share)
        noise = graph("Mul", graph("Add", graph("Mul", relative, v), 1 - v), noise)
    leverage = _leverage(uncertainty.smoother, graph, Z)
    return graph("Sqrt", graph("Add", graph("Mul", leverage, uncertainty.fit_variance), noise))


@_std.register
def _std_of_ridge(uncertainty: RidgeUncertainty, graph: Graph, Z: str) -> str:
    """Return sqrt(max(sigma^2 (leverage + 1), least)), the leverage being the average over machines."""
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
    leverage = graph("Div", graph.total(leverages), float(len(leverages)))
    squared = graph("Mul", graph("Add", leverage, 1.0), uncertainty.noise)
    return graph("Sqrt", graph("Max", squared, uncertainty.least))


@singledispatch
def _leverage(smoother: Smoother, graph: Graph, F: str) -> str:
    """Return the leverage, (n, 1), at rows F: the inputs of the last layer, or of the kernel of a stack."""
    raise TypeError(f"The leverage of {type(smoother).__name__} is not exported.")


@_leverage.register
def _primal_leverage(smoother: Primal, graph: Graph, F: str) -> str:
    """Return (|R (F(x) - mean)|^2 + 1) / n."""
    R, sums = smoother.R, smoother.sums
    _check_size(len(R))
    z = graph("Sub", graph("MatMul", F, _folded(smoother.features, R).T), R @ sums.f_mean)
    return graph("Div", graph("Add", graph.squared_norms(z), 1.0), float(sums.weight))


@_leverage.register
def _dual_leverage(smoother: Dual, graph: Graph, F: str) -> str:
    """Return (max(k(x, x) - |L^{-1} k|^2, 0) + (1 - 1'C k)^2 / 1'C 1) / noise."""
    _check_size(len(smoother.X))
    k, diagonal = _kernel(smoother.kernel, graph, smoother.X, F)
    z = graph("MatMul", k, np.asarray(lapack.dtrtri(smoother.L, lower=1)[0]).T)
    left = graph("Max", graph("Sub", diagonal, graph.squared_norms(z)), 0.0)
    missing = graph("Sub", 1.0, graph("MatMul", k, smoother.total[:, None]))
    posterior = graph("Add", left, graph("Div", graph("Mul", missing, missing), smoother.total.sum()))
    return graph("Div", posterior, float(smoother.noise))


@singledispatch
def _kernel(kernel: SmootherKernel, graph: Graph, X: Array, F: str) -> tuple[str, str]:
    """Return K between rows F and the m rows X of the fit, (n, m), and K(x, x), (n, 1)."""
    raise TypeError(f"The kernel {type(kernel).__name__} is not exported.")


@_kernel.register
def _inner_products(kernel: InnerProducts, graph: Graph, X: Array, F: str) -> tuple[str, str]:
    features = kernel.features
    _check_size(features.n_features)
    H = graph("MatMul", F, _folded(features, np.eye(features.n_features)).T)
    return graph("MatMul", H, features.rows_of_features(X).T), graph.squared_norms(H)


@_kernel.register
def _sum_of_terms(kernel: SumKernel, graph: Graph, X: Array, F: str) -> tuple[str, str]:
    """Add a sum of kernels between the rows F and the points X to the graph, and return it with its diagonal at F."""
    matrices, diagonals, constant = [], [], 0.0
    for term in kernel.terms:
        at_rows = term.at(X, np.float64).graph(graph, on_ranks(graph, F, term.ranks), double=True)
        if term.phi.is_product:
            matrices.append(graph("MatMul", at_rows, term.variance * term.phi.features(term.seen(X)).T))
            diagonals.append(graph("Mul", graph.squared_norms(at_rows), float(term.variance)))
        else:
            matrices.append(graph("Mul", at_rows, float(term.variance)))
            constant += term.variance * float(term.diagonal(X))
    if kernel.linear is not None:
        scaled = graph("Mul", F, kernel.linear)
        matrices.append(graph("MatMul", scaled, (X * kernel.linear).T))
        diagonals.append(graph.squared_norms(scaled))
    k = graph.total(matrices)
    diagonal = graph.total(diagonals) if diagonals else graph("Mul", graph.row_sums(k), 0.0)
    return k, graph("Add", diagonal, constant)


@singledispatch
def _folded(features: Features, B: Array) -> Array:
    """Return B (m, D) for features as a matrix for the inputs of the last layer."""
    raise _not_exported()


@_folded.register
def _folded_flat(features: Flat, B: Array) -> Array:
    return _folded(features.features, B)


@_folded.register
def _folded_prior(features: Prior, B: Array) -> Array:
    return features.scaled(B, transposed=True)


@_folded.register
def _folded_tangent(features: Tangent, B: Array) -> Array:
    return B  # of one layer: the inputs themselves


def _not_exported() -> ValueError:
    return ValueError(
        f"The variance of hidden layers, or of more than {EXPORTED_SIDE} features and rows, is not exported; take"
        " score='absolute', 'residual' or 'quantile'."
    )


def _check_size(size: int) -> None:
    """Refuse a factor that would be too large to store."""
    if size > EXPORTED_SIDE:
        raise ValueError(
            f"sigma_y(x) is exported up to {EXPORTED_SIDE} training rows or features, since a square table of them is"
            f" stored; this fit has {size}: take score='absolute', 'residual' or 'quantile'."
        )
