"""
Save a model and load it again
==============================

A model file holds numbers and names, no program: opening a stranger's file runs no code, as opening a pickle would.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

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
    for file in sorted(Path(folder).iterdir()):
        print(file.name, f"{file.stat().st_size / 1000:.0f} kB")

# %%
# What was loaded predicts the same, to the last digit.
print(np.array_equal(again.predict(X), model.predict(X)), np.array_equal(small.predict(X), model.predict(X)))

# %%
# Settings travel along as well.
again
