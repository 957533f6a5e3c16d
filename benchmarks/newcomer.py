"""How long it takes from a checkout to a model with its report: python -m benchmarks.newcomer.

A new environment, the install command of the README, a CSV file of mixed columns with gaps that is made here, and
`mlkm fit` with a report. Every step is timed; the bar is three minutes in all.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
BAR = 180.0  # seconds
_LEFT = shutil.ignore_patterns(".git", ".venv*", "build", "*.egg-info", "__pycache__", "results", "data")


def write_table(path: Path, n: int, seed: int = 0) -> None:
    """Houses: numbers, categories, a date, missing values everywhere, and a price that is missing now and then."""
    rng = np.random.default_rng(seed)
    area, distance = np.exp(rng.normal(4.3, 0.45, n)), rng.gamma(2, 3, n)
    year, day = rng.integers(1890, 2024, n), rng.integers(0, 3200, n)
    cities = np.array(["Oslo", "Rome", "Lima", "Cairo", "Quito"])
    city, kind = rng.choice(5, n, p=[0.3, 0.25, 0.2, 0.15, 0.1]), rng.choice(["flat", "house", "studio"], n)
    level = np.array([1.5, 1.2, 0.8, 0.7, 0.75])[city]
    price = (
        2.2 * area * level * (1 + 0.6 * np.exp(-distance / 4)) * (1 + 0.35 * day / 3200) * (1 + 0.15 * (year > 1990))
    )
    price += 60 * (kind == "house") + 12 * level * rng.standard_normal(n)
    sold = np.datetime64("2015-01-01") + day.astype("timedelta64[D]")
    columns = {
        "area": [f"{x:.1f}" for x in area],
        "year": year.astype(str).tolist(),
        "city": cities[city].tolist(),
        "kind": kind.tolist(),
        "sold": sold.astype(str).tolist(),
        "distance": [f"{x:.2f}" for x in distance],
        "noise": [f"{x:.3f}" for x in rng.standard_normal(n)],
        "price": [f"{x:.1f}" for x in price],
    }
    gaps = {"year": 0.1, "city": 0.05, "distance": 0.05, "price": 0.02}
    for name, share in gaps.items():
        columns[name] = ["" if gone else x for gone, x in zip(rng.random(n) < share, columns[name], strict=True)]
    lines = [",".join(columns), *(",".join(row) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")


def run(name: str, words: list[str | Path], folder: Path) -> float:
    """A step in a folder; its time."""
    begin, before = perf_counter(), _processor()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(list(map(str, words)), cwd=folder, env=environment, capture_output=True, text=True)
    seconds = perf_counter() - begin
    print(f"{name:<28} {seconds:7.1f} s, {_processor() - before:6.1f} s of processors", flush=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}")
    for line in (done.stderr + done.stdout if name.startswith("mlkm") else "").strip().splitlines():
        print(f"    {line}")
    return seconds


def _processor() -> float:
    """Seconds of processors that all steps so far have taken: on a busy machine they say more than the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(n: int = 20_000) -> float:
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "mlkm"
        shutil.copytree(ROOT, folder, ignore=_LEFT)
        write_table(folder / "houses.csv", n)
        own = folder / ".venv" / "bin"
        fit = ["fit", "houses.csv", "--target", "price", "--out", "model.mlkm", "--report", "report.html"]
        total = run("environment", [sys.executable, "-m", "venv", ".venv"], folder)
        total += run("install", [own / "pip", "install", "-q", "-c", "constraints.txt", ".[demo]"], folder)
        total += run(f"mlkm fit, {n:,} rows", [own / "mlkm", *fit], folder)
        sizes = {name: (folder / name).stat().st_size / 1e6 for name in ("model.mlkm", "report.html")}
    print(", ".join(f"{name} {size:.1f} MB" for name, size in sizes.items()))
    print(f"{'total':<28} {total:7.1f} s, {'under' if total < BAR else 'over'} the bar of {BAR:.0f} s")
    print(f"load after: {os.getloadavg()[0]:.1f}")
    return total


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    main(parser.parse_args().rows)
