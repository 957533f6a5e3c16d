"""
Outside the training range
==========================

No fit knows what happens where there were no rows. Ours goes on along a straight line for a while and then stays, and
``outside`` says how far out a row is.
"""

import matplotlib.pyplot as plt
import numpy as np

from mlkm import MLKMRegressor

rng = np.random.default_rng(0)
x = rng.uniform(0, 2, 200)
y = x + 0.5 * np.sin(5 * x) + 0.15 * rng.standard_normal(200)
model = MLKMRegressor(random_state=0).fit(x[:, None], y)

# %%
# In units of the training range: 0 inside, 0.5 is half a range beyond the end.
print(model.outside([[1.0], [3.0], [-4.0]]).round(2))

# %%
# The standard deviation grows where rows end. It is an honest "I do not know", not a forecast.
grid = np.linspace(-3, 6, 300)
mean, std = model.predict(grid[:, None], return_std=True)
far = model.outside(grid[:, None]) > 0
figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.axvspan(x.min(), x.max(), color="#eeeeee", zorder=0, label="training range")
ax.fill_between(grid, mean - 2 * std, mean + 2 * std, color="#9cc3e6", alpha=0.6, linewidth=0, label="two deviations")
ax.scatter(x, y, s=7, color="grey", zorder=2)
ax.plot(grid, np.where(far, np.nan, mean), color="#1f4e79", label="fit")
ax.plot(grid, np.where(far, mean, np.nan), color="#c0392b", linestyle=":", label="outside")
ax.plot(grid, grid + 0.5 * np.sin(5 * grid), color="black", linewidth=0.8, label="truth")
ax.set(xlabel="x", ylabel="y", ylim=(-6, 9))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, ncols=2, loc="upper left")
plt.show()
