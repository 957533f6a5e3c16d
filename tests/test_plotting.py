"""Pictures are made without a display, and show what they say."""

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

from mlkm import ConformalRegressor, MLKMRegressor, OnlineConformal, metrics
from mlkm.solvers import GradientDescent

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
