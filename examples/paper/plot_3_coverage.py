"""
Does the band keep its word?
============================

The paper's band promises that a new outcome lies inside with the chance asked for, at any number of rows. That can be
checked by drawing the data many times.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import betabinom

from mlkm import ConformalRegressor, RandomFeatureRidge, metrics
from mlkm.datasets import make_example1

# %%
# Sixty times: 100 rows to fit, 99 to calibrate, 300 new ones to judge. The model is a plain one, with a scale that is
# given: the promise holds for good and for poor models alike.
model = RandomFeatureRidge(50, "gaussian", 1.0, penalty=1e-3, random_state=0)
shares = []
for seed in range(60):
    X, y, _ = make_example1(n=499, d=4, random_state=seed)
    band = ConformalRegressor(model.fit(X[:100], y[:100]), confidence_level=0.9).conformalize(X[100:199], y[100:199])
    shares.append(metrics.coverage(y[199:], band.predict_interval(X[199:])[1]).share)
print(f"mean coverage {np.mean(shares):.3f}, asked for 0.9")

# %%
# One band covers a little more or less than 90 %, since 99 rows calibrate it. How much is known exactly: theory is the
# line.
figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
counts = np.arange(0, 301)
edges = np.arange(0.78, 1.0, 0.02)
ax.hist(shares, edges, color="#9cc3e6", label="60 draws")
chance = betabinom(300, 90, 10).pmf(counts)  # the 90th of 99 scores bounds a beta(90, 10) share of new ones
expected = [60 * chance[(counts / 300 > low) & (counts / 300 <= high)].sum() for low, high in pairwise(edges)]
ax.plot((edges[1:] + edges[:-1]) / 2, expected, color="#1f4e79", marker="o", label="theory")
ax.axvline(0.9, color="grey", linewidth=1, linestyle="--")
ax.set(xlabel="coverage of one band", ylabel="draws")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
