"""What the default does with more rows than a kernel is solved on: `python -m benchmarks.many_rows`.

Sizes of the search and of the first layer are compared on some sets (DECIDE), and what was chosen is looked at on
others (JUDGE), beside LightGBM with 500 trees. Of a real set a tenth of the rows, at most 20,000, is held out and all
others are fitted; the root mean squared error is in units of the standard deviation of y. `big` is the table of
`benchmarks.big_table`, 300,000 rows of it, and its error the root of the mean squared distance to the truth.
"""

import argparse
import json
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from .big_table import rows, truth
from .problem import data_home

DECIDE = ("big", "kin40k", "protein", "sgemm_gpu", "tamielectric")
JUDGE = ("beijing_pm25", "keggundirected", "metro_traffic", "blogfeedback")


def split(name: str, seed: int) -> tuple[np.ndarray, ...]:
    """Rows that are fitted, those that are held out, and the unit of the error."""
    if name == "big":
        groups = [rows(10 * seed + k, 100_000) for k in range(3)]
        X, _, _ = rows(1_000_000, 20_000)  # of no file
        return np.concatenate([g[0] for g in groups]), np.concatenate([g[1] for g in groups]), X, truth(X), 1.0
    stored = np.load(next(data_home().glob(f"*/{name}.npz")), allow_pickle=False)
    X, y = stored["X"].astype(float), stored["y"].astype(float)
    out, used = np.split(np.random.default_rng(seed).permutation(len(y)), [min(20_000, len(y) // 10)])
    return X[used], y[used], X[out], y[out], np.std(y[out])


def ours(X: np.ndarray, y: np.ndarray, sizes: dict[str, Any], n_features: int | None) -> Any:
    from mlkm import MLKMRegressor, RandomFeatureRidge
    from mlkm.search.policy import Policy, policy_context

    model = RandomFeatureRidge(n_features, random_state=0) if n_features else MLKMRegressor(random_state=0)
    with policy_context(replace(Policy(), **sizes)):
        return model.fit(X, y)


def peer(X: np.ndarray, y: np.ndarray) -> Any:
    import lightgbm

    return lightgbm.LGBMRegressor(n_estimators=500, n_jobs=2, random_state=0, verbose=-1).fit(X, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=[*DECIDE, *JUDGE])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument(
        "--sizes", type=json.loads, nargs="*", default=[{}], help="fields of the policy: '{\"draws\": 2}'"
    )
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--features", type=int, help="so many random features instead of the default")
    parser.add_argument("--rows", type=int, help="fitted rows, at most")
    options = parser.parse_args()
    for name in options.sets:
        for seed in options.seeds:
            X, y, X_test, target, unit = split(name, seed)
            X, y = X[: options.rows], y[: options.rows]
            for sizes in [*options.sizes, *([None] if options.peer else [])]:
                begin, words = perf_counter(), "LightGBM" if sizes is None else json.dumps(sizes)
                model = peer(X, y) if sizes is None else ours(X, y, sizes, options.features)
                seconds = perf_counter() - begin
                error = float(np.sqrt(np.mean((model.predict(X_test) - target) ** 2)) / unit)
                print(f"{name:<16}{seed:>3} {len(y):>8,} rows {error:8.4f} {seconds:7.1f} s  {words}", flush=True)


if __name__ == "__main__":
    main()
