"""The settings: each a small function that fits a model and says what is asked of it.

`searched` settings learn something by a search, and are compared twice: with the recorded decisions given, and, unless
told otherwise, end to end. `slow` ones take more than a second or two. `tolerance` is by the beginning of an output's
name ("" for all of them) where rounding is amplified, with the reason beside it; it is relative, and absolute in units
of the output's largest size.
"""

import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

import mlkm
from mlkm import (
    ConformalRegressor,
    MLKMRegressor,
    OnlineConformal,
    RandomFeatureRidge,
    RKMRegressor,
    config_context,
    open_table,
)
from mlkm.solvers import GradientDescent, VariableProjection

from .data import head, levels, mixed, numbers, skewed, texts, weights
from .decisions import few_rows_are_many, few_search_steps, hidden_layers_always, kernels_alone
from .outputs import Case

REGRESSION = ("std", "fit", "cost")
EVERYTHING = ("std", "fit", "outside", "left out", "effects", "explain", "onnx", "cost", "saved", "saved without rows")
BAND = ("intervals", "distribution")
SINGLE = 2e-3  # predictions by kernels in float32, whose weights are some hundred times as large as y
SMALL_MEMORY = "150 KB"  # less than the rows of any fit here take, more than their sums


@dataclass(frozen=True)
class Setting:
    """A setting by name, with how it is compared."""

    name: str
    case: Callable[[], Case]
    searched: bool
    slow: bool
    end_to_end: bool
    tolerance: dict[str, float] = field(default_factory=dict)


SETTINGS: dict[str, Setting] = {}


def setting(*, searched: bool = False, slow: bool = False, end_to_end: bool | None = None, **tolerance: Any) -> Any:
    """Add a function to the list; tolerances have underscores for blanks, and `every` is every output."""

    def added(case: Callable[[], Case]) -> Callable[[], Case]:
        name = case.__name__
        told = {("" if key == "every" else key.replace("_", " ").strip()): value for key, value in tolerance.items()}
        SETTINGS[name] = Setting(name, case, searched, slow, searched if end_to_end is None else end_to_end, told)
        return case

    return added


def regression(model: Any, make: Callable[..., Any], n: int, parts: tuple[str, ...] = REGRESSION, **more: Any) -> Case:
    """Fit to n rows of a table, and ask about others: two of the 25 are far outside where rows are numbers."""
    X, y, _ = make(n)
    return asked_of(model.fit(X, y), make, (head(X, 12), y[:12]), parts, **more)


def asked_of(model: Any, make: Callable[..., Any], rows: Any, parts: tuple[str, ...] = REGRESSION, **more: Any) -> Case:
    """Ask a fitted model about rows of a table."""
    asked, (test, _, truth) = make(25, seed=99)[0], make(300, seed=77)
    if isinstance(asked, np.ndarray):
        asked[-2:] *= [[2.5], [40.0]]
    return Case(model, asked, parts, rows, (test, truth), **more)


def default(**choices: Any) -> MLKMRegressor:
    """Return the regressor with a fixed seed."""
    return MLKMRegressor(random_state=0, **choices)


def ridge(D: int = 60, scale: float = 0.7, **choices: Any) -> RandomFeatureRidge:
    """Return random features of a given scale, which search nothing."""
    return RandomFeatureRidge(D, scale=scale, random_state=0, **choices)


# --- the default: kernels on all rows


@setting(searched=True)
def three_rows() -> Case:
    return regression(default(), numbers, 3, ("std", "fit", "cost", "effects"))


@setting(searched=True)
def ten_rows() -> Case:
    return regression(default(), numbers, 10, EVERYTHING)


@setting(searched=True)
def sixty_rows() -> Case:
    return regression(default(), numbers, 60, EVERYTHING)


@setting(searched=True)
def three_hundred_rows() -> Case:
    return regression(default(), numbers, 300, EVERYTHING)


@setting(searched=True)
def one_input() -> Case:
    def make(n: int, seed: int = 0) -> Any:
        return numbers(n, 1, seed)

    return regression(default(), make, 100, ("std", "fit", "outside", "left out", "explain", "onnx", "cost"))


@setting(searched=True)
def many_inputs() -> Case:
    def make(n: int, seed: int = 0) -> Any:
        return numbers(n, 30, seed)

    return regression(default(), make, 400)


