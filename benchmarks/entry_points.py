"""Every public entry point with good arguments, for `benchmarks.bad_inputs` and `tests/test_bad_inputs.py`."""

from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any

import numpy as np

import mlkm
from mlkm import datasets, kernels, metrics, plotting
from mlkm import solve as solvers
from mlkm.data.tables import TableEncoder
from mlkm.onnx import feed

from .world import D, Entry, N, World, an_interval, fed, finite, no_nan, per_row, predicts


def entries(world: World) -> list[Entry]:
    """Every public entry point with good arguments."""
    return [
        *_data(world), *_parameters(world), *_fits(world), *_questions(world), *_bands(world), *_files(world),
        *_metrics(world), *_pictures(world), *_kernels(world),
    ]  # fmt: skip


def _data(world: World) -> list[Entry]:
    sizes, folder = {"n": 20, "d": 5, "noise": 1.0, "random_state": 0}, {"data_home": str(world.folder)}
    third = {**sizes, "function": "mix", "law": "normal", "coefficients": 0}

    def without_download(fetch: Callable[..., Any]) -> Callable[..., Any]:
        return lambda data_home: fetch(data_home=data_home, download_if_missing=False)

    return [
        Entry("make_example1", datasets.make_example1, {**sizes, "t": 1.0}, finite),
        Entry("make_example2", datasets.make_example2, {**sizes, "exponent": 1.0}, finite),
        Entry("make_example3", datasets.make_example3, third, finite),
        Entry("make_example4", datasets.make_example4, {**sizes, "n_active": 2}, finite),
        Entry("fetch_sml2010", without_download(datasets.fetch_sml2010), folder),
        Entry("fetch_year_prediction", without_download(datasets.fetch_year_prediction), folder),
    ]


