"""Every term of the default: its gradient against differences, the ways to compute it against each other; and what it
takes to add one."""

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_rows import TERMS, moved

from mlkm import MLKMRegressor, load, save
from mlkm._types import Array
from mlkm.data import LEVEL, NUMBER, TEXT, Inputs
from mlkm.model.features import PointMap
from mlkm.model.kernel_maps import fewer_directions, less_unlike, minus_half_squares
from mlkm.model.machine import predict
from mlkm.model.sum_kernel import SumKernel, Term
from mlkm.model.transforms import fit_rank_transform
from mlkm.runtime.records import record
from mlkm.search.evidence import refined, start
from mlkm.search.policy import default_terms
from mlkm.search.terms import Parameter, Placement, SearchRows, SearchTerm

OMEGA = 12.0


# What a new kernel is: a map and a term of the search, here K = exp(-sum_j s_j^2 (1 - cos omega x_j)).


def circle(X):
    """Points on a circle for every input, whose squared distances are 2 (1 - cos omega (x - z))."""
    return np.hstack([np.cos(OMEGA * X), np.sin(OMEGA * X)])


@record("periodic map", points="Md", scales="d")
@dataclass(frozen=True)
class PeriodicMap(PointMap):
    points: Array
    scales: Array

    def codes(self, Z, dtype):
        return circle(Z) * np.tile(self.scales, 2)

    def between(self, a, b, dtype, variance=1.0):
        return (variance * np.exp(minus_half_squares(a, b))).astype(dtype)

    def pullback(self, X, G):
        weighted = G * self.features(X)
        apart = X[:, None] - self.points
        return -OMEGA * np.einsum("nm,nmd,d->nd", weighted, np.sin(OMEGA * apart), self.scales**2)


class Periodic(SearchTerm):
    name = "periodic"

    def parameters(self, rows):
        d = rows.X.shape[1]
        return [Parameter("amplitude", np.array([-0.7])), Parameter("scale", np.full(d, -np.log(d) / 2), "scale")]

    def apart(self, rows):
        apart = 1 - np.cos(OMEGA * (rows.X.T[:, :, None] - rows.X.T[:, None]))
        apart[rows.levels] = 0
        return apart.reshape(len(apart), -1)

    def evaluate(self, p, rows):
        m, exponent = len(rows.X), np.exp(2 * p["periodic"]["scale"]) @ self.apart(rows)
        return self.variance(p) * np.exp(-exponent).reshape(m, m)

    def gradient(self, p, rows, values, slope):
        Q = slope * values
        scale = -2 * np.exp(2 * p["periodic"]["scale"]) * (self.apart(rows) @ Q.ravel())
        return {"periodic": {"amplitude": np.array([2 * Q.sum()]), "scale": scale}}

    def relevance(self, p, levels):
        return np.where(levels, 0, self.variance(p) * (1 - np.exp(-np.exp(2 * p["periodic"]["scale"]))))

    def fitted(self, p, place):
        scales = place.spread(np.exp(p["periodic"]["scale"]) * ~place.levels)
        return (
            []
            if self.is_missing(p)
            else [Term(None, PeriodicMap(np.zeros((0, len(scales))), scales), self.variance(p))]
        )


EVERY = (*TERMS, Periodic())
each = pytest.mark.parametrize("term", EVERY, ids=lambda term: term.name)


def rows_of_every_kind(n=40):
    """Two numbers, two levels and a text of three coordinates; and where their parameters belong."""
    rng = np.random.default_rng(0)
    X = np.hstack([rng.standard_normal((n, 2)), rng.integers(0, 4, (n, 2)), rng.standard_normal((n, 3)) / 2])
    inputs = Inputs(np.array([NUMBER, NUMBER, LEVEL, LEVEL, TEXT, TEXT, TEXT]), np.array([0, 1, 2, 3, 3, 3, 3]))
    ranks = fit_rank_transform(X, np.ones(n), inputs.numbers)
    rows = SearchRows(X, ranks.forward(X), X[:, :1], np.ones(n), inputs.levels, (X[:, 4:],))
    return X, Placement(inputs, np.arange(4), ranks), rows.with_inputs(np.arange(4))


