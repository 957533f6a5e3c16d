"""Table 10's experiment on a file that is read a piece at a time: python -m benchmarks.year_layout --rows 463715.

The file has YearPredictionMSD's layout, a year from 1922 to 2011 and 90 inputs, twelve of some tens and 78 of some
thousands, with simulated values: the year is a nonlinear function of eight inputs plus noise of standard deviation 8,
rounded. The settings are the published ones (`paper.settings`): d-256-128-64-1, Laplacian and Gaussian features,
batches of 1024, 20 epochs. Where descent diverges, the learning rate is divided by three and the run begins again, as
in the paper's other tables. The 95 % band is calibrated on a file of its own.

`--memory` is what a fit may take, so that rows beyond it are streamed; `--in-memory` fits the same rows at once.
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from paper.settings import DESCENT_LARGE, SHAPE_LARGE
from sklearn.frozen import FrozenEstimator

from mlkm import ConformalRegressor, MLKMRegressor, RKMRegressor, config_context, metrics, open_table
from mlkm.solve import GradientDescent

INPUTS = 90
UNITS = np.concatenate([np.full(12, 20.0), np.full(INPUTS - 12, 1500.0)])  # standard deviations of the inputs
NAMES = [*(f"average{j}" for j in range(12)), *(f"covariance{j}" for j in range(INPUTS - 12))]
GROUP = 10_000  # rows that are simulated and written at a time


def simulate(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and years."""
    Z = rng.standard_normal((n, INPUTS))
    f = 5 * np.sin(Z[:, 0]) + 3 * Z[:, 1] + 3 * Z[:, 2] * Z[:, 3] - 2 * Z[:, 20] ** 2 + 3 * np.tanh(Z[:, 30] + Z[:, 40])
    y = np.clip(np.rint(2002 + f + 2 * Z[:, 60] + 8 * rng.standard_normal(n)), 1922, 2011)
    return Z * UNITS, y


def write(path: Path, n: int, seed: int) -> Path:
    """A Parquet file of n rows; memory does not grow with them."""
    schema = pa.schema([("year", pa.float64()), *((name, pa.float64()) for name in NAMES)])
    rng = np.random.default_rng(seed)
    with pq.ParquetWriter(path, schema) as file:
        for begin in range(0, n, GROUP):
            X, y = simulate(min(GROUP, n - begin), rng)
            file.write_table(pa.table([y, *X.T], schema=schema))
    return path


def model_of(system: str, epochs: int, seed: int) -> Any:
    """MLKM, RKM, or with rotations MLKM+ and RKM+, in the settings of Table 10; scales are those of standardised
    inputs."""
    descent, first = DESCENT_LARGE[system.rstrip("+")], SHAPE_LARGE.scales[0]
    solver = GradientDescent(
        descent.learning_rate, descent.momentum, descent.batch_size, max_iter=epochs, initial=descent.init or 0.1
    )
    return (RKMRegressor if system.startswith("RKM") else MLKMRegressor).published(
        SHAPE_LARGE.widths, (first / UNITS, *SHAPE_LARGE.scales[1:]), kernels=SHAPE_LARGE.kernels,
        penalty=descent.weight_decay / 2, cv="rotate" if system.endswith("+") else None, solver=solver,
        random_state=seed,
    )  # fmt: skip


def fit(model: Any, *data: Any) -> tuple[Any, float, float, float]:
    """The fitted model, its learning rate, and the seconds and processor seconds of the fit that did not diverge."""
    while True:
        rate, begin = model.get_params()["solver__learning_rate"], (time.perf_counter(), time.process_time())
        try:
            return model.fit(*data), rate, time.perf_counter() - begin[0], time.process_time() - begin[1]
        except ValueError as error:
            if "diverged" not in str(error) or rate < 1e-12:
                raise
        model.set_params(solver__learning_rate=rate / 3)


def peak_memory() -> float:
    """Megabytes that the process has taken at most."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=463_715)
    parser.add_argument("--test-rows", type=int, default=51_630)
    parser.add_argument("--calibration-rows", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--systems", nargs="+", default=["MLKM", "RKM", "MLKM+"])
    parser.add_argument("--memory", default="100MB", help="what a fit may take; four copies of the rows are compared")
    parser.add_argument("--in-memory", action="store_true", help="fit the rows as one table in memory, for comparison")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, config_context(max_memory=options.memory):
        sizes = {"train": options.rows, "calibration": options.calibration_rows, "test": options.test_rows}
        path = {name: write(Path(folder) / f"{name}.parquet", n, k) for k, (name, n) in enumerate(sizes.items())}
        train, calibration = (open_table(path[name], "year") for name in ("train", "calibration"))
        years = pq.read_table(path["test"], columns=["year"])["year"].to_numpy()
        size = path["train"].stat().st_size / 1e6
        print(f"{options.rows} x {INPUTS}, {size:.0f} MB; variance of the test years {years.var():.2f}", flush=True)
        print(f"before the first fit the process has taken {peak_memory():.0f} MB", flush=True)
        data = (train,)
        if options.in_memory:
            frame = pq.read_table(path["train"]).to_pandas()
            data = (frame[NAMES], frame["year"].to_numpy())
        for system in options.systems:
            model, rate, seconds, cpu = fit(model_of(system, options.epochs, options.seed), *data)
            begin = time.perf_counter()
            band = ConformalRegressor(FrozenEstimator(model), confidence_level=0.95).conformalize(calibration)
            mean, interval = band.predict_interval(open_table(path["test"], features=NAMES))
            later = time.perf_counter() - begin
            width, each, own = (
                float(np.mean(interval[:, 1] - interval[:, 0])),
                seconds / model.n_iter_,
                cpu / model.n_iter_,
            )
            print(
                f"{system:6} test MSE {np.mean((mean - years) ** 2):.2f}  band {width:.1f}"
                f" wide, covers {metrics.coverage(years, interval).share:.3f}  learning rate {rate:.1e}"
                f"  {model.n_iter_} epochs, {each:.1f} s each ({own:.1f} s of processor, scan and errors included)"
                f"  band in {later:.1f} s"
                f"  at most {peak_memory():.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
