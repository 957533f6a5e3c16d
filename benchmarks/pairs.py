"""Kernels on all rows against features: python -m benchmarks.pairs [--sets ...] [--rows ...] [--products ...] [--pairs]

* Errors and seconds of the default solved on all rows, and of features and landmarks that stand for the same kernels,
  on simulated data (Example 2, d = 10: distance to the noiseless truth) and on real sets that are large enough.
  Features come from one search and the kernels from as many as the effort has: the ratio is that of both defaults,
  not of an approximation alone. The matrix is stored as long as it fits (`STORED_BYTES` of `mlkm.runtime.sizes`); with
  `--pairs` it never is.
* What one product of the kernel matrix costs when it is not stored. With more rows than `--whole`, some of the pairs of
  blocks are measured, and the time of all follows from their number.

Seconds are those of processors: others may use the machine. `--sets` or `--products` without names leave a part out.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from mlkm import MLKMRegressor
from mlkm.datasets import make_example2
from mlkm.model.sum_kernel import SumKernel
from mlkm.runtime.sizes import PAIR_ROWS
from mlkm.search.policy import Policy, policy_context
from mlkm.solve import dual
from mlkm.solve.dual_matrix import Pairs, Strips, code_blocks, product_of_pairs

from . import real
from .problem import Problem, standardised

SETS = ["example2", "uci_evans/kin40k", "uci_evans/protein", "single/sgemm_gpu", "single/beijing_pm25"]
ROWS = [10_000, 30_000, 60_000, 100_000]


def load(name: str, n: int, split: int) -> Problem | None:
    """At most so many training rows; None where a set has less than 0.6 of them."""
    if name == "example2":
        X, y, _ = make_example2(n, 10, random_state=split)
        X_test, _, truth = make_example2(5000, 10, random_state=5000 + split)
        return standardised(X, y, X_test, truth)
    problem = real.load(name, split, most_train=n, most_test=5000)
    return problem if problem is not None and len(problem.y) > 0.6 * n else None


@contextmanager
def counted() -> Iterator[list[str]]:
    """The names of the classes of all products taken inside."""
    taken: list[str] = []

    def counting(cls: type) -> Callable[..., Any]:
        product = cls.product  # type: ignore[attr-defined]

        def own(self: Any, V: np.ndarray) -> np.ndarray:
            taken.append(cls.__name__)
            return product(self, V)

        return own

    with mock.patch.object(Strips, "product", counting(Strips)), mock.patch.object(Pairs, "product", counting(Pairs)):
        yield taken


def measure(problem: Problem, kernel_rows: tuple[int, int], effort: str) -> tuple[float, float, float, str]:
    """RMSE, seconds of the fit and of the predictions, and how many products of which kind there were."""
    with policy_context(replace(Policy(), kernel_rows=kernel_rows)), counted() as taken:
        begin = time.process_time()
        model = MLKMRegressor(effort=effort, random_state=0).fit(problem.X, problem.y)
        fitted = time.process_time()
    missed = np.ravel(model.predict(problem.X_test)) - problem.target
    kinds = ", ".join(f"{taken.count(kind)} products by {kind.lower()}" for kind in sorted(set(taken)))
    return float(np.sqrt(np.mean(missed**2))), fitted - begin, time.process_time() - fitted, kinds or "by a factor"


def compare(name: str, n: int, split: int, effort: str) -> None:
    problem = load(name, n, split)
    if problem is None:
        return
    features, exact = (measure(problem, (most, most), effort) for most in (0, n))
    print(
        f"{name}, {len(problem.y)} rows: features {features[0]:.4f} in {features[1]:.0f} s (predictions"
        f" {features[2]:.1f} s); kernels {exact[0]:.4f} in {exact[1]:.0f} s ({exact[2]:.1f} s), {exact[3]}; ratio"
        f" {exact[0] / features[0]:.3f}",
        flush=True,
    )


def learned_kernel(effort: str, n: int = 4000) -> tuple[SumKernel, int]:
    """The kernel of a fit to Example 2, and its number of inputs."""
    found: list[SumKernel] = []
    solve = dual.solve_dual

    def kept(kernel: SumKernel, *others: Any) -> dual.DualFit:
        found.append(kernel)
        return solve(kernel, *others)

    X, y, _ = make_example2(n, 10, random_state=0)
    with mock.patch("mlkm.fit.default.solve_dual", kept):
        MLKMRegressor(effort=effort, random_state=0).fit(X, y)
    return found[0], X.shape[1]


def product(kernel: SumKernel, d: int, n: int, whole: int, some: int = 400) -> None:
    """One product, or some of its pairs of blocks."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), np.float32)
    parts = code_blocks(kernel.codes(X))
    V, ridge = rng.standard_normal((n, 2)), np.ones(n)
    if n <= whole:
        matrix = Pairs(kernel, parts, ridge)
        begin = time.process_time()
        matrix.product(V)
        seconds, told = time.process_time() - begin, "measured"
    else:
        at, single = rng.integers(len(parts) - 1, size=(some, 2)), V.astype(np.float32)
        begin = time.process_time()
        for i, j in at.tolist():
            both = np.vstack([single[k * PAIR_ROWS : (k + 1) * PAIR_ROWS] for k in (i, j)])
            product_of_pairs(kernel, [parts[i], parts[j]], both, [(0, 1)])
        each, n_pairs = (time.process_time() - begin) / some, len(parts) * (len(parts) + 1) // 2
        seconds, told = each * n_pairs, f"by {some} of {n_pairs} pairs of blocks"
    print(
        f"one product, {n} rows: {seconds:.3g} s, {seconds / (n * n / 2) * 1e9:.1f} ns a pair of rows, {told}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS)
    parser.add_argument("--effort", default="balanced")
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--pairs", action="store_true", help="never store a matrix")
    parser.add_argument("--products", nargs="*", type=int, default=[5000, 10_000, 20_000, 40_000, 100_000, 1_000_000])
    parser.add_argument("--whole", type=int, default=40_000, help="rows up to which products are measured as a whole")
    args = parser.parse_args()
    if args.products:
        kernel, d = learned_kernel(args.effort)
        print(f"kernels of {args.effort!r} for Example 2 with d = {d}: {len(kernel.terms)} terms", flush=True)
        for n in args.products:
            product(kernel, d, n, args.whole)
    stored = 0.0 if args.pairs else dual.STORED_BYTES
    with mock.patch.object(dual, "STORED_BYTES", stored):
        for name in args.sets:
            for n in args.rows:
                compare(name, n, args.split, args.effort)


if __name__ == "__main__":
    main()
