"""
Rows in a file, rows that come later, rows that stay where they are
===================================================================

A table in a Parquet file need not fit into memory: it is read a piece at a time. Later rows are added to a fit without
the earlier ones, and fits of several sites are merged without any row leaving its site.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import mlkm
from mlkm import RandomFeatureRidge
from mlkm.datasets import make_example1

X, y, f = make_example1(n=6000, d=5, random_state=0)
X_new, _, f_new = make_example1(n=1000, d=5, random_state=1)
names = [f"x{j}" for j in range(5)]
table = pd.DataFrame(X, columns=names).assign(y=y)


def distance(model):
    """From the truth, root mean square."""
    return round(float(np.sqrt(np.mean((model.predict(pd.DataFrame(X_new, columns=names)) - f_new) ** 2))), 3)


# %%
# **From a file.** Predictions are written to a file as well, a piece at a time.
with TemporaryDirectory() as folder:
    table.to_parquet(Path(folder) / "rows.parquet")
    source = mlkm.open_table(Path(folder) / "rows.parquet", target="y")
    model = RandomFeatureRidge(400, random_state=0).fit(source)
    written = mlkm.predict_table(model, source, Path(folder) / "predictions.parquet")
    print(pd.read_parquet(written).head(3))
print("from the file:", distance(model))

# %%
# **Rows that come later.** The first part chooses the features; ``partial_fit`` adds rows, ``forget`` takes them away.
inputs, outcomes = table[names], table["y"]
growing = RandomFeatureRidge(400, random_state=0).fit(inputs[:1000], outcomes[:1000])
distances = [distance(growing)]
for begin in range(1000, 6000, 1000):
    growing.partial_fit(inputs[begin : begin + 1000], outcomes[begin : begin + 1000])
    distances.append(distance(growing))

figure, ax = plt.subplots(figsize=(5.6, 3), layout="constrained")
ax.plot(range(1000, 7000, 1000), distances, marker="o", color="#1f4e79")
ax.set(xlabel="rows so far", ylabel="distance to the truth", ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **Sites.** Each begins with the features of the first and adds its own rows; only sums travel.
first = RandomFeatureRidge(400, random_state=0).fit(inputs[:2000], outcomes[:2000])
second = first.without_rows().partial_fit(inputs[2000:4000], outcomes[2000:4000])
third = first.without_rows().partial_fit(inputs[4000:], outcomes[4000:])
merged = mlkm.merge([first, second, third])
print("first site:", distance(first), "all three:", distance(merged))

# %%
# The merged fit is the one that has seen all rows in one place, to rounding.
one_place = first.partial_fit(inputs[2000:], outcomes[2000:])
print("largest difference:", f"{np.abs(merged.predict(inputs) - one_place.predict(inputs)).max():.0e}")
