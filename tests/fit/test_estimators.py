"""What every estimator promises, as scikit-learn checks it and beyond: tables, outputs, messages."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from drawn_tables import BATCHES, EXPLICIT, RIDGE, fit_predict
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mlkm import MLKMRegressor, RandomFeatureRidge, RandomFeatures, RKMRegressor
from mlkm.solve import GradientDescent

CHECKED = [
    RandomFeatures(),
    RandomFeatureRidge(),
    MLKMRegressor(),
    RKMRegressor(),
    MLKMRegressor(widths=(32, 8), solver=GradientDescent(1e-2, max_iter=300)),
    RKMRegressor(widths=(32, 8), solver=GradientDescent(max_iter=100, batch_size=32), cv="rotate"),
]


@pytest.mark.slow
@parametrize_with_checks(CHECKED)
def test_scikit_learn(estimator, check):
    """No expected failures."""
    check(estimator)


# Models whose fit does not depend on the order in which rows are kept ...
UNORDERED = {
    "ridge": RandomFeatureRidge(40, scale=0.5, penalty=1e-3, **RIDGE),
    "ridge-loo": RandomFeatureRidge(40, scale="auto", penalty="auto", **RIDGE),
    "mlkm-ridge": MLKMRegressor(**EXPLICIT | {"widths": (40,), "scales": 0.5, "solver": "ridge"}),
    "mlkm": MLKMRegressor(**EXPLICIT),
    "mlkm-linear": MLKMRegressor(**EXPLICIT | {"linear": True, "interactions": 2}),
    "rkm": RKMRegressor(**EXPLICIT),
    "rkm-deep": RKMRegressor(**EXPLICIT | {"widths": (16, 8, 4), "scales": 0.8}),
}
# ... and those with mini-batches or random parts.
ORDERED = {
    "mlkm-batches": MLKMRegressor(**EXPLICIT | BATCHES),
    "mlkm-rotate": MLKMRegressor(**EXPLICIT, cv="rotate"),
    "rkm-rotate-batches": RKMRegressor(**EXPLICIT | BATCHES, cv="rotate"),
}
DEFAULT = {
    "mlkm-auto": MLKMRegressor(random_state=0),
    "rkm-auto": RKMRegressor(random_state=0),
    "ridge-auto": RandomFeatureRidge(random_state=0),
}


def modes(*groups, marks=()):
    return [pytest.param(model, id=name, marks=marks) for group in groups for name, model in group.items()]


ALL = modes(DEFAULT, UNORDERED, ORDERED)


def data(n=60, d=3, k=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(1, [1, 2, 0.5][:d], (n, d))
    F = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 0] * X[:, 2]])
    Y = 3 + F + 0.1 * rng.standard_normal((n, 2))
    return X, Y[:, 0] if k is None else Y[:, :k]


@pytest.mark.parametrize("batch_size", [None, 16])
def test_weights_are_exact_with_folds_of_ones_own(batch_size):
    X, y = data()
    fold = np.arange(len(X)) % 2
    weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
    copies = np.repeat(np.arange(len(X)), weights.astype(int))
    weighted, repeated = (
        clone(MLKMRegressor(**EXPLICIT, cv=PredefinedSplit(f))).set_params(solver__batch_size=batch_size)
        for f in (fold, fold[copies])
    )
    np.testing.assert_array_equal(weighted.fit(X, y, weights).predict(X), repeated.fit(X[copies], y[copies]).predict(X))


@pytest.mark.parametrize("container", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("model", ALL)
def test_tables(model, container):
    X, y = data()
    names = ["a", "b", "c"]
    table = container(dict(zip(names, X.T, strict=True)))
    fitted = clone(model).fit(table, y)
    assert fitted.feature_names_in_.tolist() == names
    assert fitted.n_features_in_ == 3
    np.testing.assert_array_equal(fitted.predict(table), fit_predict(model, X, y))
    np.testing.assert_array_equal(fitted.predict(table[["b", "c", "a"]]), fitted.predict(table))
    with pytest.raises(ValueError, match="no column 'b', which the fit had"):
        fitted.predict(table[["a", "c"]])


@pytest.mark.parametrize("model", ALL)
def test_outputs_keep_their_shape(model):
    X, Y = data(k=2)
    assert fit_predict(model, X, Y).shape == (60, 2)
    assert fit_predict(model, X, Y[:, :1]).shape == (60, 1)
    assert fit_predict(model, X, Y[:, 0]).shape == (60,)
    np.testing.assert_allclose(fit_predict(model, X, Y[:, :1])[:, 0], fit_predict(model, X, Y[:, 0]), rtol=1e-10)


def test_outputs_of_a_fixed_ridge_are_fitted_separately():
    X, Y = data(k=2)
    model = UNORDERED["ridge"]
    np.testing.assert_allclose(
        fit_predict(model, X, Y), np.column_stack([fit_predict(model, X, y) for y in Y.T]), rtol=1e-8
    )


@pytest.mark.parametrize("model", ALL)
def test_single_precision(model):
    """The values decide, not their type."""
    X, y = data()
    single = X.astype(np.float32), y.astype(np.float32)
    np.testing.assert_array_equal(
        fit_predict(model, *single), fit_predict(model, *(a.astype(np.float64) for a in single))
    )


@pytest.mark.parametrize(
    ("model", "atol"),
    [(*p.values, 0.1 if p.id in (*DEFAULT, "ridge-loo") else 0.02) for p in modes(DEFAULT, UNORDERED)],
)
def test_single_precision_is_close_to_double(model, atol):
    """A learned model moves a little more: its search stops at another iterate."""
    X, y = data()
    np.testing.assert_allclose(
        fit_predict(model, X.astype(np.float32), y.astype(np.float32)), fit_predict(model, X, y), atol=atol * y.std()
    )


@pytest.mark.parametrize(
    "model",
    modes(
        {
            "ridge": UNORDERED["ridge"],
            "mlkm": MLKMRegressor(**EXPLICIT | {"solver": GradientDescent(2e-3, max_iter=10)}),
            "rotate": ORDERED["mlkm-rotate"],
        }
    ),
)
def test_search_and_pipeline(model):
    X, y = data()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), model), {f"{type(model).__name__.lower()}__penalty": [1e-4, 1e3]}, cv=2
    ).fit(X, y)
    assert search.best_estimator_[-1].penalty_ == 1e-4
    assert search.predict(X).shape == y.shape


@pytest.mark.parametrize("model", ALL)
def test_fitted_attributes(model):
    X, y = data()
    fitted = clone(model).fit(X, y)
    assert fitted.feature_relevance_.shape == (3,)
    assert fitted.feature_relevance_.sum() == pytest.approx(1)
    assert (fitted.feature_relevance_ >= 0).all()
    assert fitted.loo_error_ > 0
    assert fitted.penalty_ >= 0
    assert len(fitted.scales_) == len(fitted.widths_)
    assert fitted.n_iter_ >= 1


@pytest.mark.slow
def test_relevance_finds_the_inputs_that_matter():
    X = np.random.default_rng(0).normal(size=(300, 5))
    y = np.sin(X[:, 1])
    for model in DEFAULT.values():
        assert clone(model).fit(X, y).feature_relevance_[1] > 0.9


@pytest.mark.parametrize("model", modes(DEFAULT))
def test_defaults_fit_a_smooth_function(model):
    X, y = data(300)
    assert clone(model).fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.95


@pytest.mark.parametrize("name", ["mlkm", "mlkm-batches", "mlkm-rotate", "rkm", "rkm-rotate-batches"])
def test_descent_lowers_the_loss_and_reports_it(name):
    X, y = data()
    fitted = clone((UNORDERED | ORDERED)[name]).set_params(solver__max_iter=200, solver__tol=0.0).fit(X, y)
    assert len(fitted.loss_curve_) == fitted.n_iter_
    assert min(fitted.loss_curve_) < 0.9 * fitted.loss_curve_[0]
    if len(fitted.machines_) == 1:  # the loss of the machine kept, for targets of variance 1
        assert np.mean((fitted.predict(X) - y) ** 2) / y.var() == pytest.approx(min(fitted.loss_curve_), rel=1e-8)


def test_cv_takes_splitters_and_gives_one_rotation_per_fold():
    X, y = data()
    for cv, count in (("rotate", 2), (3, 3), (KFold(4, shuffle=True, random_state=0), 4), (list(KFold(2).split(X)), 2)):
        assert len(MLKMRegressor(**EXPLICIT, cv=cv).fit(X, y).machines_) == count


BAD_FOLDS = [(np.arange(30), np.arange(30, 40)), (np.arange(30), np.arange(40, 60))]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"widths": ()},
            r"^widths must be 'auto' or positive whole numbers, one per layer, as in \(256, 16\); got \(\)\.$",
        ),
        ({"widths": (16, 0)}, r"^widths must be .*; got \(16, 0\)\.$"),
        ({"widths": 16}, "^widths must be .*; got 16"),
        ({"widths": (16.5, 4)}, r"^widths must be .*; got \(16.5, 4\)"),
        ({"widths": "wide"}, "^widths must be .*; got 'wide'"),
        ({"kernels": "rbf"}, "^A kernel must be one of 'gaussian', .*; got 'rbf'"),
        (
            {"kernels": ("gaussian",) * 3},
            r"^kernels must have one entry per layer \(2 here\) or be a single value; got 3 entries",
        ),
        ({"scales": (1.0,)}, r"^scales must have one entry per layer \(2 here\) or be a single value; got 1 entries"),
        ({"scales": ([1.0, 2.0], 1.0)}, r"^A scale must be a positive number, or one per input \(3 here\)"),
        ({"scales": -1.0}, "^A scale must be a positive number, .*; got -1.0"),
        ({"interactions": 0}, "^interactions must be 'full', a positive number of inputs"),
        ({"penalty": -1.0}, "^penalty must be 'auto', 'cv' or a number of at least 0; got -1.0"),
        ({"penalty": "small"}, "^penalty must be 'auto', 'cv' or a number of at least 0; got 'small'"),
        ({"penalty": np.nan}, "^penalty must be 'auto', 'cv' or a number of at least 0; got nan"),
        ({"solver": "adam"}, "^solver must be one of 'auto', .* or an object of mlkm.solvers; got 'adam'"),
        (
            {"cv": "shuffle"},
            "^cv must be None, 'rotate', a number of folds, a splitter or an iterable of splits; got 'shuffle'",
        ),
        ({"cv": BAD_FOLDS}, "^The test folds of cv must cover every row; 30 of 60 rows are in none"),
        ({"solver__learning_rate": 0.0}, "^learning_rate must be a finite number above 0; got 0.0"),
        ({"solver__learning_rate": np.nan}, "^learning_rate must be .*; got nan"),
        ({"solver__learning_rate": (1e-3,) * 3}, "^learning_rate must have one entry per layer"),
        ({"solver__momentum": 1.0}, "^momentum must be a finite number of at least 0 and below 1; got 1.0"),
        ({"solver__batch_size": 0}, "^batch_size must be a whole number of at least 1; got 0"),
        ({"solver__max_iter": 0}, "^max_iter must be a whole number of at least 1; got 0"),
        ({"solver__patience": 0}, "^patience must be a whole number of at least 1; got 0"),
        ({"solver__tol": -1.0}, "^tol must be a finite number of at least 0; got -1.0"),
        ({"solver__tol": np.inf}, "^tol must be .*; got inf"),
        ({"solver__steps": 0.5}, "^steps must be a whole number of at least 1; got 0.5"),
        ({"solver__initial": (1, 0)}, r"^initial must be .*; got \(1, 0\)"),
        ({"solver__target_sd": 0}, "^target_sd must be 'own', 'auto' or a number from 1e-30 to .*; got 0"),
        (
            {"solver": "projection", "widths": (16,), "scales": 1.0},
            r"^solver=VariableProjection\(\) trains hidden layers",
        ),
        ({"random_state": -1}, "^random_state must be a whole number from 0 to 4294967295"),
    ],
    ids=lambda value: (
        ", ".join(f"{k}={'folds' if v is BAD_FOLDS else v}" for k, v in value.items())
        if isinstance(value, dict)
        else ""
    ),
)
def test_bad_choices_are_explained_in_one_sentence(options, message):
    X, y = data()
    for Machine in (MLKMRegressor, RKMRegressor):
        with pytest.raises(ValueError, match=message):
            clone(Machine(**EXPLICIT)).set_params(**options).fit(X, y)


@pytest.mark.parametrize("options", [{"solver": "ridge"}, {"relevance": "yes"}, {"linear": "no"}], ids=str)
def test_choices_that_make_no_sense_are_refused(options):
    X, y = data()
    with pytest.raises(ValueError, match=next(iter(options))):
        MLKMRegressor(**EXPLICIT | options).fit(X, y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.r_[-1.0, np.ones(59)], "^Sample weights must not be negative; the smallest is -1"),
        (np.ones(59), r"^sample_weight must have one entry per row, shape \(60,\); got shape \(59,\)"),
        (np.zeros(60), "^All sample weights are zero"),
        (np.r_[np.nan, np.ones(59)], "sample_weight contains NaN"),
    ],
    ids=["negative", "short", "zero", "nan"],
)
@pytest.mark.parametrize("model", modes(UNORDERED))
def test_bad_weights_are_explained(model, weights, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        clone(model).fit(X, y, sample_weight=weights)


def test_fewer_rows_than_layers_cannot_rotate():
    with pytest.raises(ValueError, match="2 layers need at least 2 distinct rows; got n_samples=1"):
        MLKMRegressor(**EXPLICIT, cv="rotate").fit(np.ones((3, 2)), np.ones(3))


def test_whole_weights_are_no_licence_to_interpolate():
    """Counts as weights give about the fit of the same weights a little changed; leave-one-out must not keep the other
    copies of a row."""
    rng = np.random.default_rng(0)
    X, noise, weights = rng.normal(size=(300, 4)), rng.normal(size=300), rng.integers(1, 100, 300).astype(float)
    truth = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    whole, other = (
        MLKMRegressor(random_state=0).fit(X, truth + noise, w).predict(X) for w in (weights, weights + 0.25)
    )
    assert np.mean((whole - truth) ** 2) < 1.3 * np.mean((other - truth) ** 2)


@pytest.mark.parametrize("options", [{}, {"widths": (40, 5)}])
def test_an_input_that_did_not_vary_has_no_effect(options):
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(200, 3)), np.full(200, 7.3e5)]
    model = MLKMRegressor(**options, random_state=0).fit(X, np.sin(X[:, 0]) + X[:, 1])
    np.testing.assert_array_equal(model.predict(X + np.array([0, 0, 0, 1e4])), model.predict(X))
    assert model.feature_relevance_[3] == 0


@pytest.mark.parametrize(("n", "d"), [(100, 60), (200, 100)])
def test_noise_among_many_inputs_is_not_interpolated(n, d):
    rng = np.random.default_rng(2)
    model = MLKMRegressor(random_state=0).fit(rng.normal(size=(n, d)), rng.normal(size=n))
    assert model.predict(rng.normal(size=(500, d))).std() < 0.4
    assert model.loo_error_ > 0.7


def test_rotations_of_inputs_that_do_not_vary():
    y = np.random.default_rng(0).normal(size=200)
    predicted = (
        RKMRegressor(widths=(32, 8), cv="rotate", random_state=0).fit(np.ones((200, 3)), y).predict(np.ones((2, 3)))
    )
    np.testing.assert_allclose(predicted, y.mean(), atol=0.1)


def test_predictions_of_the_default_stay_near_the_training_targets():
    """An input far out is replaced by the nearest training value, and its prediction is within half a range of the
    targets; a trend continues for one range; with given scales predictions are those of plain ridge."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=80)
    far = np.array([[1e6, 0.0], [-1e6, 0.0]])
    low, high = y.min(), y.max()
    model = MLKMRegressor(random_state=0).fit(X, y)
    np.testing.assert_array_equal(np.sign(model.predict(far) - y.mean()), [1, -1])
    assert model.predict(far).max() < high + (high - low) / 2
    assert model.predict(far).min() > low - (high - low) / 2
    np.testing.assert_array_equal(model.predict(far), model.predict(10 * far))
    first, last = X[:, 0].min(), X[:, 0].max()
    ranges = np.array([0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 1e290])
    places = np.column_stack([last + ranges * (last - first), np.zeros(7)])
    counted = np.array([0.5, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0])
    np.testing.assert_allclose(model.predict(places), last + counted * (last - first), atol=0.2)
    given = RandomFeatureRidge(100, scale=1.0, random_state=0).fit(X, y).predict(far)
    assert given[0] > 1e5
    assert given[1] < -1e5
