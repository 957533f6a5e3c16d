"""Is the default honest with few rows? python -m benchmarks.honest noise | errors [--repeats R]

`noise`: targets that have nothing to do with the inputs; the root mean squared error of the default, relative to that
of the mean of the training targets, over n = 10 to 1000 rows and d = 1 to 30 inputs. Expectations over new targets are
exact: the truth is zero.

`errors`: the error that a fit reports (`loo_error_`) beside the error at new rows, both averaged over repeats, for 30
sizes from n = 30 to 2000 and d = 1 to 1000; y = sin(2 x_1) + x_2 / 2 + noise of standard deviation 0.3.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from mlkm import MLKMRegressor


def repeats_of(n: int, most: int) -> int:
    """Fewer repeats of larger data."""
    return max(1 if n > 1000 else 3, min(most, most * 100 // n))


def noise(most: int) -> None:
    ratios = {}
    for n in (10, 20, 30, 50, 100, 300, 1000):
        for d in (1, 2, 5, 10, 30):
            ours = means = 0.0
            for k in range(repeats_of(n, most)):
                rng = np.random.default_rng([n, d, k])
                X, y, new = rng.standard_normal((n, d)), rng.standard_normal(n), rng.standard_normal((1000, d))
                ours += 1 + float(np.mean(MLKMRegressor(random_state=k).fit(X, y).predict(new) ** 2))
                means += 1 + float(y.mean() ** 2)
            ratios[n, d] = np.sqrt(ours / means)
            print(f"n = {n}, d = {d}: {ratios[n, d]:.3f} of the mean's error", flush=True)
    print(f"largest: {max(ratios.values()):.3f}")


def example(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((n, d))
    f = np.sin(2 * X[:, 0]) + (X[:, 1] / 2 if d > 1 else 0)
    return X, f + 0.3 * rng.standard_normal(n)


def errors(most: int) -> None:
    inside = []
    for d in (1, 5, 30, 200, 1000):
        for n in (30, 60, 125, 250, 700, 2000):
            said = true = 0.0
            for k in range(repeats_of(n, most)):
                rng = np.random.default_rng([n, d, k])
                X, y = example(rng, n, d)
                new, target = example(rng, 1000, d)
                model = MLKMRegressor(random_state=k).fit(X, y)
                said += model.loo_error_
                true += float(np.mean((model.predict(new) - target) ** 2))
            inside.append(0.8 <= said / true <= 1.25)
            print(
                f"n = {n}, d = {d}: said / true {said / true:.2f} (mean square {true / repeats_of(n, most):.3g})",
                flush=True,
            )
    print(f"between 0.8 and 1.25: {sum(inside)} of {len(inside)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["noise", "errors"])
    parser.add_argument("--repeats", type=int, default=40)
    arguments = parser.parse_args()
    {"noise": noise, "errors": errors}[arguments.what](arguments.repeats)
