"""Damaged and forged model files: python -m benchmarks.mutations [--n 10000] [--seed 0].

Good files of several kinds of models are changed at random: bytes of the archive, parts of the description (deleted,
exchanged, of another type, renamed, huge or negative numbers), headers and content of arrays. Every file is loaded and
asked for predictions in a child process that records audit events (`sys.addaudithook`) and memory. It is a failure

* if a child crashes, or reports nothing for a minute,
* if a file other than the model file is opened, a program is run, a socket is opened, or code is compiled,
* if memory rises by more than 200 MB over what the good files take.

The figures are printed, and the exit code is 1 where there is a failure. 10,000 files take about five minutes on one
core.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MOST_MEMORY = 200  # MB over what good files take
SILENT = 60.0  # seconds
WATCHED = (
    "open", "os.", "socket.", "subprocess.", "shutil.", "tempfile.", "glob.", "pickle.", "ctypes.", "exec", "compile",
    "import", "marshal.", "urllib.", "http.", "ftplib.", "smtplib.", "sqlite3.", "signal.", "pty.", "webbrowser.",
)  # fmt: skip
HARMLESS = ("os.putenv", "os.unsetenv", "os.fwalk")
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, -(2**63), 10**30, 0.5, -1e308, 1e308, float("nan"), float("inf"),
    "", "x", "a.b", "../../etc/passwd", "os.system", [], [[]], {}, {"tuple": []}, {"dict": []}, {"array": 0},
    {"array": -1}, {"array": 10**6}, {"object": 0}, {"object": 10**9}, {"name": "os.system"}, {"name": "builtins.eval"},
    {"dtype": "|O"}, {"dtype": "<f8"}, {"number_type": "float64"}, {"fraction": [1, 0]}, {"objects": [[10**9], []]},
    {"slice": [None, None, -1]}, {"number": ["<f8", 1e300]}, {"bytes": {"array": 0}}, {"tuple": [{"array": 0}] * 3},
    {"records": [[["a"], ["<f8"], [0]], {"array": 0}]}, {"random": ["MT19937", {"array": 0}, 10**9, 0, 0.0]},
)  # fmt: skip
NAMES = (
    "os.system", "posix.system", "builtins.eval", "builtins.getattr", "subprocess.Popen", "functools.partial",
    "numpy.ndarray", "numpy.fromfile", "scipy.sparse._csr.csr_array", "scipy.sparse._dia.dia_array",
    "sklearn.preprocessing._function_transformer.FunctionTransformer", "sklearn.pipeline.Pipeline",
    "sklearn.ensemble._stacking.StackingRegressor", "sklearn.linear_model._ridge.Ridge",
    "sklearn.feature_extraction.text.CountVectorizer",
    "mlkm.model.machine.Machine", "mlkm.model.features.FeatureMap", "mlkm.data.scan.Rows", "mlkm.cli.main",
    "mlkm.model.transforms.RankTransform", "mlkm.data.tables.columns.TextBasis", "mlkm.solve.sums.Sums", "",
)  # fmt: skip

Entries = dict[str, bytes]
Random = np.random.Generator


def rows(n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)


def table(n: int, seed: int) -> tuple[Any, Any]:
    """Return a table of numbers, a few of them missing, a column of few levels, and one of many levels with words."""
    X, y = rows(n, seed)
    words = [f"{a} {b}" for a in ("red", "dark blue", "light blue", "grey", "green") for b in ("car", "house", "bird")]
    words += [f"{word} {k} CC" for k, word in enumerate(words)]
    gaps = [None if k % 7 == 0 else x for k, x in enumerate(X[:, 1])]
    levels, names = ["abc"[k % 3] for k in range(n)], [words[k % len(words)] for k in range(n)]
    return np.array(list(zip(X[:, 0], gaps, levels, names, strict=True)), object), y


def std(model: Any, Z: Any) -> Any:
    return model.predict(Z, return_std=True)


def interval(model: Any, Z: Any) -> Any:
    return model.predict_interval(Z)


def predicted(model: Any, Z: Any) -> Any:
    return model.transform(Z) if hasattr(model, "transform") else model.predict(Z)


NEW, LATER = rows(8, 1)[0], table(8, 1)[0]
ASKED: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "default": (NEW, std),
    "table": (LATER, std),
    "layers": (NEW, std),
    "sums": (NEW, std),
    "features": (NEW, predicted),
    "cross": (NEW, interval),
    "left out": (NEW, interval),
    "quantile": (LATER, interval),
    "online": (NEW, interval),
    "columns": (LATER, predicted),
    "steps": (NEW, interval),
}


def models() -> dict[str, Any]:
    """Return a fitted model for every kind of prediction."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

    from mlkm import ConformalRegressor, MLKMRegressor, OnlineConformal, RandomFeatureRidge, RandomFeatures

    (X, y), (T, t) = rows(60, 0), table(90, 0)
    ridge = RandomFeatureRidge(12, scale=1.0, random_state=0)
    columns = ColumnTransformer(
        [("levels", OneHotEncoder(handle_unknown="ignore"), [2, 3]), ("gaps", SimpleImputer(), [1])], remainder="drop"
    )
    steps = make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge())
    return {
        "default": MLKMRegressor(random_state=0).fit(X, np.exp(y)),
        "table": MLKMRegressor(random_state=0).fit(T, t),
        "layers": MLKMRegressor(widths=(8, 4), random_state=0).fit(X, y),
        "sums": RandomFeatureRidge(12, scale=1.0, random_state=0).fit(X, y).partial_fit(X[:9], y[:9]),
        "features": RandomFeatures(12, "matern", random_state=0).fit(X),
        "cross": ConformalRegressor(ridge, method="cross", cv=2, random_state=0).fit(X, y),
        "left out": ConformalRegressor(ridge, method="cross", cv="loo", random_state=0).fit(X, y),
        "quantile": ConformalRegressor(ridge, score="quantile", random_state=0).fit(T, t),
        "online": OnlineConformal(Ridge()).fit(X, y),
        "columns": make_pipeline(columns, Ridge()).fit(T, t),
        "steps": ConformalRegressor(steps, random_state=0).fit(X, y),
    }


