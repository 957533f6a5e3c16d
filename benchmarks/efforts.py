"""What effort buys: python -m benchmarks.efforts [--sets ...] [--efforts fast best] [--split 0]

Errors and fit times of the default with each effort beside CatBoost's in the same run, one thread, and against the best
peer in a file of reference results (`--peers`).
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from mlkm import MLKMRegressor

from . import real
from .summary import CLIP


def _rmse(prediction: np.ndarray, target: np.ndarray) -> float:
    return float(np.sqrt(np.mean((np.ravel(prediction) - target) ** 2)))


def _mean(ratios: list[float]) -> float:
    return float(np.exp(np.mean(np.log(np.clip(ratios, *CLIP)))))


def main() -> None:
    import pandas as pd
    from catboost import CatBoostRegressor

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=real.SETS)
    parser.add_argument("--efforts", nargs="+", default=["fast", "balanced", "best"])
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--peers", type=Path, help="a CSV file with columns dataset, split, method, rmse")
    args = parser.parse_args()
    best = None if args.peers is None else pd.read_csv(args.peers).groupby(["dataset", "split"])["rmse"].min()
    found: dict[str, list[tuple[float, float, float]]] = {effort: [] for effort in args.efforts}
    for name in (full for full in real.SETS if full in args.sets or full.split("/")[-1] in args.sets):
        problem = real.load(name, args.split)
        if problem is None:
            continue
        begin = time.perf_counter()
        trees = CatBoostRegressor(random_seed=args.split, thread_count=1, verbose=False, allow_writing_files=False)
        error = _rmse(trees.fit(problem.raw, problem.y).predict(problem.raw_test), problem.target)
        seconds = time.perf_counter() - begin
        told = [f"{name}: CatBoost {error:.4g} in {seconds:.1f} s"]
        peer = np.nan if best is None else float(best.get((name, args.split), np.nan))
        for effort in args.efforts:
            begin = time.perf_counter()
            model = MLKMRegressor(effort=effort, random_state=args.split).fit(problem.X, problem.y)
            taken = time.perf_counter() - begin
            own = _rmse(model.predict(problem.X_test), problem.target)
            found[effort].append((own / error, own / peer, taken / seconds))
            told.append(f"{effort} {own:.4g} in {taken:.1f} s")
        print("; ".join(told), flush=True)
    for effort, ratios in found.items():
        errors, peers, times = (list(column) for column in zip(*ratios, strict=True))
        print(
            f"{effort}, {len(times)} sets: RMSE / CatBoost {_mean(errors):.3f}, / best peer {_mean(peers):.3f}, worst"
            f" {max(peers):.2f}, time / CatBoost's: median {np.median(times):.2f}, largest {max(times):.1f}"
        )


if __name__ == "__main__":
    main()
