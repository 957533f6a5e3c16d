"""
Groups, and new rows that differ from the old
=============================================

Coverage holds on average over rows like those of the calibration. Two ways to ask for more: for every group by itself,
and for new rows whose inputs lie elsewhere.
"""

import matplotlib.pyplot as plt
import numpy as np

from mlkm import ConformalRegressor, RandomFeatureRidge, metrics

rng = np.random.default_rng(0)
model = RandomFeatureRidge(100, random_state=0)

# %%
# **Groups.** One row in five is of a clinic whose measurements are rough.
n = 3000
X, clinic = rng.uniform(0, 1, (n, 3)), rng.choice(["A", "B"], n, p=[0.8, 0.2])
y = np.sin(6 * X[:, 0]) + X[:, 1] + np.where(clinic == "B", 1.0, 0.3) * rng.standard_normal(n)
train, test = slice(0, 1000), slice(1000, None)

plain = ConformalRegressor(model, confidence_level=0.9, random_state=0).fit(X[train], y[train])
by_group = ConformalRegressor(model, confidence_level=0.9, random_state=0)
by_group.fit(X[train], y[train], groups=clinic[train])
intervals = {
    "one band for all": plain.predict_interval(X[test])[1],
    "level in each group": by_group.predict_interval(X[test], groups=clinic[test])[1],
}
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
colours = ["#c0392b", "#1f4e79"]
for place, (name, interval) in enumerate(intervals.items()):
    shares = metrics.coverage_by_group(y[test], interval, clinic[test])
    bars = ax.bar(np.arange(2) + 0.4 * place, [shares[g].share for g in "AB"], 0.36, label=name, color=colours[place])
    ax.bar_label(bars, fmt="%.2f", label_type="center", color="white")
ax.axhline(0.9, color="grey", linewidth=1, linestyle="--")
ax.set_xticks([0.2, 1.2], ["clinic A", "clinic B"])
ax.set(ylabel="share inside", ylim=(0, 1.25))
ax.legend(frameon=False, loc="upper center", ncols=2)
ax.spines[["top", "right"]].set_visible(False)
plt.show()


# %%
# **Shift.** The noise grows along the first input. New rows lie mostly at its upper end, calibration rows everywhere. A
# weight says how much more frequent a row is among the new ones: here the density 3x² over the density 1.
def draw(n, power):
    X = np.column_stack([rng.uniform(0, 1, n) ** (1 / power), rng.uniform(0, 1, (n, 2))])
    return X, np.sin(6 * X[:, 0]) + (0.1 + X[:, 0]) * rng.standard_normal(n)


(X_fit, y_fit), (X_old, y_old), (X_new, y_new) = draw(500, 1), draw(1000, 1), draw(3000, 3)


def weight(X):
    return 3 * X[:, 0] ** 2


fitted = model.fit(X_fit, y_fit)
without = ConformalRegressor(fitted, confidence_level=0.9, score="absolute").conformalize(X_old, y_old)
weighted = ConformalRegressor(fitted, confidence_level=0.9, score="absolute")
weighted.conformalize(X_old, y_old, sample_weight=weight(X_old))
print("without weights:", metrics.coverage(y_new, without.predict_interval(X_new)[1]).share)
_, interval = weighted.predict_interval(X_new, sample_weight=weight(X_new))
print("with weights:   ", metrics.coverage(y_new, interval).share)