def zipped(entries: Entries) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def unzipped(content: bytes) -> Entries:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def flipped(content: bytes, rng: Random) -> bytes:
    """Change a few bytes, half of the time in the directory at the end of the archive; sometimes cut the file short."""
    changed = bytearray(content)
    begin = len(changed) - 400 if rng.random() < 0.5 else 0
    for at in rng.integers(max(begin, 0), len(changed), rng.integers(1, 9)):
        changed[at] = rng.integers(256)
    return bytes(changed[: rng.integers(1, len(changed))] if rng.random() < 0.1 else changed)


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Return all containers and keys of a description."""
    found, waiting = [], [tree]
    while waiting:
        one = waiting.pop()
        for key in one if isinstance(one, dict) else range(len(one)):
            found.append((one, key))
            if isinstance(one[key], (dict, list)):
                waiting.append(one[key])
    return found


def described(content: bytes, rng: Random) -> bytes:
    """Make a few changes to the description."""
    entries = unzipped(content)
    tree = json.loads(entries["model.json"])
    for _ in range(rng.integers(1, 4)):
        every = places(tree)
        if not every:
            break
        one, key = every[rng.integers(len(every))]
        named = [(where, what) for where, what in every if what in ("make", "call", "name")]
        named += [
            (where["record"], 0)
            for where, what in every
            if what == "record" and isinstance(where[what], list) and where[what]
        ]
        numbers = [(where, what) for where, what in every if type(where[what]) in (int, float)]
        kind = rng.choice(["odd", "delete", "swap", "name", "number", "key", "copy"])
        if kind == "odd":
            one[key] = json.loads(json.dumps(ODD[rng.integers(len(ODD))]))
        elif kind == "delete":
            del one[key]
        elif kind == "swap":
            other, place = every[rng.integers(len(every))]
            one[key], other[place] = json.loads(json.dumps(other[place])), json.loads(json.dumps(one[key]))
        elif kind == "name" and named:
            where, what = named[rng.integers(len(named))]
            others = [own[name] for own, name in named]
            where[what] = [*NAMES, *others][rng.integers(len(NAMES) + len(others))]
        elif kind == "number" and numbers:
            where, what = numbers[rng.integers(len(numbers))]
            old = where[what]
            where[what] = [-old, old + 1, old - 1, old * 10**6, 10**9, -1, 0, float(old)][rng.integers(8)]
        elif kind == "key" and isinstance(one, dict):
            keys = ["make", "call", "state", "arguments", "array", "tuple", "dict", "record"]
            one[keys[rng.integers(len(keys))]] = one.pop(key)
        elif kind == "copy" and isinstance(one, list):
            one.insert(rng.integers(len(one) + 1), json.loads(json.dumps(one[key])))
    entries["model.json"] = json.dumps(tree).encode()
    return zipped(entries)


def arrays(content: bytes, rng: Random) -> bytes:
    """Make a few changes to the headers of arrays, or to their content with a header that fits it."""
    entries = unzipped(content)
    names = [name for name in entries if name.endswith(".npy")]
    for _ in range(rng.integers(1, 4)):
        name = names[rng.integers(len(names))]
        array = np.load(io.BytesIO(unzipped(content)[name]))
        kind = rng.choice(["header", "shape", "type", "fill", "bits", "other", "lengths", "order"])
        if kind == "header":
            raw = bytearray(entries[name])
            for at in rng.integers(0, min(128, len(raw)), rng.integers(1, 5)):
                raw[at] = rng.integers(32, 127)
            entries[name] = bytes(raw)
            continue
        if kind == "shape":
            shape = [(10**12,), (-1,), (2**63, 2**63), (0, 10**12), array.shape * 9, (10**7, *array.shape)]
            header = {"descr": array.dtype.str, "fortran_order": False, "shape": shape[rng.integers(len(shape))]}
            buffer = io.BytesIO()
            np.lib.format.write_array_header_1_0(buffer, header)
            entries[name] = buffer.getvalue() + array.tobytes()
            continue
        if kind == "type":
            form = ["<i8", "<f4", "<u8", "|b1", "<f8", "<U2", "|S8", "<c16", "<M8[us]", "<f2"][rng.integers(10)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                array = array.astype(form)
        elif kind == "fill" and array.dtype.kind in "iufb":
            with np.errstate(all="ignore"):
                worst = [np.nan, np.inf, -1e300, 1e300, 2.0**62, -(2.0**62), 0, -1, 255][rng.integers(9)]
                array.reshape(-1)[rng.random(array.size) < [0.05, 1][rng.integers(2)]] = np.float64(worst).astype(
                    array.dtype
                )
        elif kind == "bits":
            array = np.frombuffer(rng.bytes(array.nbytes), array.dtype).reshape(array.shape)
        elif kind == "other":
            array = np.load(io.BytesIO(unzipped(content)[names[rng.integers(len(names))]]))
        elif kind == "lengths" and array.ndim:
            array = [array[:-1], np.concatenate([array, array]), array[:0], array[None], array[..., :0]][
                rng.integers(5)
            ]
        elif kind == "order":
            array = np.asfortranarray(array[::-1].T)
        buffer = io.BytesIO()
        np.save(buffer, array)
        entries[name] = buffer.getvalue()
    return zipped(entries)


def entries_changed(content: bytes, rng: Random) -> bytes:
    """Remove, exchange, empty, duplicate or rename entries."""
    entries = unzipped(content)
    names = list(entries)
    a, b = (names[rng.integers(len(names))] for _ in range(2))
    kind = rng.integers(6)
    if kind == 0:
        del entries[a]
    elif kind == 1:
        entries[a], entries[b] = entries[b], entries[a]
    elif kind == 2:
        entries[a] = b"" if rng.random() < 0.5 else rng.bytes(50)
    elif kind == 3:
        entries[["../../evil", "/tmp/evil", "x.pkl", "C:\\evil", "0.npy/../1.npy"][rng.integers(5)]] = entries.pop(a)
    elif kind == 4:
        entries["mlkm.json"] = b'{"schema": %d, "mlkm": "0"}' % rng.integers(-5, 5)
    elif kind == 5:
        entries[a] = entries[a] + bytes(10**7)  # ten megabytes that are a few bytes in the archive
    return zipped(entries)


KINDS = (flipped, described, described, described, arrays, arrays, entries_changed)


class Watch:
    """A record of audit events while it is armed, except for reading the model file and importing modules."""

    def __init__(self, own: Path) -> None:
        self.own, self.armed, self.seen = str(own), False, list[str]()
        self.modules = tuple({str(Path(path).resolve()) for path in (*sys.path, sys.prefix, sys.base_prefix) if path})
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.armed and event.startswith(WATCHED) and event not in HARMLESS and not self._is_import(event, arguments):
            self.seen.append(f"{event} {arguments!r:.200}")

    def _is_import(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open":
            path, mode, flags = arguments
            if str(path) == self.own:
                return mode in ("r", "rb")
            reads = mode in ("r", "rb", None) and not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            return reads and str(path).startswith(self.modules) and str(path).endswith((".py", ".pyc", ".so"))
        if event in ("exec", "compile"):
            name = getattr(arguments[0], "co_filename", None) or str(arguments[-1])
            return str(name).startswith((*self.modules, "<frozen"))
        if event == "os.listdir":
            return str(arguments[0]).startswith(self.modules)
        return event == "marshal.loads"


def memory() -> float:
    """Return the peak memory of this process, in MB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def child(folder: Path, begin: int, end: int, seed: int) -> None:
    """Run mutations `begin` to `end`, and write one line per outcome."""
    import mlkm

    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    good = {name: (folder / f"{name}.mlkm").read_bytes() for name in ASKED}
    mutant = folder / f"mutant {begin}.mlkm"
    watch = Watch(mutant)
    for name, (new, ask) in ASKED.items():  # so that modules that are imported late are loaded
        mutant.write_bytes(good[name])
        ask(mlkm.load(mutant), new)
    watch.armed = True
    Path(os.devnull).read_bytes()
    watch.armed = False
    assert watch.seen.pop().startswith("open"), "nothing is watched"
    base = memory()
    for number in range(begin, end):
        rng = np.random.default_rng([seed, number])
        name = list(good)[rng.integers(len(good))]
        kind = KINDS[rng.integers(len(KINDS))]
        mutant.write_bytes(kind(good[name], rng))
        said(number, "begin", name, kind.__name__)
        watch.armed = True
        outcome = outcome_of(mlkm.load, mutant, *ASKED[name])
        watch.armed = False
        more = memory() - base
        said(number, "end", outcome, f"{more:.0f}", *watch.seen)
        watch.seen.clear()
        if more > MOST_MEMORY:
            break  # the next child begins with less memory
    mutant.unlink()


