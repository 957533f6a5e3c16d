"""Our regressors inside MAPIE and crepes, and our intervals equal to theirs where both do the same."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge
from mlkm.datasets import make_example1
from mlkm.solve import GradientDescent

MODELS = [
    RandomFeatureRidge(50, scale=1.0, random_state=0),
    MLKMRegressor((16, 4), "gaussian", 1.0, solver=GradientDescent(max_iter=50), random_state=0),
]


@pytest.fixture(scope="module")
def rows():
    X, y, _ = make_example1(700, 4, random_state=0)
    return X, y


@pytest.mark.parametrize("model", MODELS)
def test_in_mapie(rows, model):
    mapie = pytest.importorskip("mapie.regression")
    X, y = rows
    model.fit(X[:300], y[:300])
    theirs = mapie.SplitConformalRegressor(model, confidence_level=[0.8, 0.9], prefit=True).conformalize(
        X[300:500], y[300:500]
    )
    mean, interval = theirs.predict_interval(X[500:])
    ours = ConformalRegressor(FrozenEstimator(model), confidence_level=[0.8, 0.9], score="absolute").conformalize(
        X[300:500], y[300:500]
    )
    np.testing.assert_allclose(ours.predict_interval(X[500:])[0], mean, rtol=1e-10)
    np.testing.assert_allclose(ours.predict_interval(X[500:])[1], interval, rtol=1e-10)


@pytest.mark.parametrize("model", MODELS)
def test_in_mapie_with_its_score_by_the_standard_deviation(rows, model):
    mapie, scores = pytest.importorskip("mapie.regression"), pytest.importorskip("mapie.conformity_scores")
    X, y = rows
    model.fit(X[:300], y[:300])
    theirs = mapie.SplitConformalRegressor(
        model, confidence_level=0.9, conformity_score=scores.StdConformityScore(), prefit=True
    )
    interval = theirs.conformalize(X[300:500], y[300:500]).predict_interval(X[500:])[1]
    ours = ConformalRegressor(FrozenEstimator(model), score="variance").conformalize(X[300:500], y[300:500])
    own = ours.predict_interval(X[500:], 0.9)[1]
    np.testing.assert_allclose(own[:, 1], interval[:, 1], rtol=1e-9)
    np.testing.assert_allclose(
        own[:, 0], interval[:, 0], atol=0.02 * np.ptp(own)
    )  # its lower end may be one order statistic further in
    assert (own[:, 0] <= interval[:, 0] + 1e-9).all()


@pytest.mark.parametrize("model", MODELS)
def test_in_crepes(rows, model):
    crepes = pytest.importorskip("crepes")
    X, y = rows
    theirs = crepes.WrapRegressor(model)
    theirs.fit(X[:300], y[:300])
    theirs.calibrate(X[300:500], y[300:500])
    ours = ConformalRegressor(FrozenEstimator(theirs.learner), score="absolute").calibrate(X[300:500], y[300:500])
    np.testing.assert_allclose(
        ours.predict_int(X[500:], confidence=0.9), theirs.predict_int(X[500:], confidence=0.9), rtol=1e-10
    )
