"""
A table with words, dates and gaps
==================================

Real tables have numbers, words, dates and empty cells. They go into ``fit`` as they are: no encoding, no filling in.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mlkm import MLKMRegressor

rng = np.random.default_rng(0)
n = 400
flats = pd.DataFrame(
    {
        "city": rng.choice(["Rome", "Oslo", "Lima"], n),
        "size": rng.uniform(30, 120, n).round(),
        "floor": rng.integers(0, 8, n),
        "sold": pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D"),
    }
)
price = (
    3 * flats["size"]
    + flats["city"].map({"Rome": 60, "Oslo": 120, "Lima": 0})
    + 25 * np.cos(2 * np.pi * flats["sold"].dt.day_of_year / 365)
    + rng.normal(0, 15, n)
)
flats.loc[rng.random(n) < 0.1, "size"] = np.nan
flats.loc[rng.random(n) < 0.05, "city"] = None
flats.head()

# %%
# Fit to the first 300 flats, predict the others. Columns are found by name, so their order does not matter later.
model = MLKMRegressor(random_state=0).fit(flats[:300], price[:300])
error = price[300:] - model.predict(flats[300:])
print("typical error:", round(float(np.sqrt(np.mean(error**2))), 1))
known = flats[300:].notna().all(axis=1)
print("typical error where nothing is missing:", round(float(np.sqrt(np.mean(error[known] ** 2))), 1))

# %%
# How much does each column matter? The shares add up to 1. The floor played no part in the prices.
figure, ax = plt.subplots(figsize=(5.6, 2.6), layout="constrained")
ax.barh(model.feature_names_in_, model.feature_relevance_, color="#1f4e79")
ax.invert_yaxis()
ax.set(xlabel="share of each column", xlim=(0, 1))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# A city that was never seen is no error. The prediction is then what the other columns say, with more uncertainty.
new = pd.DataFrame({"city": ["Oslo", "Cairo"], "size": [80.0, 80.0], "floor": [2, 2], "sold": ["2024-06-01"] * 2})
new["sold"] = pd.to_datetime(new["sold"])
mean, std = model.predict(new, return_std=True)
print(pd.DataFrame({"city": new["city"], "prediction": mean.round(), "give or take": std.round()}))