@setting(searched=True, end_to_end=False, every=1e-3)  # kernels that are singular to rounding; so is the error
def no_noise() -> Case:
    def make(n: int, seed: int = 0) -> Any:
        return numbers(n, 3, seed, noise=0.0)

    return regression(default(), make, 120, ("fit",))


def precise(n: int, seed: int = 0) -> Any:
    """Return rows with so little noise that nothing is computed in float32."""
    return numbers(n, 4, seed, noise=0.01)


@setting(searched=True)
def little_noise() -> Case:
    return regression(default(), precise, 150, ("std", "fit", "left out"))


@setting(searched=True)
def no_signal() -> Case:
    def make(n: int, seed: int = 0) -> Any:
        X, _, _ = numbers(n, 3, seed)
        return X, np.random.default_rng(seed + 1).standard_normal(n), np.zeros(n)

    return regression(default(), make, 80)


@setting(searched=True)
def skewed_targets() -> Case:
    return regression(default(), skewed, 200, EVERYTHING)


@setting(searched=True)
def two_outputs() -> Case:
    def make(n: int, seed: int = 0) -> Any:
        X, y, f = numbers(n, 3, seed)
        return X, np.column_stack([y, np.exp(y)]), np.column_stack([f, np.exp(f + 0.02)])

    return regression(default(), make, 120, EVERYTHING)


@setting(searched=True)
def weighted_rows() -> Case:
    X, y, _ = numbers(150)
    return asked_of(default().fit(X, y, weights(150)), numbers, (X[:12], y[:12]), ("std", "fit", "left out", "effects"))


@setting(searched=True)
def repeated_rows() -> Case:
    X, y, _ = numbers(90)
    more, others = np.vstack([X, X[:60], X[:60]]), np.concatenate([y, y[:60], y[:60] + 0.1])
    return asked_of(default().fit(more, others), numbers, (X[:12], y[:12]), ("std", "fit", "left out"))


@setting(searched=True)
def mixed_frame() -> Case:
    return regression(default(), mixed, 250, EVERYTHING, pair=("x", "city"))


@setting(searched=True)
def words_with_texts() -> Case:
    """The order of rows with texts differs between processors, so that nothing is asked that depends on it."""
    with kernels_alone():
        return regression(default(), texts, 160, ("std", "onnx", "saved"), pair=("x", "name"))


@setting(searched=True)
def levels_alone() -> Case:
    return regression(default(), levels, 120, ("std", "fit", "effects", "left out"), pair=("v", "w"))


@setting(searched=True, every=SINGLE)
def above_the_stack() -> Case:
    return regression(default(), numbers, 1200, ("std", "fit", "effects", "onnx"))


@setting(searched=True)
def above_the_stack_precisely() -> Case:
    return regression(default(), precise, 1100, ("std", "fit", "effects", "explain", "left out", "onnx"))


@setting(searched=True, slow=True, every=0.03)  # float32 on two scales, the weights being some thousand times y
def many_skewed_rows() -> Case:
    return regression(default(), skewed, 2300, ("std", "fit", "explain", "saved without rows"))


@setting(searched=True)
def more_effort() -> Case:
    return regression(default(effort="best"), numbers, 90)


@setting(searched=True)
def less_effort() -> Case:
    return regression(default(effort="fast"), mixed, 300, ("std", "fit", "effects"), pair=("x", "kind"))


@setting(searched=True)
def orders_given() -> Case:
    return regression(default(interactions=(1, 2), linear=False), numbers, 150)


@setting(searched=True)
def single_inputs_without_slopes() -> Case:
    return regression(default(interactions=1, linear=False), numbers, 150)


@setting(searched=True)
def refit_on_other_rows() -> Case:
    X, y, _ = numbers(300)
    model = default().fit(X[:150], y[:150])
    return asked_of(model.refit(X[100:], y[100:]), numbers, (X[100:112], y[100:112]), ("std", "fit", "left out"))


# --- features, hidden layers, rotations


@setting(searched=True)
def widths_given() -> Case:
    return regression(default(widths=(80,)), numbers, 200, ("std", "fit", "left out", "effects", "onnx"))


@setting(searched=True)
def hidden_layers() -> Case:
    with hidden_layers_always():
        model = default(widths=(64, 8), solver=VariableProjection(max_iter=4))
        return regression(model, numbers, 200, ("std", "fit", "descent", "effects", "onnx", "saved"))


