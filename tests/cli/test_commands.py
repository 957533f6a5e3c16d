"""The commands on files: fit, predict, inspect, report, export."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from mixed_table import mixed
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from typer.testing import CliRunner

import mlkm
from mlkm.cli import fit
from mlkm.cli.commands import app
from mlkm.cli.input_table import feature_names, open_input, read_columns

ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200"}


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def program(*words, **options):
    code = "from mlkm.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, env=ENVIRONMENT, **options
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of every kind of column, fitted once with a report; new rows as CSV, Parquet and Feather."""
    folder = tmp_path_factory.mktemp("commands")
    frame, y = mixed(400)
    frame["price"] = y
    frame.loc[[3, 5, 8], "price"] = np.nan
    frame.to_csv(folder / "table.csv", index=False)
    new = mixed(60, seed=1)[0]
    new.to_csv(folder / "new.csv", index=False)
    new.to_parquet(folder / "new.parquet")
    new.to_feather(folder / "new.feather")
    words = [
        "--target",
        "price",
        "--out",
        folder / "model.mlkm",
        "--report",
        folder / "report.html",
        "--effort",
        "fast",
    ]
    result = run("fit", folder / "table.csv", *words)
    assert result.exit_code == 0, result.output
    (folder / "said.txt").write_text(result.output)
    return folder


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are those of POSIX")
def test_a_terminal_sees_how_far_a_fit_is_and_a_pipe_nothing(folder, tmp_path):
    words = ["fit", folder / "table.csv", "--target", "price", "--out", tmp_path / "model.mlkm", "--effort", "fast"]
    quiet = program(*words)
    assert quiet.returncode == 0
    assert "search" not in quiet.stderr
    here, there = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", "from mlkm.cli import main; main()", *map(str, words)],
        stdout=subprocess.DEVNULL, stderr=there, env={**ENVIRONMENT, "TERM": "xterm"},
    ) as process:  # fmt: skip
        os.close(there)
        shown = b""
        try:
            while more := os.read(here, 65536):
                shown += more
        except OSError:  # the other side is closed, as Linux says it
            pass
        finally:
            os.close(here)
    assert process.returncode == 0
    assert b"fitting" in shown
    assert b": search" in shown


def test_fit_says_what_was_done(folder):
    said = (folder / "said.txt").read_text()
    assert "3 rows have no price and were left out." in said
    assert re.search(r"fitted to\s+297 rows of 5 columns", said)
    assert re.search(r"calibrated on\s+100 other rows, drawn by chance", said)
    assert "95 % of new outcomes" in said
    assert (folder / "report.html").stat().st_size < 6e6


def test_the_model_is_a_band_that_knows_its_target_and_reads_dates(folder):
    band = mlkm.load(folder / "model.mlkm")
    assert isinstance(band, mlkm.ConformalRegressor)
    assert band.fit_facts_["target"] == "price"
    assert band.fit_facts_["left_out"] == 3
    kinds = json.loads(run("inspect", folder / "model.mlkm", "--json").stdout)["columns"]
    assert kinds == {"x": "number", "size": "number", "city": "category", "when": "date", "old": "number"}


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather"])
def test_predict_gives_what_the_model_predicts(folder, tmp_path, kind):
    result = run("predict", folder / "model.mlkm", folder / f"new.{kind}", "--out", tmp_path / "predictions.csv")
    assert result.exit_code == 0, result.output
    found = pd.read_csv(tmp_path / "predictions.csv")
    assert list(found.columns) == ["prediction", "lower", "upper"]
    band = mlkm.load(folder / "model.mlkm")
    mean, interval = band.predict_interval(pd.read_parquet(folder / "new.parquet"))
    np.testing.assert_allclose(found["prediction"], mean, rtol=1e-9)
    np.testing.assert_allclose(found[["lower", "upper"]], interval[:, :, 0], rtol=1e-9)


def test_predict_takes_pipelines_of_scikit_learn(folder, tmp_path):
    frame, y = mixed(100)
    encoded = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["city"]))
    for model in (make_pipeline(encoded, Ridge()), LinearRegression()):
        rows = frame[["city"]] if "steps" in vars(model) else frame[["old"]].astype(float)
        rows.to_csv(tmp_path / "new.csv", index=False)
        rows = pd.read_csv(tmp_path / "new.csv")  # with missing words as pandas reads them
        mlkm.save(model.fit(rows, y), tmp_path / "m.mlkm")
        result = run("predict", tmp_path / "m.mlkm", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
        assert result.exit_code == 0, result.output
        np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], model.predict(rows))


