"""
Beside the regressors of scikit-learn
=====================================

The same rows for five regressors. The peers that have something to tune are tuned by a grid search, ours has nothing to
tune. One small table proves nothing: the :doc:`benchmarks </benchmarks/index>` have real data, losses included.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mlkm import MLKMRegressor
from mlkm.datasets import make_example1

X, y, f = make_example1(n=300, d=8, random_state=0)
X_new, _, f_new = make_example1(n=2000, d=8, random_state=1)

# %%
# A Gaussian process with one length scale per input is the nearest relative.
kernel = ConstantKernel(10.0) * RBF(np.full(8, 2.0), (0.1, 1e6)) + WhiteKernel(1.0)
grid = {"kernelridge__alpha": [0.01, 0.1, 1.0], "kernelridge__gamma": [0.01, 0.03, 0.1, 0.3]}
models = {
    "ridge": RidgeCV(np.logspace(-3, 3, 13)),
    "gradient boosting": HistGradientBoostingRegressor(max_iter=50, random_state=0),
    "kernel ridge, grid search": GridSearchCV(make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")), grid, cv=3),
    "Gaussian process": make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True)),
    "MLKM": MLKMRegressor(random_state=0),
}
errors = {name: np.sqrt(np.mean((model.fit(X, y).predict(X_new) - f_new) ** 2)) for name, model in models.items()}

# %%
# The distance to the truth, without noise. Example 1 is a sum of curves of four inputs; four more say nothing.
figure, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
bars = ax.barh(list(errors), list(errors.values()), color=["#9cc3e6"] * 4 + ["#1f4e79"])
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.set(xlabel="distance to the truth")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