@setting(searched=True)
def residual_layers() -> Case:
    with hidden_layers_always():
        model = RKMRegressor(widths=(40, 6), solver=VariableProjection(max_iter=4), random_state=0)
        return regression(model, numbers, 150, ("std", "fit", "descent", "explain", "onnx"))


@setting(searched=True)
def rotated_layers() -> Case:
    model = default(widths=(40, 6), cv="rotate", solver=VariableProjection(sweeps=2))
    return regression(model, numbers, 200, ("std", "fit", "descent"))


@setting(searched=True, slow=True, end_to_end=False, every=1e-3)  # sixty steps of the hidden layers amplify rounding
def hidden_layers_beside_kernels() -> Case:
    def make(n: int, seed: int = 0) -> Any:
        X, _, _ = numbers(n, 3, seed)
        f = np.sin(3 * np.sin(X[:, 0]) * (X[:, 1] - 1))
        return X, f + 0.2 * np.random.default_rng(seed + 1).standard_normal(n), f

    with few_search_steps():
        return regression(default(effort="best"), make, 1020)


@setting(searched=True, slow=True)
def hidden_layers_trained_long() -> Case:
    return regression(default(widths=(64, 8)), numbers, 300)


@setting()
def scales_given() -> Case:
    return regression(default(widths=(80,), scales=(0.6,), penalty=1e-4), numbers, 200, EVERYTHING)


@setting()
def one_scale_chosen() -> Case:
    return regression(default(widths=(60,), relevance=False), numbers, 150)


@setting(searched=True)
def ridge_that_chooses() -> Case:
    return regression(RandomFeatureRidge(random_state=0), numbers, 200, ("std", "fit", "left out", "onnx", "cost"))


@setting()
def ridge_of_a_mixed_frame() -> Case:
    return regression(ridge(80, 0.3, kernel="laplacian"), mixed, 200, ("std", "fit", "effects", "explain", "onnx"))


@setting()
def rows_that_come_and_go() -> Case:
    X, y, _ = numbers(300)
    w = 0.5 + np.arange(300) % 3
    model = ridge(penalty=1e-4).fit(X[:150], y[:150], w[:150])
    model.partial_fit(X[150:], y[150:], w[150:]).forget(X[100:160], y[100:160], w[100:160])
    return asked_of(model, numbers, None, ("std", "fit"))


@setting()
def merged_models() -> Case:
    X, y, _ = numbers(300)
    first = ridge(penalty=1e-4).fit(X[:200], y[:200])
    other = first.without_rows().partial_fit(X[200:], y[200:])
    return asked_of(mlkm.merge([first, other]), numbers, None, ("std", "fit", "onnx"))


# --- Algorithm 1 as published


def descent(**settings: Any) -> GradientDescent:
    """Return a descent of a few epochs."""
    return GradientDescent(**{"learning_rate": 1e-2, "max_iter": 15, **settings})


@setting()
def published() -> Case:
    model = MLKMRegressor.published((32, 8), (0.5, 1.0), penalty=1e-3, solver=descent(batch_size=32), random_state=0)
    return regression(model, numbers, 200, ("std", "fit", "descent", "effects", "explain", "onnx", "saved"))


@setting()
def published_with_a_penalty_by_folds() -> Case:
    model = MLKMRegressor.published((16, 4), (0.5, 1.0), solver=descent(max_iter=6), random_state=0)
    return regression(model, numbers, 100, ("std", "fit", "descent"))


@setting()
def published_with_folds_and_other_kernels() -> Case:
    scales, folds = mlkm.Geometric(0.2, 2.0), KFold(3, shuffle=True, random_state=0)
    kernels = ("matern", "cauchy", "gaussian")
    model = MLKMRegressor.published(
        (16, 6, 4), scales, kernels=kernels, penalty=1e-3, cv=folds, solver=descent(), random_state=0
    )
    return regression(model, numbers, 120, ("std", "fit", "descent"))


@setting()
def published_jointly() -> Case:
    def make(n: int, seed: int = 0) -> Any:
        X, y, f = numbers(n, 3, seed)
        return X, np.column_stack([y, 10 * y**2]), np.column_stack([f, 10 * f**2])

    solver = descent(learning_rate=2e-3)
    model = MLKMRegressor.published((24, 6), (0.5, 1.0), penalty=1e-3, cv=None, solver=solver, random_state=0)
    return regression(model, make, 120, ("std", "fit", "descent"))


