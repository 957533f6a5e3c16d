"""A table with every kind of column, for tests."""

import numpy as np
import pandas as pd

from mlkm.data.tables.columns import days

CITIES = np.array(["Oslo", "Rome", "Lima", "Cairo"])


def mixed(n=200, seed=0):
    """A frame with every kind of column, and y."""
    rng = np.random.default_rng(seed)
    x, city = rng.uniform(-2, 2, n), rng.integers(0, 4, n)
    when = np.datetime64("2020-01-01") + rng.integers(0, 700, n).astype("timedelta64[D]")
    season = np.cos(2 * np.pi * days(when) / 365.2425)
    y = np.sin(2 * x) + np.array([0.0, 1.0, 2.0, -1.0])[city] * (1 + 0.3 * x) + season + 0.1 * rng.standard_normal(n)
    size = np.where(rng.random(n) < 0.2, np.nan, x + rng.standard_normal(n))
    frame = pd.DataFrame(
        {"x": x, "size": size, "city": pd.Categorical(CITIES[city]), "when": when, "old": rng.random(n) < 0.5}
    )
    frame.loc[rng.random(n) < 0.1, "city"] = None
    return frame, np.asarray(y)
