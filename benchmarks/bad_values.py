"""Bad and odd values for `benchmarks.bad_inputs`."""

import datetime
import decimal
import fractions
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

import mlkm

from .world import D, N, World


def pool(world: World) -> dict[str, Callable[[], Any]]:
    """Return functions that make bad and odd values, by name."""
    X, y = world.X, world.y

    def objects(fill: Any, *shape: int) -> Any:
        result = np.empty(shape, object)
        result.flat = [fill] * result.size
        return result

    def ticks(shape: Any) -> Any:
        return np.full(shape, np.datetime64("2024-01-01"))

    return {
        "None": lambda: None,
        "nan": lambda: float("nan"),
        "inf": lambda: float("inf"),
        "-inf": lambda: float("-inf"),
        "-1": lambda: -1,
        "0": lambda: 0,
        "1": lambda: 1,
        "2.5": lambda: 2.5,
        "10**12": lambda: 10**12,
        "1e12": lambda: 1e12,
        "1e308": lambda: 1e308,
        "1e-320": lambda: 1e-320,
        "10**400": lambda: 10**400,
        "True": lambda: True,
        "False": lambda: False,
        "'a'": lambda: "a",
        "''": lambda: "",
        "b'x'": lambda: b"x",
        "'auto'": lambda: "auto",
        "huge text": lambda: "a" * 10**6,
        "text with a line end": lambda: "a\nb",
        "text with a null": lambda: "a\0b",
        "[]": list,
        "{}": dict,
        "()": tuple,
        "set()": set,
        "{'a': 1}": lambda: {"a": 1},
        "object()": object,
        "lambda": lambda: lambda *given: 0,
        "len": lambda: len,
        "int": lambda: int,
        "3+4j": lambda: 3 + 4j,
        "Fraction": lambda: fractions.Fraction(1, 3),
        "Decimal": lambda: decimal.Decimal("0.5"),
        "longdouble": lambda: np.longdouble("1e400"),
        "float32": lambda: np.float32(0.5),
        "int8": lambda: np.int8(-3),
        "np.str_": lambda: np.str_("a"),
        "np.bool_": lambda: np.bool_(True),
        "np.nan32": lambda: np.float32("nan"),
        "NA": lambda: pd.NA,
        "NaT": lambda: pd.NaT,
        "datetime": lambda: datetime.datetime(2024, 1, 1),
        "datetime64": lambda: np.datetime64("2024-01-01"),
        "timedelta": lambda: datetime.timedelta(1),
        "[None]": lambda: [None] * N,
        "[None, None]": lambda: [None, None],
        "['a', 'b']": lambda: ["a", "b"],
        "[nan]": lambda: [float("nan")],
        "[[]]": lambda: [[]],
        "ragged": lambda: [[1, 2], [3]],
        "nested": lambda: [[[[1]]]],
        "list of dicts": lambda: [{"a": 1}] * N,
        "3-d": lambda: np.zeros((2, 3, 4)),
        "0-d": lambda: np.array(5.0),
        "0 rows": lambda: np.empty((0, D)),
        "0 columns": lambda: np.empty((N, 0)),
        "empty vector": lambda: np.empty(0),
        "1 row": lambda: X[:1],
        "wrong width": lambda: X[:, :2],
        "wrong rows": lambda: X[:-1],
        "short": lambda: y[:-1],
        "column": lambda: y[:, None],
        "two columns": lambda: np.stack([y, y], 1),
        "row": lambda: y[None],
        "all nan X": lambda: np.full((N, D), np.nan),
        "all nan": lambda: np.full(N, np.nan),
        "inf X": lambda: np.full((N, D), np.inf),
        "inf y": lambda: np.full(N, np.inf),
        "complex X": lambda: X + 1j,
        "complex y": lambda: y + 1j,
        "longdouble X": lambda: np.full((N, D), np.longdouble("1e400")),
        "longdouble y": lambda: np.full(N, np.longdouble("1e400")),
        "small longdouble": lambda: y.astype(np.longdouble),
        "float16": lambda: y.astype(np.float16),
        "negative": lambda: -np.abs(y),
        "zeros": lambda: np.zeros(N),
        "zeros X": lambda: np.zeros((N, D)),
        "huge y": lambda: 1e300 * y,
        "tiny y": lambda: 1e-300 * y,
        "huge X": lambda: 1e300 * X,
        "tiny X": lambda: 1e-300 * X,
        "datetime y": lambda: ticks(N),
        "datetime X": lambda: ticks((N, D)),
        "timedelta y": lambda: ticks(N) - ticks(N),
        "words y": lambda: ["a", "b"] * (N // 2),
        "words X": lambda: np.array([["a", "b", "c"]] * N),
        "numerals": lambda: y.astype(str),
        "bool y": lambda: y > 0,
        "bytes y": lambda: np.array([b"x"] * N),
        "objects": lambda: objects(object(), N, D),
        "object vector": lambda: objects(object(), N),
        "Nones X": lambda: objects(None, N, D),
        "NA vector": lambda: pd.array([pd.NA] * N),
        "sparse": lambda: scipy.sparse.csr_array(X),
        "sparse column": lambda: scipy.sparse.csr_matrix(y[:, None]),
        "masked X": lambda: np.ma.masked_less(X, 0.3),
        "masked y": lambda: np.ma.masked_less(y, 0.3),
        "matrix": lambda: np.asmatrix(X),
        "structured": lambda: np.zeros(N, [("a", float), ("b", int)]),
        "empty frame": lambda: pd.DataFrame(),
        "frame of 0 rows": lambda: world.frame[:0],
        "frame of 0 columns": lambda: world.frame[[]],
        "duplicated names": lambda: pd.DataFrame(X, columns=["a", "a", "b"]),
        "numbers as names": lambda: pd.DataFrame(X, columns=[0, "a", 1.5]),
        "other names": lambda: pd.DataFrame(X, columns=["p", "q", "r"]),
        "frame of words": lambda: pd.DataFrame([["a", "b", "c"]] * N, columns=["a", "b", "c"]),
        "frame of lists": lambda: pd.DataFrame({"a": [[1]] * N, "b": 1.0, "c": 2.0}),
        "frame": lambda: world.frame,
        "series": lambda: pd.Series(y),
        "series of objects": lambda: pd.Series([{}] * N),
        "index": lambda: pd.RangeIndex(N),
        "categorical": lambda: pd.Categorical(["a", "b"] * (N // 2)),
        "generator": lambda: (x for x in range(3)),
        "range": lambda: range(3),
        "iterator": lambda: iter([1, 2]),
        "bytearray": lambda: bytearray(b"abc"),
        "memoryview": lambda: memoryview(b"abc"),
        "random generator": lambda: np.random.default_rng(0),
        "unfitted model": lambda: mlkm.RandomFeatureRidge(),
        "fitted model": lambda: world.ridge,
        "class": lambda: mlkm.MLKMRegressor,
        "module": lambda: np,
        "folder": lambda: str(world.folder),
        "no such file": lambda: str(world.folder / "no"),
        "not a model": lambda: str(world.other),
        "path": lambda: world.folder / "p.csv",
        "exception": lambda: ValueError("x"),
        "NotImplemented": lambda: NotImplemented,
        "Ellipsis": lambda: Ellipsis,
        "slice": lambda: slice(2),
        "polars": _polars(world),
        "one word of many": lambda: [*y[:-1].tolist(), "a"],
        "one None of many": lambda: [*y[:-1].tolist(), None],
        "(1, 'a')": lambda: (1, "a"),
        "(-1, 0)": lambda: (-1, 0),
        "(8, 10**12)": lambda: (8, 10**12),
        "(0.5, 0.5)": lambda: (0.5, 0.5),
        "[0.9, 2]": lambda: [0.9, 2],
    }


def _polars(world: World) -> Callable[[], Any]:
    def make() -> Any:
        import polars as pl

        return pl.DataFrame({"a": world.X[:, 0], "b": world.X[:, 1], "c": world.X[:, 2]})

    return make