@setting()
def published_residual_layers() -> Case:
    model = RKMRegressor.published((24, 6), (0.5, 1.0), penalty=1e-3, solver=descent(), random_state=0)
    return regression(model, numbers, 150, ("std", "fit", "descent", "onnx"))


# --- rows in files, on clusters, and more than kernels are solved on


@contextmanager
def in_a_file(frame: pd.DataFrame, y: np.ndarray, row_group_size: int = 250) -> Any:
    """Write rows to a Parquet file, and open it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        frame.assign(y=y).to_parquet(path, row_group_size=row_group_size, index=False)
        yield open_table(path, target="y")


def framed(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return a frame of four numbers."""
    X, y, f = numbers(n, 4, seed)
    return pd.DataFrame(X, columns=list("abcd")), y, f


@setting(searched=True)
def file_of_mixed_rows() -> Case:
    frame, y, _ = mixed(900)
    with few_rows_are_many(), in_a_file(frame, y) as table:
        model = default().fit(table)
        far = {"mean in the file": model.predict(table)[:25], "score": model.score(table)}
    return asked_of(model, mixed, None, ("std", "fit", "effects", "onnx"), pair=("x", "city"), more=lambda: far)


@setting(searched=True)
def file_of_few_rows() -> Case:
    frame, y, _ = framed(200)
    with in_a_file(frame, y, 60) as table:
        model = default().fit(table)
    return asked_of(model, framed, (frame[:12], y[:12]), ("std", "fit", "left out"), pair=("a", "b"))


@setting()
def file_by_given_features() -> Case:
    frame, y, _ = framed(1500)
    with few_rows_are_many(), in_a_file(frame, y) as table:
        model = ridge(penalty=1e-3).fit(table)
    return asked_of(model, framed, None, ("std", "fit", "explain", "saved"))


@setting(searched=True)
def second_search() -> Case:
    sizes = {"joint_rows": 150, "first_joint_rows": 100, "variance_rows": 150, "left_samples": 3, "joint_steps": (8, 6)}
    with few_rows_are_many(**sizes):
        return regression(default(), numbers, 900)


@setting()
def file_by_descent() -> Case:
    frame, y, _ = framed(1500)
    model = MLKMRegressor.published(
        (12, 6), (0.5, 1.0), penalty=1e-3, solver=descent(max_iter=6, batch_size=128), random_state=0
    )
    with config_context(max_memory=SMALL_MEMORY), in_a_file(frame, y) as table:
        model.fit(table)
    return asked_of(model, framed, None, ("std", "fit", "descent"))


@setting(searched=True, end_to_end=False, every=1e-6)  # few sweeps of few features, which amplify rounding
def file_by_hidden_layers() -> Case:
    frame, y, _ = framed(1500)
    model = default(widths=(20, 4), cv="rotate", solver=VariableProjection(sweeps=2))
    with config_context(max_memory=SMALL_MEMORY), in_a_file(frame, y) as table:
        model.fit(table)
    return asked_of(model, framed, None, ("std", "fit"))


@setting(searched=True, slow=True)
def dask_frame() -> Case:
    from dask import dataframe
    from distributed import Client, LocalCluster

    frame, y, _ = mixed(900)
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs="CRITICAL"
    )
    with few_rows_are_many(), cluster, Client(cluster):
        rows = dataframe.from_pandas(frame.assign(y=y), npartitions=3)
        model = default().fit(rows.drop(columns="y"), rows["y"])
        far = {"mean on the cluster": model.predict(rows.drop(columns="y")).compute()[:25]}
    return asked_of(model, mixed, None, ("std", "fit"), more=lambda: far)


@setting(searched=True, slow=True, every=SINGLE, penalty=0.1)  # sums of features in float32
def more_rows_than_kernels_take() -> Case:
    return regression(default(effort="fast"), numbers, 25_000, ("std", "fit"))


@setting(searched=True, slow=True, penalty=1e-5, std=1e-6)  # where the error is flat in the penalty
def more_rows_than_kernels_take_precisely() -> Case:
    return regression(default(effort="fast"), precise, 21_000, ("std", "fit"))