def _parameters(world: World) -> list[Entry]:
    """Constructors, whose parameters are looked at by `fit`."""
    rows = {"X": world.X, "y": world.y}
    ridge = {
        "n_features": 20, "kernel": "gaussian", "scale": 1.0, "interactions": "full", "relevance": False,
        "linear": False, "penalty": 1e-3, "categorical_features": None, "verbose": 0, "random_state": 0,
    }  # fmt: skip
    layers = {
        "widths": (8,), "kernels": "gaussian", "scales": 1.0, "interactions": "full", "relevance": False,
        "linear": False, "penalty": 1e-3, "cv": None, "solver": "auto", "effort": "fast",
        "categorical_features": None, "n_jobs": None, "verbose": 0, "random_state": 0,
    }  # fmt: skip
    short = solvers.GradientDescent(max_iter=2)
    deep = {**layers, "widths": (8, 4), "solver": short}
    published = {
        "widths": (8, 4), "scales": 1.0, "kernels": "gaussian", "penalty": 1e-3, "cv": "rotate", "solver": short,
        "n_jobs": None, "random_state": 0,
    }  # fmt: skip
    band = {
        "estimator": world.unfitted(), "confidence_level": 0.8, "score": "auto", "method": "split",
        "calibration_size": 0.5, "cv": 5, "random_state": 0,
    }  # fmt: skip
    online = {
        "estimator": world.unfitted(), "confidence_level": 0.8, "score": "absolute", "method": "adaptive", "step": 0.05,
        "decay": 0.6, "window": 100, "calibration_size": 0.5, "random_state": 0,
    }  # fmt: skip
    features = {
        "n_features": 20, "kernel": "gaussian", "scale": 1.0, "interactions": "full", "sampling": "iid",
        "random_state": 0,
    }  # fmt: skip
    descent = {
        "learning_rate": 1e-3, "momentum": 0.9, "batch_size": 20, "max_iter": 3, "tol": 1e-4, "patience": 2,
        "steps": 1, "initial": 0.5, "target_sd": "auto",
    }  # fmt: skip
    projection = {
        "max_iter": 3, "max_rows": 50, "more_rows": 50, "more_iter": 2, "hidden_penalty": 1e-6, "sweeps": 2,
        "patience": 2, "tol": 1e-3,
    }  # fmt: skip

    def fitted(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda X, y, **given: make(**given).fit(X, y)

    def unsupervised(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda X, **given: make(**given).fit(X)

    def solved(solver: Any, **choices: Any) -> Callable[..., Any]:
        return fitted(lambda **given: mlkm.MLKMRegressor(solver=solver(**given), random_state=0, **choices))

    def scaled(**given: Any) -> Any:
        return mlkm.MLKMRegressor((8, 4), scales=mlkm.Geometric(**given), penalty=1e-3, solver=short, random_state=0)

    two, one = ({"widths": widths, "scales": 1.0, "penalty": 1e-3} for widths in ((8, 4), (8,)))
    return [
        Entry("RandomFeatureRidge", fitted(mlkm.RandomFeatureRidge), {**rows, **ridge}, predicts),
        Entry("MLKMRegressor", fitted(mlkm.MLKMRegressor), {**rows, **layers}, predicts),
        Entry("RKMRegressor", fitted(mlkm.RKMRegressor), {**rows, **deep}, predicts),
        Entry("MLKMRegressor.published", fitted(mlkm.MLKMRegressor.published), {**rows, **published}, predicts),
        Entry("ConformalRegressor", fitted(mlkm.ConformalRegressor), {**rows, **band}, predicts),
        Entry("OnlineConformal", fitted(mlkm.OnlineConformal), {**rows, **online}, predicts),
        Entry("RandomFeatures", unsupervised(mlkm.RandomFeatures), {"X": world.X, **features}),
        Entry("TableEncoder", unsupervised(TableEncoder), {"X": world.X, "categorical_features": None}),
        Entry("GradientDescent", solved(solvers.GradientDescent, **two), {**rows, **descent}, predicts),
        Entry("VariableProjection", solved(solvers.VariableProjection, **two), {**rows, **projection}, predicts),
        Entry("Ridge", solved(solvers.Ridge, **one), rows, predicts),
        Entry("Kernels", solved(solvers.Kernels, effort="fast"), {**rows, "max_rows": 100}, predicts),
        Entry("Geometric", fitted(scaled), {**rows, "c0": 1.0, "gamma": 2.0}, predicts),
    ]


def _fits(world: World) -> list[Entry]:
    """Rows that are fitted to."""
    rows = {"X": world.X, "y": world.y}
    weighted = {**rows, "sample_weight": world.w}
    gone = {name: value[:20] for name, value in weighted.items()}

    def of(make: Callable[[], Any], method: str = "fit") -> Callable[..., Any]:
        return lambda **given: getattr(make(), method)(**given)

    def default() -> Any:
        return mlkm.MLKMRegressor(effort="fast", random_state=0)

    def given() -> Any:
        return mlkm.MLKMRegressor((8,), scales=1.0, penalty=1e-3, random_state=0)

    def fitted() -> Any:
        return world.unfitted().fit(world.X, world.y, world.w)

    def online(model: Any) -> Callable[[], Any]:
        return lambda: mlkm.OnlineConformal(model)

    calibrated = {**weighted, "groups": None}
    return [
        Entry("ridge.fit", of(world.unfitted), weighted, predicts),
        Entry("model.fit", of(given), weighted, predicts),
        Entry("default.fit", of(default), weighted, predicts),
        Entry("ridge.partial_fit", of(lambda: copy(world.ridge), "partial_fit"), weighted, predicts),
        Entry("ridge.forget", of(fitted, "forget"), gone),
        Entry("model.refit", of(lambda: copy(world.model), "refit"), weighted, predicts),
        Entry("merge", mlkm.merge, {"models": [world.ridge, world.unfitted().fit(world.X[:30], world.y[:30])]}),
        Entry("band.fit", of(lambda: mlkm.ConformalRegressor(world.unfitted(), random_state=0)), calibrated, predicts),
        Entry(
            "band.conformalize", of(lambda: mlkm.ConformalRegressor(world.ridge), "conformalize"), calibrated, predicts
        ),
        Entry("online.fit", of(online(world.unfitted())), weighted, predicts),
        Entry("online.conformalize", of(online(world.ridge), "conformalize"), rows, predicts),
    ]


def _questions(world: World) -> list[Entry]:
    """What is asked of fitted models."""
    w, X = world, world.X
    rows, some = {"X": X, "y": w.y}, {"X": X}
    main = {"X": X, "confidence_level": 0.9, "j": 1}

    def set_and_fit(**given: Any) -> Any:
        return mlkm.MLKMRegressor(penalty=1e-3).set_params(**given).fit(X, w.y).predict(X)

    return [
        Entry("ridge.predict", w.ridge.predict, {"X": X, "return_std": False}, per_row()),
        Entry("model.predict", w.model.predict, {"X": X, "return_std": True}, per_row()),
        Entry("named.predict", w.named.predict, {"X": w.frame}, per_row()),
        Entry("model.score", w.model.score, {**rows, "sample_weight": w.w}, finite),
        Entry("model.effects", lambda j, **given: w.ridge.effects(**given).main(j).values, main, finite),
        Entry("effects.pair", lambda i, j: w.effects.pair(i, j).values, {"i": 0, "j": 1}, finite),
        Entry("model.explain", lambda X: w.ridge.explain(X).values, {"X": X[:5]}, per_row(D)),
        Entry("model.outside", w.model.outside, some, per_row()),
        Entry("model.report", w.ridge.report, {**rows, "path": w.path("page.html")}),
        Entry("model.leave_one_out", lambda **given: w.ridge.leave_one_out(**given).residuals, rows, per_row(1)),
        Entry("model.left_out_predictions", w.ridge.left_out_predictions, some, finite),
        Entry("model.estimate_cost", w.model.estimate_cost, {"n": 100, "d": 3, "in_memory": True}),
        Entry("model.set_params", set_and_fit, {"widths": (3,), "scales": 1.0, "random_state": 0}, finite),
        Entry("features.transform", mlkm.RandomFeatures(20, random_state=0).fit(X).transform, some, per_row(20)),
        Entry("encoder.transform", TableEncoder().fit(X).transform, some, per_row(D)),
        Entry("feed", lambda **given: feed(**given)["X"], {"model": w.ridge, "X": X, "dtype": "float32"}, fed),
    ]


def _bands(world: World) -> list[Entry]:
    """What is asked of bands."""
    w, X, y = world, world.X, world.y
    common = {"X": X, "y_min": -5.0, "y_max": 5.0, "groups": None, "sample_weight": None}
    sides = {**common, "side": "both"}
    interval = {**sides, "confidence_level": 0.8, "joint": False, "outside": "ignore"}

    def waiting() -> Any:
        band = deepcopy(w.online)
        band.predict_interval(X[:4])
        return band

    def updated(y: Any, rows: Any) -> Any:
        return waiting().update(y, rows).predict_interval(X)

    return [
        Entry("band.predict", w.band.predict, {"X": X}, per_row()),
        Entry("band.predict_interval", w.band.predict_interval, interval, an_interval),
        Entry("band.predict_int", w.band.predict_int, {**sides, "confidence": 0.8}, no_nan),
        Entry("band.predict_quantile", w.band.predict_quantile, {**common, "q": 0.5}, no_nan),
        Entry("band.predict_cdf", w.band.predict_cdf, {**common, "y": y}, no_nan),
        Entry("online.predict_interval", lambda X: deepcopy(w.online).predict_interval(X), {"X": X}, an_interval),
        Entry("online.update", updated, {"y": y[:3], "rows": [0, 1, 2]}, an_interval),
        Entry("online.drop", lambda rows: waiting().drop(rows), {"rows": [0]}),
        Entry(
            "online.predict_online", lambda X, y: deepcopy(w.online).predict_online(X, y), {"X": X, "y": y}, an_interval
        ),
    ]


def _files(world: World) -> list[Entry]:
    w, table = world, str(world.table)

    def inside(**given: Any) -> None:
        with mlkm.config_context(**given):
            pass

    opened = {"path": table, "target": "y", "features": ["a", "b"], "weights": "w"}
    predicted = {"model": w.named, "source": table, "out": w.path("p.csv"), "confidence_level": None}
    return [
        Entry("save", mlkm.save, {"model": w.ridge, "path": w.path("saved.mlkm"), "keep_rows": True}),
        Entry("load", mlkm.load, {"path": str(w.file), "trusted": ()}),
        Entry("to_onnx", mlkm.to_onnx, {"model": w.ridge, "path": w.path("model.onnx"), "dtype": "float32"}),
        Entry("open_table", lambda **given: w.unfitted().fit(mlkm.open_table(**given)), opened),
        Entry("predict_table", mlkm.predict_table, predicted),
        Entry("config_context", inside, {"max_memory": "2GB", "client": None}),
    ]


def _metrics(world: World) -> list[Entry]:
    X, width = world.X, {"interval": world.interval}
    both = {"y": world.y, **width}
    level, groups = {**both, "confidence_level": 0.9}, np.arange(N) % 2
    slices = {"X": X, **both, "share": 0.2, "n_directions": 10, "random_state": 0}
    return [
        Entry("inside", metrics.inside, both, no_nan),
        Entry("coverage", lambda **given: metrics.coverage(**given).share, level, finite),
        Entry("mean_width", metrics.mean_width, width, no_nan),
        Entry("median_width", metrics.median_width, width, no_nan),
        Entry("widths", metrics.widths, width, no_nan),
        Entry("ends", metrics.ends, width, no_nan),
        Entry("winkler_score", metrics.winkler_score, level, no_nan),
        Entry("coverage_by_group", metrics.coverage_by_group, {**level, "groups": groups}),
        Entry("coverage_by_bin", metrics.coverage_by_bin, {**both, "values": X[:, 0], "n_bins": 4}),
        Entry("worst_slice_coverage", metrics.worst_slice_coverage, slices, finite),
    ]


def _pictures(world: World) -> list[Entry]:
    w = world
    judged = {"y": w.y, "mean": w.mean, "interval": w.interval}
    bins = {"y": w.y, "interval": w.interval, "values": w.X[:, 0], "confidence_level": 0.9, "n_bins": 3, "name": "a"}
    band = {
        "band": w.band, "inputs": [0], "at": [0.5] * D, "limits": (0, 1), "truth": None, "names": ["a", "b", "c"],
        "confidence_level": 0.8, "output": None,
    }  # fmt: skip
    return [
        Entry("plot_band", plotting.plot_band, band),
        Entry("plot_predictions", plotting.plot_predictions, {**judged, "most": 20}),
        Entry("plot_coverage_by_bin", plotting.plot_coverage_by_bin, bins),
        Entry("plot_widths", plotting.plot_widths, judged),
        Entry("plot_convergence", plotting.plot_convergence, {"models": {"deep": w.deep}}),
        Entry("plot_effect", plotting.plot_effect, {"effects": w.effects, "j": 0, "output": None}),
    ]


def _kernels(world: World) -> list[Entry]:
    tables = {"X": world.X, "Y": world.X}
    return [
        Entry("Gaussian", lambda X, Y: kernels.Gaussian()(X, Y), tables, finite),
        Entry("Matern", lambda X, Y, nu: kernels.Matern(nu)(X, Y), {**tables, "nu": 1.3}, finite),
        Entry("Laplacian", lambda X, Y: kernels.Laplacian()(X, Y), tables, finite),
        Entry("Cauchy", lambda X, Y: kernels.Cauchy()(X, Y), tables, finite),
        Entry("as_kernel", kernels.as_kernel, {"kernel": "gaussian"}),
    ]
