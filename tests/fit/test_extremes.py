"""Sizes at the ends of what numbers can be: the same fit as at size one, or one clear sentence."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge, RKMRegressor
from mlkm.solve import GradientDescent

MODELS = {
    "ridge": RandomFeatureRidge(50, linear=True, random_state=0),
    "default": MLKMRegressor(random_state=0),
    "projection": MLKMRegressor((40, 4), random_state=0),
    "descent": MLKMRegressor((32, 8), solver=GradientDescent(max_iter=60), random_state=0),
}


def problem(n=80):
    X = np.random.default_rng(0).uniform(size=(n, 3))
    return X, np.sin(5 * X[:, 0]) + X[:, 1]


@pytest.mark.filterwarnings("ignore:loo_error_ is")  # its square
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


@pytest.mark.filterwarnings("ignore:loo_error_ is")  # its square
@pytest.mark.parametrize("size", [2.0**k for k in (-990, 515)], ids="{:.0e}".format)
@pytest.mark.parametrize("name", ["ridge", "descent"])
def test_a_penalty_by_cross_validation_for_targets_of_any_size(name, size):
    """Squares of the unit overflowed."""
    X, y = problem()
    given = {"relevance": False, "interactions": "full"} | ({"scale": 1.0} if name == "ridge" else {"scales": 1.0})
    model = clone(MODELS[name]).set_params(penalty="cv", **given)
    assert model.fit(X, size * y).penalty_ == model.fit(X, y).penalty_


LARGEST = np.finfo(np.float64).max
X30, Y30 = problem(30)


def _moved(cell):
    X = X30.copy()
    X[5, 1] = cell
    return X


SIZE = r"must be of a size up to 1e\+300, .*; got one of .*: rescale it"
ANGLES = r"^The inputs times the given scale are of size .*, or rescale|^X has a number .* standard deviations away"
IN_UNITS = r"needs a standard deviation between 1e-30 and 1e\+30; got .*: rescale y"
FEW = r"2 layers need at least 2 distinct rows|calibration_size must be a share of the rows"
# rows and targets, and the message that is allowed instead of an answer
EXTREMES = {
    "inputs of 1e155": (1e155 * X30, Y30, ANGLES),
    "inputs of 1e299": (1e299 * X30, Y30, ANGLES),
    "inputs of 1e-300": (1e-300 * X30, Y30, None),
    "subnormal inputs": (1e-310 * X30, Y30, None),
    "the largest inputs": (np.where(X30 > 0.5, LARGEST, -LARGEST), Y30, SIZE),
    "targets of 1e299": (X30, 1e299 * Y30, IN_UNITS),
    "targets of 1e155": (X30, 1e155 * Y30, IN_UNITS),
    "targets of 1e-155": (X30, 1e-155 * Y30, IN_UNITS),
    "targets of 1e-300": (X30, 1e-300 * Y30, IN_UNITS),
    "the largest targets": (X30, np.where(X30[:, 0] > 0.5, 1.7e308, -1.7e308), SIZE),
    "one largest target": (X30, np.where(np.arange(30) == 3, -1.7e308, Y30), SIZE),
    "the largest constant": (X30, np.full(30, LARGEST), SIZE),
    "the least constant": (X30, np.full(30, 5e-324), None),
    "a constant column of 1e299": (np.column_stack([X30, np.full(30, 1e299)]), Y30, ANGLES),
    "the largest constant column": (np.column_stack([X30, np.full(30, LARGEST)]), Y30, SIZE),
    "constant columns": (np.full((30, 3), -1e300), Y30, ANGLES),
    "a cell of 1e299": (_moved(1e299), Y30, ANGLES),
    "one row": (X30[:1], Y30[:1], FEW),
    "two rows": (X30[:2], Y30[:2], None),
    "fewer rows than columns": (np.random.default_rng(0).normal(size=(6, 20)), Y30[:6], None),
    "equal rows": (np.ones((20, 3)), np.ones(20), FEW),
    "equal inputs": (np.ones((20, 3)), Y30[:20], None),
}
ESTIMATORS = {
    "default": MLKMRegressor(effort="fast", random_state=0),
    "widths": MLKMRegressor((20, 4), random_state=0),
    "given scale": MLKMRegressor((20,), scales=1.0, random_state=0),
    "residual": RKMRegressor((20, 4), random_state=0),
    "ridge": RandomFeatureRidge(20, random_state=0),
    "ridge, given scale": RandomFeatureRidge(20, scale=1.0, random_state=0),
    "published": PUBLISHED,
    "band": ConformalRegressor(MLKMRegressor(effort=1e-3, random_state=0), random_state=0),
    "band, given scale": ConformalRegressor(RandomFeatureRidge(20, scale=1.0, random_state=0), random_state=0),
}


def answers(model, X, y):
    """Return predictions, standard deviations and effects; intervals must be finite if the calibration rows suffice."""
    model.fit(X, y)
    if isinstance(model, ConformalRegressor):
        mean, interval = model.predict_interval(X)
        wide = model.n_calibration_ < 19
        assert np.isinf(interval).all() if wide else np.isfinite(interval).all()
        return [mean]
    effect = model.effects(X[:3]).main(0)
    return [model.predict(X), *model.predict(X[:3], return_std=True), effect.values, *effect.band]


@pytest.mark.parametrize("case", EXTREMES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_answer_or_a_sentence(name, case):
    """Answers are finite, or the error is one sentence, and a `loo_error_` of 0 or infinity comes with a warning."""
    X, y, sentence = EXTREMES[case]
    model, said = clone(ESTIMATORS[name]), None
    with warnings.catch_warnings(record=True) as words:
        warnings.simplefilter("always")
        try:
            found = answers(model, X, y)
        except ValueError as error:
            said = str(error)
    if said is not None:
        assert sentence is not None
        assert re.search(sentence, said)
        return
    assert not [w for w in words if not issubclass(w.category, UserWarning)]  # none of NumPy's
    assert all(np.isfinite(values).all() for values in found)
    loo = getattr(model, "estimator_", model).loo_error_
    told = any(re.match("loo_error_ is (inf|0): it is in squared units", str(w.message)) for w in words)
    assert told == (loo == np.inf or (loo == 0 and "targets of" in case))
    assert not np.isnan(loo)
    if "targets of" in case or ("inputs of" in case and "given" not in name and name != "published"):
        assert np.abs(found[0] / np.abs(y).max() - y / np.abs(y).max()).mean() < 0.35  # at size one .00 to .29


def test_a_cell_far_out_moves_a_prediction_little_beyond_the_training_targets():
    """Two columns are nearly the same, and y is their difference. A cell far out contradicts the other column, and
    would move a linear prediction two ranges beyond the targets, 10 standard deviations of y."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(120, 2))
    X[:, 1] = X[:, 0] + 0.01 * X[:, 1]
    y = 100 * (X[:, 1] - X[:, 0])
    model = MLKMRegressor(effort="fast", random_state=0).fit(X, y)
    assert np.abs(model.predict(X) - y).max() < 0.1
    for j in (0, 1):
        for ranges in (-300, 300):
            moved = X[:20].copy()
            moved[:, j] += ranges * np.ptp(X[:, j])
            after = model.predict(moved)
            assert max(after.max() - y.max(), y.min() - after.min()) < 0.51 * np.ptp(y)
