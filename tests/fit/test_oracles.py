"""The closed forms against their textbook formulas in 60 digits (mpmath), from the same features.

All results must agree to 1e-9 of the standard deviation of y with condition numbers kappa = |F|^2 / (n lambda) of
F'F + n lambda up to 1e16. Predictions and leave-one-out residuals come from singular values of the features, and do so.
Standard deviations come from a factor of F'F + n lambda, and sums of rows (`partial_fit`) have F'F only: both have
rounding errors of about 1e-16 kappa, which no later step can remove, and are tested to 1e-9 up to kappa = 1e6.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_rows import kernel_and_rows
from mpmath import mp, mpf
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator

from mlkm import ConformalRegressor, RandomFeatureRidge, RandomFeatures, kernels, metrics
from mlkm.solve.dual import solve_dual

CLOSE = 1e-9
SIDES = [pytest.param(22, 7, id="primal"), pytest.param(9, 14, id="dual")]
MILD, HARSH = (1e-2, 1e-5), (1e-2, 1e-8, 1e-12, 1e-16)
exact = np.frompyfunc(mpf, 1, 1)


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(60):
        yield


@dataclass
class Textbook:
    """The minimum of sum_i w_i (y_i - a - c'F_i)^2 + ridge |c|^2."""

    F: Any
    y: Any
    w: Any
    ridge: Any

    def __post_init__(self):
        self.total = self.w.sum()
        self.f_mean, self.y_mean = self.w @ self.F / self.total, self.w @ self.y / self.total
        centred = self.F - self.f_mean
        A = (self.w[:, None] * centred).T @ centred + self.ridge * np.eye(self.F.shape[1])
        self.inverse = np.array(mp.inverse(mp.matrix(A.tolist())).tolist(), dtype=object)
        self.c = self.inverse @ ((self.w * (self.y - self.y_mean)) @ centred)

    def predict(self, G):
        return self.y_mean + (G - self.f_mean) @ self.c

    def leverage(self, G):
        apart = G - self.f_mean
        return (apart @ self.inverse * apart).sum(axis=1) + 1 / self.total

    def without(self, i):
        return Textbook(*(np.delete(a, i, axis=0) for a in (self.F, self.y, self.w)), self.ridge)

    @property
    def left_out(self):
        """y_i - f_{-i}(x_i) by refits."""
        return np.array([self.y[i] - self.without(i).predict(self.F[i : i + 1])[0] for i in range(len(self.y))])

    def std(self, G):
        """sigma^2 (h(x) + 1) with sigma^2 = RSS / (n - tr H), and no less than the leave-one-out error times the square
        of tr H / n: a fit that interpolates has no residuals."""
        n, freedom = len(self.y), (self.w * self.leverage(self.F)).sum()
        noise = self.w @ (self.y - self.predict(self.F)) ** 2 / max(n - freedom, 1)
        least = (freedom / n) ** 2 * (self.w @ self.left_out**2) / n
        return np.array([mp.sqrt(max(noise * (h + 1), least)) for h in self.leverage(G)])


@dataclass
class Problem:
    """Rows, weights and new rows, a model with everything given, and the same in 60 digits."""

    n: int
    D: int
    penalty: Any

    def __post_init__(self):
        rng = np.random.default_rng(1)
        n, self.X, self.new = self.n, rng.normal(size=(self.n, 2)), rng.normal(size=(5, 2))
        self.w = rng.uniform(0.2, 3, n)
        self.y = 5 + np.sin(2 * self.X[:, 0]) + self.X[:, 1] + 0.1 * rng.normal(size=n)
        given = {"kernel": "gaussian", "scale": 0.5, "interactions": "full", "random_state": 0}
        self.model = RandomFeatureRidge(self.D, linear=False, penalty=self.penalty, **given)
        phi = RandomFeatures(self.D, **given).fit(self.X)
        self.F, self.G = exact(phi.transform(self.X)), exact(phi.transform(self.new))

    def textbook(self, penalty):
        w = exact(self.w)
        return Textbook(self.F, exact(self.y), w * self.n / w.sum(), self.n * mpf(penalty))

    def agree(self, found, wanted):
        np.testing.assert_allclose(found, np.asarray(wanted, float), rtol=0, atol=CLOSE * self.y.std())


@pytest.mark.parametrize("penalty", HARSH)
@pytest.mark.parametrize(("n", "D"), SIDES)
def test_ridge_and_leave_one_out(n, D, penalty):
    """Check predictions, the residuals and predictions of fits without a row, and the mean squared residual."""
    case = Problem(n, D, penalty)
    model, book = case.model.fit(case.X, case.y, case.w), case.textbook(penalty)
    case.agree(model.predict(case.new), book.predict(case.G))
    rows, left_out = model.leave_one_out(case.X, case.y), book.left_out
    case.agree(rows.residuals[:, 0], left_out)
    case.agree(model.loo_error_, book.w @ left_out**2 / n)
    refits = np.array([book.without(i).predict(case.G) for i in range(n)]).T
    case.agree(model.left_out_predictions(case.new)[:, rows.place, 0], refits)


@pytest.mark.parametrize("penalty", MILD)
@pytest.mark.parametrize(("n", "D"), SIDES)
def test_standard_deviations_and_sums_of_rows(n, D, penalty):
    case = Problem(n, D, penalty)
    model, book = case.model.fit(case.X, case.y, case.w), case.textbook(penalty)
    mean, std = model.predict(case.new, return_std=True)
    case.agree(mean, book.predict(case.G))
    case.agree(std, book.std(case.G))
    added = clone(model).fit(case.X[:5], case.y[:5], case.w[:5]).partial_fit(case.X[5:], case.y[5:], case.w[5:])
    case.agree(added.predict(case.new), book.predict(case.G))


@pytest.mark.parametrize(("n", "D"), SIDES)
def test_the_penalty_chosen_has_the_least_leave_one_out_error(n, D):
    """The chosen penalty is the least on a grid of a quarter of a decade, moved to a vertex, and the larger of two that
    do equally well."""
    case = Problem(n, D, "auto")
    model = case.model.fit(case.X, case.y, case.w)
    case.agree(model.predict(case.new), case.textbook(model.penalty_).predict(case.G))

    def error(penalty):
        book = case.textbook(penalty)
        return float(book.w @ book.left_out**2)

    least = error(model.penalty_)
    assert all(least <= 1.01 * error(model.penalty_ * 10.0**k) for k in (-4, -2, -1, 1, 2))


def test_whole_weights_leave_out_one_copy():
    case = Problem(12, 7, 1e-3)
    counts = np.array([1, 2, 3] * 4)
    model = case.model.fit(case.X, case.y, counts)
    book = Textbook(case.F, exact(case.y), exact(counts.astype(float)), int(counts.sum()) * mpf(1e-3))
    case.agree(model.predict(case.new), book.predict(case.G))
    one_less = [Textbook(book.F, book.y, book.w - np.eye(12, dtype=int)[i], book.ridge) for i in range(12)]
    residuals = [book.y[i] - fit.predict(book.F[i : i + 1])[0] for i, fit in enumerate(one_less)]
    case.agree(model.leave_one_out(case.X, case.y).residuals[:, 0], residuals)


@pytest.mark.parametrize("penalty", [1e-3, 1e-12])
def test_jackknife_plus(penalty):
    """The ceil((1 - alpha)(n + 1))-th smallest of f_{-i}(x) + |r_i| and, from below, of f_{-i}(x) - |r_i|."""
    case, level = Problem(11, 14, penalty), Fraction(4, 5)
    book = Textbook(case.F, exact(case.y), exact(np.ones(11)), 11 * mpf(penalty))
    band = ConformalRegressor(case.model, score="absolute", method="cross", cv="loo").fit(case.X, case.y)
    _, interval = band.predict_interval(case.new, float(level))
    refits, r = np.array([book.without(i).predict(case.G) for i in range(11)]).T, np.abs(book.left_out)
    k = ceil(level * 12)
    case.agree(interval[:, 0, 0], np.sort(refits - r, axis=1)[:, -k])
    case.agree(interval[:, 1, 0], np.sort(refits + r, axis=1)[:, k - 1])


@pytest.mark.parametrize("noise", [1e-5, 1e-9, 1e-14])
def test_the_kernel_solve(noise):
    """(K + noise / w) alpha = Y - a with alpha summing to zero, in float64 as with little noise: predictions, though
    alpha itself is determined to 1e-16 kappa only."""
    kernel, rows = kernel_and_rows(n=25)
    K, w, y = exact(kernel.matrix(rows.X, rows.X)), exact(rows.weights), exact(rows.Y[:, 0])
    bordered = np.block([[K + np.diag(mpf(noise) / w), exact(np.ones((25, 1)))], [exact(np.ones((1, 25))), mpf(0)]])
    solved = np.array(mp.lu_solve(mp.matrix(bordered.tolist()), mp.matrix([*y, mpf(0)])).tolist(), dtype=object)[:, 0]
    fit = solve_dual(kernel, rows, noise)
    assert not fit.single
    new = np.random.default_rng(2).normal(size=(6, 3))
    at = kernel.matrix(new, rows.X)
    truth = exact(at) @ solved[:-1] + solved[-1]
    found = at @ fit.alpha[:, 0] + fit.intercept[0]
    np.testing.assert_allclose(found, truth.astype(float), rtol=0, atol=CLOSE * rows.Y.std())


KERNELS = {
    "gaussian": lambda x: mp.exp(-(x @ x) / 2),
    "laplacian": lambda x: mp.exp(-abs(x).sum()),
    "cauchy": lambda x: 1 / mp.fprod(1 + v**2 for v in x),
    **{nu: lambda x, nu=nu: matern(mp.sqrt(x @ x), mpf(nu)) for nu in (0.5, 0.8, 1.5, 2.5, 4.2)},
}


def matern(distance, nu):
    s = mp.sqrt(2 * nu) * distance
    return 2 ** (1 - nu) / mp.gamma(nu) * s**nu * mp.besselk(nu, s)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name):
    kernel = kernels.as_kernel(name) if isinstance(name, str) else kernels.Matern(nu=name)
    steps = np.random.default_rng(0).normal(size=(12, 3)) * np.logspace(-7, 1.2, 12)[:, None]
    truth = [KERNELS[name](exact(step)) for step in steps]
    np.testing.assert_allclose(kernel(steps, np.zeros((1, 3)))[:, 0], np.array(truth, float), rtol=1e-12, atol=1e-15)


