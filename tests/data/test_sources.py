"""Fits to rows in files and in many pieces are those of rows in memory."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold
from source_rows import FEW, mixed, numbers, write

import mlkm
from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge, config_context, open_table
from mlkm.data.preparation import array_rows
from mlkm.data.scan import PartOf, scan
from mlkm.data.tables.cells import Table
from mlkm.runtime.resources import memory_budget
from mlkm.search.policy import policy_context


def test_the_sample_does_not_depend_on_the_blocks():
    X, y = numbers(50_000, 3)
    y[:20_000] = y[20_000:40_000]
    X[:20_000] = X[20_000:40_000]  # twice each
    order = np.random.default_rng(0).permutation(len(X))
    w = np.ones(len(X))
    samples = [
        scan(array_rows(X[at], y[at], w, True), [False] * 3, seed=0).sample.block for at in (np.arange(len(X)), order)
    ]
    for a, b in zip(samples[0].X.columns, samples[1].X.columns, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(samples[0]) == 20_000
    assert set(samples[0].weights) == {1.0, 2.0}
    other = scan(array_rows(X, y, w, True), [False] * 3, seed=1).sample.block
    shared = np.isin(other.X.columns[0], samples[0].X.columns[0]).mean()
    assert 0.4 < shared < 0.9  # 20,000 of 30,000 distinct rows


@pytest.mark.parametrize(
    "model",
    [
        RandomFeatureRidge(40, scale=0.5, penalty=1e-4, random_state=0),
        RandomFeatureRidge(40, random_state=0),
        MLKMRegressor(random_state=0),
    ],
    ids=["given", "ridge", "default"],
)
def test_a_fit_to_a_file_is_that_of_its_rows(model, tmp_path):
    X, y = numbers(20_000)
    frame = pd.DataFrame(X, columns=list("abcd"))
    path = write(tmp_path / "rows.parquet", frame, y, rows=3000)
    with policy_context(FEW):
        memory = model.fit(frame, y)
        expected, std = memory.predict(frame, return_std=True)
        streamed = model.fit(open_table(path, target="y"))
    np.testing.assert_array_equal(streamed.predict(frame), expected)
    np.testing.assert_array_equal(streamed.predict(open_table(path, features=list("abcd"))), expected)
    np.testing.assert_allclose(streamed.predict(frame, return_std=True)[1], std, rtol=1e-12)
    np.testing.assert_allclose(streamed.score(open_table(path, "y")), memory.score(frame, y), rtol=1e-10)
    assert streamed.feature_names_in_.tolist() == list("abcd")


@pytest.mark.parametrize(("unit", "shift"), [(1.0, 1e9), (1e299, 0.0), (1e-299, 0.0), (0.0, 7.0)])
def test_a_score_over_pieces_is_that_of_rows_in_memory_whatever_the_size_of_targets(tmp_path, unit, shift):
    X, y = numbers(600)
    frame, w = pd.DataFrame(X, columns=list("abcd")), np.arange(600) % 3.0
    w[:200] = 0.0  # a whole piece
    model = RandomFeatureRidge(20, scale=0.5, penalty=1e-2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that squared errors of some of these are no numbers
        model.fit(frame, y * (unit or 1.0) + shift)
    path = write(tmp_path / "rows.parquet", frame, y * unit + shift, rows=200, w=w, none=0 * w)
    names = {"target": "y", "features": list("abcd")}
    expected = model.score(frame, y * unit + shift, w)
    assert model.score(open_table(path, **names, weights="w")) == pytest.approx(expected, rel=1e-7)
    with pytest.raises(ValueError, match="All sample weights are zero, so there is no row to score"):
        model.score(open_table(path, **names, weights="none"))


@pytest.mark.parametrize("kind", [MLKMRegressor, RandomFeatureRidge])
def test_mixed_columns_in_pieces_are_as_in_memory(kind, tmp_path):
    """Categories, missing values and dates, several files, of which each holds some of the levels."""
    frame, y = mixed(1500)
    at = np.argsort(frame["city"].fillna("none").to_numpy(str), kind="stable")
    frame, y = frame.iloc[at].reset_index(drop=True), y[at]
    for k in range(3):
        write(tmp_path / f"part{k}.parquet", frame.iloc[k::3], y[k::3])
    order = np.concatenate([np.arange(k, 1500, 3) for k in range(3)])
    with policy_context(FEW):
        memory = kind(random_state=0).fit(frame.iloc[order], y[order])
        streamed = kind(random_state=0).fit(open_table(tmp_path, target="y"))
    np.testing.assert_allclose(streamed.predict(frame), memory.predict(frame), rtol=1e-6, atol=1e-6)
    assert streamed.score(frame, y) > 0.9
    assert streamed.feature_relevance_.shape == (5,)


def test_levels_in_pieces_do_not_tell_targets_of_their_rows():
    """Every level is that of two rows and y is noise: means that had a row's own y would explain half of it."""
    rng = np.random.default_rng(0)
    n = 2000
    frame = pd.DataFrame({"id": [f"n{k // 2}" for k in range(n)], "x": rng.standard_normal(n)})
    y = rng.standard_normal(n)
    with policy_context(FEW):
        model = RandomFeatureRidge(60, random_state=0).fit(frame, y)
    new = rng.standard_normal(n)
    assert np.mean((model.predict(frame) - new) ** 2) < 1.15 * new.var()


