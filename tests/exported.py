"""Fits to export, and what an export is compared with."""

from copy import copy
from dataclasses import replace
from functools import cache

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

import mlkm
from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge, RKMRegressor
from mlkm.datasets import make_example1
from mlkm.model.features import JointMap
from mlkm.onnx import feed

TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


def run(model, inputs):
    """All outputs of an exported model, by name."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, inputs), strict=True))


def in_double(model):
    """The same fit with all kernels in float64."""
    if isinstance(model, ConformalRegressor):
        band = copy(model)
        scored = model._band.scored
        both = {name: in_double(getattr(scored, name)) for name in ("model", "spread")}
        band._band = replace(model._band, scored=replace(scored, **both))
        return band
    if not hasattr(model, "machines_"):
        return model
    result = copy(model)
    machines, uncertainty = tuple(map(machine_in_double, model.machines_)), model.fitted_.uncertainty
    if uncertainty is not None:
        uncertainty = replace(uncertainty, machines=machines)
        cached = vars(model.fitted_.uncertainty).items()  # with the noise that was measured
        vars(uncertainty).update({name: one for name, one in cached if name != "machines"})
    result.fitted_ = replace(model.fitted_, machines=machines, uncertainty=uncertainty)
    return result


def machine_in_double(machine):
    if not isinstance(machine.maps[0], JointMap):
        return machine
    parts = [
        (ranks, replace(phi, points=phi.points.astype(np.float64)) if hasattr(phi, "points") else phi)
        for ranks, phi in machine.maps[0].parts
    ]
    return replace(machine, maps=(JointMap(tuple(parts)), *machine.maps[1:]))


def assert_agree(got, expected, dtype):
    """To the tolerance of the type, of the number itself and of the range of the first rows, which are training rows;
    predictions at rows far outside may be large."""
    assert got.shape == expected.shape
    limit = TOLERANCE[dtype]
    np.testing.assert_allclose(got, expected, rtol=limit, atol=limit * np.ptp(expected[:20]))


def assert_like_predict(model, X, dtype):
    """The export at all rows and at single ones is what `predict` says of the same inputs."""
    exported, inputs = mlkm.to_onnx(model, dtype=dtype), feed(model, X, dtype=dtype)
    seen = inputs["X"].astype(np.float64) if "X" in inputs else X
    expected = (in_double(model) if dtype == "float64" else model).predict(seen)
    got = run(exported, inputs)["mean"]
    assert got.dtype == dtype
    assert_agree(got, expected, dtype)
    one = run(exported, {name: column[3:4] for name, column in inputs.items()})["mean"]
    assert_agree(np.concatenate([got[:3], one, got[4:]]), expected, dtype)


@cache
def numbers(n=150):
    """Training rows, targets, and rows some of which are far outside."""
    X, y, _ = make_example1(n=n, d=4, random_state=0)
    return X, y, np.vstack([X[:20], 1.5 * X[20:40], 30.0 * X[40:45]])


def words(n=150, seed=1):
    """A table whose words hold numbers and have texts, with missing values everywhere."""
    rng = np.random.default_rng(seed)
    name, engine = rng.integers(0, 40, n), rng.integers(8, 20, n)
    x = rng.standard_normal(n)
    y = np.sin(name) + 0.3 * engine + x + 0.1 * rng.standard_normal(n)
    names = np.array([f"{'abcd'[k % 4]}lpha {'tuvwxyz'[k % 7]}eta {k}x" for k in range(40)], object)
    frame = pd.DataFrame(
        {"mean": x, "name": names[name], "engine": [f"{100 * e} CC" for e in engine], "code": rng.integers(0, 5, n)}
    )
    frame.loc[rng.random(n) < 0.1, "name"] = None
    frame.loc[rng.random(n) < 0.1, "mean"] = np.nan
    return frame, y


@cache
def fitted(kind):
    X, y, _ = numbers()
    steep = np.column_stack([np.exp(2 * y / y.std()), y])
    rough = MLKMRegressor(random_state=0)
    return {
        "default": lambda: rough.fit(X, y),
        "skewed": lambda: rough.fit(X, steep[:, 0]),
        "two outputs": lambda: rough.fit(X, steep),
        "noiseless": lambda: rough.fit(X, X[:, 0] + np.sin(X[:, 1])),
        "constant": lambda: rough.fit(np.ones((20, 2)), np.arange(20.0)),
        "scaled": lambda: rough.fit(StandardScaler().fit_transform(X), y),
        "one input": lambda: rough.fit(X[:, :1], y),
        "best": lambda: MLKMRegressor(effort="best", random_state=0).fit(X[:100], y[:100]),
        "two layers": lambda: MLKMRegressor(widths=(64, 8), random_state=0).fit(X, steep),
        "residual": lambda: RKMRegressor(widths=(32, 4), random_state=0).fit(X, y),
        "published": lambda: MLKMRegressor.published(
            widths=(32, 8), penalty=1e-3, random_state=0, solver=mlkm.solvers.GradientDescent(max_iter=30)
        ).fit(X, y),
        "ridge": lambda: RandomFeatureRidge(random_state=0).fit(X, y),
        "laplacian": lambda: RandomFeatureRidge(80, "laplacian", 0.5, random_state=0).fit(X, y),
    }[kind]()
