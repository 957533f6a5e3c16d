"""Nothing speaks to a network but the functions `fetch_...`."""

import json
import os
import subprocess
import sys

import pytest

EVERYTHING = """
import json, sys
heard, silent = [], ("socket.__new__", "socket.gethostname", "socket.sethostname")

def refuse(event, arguments):  # sees every use of Python's sockets, also to this machine itself
    if event.startswith(("socket.", "urllib.")) and event not in silent:
        heard.append((event, str(arguments[-1])))
        raise ConnectionError(event)

sys.addaudithook(refuse)

import dask.array as da
import numpy as np
import pandas as pd

import mlkm
from mlkm import ConformalRegressor, MLKMRegressor, OnlineConformal, RandomFeatureRidge
from mlkm.cli.commands import app
from mlkm.datasets import fetch_sml2010

def command(*words):
    app(words, standalone_mode=False)

rng = np.random.default_rng(0)
X = pd.DataFrame({"a": rng.standard_normal(150), "b": rng.choice(["u", "v", "w"], 150)})
X["when"] = pd.date_range("2020-01-01", periods=150)
y = X["a"].to_numpy() + 0.1 * rng.standard_normal(150)
X.assign(y=y).to_csv("table.csv", index=False)
X.assign(y=y).to_parquet("table.parquet")
model = MLKMRegressor(effort="fast", random_state=0).fit(X[:80], y[:80])
band = ConformalRegressor(model).conformalize(X[80:], y[80:])
band.predict_interval(X)
model.explain(X[:2])
model.effects(X)
band.report(X, y).save("page.html")
mlkm.save(band, "band.mlkm")
mlkm.load("band.mlkm")
mlkm.to_onnx(band, "band.onnx")
numbers = np.column_stack([y, y**2])
ridge = RandomFeatureRidge(20, scale=0.5, random_state=0)
ridge.fit(da.from_array(numbers, chunks=(50, 2)), da.from_array(y, chunks=50))
ridge.fit(mlkm.open_table("table.parquet", target="y"))
mlkm.predict_table(ridge, "table.csv", "predicted.csv")
command("fit", "table.csv", "--target", "y", "--effort", "fast", "--out", "model.mlkm", "--report", "fit.html")
command("inspect", "model.mlkm")
command("predict", "model.mlkm", "table.parquet")
command("report", "model.mlkm", "table.csv")
command("export", "model.mlkm", "--onnx", "model.onnx")
for address in ("https://localhost/t.csv", "s3://bucket/t.parquet"):
    for opened in (mlkm.open_table, mlkm.load, lambda address: ridge.fit(mlkm.open_table([address], target="y"))):
        try:
            opened(address)
        except (OSError, ValueError):
            continue
        raise AssertionError(address)
before = list(heard)
try:
    fetch_sml2010(data_home="data")
except OSError:
    pass
print(json.dumps([before, heard[:1]]))
"""


def test_no_network_is_used_unless_data_are_fetched(tmp_path):
    pytest.importorskip("onnx")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    before, first = json.loads(done.stdout.splitlines()[-1])
    assert before == []
    assert first[0][0] == "urllib.Request"  # so the hook would have seen it