def outcome_of(load: Any, path: Path, new: Any, ask: Any) -> str:
    try:
        model = load(path)
    except ValueError as error:
        return "refused" if "\n" not in str(error) and str(error).startswith(repr(str(path))) else f"odd: {error}"
    except Exception as error:
        return f"odd: {type(error).__name__} {error}"
    try:
        ask(model, new)
    except Exception:
        return "loaded, and failed to predict"
    return "loaded, and predicted"


def said(*words: Any) -> None:
    print(json.dumps([str(word) for word in words]), flush=True)


def run(folder: Path, begin: int, end: int, seed: int) -> tuple[list[list[str]], str | None]:
    """Return the lines of a child process, and how it failed, if it did."""
    command = [sys.executable, "-m", "benchmarks.mutations", "--child", str(folder), str(begin), str(end)]
    log = folder / "log"
    with log.open("w") as out:
        process = subprocess.Popen([*command, "--seed", str(seed)], stdout=out, stderr=subprocess.DEVNULL)
        size, since, failure = -1, time.monotonic(), None
        while process.poll() is None:
            time.sleep(0.1)
            if log.stat().st_size != size:
                size, since = log.stat().st_size, time.monotonic()
            elif time.monotonic() - since > SILENT:
                failure = "silent for a minute"
                process.kill()
        if process.returncode and failure is None:
            failure = f"exit code {process.returncode}"
    whole = [line for line in log.read_text().splitlines() if line.endswith("]")]
    return [json.loads(line) for line in whole], failure


