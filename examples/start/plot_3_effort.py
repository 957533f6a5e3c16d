"""
More time, less error: effort
=============================

``effort`` says how much work the default may put into its search. The data here are the paper's Example 2: four of
eight columns matter, and they act together.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

from mlkm import MLKMRegressor
from mlkm.datasets import make_example2

X, y, f = make_example2(n=400, d=8, random_state=0)
X_new, _, f_new = make_example2(n=2000, d=8, random_state=1)

# %%
# Each effort is fitted once. The error is the distance to the truth without noise, which a simulation knows.
efforts = ["fast", "balanced", "best"]
seconds, errors = [], []
for effort in efforts:
    begin = perf_counter()
    model = MLKMRegressor(effort=effort, random_state=0).fit(X, y)
    seconds.append(perf_counter() - begin)
    errors.append(np.sqrt(np.mean((model.predict(X_new) - f_new) ** 2)))
    print(f"{effort:9} error {errors[-1]:.3f}")

# %%
# On a table this small the three are close to each other, and ``"balanced"``, the default, is rarely wrong. On many
# rows the difference in time is larger, and ``"best"`` also tries hidden layers.
figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 2.8), layout="constrained")
left.bar(efforts, seconds, color="#9cc3e6")
left.set(title="seconds")
right.bar(efforts, errors, color="#1f4e79")
right.axhline(np.std(f_new), color="grey", linestyle="--", linewidth=1)
right.annotate(
    "predicting the mean", (1, np.std(f_new)), ha="center", va="top", xytext=(0, -4), textcoords="offset points"
)
right.set(title="distance to the truth")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
