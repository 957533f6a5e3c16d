"""What goes wrong on a cluster: rows that cannot be used, workers and schedulers that are lost, interrupts."""

import contextvars
import os
import signal
import threading
import time

import dask.array as da
import distributed
import numpy as np
import pytest
from clusters import GIVEN, N, collections, equal, fitted, start
from sklearn.base import clone
from source_rows import FEW, numbers

from mlkm.search.policy import policy_context


@pytest.fixture(scope="module")
def client():
    with start(2) as cluster, distributed.Client(cluster) as client:
        yield client


def test_rows_that_cannot_be_used_are_explained_at_once(client, tmp_path):
    X, y = numbers(3000)
    before = vars(clone(GIVEN))
    for place, value, message in ((y, np.nan, "y contains NaN"), (X[:, 2], np.inf, "X contains infinity in column 2")):
        place[1700], good = value, place[1700]
        model = clone(GIVEN)
        with pytest.raises(ValueError, match=message), policy_context(FEW):
            model.fit(*collections(X, y, 700, 900))
        assert vars(model).keys() == before.keys()
        place[1700] = good
    with pytest.raises(ValueError, match="none negative"):
        fitted(GIVEN, *collections(X, y), sample_weight=da.from_array(-np.ones(3000), chunks=1000))


class Failing:
    """A chunk that cannot be read the first times."""

    def __init__(self, folder, times):
        self.folder, self.times = folder, times

    def __call__(self, block):
        with open(os.path.join(self.folder, str(time.time_ns())), "w"):
            pass
        if len(os.listdir(self.folder)) <= self.times:
            raise OSError("the disk is away")
        return block


def test_a_task_that_fails_is_tried_again(client, tmp_path):
    X, y = numbers(1000)
    dX, dy = da.from_array(X, chunks=(1000, 4)), da.from_array(y, chunks=1000)
    once = dX.map_blocks(Failing(str(tmp_path), 2), dtype=float, meta=np.empty((0, 0)))
    equal(fitted(GIVEN, once, dy).predict(X), fitted(GIVEN, X, y).predict(X))
    always = dX.map_blocks(Failing(str(tmp_path), 10**9), dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(OSError, match="the disk is away"):
        fitted(GIVEN, always, dy)


def test_two_fits_at_once(client):
    X, y = numbers(N)
    expected = [fitted(GIVEN, *collections(X, target)).predict(X[:500]) for target in (y, -3 * y)]
    found = [None, None]

    def fit(k, target):
        found[k] = fitted(GIVEN, *collections(X, target)).predict(X[:500])

    threads = [
        threading.Thread(target=contextvars.copy_context().run, args=(fit, k, target))
        for k, target in enumerate((y, -3 * y))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(own, other)


def test_workers_without_data_and_workers_that_are_busy(client):
    X, y = numbers(1000)
    expected = fitted(GIVEN, X, y).predict(X)
    equal(fitted(GIVEN, *collections(X, y, 1000, 1000)).predict(X), expected)  # one chunk, two workers
    busy = client.map(time.sleep, [0.5, 0.51, 0.52, 0.53])
    equal(fitted(GIVEN, *collections(X, y, 100, 100)).predict(X), expected)
    client.gather(busy)


class Slowly:
    """A chunk takes a while to make, and leaves a file that says in which process."""

    def __init__(self, folder, seconds):
        self.folder, self.seconds = str(folder), seconds

    def __call__(self, block):
        with open(os.path.join(self.folder, f"{os.getpid()}-{time.time_ns()}"), "w"):
            time.sleep(self.seconds)
        return block


def slowly(X, y, folder, seconds, rows=300):
    dX, dy = collections(X, y, rows, rows)
    return dX.map_blocks(Slowly(folder, seconds), dtype=float, meta=np.empty((0, 0))), dy


def after(folder, n_chunks, work):
    """Do something in another thread as soon as so many chunks have been begun."""

    def wait():
        for _ in range(2000):
            names = os.listdir(folder)
            if len(names) >= n_chunks:
                return work(names)
            time.sleep(0.01)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_worker_that_is_killed_costs_its_chunks(client, tmp_path):
    X, y = numbers(3000)
    expected = fitted(GIVEN, *collections(X, y, 300, 300)).predict(X)
    killed = []

    def kill(names):
        last = max(names, key=lambda name: int(name.split("-")[1]))
        killed.append(int(last.split("-")[0]))
        os.kill(killed[0], signal.SIGKILL)

    thread = after(tmp_path, 5, kill)
    model = fitted(GIVEN, *slowly(X, y, tmp_path, 0.05))
    thread.join()
    np.testing.assert_array_equal(model.predict(X), expected)
    workers = client.run(os.getpid)
    assert killed[0] not in workers.values()


class Deadly:
    """A chunk that is the end of its worker."""

    def __call__(self, block):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_chunk_that_kills_its_workers_is_explained(client):
    X, y = numbers(1000)
    dX, dy = collections(X, y, 1000, 1000)
    client.run_on_scheduler(allow_failures, 0)  # rather than three, which take their time
    try:
        with pytest.raises(RuntimeError, match="died again and again"):
            fitted(GIVEN, dX.map_blocks(Deadly(), dtype=float, meta=np.empty((0, 0))), dy)
    finally:
        client.run_on_scheduler(allow_failures, 3)


def allow_failures(times, dask_scheduler):
    dask_scheduler.allowed_failures = times


@pytest.mark.slow
def test_workers_that_are_restarted(client, tmp_path):
    """In the middle of a fit this cancels it, in one clear error; before and after it nothing is lost."""
    X, y = numbers(3000)
    dX, dy = collections(X, y, 300, 300)
    model = fitted(GIVEN, dX, dy)
    lazy, before = model.predict(dX), dict(vars(model))
    thread = after(tmp_path, 3, lambda _: client.restart())
    with pytest.raises(RuntimeError, match="cluster was lost"), policy_context(FEW):
        model.fit(*slowly(X, -y, tmp_path, 0.1))
    thread.join()
    assert vars(model) == before
    equal(lazy.compute(), model.predict(X))
    equal(fitted(GIVEN, dX, dy).predict(X), model.predict(X))


def test_a_scheduler_that_is_lost_is_one_clear_error(tmp_path):
    """Within seconds, and the model is the one before."""
    X, y = numbers(3000)
    cluster = start(1)
    with cluster, distributed.Client(cluster, timeout=2):
        model = fitted(GIVEN, *collections(X, y, 300, 300))
        before, predicted = dict(vars(model)), model.predict(X)
        began = []

        def close(_):
            began.append(time.monotonic())
            cluster.close()

        thread = after(tmp_path, 3, close)
        with pytest.raises(RuntimeError, match="cluster was lost"), policy_context(FEW):
            model.set_params(random_state=1).fit(*slowly(X, -y, tmp_path, 0.2))
        assert time.monotonic() - began[0] < 10
        thread.join()
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[name] is value for name, value in before.items() if name != "random_state")
        np.testing.assert_array_equal(model.predict(X), predicted)


@pytest.fixture
def interruptible():
    """A process in the background of a shell ignores interrupts, and so do those it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_the_work(client, interruptible, tmp_path):
    X, y = numbers(3000)
    model = clone(GIVEN)
    before = dict(vars(model))
    main = threading.main_thread().ident
    thread = after(tmp_path, 4, lambda _: signal.pthread_kill(main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), policy_context(FEW):
        model.fit(*slowly(X, y, tmp_path, 0.3))
    thread.join()
    assert vars(model) == before
    for _ in range(200):
        if not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
            break
        time.sleep(0.05)
    begun = len(os.listdir(tmp_path))
    assert begun < 9
    time.sleep(0.7)
    assert len(os.listdir(tmp_path)) == begun
