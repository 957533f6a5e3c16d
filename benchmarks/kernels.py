"""What every number of the default buys: python -m benchmarks.kernels [--rows N] [--sets ...] [--only FIELD ...]

Every variant replaces a field of the policy, or some of a kind. Errors (RMSE, targets standardised, relative to the
default's, clipped to [0.5, 2]) and seconds of CPU, on rows of sets that choices are made on and on Example 2 with 40
inputs; `JUDGED` are kept for judging alone, fixed before anything was measured. Split 0, one thread, seed 0. The last
column is the standard error of the mean logarithm of the errors' ratios: how far it may move by chance of the sets.
"""

import argparse
import os
import time
from dataclasses import fields, replace
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from mlkm import MLKMRegressor
from mlkm.datasets import make_example2
from mlkm.search.policy import Policy, policy_context

from . import real
from .problem import Problem, standardised

JUDGED = [*real.SETS[2::3], "yearmsd/yearmsd_8k"]
DECIDED_ON = [name for name in real.SETS if name not in JUDGED]
SOME = [
    "example2", "uci_evans/airfoil", "uci_evans/housing", "uci_evans/pol", "uci_evans/skillcraft",
    "single/california_housing", "single/bike_sharing_hour", "single/abalone",
]  # fmt: skip

# field: values less and more, or one; beside it other fields or arguments under which it matters at all
VARIANTS: dict[str, list[Any]] = {
    "beyond": [0.5, 10.0],
    "none_dropped": [6, 10**6],
    "most_inputs": [20, 300],
    "chance": [0.005, 0.3],
    "checked_rows": [0, 3000],
    "screened_rows": [500, 10**6],
    "screening_waves": [(2, 1), (8, 5)],
    "leaders": [0, 5],
    "draws": [1, 4],
    "least_transformed": [5, 10**6],
    "spread": [2.0, 10.0],
    "first_joint_rows": [200, 800],
    "joint_rows": [500, 1200],
    "left_samples": [0, 16],
    "least_left_samples": [1, 4],
    "gaps": [2_000_000, 160_000_000],
    "joint_steps": [(8, 8), (25, 25)],
    "least_gain": [(1e-2, 4), (1e-4, 4)],
    "joint_frequencies": [2, 7],
    "joint_prior": [(0.002, 0.005), (0.2, 0.5)],
    "most_frequencies": [4, 30],
    "most_turned": [0, 100],
    "text_rows": [500, 8000],
    "least_local": [0.0, 1e-2],
    "variance_rows": [400, 1600],
    "variance_steps": [0, 20],
    "kernel_rows": [(0, 0), (20_000, 6000)],
    "left_out_rows": [200, 4000],
    "least_rows": [10],
    "straight": [0.9, 1.1],
    "least_share": [0.0, 0.2],
    "stack_rows": [0, 3000],
    "fifths": [(0, 0), (1000, 1000)],
    "bootstraps": [3, 100],
    "hidden_rows": [1000],
    "hidden_widths": [(100, 4), (600, 32)],
    "hidden_steps": [20, 120],
    "layer_work": [(1e12, 200, 400), (1e12, 800, 8000)],
    "scale_search": [(300, 100, (0.1, 1.0)), (2000, 600, (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2))],
    "worth_depth": [0.0, 10.0],
    "most_landmarks": [400],
    "descent_widths": [(64, 4), (512, 32)],
    "penalties": [(1e-4, 1e-2)],
    "useless": [(10**9, 1.0)],
    "time_share": [0.5, 1.0],
    "effort_steps": [2, 32],
}
WITH: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "layer_work": ({"kernel_rows": (0, 0)}, {}),
    "most_landmarks": ({"kernel_rows": (0, 0)}, {}),
    "left_samples": ({"kernel_rows": (0, 0)}, {}),
    "least_left_samples": ({"kernel_rows": (0, 0)}, {}),
    "left_out_rows": ({"kernel_rows": (0, 0)}, {}),
    "most_frequencies": ({}, {"interactions": 1}),
    "hidden_widths": ({"hidden_rows": 1000}, {}),
    "hidden_steps": ({"hidden_rows": 1000}, {}),
    "descent_widths": ({}, {"solver": "gradient"}),
    "penalties": ({}, {"widths": (200,), "penalty": "cv"}),
    "time_share": ({}, {"effort": 5.0}),
    "effort_steps": ({}, {"effort": 5.0}),
    "scale_search": ({}, {"relevance": False}),
    "worth_depth": ({}, {"widths": (200, 8)}),
}
assert set(VARIANTS) == {field.name for field in fields(Policy)}


def load(name: str, rows: int) -> Problem:
    if name == "example2":
        X, y, _ = make_example2(rows, 40, random_state=0)
        X_test, _, f = make_example2(2000, 40, random_state=1)
        return standardised(X, y, X_test, f)
    problem = real.load(name, 0, most_train=rows)
    assert problem is not None
    return problem


def fit(problem: Problem, values: dict[str, Any], arguments: dict[str, Any]) -> tuple[float, float]:
    """The error at new rows, and seconds."""
    with policy_context(replace(Policy(), **values)):
        begin = time.process_time()
        model = MLKMRegressor(random_state=0, **arguments).fit(problem.X, problem.y)
        seconds = time.process_time() - begin
    return float(np.sqrt(np.mean((model.predict(problem.X_test) - problem.target) ** 2))), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1200, help="training rows at most")
    parser.add_argument("--sets", nargs="+", default=SOME)
    parser.add_argument("--only", nargs="+", default=list(VARIANTS))
    chosen = parser.parse_args()
    problems = [load(name, chosen.rows) for name in chosen.sets]
    begins: dict[str, list[tuple[float, float]]] = {}
    print("| field | value | RMSE / default | seconds / default | standard error |\n|---|---|---|---|---|")
    for field in chosen.only:
        values, arguments = WITH.get(field, ({}, {}))
        key = repr((values, arguments))
        if key not in begins:
            begins[key] = [fit(problem, values, arguments) for problem in problems]
        for value in VARIANTS[field]:
            found = [fit(problem, values | {field: value}, arguments) for problem in problems]
            ratios = np.array(found) / np.array(begins[key])
            logs = np.log(np.clip(ratios[:, 0], 0.5, 2))
            error, time_ratio = np.exp(logs.mean()), np.exp(np.log(ratios[:, 1]).mean())
            spread = logs.std(ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else 0.0
            print(f"| {field} | {value} | {error:.3f} | {time_ratio:.2f} | {spread:.3f} |", flush=True)


if __name__ == "__main__":
    main()
