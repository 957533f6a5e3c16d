"""What the sizes of the default's kernels buy: python -m benchmarks.kernels [--rows N] [--sets ...]

Every variant replaces some fields of the policy. Errors (RMSE, targets standardised) and seconds of CPU on rows of the
sets that choices are made on; `JUDGED` are kept for judging alone, fixed before anything was measured. Split 0, one
thread.
"""

import argparse
import os
import time
from dataclasses import replace
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from mlkm import MLKMRegressor
from mlkm.auto.policy import Policy, policy_context

from . import real

JUDGED = [*real.SETS[2::3], "yearmsd/yearmsd_8k"]
DECIDED_ON = [name for name in real.SETS if name not in JUDGED]

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "one search": {"draws": 1},
    "four searches": {"draws": 4},
    "first climb on 800 rows": {"first_joint_rows": 800},
    "searches on 600 rows": {"joint_rows": 600, "first_joint_rows": 300},
    "directions that do not turn": {"most_turned": 0},
    "variances as learned": {"weigh_steps": 0},
    "a quarter of the rows solved": {"solve_rows": 500},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2000, help="training rows at most")
    parser.add_argument("--sets", nargs="+", default=DECIDED_ON)
    arguments = parser.parse_args()
    errors: dict[str, list[float]] = {name: [] for name in VARIANTS}
    seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for name in arguments.sets:
        problem = real.load(name, 0, most_train=arguments.rows)
        assert problem is not None
        for variant, fields in VARIANTS.items():
            with policy_context(replace(Policy(), **fields)):
                begin = time.process_time()
                model = MLKMRegressor(random_state=0).fit(problem.X, problem.y)
                seconds[variant].append(time.process_time() - begin)
            errors[variant].append(float(np.sqrt(np.mean((model.predict(problem.X_test) - problem.target) ** 2))))
        print(name, {variant: round(of[-1], 4) for variant, of in errors.items()}, flush=True)
    for variant in VARIANTS:
        ratio = np.exp(np.mean(np.log(np.array(errors[variant]) / errors["default"])))
        print(f"{variant:30s} RMSE / default {ratio:.3f}, median {np.median(seconds[variant]):.1f} s")


if __name__ == "__main__":
    main()
