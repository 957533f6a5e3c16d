"""
Why is this prediction what it is?
==================================

``explain`` splits a prediction into a baseline and one contribution per column. They add up exactly.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mlkm import MLKMRegressor

rng = np.random.default_rng(1)
n = 300
cars = pd.DataFrame(
    {
        "age": rng.uniform(0, 15, n).round(1),
        "km": rng.uniform(5, 200, n).round(),
        "fuel": rng.choice(["petrol", "diesel", "electric"], n),
        "doors": rng.choice([3, 5], n),
    }
)
price = 30 * np.exp(-cars["age"] / 6) - 0.03 * cars["km"] + 5 * (cars["fuel"] == "electric") + rng.normal(0, 1, n)
model = MLKMRegressor(random_state=0).fit(cars, price)

# %%
# One car: nearly new, electric, and driven a lot.
car = pd.DataFrame({"age": [2.0], "km": [150.0], "fuel": ["electric"], "doors": [5]})
told = model.explain(car)
print("baseline plus contributions:", round(told.baseline + told.values[0].sum(), 3))
print("prediction:                 ", round(model.predict(car)[0], 3))

# %%
# From the average car to this one, a step per column.
order = np.argsort(-np.abs(told.values[0]))
steps = told.values[0][order]
begins = told.baseline + np.concatenate([[0], np.cumsum(steps)[:-1]])
labels = [f"{told.names[j]} = {car.iloc[0, j]}" for j in order]
figure, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
bars = ax.barh(labels, steps, left=begins, color=np.where(steps > 0, "#1f4e79", "#c0392b"))
ax.bar_label(bars, [f"{step:+.1f}" for step in steps], padding=4)
ax.axvline(told.baseline, color="grey", linewidth=1, linestyle=":")
ax.annotate("average", (told.baseline, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom", color="grey")
ax.axvline(model.predict(car)[0], color="grey", linewidth=1)
ax.annotate("this car", (model.predict(car)[0], 1), xycoords=("data", "axes fraction"), ha="center", va="bottom")
ax.invert_yaxis()
ax.use_sticky_edges = False
ax.margins(x=0.12)
ax.set(xlabel="price in thousands")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
