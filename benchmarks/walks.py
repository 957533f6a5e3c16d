"""Which files of the package a call passes through: python -m benchmarks.walks fit predict conformal parquet published

A file is passed if one of its functions is called, in any thread; being imported does not count. Files are listed in
the order in which they are first entered. The data are a frame of 300 rows with numbers, words, dates and missing
values. Each call is made twice in a process of its own, and the second time is recorded, so that imports are done.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
WALKS = {
    "fit": "default fit",
    "predict": "predict of a frame",
    "conformal": "conformal fit",
    "parquet": "Parquet fit",
    "published": "published fit",
}


class Passed:
    """Record the files of a package in the order in which they are first entered, as a profile function of threads."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self.recording = False
        self._files: dict[str, None] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Note the file of a function that is called."""
        code = frame.f_code
        if self.recording and event == "call" and code.co_name != "<module>":
            self._files.setdefault(code.co_filename)

    def files(self) -> list[str]:
        """Return the files that belong to the package, relative to it."""
        paths = (Path(name) for name in list(self._files))
        return [path.relative_to(self.package).as_posix() for path in paths if path.is_relative_to(self.package)]


def mixed_frame(n: int = 300, seed: int = 0):
    """Return a frame of numbers, words, dates and missing values, and its targets."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    x, city, day = rng.uniform(-2, 2, n), rng.integers(0, 4, n), rng.integers(0, 700, n)
    steps = np.array([0.0, 1.0, 2.0, -1.0])[city]
    y = np.sin(2 * x) + steps * (1 + 0.3 * x) + np.cos(2 * np.pi * day / 365.25) + 0.1 * rng.standard_normal(n)
    words = np.array(["Oslo", "Rome", "Lima", "Cairo"], object)[city]
    frame = pd.DataFrame(
        {
            "x": x,
            "size": np.where(rng.random(n) < 0.2, np.nan, x + rng.standard_normal(n)),
            "city": np.where(rng.random(n) < 0.1, None, words),
            "when": np.datetime64("2020-01-01") + day.astype("timedelta64[D]"),
            "old": rng.random(n) < 0.5,
        }
    )
    return frame, y


def prepare(name: str, folder: Path) -> Callable[[], object]:
    """Return the call to be recorded, with everything made that is no part of it."""
    from mlkm import ConformalRegressor, MLKMRegressor, open_table
    from mlkm.solvers import GradientDescent

    frame, y = mixed_frame()
    model = MLKMRegressor(random_state=0)
    if name == "predict":
        new_rows, _ = mixed_frame(seed=1)
        fitted = model.fit(frame, y)
        return lambda: fitted.predict(new_rows)
    if name == "parquet":
        path = folder / "rows.parquet"
        frame.assign(y=y).to_parquet(path)
        return lambda: model.fit(open_table(path, target="y"))
    if name == "conformal":
        model = ConformalRegressor(model, random_state=0)
    if name == "published":
        descent = GradientDescent(max_iter=5)
        model = MLKMRegressor.published(widths=(8, 4), penalty=1e-3, solver=descent, random_state=0)
    return lambda: model.fit(frame, y)


def files_passed(prepared: Callable[[], Callable[[], object]], package: Path) -> list[str]:
    """Return the files of a package that a call passes in this process, in the order first entered.

    `prepared` makes the call anew: it is made and called once unrecorded, then made again and recorded.
    """
    passed = Passed(package)
    threading.setprofile(passed)  # before the first call, whose worker threads may serve the second one
    try:
        prepared()()
        call = prepared()
        sys.setprofile(passed)
        passed.recording = True
        call()
    finally:
        passed.recording = False
        sys.setprofile(None)
        threading.setprofile(None)
    return passed.files()


def walk(name: str, src: Path = SRC) -> list[str]:
    """Return the files of the package under `src` that a call of WALKS passes, in the order first entered.

    Paths are relative to the package, such as "fit/kernel.py".
    """
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.walks", name, "--json"]
    environment = os.environ | {"PYTHONPATH": str(src.resolve())}
    output = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    result = json.loads(output)
    if not Path(result["package"]).is_relative_to(src.resolve()):
        raise RuntimeError(f"the package was imported from {result['package']}, not from {src}")
    return result["files"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(WALKS))
    parser.add_argument("--src", type=Path, default=SRC, help="the source tree, if not this one")
    parser.add_argument("--json", action="store_true", help="one call in this process, for the script itself")
    options = parser.parse_args()
    if options.json:
        import mlkm

        package = Path(mlkm.__file__).resolve().parent
        with tempfile.TemporaryDirectory() as folder:
            files = files_passed(lambda: prepare(options.names[0], Path(folder)), package)
        print(json.dumps({"package": str(package), "files": files}))
        return
    for name in options.names or WALKS:
        files = walk(name, options.src)
        print(f"{WALKS[name]}: {len(files)} files", *files, sep="\n  ")


if __name__ == "__main__":
    main()