def parameters(rows):
    """Of all terms, somewhere; directions turn among numbers only."""
    p = moved(refined(start(rows, EVERY), EVERY), np.random.default_rng(1))
    turn = p["gaussian"]["turn"].reshape(4, 4)
    turn[2:] = turn[:, 2:] = 0
    return p


def kernel_of(term, p, rows):
    values = term.evaluate(p, rows)
    return values @ values.T if term.has_features else values


@each
def test_the_gradient_of_a_term_is_that_of_differences(term):
    """Of the sum of all entries of its kernel on the rows of a search, each times a number. Distances are float32."""
    _, _, rows = rows_of_every_kind()
    p, m, step = parameters(rows), len(rows.X), 1e-2
    A = np.random.default_rng(2).standard_normal((m, m))
    A += A.T
    values = term.evaluate(p, rows)
    gradient = term.gradient(p, rows, values, 2 * A @ values if term.has_features else A)
    assert {name for own in gradient.values() for name in own} >= {q.name for q in term.parameters(rows)}

    def objective(owner, name, k, move):
        there = p | {owner: p[owner] | {name: p[owner][name] + move * (np.arange(p[owner][name].size) == k)}}
        return np.vdot(A, kernel_of(term, there, rows))

    for owner, name in ((owner, name) for owner, own in gradient.items() for name in own):
        limits = next((q for q in term.parameters(rows) if q.name == name), Parameter(name, np.zeros(1)))
        free = np.broadcast_to(np.asarray(limits.low) < limits.high, p[owner][name].shape)
        for k in np.flatnonzero(free):
            difference = (objective(owner, name, k, step) - objective(owner, name, k, -step)) / (2 * step)
            assert gradient[owner][name][k] == pytest.approx(difference, rel=5e-3, abs=2e-2), (name, k)


@each
def test_the_fitted_term_is_the_one_that_was_searched(term):
    X, place, rows = rows_of_every_kind()
    p = parameters(rows)
    kernel = SumKernel(tuple(term.fitted(p, place)), term.slopes(p, place) if term.name == "linear" else None)
    np.testing.assert_allclose(kernel.matrix(X, X), kernel_of(term, p, rows), atol=2e-3)


