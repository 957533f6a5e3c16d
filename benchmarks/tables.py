"""Mixed-type tables as they come: numbers, categories, words, dates and missing values.

The first column of a file is the target. Test rows are a random fifth, at most 5000, training rows at most 10,000 of
the others; the target is standardised by the training rows. Choices of the package were made on `DECIDED_ON`; the
others were only judged.

    python -m benchmarks.tables --peers tables_peers.csv [--sets ...]

prints the default's errors on the first ones, both splits, beside reference results (columns table, split, method,
rmse, fit_cpu).
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline

from mlkm import MLKMRegressor

from . import peers
from .models import Model
from .problem import Problem, data_home

DECIDED_ON = [
    "bengaluru_house", "cardekho", "caterpillar_tubes", "flight_fare_india", "giant_pumpkins", "house_rent_india",
    "laptop_price", "lego_sets", "lending_rates", "palm_traits", "skyscrapers", "student_por",
]  # fmt: skip
JUDGED = [
    "avocado", "mlb_salaries", "onion_prices", "seattle_energy", "sncf_delays", "video_game_sales", "zomato_bangalore",
]  # fmt: skip
SETS = sorted(DECIDED_ON + JUDGED)


def load(name: str, split: int, most_train: int = 10_000, most_test: int = 5_000) -> Problem:
    frame = pd.read_parquet(data_home() / "tables" / f"{name}.parquet")
    y, X = frame.iloc[:, 0].to_numpy(float), frame.iloc[:, 1:]
    order = np.random.default_rng(10 + split).permutation(len(y))
    m = min(len(y) // 5, most_test)
    test, train = order[:m], order[m:][:most_train]
    mean, sd = y[train].mean(), y[train].std()
    X_train, X_test = (X.iloc[at].reset_index(drop=True) for at in (train, test))
    y = (y - mean) / sd
    return Problem(X_train, y[train], X_test, y[test], X_train, X_test, float(sd))


def _columns(X: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Names of dates, and of columns that are neither numbers nor dates."""
    dates = [c for c in X if pd.api.types.is_datetime64_any_dtype(X[c])]
    return dates, [c for c in X if c not in dates and not pd.api.types.is_numeric_dtype(X[c])]


def _with_numbers_for_dates(X: pd.DataFrame) -> pd.DataFrame:
    """Days since 2000, month, weekday and hour."""
    X = X.copy()
    for c in _columns(X)[0]:
        when = X.pop(c)
        X[f"{c} day"] = (when - pd.Timestamp("2000-01-01")).dt.total_seconds() / 86400
        for part in ("month", "day_of_week", "hour"):
            X[f"{c} {part}"] = getattr(when.dt, part).astype(float)
    return X


class Trees:
    """Trees with their own way of taking categories: dates as numbers, other columns as they are."""

    def __init__(self, kind: str, seed: int, threads: int) -> None:
        self.kind, self.seed, self.threads = kind, seed, threads

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> "Trees":
        self.levels = {c: pd.CategoricalDtype(sorted(X[c].dropna().astype(str).unique())) for c in _columns(X)[1]}
        Z = self._inputs(X)
        if self.kind == "catboost":
            from catboost import CatBoostRegressor

            model = CatBoostRegressor(
                random_seed=self.seed, thread_count=self.threads, verbose=False, allow_writing_files=False,
                cat_features=list(self.levels),
            )  # fmt: skip
            self.model = model.fit(Z, y)
        elif self.kind == "lightgbm":
            from lightgbm import LGBMRegressor, early_stopping

            model = LGBMRegressor(
                n_estimators=2000, learning_rate=0.05, random_state=self.seed, n_jobs=self.threads, verbose=-1
            )
            self.model = peers.StoppedTrees(model, self.seed, callbacks=[early_stopping(50, verbose=False)]).fit(Z, y)
        else:
            model = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=self.seed)
            self.model = model.fit(self._few_levels(Z), y)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        Z = self._inputs(X)
        return np.asarray(self.model.predict(self._few_levels(Z) if self.kind == "hgb" else Z))

    def _inputs(self, X: pd.DataFrame) -> pd.DataFrame:
        X = _with_numbers_for_dates(X)
        for c, levels in self.levels.items():
            X[c] = (
                X[c].astype("string").fillna("missing").astype(str)
                if self.kind == "catboost"
                else X[c].astype("string").astype(levels)
            )
        return X

    def _few_levels(self, X: pd.DataFrame) -> pd.DataFrame:
        """HistGradientBoosting takes 255 levels of a category: of others the numbers of the levels."""
        return X.assign(**{c: X[c].cat.codes.astype(float) for c, k in self.levels.items() if len(k.categories) > 250})


def _skrub(final: Any) -> Any:
    from skrub import TableVectorizer

    return make_pipeline(TableVectorizer(), *final)


def _skrub_ridge(seed: int, threads: int) -> Any:
    from skrub import tabular_pipeline

    return tabular_pipeline(RidgeCV(alphas=np.logspace(-4, 4, 17)))


MODELS = {
    "mlkm": Model("MLKMRegressor", lambda seed, threads: MLKMRegressor(random_state=seed), ours=True, short="MLKM"),
    "catboost-tables": Model("CatBoost, native", lambda s, t: Trees("catboost", s, t), "catboost", short="CatBoost"),
    "lightgbm-tables": Model("LightGBM, native", lambda s, t: Trees("lightgbm", s, t), "lightgbm", short="LightGBM"),
    "hgb-tables": Model("HistGradientBoosting, native", lambda s, t: Trees("hgb", s, t), short="HistGB"),
    "skrub-ridge": Model("skrub + ridge", _skrub_ridge, "skrub"),
    "skrub-mlkm": Model(
        "skrub + MLKMRegressor", lambda seed, t: _skrub((MLKMRegressor(random_state=seed),)), "skrub", ours=True
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=DECIDED_ON)
    args = parser.parse_args()
    reference = pd.read_csv(args.peers).set_index(["table", "split", "method"]).sort_index()
    ratios = []
    for name in args.sets:
        for split in (0, 1):
            problem, begin = load(name, split), time.process_time()
            model = MLKMRegressor(random_state=0).fit(problem.X, problem.y)
            seconds = time.process_time() - begin
            error = float(np.sqrt(np.mean((model.predict(problem.X_test) - problem.target) ** 2)))
            peers_here = reference.loc[(name, split)]
            trees = peers_here.loc["catboost"]
            ratios.append((error / trees["rmse"], error / peers_here["rmse"].min(), seconds / trees["fit_cpu"]))
            print(
                f"{name} {split}: {error:.4f}, / CatBoost {ratios[-1][0]:.3f}, / best {ratios[-1][1]:.3f}", flush=True
            )
    errors, best, times = np.array(ratios).T
    print(
        f"{len(ratios)} fits: / CatBoost {np.exp(np.log(errors).mean()):.3f}, ahead on {(errors < 1).sum()}, / best"
        f" {np.exp(np.log(best).mean()):.3f}, worst {best.max():.2f}, CPU time / CatBoost's:"
        f" median {np.median(times):.2f}"
    )


if __name__ == "__main__":
    main()
