"""
What each step buys
===================

From random features with one scale for all inputs to the default, one step at a time, on Example 2 with ten inputs, of
which four matter.
"""

import matplotlib.pyplot as plt
import numpy as np

from mlkm import MLKMRegressor, RandomFeatureRidge
from mlkm.datasets import make_example2

X, y, f = make_example2(n=400, d=10, random_state=0)
X_new, _, f_new = make_example2(n=2000, d=10, random_state=1)

# %%
# Every line adds something to the one before.
steps = {
    "one scale for all inputs": RandomFeatureRidge(400, interactions="full", relevance=False, linear=False),
    "and a linear term": RandomFeatureRidge(400, interactions="full", relevance=False),
    "and a scale per input": RandomFeatureRidge(400, interactions="full"),
    "and curves of single inputs": RandomFeatureRidge(400),
    "kernels at all rows (the default)": MLKMRegressor(),
}
errors = {
    name: np.mean((model.set_params(random_state=0).fit(X, y).predict(X_new) - f_new) ** 2)
    for name, model in steps.items()
}

# %%
# Learning which inputs matter is worth most. On a truth as smooth as this one kernels at all rows add nothing more;
# ``mlkm demo`` adds a staircase, where they do.
figure, ax = plt.subplots(figsize=(6.8, 2.8), layout="constrained")
bars = ax.barh(list(errors), list(errors.values()), color=["#9cc3e6"] * 4 + ["#1f4e79"])
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.invert_yaxis()
ax.set(xlabel="mean squared distance to the truth")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