def main(n: int = 10_000, seed: int = 0) -> int:
    import mlkm

    begin_time, counts = time.monotonic(), Counter[str]()
    failures, at, peak = list[str](), 0, 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for name, model in models().items():
            mlkm.save(model, folder / f"{name}.mlkm")
        while at < n:
            lines, failure = run(folder, at, n, seed)
            started = {int(line[0]): line[2:] for line in lines if line[1] == "begin"}
            ended = {int(line[0]): line[2:] for line in lines if line[1] == "end"}
            for number, (outcome, more, *seen) in ended.items():
                counts["odd" if outcome.startswith("odd") else outcome] += 1
                peak = max(peak, float(more))
                wrong = [*seen, *([outcome] if outcome.startswith("odd") else [])]
                wrong += [f"{more} MB more than good files take"] if float(more) > MOST_MEMORY else []
                failures += [f"mutation {number} ({', '.join(started[number])}): {words}" for words in wrong]
            last = max(started, default=at)
            if failure is not None:
                failures.append(f"mutation {last} ({', '.join(started.get(last, ['before any']))}): {failure}")
                counts["crashed"] += 1
            at = last + 1
    print(f"{n} mutations, seed {seed}, {time.monotonic() - begin_time:.0f} s")
    for outcome, count in sorted(counts.items()):
        print(f"  {outcome}: {count}")
    print(f"  most memory beyond that of good files: {peak:.0f} MB")
    print(f"  failures: {len(failures)}")
    for words in failures[:20]:
        print(f"    {words}")
    return 1 if failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", nargs=3)
    given = parser.parse_args()
    if given.child is not None:
        child(Path(given.child[0]), int(given.child[1]), int(given.child[2]), given.seed)
    else:
        sys.exit(main(given.n, given.seed))
