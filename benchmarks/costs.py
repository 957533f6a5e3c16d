"""What fits were said to take, and took: python -m benchmarks.costs [--efforts fast balanced] [--sizes 300x10 3000x10]

Estimated and measured seconds and memory of the default on Example 2, and the ratio of both. Every fit has a process of
its own. Seconds are those of the processor, so that a busy machine does not blur them: set OPENBLAS_NUM_THREADS=1,
since searches side by side count twice.
"""

import argparse
import multiprocessing
import resource
from time import process_time

from mlkm import MLKMRegressor
from mlkm.datasets import make_example2

SIZES = ("100x5", "300x10", "900x10", "3000x10", "3000x30", "8000x10", "20000x10", "50000x10")


def measure(effort: str, n: int, d: int) -> tuple[float, float, float, float]:
    """Seconds and bytes, estimated and measured."""
    X, y, _ = make_example2(n, d, noise=0.3, random_state=0)
    model = MLKMRegressor(effort=effort, random_state=0)
    cost = model.estimate_cost(n, d)
    begin = process_time()
    model.fit(X, y)
    taken = process_time() - begin
    return cost.seconds, taken, cost.memory, 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--efforts", nargs="+", default=["fast", "balanced"])
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    args = parser.parse_args()
    print("| effort | n | d | s estimated | s measured | ratio | GB estimated | GB measured | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for effort in args.efforts:
        for n, d in (map(int, size.split("x")) for size in args.sizes):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                said, taken, memory, peak = pool.apply(measure, (effort, n, d))
            print(
                f"| {effort} | {n} | {d} | {said:.2f} | {taken:.2f} | {said / taken:.2f} | {memory / 1e9:.2f} |"
                f" {peak / 1e9:.2f} | {memory / peak:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
