"""A table larger than memory should be: `python -m benchmarks.big_table out.parquet --rows 10000000` writes it.

Twenty float32 columns, of which nine act on the target, some together: a smooth truth with interactions, noise of
standard deviation 1, rows by row group from a seed of their own, so that a part of the file is the same whatever its
length. The noiseless truth is a column of its own, `truth`, which no fit is shown.
"""

import argparse
from pathlib import Path

import numpy as np

GROUP = 250_000


def truth(X):
    """f(x): its variance is about 4, the noise's 1."""
    X = X.astype(np.float64)
    smooth = 2 * np.sin(np.pi * X[:, 0]) + 1.5 * (X[:, 1] ** 2 - 1 / 3) + np.exp(X[:, 2]) - 1.175
    together = 2 * X[:, 3] * X[:, 4] + 1.5 * np.sin(np.pi * (X[:, 5] + X[:, 6])) + 2 * np.abs(X[:, 7]) * X[:, 8]
    return smooth + together


def rows(group, n, d=20):
    """Rows of one group: inputs, targets and the truth."""
    rng = np.random.default_rng([7, group])
    X = rng.uniform(-1, 1, (n, d)).astype(np.float32)
    f = truth(X)
    return X, (f + rng.standard_normal(n)).astype(np.float32), f.astype(np.float32)


def names(d=20):
    return [f"x{j}" for j in range(d)]


def write(path, n, d=20):
    """One row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.float32()) for name in [*names(d), "y", "truth"]])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for group, begin in enumerate(range(0, n, GROUP)):
            X, y, f = rows(group, min(GROUP, n - begin), d)
            writer.write_table(pa.table([*X.T, y, f], schema=schema), row_group_size=GROUP)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=20)
    options = parser.parse_args()
    write(options.out, options.rows, options.columns)
    print(f"{options.out}: {options.rows:,} rows, {options.out.stat().st_size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
