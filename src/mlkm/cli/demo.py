"""`mlkm demo`: what each step from kernel ridge to MLKM adds, and the published machines, each with a 95 % band.

The data are Example 2 of the paper with ten inputs, of which the first acts through three others as well, and a
staircase in the fifth: something for single inputs, for relevances and for the rough kernel to find. They were chosen
to show each step.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from rich.table import Table
from sklearn.base import RegressorMixin

from .. import metrics
from .._types import Array
from ..conformal import ConformalRegressor
from ..datasets import example2_truth, make_example2
from ..estimators import MLKMRegressor, RandomFeatureRidge, RKMRegressor
from ..runtime.atomic import atomic_write
from ..solve import GradientDescent
from .console import Json, check_output, console_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Model = tuple[str, RegressorMixin]  # with its name


def demo(
    picture: Annotated[Path, typer.Option(help="Where to save the picture of the fitted components.")] = Path(
        "mlkm-demo.png"
    ),
    n: Annotated[int, typer.Option(min=50, help="Training rows.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and models.")] = 0,
    smooth: Annotated[bool, typer.Option("--smooth", help="Leave the staircase out of the data.")] = False,
    as_json: Json = False,
) -> None:
    """Show each step from kernel ridge to MLKM, and the published machines, on Example 2 of the paper with a staircase
    added.

    \b
    Examples:
      mlkm demo
      mlkm demo --smooth --picture smooth.png
    """
    with console_of(as_json) as console:
        missing = _check_picture(picture)
        data, steps, published = draw_data(n, seed, stairs=not smooth), steps_to_mlkm(seed), published_machines(seed)
        results = []
        for name, model in [*steps, *published]:
            with console.working(f"fitting {name}"):
                results.append(fit_and_score(name, model, data))
        saved = [] if missing is not None else _save_pictures(picture, results, len(steps), data)
        if as_json:
            console.result({"results": [r.as_data() for r in results], "pictures": list(map(str, saved))})
            return
        staircase = "" if smooth else " and a staircase"
        title = f"Example 2, d = 10{staircase}: {n} training rows, {n} for calibration, {len(data.y_test)} test rows"
        console.output.print(_table(title, results, len(steps)))
        console.output.print(_explanation(smooth))
        if missing is not None:
            console.output.print(f"No picture: it needs the package {missing!r} (pip install 'mlkm[plot]').")
        else:
            console.output.print(f"The fitted components are in {saved[0]}, and the band of MLKM in {saved[1]}.")


@dataclass(frozen=True)
class DemoData:
    """Training and calibration rows with noise, and test rows with and without; `stairs` says whether the truth has
    the staircase."""

    X: Array
    y: Array
    X_calibration: Array
    y_calibration: Array
    X_test: Array
    y_test: Array
    f_test: Array
    stairs: bool

    def truth(self, X: Array) -> Array:
        """Return the noiseless mean at rows in [0, 1)."""
        return example2_truth(X) + (staircase(X) if self.stairs else 0.0)


@dataclass(frozen=True)
class DemoResult:
    """One fitted model with its test error and its band; `excess` is the mean squared distance to the noiseless
    truth."""

    name: str
    model: Any
    mse: float
    excess: float
    seconds: float
    band: ConformalRegressor
    coverage: float
    length: float

    def as_data(self) -> dict[str, str | float]:
        """Return the numbers by their names."""
        return {name: getattr(self, name) for name in ("name", "mse", "excess", "coverage", "length", "seconds")}


def staircase(X: Array) -> Array:
    """Return a step function of the fifth input: eight steps of equal length."""
    heights = np.array([0.86, -2.0, 0.28, 2.0, -0.86, 1.42, -1.42, -0.28])
    steps: Array = heights[np.minimum((len(heights) * X[:, 4]).astype(np.intp), len(heights) - 1)]
    return steps


def draw_data(n: int, seed: int, *, stairs: bool = True) -> DemoData:
    """Draw n training rows, n calibration rows and 4000 test rows."""
    samples = []
    for n_rows, sample_seed in ((n, seed), (n, seed + 2), (4000, seed + 1)):
        X, y, f = make_example2(n_rows, 10, random_state=sample_seed)
        steps = staircase(X) if stairs else np.zeros(n_rows)
        samples.append((X, y + steps, f + steps))
    (X, y, _), (X_calibration, y_calibration, _), (X_test, y_test, f_test) = samples
    return DemoData(X, y, X_calibration, y_calibration, X_test, y_test, f_test, stairs)


def steps_to_mlkm(seed: int) -> list[Model]:
    """Return models from kernel ridge with its usual grid search to the default, one step at a time."""
    # Imported here, since other commands need not wait for them.
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    grid = {"kernelridge__alpha": np.logspace(-2, 0, 3), "kernelridge__gamma": np.logspace(-2.5, -1, 3)}
    ridge = GridSearchCV(make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")), grid, cv=3)
    one_scale: dict[str, Any] = {"n_features": 400, "relevance": False, "linear": False, "random_state": seed}
    return [
        ("kernel ridge, 3 x 3 grid", ridge),
        ("random features, one scale", RandomFeatureRidge(interactions="full", **one_scale)),
        ("+ single inputs", RandomFeatureRidge(interactions=(1, "full"), **one_scale)),
        ("+ relevances learned", RandomFeatureRidge(random_state=seed)),
        ("+ kernels at all rows = MLKM", MLKMRegressor(random_state=seed)),
    ]


def published_machines(seed: int) -> list[Model]:
    """Return the paper's two machines, trained as in its Algorithm 1 without rotations."""
    descent = GradientDescent(1e-3, momentum=0.9, batch_size=128, max_iter=400, patience=100)
    paper: dict[str, Any] = {"penalty": 1e-4, "cv": None, "solver": descent, "random_state": seed}
    return [
        ("MLKM as published, 400 epochs", MLKMRegressor.published((64, 8), 1.0, **paper)),
        ("RKM as published, 400 epochs", RKMRegressor.published((64, 8), 1.0, **paper)),
    ]


