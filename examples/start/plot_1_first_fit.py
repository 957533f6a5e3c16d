"""
A first fit, and a band around it
=================================

One input, a curve, and noise. We fit, predict, and ask how far a new measurement may lie from the prediction.
"""

import matplotlib.pyplot as plt
import numpy as np

from mlkm import ConformalRegressor, MLKMRegressor, metrics

rng = np.random.default_rng(0)


def truth(x):
    return np.sin(3 * x) + 0.5 * x


x = rng.uniform(-2, 2, 400)
y = truth(x) + 0.3 * rng.standard_normal(400)

# %%
# The fit needs no settings. ``X`` is a table, so a single input is a table of one column.
model = MLKMRegressor(random_state=0).fit(x[:, None], y)
print("typical error of a new row:", round(model.loo_error_**0.5, 2))

# %%
# A band wraps a regressor. It keeps half of the rows aside, looks how far off the fit is there, and gives intervals
# that hold nine of ten new outcomes.
band = ConformalRegressor(MLKMRegressor(random_state=0), confidence_level=0.9, random_state=0).fit(x[:, None], y)

x_new = rng.uniform(-2, 2, 1000)
y_new = truth(x_new) + 0.3 * rng.standard_normal(1000)
mean, interval = band.predict_interval(x_new[:, None])
print("share of new outcomes inside:", metrics.coverage(y_new, interval).share)

# %%
# The picture: rows, fit, band, and the curve behind it all, which only a simulation knows.
grid = np.linspace(-2, 2, 200)
mean, interval = band.predict_interval(grid[:, None])
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.fill_between(grid, interval[:, 0, 0], interval[:, 1, 0], color="#9cc3e6", alpha=0.6, linewidth=0, label="90 % band")
ax.scatter(x, y, s=9, color="grey", alpha=0.7, label="rows")
ax.plot(grid, truth(grid), color="#c0392b", linewidth=1.4, label="truth")
ax.plot(grid, mean, color="#1f4e79", linestyle="--", linewidth=1.8, label="fit")
ax.set(xlabel="x", ylabel="y")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, ncols=2)
plt.show()
