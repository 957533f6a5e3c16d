"""
Noise that varies: which score?
===============================

A band of one width is too wide where the noise is small and too narrow where it is large, though it is right on
average. ``score`` says what the width follows.
"""

import matplotlib.pyplot as plt
import numpy as np

from mlkm import ConformalRegressor, RandomFeatureRidge, metrics

rng = np.random.default_rng(0)


def draw(n):
    X = rng.uniform(0, 1, (n, 2))
    return X, np.sin(6 * X[:, 0]) + (0.1 + 0.9 * X[:, 0]) * rng.standard_normal(n)


X, y = draw(1200)
X_new, y_new = draw(4000)

# %%
# ``"absolute"`` has one width. ``"residual"`` fits the size of the errors, ``"quantile"`` the quantiles themselves. The
# quick regressor of random features keeps this script short; any regressor will do.
model = RandomFeatureRidge(100, random_state=0)
scores = ["absolute", "residual", "quantile"]
bands = {
    score: ConformalRegressor(model, confidence_level=0.9, score=score, random_state=0).fit(X, y) for score in scores
}

# %%
# All three cover nine of ten on average. The difference is where they miss.
for score, band in bands.items():
    _, interval = band.predict_interval(X_new)
    shares = [part.share for *_, part in metrics.coverage_by_bin(y_new, interval, X_new[:, 0], n_bins=5)]
    print(f"{score:9} mean width {metrics.mean_width(interval):.2f}, coverage by fifths of x:", np.round(shares, 2))

# %%
# Along the first input, the second in its middle.
grid = np.column_stack([np.linspace(0, 1, 200), np.full(200, 0.5)])
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True, layout="constrained")
for ax, (score, band) in zip(axes, bands.items(), strict=True):
    mean, interval = band.predict_interval(grid)
    ax.scatter(X_new[:400, 0], y_new[:400], s=5, color="grey", alpha=0.6)
    ax.fill_between(grid[:, 0], interval[:, 0, 0], interval[:, 1, 0], color="#9cc3e6", alpha=0.6, linewidth=0)
    ax.plot(grid[:, 0], mean, color="#1f4e79")
    ax.set(title=f'score="{score}"', xlabel="first input")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("y")
plt.show()