def test_weights_and_outputs_stream(tmp_path):
    X, y = numbers(1000)
    frame, Y = pd.DataFrame(X, columns=list("abcd")), np.column_stack([y, -2 * y])
    w = np.random.default_rng(0).integers(0, 3, 1000)
    table = frame.assign(u=Y[:, 0], v=Y[:, 1], w=w)
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "rows.parquet")
    source = open_table(tmp_path / "rows.parquet", target=["u", "v"], features=list("abcd"), weights="w")
    model = RandomFeatureRidge(40, scale=0.5, penalty=1e-4, random_state=0)
    with policy_context(FEW):
        streamed = model.fit(source).predict(frame)
        repeated = model.fit(frame.loc[np.repeat(np.arange(1000), w)], np.repeat(Y, w, axis=0)).predict(frame)
    assert streamed.shape == (1000, 2)
    np.testing.assert_allclose(streamed, repeated, rtol=1e-8, atol=1e-8)


def test_memmaps_are_read_in_pieces(tmp_path):
    X, y = numbers(3000)
    mapped = np.memmap(tmp_path / "X.dat", np.float32, "w+", shape=X.shape)
    mapped[:] = X
    blocks = list(array_rows(mapped, y, np.ones(len(y)), True).blocks())
    np.testing.assert_array_equal(np.hstack([block.X.columns for block in blocks]).T, X.astype(np.float32))
    np.testing.assert_array_equal(np.vstack([block.Y for block in blocks])[:, 0], y)


def test_a_large_memmap_is_fitted_as_an_array_in_memory(tmp_path):
    X, y = numbers(21_000)
    mapped = np.memmap(tmp_path / "X.dat", np.float64, "w+", shape=X.shape)
    mapped[:] = X
    model = RandomFeatureRidge(40, scale=0.5, penalty=1e-4, random_state=0)
    expected = model.fit(X, y).predict(X[:100])
    streamed = model.fit(mapped, y)
    assert streamed.fitted_.uncertainty.rows is None  # no copy of the rows is kept
    np.testing.assert_array_equal(streamed.predict(X[:100]), expected)
    with pytest.raises(ValueError, match="21000 rows and y has 5"):
        model.fit(mapped, y[:5])


def test_memory_is_asked_for_before_it_is_taken(tmp_path):
    X, y = numbers(2000)
    path = write(tmp_path / "rows.parquet", pd.DataFrame(X, columns=list("abcd")), y)
    deep = MLKMRegressor(widths=(16, 4), cv=KFold(2), random_state=0)  # a splitter has to see all rows
    with config_context(max_memory="100 KB"), pytest.raises(MemoryError, match=r"need about 0\.\d MB"):
        deep.fit(open_table(path, "y"))


def test_parts_are_the_same_in_every_pass_and_share_the_rows():
    X, y = numbers(4000)
    source = array_rows(X, y, np.ones(len(y)), True)
    parts = [source.map(PartOf(7, *ends)) for ends in ((0.0, 0.3), (0.3, 1.1))]
    assert sum(part.n for part in parts) == 4000
    assert abs(parts[0].n - 1200) < 5 * np.sqrt(4000 * 0.3 * 0.7)
    again = array_rows(X[::-1], y[::-1], np.ones(len(y)), True).map(PartOf(7, 0.0, 0.3))
    first, second = (np.sort(np.hstack([block.X.columns[0] for block in part.blocks()])) for part in (parts[0], again))
    np.testing.assert_array_equal(first, second)


def test_bands_of_files_cover(tmp_path):
    """Coverage of 2000 new rows given 1000 calibration rows: within 4.5 standard deviations of 90 %."""
    X, y = numbers(2000)
    frame = pd.DataFrame(X, columns=list("abcd"))
    path = write(tmp_path / "rows.parquet", frame, y)
    band = ConformalRegressor(RandomFeatureRidge(60, scale=0.5, random_state=0), confidence_level=0.9, random_state=0)
    band.fit(open_table(path, "y"))
    assert abs(band.n_calibration_ - 1000) < 5 * np.sqrt(500)
    X, y = numbers(2000, seed=1)
    new = pd.DataFrame(X, columns=list("abcd"))
    interval = band.predict_interval(new)[1]
    covered = mlkm.metrics.coverage(y, interval).share
    assert abs(covered - 0.9) < 4.5 * np.sqrt(0.09 / 2000 + 0.09 / 1000)
    path = write(tmp_path / "new.parquet", new, y)
    streamed = band.predict_interval(open_table(path, features=list("abcd")))
    np.testing.assert_allclose(streamed[1], interval)
    assert band.score(open_table(path, "y")) == pytest.approx(band.score(new, y))


def test_selected_quantiles_are_those_of_all_scores(tmp_path, monkeypatch):
    """Two passes select the scores that a sort would give, for both sides and every output."""
    X, y = numbers(1500)
    frame, Y = pd.DataFrame(X, columns=list("abcd")), np.column_stack([y, y**2])
    pq.write_table(pa.Table.from_pandas(frame.assign(u=Y[:, 0], v=Y[:, 1])), tmp_path / "rows.parquet")
    model = RandomFeatureRidge(40, scale=0.5, random_state=0).fit(frame.iloc[:500], Y[:500])
    source = open_table(tmp_path / "rows.parquet", target=["u", "v"])
    levels = [0.5, 0.9, 0.95]
    kept = ConformalRegressor(model, confidence_level=levels).conformalize(source)
    monkeypatch.setattr("mlkm.conformal.calibration.MOST_SCORES", 1000)
    selected = ConformalRegressor(model, confidence_level=levels).conformalize(source)
    assert selected.n_calibration_ == kept.n_calibration_ == 1500
    for side in ("both", "lower", "upper"):
        a, b = (band.predict_interval(frame, side=side)[1] for band in (kept, selected))
        np.testing.assert_allclose(a, b, rtol=1e-12)
    with pytest.raises(ValueError, match="knows the levels"):
        selected.predict_interval(frame, 0.8)


def test_a_table_of_ours_is_read_by_names():
    X, y = numbers(100)
    model = RandomFeatureRidge(20, scale=0.5, random_state=0).fit(pd.DataFrame(X, columns=list("abcd")), y)
    table = Table(tuple(X[:, [3, 2, 1, 0]].T), tuple("dcba"))
    np.testing.assert_array_equal(model.predict(table), model.predict(pd.DataFrame(X, columns=list("abcd"))))


def test_effects_of_many_rows_are_those_of_their_truth():
    X, y = numbers(3000)
    with policy_context(FEW):
        model = RandomFeatureRidge(80, random_state=0).fit(X, y)
    effect = model.effects(X[:200]).main(0)
    truth = np.sin(3 * X[:200, 0]) - np.sin(3 * X[:, 0]).mean()
    assert np.corrcoef(effect.values, truth)[0, 1] > 0.98
    lower, upper = effect.band
    assert (lower < effect.values).all()
    assert (effect.values < upper).all()
    told = model.explain(X[:5])
    np.testing.assert_allclose(told.baseline + told.values.sum(axis=1), model.predict(X[:5]))


def test_relevance_of_columns_with_several_inputs_is_that_of_what_they_do():
    frame, y = mixed(600)
    model = RandomFeatureRidge(100, random_state=0).fit(frame, y)
    relevance = dict(zip(model.feature_names_in_, model.feature_relevance_, strict=True))
    assert relevance["day"] < 0.1
    assert min(relevance["x"], relevance["size"], relevance["city"]) > 0.1


def test_an_unfitted_regressor_can_be_looked_at():
    assert "fit" in dir(MLKMRegressor())


@pytest.mark.parametrize("named", [False, True])
def test_a_wrong_number_of_columns_is_told_in_one_sentence(named, tmp_path):
    """As scikit-learn tells it, of rows in files and on a cluster too, and before any of them is computed."""
    da = pytest.importorskip("dask.array")
    X, y = numbers(300)
    two = pd.DataFrame(X[:, :2], columns=["a", "b"]) if named else X[:, :2]
    model = RandomFeatureRidge(20, scale=1.0, random_state=0).fit(two, y)
    band = ConformalRegressor(FrozenEstimator(model)).conformalize(two, y)
    rows, targets = da.from_array(X[:, :3], chunks=(100, 3)), da.from_array(y, chunks=100)
    calls = [
        lambda: model.score(rows, targets),
        lambda: model.partial_fit(rows, targets),
        lambda: model.predict(rows),
        lambda: model.predict(rows, return_std=True),
        lambda: band.conformalize(rows, targets),
        lambda: band.predict(rows),
        lambda: band.predict_interval(rows),
    ]
    if not named:
        table = open_table(write(tmp_path / "rows.parquet", pd.DataFrame(X[:, :3], columns=list("abc")), y), "y")
        calls += [lambda: model.score(table), lambda: model.partial_fit(table), lambda: model.predict(table)]
    for call in calls:
        with pytest.raises(
            ValueError, match=r"^X has 3 features, but RandomFeatureRidge is expecting 2 features as input\.$"
        ):
            call()


def test_a_collection_without_a_column_of_the_fit_is_refused_at_once():
    dd = pytest.importorskip("dask.dataframe")
    X, y = numbers(300)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = RandomFeatureRidge(20, scale=1.0, random_state=0).fit(frame, y)
    with pytest.raises(ValueError, match="The table has no column 'd', which the fit had"):
        model.predict(dd.from_pandas(frame[list("cba")], npartitions=2))
    more = frame.assign(e=1.0)[list("ecdba")]
    found = model.predict(dd.from_pandas(more, npartitions=2)).compute()
    np.testing.assert_allclose(found, model.predict(frame), rtol=1e-12)


@pytest.mark.parametrize("name", ["n_features", "widths"])
def test_sums_that_do_not_fit_ask_for_fewer_features(name):
    X, y = numbers(1000)
    model = RandomFeatureRidge(500, scale=1.0) if name == "n_features" else MLKMRegressor((500,))
    words = rf"^The sums of 50\d features need .*, or give fewer features \({name}\)\.$"
    with policy_context(FEW), config_context(max_memory="1MB"), pytest.raises(MemoryError, match=words):
        model.fit(X, y)


def test_a_limit_of_memory_is_that_of_its_thread_and_the_variable_that_of_all(monkeypatch):
    """As docs/scale.md says."""
    monkeypatch.setenv("MLKM_MAX_MEMORY", "3MB")
    with config_context(max_memory="1MB"), ThreadPoolExecutor(1) as pool:
        assert memory_budget() == 1_000_000
        assert pool.submit(memory_budget).result() == 3_000_000


def test_later_rows_without_targets_are_refused_as_by_fit(tmp_path):
    da = pytest.importorskip("dask.array")
    X, y = numbers(300)
    model = RandomFeatureRidge(20, scale=1.0, random_state=0).fit(X, y)
    for call in (model.fit, model.partial_fit, model.forget):
        with pytest.raises(ValueError, match="RandomFeatureRidge requires y to be passed, but the target y is None"):
            call(X)
    table = open_table(write(tmp_path / "rows.parquet", pd.DataFrame(X), y), features=list("0123"))
    for rows in (table, da.from_array(X, chunks=(100, 4))):
        for call in (model.fit, model.partial_fit, model.forget):
            with pytest.raises(ValueError, match="The table has no target; name it"):
                call(rows)


@pytest.mark.parametrize("kind", ["Delayed", "Bag"])
def test_collections_without_columns_are_refused_by_name(kind):
    dask, bag = pytest.importorskip("dask"), pytest.importorskip("dask.bag")
    X, y = numbers(100)
    model = RandomFeatureRidge(20, scale=1.0, random_state=0).fit(X, y)
    rows, targets = (dask.delayed(X), dask.delayed(y)) if kind == "Delayed" else map(bag.from_sequence, (X, y))
    calls = [
        lambda: model.fit(rows),
        lambda: model.fit(rows, targets),
        lambda: model.fit(rows, y),
        lambda: model.fit(X, targets),
        lambda: model.fit(X, y, targets),
        lambda: model.partial_fit(rows, y),
        lambda: model.score(rows, y),
        lambda: model.predict(rows),
        lambda: ConformalRegressor(model).fit(rows, targets),
        lambda: ConformalRegressor(FrozenEstimator(model)).conformalize(rows, y),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=f"^Rows on a cluster are arrays or data frames of dask; got a {kind}: "):
            call()