# --- bands


def band_of(band: ConformalRegressor, make: Callable[..., Any] = numbers, n: int = 240, **more: Any) -> Case:
    """Fit a band to n rows, and ask about others."""
    X, y, _ = make(n)
    return asked_of(band.fit(X, y), make, None, **{"parts": BAND, **more})


def conformal(estimator: Any = None, **choices: Any) -> ConformalRegressor:
    """Return a band around given features, unless told otherwise."""
    return ConformalRegressor(estimator or ridge(), confidence_level=0.9, random_state=0, **choices)


@setting(searched=True)
def band_of_the_default() -> Case:
    return band_of(conformal(default()), skewed, parts=(*BAND, "onnx", "saved", "saved without rows"))


@setting()
def band_by_variance() -> Case:
    return band_of(conformal(score="variance"), parts=(*BAND, "onnx", "saved"))


@setting()
def band_by_absolute_residuals() -> Case:
    return band_of(conformal(score="absolute"), parts=(*BAND, "onnx"))


@setting()
def band_by_a_fit_of_residuals() -> Case:
    return band_of(conformal(score="residual"), parts=(*BAND, "onnx"))


@setting()
def band_by_quantiles() -> Case:
    return band_of(conformal(score="quantile"), parts=(*BAND, "onnx"))


@setting()
def band_across_folds() -> Case:
    return band_of(conformal(method="cross", score="absolute"))


@setting(searched=True)
def band_across_folds_of_the_default() -> Case:
    return band_of(conformal(default(effort="fast"), method="cross", cv=3), n=120)


@setting()
def band_by_leave_one_out() -> Case:
    return band_of(conformal(method="cross", cv="loo", score="variance"))


@setting()
def band_by_bootstrap() -> Case:
    return band_of(conformal(method="bootstrap"), n=100, parts=())


@setting(searched=True)
def band_by_a_fit_of_residuals_of_the_default() -> Case:
    return band_of(conformal(default(effort="fast"), score="residual"), n=200)


@setting()
def band_of_weighted_rows() -> Case:
    X, y, _ = numbers(300)
    model = conformal().fit(X, y, sample_weight=np.exp(0.3 * X[:, 0]))
    return asked_of(model, numbers, None, BAND)


@setting()
def band_of_groups() -> Case:
    X, y, _ = numbers(240)
    groups = np.where(X[:, 0] > 0, "right", "left")
    model = conformal(score="absolute").fit(X, y, groups=groups)
    return asked_of(model, numbers, None, BAND, options={"groups": np.repeat(["right", "left"], [13, 12])})


@setting()
def band_of_shifted_rows() -> Case:
    X, y, _ = numbers(300)
    model = conformal(FrozenRidge(X[:120], y[:120])).conformalize(X[120:], y[120:], np.exp(0.3 * X[120:, 0]))
    return asked_of(model, numbers, None, BAND, options={"sample_weight": np.linspace(0.4, 1.4, 25)})


@setting()
def band_of_two_outputs() -> Case:
    def make(n: int, seed: int = 0) -> Any:
        X, y, f = numbers(n, 3, seed)
        return X, np.column_stack([y, y**2]), np.column_stack([f, f**2])

    return band_of(conformal(), make)


@setting()
def band_of_a_file() -> Case:
    frame, y, _ = framed(1200)
    with in_a_file(frame, y) as table:
        model = conformal().fit(table)
        far = {"interval in the file": model.predict_interval(table)[1][:25]}
    return asked_of(model, framed, None, BAND, more=lambda: far)


def FrozenRidge(X: np.ndarray, y: np.ndarray) -> RandomFeatureRidge:
    """Return given features that are fitted already."""
    return ridge().fit(X, y)


def in_time(**choices: Any) -> Case:
    X, y, _ = numbers(260)
    y = y + np.linspace(0, 2, 260)
    band = OnlineConformal(ridge(), confidence_level=0.8, random_state=0, **choices).fit(X[:120], y[:120])
    _, interval = band.predict_online(X[120:], y[120:])
    return asked_of(band, numbers, None, (), more=lambda: {"online intervals": interval[::6]})


@setting()
def band_in_time() -> Case:
    return in_time()


@setting()
def band_in_time_with_decaying_steps() -> Case:
    return in_time(method="decaying", score="variance")