@each
def test_the_ways_to_compute_a_term_agree(term):
    """Codes, features, weights of features and the diagonal."""
    X, place, rows = rows_of_every_kind()
    A, B = X[:15], X[15:]
    alpha = np.random.default_rng(3).standard_normal((len(B), 2))
    for one in term.fitted(parameters(rows), place):
        K = one.between(one.codes(A), one.codes(B), np.float64)
        phi = one.at(B, np.float64)
        F = one.variance * phi.features(one.seen(A))
        by_features = F @ phi.features(one.seen(B)).T if phi.is_product else F
        np.testing.assert_allclose(by_features, K, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(F @ phi.weights(one.seen(B), alpha), K @ alpha, rtol=1e-9, atol=1e-12)
        whole = one.between(one.codes(A), one.codes(A), np.float64)
        np.testing.assert_allclose(one.variance * one.diagonal(A) * np.ones(len(A)), np.diag(whole), rtol=1e-10)
        machine = SumKernel((one,)).machine(B, alpha, np.zeros(2))
        np.testing.assert_allclose(predict(machine, A), K @ alpha, rtol=1e-9, atol=1e-12)


@each
def test_pullback_of_a_term_is_that_of_differences(term):
    X, place, rows = rows_of_every_kind()
    for one in term.fitted(parameters(rows), place):
        phi, Z, step = one.at(X[:20], np.float64), one.seen(X[20:]), 1e-6
        G = np.random.default_rng(4).standard_normal((len(Z), phi.n_features))
        back = phi.pullback(Z, G)
        for j in (0, 1, 4, 5, 6):  # a level has no neighbours
            e = step * np.eye(7)[j]
            slope = (phi.features(Z + e) - phi.features(Z - e)) / (2 * step)
            np.testing.assert_allclose(back[:, j], (G * slope).sum(axis=1), rtol=1e-5, atol=1e-6)


def test_the_relevance_of_an_input_is_the_variance_that_moving_it_brings():
    """For the Gaussian and the additive kernel, the mean over moves of N(0, 2) by quadrature, of other inputs held."""
    _, _, rows = rows_of_every_kind()
    p, levels = parameters(rows), rows.levels
    nodes, masses = np.polynomial.hermite_e.hermegauss(60)
    moves, masses = np.sqrt(2) * nodes, masses / masses.sum()
    terms = {term.name: term.relevance(p, levels) for term in TERMS}

    def lost(squares):
        """Return one minus the mean of exp(-s^2 t^2 / 2) for each s^2."""
        return 1 - np.exp(-np.outer(squares, moves**2) / 2) @ masses

    variance = {name: np.exp(2 * own["amplitude"]) for name, own in p.items() if "amplitude" in own}
    scale = {name: np.exp(own["scale"]) for name, own in p.items() if "scale" in own}
    additive = np.where(levels, 0, variance["additive"] * lost(scale["additive"] ** 2))
    np.testing.assert_allclose(terms["additive"], additive, rtol=1e-6)
    turned = (p["gaussian"]["turn"].reshape(4, 4) + np.eye(4)) * scale["gaussian"]
    gaussian = np.where(levels, 1 - np.exp(-(scale["gaussian"] ** 2)), lost((turned**2).sum(axis=0)))
    np.testing.assert_allclose(terms["gaussian"], variance["gaussian"] * gaussian, rtol=1e-6)
    np.testing.assert_allclose(terms["laplace"], variance["laplace"] * (1 - np.exp(-scale["laplace"])))
    np.testing.assert_allclose(terms["linear"], np.where(levels, 0, np.exp(2 * p["linear"]["slope"])))
    np.testing.assert_allclose(terms["levels"], np.where(levels, variance["additive"], 0))
    without = p | {"linear": {name: value for name, value in p["linear"].items() if name != "slope"}}
    linear = next(term for term in TERMS if term.name == "linear")
    np.testing.assert_array_equal(linear.relevance(without, levels), np.zeros(4))


def test_a_search_begins_with_the_same_variance_whatever_the_number_of_inputs():
    """Variances and squared scales are shared out among the inputs: e^-1.4 for kernels, e^-2 for slopes."""
    _, _, rows = rows_of_every_kind()
    first = {term.name: {q.name: q.start for q in term.parameters(rows)} for term in TERMS}
    totals = {
        ("additive", "amplitude"): -1.4, ("laplace", "amplitude"): -1.4, ("linear", "slope"): -2.0,
    }  # fmt: skip
    for (name, which), expected in totals.items():
        assert np.log(np.exp(2 * first[name][which]).sum()) == pytest.approx(expected), name
    np.testing.assert_allclose(np.exp(first["laplace"]["scale"]), 1 / 2)  # 1 / sqrt(d)
    np.testing.assert_allclose(np.exp(2 * first["laplace"]["text"]), 1 / 2)
    np.testing.assert_allclose(np.exp(first["linear"]["text"]), np.exp(-0.7) / 2)


def test_an_entry_that_turns_directions_has_the_prior_variance_of_one_of_many_inputs():
    """The variance is 1 / (4 d): a penalty of 2 d per squared entry."""
    _, _, rows = rows_of_every_kind()
    gaussian = next(term for term in TERMS if term.name == "gaussian")
    turn = next(q for q in gaussian.parameters(rows) if q.name == "turn")
    assert 1 / (2 * turn.prior) == pytest.approx(1 / (4 * rows.X.shape[1]))


def test_weights_that_are_lost_in_the_noise_are_zero():
    """They are compared with the noise variance, times the variance of the kernel."""
    gaussian = next(term for term in TERMS if term.name == "gaussian")

    def weights(variance, noise):
        logs = {"gaussian": {"amplitude": np.log([variance]) / 2}, "noise": {"amplitude": np.log([noise]) / 2}}
        return gaussian.weighty(np.array([0.0, 1e-12, 1e-3, 1.0]), logs).astype(bool).tolist()

    assert weights(1.0, 1e-2) == weights(1e-2, 1e-4) == [False, False, True, True]
    assert weights(1e9, 1e-2) == [False, True, True, True]
    assert weights(1.0, 1e-10) == [False, True, True, True]
    assert weights(1e-12, 1e3) == [False] * 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_differing_levels_are_counted_by_weight(dtype):
    """Columns of few levels, of more than 256, and with levels that were not seen."""
    rng = np.random.default_rng(0)
    sizes, weights = np.array([3, 300, 2, 700, 40]), np.array([0.5, 1.0, 2.0, 0.25, 3.0])
    a, b = (rng.integers(-1, sizes, (n, 5)).astype(float) for n in (50, 60))
    b = np.maximum(b, 0)  # points have levels that were seen
    b[:20] = np.maximum(a[:20], 0)
    expected = 7 - (a[:, None] != b) @ weights
    np.testing.assert_allclose(less_unlike(np.full((50, 60), 7, dtype), a, b, weights), expected, rtol=1e-5)
    np.testing.assert_array_equal(less_unlike(np.ones((0, 60), dtype), a[:0], b, weights), np.ones((0, 60)))
    np.testing.assert_array_equal(less_unlike(np.ones((50, 0), dtype), a, b[:0], weights), np.ones((50, 0)))


def test_directions_in_which_texts_hardly_differ_are_left_away():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4)) * [0.1, 0.05, 1e-9, 0.0]
    T = np.diag([2.0, 1.0, 1.0, 1.0])
    fewer = fewer_directions(T, X)
    assert fewer.shape == (2, 4)
    whole, kept = (minus_half_squares(X @ D.T, X @ D.T) for D in (T, fewer))
    np.testing.assert_allclose(kept, whole, atol=1e-9)


