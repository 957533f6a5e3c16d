"""
Example 1: the published method and the default
===============================================

Algorithm 1 of the paper is an estimator like any other. Here it stands beside the default on the paper's Example 1, a
sum of four curves, on 400 rows instead of 2000 to be quick.
"""

import matplotlib.pyplot as plt
import numpy as np

from mlkm import MLKMRegressor
from mlkm.datasets import example1_truth, make_example1
from mlkm.solve import GradientDescent

X, y, f = make_example1(n=400, d=4, random_state=0)
X_new, _, f_new = make_example1(n=2000, d=4, random_state=1)

# %%
# As published: two layers of random features, trained in turns on separate rows by gradient descent. Widths, scales,
# penalty and step are the reader's to choose.
descent = GradientDescent(learning_rate=1e-3, batch_size=64, max_iter=2000)
published = MLKMRegressor.published(widths=(64, 8), scales=1.0, penalty=1e-3, solver=descent, random_state=0)
default = MLKMRegressor(random_state=0)
models = {"as published": published.fit(X, y), "default": default.fit(X, y)}
for name, model in models.items():
    print(f"{name:13} mean squared distance to the truth: {np.mean((model.predict(X_new) - f_new) ** 2):.3f}")

# %%
# Each component on its own: the prediction along one input, the others in the middle, less its mean.
grid = np.linspace(0.05, 0.95, 100)
figure, axes = plt.subplots(1, 4, figsize=(9, 2.8), sharey=True, layout="constrained")


def component(predict, j):
    rows = np.full((100, 4), 0.5)
    rows[:, j] = grid
    values = predict(rows)
    return values - values.mean()


for j, ax in enumerate(axes):
    ax.plot(grid, component(example1_truth, j), color="black", linewidth=1, label="truth")
    ax.plot(grid, component(published.predict, j), color="#c0392b", linestyle=":", label="as published")
    ax.plot(grid, component(default.predict, j), color="#1f4e79", linestyle="--", label="default")
    ax.set(xlabel=f"input {j + 1}")
    ax.spines[["top", "right"]].set_visible(False)
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
plt.show()
