"""Features that stand for the kernels of many rows: `python -m benchmarks.landmarks kin40k --features 1000`.

One search, and its kernels as

* both: cosines for the smooth ones and landmarks for the rough ones, whitened by themselves, half of the features each;
* sum: the sum of all of them at landmarks, with half as many features, as many, and more.

Rows, units and sets are those of `benchmarks.many_rows`; of large sets at most `--rows` are fitted. Cosines of single
inputs come on top in all of them. Seconds are those of processors: others may use the machine.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from time import process_time

import numpy as np

from mlkm.data import Block, blocks, plain_rows, standardiser
from mlkm.model.prior import Prior
from mlkm.model.sum_kernel import SumKernel
from mlkm.search.kernel_features import features_of, landmarks_of, with_role
from mlkm.search.kernel_search import LearnedKernel, learn_kernel, with_residual_search
from mlkm.search.plan import Plan
from mlkm.search.policy import Policy
from mlkm.solve.ridge import system_of_rows

from .many_rows import DECIDE, split

_SAMPLE = 20_000


def plan_of(n: int, d: int) -> Plan:
    return replace(Plan.parse({}, landmarks=True).at(d, n_rows=n), policy=replace(Policy(), draws=1))


def candidates(learned: LearnedKernel, sample: Block, plan: Plan, D: int) -> Iterator[tuple[str, Prior]]:
    """With about D features."""
    smooth, rough = with_role(learned.kernel, "smooth"), with_role(learned.kernel, "landmarks")
    half = replace(plan, rough=False, policy=replace(plan.policy, layer_work=(1e12, D // 2, D // 2)))
    cosines = features_of(learned, sample, half)
    parts = (landmarks_of(SumKernel(tuple(rough)), sample.X[: D // 2], cosines.precise),) if rough else ()
    yield "both", replace(cosines, parts=(*cosines.parts, *parts))
    single = features_of(replace(learned, kernel=_without(learned.kernel, (*smooth, *rough))), sample, half)
    for m in (D // 2, D, 2 * D) if smooth + rough else ():
        part = landmarks_of(SumKernel((*smooth, *rough)), sample.X[:m], cosines.precise)
        yield "sum", replace(single, parts=(*single.parts, part))


def _without(kernel: SumKernel, terms: tuple[object, ...]) -> SumKernel:
    return replace(kernel, terms=tuple(term for term in kernel.terms if not any(term is one for one in terms)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=DECIDE)
    parser.add_argument("--features", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.sets:
        X, y, X_test, target, unit = split(name, options.seed)
        order = np.random.default_rng(5).permutation(len(y))[: options.rows]
        X, Y = X[order].astype(float), y[order, None].astype(float)
        of_x, of_y = standardiser(X, np.ones(len(X))), standardiser(Y, np.ones(len(Y)))
        X, Y, X_test = of_x.forward(X), of_y.forward(Y), of_x.forward(X_test.astype(float))
        sample, plan = plain_rows(X[:_SAMPLE], Y[:_SAMPLE]), plan_of(*X.shape)
        learned = with_residual_search(learn_kernel(sample, plan), sample, 1.0, plan)
        for words, prior in candidates(learned, sample, plan, options.features):
            begin = process_time()
            fit = system_of_rows(prior, plain_rows(X, Y)).fit(None)
            Z, f = prior.inputs(X_test), prior.rows_of_features
            fitted = np.vstack([f(Z[at]) @ fit.coefficients + fit.intercept for at in blocks(len(Z), 2048)])
            error = float(np.sqrt(np.mean((of_y.backward(fitted)[:, 0] - target) ** 2)) / unit)
            print(f"{name:<16}{len(Y):>8,} rows {words:<5}{prior.n_features:>6} features {error:8.4f} "
                  f"{process_time() - begin:7.1f} s", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