def test_a_term_that_is_not_wanted_has_no_variance():
    _, _, rows = rows_of_every_kind()
    for term in EVERY:
        own = term.start(rows, wanted=False)
        assert "amplitude" not in own or term.is_missing({term.name: own})


def periodic_rows(n=240):
    """A periodic function of one input and a line in another; and the rows in a gap of the first, in units of the
    others, where a fit to these has its frequency."""
    X = np.random.default_rng(0).uniform(-1.7, 1.7, (n, 2))
    gap = np.abs(X[:, 0]) < 0.4
    X = (X - X[~gap].mean(axis=0)) / X[~gap].std(axis=0)
    return X, np.tanh(3 * np.sin(OMEGA * X[:, 0])) + 0.5 * X[:, 1], gap


def test_a_kernel_joins_the_default_by_its_map_its_term_and_one_line(monkeypatch, tmp_path):
    """The search gives it variance where the truth is periodic, the fit goes on where no row was, and the rest of the
    package takes it as it comes."""
    X, y, gap = periodic_rows()
    errors = []
    for terms in (default_terms, lambda n: (*default_terms(n), Periodic())):
        monkeypatch.setattr("mlkm.search.policy.default_terms", terms)
        model = MLKMRegressor(random_state=0).fit(X[~gap], y[~gap])
        errors.append(np.mean((model.predict(X[gap]) - y[gap]) ** 2))
    terms = model.fitted_.uncertainty.kernel.terms
    assert sum(term.variance for term in terms if isinstance(term.phi, PeriodicMap)) > 0.1
    assert errors[1] < 0.2 * errors[0]
    mean, sd = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, model.predict(X))
    assert (sd > 0).all()
    assert model.feature_relevance_[0] > 0.5
    save(model, tmp_path / "periodic.mlkm")
    np.testing.assert_array_equal(load(tmp_path / "periodic.mlkm").predict(X), mean)
