"""The default against CatBoost, LightGBM and ridge on real data, in one run with the same threads.

    MLKM_DATA_HOME=... python benchmarks/real.py --splits 0 --models mlkm catboost lightgbm

Prints RMSE (targets standardised on the training rows) and fit seconds for every set, the geometric mean of RMSE over CatBoost's (ratios clipped to
[0.5, 2]) and both median fit times; with `--peers FILE` (columns dataset, split, method, rmse) also the ratio to each set's best peer in that file.
Results go to results/real.csv as they come; sets already there are not run again.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np
from splits import SETS, load
from threadpoolctl import threadpool_limits


def fit(model: str, split, seed: int, threads: int):
    """Predictions and fit seconds."""
    X, X_test = (split.T, split.T_test) if model in ("catboost", "lightgbm") else (split.X, split.X_test)
    if model == "mlkm":
        from mlkm import MLKMRegressor

        estimator = MLKMRegressor(random_state=seed)
    elif model == "catboost":
        from catboost import CatBoostRegressor

        estimator = CatBoostRegressor(random_seed=seed, thread_count=threads, verbose=False, allow_writing_files=False)
    elif model == "lightgbm":
        from lightgbm import LGBMRegressor

        estimator = LGBMRegressor(n_estimators=1000, learning_rate=0.05, num_leaves=63, random_state=seed, n_jobs=threads, verbose=-1)
    else:
        from sklearn.linear_model import RidgeCV

        estimator = RidgeCV(alphas=np.logspace(-4, 4, 17))
    begin = time.perf_counter()
    with threadpool_limits(threads):
        estimator.fit(X, split.y)
    seconds = time.perf_counter() - begin
    return estimator.predict(X_test), seconds


def geometric_mean(ratios) -> float:
    return float(np.exp(np.log(np.clip(ratios, 0.5, 2)).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--splits", nargs="*", type=int, default=[0])
    parser.add_argument("--models", nargs="*", default=["mlkm", "catboost"], choices=["mlkm", "catboost", "lightgbm", "ridge"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/real.csv"))
    args = parser.parse_args()
    args.out.parent.mkdir(exist_ok=True)
    done: dict[tuple[str, int, str], tuple[float, float]] = {}
    if args.out.exists():
        with args.out.open() as file:
            done = {(r["dataset"], int(r["split"]), r["model"]): (float(r["rmse"]), float(r["seconds"])) for r in csv.DictReader(file)}
    else:
        args.out.write_text("dataset,split,model,rmse,seconds,threads\n")
    for name in args.sets:
        for number in args.splits:
            split = load(name, number)
            if split is None:
                continue
            for model in args.models:
                if (name, number, model) not in done:
                    prediction, seconds = fit(model, split, number, args.threads)
                    done[name, number, model] = float(np.sqrt(np.mean((prediction - split.y_test) ** 2))), seconds
                    with args.out.open("a") as file:
                        file.write(f"{name},{number},{model},{done[name, number, model][0]:.6g},{seconds:.3f},{args.threads}\n")
            row = "  ".join(f"{model} {done[name, number, model][0]:.4f} ({done[name, number, model][1]:.1f} s)" for model in args.models)
            print(f"{name} split {number}, n = {len(split.y)}, d = {split.X.shape[1]}: {row}", flush=True)
    summary(done, args)


def summary(done, args) -> None:
    """Geometric means and the ratio of median times."""
    cells = [(name, number) for name in args.sets for number in args.splits if (name, number, "mlkm") in done]
    for other in args.models:
        pairs = [(done[(*cell, "mlkm")], done[(*cell, other)]) for cell in cells if (*cell, other) in done]
        if other != "mlkm" and pairs:
            times = np.median([a[1] for a, _ in pairs]), np.median([b[1] for _, b in pairs])
            mean = geometric_mean([a[0] / b[0] for a, b in pairs])
            print(
                f"RMSE of mlkm over {other}: geometric mean {mean:.3f} on {len(pairs)} splits; median fit {times[0]:.1f} s against {times[1]:.1f} s"
            )
    if args.peers:
        best: dict[tuple[str, int], float] = {}
        with args.peers.open() as file:
            for r in csv.DictReader(file):
                key, rmse = (r["dataset"], int(r["split"])), float(r["rmse"])
                if np.isfinite(rmse):
                    best[key] = min(best.get(key, np.inf), rmse)
        ratios = {cell: done[(*cell, "mlkm")][0] / best[cell] for cell in cells if cell in best}
        print(f"RMSE over the best peer of {args.peers.name}: geometric mean {geometric_mean(list(ratios.values())):.3f}; above 1.4:", end=" ")
        print(", ".join(f"{name} {ratio:.2f}" for (name, _), ratio in ratios.items() if ratio > 1.4) or "none")


if __name__ == "__main__":
    main()
