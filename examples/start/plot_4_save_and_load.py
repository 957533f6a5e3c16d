"""
Save a model and load it again
==============================

A model file holds numbers and names, no program: opening a stranger's file runs no code, as opening a pickle would.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

import mlkm
from mlkm import MLKMRegressor
from mlkm.datasets import make_example1

X, y, f = make_example1(n=300, d=4, random_state=0)
model = MLKMRegressor(random_state=0).fit(X, y)

# %%
# ``save`` writes one file. ``keep_rows=False`` leaves the training rows out, as far as predictions do not need them:
# the file is smaller, and standard deviations are no longer available.
with TemporaryDirectory() as folder:
    mlkm.save(model, Path(folder) / "model.mlkm")
    mlkm.save(model, Path(folder) / "small.mlkm", keep_rows=False)
    again, small = mlkm.load(Path(folder) / "model.mlkm"), mlkm.load(Path(folder) / "small.mlkm")
    sizes = {file.name: file.stat().st_size / 1000 for file in sorted(Path(folder).iterdir())}

figure, ax = plt.subplots(figsize=(5.6, 1.8), layout="constrained")
ax.bar_label(ax.barh(list(sizes), list(sizes.values()), color="#1f4e79"), fmt="%.0f kB", padding=3)
ax.margins(x=0.15)
ax.set(xlabel="size of the file, 300 rows of 4 columns")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What was loaded predicts the same, to the last digit.
print(np.array_equal(again.predict(X), model.predict(X)), np.array_equal(small.predict(X), model.predict(X)))

# %%
# Settings travel along as well.
again