def test_predict_takes_another_level_and_writes_parquet(folder, tmp_path):
    out = tmp_path / "p.parquet"
    result = run(
        "predict", folder / "model.mlkm", folder / "new.csv", "--out", out, "--confidence-level", 0.5, "--json"
    )
    assert json.loads(result.stdout)["rows"] == 60
    found = pd.read_parquet(out)
    interval = mlkm.load(folder / "model.mlkm").predict_interval(pd.read_parquet(folder / "new.parquet"), 0.5)[1]
    np.testing.assert_allclose(found[["lower", "upper"]], interval[:, :, 0], rtol=1e-9)


def test_columns_are_matched_by_name_and_a_difference_is_shown(folder, tmp_path):
    new = pd.read_csv(folder / "new.csv", dtype=str)  # as numbers, pandas 2 may miss their last bit
    new[["when", "old", "city", "size", "x"]].assign(more=1).to_csv(tmp_path / "moved.csv", index=False)
    for name in ("moved", "new"):
        path = (folder if name == "new" else tmp_path) / f"{name}.csv"
        result = run("predict", folder / "model.mlkm", path, "--out", tmp_path / f"of_{name}.csv")
        assert result.exit_code == 0, result.output
    assert (tmp_path / "of_moved.csv").read_text() == (tmp_path / "of_new.csv").read_text()
    new.rename(columns={"x": "X", "city": "town"}).to_csv(tmp_path / "other.csv", index=False)
    result = run("predict", folder / "model.mlkm", tmp_path / "other.csv", "--out", tmp_path / "none.csv")
    assert result.exit_code == 1
    assert "lacks 2 of the 5 columns" in result.stderr
    assert "Missing: 'x', 'city'." in result.stderr
    assert "unknown to the model: 'X', 'town'." in result.stderr
    assert not (tmp_path / "none.csv").exists()


