"""Fits and predictions on a real cluster of `distributed` are those of rows in memory."""

import operator
import os
import time

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import joblib
import numpy as np
import pandas as pd
import pytest
from clusters import GIVEN, N, collections, equal, fitted, start
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from source_rows import FEW, mixed, numbers

from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge, config_context
from mlkm.data.dask import DaskRows
from mlkm.search.policy import policy_context


@pytest.fixture(scope="module")
def client():
    with start(2) as cluster, distributed.Client(cluster) as client:
        yield client


# --- the same result as in memory


@pytest.mark.parametrize(
    "model",
    [GIVEN, RandomFeatureRidge(40, random_state=0), MLKMRegressor(random_state=0)],
    ids=["given", "ridge", "default"],
)
def test_a_fit_is_that_of_rows_in_memory(client, model):
    X, y = numbers(N)
    memory, cluster = fitted(model, X, y), fitted(model, *collections(X, y))
    equal(cluster.predict(X[:500]), memory.predict(X[:500]))
    assert cluster.penalty_ == pytest.approx(memory.penalty_, rel=1e-6)
    assert cluster.n_features_in_ == 4


@pytest.mark.slow
def test_the_number_of_workers_and_the_chunks_change_no_bit(client):
    X, y = numbers(N)
    found = []
    for n_workers in (2, 3, 1):
        client.cluster.scale(n_workers)
        while len(client.scheduler_info()["workers"]) != n_workers:
            time.sleep(0.05)
        found += [fitted(GIVEN, *collections(X, y, rows)).predict(X[:500]) for rows in (7000, 13_001)]
    client.cluster.scale(2)
    client.wait_for_workers(2)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_without_a_cluster_threads_do_the_work(client):
    X, y = numbers(N)
    expected = fitted(GIVEN, *collections(X, y)).predict(X[:500])
    with dask.config.set(scheduler="threads"):
        before = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        threaded = fitted(GIVEN, *collections(X, y))
        np.testing.assert_array_equal(threaded.predict(da.from_array(X[:500])).compute(), expected)
        assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) <= before  # old ones may leave


def test_few_rows_are_gathered_and_fitted_as_in_memory(client):
    X, y = numbers(250)
    expected = MLKMRegressor(random_state=0).fit(X, y).predict(X)
    np.testing.assert_array_equal(MLKMRegressor(random_state=0).fit(*collections(X, y, 60, 90)).predict(X), expected)


@pytest.mark.parametrize(
    "model", [pytest.param(MLKMRegressor(random_state=0), marks=pytest.mark.slow), GIVEN], ids=["default", "given"]
)
def test_frames_with_categories_words_dates_and_missing_values(client, model):
    frame, y = mixed(800)
    collection = dd.from_pandas(frame.assign(y=y), npartitions=4)
    columns = list(frame.columns)
    memory, cluster = fitted(model, frame, y), fitted(model, collection[columns], collection["y"])
    expected = memory.predict(frame)
    equal(cluster.predict(frame), expected, 1e-7)
    predicted = cluster.predict(collection[columns[::-1]])  # by names
    assert isinstance(predicted, da.Array)
    equal(predicted.compute(), cluster.predict(frame), 1e-12)
    assert cluster.feature_names_in_.tolist() == columns
    assert cluster.score(collection[columns], collection["y"]) == pytest.approx(memory.score(frame, y), rel=1e-6)


def test_partitions_without_rows(client):
    """A filter leaves partitions empty and lengths unknown."""
    frame, y = mixed(800)
    table = frame.assign(y=y).sort_values("x", ignore_index=True)
    collection = dd.from_pandas(table, npartitions=6)
    kept, expected = collection[collection["x"] > -0.2], table[table["x"] > -0.2]
    assert 0 in kept.map_partitions(len).compute().tolist()
    columns = list(frame.columns)
    model = RandomFeatureRidge(40, scale=0.5, penalty=1e-4, random_state=0)
    cluster = fitted(model, kept[columns], kept["y"])
    memory = fitted(model, expected[columns], expected["y"].to_numpy())
    equal(cluster.predict(expected[columns]), memory.predict(expected[columns]))
    equal(cluster.predict(kept[columns]).compute(), memory.predict(expected[columns]))


