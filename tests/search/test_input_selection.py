"""The search for relevances: gradients of the evidence, what it finds, and what it must not do."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from sklearn.model_selection import KFold

from mlkm import MLKMRegressor, RandomFeatureRidge
from mlkm.data import Inputs, distinct_rows, plain_rows
from mlkm.datasets import make_example1, make_example2, make_example3, make_example4
from mlkm.model.transforms import fit_rank_transform
from mlkm.search.evidence import gaussian_evidence
from mlkm.search.kernel_search import select_inputs, still_telling, telling_inputs
from mlkm.search.plan import Plan
from mlkm.search.policy import Policy, policy_context
from mlkm.search.terms import Additive, Placement, SearchRows

PLAN = Plan.parse({}, landmarks=True).at(d=30)


def sample_of(X, Y):
    return SearchRows(X, X, Y, np.ones(len(X)), np.zeros(X.shape[1], bool))


def test_evidence_is_the_log_density_of_the_targets():
    rng = np.random.default_rng(0)
    F, Y = rng.normal(size=(12, 5)), rng.normal(size=(12, 2))
    covariance = F @ F.T + 0.3 * np.eye(12)
    exact = -np.mean(
        [scipy.stats.multivariate_normal(np.zeros(12), covariance).logpdf(y) for y in Y.T]
    ) / 12 - 0.5 * np.log(2 * np.pi)
    assert gaussian_evidence(covariance.copy(), Y)[0] == pytest.approx(exact, rel=1e-10)


def test_single_inputs_have_the_kernel_their_waves_stand_for():
    """Four frequencies at the quantiles of |N(0, 1)|, each with cosine and sine, are nearly the Gaussian kernel of one
    input."""
    x = np.linspace(-2, 2, 41)[:, None]
    place = Placement(Inputs.numbers_only(1), np.array([0]), fit_rank_transform(x, np.ones(41)))
    (term,) = Additive(4).fitted({"additive": {"amplitude": np.zeros(1), "scale": np.zeros(1)}}, place)
    waves = term.between(term.codes(x), term.codes(x), np.float64)
    assert np.abs(waves - np.exp(-0.5 * (x - x.T) ** 2)).max() < 0.15


def test_screening_keeps_the_active_inputs():
    X, y, _ = make_example4(500, 400, random_state=0)
    y = (y - y.mean()) / y.std()
    kept = telling_inputs(plain_rows(X, y[:, None]), Policy())
    assert set(range(10)) <= set(kept)
    assert len(kept) < 100


def test_a_pair_is_found_where_one_input_acts_through_the_other_alone():
    """x_3 of Example 2 has no effect of its own."""
    X, y, _ = make_example2(1000, 60, random_state=0)
    Y = (y - y.mean())[:, None] / y.std()
    assert {0, 2} <= set(still_telling(sample_of(X, Y), Y, np.arange(60), np.array([0]), Policy()))


def test_inputs_that_act_through_two_others_alone_are_found():
    """sign(x_0 x_1 x_2) has no mean given any two of its inputs."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 30))
    Y = np.sign(X[:, [0]] * X[:, [1]] * X[:, [2]]) + rng.standard_normal((1500, 1))
    assert {1, 2} <= set(still_telling(sample_of(X, Y), Y, np.arange(30), np.array([0]), Policy()))


