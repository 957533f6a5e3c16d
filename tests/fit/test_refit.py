"""Other rows with a kernel that was learned before."""

from dataclasses import replace
from time import process_time

import numpy as np
import pandas as pd
import pytest

import mlkm
from mlkm import MLKMRegressor
from mlkm.datasets import make_example2
from mlkm.search.policy import Policy, policy_context
from mlkm.solve import GradientDescent

X, Y, F = make_example2(n=4500, d=5, noise=0.3, random_state=0)
OLD, NEW, TEST = slice(0, 1500), slice(1500, 3000), slice(3000, None)
SMALL = Policy(joint_rows=150, first_joint_rows=100, joint_steps=(8, 6), variance_rows=200)


def rmse(model, f=F):
    return float(np.sqrt(np.mean((model.predict(X[TEST]) - f[TEST]) ** 2)))


def timed(work):
    begin = process_time()
    work()
    return process_time() - begin


@pytest.mark.slow
def test_as_good_as_a_fit_and_several_times_faster():
    model = MLKMRegressor(random_state=0).fit(X[OLD], Y[OLD])
    fresh = MLKMRegressor(random_state=0)
    fit_time = timed(lambda: fresh.fit(X[NEW], Y[NEW]))
    refit_time = timed(lambda: model.refit(X[NEW], Y[NEW]))
    assert rmse(model) < 1.2 * rmse(fresh)
    assert fit_time > 1.5 * refit_time  # usually 2 to 4
    assert model.loo_error_ == pytest.approx(fresh.loo_error_, rel=0.2)


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("n", [250, 1300])
def test_more_rows_are_better_and_on_any_scale(n, skewed):
    """With ridge and the mean beside the kernels, and without; targets that are skewed; other units of y."""
    targets = np.exp(F / 4) if skewed else F
    noisy = targets * np.exp(0.1 * (Y - F)) if skewed else Y
    with policy_context(SMALL):
        model = MLKMRegressor(random_state=0).fit(X[:200], noisy[:200])
        before = rmse(model, targets)
        model.refit(X[200 : 200 + n], noisy[200 : 200 + n])
        after = rmse(model, targets)
        again = model.refit(X[200 : 200 + n], 1e3 * noisy[200 : 200 + n] + 7)
    assert after < (1.05 if n == 250 else 0.9) * before
    assert rmse(again, 1e3 * targets + 7) == pytest.approx(1e3 * after, rel=0.02)
    _, std = model.predict(X[TEST][:50], return_std=True)
    assert np.isfinite(std).all()
    assert model.has_closed_form_


def test_the_kernel_is_kept_and_the_rows_are_not():
    with policy_context(SMALL):
        model = MLKMRegressor(random_state=0).fit(X[:300], Y[:300])
        scaler, relevant = model.x_scaler_, model.fitted_.uncertainty.kernel
        model.refit(X[1000:1400] + 0.0, Y[1000:1400])
    kept = model.fitted_.uncertainty.kernel
    assert model.x_scaler_ is scaler
    known = [term.phi for term in relevant.terms]
    assert all(any(term.phi is phi for phi in known) for term in kept.terms)
    assert len(model.fitted_.uncertainty.rows) == 400
    assert (model.outside(X[1000:1400]) == 0).all()


def test_weights_are_copies():
    weights = np.random.default_rng(0).integers(0, 3, 300)
    with policy_context(SMALL):
        first = MLKMRegressor(random_state=0).fit(X[:300], Y[:300])
        second = MLKMRegressor(random_state=0).fit(X[:300], Y[:300])
    some = slice(300, 600)
    first.refit(X[some], Y[some], sample_weight=weights)
    second.refit(np.repeat(X[some], weights, axis=0), np.repeat(Y[some], weights))
    np.testing.assert_allclose(first.predict(X[TEST]), second.predict(X[TEST]), rtol=1e-6, atol=1e-8)


def test_features_for_many_rows():
    """Rows so many that features stand for the kernels; and a fit that had features to begin with."""
    few = replace(SMALL, kernel_rows=(1000, 1000), layer_work=(1e9, 100, 200))
    with policy_context(few):
        kernels = MLKMRegressor(random_state=0).fit(X[:900], Y[:900])
        before = rmse(kernels)
        kernels.refit(X[:3000], Y[:3000])
        features = MLKMRegressor(random_state=0).fit(X[:1500], Y[:1500])
        at_first = rmse(features)
        features.refit(X[:3000], Y[:3000])
    assert rmse(kernels) < before
    assert rmse(features) < 1.02 * at_first
    for model in (kernels, features):
        assert model.predict(X[:5], return_std=True)[1].shape == (5,)


def test_tables_keep_the_meaning_of_their_columns(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": X[:600, 0], "kind": rng.choice(["u", "v", "w"], 600)})
    y = X[:600, 0] + frame.kind.map({"u": 0.0, "v": 2.0, "w": -1.0}).to_numpy() + 0.1 * rng.standard_normal(600)
    with policy_context(SMALL):
        model = MLKMRegressor(random_state=0).fit(frame[:300], y[:300])
        model.refit(frame[300:], y[300:])
    assert model.score(frame[:300], y[:300]) > 0.95
    with pytest.raises(ValueError, match="has no column 'a', which the fit had"):
        model.refit(frame[["kind", "a"]].rename(columns={"a": "b"}), y)
    mlkm.save(model, tmp_path / "model.mlkm")
    loaded = mlkm.load(tmp_path / "model.mlkm").refit(frame, y)
    np.testing.assert_allclose(loaded.predict(frame), model.refit(frame, y).predict(frame))


def test_the_last_rows_alone_decide():
    with policy_context(SMALL):
        once, twice = (MLKMRegressor(random_state=0).fit(X[:200], Y[:200]) for _ in range(2))
        twice.refit(X[:50], Y[:50])
        np.testing.assert_array_equal(
            twice.refit(X[200:500], Y[200:500]).predict(X[TEST]), once.refit(X[200:500], Y[200:500]).predict(X[TEST])
        )
        assert twice.fit(X[:50], Y[:50]).fitted_.kept_layer is None


@pytest.mark.parametrize(
    "model",
    [
        MLKMRegressor(widths=(20,), scales=1.0),
        MLKMRegressor(widths=(20, 4)),
        MLKMRegressor(widths=(20, 4), cv="rotate"),
        MLKMRegressor(widths=(8, 2), scales=1.0, solver=GradientDescent(max_iter=3)),
    ],
    ids=["scales given", "hidden layers", "rotations", "descent"],
)
def test_models_without_a_learned_first_layer_are_refused(model):
    with policy_context(SMALL):
        model.fit(X[:100], Y[:100])
    before = model.predict(X[:10])
    with pytest.raises(ValueError, match="refit keeps a learned first layer, and this model has none"):
        model.refit(X[100:200], Y[100:200])
    np.testing.assert_array_equal(model.predict(X[:10]), before)


def test_what_is_wrong_with_the_rows_leaves_the_model_alone():
    with policy_context(SMALL):
        model = MLKMRegressor(random_state=0).fit(X[:100], Y[:100])
        before = model.predict(X[:10])
        for A, y in ((X[:50], Y[:49]), (X[:50, :3], Y[:50]), (X[:50], np.full(50, np.nan))):
            with pytest.raises(ValueError, match=r"inconsistent|features|NaN"):
                model.refit(A, y)
    np.testing.assert_array_equal(model.predict(X[:10]), before)
