"""The pictures of the README and of the first page: python docs/images/make.py."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from mlkm import ConformalRegressor, MLKMRegressor, metrics
from mlkm.datasets import make_example1

HERE = Path(__file__).parent
INK, BAND, MISS = "#1f4e79", "#9cc3e6", "#c0392b"


def band_picture() -> None:
    """A fit of one input with its band, and new outcomes, those outside marked."""
    rng = np.random.default_rng(1)

    def truth(x: np.ndarray) -> np.ndarray:
        return np.sin(3 * x) + 0.5 * x

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.uniform(-2, 2, n)
        return x, truth(x) + (0.15 + 0.15 * (x + 2)) * rng.standard_normal(n)

    (x, y), (x_new, y_new), grid = draw(800), draw(300), np.linspace(-2, 2, 200)
    band = ConformalRegressor(MLKMRegressor(random_state=0), confidence_level=0.9, score="residual", random_state=0)
    mean, interval = band.fit(x[:, None], y).predict_interval(grid[:, None])
    inside = metrics.inside(y_new, band.predict_interval(x_new[:, None])[1])
    figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    ax.fill_between(grid, interval[:, 0, 0], interval[:, 1, 0], color=BAND, alpha=0.6, linewidth=0, label="90 % band")
    ax.plot(grid, truth(grid), color="black", linewidth=1, label="truth")
    ax.plot(grid, mean, color=INK, linestyle="--", linewidth=1.8, label="fit")
    ax.scatter(
        x_new[inside], y_new[inside], s=9, color="grey", alpha=0.8, label=f"new outcomes, {inside.mean():.0%} inside"
    )
    ax.scatter(x_new[~inside], y_new[~inside], s=11, color=MISS, label="outside")
    _finish(ax, "x", "y")
    ax.legend(frameon=False, fontsize="small", loc="upper left", ncols=2)
    figure.savefig(HERE / "band.png", dpi=110)


def effects_picture() -> None:
    """Effects of six columns of Example 1, of which four matter, with their bands."""
    X, y, _ = make_example1(n=600, d=6, random_state=0)
    effects = MLKMRegressor(random_state=0).fit(X, y).effects(X)
    figure, axes = plt.subplots(1, 6, figsize=(10, 2.5), sharey=True, layout="constrained")
    for j, ax in enumerate(axes):
        effect, order = effects.main(j), np.argsort(X[:, j])
        x = X[order, j]
        ax.fill_between(x, *(end[order] for end in effect.band_simultaneous), color=BAND, alpha=0.4, linewidth=0)
        ax.fill_between(x, *(end[order] for end in effect.band), color=BAND, alpha=0.9, linewidth=0)
        ax.plot(x, effect.values[order], color=INK)
        ax.axhline(0, color="grey", linewidth=0.8, zorder=0)
        _finish(ax, f"column {j + 1}", "effect on y" if j == 0 else "")
    figure.savefig(HERE / "effects.png", dpi=100)


def _finish(ax: plt.Axes, x: str, y: str) -> None:
    ax.set(xlabel=x, ylabel=y)
    ax.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    band_picture()
    effects_picture()