def test_noise_tells_nothing():
    """False alarms come with probability .05 per data set at most: more than 7 of 40 have a chance of .001."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(40):
        X, Y = rng.standard_normal((300, 20)), rng.standard_normal((300, 1))
        alarms += len(still_telling(sample_of(X, Y), Y, np.arange(20), np.arange(2), Policy())) > 0
    assert alarms <= 7


def test_inputs_that_do_not_matter_leave_and_others_stay():
    X, y, _ = make_example2(1500, 30, random_state=0)
    rows = distinct_rows((X - X.mean(axis=0)) / X.std(axis=0), ((y - y.mean()) / y.std())[:, None])
    kept, _ = select_inputs(rows, fit_rank_transform(rows.X, rows.weights), PLAN)
    assert {0, 2, 3} <= set(kept)
    assert len(kept) <= 16


@pytest.mark.parametrize("interactions", ["auto", 1, 2, "full", (1, 2)], ids=str)
def test_features_stand_for_the_kernels(interactions):
    """With features instead of kernels the fit is nearly as good, whatever the orders that suffice."""
    X, y, _ = make_example1(1000, 4, random_state=0)
    X_test, _, f = make_example1(1000, 4, random_state=1)
    model = RandomFeatureRidge(n_features=400, interactions=interactions, random_state=0).fit(X, y)
    assert np.mean((model.predict(X_test) - f) ** 2) < 0.2
    assert model.machines_[0].maps[0].n_features <= 400


@pytest.mark.parametrize("interactions", ["full", 2, (1, 2)], ids=str)
def test_learned_scales_are_no_worse_than_one_scale(interactions):
    """Orders that leave out single inputs must not lose what these would have explained."""
    rng = np.random.default_rng(2)
    X, X_test = rng.normal(size=(300, 4)), rng.normal(size=(500, 4))

    def f(X):
        return np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]

    y = f(X) + 0.1 * rng.normal(size=300)
    errors = [
        np.mean((RandomFeatureRidge(interactions=interactions, relevance=r, random_state=0).fit(X, y).predict(X_test)
                 - f(X_test)) ** 2)
        for r in (True, False)
    ]  # fmt: skip
    assert errors[0] < 1.3 * errors[1]


def test_more_rows_than_a_kernel_is_solved_on():
    X, y, _ = make_example1(3000, 4, random_state=0)
    X_test, _, f = make_example1(1000, 4, random_state=1)
    with policy_context(replace(Policy(), kernel_rows=(1000, 1000), layer_work=(1e9, 300, 500))):
        model = MLKMRegressor(random_state=0).fit(X, y)
    assert np.mean((model.predict(X_test) - f) ** 2) < 0.04
    assert model.widths_[0] <= 1200


def excess(make, n, seed, **options):
    X, y, _ = make(n, random_state=seed, **options)
    X_test, _, f = make(1000, random_state=seed + 1, **options)
    return float(np.mean((MLKMRegressor(random_state=seed).fit(X, y).predict(X_test) - f) ** 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "n", "options", "bar"),
    [
        (make_example1, 1000, {"d": 8}, 0.08),
        (make_example2, 1000, {"d": 8}, 0.10),
        (make_example2, 1000, {"d": 64}, 0.06),
        (make_example3, 500, {"d": 10}, 1e-3),
        (make_example4, 500, {"d": 2}, 1e-6),
    ],
    ids=["additive", "interactions", "interactions among many inputs", "trigonometric", "bumps"],
)
def test_the_default_is_close_to_the_truth(make, n, options, bar):
    """Far below what the published method reaches: 0.5, 0.2, 1.9 and 2.8e-4 with twice the rows."""
    assert excess(make, n, 0, **options) < bar


def test_the_default_is_nearly_as_good_as_a_line_on_a_line():
    """Also at three times the spread of the training inputs, where least squares is off by .05; the mean is by 7."""
    rng = np.random.default_rng(0)
    X, X_test = rng.normal(size=(200, 5)), 3 * rng.normal(size=(500, 5))
    slope = np.array([1.0, -2.0, 0.0, 0.0, 0.5])
    model = MLKMRegressor(random_state=0).fit(X, X @ slope + 0.1 * rng.normal(size=200))
    assert np.sqrt(np.mean((model.predict(X_test) - X_test @ slope) ** 2)) < 0.4


@pytest.mark.parametrize("y", [np.zeros(50), np.repeat([1.0, 2.0], 25)], ids=["constant", "two values"])
@pytest.mark.parametrize(
    "X", [np.ones((50, 2)), np.repeat(np.arange(5.0), 10)[:, None] * [1.0, 2.0]], ids=["constant", "collinear"]
)
def test_poor_data_give_finite_predictions(X, y):
    for model in (MLKMRegressor(random_state=0), RandomFeatureRidge(random_state=0)):
        assert np.isfinite(model.fit(X, y).predict(X)).all()


def test_a_step_in_one_dimension_keeps_its_rough_part():
    """The excess is .0013 (MSE, noise variance .01); without the rough part it is .008."""
    rng = np.random.default_rng(0)
    X, truth = rng.uniform(-1, 1, (4000, 1)), lambda X: (X[:, 0] > 0.3).astype(float)
    model = MLKMRegressor(random_state=0).fit(X[:2000], truth(X[:2000]) + 0.1 * rng.standard_normal(2000))
    assert np.mean((model.predict(X[2000:]) - truth(X[2000:])) ** 2) < 0.002


def test_a_linear_term_is_there_unless_it_is_not_wanted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 5))
    y = ((X**2).sum(axis=1) - 5) / 3 + X[:, 0] + 0.2 * rng.standard_normal(150)
    for linear, there in ((True, True), ("auto", True), (False, False)):
        weights = MLKMRegressor(linear=linear, random_state=0).fit(X, y).machines_[0].layers[0][0]
        assert np.any(weights[-6:-1] != 0) == there


def test_constant_targets_with_many_rows():
    X = np.random.default_rng(5).uniform(-2, 2, size=(1600, 4))
    np.testing.assert_allclose(MLKMRegressor(random_state=0).fit(X, np.full(1600, 3.0)).predict(X), 3.0)


def test_a_penalty_does_not_drift_where_little_noise_leaves_it_open():
    """A layer too small for this function would take any penalty down to 1e-18, and the fit would run wild at the edge
    of the data."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(3000, 1))
    model = MLKMRegressor(random_state=0).fit(X, np.sin(6 * X[:, 0] ** 2) + 0.01 * rng.normal(size=3000))
    edge = np.array([[-2.0], [2.0]])
    assert model.penalty_ > 1e-12
    np.testing.assert_allclose(model.predict(edge), np.sin(6 * edge[:, 0] ** 2), atol=0.2)


@pytest.mark.slow
def test_folds_on_both_sides_of_the_exact_rows_share_one_layer():
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, size=(3001, 2))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=3001)
    mean, sd = MLKMRegressor(cv=KFold(2), random_state=0).fit(X, y).predict(X[:50], return_std=True)
    assert np.sqrt(np.mean((mean - X[:50, 0] * X[:50, 1]) ** 2)) < 0.05
    assert 0.08 < sd.mean() < 0.15
