"""Tables in files: what is read, what is written, and what is said of files that are not as they should be."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from source_rows import mixed, numbers, write

from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge, open_table, predict_table
from mlkm.data.tables.columns import CategoryColumn


def test_few_rows_of_a_file_are_fitted_as_in_memory(tmp_path):
    frame, y = mixed(300)
    path = write(tmp_path / "rows.parquet", frame, y)
    expected = MLKMRegressor(random_state=0).fit(frame, y).predict(frame)
    np.testing.assert_array_equal(MLKMRegressor(random_state=0).fit(open_table(path, "y")).predict(frame), expected)


def test_csv_and_feather_are_read(tmp_path):
    frame, y = mixed(200)
    frame = frame.drop(columns="day")
    frame.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    pyarrow.feather.write_feather(pa.Table.from_pandas(frame.assign(y=y)), tmp_path / "rows.feather")
    expected = MLKMRegressor(random_state=0).fit(frame, y).predict(frame)
    for name in ("rows.csv", "rows.feather"):
        model = MLKMRegressor(random_state=0).fit(open_table(tmp_path / name, target="y"))
        np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-6)


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


def other_regressors(frame, y):
    """Regressors of another library, by frames and by arrays, alone and inside bands."""
    encoded = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["kind"]), remainder="passthrough")
    pipeline = make_pipeline(encoded, SimpleImputer(), LinearRegression())
    plain = frame[["x", "size"]].fillna(0)
    yield pipeline.fit(frame, y), frame, frame
    yield LinearRegression().fit(plain, y), plain, frame.fillna({"size": 0})
    yield BaggingRegressor(random_state=0).fit(plain, y), plain, frame.fillna({"size": 0})
    yield LinearRegression().fit(plain.to_numpy(), y), plain.to_numpy(), plain
    for band in (
        ConformalRegressor(pipeline, score="residual", random_state=0).fit(frame, y),
        ConformalRegressor(pipeline, method="cross", score="absolute", random_state=0).fit(frame, y),
        ConformalRegressor(FrozenEstimator(pipeline), random_state=0).conformalize(frame, y),
    ):
        yield band, frame, frame


@pytest.mark.parametrize("kind", range(7))
def test_predictions_of_other_libraries_are_written(kind, tmp_path):
    frame, y = mixed(300)
    frame = frame[["x", "size", "kind"]].astype({"kind": "str"})
    model, memory, written = list(other_regressors(frame, y))[kind]
    path = tmp_path / "rows.parquet"
    written.to_parquet(path, index=False)
    found = pd.read_parquet(predict_table(model, path, tmp_path / "out.parquet"))
    np.testing.assert_allclose(found["prediction"], model.predict(memory))
    if hasattr(model, "predict_interval"):
        written.assign(y=y).to_parquet(path, index=False)
        np.testing.assert_allclose(found["prediction"], model.predict(open_table(path)))
        np.testing.assert_allclose(found[["lower", "upper"]], model.predict_interval(memory)[1][:, :, 0])


@pytest.mark.parametrize("score", ["variance", "residual", "quantile"])
def test_bands_of_every_score_are_written(score, tmp_path):
    frame, y = mixed(300)
    path = write(tmp_path / "rows.parquet", frame, y)
    band = ConformalRegressor(RandomFeatureRidge(20, random_state=0), score=score, random_state=0).fit(frame, y)
    found = pd.read_parquet(predict_table(band, path, tmp_path / "out.parquet"))
    np.testing.assert_allclose(found[["lower", "upper"]], band.predict_interval(frame)[1][:, :, 0])


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
    with pytest.raises(ValueError, match="confidence_level is for models with a band"):
        predict_table(model, path, tmp_path / "out.csv", confidence_level=0.9)


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


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_categories_of_one_file_are_words_of_another(kind, tmp_path):
    few, many = pd.Series(["a", "b"] * 100), pd.Series([f"level {k}" for k in range(200)])
    forms = [(few.astype("category"), few.map(len)), (many, pd.Series(range(200)))]
    for k, (words, levels) in enumerate(forms):
        frame = pd.DataFrame({"word": words, "level": levels.astype("category"), "y": 1.0})
        getattr(frame, f"to_{kind}")(tmp_path / f"{k}.{kind}")
    rows = pa.concat_tables(
        pa.table(dict(zip(b.X.names, b.X.columns, strict=True))) for b in open_table(tmp_path, "y").blocks()
    )
    assert rows["word"].to_pylist() == [*few, *many]
    assert rows["level"].to_pylist()[200:202] == ([0, 1] if kind == "parquet" else ["0", "1"])


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
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        model.predict(open_table(tmp_path / "none.parquet"))
    with pytest.raises(ValueError, match="score needs targets"):
        model.score(open_table(path))
    with pytest.raises(ValueError, match=r"those that the model predicts, which are 1; got 2 of every row"):
        model.score(open_table(write(tmp_path / "two.parquet", frame, y, z=y), target=["y", "z"]))
    with pytest.raises(TypeError, match="effects looks at rows in memory"):
        model.effects(open_table(path))
    with pytest.raises(FileNotFoundError, match="no folder"):
        predict_table(model, path, tmp_path / "nowhere" / "out.csv")


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_folders_that_are_named_by_values_are_columns(kind, tmp_path):
    """As other tools write them; what is around the folder given says nothing."""
    X, y = numbers(600)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)
    frame["year"], frame["place"] = np.repeat([2023, 2024], 300), np.tile(["here", "there"], 300)
    folder = tmp_path / "run=7" / "rows"
    shape = pa.dataset.partitioning(pa.schema([("year", pa.int32()), ("place", pa.string())]), flavor="hive")
    pa.dataset.write_dataset(pa.Table.from_pandas(frame), folder, format=kind, partitioning=shape)
    table = open_table(folder, target="y")
    assert set(table.names) == set(frame.columns) - {"y"}
    again = pa.dataset.dataset(folder, format=kind, partitioning="hive")
    order = frame.sort_values(["year", "place"], kind="stable")
    models = [RandomFeatureRidge(30, random_state=0).fit(rows) for rows in (table, open_table(again, target="y"))]
    memory = RandomFeatureRidge(30, random_state=0).fit(order[list(table.names)], order["y"])
    for model in models:
        np.testing.assert_allclose(model.predict(frame), memory.predict(frame), rtol=1e-6, atol=1e-6)
    predict_table(models[0], table, tmp_path / "out.csv")
    np.testing.assert_allclose(
        pd.read_csv(tmp_path / "out.csv").iloc[:, 0], memory.predict(order), rtol=1e-6, atol=1e-6
    )


def test_hidden_and_unfinished_files_are_no_rows(tmp_path):
    """Notebooks and Spark leave folders of their own inside; one that says a value may begin like them."""
    rows = "a,y\n1,2\n"
    for name in ("_k=1/1.csv", ".ipynb_checkpoints/1-checkpoint.csv", "_temporary/0/part.csv", "_k=1/.saved/1.csv"):
        (tmp_path / "rows" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "rows" / name).write_text(rows)
    table = open_table(tmp_path / "rows", "y")
    assert table.dataset.files == [str(tmp_path / "rows" / "_k=1" / "1.csv")]
    assert table.names == ("a", "_k")
    (tmp_path / "_one.csv").write_text(rows)  # which is meant where it is named
    assert open_table(tmp_path / "_one.csv", "y").names == ("a",)


def test_a_csv_is_what_all_of_its_cells_are(tmp_path):
    """Also where the first part of the file, a megabyte, says otherwise; separators and breaks as people write them."""
    n = 150_000
    cells = {
        "number": ["1"] * n + ["0.5"], "late": [""] * n + ["7"], "word": ["2"] * n + ["x"], "empty": [""] * (n + 1),
        "day": ["2024-01-01"] * n + ["2024-01-02T10:00:00"], "text": ['"a\nb"'] * (n + 1), "y": ["1"] * (n + 1),
    }  # fmt: skip
    lines = [";".join(row) for row in zip(*cells.values(), strict=True)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([";".join(cells), *[""] * n, *lines, ""]))  # blank lines are no rows
    table = open_table(path, "y")
    kinds = dict(zip(table.types.names, map(str, table.types.types), strict=True))
    assert kinds == {
        "number": "double", "late": "int64", "word": "string", "empty": "null", "day": "timestamp[s]", "text": "string",
        "y": "int64",
    }  # fmt: skip
    rows = list(table.blocks())
    assert sum(map(len, rows)) == n + 1
    last = rows[-1].X
    found = {name: column[-1] for name, column in zip(last.names, last.columns, strict=True)}
    assert found == {
        "number": 0.5, "late": 7.0, "word": "x", "empty": None, "day": np.datetime64("2024-01-02T10:00:00"),
        "text": "a\nb",
    }  # fmt: skip
    assert rows[0].X.columns[2][0] == "2"


def test_csv_files_of_one_table_are_written_alike(tmp_path):
    (tmp_path / "a.csv").write_text('"x;1;2",y\n1,2\n')
    (tmp_path / "b.csv").write_text('"x;1;2",y\nword,3\n')
    assert open_table(tmp_path, "y").schema.field("x;1;2").type == pa.string()
    (tmp_path / "b.csv").write_text('"x;1;2";y\n1;2\n')
    with pytest.raises(ValueError, match=r"separated by ',' in .*a\.csv and by ';' in .*b\.csv"):
        open_table(tmp_path, "y")
    (tmp_path / "b.csv").write_text("")
    with pytest.raises(ValueError, match=r"b\.csv is empty; a table begins with a line of names"):
        open_table(tmp_path, "y")
    (tmp_path / "b.csv").write_text("y,y\n1,2\n")
    with pytest.raises(ValueError, match=r"b\.csv has more than one column 'y'"):
        open_table(tmp_path, "y")


def test_the_index_of_a_pandas_frame_is_no_input(tmp_path):
    """It is where pandas puts it when it reads the file: predictions of the frame and of the file are the same."""
    X, y = numbers(200)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    (tmp_path / "rows").mkdir()
    frame[:100].to_parquet(tmp_path / "rows" / "0.parquet")  # whose index is a range, and no column
    frame[100:].sample(frac=1, random_state=0).to_parquet(tmp_path / "rows" / "1.parquet")
    frame.set_index("d").to_parquet(tmp_path / "named.parquet")
    assert open_table(tmp_path / "rows", "y").names == tuple("abcd")
    assert open_table(tmp_path / "named.parquet", "y").names == tuple("abc")
    assert open_table(pa.dataset.dataset(tmp_path / "named.parquet"), "y").names == tuple("abc")
    model = RandomFeatureRidge(20, scale=0.5, random_state=0).fit(open_table(tmp_path / "rows", "y"))
    again = pd.read_parquet(tmp_path / "rows" / "1.parquet")
    np.testing.assert_allclose(model.predict(again), model.predict(open_table(tmp_path / "rows" / "1.parquet")))
    # a column that is asked for is read
    assert open_table(tmp_path / "named.parquet", "y", features=["a", "d"]).names == ("a", "d")
    assert open_table(tmp_path / "named.parquet", "d").targets == ("d",)
    np.testing.assert_allclose(model.predict(open_table(tmp_path / "named.parquet")), model.predict(frame))


def test_bytes_are_no_words(tmp_path):
    """A CSV file that is not UTF-8, wherever in it, and binary columns; columns that are not read may be what they
    are."""
    words = "x,y\n" + "Munich,1\n" * 200_000
    (tmp_path / "late.csv").write_bytes((words + "München,2\n").encode("latin-1"))
    with pytest.raises(ValueError, match=r"Column 'x' of .*late\.csv is not text in UTF-8; save it as UTF-8"):
        open_table(tmp_path / "late.csv", "y")
    (tmp_path / "names.csv").write_bytes("größe,y\n1,2\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"names\.csv could not be read"):
        open_table(tmp_path / "names.csv", "y")
    X, y = numbers(100)
    path = write(tmp_path / "rows.parquet", pd.DataFrame(X, columns=list("abcd")), y, picture=[b"\xff"] * 100)
    model = RandomFeatureRidge(20, scale=0.5, random_state=0)
    with pytest.raises(ValueError, match=r"Column 'picture' of .*rows\.parquet is not text in UTF-8"):
        model.fit(open_table(path, "y"))
    model.fit(open_table(path, "y", features=list("abcd"))).predict(open_table(path))


def test_predictions_do_not_replace_rows(tmp_path):
    X, y = numbers(100)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = RandomFeatureRidge(20, scale=0.5, random_state=0).fit(frame, y)
    folder = tmp_path / "rows"
    folder.mkdir()
    path = write(folder / "0.parquet", frame, y)
    before = path.read_bytes()
    (tmp_path / "link.parquet").symlink_to(path)
    for source in (path, [path], folder, tmp_path / "link.parquet", pa.dataset.dataset(path)):
        with pytest.raises(ValueError, match=r"0\.parquet' is, or would be, one of the files that are read"):
            predict_table(model, source, folder / "0.parquet")
    for name in ("1.parquet", "out.csv"):
        with pytest.raises(ValueError, match="would be, one of the files"):
            predict_table(model, folder, folder / name)
    assert path.read_bytes() == before
    assert [p.name for p in folder.iterdir()] == ["0.parquet"]
    (folder / "_out").mkdir()
    predict_table(model, folder, folder / "_out" / "0.parquet")  # where no rows are looked for
    predict_table(model, path, folder / "1.parquet")


def test_a_filtered_dataset_is_the_rows_that_are_left(tmp_path):
    X, y = numbers(400)
    frame = pd.DataFrame(X, columns=list("abcd"))
    write(tmp_path / "rows.parquet", frame, y)
    dataset = pa.dataset.dataset(tmp_path / "rows.parquet").filter(pa.dataset.field("a") > 0)
    left = (frame["a"] > 0).to_numpy()
    expected = RandomFeatureRidge(30, random_state=0).fit(frame[left], y[left]).predict(frame)
    model = RandomFeatureRidge(30, random_state=0, verbose=lambda event: None).fit(open_table(dataset, "y"))
    np.testing.assert_allclose(model.predict(frame), expected)
    assert len(model.predict(open_table(dataset))) == left.sum()


def test_rows_in_memory_and_far_away_are_told_where_to_go(tmp_path):
    frame = pd.DataFrame({"a": [1.0], "y": [2.0]})
    for rows in (frame, pa.Table.from_pandas(frame), frame.to_numpy(), [frame]):
        with pytest.raises(
            TypeError, match=r"got (a DataFrame|a Table|an array) of shape .*: rows in memory go to fit\(X, y\)"
        ):
            open_table(rows, "y")
    for path in ("s3://bucket/rows.parquet", ["s3://bucket/rows.parquet"]):
        with pytest.raises(ValueError, match=r"as in open_table\(pyarrow\.dataset\.dataset\('s3://bucket/rows"):
            open_table(path, "y")


def test_categories_that_are_numbers_are_numbers_in_parquet(tmp_path):
    """As pandas reads them; Feather keeps them, and `categorical_features` names them."""
    X, y = numbers(300)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(k=pd.Categorical(np.arange(300) % 5), y=y)
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_feather(tmp_path / "rows.feather")
    assert pd.read_parquet(tmp_path / "rows.parquet")["k"].dtype == np.int64
    for name, given, is_category in (("parquet", None, False), ("parquet", ["k"], True), ("feather", None, True)):
        table = open_table(tmp_path / f"rows.{name}", "y")
        model = RandomFeatureRidge(30, random_state=0, categorical_features=given).fit(table)
        assert isinstance(model.fitted_.preparation.reader.columns[4], CategoryColumn) == is_category
