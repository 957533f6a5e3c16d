"""
Cross-fitting and rotations
===========================

Algorithm 1 gives each layer rows of its own. With two layers there are two ways to deal the rows out: two rotations,
whose predictions are averaged. Without cross-fitting all layers learn from all rows together.
"""

from copy import copy
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from mlkm import MLKMRegressor
from mlkm.datasets import make_example1
from mlkm.plotting import plot_convergence
from mlkm.solve import GradientDescent

X, y, f = make_example1(n=400, d=4, random_state=0)
X_new, _, f_new = make_example1(n=2000, d=4, random_state=1)
descent = GradientDescent(learning_rate=1e-3, batch_size=64, max_iter=200)


def fitted(cv):
    settings = {"widths": (64, 8), "scales": 1.0, "penalty": 1e-3, "solver": descent, "random_state": 0}
    return MLKMRegressor.published(cv=cv, **settings).fit(X, y)


models = {"rotations": fitted("rotate"), "all rows together": fitted(None)}

# %%
# The loss falls epoch by epoch.
picture = plot_convergence(models)

# %%
# The average of the rotations is never worse than the rotations are on average: errors that they do not share cancel.
# Whether it beats learning from all rows together is another question.
rotations = models["rotations"]


def alone(j):
    """One rotation by itself, in the units of y."""
    model = copy(rotations)
    model.fitted_ = replace(rotations.fitted_, machines=(rotations.machines_[j],))
    return model.predict(X_new)


errors = {
    "rotation 1": np.mean((alone(0) - f_new) ** 2),
    "rotation 2": np.mean((alone(1) - f_new) ** 2),
    "their average": np.mean((rotations.predict(X_new) - f_new) ** 2),
    "all rows together": np.mean((models["all rows together"].predict(X_new) - f_new) ** 2),
}
figure, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
bars = ax.barh(list(errors), list(errors.values()), color=["#9cc3e6", "#9cc3e6", "#1f4e79", "grey"])
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.invert_yaxis()
ax.set(xlabel="mean squared distance to the truth")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
