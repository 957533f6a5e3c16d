"""
Random features become the kernel
=================================

D random features stand for a kernel: their products are the kernel on average, and ridge regression on them comes as
near to kernel ridge as one likes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from mlkm import RandomFeatures
from mlkm.datasets import make_example1

X, y, f = make_example1(n=300, d=4, random_state=0)
X_new, _, _ = make_example1(n=200, d=4, random_state=1)
y = y - y.mean()

# %%
# The Gaussian kernel at scale gamma is scikit-learn's "rbf" with gamma²/2.
scale, alpha = 2.0, 1.0
exact = KernelRidge(kernel="rbf", gamma=scale**2 / 2, alpha=alpha).fit(X, y).predict(X_new)
sizes = [10, 30, 100, 300, 1000, 3000]


def distance(D, sampling, seed):
    """Of ridge on D features from kernel ridge, root mean square."""
    features = RandomFeatures(D, "gaussian", scale, sampling=sampling, random_state=seed).fit(X)
    ridge = Ridge(alpha=alpha, fit_intercept=False).fit(features.transform(X), y)
    return np.sqrt(np.mean((ridge.predict(features.transform(X_new)) - exact) ** 2))


# %%
# The distance falls like one over the root of D. Frequencies that are orthogonal to each other do a little better.
figure, ax = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
for sampling, colour in (("iid", "#9cc3e6"), ("orthogonal", "#1f4e79")):
    found = [np.mean([distance(D, sampling, seed) for seed in range(5)]) for D in sizes]
    ax.loglog(sizes, found, marker="o", color=colour, label=f'sampling="{sampling}"')
ax.loglog(sizes, found[2] * np.sqrt(100 / np.array(sizes)), color="grey", linestyle="--", label="1 / root of D")
ax.set(xlabel="number of features D", ylabel="distance to kernel ridge")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