LEVELS = st.one_of(st.integers(1, 99).map(lambda k: k / 100), st.integers(1, 999).map(lambda k: k / 1000))


def calibrated(scores, **given):
    """A band around 0 with these scores."""
    X, zero = np.zeros((len(scores), 1)), DummyRegressor(strategy="constant", constant=0.0).fit([[0.0]], [0.0])
    return ConformalRegressor(FrozenEstimator(zero), score="absolute").conformalize(X, scores, **given)


@pytest.mark.filterwarnings("ignore:.* too few for the level", "ignore:The weights of")
@settings(max_examples=60)
@given(st.integers(1, 200), LEVELS, st.booleans())
def test_the_rank_of_a_band(m, level, weighted):
    """In rational arithmetic: the ceil(level (m + 1))-th smallest score, or with weights the first with as much weight
    up to it as the level asks of all, a new row of weight 1 included."""
    rng = np.random.default_rng(m)
    weights = rng.integers(1, 5, m) if weighted else np.ones(m, int)
    band = calibrated(1.0 + np.arange(m), **({"sample_weight": weights.astype(float)} if weighted else {}))
    needed = Fraction(str(level)) * (int(weights.sum()) + 1)
    reached = [k for k in range(m) if int(weights[: k + 1].sum()) >= needed]
    given_weight = {"sample_weight": np.ones(1)} if weighted else {}
    upper = band.predict_interval(np.zeros((1, 1)), level, **given_weight)[1][0, 1, 0]
    assert upper == (1.0 + reached[0] if reached else np.inf)


@settings(max_examples=40)
@given(st.lists(st.tuples(*[st.integers(-8, 8)] * 3), min_size=1, max_size=20), LEVELS)
def test_metrics_of_a_band(rows, level):
    """The Winkler score in rational arithmetic; the Clopper-Pearson interval by the incomplete beta function."""
    y, low, high = (np.array(column) for column in zip(*[(a, min(b, c), max(b, c)) for a, b, c in rows], strict=True))
    interval, alpha, n = np.column_stack([low, high]), 1 - Fraction(str(level)), len(y)
    miss = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    score = Fraction(int((high - low).sum()), n) + 2 / alpha * Fraction(int(miss.sum()), n)
    assert metrics.winkler_score(y, interval, level) == pytest.approx(float(score), rel=1e-12)
    found, tail, k = metrics.coverage(y, interval, level), alpha / 2, int((miss == 0).sum())
    tail = mpf(tail.numerator) / tail.denominator
    if k:
        assert mp.betainc(k, n - k + 1, 0, found.low, regularized=True) == pytest.approx(tail, rel=1e-9)
    if k < n:
        assert mp.betainc(k + 1, n - k, found.high, 1, regularized=True) == pytest.approx(tail, rel=1e-9)
