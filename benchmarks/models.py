"""Who takes part: our estimators with everything "auto", and their peers."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor

from mlkm import MLKMRegressor, RandomFeatureRidge, RKMRegressor

from . import peers, scale


@dataclass(frozen=True)
class Model:
    """A name for tables and how to build the estimator from a seed and a number of threads.

    `package` must be installed; `raw` models take the inputs as they came. `most_rows` and `most_inputs` say where the
    model is not run. `around` surrounds the fit: an ablation changes constants of the package there.
    """

    label: str
    build: Callable[[int, int], Any]
    package: str = "sklearn"
    ours: bool = False
    raw: bool = False
    most_rows: int | None = None
    most_inputs: int | None = None
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    short: str = ""  # for the heads of columns

    def missing(self) -> str | None:
        """Why the model cannot run here, if it cannot."""
        if find_spec(self.package) is None:
            return (
                f"{self.label} needs the package {self.package}, which is not installed: pip install {self.package}, or"
                " the extra `bench`."
            )
        return None

    def too_large(self, n: int, d: int) -> str | None:
        """Why the model is not run on n rows with d inputs, if it is not."""
        if self.most_rows is not None and n > self.most_rows:
            return f"{n} training rows; at most {self.most_rows} are tried"
        if self.most_inputs is not None and d > self.most_inputs:
            return f"{d} inputs; at most {self.most_inputs} are tried"
        return None


def _mlkm(seed: int, threads: int) -> Any:
    return MLKMRegressor(random_state=seed)


def _rkm(seed: int, threads: int) -> Any:
    return RKMRegressor(random_state=seed)


def _rfr(seed: int, threads: int, **options: Any) -> Any:
    return RandomFeatureRidge(random_state=seed, **options)


def _ols(seed: int, threads: int) -> Any:
    return LinearRegression()


def _ridge(seed: int, threads: int) -> Any:
    return RidgeCV(alphas=np.logspace(-4, 4, 17))


def _kernel_ridge_grid(seed: int, threads: int) -> Any:
    """scikit-learn's kernel ridge as users tune it: 5 penalties by 5 scales, five folds."""
    return GridSearchCV(
        KernelRidge(kernel="rbf"), {"alpha": np.logspace(-3, 1, 5), "gamma": np.logspace(-3, 0, 5)}, cv=5
    )


def _lightgbm(seed: int, threads: int) -> Any:
    from lightgbm import LGBMRegressor, early_stopping

    model = LGBMRegressor(
        n_estimators=2000, learning_rate=0.05, num_leaves=63, random_state=seed, n_jobs=threads, verbose=-1
    )
    return peers.StoppedTrees(model, seed, callbacks=[early_stopping(50, verbose=False)])


def _xgboost(seed: int, threads: int) -> Any:
    from xgboost import XGBRegressor

    model = XGBRegressor(
        n_estimators=2000, learning_rate=0.05, early_stopping_rounds=50, random_state=seed, n_jobs=threads
    )
    return peers.StoppedTrees(model, seed, verbose=False)


def _catboost(seed: int, threads: int) -> Any:
    from catboost import CatBoostRegressor

    return CatBoostRegressor(random_seed=seed, thread_count=threads, verbose=False, allow_writing_files=False)


def _hist_gradient_boosting(seed: int, threads: int) -> Any:
    return HistGradientBoostingRegressor(random_state=seed)


def _mlp(seed: int, threads: int) -> Any:
    return peers.Float32(MLPRegressor(hidden_layer_sizes=(256, 256), early_stopping=True, random_state=seed))


def _xrfm(seed: int, threads: int) -> Any:
    import xrfm  # noqa: F401  imported here so that its import is not part of the fit's time

    return peers.RecursiveFeatureMachine(seed)


def _realmlp(seed: int, threads: int) -> Any:
    from pytabkit import RealMLP_TD_Regressor

    return peers.Float32(RealMLP_TD_Regressor(device="cpu", random_state=seed, n_threads=threads))


OURS = {
    "mlkm": Model("MLKMRegressor", _mlkm, ours=True, short="MLKM"),
    "rkm": Model("RKMRegressor", _rkm, ours=True, short="RKM"),
    "rfr": Model("RandomFeatureRidge", _rfr, ours=True, short="RF ridge"),
}
PEERS = {
    "catboost": Model("CatBoost", _catboost, "catboost", raw=True),
    "lightgbm": Model("LightGBM", _lightgbm, "lightgbm", raw=True),
    "xgboost": Model("XGBoost", _xgboost, "xgboost", raw=True),
    "hgb": Model("HistGradientBoosting", _hist_gradient_boosting, raw=True, short="HistGB"),
    "xrfm": Model("xRFM", _xrfm, "xrfm"),
    "realmlp": Model("RealMLP", _realmlp, "pytabkit", most_rows=6000),
    "mlp": Model("MLP", _mlp),
    "gp": Model(
        "Gaussian process (ARD)", lambda seed, threads: peers.GaussianProcess(seed), most_inputs=128, short="GP"
    ),
    "krr": Model("kernel ridge", lambda seed, threads: peers.GaussianKernelRidge(seed), short="KRR"),
    "fourier": Model("RBFSampler + ridge", lambda seed, threads: peers.FourierRidge(seed), short="RBF sampler"),
    "ridge": Model("ridge", _ridge),
}
SPECIAL = {
    "ols": Model("least squares", _ols),
    "krr-grid": Model("KernelRidge, 5 x 5 grid search", _kernel_ridge_grid),
    "rfr2000": Model("RandomFeatureRidge(2000)", lambda seed, threads: _rfr(seed, threads, n_features=2000), ours=True),
    "sgemm": Model("bare sgemm", lambda seed, threads: scale.Product()),
}
MODELS = {**OURS, **PEERS, **SPECIAL}
