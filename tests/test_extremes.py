"""Sizes at the ends of what numbers can be: the same fit as at size one, or one clear sentence."""

import re

import numpy as np
import pytest
from sklearn.base import clone

from mlkm import MLKMRegressor, RandomFeatureRidge
from mlkm.solvers import GradientDescent

MODELS = {
    "ridge": RandomFeatureRidge(50, linear=True, random_state=0),
    "default": MLKMRegressor(random_state=0),
    "projection": MLKMRegressor((40, 4), random_state=0),
    "descent": MLKMRegressor((32, 8), solver=GradientDescent(max_iter=60), random_state=0),
}


def problem(n=80):
    X = np.random.default_rng(0).uniform(size=(n, 3))
    return X, np.sin(5 * X[:, 0]) + X[:, 1]


@pytest.mark.parametrize("size", [2.0**k for k in (-990, 515)], ids="{:.0e}".format)
@pytest.mark.parametrize("name", MODELS)
def test_targets_of_any_size(name, size):
    """NaN above 1e154 before, garbage at 1e-170. Powers of two change no digits, so that the fit is the same."""
    X, y = problem()
    plain = MODELS[name].fit(X, y).predict(X)
    model = MODELS[name].fit(X, size * y)
    np.testing.assert_allclose(model.predict(X) / size, plain, rtol=1e-9)
    std = model.predict(X[:5], return_std=True)[1]
    assert np.isfinite(std).all()
    assert (std > 0).all()
    assert model.noise_variance_ >= 0  # beyond the largest number or below the least one, without a warning


@pytest.mark.parametrize("size", [2.0**k for k in (-565, 996)], ids="{:.0e}".format)
@pytest.mark.parametrize("name", MODELS)
def test_inputs_of_any_size(name, size):
    """Every input was silently dropped at 1e153 and 1e-170."""
    X, y = problem()
    plain = MODELS[name].fit(X, y).predict(X)
    np.testing.assert_allclose(MODELS[name].fit(size * X, y).predict(size * X), plain, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_inputs_far_from_zero(name):
    """A standard deviation of 1 beside 1e13 was dropped without a word; 9 bits of it are left, and used."""
    X, y = problem(300)
    X = 4 * X
    far = MODELS[name].fit(X + 1e13, y).predict(X + 1e13)
    assert np.mean((far - y) ** 2) < 0.1 * y.var() + 2 * np.mean((MODELS[name].fit(X, y).predict(X) - y) ** 2)


def test_inputs_that_vary_by_rounding_only_are_named():
    pandas = pytest.importorskip("pandas")
    X, y = problem()
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    frame["b"] = 1e16 + 8 * frame["b"]
    with pytest.warns(
        UserWarning, match=r"^The values of input 'b' differ by rounding error only.* are ignored"
    ) as told:
        RandomFeatureRidge(20, scale=1.0, random_state=0).fit(frame, y)
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match=r"^The values of inputs 0, 2 differ"):
        RandomFeatureRidge(20, scale=1.0, random_state=0).fit(8 * X + np.array([1e16, 0, -1e16]), y)


@pytest.mark.parametrize("constant", [2.5, -1e300])
@pytest.mark.parametrize("name", MODELS)
def test_a_constant_target_is_predicted_as_it_is(name, constant):
    """Descent left the noise of its initial weights."""
    X, _ = problem()
    predicted = MODELS[name].fit(X, np.full(len(X), constant)).predict(X + 1)
    np.testing.assert_allclose(predicted, constant, rtol=1e-12, atol=1e-280)


PUBLISHED = MLKMRegressor.published(
    (16, 4), 0.5, penalty=1e-4, solver=GradientDescent(max_iter=5), random_state=0
)  # a few epochs from random weights, which must not show where the target leaves nothing to learn


@pytest.mark.parametrize("model", [MODELS["descent"], PUBLISHED], ids=["descent", "published"])
def test_descent_on_a_nearly_constant_target(model):
    """In its own units the target was lost in what the initial weights leave: .83 to .86 here."""
    X, y = problem()
    predicted = model.fit(X, 1 + 1e-13 * y).predict(X)
    np.testing.assert_allclose(predicted, 1, atol=1e-12)


@pytest.mark.parametrize("constant", [0.0, 2.5, -1e300])
def test_the_published_method_on_a_constant_target(constant):
    """A division by zero, or an overflow, before."""
    X, y = problem()
    np.testing.assert_array_equal(PUBLISHED.fit(X, np.full(len(X), constant)).predict(X), constant)
    both = PUBLISHED.fit(X, np.column_stack([y, np.full(len(X), constant)])).predict(X)
    np.testing.assert_array_equal(both[:, 1], constant)


@pytest.mark.parametrize("penalty", [1e-4, "cv"])
@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e-160, 1e150, 1e155, 1e300])
def test_the_published_method_needs_targets_of_an_ordinary_size(size, penalty):
    """A division by zero, nonsense, overflow warnings or advice on the learning rate before."""
    X, y = problem()
    told = f"needs a standard deviation between 1e-30 and 1e+30; got {size * y.std():.3g}: rescale y, or take Gradient"
    with pytest.raises(ValueError, match=re.escape(told)):
        clone(PUBLISHED).set_params(penalty=penalty).fit(X, size * y)


@pytest.mark.parametrize("size", [2.0**k for k in (-990, 515)], ids="{:.0e}".format)
@pytest.mark.parametrize("name", ["ridge", "descent"])
def test_a_penalty_by_cross_validation_for_targets_of_any_size(name, size):
    """Squares of the unit overflowed."""
    X, y = problem()
    given = {"relevance": False, "interactions": "full"} | ({"scale": 1.0} if name == "ridge" else {"scales": 1.0})
    model = clone(MODELS[name]).set_params(penalty="cv", **given)
    assert model.fit(X, size * y).penalty_ == model.fit(X, y).penalty_
