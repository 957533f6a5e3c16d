"""Can the default be trusted with tables? python -m benchmarks.table_checks shuffled | bands | masks | levels

`shuffled`: targets of the training rows in another order, so that they have nothing to do with the columns: the error
relative to that of their mean. Means of y per level that leak would show.

`bands`: the share of the test rows that a 90 % band covers, and its mean length in standard deviations of y.

`masks`: numeric sets with categorical columns, told by `categorical_features`, beside the benchmark's one-hot columns.

`levels`: the time of a fit with a column of 10,000 names beside one with a column of numbers, 20,000 rows each.
"""

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

from mlkm import ConformalRegressor, MLKMRegressor, metrics

from . import real, tables

MASKED = ("single/seoul_bike", "single/beijing_pm25", "single/abalone")
LEVEL = 0.9


def shuffled(sets: list[str]) -> None:
    """Small tables several times: a hundred test rows say little."""
    ratios = []
    for name in sets or tables.SETS:
        problem, errors, means = tables.load(name, 0), [], []
        for k in range(max(1, 1000 // len(problem.target))):
            y = np.random.default_rng(k).permutation(problem.y)
            f = MLKMRegressor(random_state=0).fit(problem.X, y).predict(problem.X_test)
            errors.append(np.mean((f - problem.target) ** 2))
            means.append(np.mean((y.mean() - problem.target) ** 2))
        ratios.append(float(np.sqrt(np.mean(errors) / np.mean(means))))
        print(f"{name}: {ratios[-1]:.4f} of the mean's error, {len(errors)} times", flush=True)
    print(f"largest of {len(ratios)}: {max(ratios):.4f}")


def bands(sets: list[str]) -> None:
    """Ten splits of small tables: a band on a hundred test rows says little."""
    shares = {}
    for name in sets or tables.SETS:
        inside = total = 0
        for split in range(10 if len(tables.load(name, 0).target) < 500 else 2):
            problem = tables.load(name, split)
            band = ConformalRegressor(MLKMRegressor(random_state=0), confidence_level=LEVEL, random_state=0)
            interval = band.fit(problem.X, problem.y).predict_interval(problem.X_test)[1]
            found = metrics.coverage(problem.target, interval)
            inside, total = inside + round(found.share * found.n), total + found.n
            width = metrics.mean_width(interval)
            print(f"{name} {split}: {100 * found.share:.1f} % of {found.n}, length {width:.3f}", flush=True)
        shares[name] = inside / total
        print(f"{name}: {100 * shares[name]:.1f} % of {total}", flush=True)
    low, high = (100 * f(shares.values()) for f in (min, max))
    print(f"{len(shares)} tables, bands of {LEVEL:.0%}: {low:.1f} to {high:.1f} %")


def masks(sets: list[str]) -> None:
    for name in sets or MASKED:
        for split in (0, 1):
            problem, errors = real.load(name, split), []
            for train, test, mask in (
                (problem.X, problem.X_test, None),
                (problem.raw, problem.raw_test, real.categorical(name)),
            ):
                model = MLKMRegressor(categorical_features=mask, random_state=0).fit(train, problem.y)
                errors.append(np.sqrt(np.mean((model.predict(test) - problem.target) ** 2)))
            print(f"{name} {split}: one-hot {errors[0]:.4f}, as categories {errors[1]:.4f}", flush=True)


def levels(sets: list[str]) -> None:
    rng, n = np.random.default_rng(0), 20_000
    numbers, codes = rng.standard_normal((n, 4)), rng.integers(0, 10_000, n)
    effect = rng.standard_normal(10_000)
    seconds = {}
    for name, column, target in (
        ("numbers", codes.astype(float), np.sin(codes / 1000)),
        ("levels", np.array(_names(10_000, rng), object)[codes], effect[codes]),
    ):
        frame = pd.DataFrame(numbers, columns=list("abcd")).assign(last=column)
        y = np.sin(2 * numbers[:, 0]) + target + 0.3 * rng.standard_normal(n)
        begin = time.process_time()
        MLKMRegressor(random_state=0).fit(frame, y)
        seconds[name] = time.process_time() - begin
        print(f"{name}: {seconds[name]:.1f} s of CPU, {seconds[name] / seconds['numbers']:.2f} of numbers", flush=True)


def _names(n: int, rng: np.random.Generator) -> list[str]:
    """Two words each, most of them different."""
    syllables = [a + b for a in "bcdfghklmnprst" for b in "aeiou"]
    return [" ".join("".join(rng.choice(syllables, 3)) for _ in range(2)) for _ in range(n)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    checks = {check.__name__: check for check in (shuffled, bands, masks, levels)}
    parser.add_argument("check", choices=list(checks))
    parser.add_argument("--sets", nargs="+", default=[])
    args = parser.parse_args()
    checks[args.check](args.sets)


if __name__ == "__main__":
    main()
