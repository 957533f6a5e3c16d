"""Pictures are made without a display, and show what they say."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from mlkm import ConformalRegressor, MLKMRegressor, OnlineConformal, metrics
from mlkm.solve import GradientDescent

plotting = pytest.importorskip("mlkm.plotting")


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(0)
    X = rng.random((600, 3))
    y = X[:, 0] + (0.1 + X[:, 1]) * rng.standard_normal(600)
    band = ConformalRegressor(Ridge(), confidence_level=0.9, score="residual", random_state=0).fit(X[:400], y[:400])
    return band, X[400:], y[400:], *band.predict_interval(X[400:])


def saved(figure, path):
    figure.savefig(path, dpi=60)
    return path.read_bytes().startswith(b"\x89PNG")


def test_band_along_inputs(drawn, tmp_path):
    figure = plotting.plot_band(
        drawn[0], [0, 2], np.full(3, 0.5), (0, 1), truth=lambda X: X[:, 0], names=["a", "b", "c"]
    )
    assert [ax.get_xlabel() for ax in figure.axes] == ["a", "c"]
    assert [len(ax.lines) for ax in figure.axes] == [2, 2]
    assert saved(figure, tmp_path / "band.png")


def test_band_of_an_online_band_leaves_it_as_it_was(drawn):
    _, X, y, *_ = drawn
    band = OnlineConformal(Ridge()).fit(X, y)
    band.predict_interval(X[:4])
    plotting.plot_band(band, [0], np.full(3, 0.5), (0, 1))
    with pytest.raises(ValueError, match="5 outcomes where 4 predicted rows"):
        band.update(y[:5])
    with pytest.raises(ValueError, match="OnlineConformal has one level"):
        plotting.plot_band(band, [0], np.full(3, 0.5), (0, 1), confidence_level=0.9)


def test_band_at_several_levels_is_nested(drawn):
    ax = plotting.plot_band(drawn[0], [0], np.full(3, 0.5), (0, 1), confidence_level=[0.5, 0.9]).axes[0]
    assert [patch.get_label() for patch in ax.collections] == ["band 90 %", "band 50 %"]
    wide, narrow = (patch.get_paths()[0].get_extents() for patch in ax.collections)
    assert wide.y0 < narrow.y0 < narrow.y1 < wide.y1


@pytest.mark.parametrize("prefit", [False, True])
def test_band_of_a_frame_has_its_names(drawn, prefit):
    frame, y = pd.DataFrame(drawn[1], columns=["a", "b", "c"]), drawn[2]
    band = ConformalRegressor(
        FrozenEstimator(Ridge().fit(frame, y)) if prefit else Ridge(), score="absolute", random_state=0
    )
    band = band.conformalize(frame, y) if prefit else band.fit(frame, y)
    figure = plotting.plot_band(band, [0, 2], np.full(3, 0.5), (0, 1))
    assert [ax.get_xlabel() for ax in figure.axes] == ["a", "c"]


def test_inputs_by_name_are_those_at_their_places(drawn):
    frame, y = pd.DataFrame(drawn[1], columns=["a", "b", "c"]), drawn[2]
    band = ConformalRegressor(Ridge(), score="absolute", random_state=0).fit(frame, y)
    by_place = plotting.plot_band(band, [1, 0], np.full(3, 0.5), (0, 1))
    for inputs, at in [(["b", "a"], [0.5] * 3), ([1, "a"], {"a": 0.5, "c": 0.5, "b": 0.5})]:
        figure = plotting.plot_band(band, inputs, at, (0, 1))
        assert [ax.get_xlabel() for ax in figure.axes] == ["b", "a"]
        for ax, other in zip(figure.axes, by_place.axes, strict=True):
            np.testing.assert_allclose(ax.lines[0].get_ydata(), other.lines[0].get_ydata())
    assert len(plotting.plot_band(band, "b", np.full(3, 0.5), (0, 1)).axes) == 1
    named = plotting.plot_band(drawn[0], ["z"], np.full(3, 0.5), (0, 1), names=["x", "y", "z"])
    assert named.axes[0].get_xlabel() == "z"


class Seen(RegressorMixin, BaseEstimator):
    """Keeps the types of the columns it was last asked for, and predicts by a number and a category."""

    def fit(self, X, y):
        self.n_features_in_, self.feature_names_in_ = X.shape[1], np.asarray(X.columns, dtype=object)
        return self

    def predict(self, X):
        self.types_ = X.dtypes.to_dict()
        return X["age"].to_numpy(float) + 10 * (X["make"] == "Fiat").to_numpy(float)


@pytest.fixture(scope="module")
def cars():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 20, 200),
            "make": pd.Categorical(rng.choice(["Fiat", "Saab"], 200)),
            "power": rng.uniform(50, 200, 200).astype(np.float32),
            "sold": rng.random(200) < 0.5,
            "town": rng.choice(["Bonn", "Ulm"], 200),
        }
    )
    return frame, frame["age"] + 3.0 * (frame["make"] == "Fiat") + rng.normal(size=200)


def test_columns_of_a_mixed_frame_keep_their_types(cars):
    frame, y = cars
    model = Seen().fit(frame, y)
    band = ConformalRegressor(FrozenEstimator(model), score="absolute").conformalize(frame, y)
    row = frame[frame["make"] == "Fiat"].iloc[[0]]
    ax = plotting.plot_band(band, ["age"], row, (0, 20), truth=lambda X: X["age"]).axes[0]
    assert model.types_ == frame.dtypes.to_dict() | {"age": np.dtype(float)}
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.linspace(0, 20, 200) + 10)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), np.linspace(0, 20, 200))
    plotting.plot_band(band, ["power"], row, (50, 200))
    assert model.types_ == frame.dtypes.to_dict()


def test_band_of_a_pipeline_with_categories(cars):
    """At a row as a frame, as a series, as a dictionary and as a list: `could not convert 'Fiat'` before."""
    frame, y = cars
    encode = make_column_transformer((OneHotEncoder(), ["make", "town"]), remainder="passthrough")
    band = ConformalRegressor(make_pipeline(encode, Ridge()), score="absolute", random_state=0).fit(frame, y)
    row = frame.iloc[[3]]
    lines = [
        plotting.plot_band(band, ["power", "age"], at, [(50, 200), (0, 20)]).axes[1].lines[0].get_ydata()
        for at in (
            row,
            frame.iloc[3],
            frame.iloc[3].to_dict(),
            frame.iloc[3].tolist(),
            pl.DataFrame(row.to_dict("list")),
        )
    ]
    for line in lines:
        np.testing.assert_allclose(line, lines[0])
    assert np.ptp(lines[0]) > 15


@pytest.mark.parametrize(
    ("inputs", "at", "limits", "message"),
    [
        (["colour"], 3, (0, 1), "An input must be a place from 0 to 4 or one of the names 'age', .*; got 'colour'"),
        ([5], 3, (0, 1), "An input must be a place from 0 to 4 or .*; got 5"),
        ([1.5], 3, (0, 1), "An input must be a place from 0 to 4 or .*; got 1.5"),
        (["make"], 3, (0, 1), "drawn along inputs that are numbers; got 'make', which is '(Fiat|Saab)'"),
        (["age"], slice(0, 4), (0, 1), r"at must be one row, such as frame.iloc\[\[0\]\]; got 4 rows"),
        (["age"], [1.0, 2.0], (0, 1), r"at must be one number for each of the 5 inputs, or a row of a frame; got \[1"),
        (["age"], {"age": 3}, (0, 1), "at must have all inputs of the model; got none for 'make', 'power'"),
        (["age"], 3, (1, 0), r"limits must be \(low, high\) with low < high.*; got \(1, 0\)"),
        (["age"], 3, "wide", r"limits must be \(low, high\) with low < high.*; got 'wide'"),
        (["age"], 3, [(0, 1), (0, 1)], r"limits must be \(low, high\).* or one such pair per input; got"),
    ],
    ids=str,
)
def test_what_cannot_be_drawn_is_explained(cars, inputs, at, limits, message):
    frame, y = cars
    band = ConformalRegressor(FrozenEstimator(Seen().fit(frame, y)), score="absolute").conformalize(frame, y)
    with pytest.raises(ValueError, match=message):
        plotting.plot_band(
            band, inputs, frame.iloc[[at]] if at == 3 else frame[at] if isinstance(at, slice) else at, limits
        )


def test_band_of_several_outputs_asks_which(drawn):
    _, X, y, *_ = drawn
    band = ConformalRegressor(Ridge(), score="absolute", random_state=0).fit(X, np.column_stack([y, 5 + y]))
    with pytest.raises(ValueError, match="2 outputs: say which one"):
        plotting.plot_band(band, [0], np.full(3, 0.5), (0, 1))
    line = plotting.plot_band(band, [0], np.full(3, 0.5), (0, 1), output=1).axes[0].lines[0]
    assert line.get_ydata().mean() > 4


def test_predictions_with_infinite_ends(drawn, tmp_path):
    _, _, y, mean, interval = drawn
    interval = interval.copy()
    interval[0] = [[-np.inf], [np.inf]]
    figure = plotting.plot_predictions(y, mean, interval, most=50)
    assert f"{100 * metrics.coverage(y, interval).share:.1f} %" in figure.axes[0].get_title()
    assert saved(figure, tmp_path / "predictions.png")


def test_coverage_by_bin_and_widths(drawn, tmp_path):
    _, X, y, mean, interval = drawn
    assert (
        len(plotting.plot_coverage_by_bin(y, interval, X[:, 1], confidence_level=0.9, n_bins=4).axes[0].get_xticks())
        == 4
    )
    assert saved(plotting.plot_coverage_by_bin(y, interval), tmp_path / "bins.png")
    assert saved(plotting.plot_widths(y, mean, interval), tmp_path / "widths.png")


def test_constant_and_infinite_widths(drawn, tmp_path):
    _, _, y, mean, _ = drawn
    assert saved(plotting.plot_coverage_by_bin(y, mean[:, None] + [-1, 1]), tmp_path / "constant.png")
    with pytest.raises(ValueError, match="finite width"):
        plotting.plot_widths(y, mean, np.tile([-np.inf, np.inf], (len(y), 1)))


def test_convergence(drawn, tmp_path):
    _, X, y, *_ = drawn
    model = MLKMRegressor((8, 2), scales=1.0, solver=GradientDescent(max_iter=15), random_state=0).fit(X, y)
    figure = plotting.plot_convergence({"MLKM": model})
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), model.loss_curve_)
    assert saved(figure, tmp_path / "convergence.png")
    with pytest.raises(ValueError, match="'least squares' has none"):
        plotting.plot_convergence({"MLKM": model, "least squares": Ridge()})