def test_arrays_of_unknown_empty_and_many_chunks(client):
    X, y = numbers(3000)
    expected = fitted(GIVEN, X, y).predict(X)
    cut = da.from_array(X, chunks=((0, 1000, 0, 1999, 1), (3, 1)))
    targets = da.from_array(y, chunks=((2000, 0, 1000),))
    model = fitted(GIVEN, cut, targets)
    equal(model.predict(X), expected)
    predicted = model.predict(cut)
    assert predicted.shape == (3000,)
    equal(predicted.compute(), expected)
    unknown = cut[da.from_array(np.arange(3000), chunks=(cut.chunks[0],)) < 1500]
    y_unknown = targets[da.from_array(np.arange(3000), chunks=targets.chunks) < 1500]
    assert np.isnan(unknown.shape[0])
    half = fitted(GIVEN, X[:1500], y[:1500]).predict(X)
    model = fitted(GIVEN, unknown, y_unknown)
    equal(model.predict(X), half)
    equal(model.predict(unknown).compute(), half[:1500])
    with pytest.raises(ValueError, match="X has 1500 rows and y has 3000"):
        fitted(GIVEN, unknown, targets)
    with pytest.raises(ValueError, match="0 sample"):
        fitted(GIVEN, cut[:0], targets[:0])


def test_weights_outputs_and_targets_that_are_here(client):
    X, y = numbers(3000)
    Y, w = np.column_stack([y, -2 * y]), np.random.default_rng(0).integers(0, 3, 3000).astype(float)
    expected = fitted(GIVEN, X, Y, sample_weight=w).predict(X)
    dX, dY = collections(X, Y, 700, (900, 2))
    equal(fitted(GIVEN, dX, dY, sample_weight=da.from_array(w, chunks=800)).predict(X), expected)
    model = fitted(GIVEN, dX, Y, sample_weight=w)  # arrays of this process beside a collection
    equal(model.predict(X), expected)
    equal(fitted(GIVEN, X, Y, sample_weight=da.from_array(w, chunks=800)).predict(X), expected)
    assert model.predict(dX).shape == (3000, 2)
    frame, targets = mixed(800)
    named = fitted(GIVEN, frame, da.from_array(targets, chunks=400))
    assert named.feature_names_in_.tolist() == list(frame.columns)
    equal(model.score(dX, dY, sample_weight=da.from_array(w)), model.score(X, Y, sample_weight=w), 1e-9)


# --- predictions, bands, later rows


def test_predictions_are_lazy_collections(client):
    X, y = numbers(3000)
    model = fitted(GIVEN, *collections(X, y, 700, 900))
    before = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
    dX = da.from_array(X, chunks=(1100, 4))
    mean, std = model.predict(dX, return_std=True)
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=2)
    of_frame = model.predict(frame)
    assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) <= before  # old ones may leave
    assert all(isinstance(own, da.Array) for own in (mean, std, of_frame))
    assert mean.chunks == std.chunks == dX.chunks[:1]
    expected = model.predict(X, return_std=True)
    for own, here in zip(dask.compute(mean, std), expected, strict=True):
        np.testing.assert_array_equal(own, here)
    np.testing.assert_array_equal(of_frame.compute(), expected[0])


def test_bands_on_a_cluster(client):
    X, y = numbers(3000)
    model = fitted(GIVEN, X[:1500], y[:1500])
    dX, dy = collections(X[1500:], y[1500:], 400, 700)
    memory = ConformalRegressor(model, confidence_level=[0.8, 0.9]).conformalize(X[1500:], y[1500:])
    cluster = ConformalRegressor(model, confidence_level=[0.8, 0.9]).conformalize(dX, dy)
    expected = memory.predict_interval(X)
    for own, here in zip(cluster.predict_interval(X), expected, strict=True):
        equal(own, here)
    new = da.from_array(X, chunks=(800, 4))
    mean, interval = cluster.predict_interval(new)
    assert (mean.shape, interval.shape) == ((3000,), (3000, 2, 2))
    assert isinstance(interval, da.Array)
    equal(mean.compute(), expected[0])
    equal(interval.compute(), expected[1])
    lower = cluster.predict_interval(new, 0.95, side="lower", y_min=-1.0)[1].compute()
    equal(lower, memory.predict_interval(X, 0.95, side="lower", y_min=-1.0)[1])
    assert cluster.score(dX, dy) == pytest.approx(memory.score(X[1500:], y[1500:]), rel=1e-9)


