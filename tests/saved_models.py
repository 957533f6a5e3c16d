"""Models to be saved, of every kind, and the rows that they are asked about."""

import re

import numpy as np
from mixed_table import mixed
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mlkm
from mlkm import ConformalRegressor, Geometric, MLKMRegressor, RandomFeatureRidge, RKMRegressor
from mlkm.datasets import make_example1
from mlkm.kernels import Matern
from mlkm.solve import GradientDescent, VariableProjection

X, Y, _ = make_example1(n=120, d=4, random_state=0)
NEW = make_example1(n=150, d=4, random_state=1)[0] * 1.5
SKEWED = np.exp(Y / 3)
TWO = np.column_stack([Y, X[:, 0]])
TABLE, TARGETS = mixed(150)
NEW_TABLE = mixed(80, seed=1)[0]
FAST = {"widths": (16, 4), "random_state": 0}
DESCENT = GradientDescent(learning_rate=1e-2, max_iter=20)


def words(n, seed):
    """A table with a column of many levels, and one of words that hold numbers."""
    rng = np.random.default_rng(seed)
    names = np.array(
        [f"{a} {b}" for a in ("red", "blue", "green", "grey", "dark") for b in ("car", "house", "bird", "x")]
    )
    number = rng.integers(1, 60, n)
    names = np.append(names, ["light car", "light bird", "pink house"])
    return np.column_stack([names[rng.integers(0, len(names), n)], [f"{k} CC" for k in number]]).astype(object)


def ridge(**choices):
    return RandomFeatureRidge(40, scale=1.0, random_state=0, **choices)


REGRESSORS = {
    "default": (lambda: MLKMRegressor(random_state=0).fit(X, Y), NEW),
    "another scale": (lambda: MLKMRegressor(random_state=0).fit(X, SKEWED), NEW),
    "two outputs": (lambda: MLKMRegressor(random_state=0).fit(X, TWO), NEW),
    "weights": (lambda: MLKMRegressor(random_state=0).fit(X, Y, sample_weight=np.arange(120) % 3), NEW),
    "mixed": (lambda: MLKMRegressor(random_state=0).fit(TABLE, TARGETS), NEW_TABLE),
    "mixed in layers": (lambda: MLKMRegressor(**FAST).fit(TABLE, TARGETS), NEW_TABLE),
    "words": (lambda: MLKMRegressor(random_state=0).fit(words(120, 0), Y), words(90, 1)),
    "projection": (lambda: MLKMRegressor(**FAST, solver=VariableProjection(max_iter=5)).fit(X, Y), NEW),
    "rotate": (lambda: MLKMRegressor(**FAST, cv="rotate").fit(X, Y), NEW),
    "folds": (lambda: MLKMRegressor(**FAST, cv=KFold(3)).fit(X, Y), NEW),
    "published": (
        lambda: MLKMRegressor.published((8, 4), Geometric(0.5, 1.5), penalty=1e-3, solver=DESCENT, random_state=0).fit(
            X, Y
        ),
        NEW,
    ),
    "residual": (lambda: RKMRegressor(**FAST).fit(X, Y), NEW),
    "published residual": (
        lambda: RKMRegressor.published((8, 4), (1.0, 1.0), penalty=1e-3, solver=DESCENT, random_state=0).fit(X, Y),
        NEW,
    ),
    "ridge": (lambda: ridge().fit(X, Y), NEW),
    "ridge by itself": (lambda: RandomFeatureRidge(40, random_state=0).fit(X, Y), NEW),
    "smooth": (lambda: ridge(kernel=Matern(nu=1.5)).fit(X, Y), NEW),
    "ridge on a table": (lambda: ridge().fit(TABLE, TARGETS), NEW_TABLE),
    "seeded": (lambda: ridge().set_params(random_state=np.random.RandomState(3)).fit(X, Y), NEW),
    "constant": (lambda: MLKMRegressor(random_state=0).fit(X, np.ones(len(X))), NEW),
    "one row": (lambda: MLKMRegressor(random_state=0).fit(X[:1], Y[:1]), NEW),
}

LAYERED = {"mixed in layers", "projection", "rotate", "folds", "published", "residual", "published residual"}

BANDS = {
    **{
        f"{score} {method}": lambda score=score, method=method: ConformalRegressor(
            ridge(), score=score, method=method, cv=3, random_state=0
        ).fit(X, Y)
        for score in ("variance", "absolute", "residual", "quantile")
        for method in ("split", "cross")
    },
    "bootstrap": lambda: ConformalRegressor(Ridge(), method="bootstrap", random_state=0).fit(X, Y),
    "loo": lambda: ConformalRegressor(ridge(), method="cross", cv="loo", random_state=0).fit(X, Y),
    "default": lambda: ConformalRegressor(random_state=0).fit(X, Y),
    "linear": lambda: ConformalRegressor(LinearRegression(), random_state=0).fit(X, Y),
    "gaussian process": lambda: ConformalRegressor(
        GaussianProcessRegressor(RBF() + WhiteKernel(), optimizer=None), random_state=0
    ).fit(X, Y),
    "several levels": lambda: ConformalRegressor(ridge(), confidence_level=[0.8, 0.9], random_state=0).fit(X, Y),
    "two outputs": lambda: ConformalRegressor(ridge(), score="absolute", random_state=0).fit(X, TWO),
    "weights": lambda: ConformalRegressor(ridge(), random_state=0).fit(X, Y, sample_weight=1 + np.arange(120) % 3),
    "pipeline": lambda: ConformalRegressor(
        make_pipeline(StandardScaler(), ridge()), score="quantile", random_state=0
    ).fit(X, Y),
    "frozen": lambda: ConformalRegressor(FrozenEstimator(ridge().fit(X, Y)), random_state=0).conformalize(
        NEW, NEW[:, 0]
    ),
    "splitter": lambda: ConformalRegressor(ridge(), method="cross", cv=GroupKFold(3)).fit(
        X, Y, groups=np.arange(120) % 6
    ),
}


# What a file with a band must be trusted for, beside the classes that are checked.
_PROCESSES = "sklearn.gaussian_process"
TRUSTED = {
    "gaussian process": [
        f"{_PROCESSES}._gpr.GaussianProcessRegressor",
        *(f"{_PROCESSES}.kernels.{name}" for name in ("RBF", "Sum", "WhiteKernel")),
    ]
}


def round_trip(model, folder, trusted=(), **choices):
    path = folder / "model.mlkm"
    mlkm.save(model, path, **choices)
    return mlkm.load(path, trusted=trusted)


def described(model):
    """With all parameters; a generator has another address."""
    return re.sub(r"0x\w+", "", str(model))


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)