def test_report_judges_new_rows_and_says_when_they_are_not_new(folder, tmp_path):
    frame, y = mixed(200, seed=2)
    frame.assign(price=y).to_csv(tmp_path / "later.csv", index=False)
    result = run("report", folder / "model.mlkm", tmp_path / "later.csv", "--out", tmp_path / "r.html", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert [score["model"] for score in data["scores"]][1:] == ["gradient boosting", "ridge regression", "mean"]
    assert data["coverage"] > 0.85  # a share of 200 rows below that has probability 1e-7 at 95 %
    assert "rows of the fit itself" not in (tmp_path / "r.html").read_text(encoding="utf-8")
    run("report", folder / "model.mlkm", folder / "table.csv", "--out", tmp_path / "s.html")
    assert "rows of the fit itself" in (tmp_path / "s.html").read_text(encoding="utf-8")


def test_export_writes_onnx_that_predicts_the_same(folder, tmp_path):
    pytest.importorskip("onnx")
    result = run("export", folder / "model.mlkm", "--onnx", tmp_path / "model.onnx", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["outputs"] == ["mean", "lower", "upper"]
    assert (tmp_path / "model.onnx").stat().st_size > 1000


def test_in_time_order_the_last_rows_calibrate(folder, tmp_path):
    result = run(
        "fit", folder / "table.csv", "--target", "price", "--out", tmp_path / "m.mlkm", "--time-order", "--json",
        "--features", "x,size", "--features", "city", "--confidence-level", 0.9, "--effort", "fast", "--seed", 3,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["split"] == "time"
    assert list(data["relevance"]) == ["x", "size", "city"]
    band = mlkm.load(tmp_path / "m.mlkm")
    assert band.score == "absolute"
    assert band.confidence_level == 0.9
    fitted, others = fit.split_rows(397, data["calibration"], "time", 3)
    assert fitted.max() < others.min()
    assert len(others) == band.n_calibration_


def test_dates_that_do_not_increase_are_noted_in_time_order(folder, tmp_path):
    words = ["--target", "price", "--out", tmp_path / "m.mlkm", "--time-order", "--effort", "fast"]
    result = run("fit", folder / "table.csv", *words, "--features", "x,when")
    assert "the dates in 'when' do not increase" in result.stderr


def test_weights_count_in_the_fit(tmp_path):
    """Rows of weight zero are as if they were not there."""
    rng = np.random.default_rng(0)
    x, w = rng.uniform(-1, 1, 300), (np.arange(300) % 2).astype(float)
    pd.DataFrame({"x": x, "w": w, "y": np.where(w > 0, x, 100.0)}).to_csv(tmp_path / "t.csv", index=False)
    result = run(
        "fit", tmp_path / "t.csv", "--target", "y", "--weights", "w", "--out", tmp_path / "m.mlkm", "--effort", "fast"
    )
    assert result.exit_code == 0, result.output
    band = mlkm.load(tmp_path / "m.mlkm")
    assert list(band.estimator_.feature_names_in_) == ["x"]
    assert abs(band.predict(pd.DataFrame({"x": [0.5]}))[0] - 0.5) < 0.05


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["fit", "nowhere.csv", "--target", "y"], 2, "There is no file 'nowhere.csv'"),
        (["fit", "table.csv", "--target", "prize"], 2, "no column 'prize'.*did you mean 'price'"),
        (["fit", "table.csv", "--target", "price", "--features", "x,z"], 2, "no column 'z', which --features names"),
        (
            ["fit", "table.csv", "--target", "price", "--out", "no/m.mlkm"],
            2,
            "There is no folder .* to write 'm.mlkm' to",
        ),
        (["fit", "table.csv", "--target", "price", "--out", "table.csv"], 2, "would overwrite"),
        (["fit", "table.csv", "--target", "price", "--report", "r.pdf"], 2, "must end in .html"),
        (["fit", "table.csv", "--target", "price", "--confidence-level", "1.5"], 2, "--confidence-level"),
        (["fit", "table.csv", "--target", "price", "--effort", "much"], 2, "--effort must be"),
        (["fit", "table.csv", "--target", "price", "--effort", "-1"], 2, "seconds above 0; got '-1'"),
        (["fit", "table.csv", "--target", "price", "--effort", "nan"], 2, "seconds above 0; got 'nan'"),
        (["fit", "table.csv", "--target", "price", "--confidence-level", "0.9999"], 1, "needs 9999 rows"),
        (["fit", "table.csv", "--target", "city"], 1, "Column 'city' of table.csv must hold numbers; row 1 has"),
        (["fit", "empty.csv", "--target", "y"], 1, "empty.csv is empty"),
        (["fit", "ragged.csv", "--target", "y"], 1, "ragged.csv could not be read: .*columns"),
        (["fit", "twice.csv", "--target", "y"], 1, "more than one column 'x'"),
        (["fit", "latin.csv", "--target", "y"], 1, "not text in UTF-8"),
        (["fit", "no.parquet", "--target", "y"], 1, "no.parquet could not be read"),
        (["fit", "text.txt", "--target", "y"], 1, "one kind, .parquet, .feather or .csv; got .txt"),
        (["fit", "gone.csv", "--target", "y"], 1, "no row with a number in the column 'y'"),
        (["predict", "nowhere.mlkm", "new.csv"], 2, "There is no file 'nowhere.mlkm'"),
        (["predict", "table.csv", "new.csv"], 1, "no file that mlkm.save wrote"),
        (["predict", "model.mlkm", "names.csv"], 1, "no rows"),
        (["predict", "model.mlkm", "new.csv", "--out", "p.xlsx"], 2, "must end in .csv or .parquet"),
        (["predict", "model.mlkm", ".", "--out", "p.csv"], 2, "would be in '.*', whose files are read"),
        (["fit", ".", "--target", "price"], 2, "would be in '.*', whose files are read"),
        (["inspect", "half.mlkm"], 1, "cut short, damaged or forged"),
        (["inspect", "."], 2, "which is a folder"),
        (["export", "model.mlkm", "--onnx", "model.txt"], 2, "must end in .onnx"),
    ],
)
def test_what_is_wrong_is_one_sentence(folder, monkeypatch, words, code, message):
    monkeypatch.chdir(folder)
    for name, text in {
        "empty.csv": b"", "ragged.csv": b"x,y\n1,2\n3\n", "twice.csv": b"x,x,y\n1,2,3\n",
        "latin.csv": "x,y\nMünchen,1\nKöln,2\n".encode("latin-1"), "no.parquet": b"PAR1 no", "text.txt": b"x",
        "gone.csv": b"x,y\n1,\n2,\n", "names.csv": b"x,size,city,when,old\n",
    }.items():  # fmt: skip
        (folder / name).write_bytes(text)
    (folder / "half.mlkm").write_bytes((folder / "model.mlkm").read_bytes()[:3000])
    before = set(os.listdir(folder))
    result = run(*words)
    assert result.exit_code == code, result.output
    assert re.search(message, result.stderr), result.stderr
    assert len([line for line in result.stderr.splitlines() if not line.startswith("Note: ")]) == 1
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert set(os.listdir(folder)) == before


def test_errors_are_json_too(folder):
    result = run("inspect", folder / "table.csv", "--json")
    assert result.exit_code == 1
    assert "no file that mlkm.save wrote" in json.loads(result.stdout)["error"]