def test_a_band_is_fitted_to_collections(client):
    """It covers new rows: 1500 calibration rows, 3000 new ones, within 4.5 standard deviations of 90 %."""
    X, y = numbers(3000)
    with policy_context(FEW):
        band = ConformalRegressor(clone(GIVEN), confidence_level=0.9, random_state=0).fit(*collections(X, y, 700, 900))
    new, outcomes = numbers(3000, seed=1)
    lower, upper = band.predict_interval(da.from_array(new, chunks=(1000, 4)))[1][:, :, 0].compute().T
    covered = np.mean((lower <= outcomes) & (outcomes <= upper))
    assert abs(covered - 0.9) < 4.5 * np.sqrt(0.09 / 3000 + 0.09 / 1500)


def test_bands_of_several_outputs(client):
    X, y = numbers(1000)
    Y = np.column_stack([y, 3 * y])
    model = fitted(GIVEN, X[:500], Y[:500])
    band = ConformalRegressor(model, confidence_level=0.9).conformalize(*collections(X[500:], Y[500:], 200, (300, 2)))
    mean, interval = band.predict_interval(da.from_array(X, chunks=(400, 4)), joint=True)
    assert (mean.shape, interval.shape) == ((1000, 2), (1000, 2, 1, 2))
    equal(interval.compute(), band.predict_interval(X, joint=True)[1])


def test_bands_with_weights_and_bands_of_other_regressors(client):
    X, y = numbers(1500)
    w = np.random.default_rng(0).uniform(0.5, 2, 1000)
    dX, dy, dw = *collections(X[500:], y[500:], 300, 400), da.from_array(w, chunks=350)
    other = make_pipeline(StandardScaler(), LinearRegression())
    named = pd.DataFrame(X, columns=list("abcd"))
    frame = dd.from_pandas(named, npartitions=3)
    for model in (fitted(GIVEN, X[:500], y[:500]), clone(other).fit(X[:500], y[:500])):
        memory = ConformalRegressor(model).conformalize(X[500:], y[500:], sample_weight=w)
        cluster = ConformalRegressor(model).conformalize(dX, dy, sample_weight=dw)
        equal(cluster.predict_interval(dX)[1].compute(), memory.predict_interval(X[500:])[1])
        assert isinstance(cluster.predict(dX), da.Array)
        assert cluster.score(dX, dy) == pytest.approx(memory.score(X[500:], y[500:]), rel=1e-9)
    by_name = ConformalRegressor(clone(other).fit(named, y)).conformalize(frame, da.from_array(y, chunks=700))
    equal(by_name.predict(frame).compute(), by_name.predict(named))
    with pytest.raises(TypeError, match="got Pipeline: fit it first"):
        ConformalRegressor(other).fit(dX, dy)
    with pytest.raises(ValueError, match="without groups"):
        ConformalRegressor(model).conformalize(dX, dy, groups=np.zeros(1000))


def test_later_rows_of_a_cluster(client):
    X, y = numbers(3000)
    first, dX, dy = slice(0, 1000), *collections(X[1000:], y[1000:], 700, 900)
    memory = fitted(GIVEN, X[first], y[first]).partial_fit(X[1000:], y[1000:])
    cluster = fitted(GIVEN, X[first], y[first]).partial_fit(dX, dy)
    equal(cluster.predict(X), memory.predict(X))
    equal(cluster.forget(dX, dy).predict(X), memory.forget(X[1000:], y[1000:]).predict(X))


# --- which cluster


def test_the_client_may_be_given(client):
    """A second cluster that is not the current one does the work of a fit, and the current one none of it."""
    X, y = numbers(1000)
    with start(1, False) as cluster, distributed.Client(cluster, set_as_default=False) as other:
        count = lambda dask_scheduler: dask_scheduler.transition_counter  # noqa: E731
        before = client.run_on_scheduler(count), other.run_on_scheduler(count)
        with config_context(client=other):
            fitted(GIVEN, *collections(X, y, 400, 400))
        assert client.run_on_scheduler(count) == before[0]
        assert other.run_on_scheduler(count) > before[1]


