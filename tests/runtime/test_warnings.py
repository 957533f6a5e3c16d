"""When a fit that tells nothing says so, and intervals outside the training data."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge
from mlkm.datasets import make_example2
from mlkm.exceptions import NoSignalWarning, OutsideWarning

X, SIGNAL, _ = make_example2(n=200, d=4, noise=0.3, random_state=0)
NOISE = np.random.default_rng(1).standard_normal((len(X), 2))
FAST = MLKMRegressor(effort="fast", random_state=0)


@pytest.mark.filterwarnings("always::mlkm.exceptions.NoSignalWarning")
@pytest.mark.parametrize("model", [FAST, RandomFeatureRidge(30, random_state=0)], ids=["kernels", "features"])
def test_a_fit_to_noise_says_so_at_the_line_that_asked_for_it(model):
    with pytest.warns(
        NoSignalWarning, match=r"no better than their mean: loo_error_ is .*, and the variance of y is"
    ) as told:
        model.fit(X, 10 * NOISE)
    assert [one.filename for one in told] == [__file__]
    assert f"{model.loo_error_:.3g}" in str(told[0].message)


@pytest.mark.parametrize(
    ("A", "y"),
    [
        (X, SIGNAL),
        (X[:20], NOISE[:20, 0]),  # too few to say so
        (X, np.ones(len(X))),  # no error at all
        (X, np.column_stack([NOISE[:, 0], SIGNAL])),  # one of two outputs is predicted
    ],
    ids=["signal", "few", "constant", "one of two"],
)
def test_other_fits_are_silent(A, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FAST.fit(A, y)


def test_intervals_outside_the_training_data_warn_where_asked():
    band = ConformalRegressor(RandomFeatureRidge(30, random_state=0), random_state=0).fit(X, SIGNAL)
    far = X[:10].copy()
    far[:3, 0] = X[:, 0].max() + 2 * np.ptp(X[:, 0])
    inside = band.estimator_.outside(X) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        silent = band.predict_interval(far)[1]
        band.predict_interval(X[inside], outside="warn")
        band.predict(far)
    with pytest.warns(OutsideWarning, match=r"^[34] of 10 rows are outside the training data, by up to [2-3]") as told:
        loud = band.predict_interval(far, outside="warn")[1]
    np.testing.assert_array_equal(silent, loud)
    assert told[0].filename == __file__


def test_a_band_that_cannot_look_outside_says_so():
    band = ConformalRegressor(Ridge(), score="absolute", random_state=0).fit(X, SIGNAL)
    with pytest.raises(ValueError, match=r"needs rows in memory and a regressor that has outside\(X\).* and Ridge"):
        band.predict_interval(X, outside="warn")
    with pytest.raises(ValueError, match="outside must be 'ignore' or 'warn'; got True"):
        band.predict_interval(X, outside=True)
