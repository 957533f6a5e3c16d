"""Rows of the settings, with fixed seeds: tables, noisy targets, and the noiseless truth."""

from typing import Any

import numpy as np
import pandas as pd

CITIES = ("Oslo", "Rome", "Lima", "Cairo", "Quito")
COLOURS, THINGS = ("red", "dark blue", "light blue", "grey", "green"), ("car", "house", "bird", "boat", "tree", "lamp")


def numbers(n: int, d: int = 4, seed: int = 0, noise: float = 0.2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs (n, d), targets and the truth: a wave, a product and a slope."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d)) + np.arange(d)
    f = np.sin(2 * X[:, 0])
    if d > 2:
        f = f + 0.5 * (X[:, 1] - 1) * (X[:, 2] - 2)
    if d > 3:
        f = f + 0.3 * X[:, 3]
    return X, f + noise * rng.standard_normal(n), f


def skewed(n: int, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows whose targets are exponentials of normal ones, with the mean of y as the truth."""
    X, y, f = numbers(n, d, seed, noise=0.4)
    return X, np.exp(0.8 * y), np.exp(0.8 * f + 0.5 * (0.8 * 0.4) ** 2)


def mixed(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return a frame with every kind of column: numbers, whole numbers, words, categories, dates, missing values."""
    rng = np.random.default_rng(seed)
    x, city, kind = rng.uniform(-2, 2, n), rng.integers(0, 5, n), rng.integers(0, 3, n)
    days = rng.integers(0, 700, n)
    size = np.where(rng.random(n) < 0.1, np.nan, rng.uniform(0, 2, n))
    frame = pd.DataFrame(
        {
            "x": x,
            "size": size,
            "rooms": rng.integers(1, 6, n),
            "city": np.array(CITIES, object)[city],
            "kind": pd.Categorical.from_codes(kind, ["a", "b", "c"]),
            "day": pd.Timestamp("2023-01-01") + pd.to_timedelta(days, unit="D"),
        }
    )
    frame.loc[rng.random(n) < 0.05, "city"] = None
    f = np.sin(2 * x) + np.nan_to_num(size, nan=2.5) + np.array([0.0, 0.6, 1.2, -0.7, 0.2])[city] * (1 + 0.3 * x)
    f = f + 0.4 * kind + 0.5 * np.cos(2 * np.pi * days / 365)
    return frame, f + 0.2 * rng.standard_normal(n), f


def texts(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return a frame with a column of many levels whose words tell something."""
    rng = np.random.default_rng(seed)
    colour, thing, year = rng.integers(0, 5, n), rng.integers(0, 6, n), rng.integers(0, 4, n)
    x = rng.standard_normal(n)
    names = [f"{COLOURS[a]} {THINGS[b]} {2000 + c}" for a, b, c in zip(colour, thing, year, strict=True)]
    f = 0.7 * colour - 0.5 * thing + np.sin(x)
    return pd.DataFrame({"x": x, "name": names}), f + 0.2 * rng.standard_normal(n), f


def levels(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return a frame of categories alone."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (n, 3))
    f = codes[:, 0] + (codes[:, 1] == codes[:, 2]) * 1.5
    frame = pd.DataFrame({name: np.array(list("pqrs"), object)[codes[:, j]] for j, name in enumerate("uvw")})
    return frame, f + 0.2 * rng.standard_normal(n), f


def weights(n: int, seed: int = 5) -> np.ndarray:
    """Return positive weights, a few of them zero."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.05, 0.0, rng.uniform(0.3, 2, n))


def head(table: Any, n: int) -> Any:
    """Return the first rows of an array or a frame."""
    return table.iloc[:n] if hasattr(table, "iloc") else table[:n]