def test_a_real_process_has_version_help_and_exit_codes(folder):
    assert run("--version").stdout == f"mlkm {mlkm.__version__}\n"
    for command in ("fit", "predict", "inspect", "report", "export", "demo"):
        text = run(command, "--help")
        assert text.exit_code == 0
        assert "Examples:\n" in text.stdout
        assert f"mlkm {command}" in text.stdout
    assert run("fit").exit_code == 2
    assert program("inspect", folder / "none.mlkm").returncode == 2
    module = [sys.executable, "-m", "mlkm", "--version"]
    told = subprocess.run(module, capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert told.stdout == f"mlkm {mlkm.__version__}\n"
    done = program("inspect", folder / "model.mlkm")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_an_interrupt_leaves_nothing_behind(tmp_path):
    """Ctrl-C in the middle of a fit: one sentence, 130, no file."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((6000, 12)), columns=[f"x{j}" for j in range(12)])
    X.assign(y=X["x0"]).to_csv(tmp_path / "t.csv", index=False)
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # ignored in the background
    code = f"{heard}; import mlkm.cli.commands; from mlkm.cli import main; print('ready', flush=True); main()"
    words = ["fit", "t.csv", "--target", "y", "--effort", "best", "--report", "r.html"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.strip() == "Stopped: outputs that were not complete were not written."
    assert sorted(os.listdir(tmp_path)) == ["t.csv"]


def test_tables_are_read_as_people_write_them(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;c;d\n1;x;2020-01-02;\n2.5;;2020-01-03T10:00:00;NA\n;y;;7\n")
    table = read_columns(open_input(tmp_path / "t.csv"))
    assert [str(kind) for kind in table.schema.types] == ["double", "string", "timestamp[s]", "int64"]
    assert table["b"].null_count == 1
    (tmp_path / "late.csv").write_text("a,y\n" + "1,1\n" * 200_000 + "1.5,2\n")
    assert str(read_columns(open_input(tmp_path / "late.csv")).schema.field("a").type) == "double"


@pytest.mark.parametrize(("wrong", "shown"), [("-2", "-2"), ("", "none"), ("inf", "inf")])
def test_weights_of_all_rows_are_checked(tmp_path, wrong, shown):
    """Of those that calibrate too, which are the last here; a row without a target needs none."""
    rows = "".join(f"{k},1,{k % 3}\n" for k in range(300))
    path = tmp_path / "t.csv"
    path.write_text(f"x,w,y\n0,,\n{rows}7,{wrong},1\n")
    result = run("fit", path, "--target", "y", "--weights", "w", "--time-order", "--out", tmp_path / "m.mlkm")
    assert result.exit_code == 1
    assert f"'w' of {path} must hold weights, numbers of which none is negative; row 302 has {shown}." in result.stderr


def test_a_folder_is_read_as_a_table_in_files(tmp_path):
    """Types are those that hold all files, and a file that differs is named, as by `open_table`."""
    first = pd.DataFrame({"a": [1, 2], "b": [None, None], "c": ["x", "y"]})
    first.to_parquet(tmp_path / "0.parquet")
    pd.DataFrame({"a": [0.5], "b": [1.5], "c": ["z"]}).to_parquet(tmp_path / "1.parquet")
    table = read_columns(open_input(tmp_path))
    assert table.to_pydict() == {"a": [1, 2, 0.5], "b": [None, None, 1.5], "c": ["x", "y", "z"]}
    for other, message in (
        (first[["a", "b"]], r"2\.parquet has no column 'c', which other files"),
        (first.assign(d=1), r"0\.parquet has no column 'd', which other files"),
        (first.assign(a="word"), r"Column 'a' is of type .*string in .*2\.parquet and of type"),
    ):
        other.to_parquet(tmp_path / "2.parquet")
        with pytest.raises(ValueError, match=message):
            read_columns(open_input(tmp_path))


def test_the_index_of_a_pandas_frame_is_no_feature(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, 200)}).assign(y=lambda f: f["x"] ** 2)
    frame[frame["x"] < 0.8].to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "new.csv", index=False)
    model = tmp_path / "m.mlkm"
    words = ["fit", tmp_path / "t.parquet", "--target", "y", "--out", model, "--effort", "fast"]
    assert run(*words).exit_code == 0
    assert mlkm.load(model).estimator_.feature_names_in_.tolist() == ["x"]
    assert run("predict", model, tmp_path / "new.csv", "--out", tmp_path / "p.csv").exit_code == 0
    said = run("predict", model, tmp_path / "t.parquet", "--out", tmp_path / "p.csv")
    assert "does not use" not in said.stderr
    assert run(*words, "--features", "x,__index_level_0__").exit_code == 0
    assert mlkm.load(model).estimator_.feature_names_in_.tolist() == ["x", "__index_level_0__"]


def test_features_are_named_with_commas_or_one_by_one():
    assert feature_names(["a, b", "c"], ["a", "b", "c"]) == ["a", "b", "c"]
    assert feature_names(["a, b"], ["a, b", "c"]) == ["a, b"]
    assert feature_names(None, ["a"]) is None


def test_calibration_takes_a_fifth_and_enough_for_the_level():
    for n in (40, 101, 150, 1000, 30_000, 10**6):
        m = fit.calibration_rows(n, 0.95)
        assert 19 <= m <= max(n // 2, 19)
    with pytest.raises(ValueError, match="needs 19 rows to be calibrated"):
        fit.calibration_rows(30, 0.95)
