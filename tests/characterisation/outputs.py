"""What is recorded of a fitted setting: everything that a user can ask of it, at a few rows."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import mlkm
from mlkm import ConformalRegressor
from mlkm.onnx import feed

LEVELS = [0.8, 0.9]
SHARES = [0.1, 0.5, 0.9]
MOST = 12  # rows of outputs that have several numbers a row


@dataclass(frozen=True)
class Case:
    """A fitted model with the rows it is asked about.

    `asked` are at most 25 rows, `rows` the first rows of the fit with their targets for what is said of these, `test`
    test rows with the noiseless truth, `parts` the names of what is asked (the keys of `PARTS`), `pair` the columns
    whose effects are asked for, and `options` go to every method of a band.
    """

    model: Any
    asked: Any
    parts: tuple[str, ...] = ("std", "fit", "cost")
    rows: tuple[Any, Any] | None = None
    test: tuple[Any, np.ndarray] | None = None
    pair: tuple[Any, Any] = (0, 1)
    options: dict[str, Any] = field(default_factory=dict)
    more: Callable[[], dict[str, Any]] = dict


def outputs(case: Case) -> dict[str, np.ndarray]:
    """Return all that is recorded of a case, by name."""
    result: dict[str, Any] = {"mean": case.model.predict(case.asked)}
    for part in case.parts:
        result |= PARTS[part](case)
    result |= case.more()
    return {name: np.asarray(value, np.float64) for name, value in result.items()}


def predictions(case: Case) -> np.ndarray:
    """Return the predictions of the test rows."""
    return np.zeros(0) if case.test is None else np.asarray(case.model.predict(case.test[0]))


def _std(case: Case) -> dict[str, Any]:
    return {"std": case.model.predict(case.asked, return_std=True)[1], "noise variance": case.model.noise_variance_}


def _fit(case: Case) -> dict[str, Any]:
    model = case.model
    return {
        "loo_error_": model.loo_error_,
        "penalty_": model.penalty_,
        "relevance": model.feature_relevance_,
        "limits": model.prediction_limits_,
        "widths": model.widths_,
    }


def _descent(case: Case) -> dict[str, Any]:
    return {"loss curve": case.model.loss_curve_, "epochs": case.model.n_iter_}


def _outside(case: Case) -> dict[str, Any]:
    return {"outside": case.model.outside(case.asked)}


def _left_out(case: Case) -> dict[str, Any]:
    assert case.rows is not None
    left = case.model.leave_one_out(*case.rows)
    others = case.model.left_out_predictions(case.asked[:3])
    return {"loo residuals": left.residuals, "loo std": left.std, "loo predictions": others[:, :MOST]}


def _effects(case: Case) -> dict[str, Any]:
    effects, (i, j) = case.model.effects(case.asked[:MOST]), case.pair
    result: dict[str, Any] = {}
    for name, effect in (("main", effects.main(i)), ("other main", effects.main(j)), ("pair", effects.pair(i, j))):
        result |= {f"{name} effect": effect.values, f"{name} band": effect.band}
        result |= {f"{name} simultaneous band": effect.band_simultaneous}
    return result


def _explain(case: Case) -> dict[str, Any]:
    contributions = case.model.explain(case.asked[:4])
    return {"contributions": contributions.values, "baseline": contributions.baseline}


def _onnx(case: Case) -> dict[str, Any]:
    result = {}
    for dtype in ("float64", "float32"):
        exported = mlkm.to_onnx(case.model, dtype=dtype).SerializeToString()
        session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
        values = session.run(None, feed(case.model, case.asked, dtype=dtype))
        result |= {
            f"onnx {dtype} {output.name}": value for output, value in zip(session.get_outputs(), values, strict=True)
        }
    return result


def _cost(case: Case) -> dict[str, Any]:
    result = {}
    for n, in_memory in ((300, True), (15_000, True), (1_000_000, True), (3_000_000, False)):
        cost = case.model.estimate_cost(n, 8, in_memory=in_memory)
        result[f"cost of {n}"] = [cost.memory, cost.passes, len(cost.way)]
    return result


def _saved(case: Case) -> dict[str, Any]:
    return _loaded(case, "with rows", keep_rows=True)


def _saved_without_rows(case: Case) -> dict[str, Any]:
    return _loaded(case, "without rows", keep_rows=False)


def _loaded(case: Case, words: str, keep_rows: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mlkm"
        mlkm.save(case.model, path, keep_rows=keep_rows)
        loaded = mlkm.load(path)
    if isinstance(loaded, ConformalRegressor):
        mean, other = loaded.predict_interval(case.asked, **case.options)
    else:
        mean, other = loaded.predict(case.asked, return_std=True)
    return {f"mean loaded {words}": mean, f"std or interval loaded {words}": other}


def _intervals(case: Case) -> dict[str, Any]:
    band = case.model
    mean, interval = band.predict_interval(case.asked, LEVELS, **case.options)
    _, lower = band.predict_interval(case.asked, 0.8, side="lower", **case.options)
    return {
        "centre": mean,
        "interval": interval,
        "lower bound": lower[:, 0],
        "calibration rows": band.n_calibration_,
    }


def _distribution(case: Case) -> dict[str, Any]:
    band, asked = case.model, case.asked
    quantiles = band.predict_quantile(asked, SHARES, **case.options)
    middle = quantiles[:, :1] + np.array([0.3, 0.9]).reshape(1, 2, *[1] * (quantiles.ndim - 2)) * (
        quantiles[:, -1:] - quantiles[:, :1]
    )
    return {"quantiles": quantiles, "cdf": band.predict_cdf(asked, middle, **case.options)}


PARTS: dict[str, Callable[[Case], dict[str, Any]]] = {
    "std": _std,
    "fit": _fit,
    "descent": _descent,
    "outside": _outside,
    "left out": _left_out,
    "effects": _effects,
    "explain": _explain,
    "onnx": _onnx,
    "cost": _cost,
    "saved": _saved,
    "saved without rows": _saved_without_rows,
    "intervals": _intervals,
    "distribution": _distribution,
}
