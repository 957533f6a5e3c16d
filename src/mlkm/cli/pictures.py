"""The pictures of `mlkm demo`, with matplotlib (the extra `plot`)."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ..plotting import plot_band
from ..runtime.atomic import atomic_write
from .demo import DemoData, Result

_OTHERS, _LIMITS = 7 / 16, (0.02, 0.98)  # where other inputs are held: in the middle of a step of the staircase


def kinds() -> list[str]:
    """Return the endings that the name of a picture may have."""
    return [f".{kind}" for kind in sorted(Figure().canvas.get_supported_filetypes())]


def save_picture(figure: Figure, path: Path) -> None:
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=120)


def plot_demo_band(result: Result, data: DemoData, n_components: int = 5) -> Figure:
    """The band of one model along the first inputs, the others at 7/16."""
    mean, at = data.y.mean(), np.full(data.X.shape[1], _OTHERS)
    return plot_band(result.band, range(n_components), at, _LIMITS, truth=lambda X: data.truth(X) - mean)


def plot_components(results: Mapping[str, Result], data: DemoData, n_components: int = 5) -> Figure:
    """Each fit along one input, the others at 7/16, beside the truth: the layout of the paper's Figure 3. The last one
    is drawn boldly."""
    figure = Figure(figsize=(3.0 * n_components, 3.9), layout="constrained")
    grid, mean = np.linspace(*_LIMITS, 400), data.y.mean()
    axes = figure.subplots(1, n_components, sharey=True)
    for j, ax in enumerate(axes):
        X = np.full((len(grid), data.X.shape[1]), _OTHERS)
        X[:, j] = grid
        ax.plot(grid, data.truth(X), color="black", linewidth=3.0, alpha=0.35, label="truth")
        for number, (name, result) in enumerate(results.items()):
            bold = number == len(results) - 1
            ax.plot(
                grid,
                result.model.predict(X) + mean,
                color="#c0392b" if bold else f"C{(0, 1, 2, 4)[number % 4]}",
                linewidth=1.8 if bold else 1.2,
                linestyle="-" if bold else "--",
                label=name,
            )
        ax.set_xlabel(f"$x_{{{j + 1}}}$")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("fit, other inputs at 7/16")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure
