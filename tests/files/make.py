"""Model files of this version, and what they predict: `python tests/files/make.py` from the root of the repository.

They are for later versions to read. Files of a released version are never written again; inputs are formulas, so that
no generator of random numbers has a part in them.
"""

import json
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mlkm
from mlkm import ConformalRegressor, MLKMRegressor, OnlineConformal, RandomFeatureRidge, RandomFeatures, RKMRegressor
from mlkm.solvers import GradientDescent
from mlkm.tables import TableEncoder

HERE = Path(__file__).parent
N = 60


def rows(n=N, shift=0.0):
    """Numbers (n, 3) that fill a cube, and y."""
    k = np.arange(1, n + 1)[:, None]
    X = 2 * np.mod(k * np.sqrt([2.0, 3.0, 5.0]) + shift, 1.0) - 1
    noise = np.mod(k[:, 0] * np.pi, 1.0) - 0.5
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * noise


def table(n=N, shift=0.0):
    """Numbers, some missing, a few levels, many levels with words, and y."""
    X, y = rows(n, shift)
    colours, things = ("red", "dark blue", "light blue", "grey", "green"), ("car", "house", "bird", "boat", "tree")
    names = [f"{colours[k % 5]} {things[k // 5 % 5]}" for k in range(n)]
    sizes = [None if k % 7 == 0 else x for k, x in enumerate(X[:, 1])]
    columns = (X[:, 0], sizes, [("a", "b", "c")[k % 3] for k in range(n)], names)
    return np.array(list(zip(*columns, strict=True)), object), y + np.arange(n) % 3


def skewed():
    X, y = rows()
    return X, np.exp(1.5 * y)


def ridge():
    return RandomFeatureRidge(20, scale=1.0, random_state=0)


def published(kind):
    solver = GradientDescent(learning_rate=1e-2, max_iter=10)
    return kind.published((8, 4), (1.0, 1.0), penalty=1e-3, solver=solver, random_state=0)


MODELS = {
    "default": lambda: MLKMRegressor(random_state=0).fit(*rows()),
    "skewed": lambda: MLKMRegressor(random_state=0).fit(*skewed()),
    "table": lambda: MLKMRegressor(random_state=0).fit(*table()),
    "layers": lambda: MLKMRegressor(widths=(16, 4), random_state=0).fit(*rows()),
    "mlkm": lambda: published(MLKMRegressor).fit(*rows()),
    "rkm": lambda: published(RKMRegressor).fit(*rows()),
    "ridge": lambda: ridge().fit(*rows()),
    "features": lambda: RandomFeatures(20, "matern", random_state=0).fit(rows()[0]),
    "encoder": lambda: TableEncoder().fit(table()[0]),
    "pipeline": lambda: make_pipeline(StandardScaler(), ridge()).fit(*rows()),
    "variance": lambda: ConformalRegressor(ridge(), confidence_level=0.8, random_state=0).fit(*rows()),
    "quantile": lambda: ConformalRegressor(
        Ridge(), confidence_level=0.8, score="quantile", method="cross", random_state=0
    ).fit(*rows()),
    "leave_one_out": lambda: ConformalRegressor(ridge(), confidence_level=0.8, method="cross", cv="loo").fit(*rows()),
    "online": lambda: OnlineConformal(Ridge(), confidence_level=0.8).fit(*rows()),
}


def answers(name, model):
    """What a model says of rows that it has not seen."""
    X = (table if name in ("table", "encoder") else rows)(8, shift=0.5)[0]
    if hasattr(model, "predict_interval"):
        mean, interval = model.predict_interval(X)
        return [mean.tolist(), interval.tolist()]
    if isinstance(model, RandomFeatures | TableEncoder):
        return [model.transform(X).tolist()]
    return [model.predict(X).tolist()]


def main():
    folder = HERE / mlkm.__version__
    folder.mkdir()  # or an error: what is released stays
    said = {}
    for name, make in MODELS.items():
        model = make()
        said[name] = answers(name, model)
        mlkm.save(make(), folder / f"{name}.mlkm")  # a band in time order has changed by being asked
    (folder / "answers.json").write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
