"""
Data in time order
==================

Where tomorrow is not like yesterday, a band that was calibrated once goes wrong. ``OnlineConformal`` learns from every
outcome as it arrives.
"""

import matplotlib.pyplot as plt
import numpy as np

from mlkm import ConformalRegressor, MLKMRegressor, OnlineConformal

rng = np.random.default_rng(0)
n, start = 1600, 400
X = rng.uniform(0, 1, (n, 2))
noise = np.where(np.arange(n) < 800, 0.3, 1.0)  # the noise trebles in the middle
y = np.sin(6 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(n)
y += np.maximum(np.arange(n) - 1200, 0) / 400  # and later the level begins to drift

# %%
# Both bands start from the first 400 rows.
model = MLKMRegressor(effort="fast", random_state=0)
fixed = ConformalRegressor(model, confidence_level=0.9, score="absolute", random_state=0).fit(X[:start], y[:start])
online = OnlineConformal(model, confidence_level=0.9).fit(X[:start], y[:start])

# %%
# Row by row: predict, then see the outcome. ``predict_online`` does both on arrays; with live data it is
# ``predict_interval`` now and ``update`` when the outcome is known.
_, held = fixed.predict_interval(X[start:])
_, moved = online.predict_online(X[start:], y[start:])

# %%
# The share inside, over the latest 150 rows.
later = np.arange(start, n)
figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for name, interval, colour in (("calibrated once", held, "#c0392b"), ("online", moved, "#1f4e79")):
    inside = (interval[:, 0, 0] <= y[start:]) & (y[start:] <= interval[:, 1, 0])
    print(f"{name:15} share inside: {inside.mean():.3f}")
    ax.plot(later[149:], np.convolve(inside, np.full(150, 1 / 150), "valid"), color=colour, label=name)
ax.axhline(0.9, color="grey", linewidth=1, linestyle="--", label="asked for")
ax.set(xlabel="row", ylabel="share inside, latest 150", ylim=(0.2, 1))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower left")
plt.show()