def fit_and_score(name: str, model: Any, data: DemoData) -> DemoResult:
    """Fit a model and its band, and measure both on the test rows."""
    begin = time.perf_counter()
    mean = data.y.mean()  # kernel ridge has no intercept; the others do not mind
    model.fit(data.X, data.y - mean)
    seconds = time.perf_counter() - begin
    prediction = model.predict(data.X_test) + mean
    mse, excess = (float(np.mean((prediction - y) ** 2)) for y in (data.y_test, data.f_test))
    score: Literal["variance", "absolute"] = "variance" if hasattr(model, "machines_") else "absolute"
    band = ConformalRegressor(model, score=score).conformalize(data.X_calibration, data.y_calibration - mean)
    interval = band.predict_interval(data.X_test)[1]
    share = metrics.coverage(data.y_test - mean, interval).share
    return DemoResult(name, model, mse, excess, seconds, band, share, metrics.mean_width(interval))


def _table(title: str, results: Sequence[DemoResult], n_steps: int) -> Table:
    """Return the results as a table, with MLKM in bold and a line between the steps and the published machines."""
    table = Table(title=title)
    for heading in ("model", "test MSE", "excess over noise", "95 % band: coverage", "length", "fit seconds"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for k, r in enumerate(results, 1):
        numbers = f"{r.mse:.3f}", f"{r.excess:.3f}", f"{100 * r.coverage:.1f} %", f"{r.length:.2f}", f"{r.seconds:.2f}"
        table.add_row(r.name, *numbers, style="bold" if k == n_steps else None, end_section=k == n_steps)
    return table


def _explanation(smooth: bool) -> str:
    """Return how to read the table."""
    last = "The last step follows the staircase; with --smooth there is none."
    if smooth:
        last = "Without the staircase there is nothing rough to find."
    return (
        "The noise has variance 1: excess is what a fit adds to it, and the shortest band that covers 95 % has length"
        " 3.92. Random features at one scale stand in for kernel ridge's kernel, at a cost linear in n; each + is"
        f" the row above and one thing more. {last}"
    )


def _check_picture(picture: Path) -> str | None:
    """Return the package that is missing for pictures, or None; raise an error if a picture could not be saved."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as missing:
        return missing.name
    check_output(picture, "picture", [f".{kind}" for kind in sorted(Figure().canvas.get_supported_filetypes())])
    return None


def _save_pictures(picture: Path, results: Sequence[DemoResult], n_steps: int, data: DemoData) -> list[Path]:
    """Save a picture of the components of four models and one of the band of MLKM, along the first five inputs.

    The other inputs are at 7/16, in the middle of a step of the staircase.
    """
    from ..plotting import plot_band

    at, limits, mean, best = np.full(data.X.shape[1], 7 / 16), (0.02, 0.98), data.y.mean(), results[n_steps - 1]
    shown = {
        "kernel ridge": results[0],
        "smooth random features with relevances": results[n_steps - 2],
        "MLKM as published": results[n_steps],
        "MLKM": best,
    }
    figures = {
        picture: _plot_components(shown, data, at, np.linspace(*limits, 400)),
        picture.with_name(f"{picture.stem}-band{picture.suffix}"): plot_band(
            best.band, range(5), at, limits, truth=lambda X: data.truth(X) - mean
        ),
    }
    for path, figure in figures.items():
        with atomic_write(path) as file:
            figure.savefig(file, format=path.suffix[1:].lower(), dpi=120)
    return list(figures)


def _plot_components(results: Mapping[str, DemoResult], data: DemoData, at: Array, grid: Array) -> "Figure":
    """Draw each fit along one input beside the truth, in the layout of the paper's Figure 3, the last one boldly."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15.0, 3.9), layout="constrained")
    axes = figure.subplots(1, 5, sharey=True)
    styles = [("C0", "--", 1.2), ("C1", "--", 1.2), ("C2", "--", 1.2), ("#c0392b", "-", 1.8)]
    for j, ax in enumerate(axes):
        X = np.tile(at, (len(grid), 1))
        X[:, j] = grid
        ax.plot(grid, data.truth(X), color="black", linewidth=3.0, alpha=0.35, label="truth")
        for (name, result), (colour, line, width) in zip(results.items(), styles, strict=True):
            f = result.model.predict(X) + data.y.mean()
            ax.plot(grid, f, label=name, color=colour, linestyle=line, linewidth=width)
        ax.set_xlabel(f"$x_{{{j + 1}}}$")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("fit, other inputs at 7/16")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure
