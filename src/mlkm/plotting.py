"""Pictures, with matplotlib (the extra `plot`)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from .datasets import example1_truth
from .demo import DemoData, Result


def plot_components(results: Sequence[Result], data: DemoData, n_components: int = 5) -> Figure:
    """Each fit along one input, the others at 1/2, beside the truth: the layout of the paper's Figure 3."""
    figure = Figure(figsize=(3.2 * n_components, 3.9), layout="constrained")
    grid = np.linspace(0.02, 0.98, 200)
    mean = data.y.mean()
    axes = figure.subplots(1, n_components, sharey=True)
    for j, ax in enumerate(axes):
        X = np.full((len(grid), data.X.shape[1]), 0.5)
        X[:, j] = grid
        ax.plot(grid, example1_truth(X), color="black", linewidth=2.5, label="truth")
        for r in results:
            best = r.name == "MLKM"
            ax.plot(grid, r.model.predict(X) + mean, linewidth=2.0 if best else 1.0, alpha=1.0 if best else 0.75, label=r.name)
        ax.set_xlabel(f"$x_{{{j + 1}}}$")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("fit, other inputs at 1/2")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure
