"""Fits to rows in files and in many pieces are those of rows in memory."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.model_selection import KFold

import mlkm
from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge, config_context, open_table, predict_table
from mlkm.auto.policy import Policy, policy_context
from mlkm.sources.arrays import ArraySource
from mlkm.sources.part import PartSource
from mlkm.sources.scan import gathered, scan
from mlkm.tables.frames import Table

FEW = Policy(kernel_rows=(300, 300), layer_work=(1e8, 100, 100))  # many rows are many from 300 on


def numbers(n=1000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) + np.arange(d)
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)


def mixed(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    city = rng.choice([f"city {k}" for k in range(12)], n).astype(object)
    frame = pd.DataFrame(
        {
            "x": rng.standard_normal(n),
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.uniform(0, 2, n)),
            "city": np.where(rng.random(n) < 0.05, None, city),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
        }
    )
    effect = pd.Series(city).str.slice(5).astype(float).to_numpy() / 5
    y = np.sin(2 * frame["x"]) + frame["size"].fillna(3) + effect + 0.1 * rng.standard_normal(n)
    return frame, y.to_numpy()


def write(path, frame, y, rows=250, **more):
    pq.write_table(pa.Table.from_pandas(frame.assign(y=y, **more), preserve_index=False), path, row_group_size=rows)
    return path


def test_the_sample_does_not_depend_on_the_blocks():
    X, y = numbers(50_000, 3)
    y[:20_000] = y[20_000:40_000]
    X[:20_000] = X[20_000:40_000]  # twice each
    order = np.random.default_rng(0).permutation(len(X))
    w = np.ones(len(X))
    samples = [
        scan(ArraySource(X[at], y[at], w, True), [False] * 3, seed=0).sample for at in (np.arange(len(X)), order)
    ]
    for a, b in zip(samples[0].table.columns, samples[1].table.columns, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(samples[0]) == 20_000
    assert set(samples[0].weights) == {1.0, 2.0}
    other = scan(ArraySource(X, y, w, True), [False] * 3, seed=1).sample
    shared = np.isin(other.table.columns[0], samples[0].table.columns[0]).mean()
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


def test_few_rows_of_a_file_are_fitted_as_in_memory(tmp_path):
    frame, y = mixed(300)
    path = write(tmp_path / "rows.parquet", frame, y)
    expected = MLKMRegressor(random_state=0).fit(frame, y).predict(frame)
    np.testing.assert_array_equal(MLKMRegressor(random_state=0).fit(open_table(path, "y")).predict(frame), expected)


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
    assert streamed.feature_relevance_.shape == (4,)


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


def test_csv_and_feather_are_read(tmp_path):
    import pyarrow.feather

    frame, y = mixed(200)
    frame = frame.drop(columns="day")
    frame.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    pyarrow.feather.write_feather(pa.Table.from_pandas(frame.assign(y=y)), tmp_path / "rows.feather")
    expected = MLKMRegressor(random_state=0).fit(frame, y).predict(frame)
    for name in ("rows.csv", "rows.feather"):
        model = MLKMRegressor(random_state=0).fit(open_table(tmp_path / name, target="y"))
        np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-6)


def test_memmaps_are_read_in_pieces(tmp_path):
    X, y = numbers(3000)
    mapped = np.memmap(tmp_path / "X.dat", np.float32, "w+", shape=X.shape)
    mapped[:] = X
    table, Y, _ = gathered(ArraySource(mapped, y, np.ones(len(y)), True))
    np.testing.assert_array_equal(np.stack(table.columns, axis=1), X.astype(np.float32))
    np.testing.assert_array_equal(Y[:, 0], y)


def test_a_large_memmap_is_fitted_as_an_array_in_memory(tmp_path):
    X, y = numbers(21_000)
    mapped = np.memmap(tmp_path / "X.dat", np.float64, "w+", shape=X.shape)
    mapped[:] = X
    model = RandomFeatureRidge(40, scale=0.5, penalty=1e-4, random_state=0)
    expected = model.fit(X, y).predict(X[:100])
    streamed = model.fit(mapped, y)
    assert streamed._training[0] is None  # no copy of the rows is kept
    np.testing.assert_array_equal(streamed.predict(X[:100]), expected)
    with pytest.raises(ValueError, match="21000 rows and y has 5"):
        model.fit(mapped, y[:5])


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_predictions_stream_to_a_file(kind, tmp_path):
    X, y = numbers(700)
    frame = pd.DataFrame(X, columns=list("abcd"))
    path = write(tmp_path / "rows.parquet", frame, y)
    band = ConformalRegressor(RandomFeatureRidge(40, scale=0.5, random_state=0), random_state=0).fit(frame, y)
    out = predict_table(band, open_table(path, features=list("abcd")), tmp_path / f"out.{kind}")
    written = pd.read_parquet(out) if kind == "parquet" else pd.read_csv(out)
    mean, interval = band.predict_interval(frame)
    np.testing.assert_allclose(written["prediction"], mean)
    np.testing.assert_allclose(written[["lower", "upper"]], interval[:, :, 0])
    predict_table(band.estimator_, path, out)
    assert list((pd.read_parquet if kind == "parquet" else pd.read_csv)(out)) == ["prediction"]


def test_what_fails_leaves_nothing_behind(tmp_path):
    X, y = numbers(100)
    model = RandomFeatureRidge(20, scale=0.5, random_state=0).fit(pd.DataFrame(X, columns=list("abcd")), y)
    path = write(tmp_path / "rows.parquet", pd.DataFrame(X[:, :2], columns=list("ab")), y)
    (tmp_path / "out.csv").write_text("before")
    with pytest.raises(ValueError, match="no column 'c', 'd'"):
        predict_table(model, path, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv", "rows.parquet"]
    with pytest.raises(ValueError, match=r"\.parquet or \.csv"):
        predict_table(model, path, tmp_path / "out.xlsx")


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupt_or_a_full_disk_leaves_nothing_behind(problem, tmp_path, monkeypatch):
    X, y = numbers(100)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = RandomFeatureRidge(20, scale=0.5, random_state=0).fit(frame, y)
    path = write(tmp_path / "rows.parquet", frame, y)

    def fails(self, *arguments):
        raise problem

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", fails)
    with pytest.raises(type(problem)):
        predict_table(model, path, tmp_path / "out.parquet")
    assert [p.name for p in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_broken_file_in_a_folder_is_named(tmp_path):
    X, y = numbers(100)
    frame = pd.DataFrame(X, columns=list("abcd"))
    write(tmp_path / "a.parquet", frame, y)
    whole = write(tmp_path / "b.parquet", frame, y).read_bytes()
    model = RandomFeatureRidge(20, scale=0.5, random_state=0)
    (tmp_path / "b.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"b\.parquet could not be read"):
        model.fit(open_table(tmp_path, "y"))
    write(tmp_path / "b.parquet", frame.drop(columns="c"), y)
    with pytest.raises(ValueError, match=r"b\.parquet has no column 'c'"):
        model.fit(open_table(tmp_path, "y"))
    write(tmp_path / "b.parquet", frame.assign(c="word"), y)
    with pytest.raises(ValueError, match=r"Column 'c' is of type .* in .*b\.parquet and of type double"):
        model.fit(open_table(tmp_path, "y"))


def test_bad_tables_are_explained(tmp_path):
    X, y = numbers(100)
    path = write(tmp_path / "rows.parquet", pd.DataFrame(X, columns=list("abcd")), y)
    with pytest.raises(ValueError, match="no column 'price'"):
        open_table(path, target="price")
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        open_table(tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="names its target"):
        MLKMRegressor().fit(open_table(path, "y"), y)
    with pytest.raises(ValueError, match="has no target"):
        MLKMRegressor().fit(open_table(path))
    write(tmp_path / "rows.parquet", pd.DataFrame(X, columns=list("abcd")), np.where(y > 0, y, np.nan))
    with pytest.raises(ValueError, match="y contains NaN"):
        MLKMRegressor().fit(open_table(path, "y"))
    (tmp_path / "notes.txt").write_text("no table")
    with pytest.raises(ValueError, match="one kind"):
        open_table(tmp_path / "notes.txt")


def test_memory_is_asked_for_before_it_is_taken(tmp_path):
    X, y = numbers(2000)
    path = write(tmp_path / "rows.parquet", pd.DataFrame(X, columns=list("abcd")), y)
    deep = MLKMRegressor(widths=(16, 4), cv=KFold(2), random_state=0)  # a splitter has to see all rows
    with config_context(max_memory="100 KB"), pytest.raises(MemoryError, match=r"need about 0\.\d MB"):
        deep.fit(open_table(path, "y"))


def test_parts_are_the_same_in_every_pass_and_share_the_rows():
    X, y = numbers(4000)
    source = ArraySource(X, y, np.ones(len(y)), True)
    parts = [PartSource(source, 7, *ends) for ends in ((0.0, 0.3), (0.3, 1.1))]
    tables = [gathered(part)[0] for part in parts]
    assert sum(len(table) for table in tables) == 4000
    assert abs(len(tables[0]) - 1200) < 5 * np.sqrt(4000 * 0.3 * 0.7)
    again = gathered(PartSource(ArraySource(X[::-1], y[::-1], np.ones(len(y)), True), 7, 0.0, 0.3))[0]
    np.testing.assert_array_equal(np.sort(again.columns[0]), np.sort(tables[0].columns[0]))


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
    monkeypatch.setattr("mlkm.conformal.elsewhere.KEPT", 1000)
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


def test_types_that_differ_from_file_to_file_are_one_where_they_can_be(tmp_path):
    X, y = numbers(400)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(k=np.arange(400) % 7)
    for kind in ("csv", "parquet"):
        folder = tmp_path / kind
        folder.mkdir()
        for name, part, outcomes in (("0", frame[:200], y[:200]), ("1", frame[200:].assign(k=0.5), y[200:])):
            own = part.assign(y=outcomes, note=None if name == "0" else "word")
            if kind == "csv":
                own.to_csv(folder / f"{name}.csv", index=False)
            else:
                own.to_parquet(folder / f"{name}.parquet", index=False)
        model = RandomFeatureRidge(30, scale=0.5, random_state=0).fit(open_table(folder, "y"))
        assert model.feature_names_in_.tolist() == [*"abcdk", "note"]


def test_columns_are_named_once(tmp_path):
    X, y = numbers(100)
    path = write(tmp_path / "rows.parquet", pd.DataFrame(X, columns=list("abcd")), y)
    for wrong in ({"features": ["a", "y"]}, {"weights": "y"}, {"features": ["a", "a"]}):
        with pytest.raises(ValueError, match="named twice"):
            open_table(path, "y", **wrong)
    assert open_table(path, "y", features="a").names == ("a",)


def test_predictions_read_the_columns_of_the_model_alone(tmp_path):
    X, y = numbers(100)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = RandomFeatureRidge(20, scale=0.5, random_state=0).fit(frame, y)
    path = write(tmp_path / "rows.parquet", frame, y, words=[["a", "list"]] * 100)
    np.testing.assert_allclose(model.predict(open_table(path)), model.predict(frame))
    predict_table(model, path, tmp_path / "out.parquet")
    write(tmp_path / "none.parquet", frame[:0], y[:0])
    assert model.predict(open_table(tmp_path / "none.parquet")).shape == (0,)
    with pytest.raises(ValueError, match="score needs targets"):
        model.score(open_table(path))
    with pytest.raises(TypeError, match="effects looks at rows in memory"):
        model.effects(open_table(path))
    with pytest.raises(FileNotFoundError, match="no folder"):
        predict_table(model, path, tmp_path / "nowhere" / "out.csv")


def test_relevance_of_columns_with_several_inputs_is_that_of_what_they_do():
    frame, y = mixed(600)
    model = RandomFeatureRidge(100, random_state=0).fit(frame, y)
    relevance = dict(zip(model.feature_names_in_, model.feature_relevance_, strict=True))
    assert relevance["day"] < 0.1
    assert min(relevance["x"], relevance["size"], relevance["city"]) > 0.1


def test_an_unfitted_regressor_can_be_looked_at():
    assert "fit" in dir(MLKMRegressor())
