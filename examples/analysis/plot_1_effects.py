"""
What each column does
=====================

The effect of a column is how the prediction moves with it, averaged over the other columns. Each comes with two bands:
the darker one for every place on its own, the lighter one for the whole curve. They are bands for the curve, not for y.
"""

import matplotlib.pyplot as plt
import numpy as np

from mlkm import MLKMRegressor
from mlkm.datasets import make_example1
from mlkm.plotting import plot_effect

X, y, f = make_example1(n=400, d=6, random_state=0)
model = MLKMRegressor(random_state=0).fit(X, y)
effects = model.effects(X)

# %%
# The quick way to a picture of one column.
picture = plot_effect(effects, 0)

# %%
# All columns beside each other, from the numbers themselves. The last two columns play no part in y, and their effects
# are flat.
figure, axes = plt.subplots(2, 3, figsize=(8, 4.6), sharey=True, layout="constrained")
for j, ax in enumerate(axes.flat):
    effect, order = effects.main(j), np.argsort(X[:, j])
    x = X[order, j]
    ax.fill_between(x, *(end[order] for end in effect.band_simultaneous), color="#9cc3e6", alpha=0.35, linewidth=0)
    ax.fill_between(x, *(end[order] for end in effect.band), color="#9cc3e6", alpha=0.8, linewidth=0)
    ax.plot(x, effect.values[order], color="#1f4e79")
    ax.axhline(0, color="grey", linewidth=0.8, zorder=0)
    ax.set(title=f"column {j}")
    ax.spines[["top", "right"]].set_visible(False)
figure.supylabel("effect on y")
plt.show()

# %%
# Do two columns act together, beyond the sum of their effects? Here nothing does, and the fit says so.
for i, j in ((0, 1), (2, 3)):
    print(f"columns {i} and {j}: typical size {effects.pair(i, j).values.std():.2f}")
