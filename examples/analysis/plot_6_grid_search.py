"""
In a pipeline, with a grid search
=================================

The regressors are ordinary estimators of scikit-learn: they go into pipelines and searches like any other. The default
needs no search. Where you want to decide yourself, all settings are there.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from mlkm import RandomFeatureRidge

rng = np.random.default_rng(0)
hidden = rng.standard_normal((400, 3))
X = hidden @ rng.standard_normal((3, 20)) + 0.1 * rng.standard_normal((400, 20))
y = np.tanh(hidden[:, 0]) + hidden[:, 1] * hidden[:, 2] + 0.2 * rng.standard_normal(400)

# %%
# Twenty columns that are mixtures of three. How many components should be kept, and at which scale do features vary?
pipeline = Pipeline([("pca", PCA(whiten=True)), ("model", RandomFeatureRidge(200, random_state=0))])
grid = {"pca__n_components": [1, 2, 3, 5, 8], "model__scale": [0.03, 0.1, 0.3, 1.0]}
search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
print("best:", search.best_params_, "with R2", round(search.best_score_, 3))

# %%
# The whole grid.
found = search.cv_results_["mean_test_score"].reshape(4, 5)
figure, ax = plt.subplots(figsize=(5.4, 3.4), layout="constrained")
image = ax.imshow(found, cmap="Blues", vmin=0, vmax=1, aspect="auto")
for row, column in np.ndindex(found.shape):
    ax.annotate(
        f"{found[row, column]:.2f}",
        (column, row),
        ha="center",
        va="center",
        color="white" if found[row, column] > 0.6 else "black",
    )
ax.set_xticks(range(5), grid["pca__n_components"])
ax.set_yticks(range(4), grid["model__scale"])
ax.set(xlabel="components", ylabel="scale", title="R2 of rows left out")
plt.show()
