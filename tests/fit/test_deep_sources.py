"""Hidden layers, rotations and descent on rows that do not fit into memory: the fits of rows in memory."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, PredefinedSplit

import mlkm
from mlkm import ConformalRegressor, MLKMRegressor, RKMRegressor, config_context, open_table
from mlkm.data import plain_rows
from mlkm.data.folds import parts, row_hashes
from mlkm.data.preparation import array_rows
from mlkm.data.tables.cells import Table
from mlkm.model.machine import LastInputs, positions
from mlkm.runtime.resources import Purpose, generator
from mlkm.runtime.rules import RULES
from mlkm.search.policy import Policy, policy_context
from mlkm.solve import GradientDescent, VariableProjection
from mlkm.solve.descent import copied
from mlkm.solve.ridge import ridge_on
from mlkm.solve.training_rows import loss_gradient, training_rows

BUDGET = "150 KB"  # less than the rows of any test here take, more than their sums
DEEP = Policy(worth_depth=np.inf)  # hidden layers whether they pay or not
NAMES = list("abcd")


def numbers(n=3000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) + np.arange(d)
    return X, np.sin(4 * np.sin(2 * X[:, 0]) * X[:, 1]) + 0.1 * rng.standard_normal(n)


def source_of(X, y, weights=None):
    Y = np.asarray(y).reshape(len(X), -1)
    return array_rows(X, Y, np.ones(len(X)) if weights is None else weights, np.ndim(y) == 1)


def streamed(model, source):
    with config_context(max_memory=BUDGET):
        return clone(model).fit(source)


def hash_parts(X, y, n_parts, seed=0):
    salt = int(generator(seed, Purpose.PARTS).integers(2**62))
    return parts(row_hashes(Table(tuple(X.T), None), np.asarray(y).reshape(len(X), -1), salt), n_parts)


def published(cls=MLKMRegressor, cv=None, **settings):
    solver = GradientDescent(**{"learning_rate": 0.05, "max_iter": 40, **settings})
    return cls.published((12, 6, 4), 1.0, penalty=1e-3, cv=cv, solver=solver, random_state=0)


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("mlkm.data.rows.PART_ROWS", 2048)


@pytest.mark.parametrize("cls", [MLKMRegressor, RKMRegressor])
@pytest.mark.parametrize("cv", [None, "rotate"])
@pytest.mark.parametrize("stop", [{}, {"tol": 0.1, "patience": 4}], ids=["all epochs", "patience"])
@pytest.mark.usefixtures("small_pieces")
def test_full_batches_are_those_of_memory(cls, cv, stop):
    """Gradients are summed up over pieces; the parts of rotations are given to the fit in memory as folds."""
    X, y = numbers(5000)
    w = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    Y = np.column_stack([X[:, 0] + y, X[:, 2] - X[:, 1]])
    model = published(cls, cv, learning_rate=0.02, **stop)
    memory = clone(model).set_params(cv=cv and PredefinedSplit(hash_parts(X, Y, 3))).fit(X, Y, w)
    found = streamed(model, source_of(X, Y, w))
    assert found.n_iter_ == memory.n_iter_
    assert (found.n_iter_ < 40) == bool(stop)
    np.testing.assert_allclose(found.loss_curve_, memory.loss_curve_, rtol=1e-8)
    assert min(found.loss_curve_) < 0.96 * found.loss_curve_[0]
    np.testing.assert_allclose(found.predict(X), memory.predict(X), atol=1e-6)
    np.testing.assert_allclose(found.feature_relevance_, memory.feature_relevance_, atol=0.1)  # at other rows
    assert found.loo_error_ == pytest.approx(memory.loo_error_, rel=1e-6)


@pytest.mark.usefixtures("small_pieces")
def test_mini_batches_are_those_of_the_permuted_pieces():
    """Two epochs by hand: every piece in the order of its permutation, one batch after the other across pieces."""
    X, y = numbers(5000)
    model = published(batch_size=300, max_iter=2, tol=0.0)
    found = streamed(model, source_of(X, y))
    start = copied(streamed(model.set_params(solver__learning_rate=1e-300), source_of(X, y)).machines_[0])
    rows = plain_rows(found.x_scaler_.forward(X), found.y_scaler_.forward(y[:, None]))
    sd = found.y_scaler_.sd
    start.layers[-1][0][:] *= sd
    data, moving = training_rows(rows, start.maps[0], unit=sd), positions(start, None)
    step = GradientDescent(0.05, batch_size=300).step(3, 1e-3)
    velocity = [np.zeros_like(W) for layer in start.layers for W in layer]
    for epoch in range(2):
        begins = range(0, 5000, 2048)
        rng = generator(0, Purpose.BATCHES, 0, epoch)
        order = np.concatenate([rng.permutation(min(2048, 5000 - begin)) + begin for begin in begins])
        for at in range(0, 5000, 300):
            batch = order[at : at + 300]
            step.move(start, velocity, moving, loss_gradient(start, moving, data, batch, len(batch)))
    expected = start.layers[-1][0] / sd
    assert found.n_iter_ == 2
    np.testing.assert_allclose(found.machines_[0].layers[-1][0], expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("cv", [None, "rotate"])
@pytest.mark.usefixtures("small_pieces")
def test_mini_batches_go_as_far_as_in_memory(cv):
    X, y = numbers(6000)
    model = published(cv=cv, batch_size=100, max_iter=15)
    memory, found = clone(model).fit(X, y), streamed(model, source_of(X, y))
    assert found.n_iter_ == 15
    assert found.loss_curve_[-1] == pytest.approx(memory.loss_curve_[-1], rel=0.25)
    assert found.loss_curve_[-1] < 0.8


def test_rotations_do_not_depend_on_the_order_of_rows(tmp_path):
    X, y = numbers(3000)
    order = np.random.default_rng(0).permutation(3000)
    parts = hash_parts(X, y, 3)
    np.testing.assert_array_equal(parts[order], hash_parts(X[order], y[order], 3))
    counts = np.bincount(parts)
    assert (np.abs(counts - 1000) < 5 * np.sqrt(3000 * 2 / 9)).all()
    a, b = (streamed(published(cv="rotate"), source_of(X[at], y[at])) for at in (np.arange(3000), order))
    np.testing.assert_allclose(a.predict(X), b.predict(X), atol=1e-9)
    with policy_context(DEEP):
        solver = VariableProjection(sweeps=1)  # more of them make much of a difference in rounding
        deep = MLKMRegressor(
            widths=(20, 4), scales=(0.5, 0.5), cv="rotate", penalty=1e-4, solver=solver, random_state=0
        )
        a, b = (streamed(deep, source_of(X[at], y[at])) for at in (np.arange(3000), order))
    np.testing.assert_allclose(a.predict(X), b.predict(X), atol=1e-5)


def test_descent_that_diverges_says_so():
    X, y = numbers(1000)
    with pytest.raises(ValueError, match=r"Gradient descent diverged: the loss is .* lower learning_rate=1e\+06"):
        streamed(published(learning_rate=1e6), source_of(X, y))
    with pytest.raises(ValueError, match="Gradient descent diverged"):
        streamed(published(cv="rotate", learning_rate=1e6, batch_size=50), source_of(X, y))


@pytest.mark.parametrize("cls", [MLKMRegressor, RKMRegressor])
@pytest.mark.parametrize("cv", [None, "rotate", 3])
def test_the_last_layer_is_exact_on_all_rows(cls, cv):
    """Hidden layers come from 2000 of 30,000 rows; given them, the last layer is the ridge on all rows, or on all rows
    of its part."""
    X, y = numbers(30_000)
    solver = VariableProjection(20, max_rows=2000, more_rows=0, sweeps=2)
    model = cls(widths=(30, 6), scales=(0.7, 0.4), cv=cv, penalty=1e-5, solver=solver, random_state=0)
    with policy_context(DEEP):
        found, memory = streamed(model, source_of(X, y)), clone(model).fit(X, y)
    rows = plain_rows(found.x_scaler_.forward(X), found.y_scaler_.forward(y[:, None]))
    parts = None if cv is None else hash_parts(X, y, 2 if cv == "rotate" else cv)
    assert len(found.machines_) == len(memory.machines_) == (1 if parts is None else parts.max() + 1)
    for j, machine in enumerate(found.machines_):
        at = slice(None) if parts is None else np.flatnonzero(parts == (j + 1) % len(found.machines_))
        exact = ridge_on(LastInputs(machine), rows.take(at), 1e-5)
        last = np.vstack([exact.coefficients, exact.intercept])
        np.testing.assert_allclose(machine.layers[-1][0], last, rtol=1e-5, atol=1e-6)
    assert machine.layers[-1][0][:6].any()
    test, truth = numbers(2000, seed=1)
    error, theirs = (np.mean((m.predict(test) - truth) ** 2) for m in (found, memory))
    assert error < 1.2 * theirs
    if parts is None:  # where errors of rows left out are those of the average
        assert found.loo_error_ == pytest.approx(error, rel=0.2)


def test_one_layer_stays_where_hidden_ones_do_not_pay():
    X, _ = numbers(3000)
    y = X @ [1.0, 2.0, 0.0, 0.0] + np.random.default_rng(0).standard_normal(3000)
    found = streamed(MLKMRegressor((20, 4), penalty=1e-4, random_state=0), source_of(X, y))
    assert not found.machines_[0].layers[-1][0][:4].any()
    alone = streamed(MLKMRegressor((20,), penalty=1e-4, random_state=0), source_of(X, y))
    np.testing.assert_allclose(found.predict(X), alone.predict(X), atol=1e-8)


def test_parts_of_one_layer_are_those_of_memory():
    X, y = numbers(3000)
    model = MLKMRegressor(widths=(25,), scales=(0.7,), penalty=1e-4, cv=3, random_state=0)
    found = streamed(model, source_of(X, y))
    memory = clone(model).set_params(cv=PredefinedSplit(hash_parts(X, y, 3))).fit(X, y)
    np.testing.assert_allclose(found.predict(X), memory.predict(X), atol=1e-4)  # products in float32 in memory
    assert found.loo_error_ == pytest.approx(memory.loo_error_, rel=0.1)


@pytest.mark.parametrize(
    "model",
    [
        published(max_iter=40, batch_size=32),
        published(cv="rotate", max_iter=40, batch_size=32),
        MLKMRegressor(widths=(30, 4), scales=(0.7, 0.5), solver=VariableProjection(30), random_state=0),
        MLKMRegressor(
            widths=(30, 4), scales=(0.7, 0.5), cv="rotate", solver=VariableProjection(sweeps=3), random_state=0
        ),
    ],
    ids=["descent", "adds", "projection", "rotated projection"],
)
def test_standard_deviations_are_near_those_of_memory(model):
    """Hidden weights are taken as known: a difference of about their number over n."""
    X, y = numbers(2500)
    with policy_context(DEEP):
        found, memory = streamed(model, source_of(X, y)), clone(model).fit(X, y)
    f, sigma = found.predict(X, return_std=True)
    np.testing.assert_allclose(f, found.predict(X))
    assert np.mean(((y - f) / sigma) ** 2) == pytest.approx(1, abs=0.05)
    assert sigma.mean() == pytest.approx(memory.predict(X, return_std=True)[1].mean(), rel=0.15)
    assert found.noise_variance_ == pytest.approx(np.mean((y - f) ** 2), rel=0.05)
    assert not found.has_closed_form_


@pytest.mark.slow
def test_a_file_beyond_the_budget_is_trained_and_dask_arrays_are_the_same(tmp_path):
    da = pytest.importorskip("dask.array")
    X, y = numbers(18_000)
    frame = pd.DataFrame(X, columns=NAMES)
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(frame.assign(y=y), preserve_index=False), path, row_group_size=3000)
    arrays = da.from_array(X, chunks=(1700, 2)), da.from_array(y, chunks=4000)
    for model in (
        published(cv="rotate", batch_size=500, max_iter=3),
        published(RKMRegressor, max_iter=3),
        MLKMRegressor(widths=(20, 4), solver=VariableProjection(5), penalty=1e-4, random_state=0),
    ):
        with config_context(max_memory="1MB"), policy_context(DEEP):
            of_file = clone(model).fit(open_table(path, "y"))
            of_arrays = clone(model).fit(*arrays)
        assert of_file.feature_names_in_.tolist() == NAMES
        np.testing.assert_allclose(of_arrays.predict(X), of_file.predict(frame), rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(of_file.predict(open_table(path, features=NAMES)), of_file.predict(frame))


def test_categories_and_missing_values_stream():
    rng = np.random.default_rng(0)
    city, x = rng.choice(["a", "b", "c"], 2000).astype(object), rng.standard_normal(2000)
    x[::17] = np.nan
    y = np.nan_to_num(x, nan=2.0) + np.select([city == "a", city == "b"], [3.0, 0.0], -3.0)
    frame = pd.DataFrame({"city": city, "x": x})
    table = pa.Table.from_pandas(frame.assign(y=y), preserve_index=False)
    import pyarrow.dataset

    source = open_table(pyarrow.dataset.dataset(table), "y")
    model = MLKMRegressor(
        (30, 8), scales=(0.5, "auto"), solver=GradientDescent(max_iter=20, batch_size=50), cv="rotate"
    )
    assert streamed(model.set_params(random_state=0), source).score(frame, y) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("model", [published(cv="rotate", max_iter=1, batch_size=500), published(max_iter=1)])
@pytest.mark.usefixtures("small_pieces")
def test_memory_does_not_grow_with_the_rows(model, tmp_path):
    """40,000 x 10 and 80,000 x 10 take nearly the same memory: with a sample of 2000 rows and pieces of 2048, about
    3 MB, where the rows of the larger table take 7 MB."""
    peaks = []
    for n in (40_000, 80_000):
        X, y = numbers(n, 10)
        path = tmp_path / f"{n}.parquet"
        pq.write_table(pa.table([*X.T, y], [*"abcdefghij", "y"]), path, row_group_size=4000)
        del X, y
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mlkm.data.scan.RULES", replace(RULES, sample_rows=(2000, 2000)))
            tracemalloc.start()
            streamed(model, open_table(path, "y"))
            peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
            tracemalloc.stop()
    assert max(peaks) < 5
    assert peaks[1] < 1.6 * peaks[0]


def test_penalties_by_folds_are_chosen_on_the_sample():
    X, y = numbers(1000)
    model = published(max_iter=5).set_params(penalty="cv")
    found, memory = streamed(model, source_of(X, y)), clone(model).fit(X, y)
    assert found.penalty_ in [10.0**k for k in range(-7, 1)]
    assert found.predict(X) == pytest.approx(memory.predict(X), abs=0.1 * y.std())


def test_splitters_need_all_rows():
    X, y = numbers(1000)
    with pytest.raises(MemoryError, match="may be taken"):
        streamed(published(cv=KFold(3)), source_of(X, y))
    with pytest.raises(ValueError, match=r"cv splits the rows into 900 parts, and part \d+ has none"):
        streamed(published(cv=900), source_of(X, y))


def test_models_of_pieces_are_saved(tmp_path):
    X, y = numbers(1000)
    for model in (published(cv="rotate", max_iter=3), MLKMRegressor((20, 4), scales=(0.5, 0.5), random_state=0)):
        found = streamed(model, source_of(X, y))
        mlkm.save(found, tmp_path / "model.mlkm")
        for a, b in zip(mlkm.load(tmp_path / "model.mlkm").predict(X, True), found.predict(X, True), strict=True):
            np.testing.assert_array_equal(a, b)


def test_exports_of_streamed_fits_have_no_variance(tmp_path):
    pytest.importorskip("onnx")
    X, y = numbers(1000)
    found = streamed(published(cv="rotate", max_iter=2), source_of(X, y))
    mlkm.to_onnx(found, tmp_path / "model.onnx")
    band = ConformalRegressor(FrozenEstimator(found)).conformalize(X, y)
    with pytest.raises(ValueError, match="The variance of a fit to rows in pieces is not exported"):
        mlkm.to_onnx(band, tmp_path / "band.onnx")


def test_effects_of_streamed_fits_have_bands():
    X, y = numbers(2000)
    for model in (published(cv="rotate", max_iter=3), MLKMRegressor((20, 4), scales=(0.5, 0.5), random_state=0)):
        effect = streamed(model, source_of(X, y)).effects(X[:50]).main(0)
        lower, upper = effect.band
        assert (lower <= upper).all()
        assert np.isfinite(effect.values).all()


def test_bands_of_streamed_descent_cover():
    """Coverage of 2000 new rows given 1500 calibration rows: within 4.5 standard deviations of 90 %."""
    X, y = numbers(3000)
    band = ConformalRegressor(published(max_iter=10, batch_size=100), confidence_level=0.9, random_state=0)
    found = streamed(band, source_of(X, y))
    frozen = ConformalRegressor(FrozenEstimator(found.estimator_), confidence_level=0.9)
    frozen.conformalize(source_of(*numbers(1500, seed=2)))
    X, y = numbers(2000, seed=1)
    for band in (found, frozen):
        covered = mlkm.metrics.coverage(y, band.predict_interval(X)[1]).share
        assert abs(covered - 0.9) < 4.5 * np.sqrt(0.09 / 2000 + 0.09 / 1500)