def fit_inside(n):
    X, y = numbers(n)
    return fitted(GIVEN, *collections(X, y, 300, 300)).predict(X)


def test_fits_inside_tasks_do_not_wait_for_themselves(client):
    """As many fits to collections as there are threads: each gives up its thread while it waits."""
    expected = fitted(GIVEN, *numbers(1000)).predict(numbers(1000)[0])
    futures = [client.submit(fit_inside, 1000, pure=False) for _ in range(2)]
    for result in client.gather(futures):
        equal(result, expected)


def test_an_asynchronous_client_is_refused():
    class Client:
        asynchronous = True

    X, y = numbers(1000)
    cut = collections(X, y)[0]
    with config_context(client=Client()), pytest.raises(ValueError, match="asynchronous"):
        fitted(GIVEN, cut, y)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        fitted(GIVEN, cut[:, 0], y)
    with pytest.raises(ValueError, match="pass y"), dask.config.set(scheduler="threads"):
        fitted(GIVEN, cut)


# --- what is sent


class Counted:
    """Counts how often it is pickled in this process, which the scheduler is in."""

    times = 0

    def __reduce__(self):
        Counted.times += 1
        return Counted, ()


def test_a_model_is_sent_once_and_not_with_every_task(client):
    X, y = numbers(4000)
    model = fitted(GIVEN, X, y)
    model.counted_ = Counted()

    def pickled(chunk):
        Counted.times = 0
        dX, dy = collections(X, y, chunk, chunk)
        model.predict(dX).compute()
        model.score(dX, dy)
        return Counted.times

    assert pickled(100) == pickled(1000) < 12


def test_training_rows_and_scores_stay_here(client):
    """A band and its model go to workers without rows and scores: 1.2 MB of them here."""
    X, y = numbers(10_000, 10)
    model = fitted(GIVEN, X, y)
    band = ConformalRegressor(model, score="absolute").conformalize(X, y)
    dX = da.from_array(np.zeros((10, 10)), chunks=5)
    for lazy in (model.predict(dX), *model.predict(dX, return_std=True), *band.predict_interval(dX)):
        assert len(cloudpickle.dumps(lazy)) < 100_000


class Touched:
    """Leaves a file for every chunk that is made."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, block, block_info=None):
        place = block_info[0]["chunk-location"][0]
        with open(os.path.join(self.folder, f"{place}-{time.time_ns()}"), "w"):
            return block


def test_a_pass_makes_every_chunk_once(client, tmp_path):
    """Also where X and y are parts of one array, and where tasks cut chunks."""
    X, y = numbers(N)
    Z = da.from_array(np.column_stack([X, y]), chunks=(9000, 5)).map_blocks(Touched(str(tmp_path)), dtype=float)
    tmp_path.joinpath("x").touch()  # map_blocks may have asked what it gives
    for path in tmp_path.iterdir():
        path.unlink()
    DaskRows(Z[:, :4], Z[:, 4]).map_reduce(len, operator.add)
    assert sorted(path.name.split("-")[0] for path in tmp_path.iterdir()) == ["0", "1", "2", "3", "4"]


# --- joblib's backend


def test_joblib_runs_rotations_folds_and_grids(client):
    X, y = numbers(200)
    rotated = MLKMRegressor(widths=(16, 4), cv="rotate", random_state=0, n_jobs=2)
    expected = clone(rotated).set_params(n_jobs=None).fit(X, y).predict(X)
    search = GridSearchCV(RandomFeatureRidge(20, random_state=0), {"scale": [0.3, 1.0]}, cv=2)
    here = search.fit(X, y).cv_results_["mean_test_score"]
    with joblib.parallel_config(backend="dask"):
        equal(rotated.fit(X, y).predict(X), expected)
        np.testing.assert_allclose(search.fit(X, y).cv_results_["mean_test_score"], here, rtol=1e-9)
