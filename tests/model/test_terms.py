"""Every term of the default: its gradient against differences, the ways to compute it against each other; and what it
takes to add one."""

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_rows import TERMS, moved

from mlkm import MLKMRegressor
from mlkm.data import LEVEL, NUMBER, TEXT, Inputs
from mlkm.model.features import PointMap
from mlkm.model.machine import predict
from mlkm.model.rank_transform import fit_rank_transform
from mlkm.model.sum_kernel import SumKernel
from mlkm.model.terms import Parameter, Placement, Prepared, SearchRows, SearchTerm, Term, Values, default_terms
from mlkm.model.terms.product import minus_half_squares
from mlkm.search.kernel_parameters import refined, start

OMEGA = 12.0


# What a new kernel is: one file with a map and a term of the search, here K = exp(-sum_j s_j^2 (1 - cos omega x_j)).


def circle(X):
    """Points on a circle for every input, whose squared distances are 2 (1 - cos omega (x - z))."""
    return np.hstack([np.cos(OMEGA * X), np.sin(OMEGA * X)])


@dataclass(frozen=True)
class PeriodicMap(PointMap):
    points: np.ndarray
    scales: np.ndarray

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

    def prepare(self, rows, begin):
        apart = 1 - np.cos(OMEGA * (rows.X.T[:, :, None] - rows.X.T[:, None]))
        apart[rows.levels] = 0
        return Prepared(rows, apart.reshape(len(apart), -1))

    def evaluate(self, p, on):
        m = len(on.rows.X)
        return Values(dense=(self.variance(p) * np.exp(-np.exp(2 * p["periodic"]["scale"]) @ on.fixed).reshape(m, m),))

    def gradient(self, p, on, at, dF, dK):
        Q = dK * at.dense[0]
        scale = -2 * np.exp(2 * p["periodic"]["scale"]) * (on.fixed @ Q.ravel())
        return {"periodic": {"amplitude": np.array([2 * Q.sum()]), "scale": scale}}

    def relevance(self, p, levels):
        return np.where(levels, 0, self.variance(p) * (1 - np.exp(-np.exp(2 * p["periodic"]["scale"]))))

    def fitted(self, p, place):
        scales = place.spread(np.exp(p["periodic"]["scale"]) * ~place.levels)
        return [] if self.is_missing(p) else [Term(None, PeriodicMap(scales[:0, None], scales), self.variance(p))]


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


def kernel_of(values, m):
    return sum((F @ F.T for F in values.features), np.zeros((m, m))) + sum(values.dense)


@each
def test_the_gradient_of_a_term_is_that_of_differences(term):
    """Of the sum of all entries of its kernel on the rows of a search, each times a number. Distances are float32."""
    _, _, rows = rows_of_every_kind()
    p, m, step = parameters(rows), len(rows.X), 1e-2
    A = np.random.default_rng(2).standard_normal((m, m))
    A += A.T
    on = term.prepare(rows, p)
    at = term.evaluate(p, on)
    gradient = term.gradient(p, on, at, [2 * A @ F for F in at.features], A)
    assert {name for own in gradient.values() for name in own} >= {q.name for q in term.parameters(rows)}

    def objective(owner, name, k, move):
        there = p | {owner: p[owner] | {name: p[owner][name] + move * (np.arange(p[owner][name].size) == k)}}
        return np.vdot(A, kernel_of(term.evaluate(there, on), m))

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
    expected = kernel_of(term.evaluate(p, term.prepare(rows, p)), len(X))
    np.testing.assert_allclose(kernel.matrix(X, X), expected, atol=2e-3)


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


def test_a_kernel_joins_the_default_by_its_file_and_one_line(monkeypatch):
    """The search gives it variance where the truth is periodic, the fit goes on where no row was, and the rest of the
    package takes it as it comes."""
    X, y, gap = periodic_rows()
    errors = []
    for terms in (default_terms, lambda n: (*default_terms(n), Periodic())):
        monkeypatch.setattr("mlkm.search.policy.default_terms", terms)
        model = MLKMRegressor(random_state=0).fit(X[~gap], y[~gap])
        errors.append(np.mean((model.predict(X[gap]) - y[gap]) ** 2))
    terms = model._uncertainty.kernel.terms
    assert sum(term.variance for term in terms if isinstance(term.phi, PeriodicMap)) > 0.1
    assert errors[1] < 0.2 * errors[0]
    mean, sd = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, model.predict(X))
    assert (sd > 0).all()
    assert model.feature_relevance_[0] > 0.5
