"""Split conformal bands as operations: mean, lower and upper end at the levels of the constructor.

[lower(x) - q u(x), upper(x) + q u(x)]: q is a constant of the calibration rows, and the rest is what the score says.
"""

from typing import Any

import numpy as np

from ..conformal.bands import Request, SplitBand
from ..conformal.quantile import QuantileBand
from ..conformal.regressor import ConformalRegressor, band_of
from ..conformal.scores import ScoredRegressor
from ..conformal.wrapped_estimator import last_step
from ..model.features import FeatureMap
from ..runtime.checks import brief
from ..runtime.levels import exact_levels
from .graph import Graph
from .regressors import regressor_mean, standard_inputs
from .sigma import sigma
from .table import Source, level_numbers, standardised


def band_ends(band: ConformalRegressor, source: Source, double: bool) -> tuple[str, str, str, tuple[int, int]]:
    """The mean (n, k), both ends (n, levels, k), and how many levels and outputs there are."""
    graph, split = source.graph, _checked(band)
    request = Request(exact_levels(band.confidence_level))
    q = split.thresholds(request, 1)  # (1, levels, k)
    f, lower, upper, unit = _base(split.scored, source, double)
    reach = graph("Mul", q, graph("Unsqueeze", unit, np.array([1])))
    low = graph("Sub", graph("Unsqueeze", lower, np.array([1])), reach)
    high = graph("Add", graph("Unsqueeze", upper, np.array([1])), reach)
    empty = graph("Greater", low, high)
    middle = graph("Div", graph("Add", low, high), np.array(2.0))
    _, levels, k = q.shape
    return f, graph("Where", empty, middle, low), graph("Where", empty, middle, high), (levels, k)


def _checked(band: ConformalRegressor) -> SplitBand:
    split = band_of(band)
    if not isinstance(split, SplitBand):
        raise ValueError(
            f"A band is exported for method='split', where the interval is a function of x alone; got method="
            f"{brief(band.method)}."
        )
    if split.scores.labels is not None:
        raise ValueError(
            "A band that was calibrated by groups is not exported, since its interval needs the group of every row;"
            " calibrate without groups."
        )
    return split


def _base(scored: ScoredRegressor, source: Source, double: bool) -> tuple[str, str, str, str]:
    """f, lower, upper and the unit u, each (n, k)."""
    graph, last = source.graph, last_step(scored.model)
    f = regressor_mean(last, source, double)
    if scored.score == "variance":
        machine = _own(last)
        unit = sigma(graph, machine, standard_inputs(machine, source))
        return f, f, f, graph("Max", unit, np.asarray(scored.least, np.float64))
    if scored.spread is not None:
        unit = regressor_mean(scored.spread, source, double)
        return f, f, f, graph("Max", unit, np.asarray(scored.least, np.float64))
    scale = graph("Add", graph("Mul", f, np.array(0.0)), np.asarray(1.0 if scored.scale is None else scored.scale))
    if scored.band is None:
        return f, f, f, scale
    return f, *_quantiles(scored.band, source), scale


def _own(last: Any) -> Any:
    if not hasattr(last, "fitted_"):
        raise ValueError(
            f"score='variance' is exported for regressors of mlkm; got {type(last).__name__}: take score='absolute'."
        )
    return last


def _quantiles(band: QuantileBand, source: Source) -> tuple[str, str]:
    """Both quantiles; where they cross, they change places."""
    graph = source.graph
    X = level_numbers(graph, source.inputs(band.encoder.reader_), band.levels)
    F = _inputs_and_features(graph, band.phi, standardised(graph, X, band.x_scaler))
    a, b = (graph("Add", graph("MatMul", F, W[1:]), W[0]) for W in (band.lower, band.upper))
    return graph("Min", a, b), graph("Max", a, b)


def _inputs_and_features(graph: Graph, phi: FeatureMap, Z: str) -> str:
    return graph.side_by_side([Z, phi.graph(graph, Z, True)])
