"""Bad inputs at every public entry point: the type of the error, and one sentence that says what was got and what would
be right. `python -m benchmarks.bad_inputs` draws thousands more."""

import inspect
import re
import types
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from benchmarks.bad_inputs import fault_of, is_clear
from benchmarks.entry_points import entries
from benchmarks.world import World
from typer.testing import CliRunner

import mlkm
from mlkm import datasets, kernels, metrics, onnx, plotting
from mlkm import solve as solvers
from mlkm.cli.commands import app
from mlkm.data import tables

THREE = "an array of shape (2, 3, 4)"
OBJECTS = {"an object": object(), "the class int": int}
# values by how a message shows them
NO_COUNT = {"0": 0, "-1": -1, "2.5": 2.5, "'a'": "a", "nan": np.nan, "True": True, "[1]": [1], **OBJECTS}
NO_NUMBER = {"None": None, "'a'": "a", "nan": np.nan, "inf": np.inf, "[1.0]": [1.0], "1j": 1j, "True": True, **OBJECTS}
NOT_POSITIVE = {"0": 0, "-1": -1, "'a'": "a", "nan": np.nan, "inf": np.inf, **OBJECTS}
NO_WORD = {"None": None, "'A'": "A", "''": "", "1": 1, "b'x'": b"x", "['x']": ["x"], **OBJECTS}
NO_SWITCH = {"None": None, "1": 1, "'yes'": "yes", "[]": [], THREE: np.zeros((2, 3, 4))}
NO_LEVEL = {"0": 0, "1": 1, "95": 95, "nan": np.nan, "'a'": "a", "True": True, **OBJECTS}
NO_PATH = {"3": 3, "b'x'": b"x", "['a']": ["a"], "an object": object()}
NO_NAME = {"3": 3, "b'x'": b"x", "[1]": [1], "an object": object(), "{'a': 1}": {"a": 1}}
NO_SEED = {"-1": -1, "4294967296": 2**32, "'a'": "a", "2.5": 2.5, "[1]": [1], "an object": object()}
NO_TABLE = {"None": None, "'a'": "a", "5": 5, "['a', 'b']": ["a", "b"], "[[1, 2], [3]]": [[1, 2], [3]], **OBJECTS}
NO_TARGETS = {"['a', 'b']": ["a", "b"], "'a'": "a", "an object": object(), "{}": {}}
NO_MODEL = {"None": None, "3": 3, "'a'": "a", "the class MLKMRegressor": mlkm.MLKMRegressor, "an object": object()}
HUGE = {"1000000000000": 10**12}
BEYOND = {"1000": 10**400}  # no float64; its digits are cut
LONG = {"'aaaa": "a" * 10**6}

TABLE = "X must be a table, an array or a frame of rows and columns; got {}"
NUMBERS = "{} must be (an array of )?numbers(, its rows of one length)?; got "
COUNT = "must be a whole number of at least 1; got {}"
LEVEL = "must be a number between 0 and 1, as in 0.95; got {}"
PATH = "must be the name of a file, as text or a pathlib.Path; got {}"
SEED = "random_state must be a whole number from 0 to 4294967295, a RandomState of NumPy or None; got {}"
SWITCH = "must be True or False; got {}"
DAYS = "must be a whole number from 1 to 1000000000, since more would take days; got {}"
MEMORY = "need about .* may be taken; set config_context.* or "
V, T, M = ValueError, TypeError, MemoryError

# entry points, argument, values, error, and a part of the message, in which {} is what was got
ROWS = [
    # sizes and seeds of simulated data
    ("make_example1 make_example2 make_example3 make_example4", "n", NO_COUNT, V, f"n, the number of rows, {COUNT}"),
    ("make_example3 make_example4", "d", NO_COUNT, V, f"d, the number of inputs, {COUNT}"),
    ("make_example1 make_example2", "d", {"3": 3, "'a'": "a"}, V,
     "inputs, must be a whole number of at least 4; got {}"),
    ("make_example1 make_example2 make_example3 make_example4", "n d", HUGE, M, MEMORY),
    ("make_example1 make_example4", "noise", NO_NUMBER, V,
     r"noise must be a finite number of at least 0 and .*; got {}"),
    ("make_example1", "t", {"-1": -1, "nan": np.nan}, V, "t must be a finite number of at least 0 and .*; got {}"),
    ("make_example2", "exponent", {"701": 701, "'a'": "a"}, V,
     "exponent must be a finite number of at least -700 .*; got {}"),
    ("make_example3", "function", NO_WORD, V, "function must be 'trig', 'sin_ratio' or 'mix'; got {}"),
    ("make_example3", "law", NO_WORD, V, "law must be 'uniform' or 'normal'; got {}"),
    ("make_example3", "coefficients", NO_SEED, V, "coefficients must be a whole number from 0 .*; got {}"),
    ("make_example4", "n_active", {"0": 0, "6": 6, "'a'": "a"}, V,
     "n_active must be a whole number from 1 to 5; got {}"),
    ("make_example1 RandomFeatures RandomFeatureRidge MLKMRegressor ConformalRegressor worst_slice_coverage",
     "random_state", NO_SEED, V, SEED),
    ("fetch_sml2010 fetch_year_prediction", "data_home", NO_PATH, T, f"data_home {PATH}"),
    ("fetch_sml2010 fetch_year_prediction", "data_home", {r"'a\nb/": "a\nb"}, FileNotFoundError,
     "txt must be in {}.*'; download https://.* and unpack it there, or set MLKM_DATA_HOME"),
    # parameters of estimators, looked at by fit
    ("RandomFeatureRidge", "n_features", NO_COUNT, V, f"n_features {COUNT}"),
    ("RandomFeatures", "n_features", {"0": 0, "2.5": 2.5, "'a'": "a", "None": None}, V,
     "The number of random features must be .* 1; got {}"),
    ("RandomFeatures RandomFeatureRidge", "n_features", HUGE, M, MEMORY),
    ("RandomFeatures", "kernel", NO_WORD, V, "A kernel must be one of 'gaussian', .*; got {}"),
    ("RandomFeatureRidge", "kernel", {"'a'": "a", "3": 3, "None": None}, V,
     "A kernel must be one of 'gaussian', .*; got {}"),
    ("RandomFeatures RandomFeatureRidge", "scale", {**NOT_POSITIVE, "[1.0, 1.0]": [1.0, 1.0]}, V,
     r"A scale must be a positive number, or one per input \(3 here\); got {}"),
    ("RandomFeatures MLKMRegressor", "interactions", {"0": 0, "'a'": "a", "()": (), "None": None, "2.5": 2.5}, V,
     "interactions must be 'full', a positive number .*; got {}"),
    ("RandomFeatures", "sampling", NO_WORD, V, "sampling must be 'iid' or 'orthogonal'; got {}"),
    ("RandomFeatures", "n_features", BEYOND, V, "must be a whole number from 1 to 9223372036854775807; got {}"),
    ("RandomFeatures RandomFeatureRidge", "scale", BEYOND, V, "A scale must be a positive number, .*; got {}"),
    ("MLKMRegressor RKMRegressor model.set_params", "scales", BEYOND, V, "A scale must be a positive .*; got {}"),
    ("MLKMRegressor RKMRegressor", "widths", {"(1000": (10**400,)}, V, "widths must be 'auto' or positive .*; got {}"),
    ("MLKMRegressor RKMRegressor", "widths",
     {"0": 0, "(-1,)": (-1,), "'a'": "a", "(2.5,)": (2.5,), "()": (), "None": None, "an object": object()}, V,
     "widths must be 'auto' or positive whole numbers, one per layer, as in .*; got {}"),
    ("MLKMRegressor", "widths", {"(1000000000000,)": (10**12,), "(8, 1000000000000)": (8, 10**12)}, M, MEMORY),
    ("MLKMRegressor", "kernels", NO_WORD, V, "(A kernel|kernels) must .*; got "),
    ("MLKMRegressor RKMRegressor", "scales", NOT_POSITIVE, V, "A scale must be a positive number, .*; got {}"),
    ("MLKMRegressor", "relevance", {"None": None, "1": 1, "'a'": "a"}, V,
     "relevance must be True, False or 'auto'; got {}"),
    ("RandomFeatureRidge", "linear", {"None": None, "1": 1, "'a'": "a"}, V,
     "linear must be True, False or 'auto'; got {}"),
    ("MLKMRegressor", "penalty", {"-1": -1, "nan": np.nan, "'a'": "a", "None": None}, V,
     "penalty must be 'auto', 'cv' or a number of at least 0; got {}"),
    ("MLKMRegressor", "cv", {"'a'": "a", "2.5": 2.5, "[1, 2]": [1, 2], "b'x'": b"x", "an object": object()}, V,
     "cv must be None, 'rotate', a number of folds, .*; got {}"),
    ("MLKMRegressor ConformalRegressor", "cv", {"an array of shape ()": np.array(5.0)}, V,
     "cv must be .* a number of folds, .*; got {}"),
    ("MLKMRegressor", "cv", {"0": 0, "1": 1, "-1": -1}, V,
     "cv as a number of folds must be a whole number of at least 2; got {}"),
    ("MLKMRegressor", "solver", NO_WORD, V, "solver must be one of 'auto', .*; got {}"),
    ("MLKMRegressor.published", "solver", NO_WORD, V, "Algorithm 1 is solver='gradient' .*; got {}"),
    ("MLKMRegressor RKMRegressor", "effort", {"'slow'": "slow", "0": 0, "-1": -1, "nan": np.nan, "[1]": [1]}, V,
     "effort must be one of 'fast', .*, or a finite number of seconds above 0; got {}"),
    ("MLKMRegressor TableEncoder", "categorical_features", {"'a'": "a", "7": 7, "2.5": 2.5}, V,
     "categorical_features must be 'from_dtype', None, names .*; got {}"),
    ("MLKMRegressor RKMRegressor", "n_jobs", {"'a'": "a", "2.5": 2.5, "[1]": [1]}, V,
     "n_jobs must be a whole number .*; got {}"),
    ("MLKMRegressor", "n_jobs", {"0": 0}, V, "n_jobs must be None or a whole number other than 0; got 0"),
    ("MLKMRegressor", "verbose", {"-1": -1, "'a'": "a", "None": None, "the class int": int}, V,
     "verbose must be 0, 1 or a function of events; got {}"),
    ("Geometric", "c0", NOT_POSITIVE, V, "c0 must be a finite number above 0; got {}"),
    ("Geometric", "gamma", NOT_POSITIVE, V, "gamma must be a finite number above 0; got {}"),
    ("GradientDescent", "learning_rate", NOT_POSITIVE, V, "learning_rate must be a finite number above 0; got {}"),
    ("GradientDescent", "momentum", {"1": 1, "-1": -1, "'a'": "a"}, V,
     "momentum must be a finite number of at least 0 and below 1; got {}"),
    ("GradientDescent", "batch_size patience", {"0": 0, "2.5": 2.5, "'a'": "a"}, V, COUNT),
    ("GradientDescent VariableProjection", "max_iter", {"0": 0, "2.5": 2.5, "'a'": "a"}, V, f"max_iter {COUNT}"),
    ("GradientDescent VariableProjection", "max_iter", HUGE, V, f"max_iter {DAYS}"),
    ("GradientDescent", "steps", {"0": 0, "2.5": 2.5, "'a'": "a"}, V, f"steps {COUNT}"),
    ("GradientDescent", "steps", HUGE, V, f"steps {DAYS}"),
    ("GradientDescent VariableProjection", "tol", {"-1": -1, "nan": np.nan, "'a'": "a"}, V,
     "tol must be a finite number of at least 0; got {}"),
    ("GradientDescent", "initial",
     {"-1": -1, "'a'": "a", "(1, 0)": (1, 0), "None": None, "1e+308": 1e308}, V,
     "initial must be a number of at least 0, or low <= high, at most 1.8e308 apart; got {}"),
    ("GradientDescent", "target_sd", {"0": 0, "'a'": "a", "None": None, "1e-320": 1e-320}, V,
     "target_sd must be 'own', 'auto' or a number from .* to .*; got {}"),
    ("VariableProjection", "sweeps more_iter", {"0": 0, "'a'": "a"}, V, COUNT),
    ("VariableProjection", "sweeps more_iter", HUGE, V, DAYS),
    ("VariableProjection", "max_rows patience", {"0": 0, "2.5": 2.5}, V, COUNT),
    ("VariableProjection", "hidden_penalty", {"-1": -1, "'a'": "a"}, V,
     "hidden_penalty must be a finite number of at least 0; got {}"),
    ("Kernels", "max_rows", NO_COUNT, V, f"max_rows {COUNT}"),
    ("ConformalRegressor OnlineConformal", "estimator",
     {"3": 3, "'a'": "a", "the class MLKMRegressor": mlkm.MLKMRegressor}, T,
     r"estimator must be a regressor, with fit and predict, as in Ridge\(\); got {}"),
    ("ConformalRegressor OnlineConformal", "confidence_level", NO_LEVEL, V, f"confidence_level {LEVEL}"),
    ("ConformalRegressor OnlineConformal", "score", NO_WORD, V,
     "score must be 'auto', 'variance', .* or 'quantile'; got {}"),
    ("ConformalRegressor", "method", NO_WORD, V, "method must be 'split', 'cross' or 'bootstrap'; got {}"),
    ("OnlineConformal", "method", NO_WORD, V, "method must be 'adaptive' or 'decaying'; got {}"),
    ("ConformalRegressor OnlineConformal", "calibration_size", {"0": 0, "1.5": 1.5, "60": 60, "'a'": "a", "None": None},
     V, "calibration_size must be a share of the rows below 1, or .*; got {}"),
    ("ConformalRegressor", "cv", {"'a'": "a", "2.5": 2.5, "an object": object()}, V,
     "cv must be 'loo', a number of folds, .*; got {}"),
    ("OnlineConformal", "step", {"0": 0, "-1": -1, "'a'": "a"}, V, "step must be a finite number above 0; got {}"),
    ("OnlineConformal", "decay", {"0.5": 0.5, "2": 2, "'a'": "a"}, V,
     "decay must be a finite number above 0.5 and at most 1; got {}"),
    ("OnlineConformal", "window", {"0": 0, "2.5": 2.5}, V, f"window {COUNT}"),
    # rows
    ("ridge.fit default.fit ridge.predict model.predict band.predict ridge.partial_fit model.refit "
     "model.effects model.explain model.outside encoder.transform", "X", NO_TABLE, T, TABLE),
    ("ridge.fit ridge.predict features.transform", "X", {"": np.zeros((2, 3, 4))}, V, "Found array with dim 3"),
    ("ridge.fit ridge.predict", "X", {"": np.zeros((0, 3))}, V, r"Found array with 0 sample\(s\)"),
    ("named.predict", "X", {"": pd.DataFrame({"a": [], "b": [], "c": []})}, V, r"Found array with 0 sample\(s\)"),
    ("ridge.predict model.explain band.predict", "X", {"": np.zeros((4, 2))}, V,
     "X has 2 features, but .* is expecting 3"),
    ("ridge.predict", "X", {"": np.full((4, 3), np.inf)}, V, "Input X contains infinity"),
    ("ridge.fit", "X", {"": np.full((60, 3), np.longdouble("1e400"))}, V, "Input X contains infinity"),
    ("named.predict", "X", {"'c'": pd.DataFrame({"a": [1.0], "b": [1.0]})}, V,
     "The table has no column {}, which the fit had"),
    ("ridge.fit named.predict", "X", {"'a'": pd.DataFrame(np.zeros((60, 3)), columns=list("aab"))}, V,
     "Columns must have different names; got {} more than once"),
    ("features.transform", "X", {"['a', 'b']": ["a", "b"], "an object": object()}, V, "X must be numbers; got {}"),
    ("features.transform RandomFeatures", "X", {"an array": np.full((9, 3), object())}, V, "X must be numbers; got {}"),
    ("ridge.predict model.refit model.report model.effects model.explain", "X",
     {"": np.linspace(-1e300, 1e300, 180).reshape(60, 3)}, V,
     "X has a number .*e.300 standard deviations away from the mean of its column"),
    ("model.report", "y", {"1e+300": np.full(60, 1e300)}, V,
     r"A report needs outcomes and predictions of at most 1e\+150, whose squares float64 holds; got {}: fit and judge"),
    ("model.score", "y", {"": np.linspace(1e-300, 2e-300, 60)}, V, "The score is below -1.8e308, where float64 ends"),
    ("model.score", "sample_weight", {"": [0.0] * 60, "0": 0}, V,
     "All sample weights are zero, so there is no row to score; give a row a positive weight"),
    ("ridge.fit default.fit ridge.partial_fit model.refit band.fit band.conformalize online.fit "
     "online.predict_online model.score model.leave_one_out", "y", NO_TARGETS, V, "y must be numbers; got {}"),
    ("ridge.fit model.refit band.conformalize online.update", "y", {"": np.full(60, np.longdouble("1e400"))}, V,
     "y must be numbers that float64 holds, which end at 1.8e308; got an array"),
    ("ridge.fit band.fit online.fit ridge.partial_fit", "y", {"": [np.nan] * 60}, V, "Input y contains NaN"),
    ("ridge.fit model.refit ridge.forget", "y", {"": [1.0, 2.0]}, V, "inconsistent numbers of samples"),
    ("ridge.fit model.score ridge.partial_fit", "y", {"": None}, V,
     "requires y to be passed, but the target y is None"),
    ("model.score model.leave_one_out", "y", {"2": np.zeros((60, 2))}, V,
     "y must have 1 output, as in the fit; got {}"),
    ("model.set_params", "widths", {"'a'": "a", "0": 0}, V,
     "widths must be 'auto' or positive whole numbers, .*; got {}"),
    ("ridge.fit default.fit", "y", {"": np.zeros(60) + 1j}, V, "Complex data not supported"),
    ("ridge.fit model.refit band.fit online.fit", "sample_weight", {"['a', 'b']": ["a", "b"], "an object": object()}, V,
     "sample_weight must be numbers; got {}"),
    ("ridge.fit model.score band.fit", "sample_weight", {"(2,)": [1.0, 2.0]}, V,
     "sample_weight must have one entry per row, .*; got shape {}"),
    ("ridge.fit band.fit", "sample_weight", {"-1": [-1.0] * 60}, V,
     "Sample weights must not be negative; the smallest is {}"),
    ("band.fit", "groups", {"(2,)": ["a", "b"], "()": 3}, V, "groups must have one label per row, .*; got shape {}"),
    ("ridge.forget", "X", {"": np.zeros((60, 3))}, V, "inconsistent numbers of samples"),
    # what is asked of models
    ("ridge.predict model.predict", "return_std", NO_SWITCH, V, f"return_std {SWITCH}"),
    ("band.predict_interval", "joint", NO_SWITCH, V, f"joint {SWITCH}"),
    ("model.estimate_cost", "in_memory", NO_SWITCH, V, f"in_memory {SWITCH}"),
    ("model.estimate_cost", "n d", {"0": 0, "2.5": 2.5, "'a'": "a"}, V, COUNT),
    ("band.predict_interval", "confidence_level", {"2": 2, "'a'": "a", "nan": np.nan}, V, f"confidence_level {LEVEL}"),
    ("band.predict_interval", "confidence_level", {"none": []}, V,
     "confidence_level must name at least one level, .*; got {}"),
    ("band.predict_quantile", "q", NO_LEVEL, V, f"q {LEVEL}"),
    ("band.predict_int", "confidence", {"0": 0, "'a'": "a"}, V, LEVEL),
    ("band.predict_int", "confidence", {"[0.8, 0.9]": [0.8, 0.9]}, V,
     "predict_int gives the interval at one level; got {}"),
    ("band.predict_interval band.predict_int", "side", NO_WORD, V, "side must be 'both', 'lower' or 'upper'; got {}"),
    ("band.predict_interval", "outside", NO_WORD, V, "outside must be 'ignore' or 'warn'; got {}"),
    ("band.predict_interval band.predict_cdf", "y_min y_max", {"'a'": "a", "[1]": [1], "an object": object()}, T,
     "must be a number, or None for no limit; got {}"),
    ("band.predict_quantile", "y_min", {"9": 9}, V, "y_min must be below y_max; got {} and 5.0"),
    ("band.predict_interval", "groups", {"": ["a"] * 60}, V,
     "groups were given for prediction but not for calibration"),
    ("band.predict_interval", "sample_weight", {"": [1.0] * 60}, V,
     "sample_weight needs a band calibrated with weights"),
    ("band.predict_cdf", "y", NO_TARGETS, V, "y must be numbers; got {}"),
    ("band.predict_cdf", "y", {"(2,)": [1.0, 2.0]}, V, "y must be a number, or have the shape .*; got {}"),
    ("online.update online.drop", "rows", {"['a']": ["a"], "an object": object()}, V, "rows must be numbers; got {}"),
    ("online.update", "rows", {"[0, 0, 1]": [0, 0, 1], "[7, 8, 9]": [7, 8, 9]}, V,
     "rows must be numbers of waiting rows, as in waiting_, each once; got {}"),
    ("online.update", "y", {"1": [1.0]}, V, "rows must have one number per outcome, {} of them; got 3"),
    ("model.effects", "confidence_level", {"0": 0, "'a'": "a", "nan": np.nan}, V,
     "confidence_level must be a finite number above 0 and below 1; got {}"),
    ("model.effects effects.pair", "j", {"7": 7, "'a'": "a", "2.5": 2.5, "None": None}, V,
     "A column must be a place from 0 to 2 or one of the names .*; got {}"),
    ("model.report", "path", NO_PATH, T, f"path {PATH}"),
    ("merge", "models", {"3": 3, "'a'": "a", "None": None, "an object": object()}, T,
     "merge takes a list of RandomFeatureRidge models; got {}"),
    ("merge", "models", {"an empty list": []}, V, "merge needs at least one model; got {}"),
    ("merge", "models", {"str": ["a"], "MLKMRegressor": [mlkm.MLKMRegressor()]}, T,
     "merge takes RandomFeatureRidge models; got {}"),
    # files
    ("save load to_onnx", "path", {"3": 3, "b'x'": b"x", "['a']": ["a"], "an object": object()}, T, f"path {PATH}"),
    ("predict_table", "out", NO_PATH, T, f"out {PATH}"),
    ("save load to_onnx", "path", {"''": "", "'a\\x00b'": "a\0b", "'a\\ud800'": "a\ud800"}, V,
     "path must be the name of a file, of 1 to 255 bytes; got {}"),
    ("save to_onnx model.report", "path", {"the folder '/'": "/"}, IsADirectoryError,
     "An output needs the name of a file; got {}"),
    ("save", "keep_rows", NO_SWITCH, V, f"keep_rows {SWITCH}"),
    ("save", "model", {"NoneType": None, "str": "a", "object": object()}, T,
     r"mlkm.save writes estimators, as in save\(model, path\); got {}"),
    ("load", "trusted", {"3": 3, "None": None, "[1]": [1], "an object": object()}, T,
     r"trusted must be a list of names, as in \['package.module.Class'\]; got {}"),
    ("load", "path", {"'no'": "no"}, FileNotFoundError, "There is no file {}"),
    ("to_onnx", "dtype", NO_WORD, V, "dtype must be 'float32' or 'float64'; got {}"),
    ("feed", "X", {"1e.300": np.full((4, 3), 1e300)}, V, "X must be numbers that float32 holds; got 1e.300: use"),
    ("feed", "dtype", {"'a'": "a", "None": None}, V, "dtype must be 'float32' or 'float64'; got {}"),
    ("to_onnx", "model", {"NoneType": None, "str": "a"}, T, "to_onnx exports MLKMRegressor, .*; got {}"),
    ("feed", "model", NO_MODEL, T, "model must be a fitted regressor, band or pipeline; got {}"),
    ("predict_table", "model", NO_MODEL, T, "model must be a fitted regressor or a band.*; got {}"),
    ("predict_table", "out", {"'a.txt'": "a.txt", "'a'": "a"}, V,
     "Predictions are written to a .parquet or .csv file; got {}"),
    ("predict_table", "confidence_level", {"": 0.9}, V, "confidence_level is for models with a band"),
    ("open_table", "path", {"None": None, "3": 3, "an object": object()}, T,
     "A table is opened by the name of a file or folder, .*; got {}"),
    ("open_table", "path", {"'no.csv'": "no.csv"}, FileNotFoundError, "There is no file or folder {}"),
    ("predict_table", "source", {"'no.csv'": "no.csv"}, FileNotFoundError, "There is no file or folder {}"),
    ("open_table", "path", {"'http://a/b.csv'": "http://a/b.csv"}, V,
     "Names of files and folders are those of this machine; got {}"),
    ("open_table", "target", NO_NAME, T, "target must be the name of a column or a list of them; got {}"),
    ("open_table", "features", NO_NAME, T, "features must be the name of a column or a list of them; got {}"),
    ("open_table", "weights", NO_NAME, T, "weights must be the name of a column; got {}"),
    ("open_table", "target features weights", {"'z'": "z"}, V,
     "The table has no column {}; it has 'a', 'b', 'c', 'y', 'w'"),
    ("open_table", "target features weights", LONG, V, "The table has no column {}.*; it has 'a', 'b', 'c', 'y', 'w'"),
    ("config_context", "max_memory", {"'a'": "a", "-1": -1, "nan": np.nan, "[1]": [1], "an object": object()}, V,
     "max_memory must be a number of bytes or a text such as '2GB'; got {}"),
    ("config_context", "client", {"3": 3, "'a'": "a", "an object": object()}, T,
     "client must be a client of `distributed`, .*; got {}"),
    # judging bands
    ("inside coverage mean_width median_width widths ends winkler_score coverage_by_group coverage_by_bin", "interval",
     {"['a', 'b']": ["a", "b"], "an object": object()}, V, "interval must be numbers; got {}"),
    ("inside mean_width ends plot_widths", "interval",
     {"(3,)": [1.0, 2.0, 3.0], "()": 5.0, "(2, 3, 4)": np.zeros((2, 3, 4))}, V,
     r"interval must be two ends per row, one level at a time, shape \(n, 2\) or \(n, 2, 1\); got shape {}"),
    ("mean_width widths", "interval", {"NaN": [[0.0, np.nan]]}, V,
     "interval must have two ends per row, none missing; row 0 has {}"),
    ("median_width coverage", "interval", {"": np.zeros((0, 2))}, V, "interval must have at least one row; got none"),
    ("inside coverage winkler_score coverage_by_bin plot_predictions", "y",
     {"['a', 'b']": ["a", "b"], "an object": object()}, V, "y must be numbers; got {}"),
    ("inside coverage", "y", {"(2,)": [1.0, 2.0], "()": None}, V,
     r"y must be one outcome per interval, shape \(60,\); got shape {}"),
    ("coverage winkler_score coverage_by_group plot_coverage_by_bin", "confidence_level", NO_LEVEL, V,
     f"confidence_level {LEVEL}"),
    ("coverage_by_group", "groups", {"(2,)": ["a", "b"]}, V, "groups must have one label per row, .*; got shape {}"),
    ("coverage_by_bin plot_coverage_by_bin", "n_bins", NO_COUNT, V, f"n_bins {COUNT}"),
    ("coverage_by_bin", "values", {"(2,)": [1.0, 2.0]}, V, "values must be one number per row, .*; got shape {}"),
    ("worst_slice_coverage", "X", {"(2,)": [1.0, 2.0], "(2, 3, 4)": np.zeros((2, 3, 4))}, V,
     "X must be a table with one row per interval, .*; got shape {}"),
    ("worst_slice_coverage", "share", {"0": 0, "2": 2, "'a'": "a"}, V,
     "share must be a finite number above 0 and at most 1; got {}"),
    ("worst_slice_coverage", "n_directions", {"-1": -1, "'a'": "a"}, V,
     "n_directions must be a whole number of at least 0; got {}"),
    ("worst_slice_coverage", "n_directions", HUGE, M, MEMORY),
    # pictures
    ("plot_band", "band", NO_MODEL, T, "band must be a fitted band, as a ConformalRegressor is; got {}"),
    ("plot_band", "inputs",
     {"7": 7, "'z'": "z", "2.5": 2.5, "None": None, "datetime.timedelta(0)": np.timedelta64(0, "s")}, V,
     "An input must be a place from 0 to 2.*; got {}"),
    ("plot_band", "confidence_level", {"[1, 2]": [[1, 2], [3]], **NO_LEVEL}, V, f"confidence_level {LEVEL}"),
    ("plot_band", "at", {"3": 3, "'a'": "a", "an object": object(), "[1000": [10**400] * 3}, V,
     "at must be one number for each of the 3 inputs, .*; got {}"),
    ("plot_band", "limits", {"3": 3, "'a'": "a", "(1, 0)": (1, 0), "None": None}, V,
     r"limits must be \(low, high\) with low < high, .*; got {}"),
    ("plot_band", "truth", {"3": 3, "'a'": "a", "an object": object()}, T,
     "truth must be a function of rows, or None; got {}"),
    ("plot_band", "names", {"3": 3, "'a'": "a"}, T, "names must be a list of names, one per input, or None; got {}"),
    ("plot_band", "names", {"['a']": ["a"]}, V, "names must be one per input, 3 of them; got {}"),
    ("plot_predictions plot_widths", "mean", {"['a', 'b']": ["a", "b"], "an object": object()}, V,
     "mean must be numbers; got {}"),
    ("plot_predictions", "mean", {"NaN": [np.nan] * 60}, V, "mean must be finite numbers; got {}"),
    ("plot_predictions", "most", NO_COUNT, V, f"most {COUNT}"),
    ("plot_coverage_by_bin", "name", {"3": 3, "an object": object()}, T, "name must be a text, or None; got {}"),
    ("plot_convergence", "models", {"None": None, "3": 3, "'a'": "a", "[]": [], "{}": {}, "an object": object()}, T,
     "models must be fitted models by name, as in .*; got {}"),
    ("plot_convergence", "models", {"'a'": {"a": 3}}, V,
     "plot_convergence needs models fitted by descent, with a loss_curve_; {} has none"),
    ("plot_effect", "effects", {"None": None, "3": 3, "an object": object()}, T,
     r"effects must be what model.effects\(X\) gives; got {}"),
    ("plot_band plot_effect", "output", {"-1": -1, "2.5": 2.5, "'a'": "a"}, V,
     "output must be a whole number of at least 0; got {}"),
    ("plot_effect", "j", {"7": 7, "'z'": "z"}, V, "A column must be a place from 0 to 2 .*; got {}"),
    # kernels
    ("Gaussian Matern Laplacian Cauchy", "X", {"['a', 'b']": ["a", "b"], "an object": object()}, V,
     "X must be numbers; got {}"),
    ("Gaussian Cauchy", "Y", {"(4, 2)": np.zeros((4, 2)), "(3,)": np.zeros(3)}, V,
     r"Y must be a vector or a table as wide as X, shape \(n, 3\); got shape {}"),
    ("Gaussian Laplacian", "X", {"NaN or infinity": np.full((4, 3), np.nan)}, V, "X must be finite numbers; got {}"),
    ("Matern", "nu", NOT_POSITIVE, V, "The smoothness nu of a Matern kernel must be a positive number; got {}"),
    ("as_kernel", "kernel", NO_WORD, V, "A kernel must be one of 'gaussian', .*; got {}"),
]  # fmt: skip

CASES = [
    pytest.param(entry, argument, value, error, words.replace("{}", re.escape(shown)), id=f"{entry} {argument} {shown}")
    for names, arguments, values, error, words in ROWS
    for entry in names.split()
    for argument in arguments.split()
    for shown, value in values.items()
]

# callables that are no entry points: protocols, base classes and results, warnings, and what has no arguments
NO_ENTRIES = {
    "Coverage", "Event", "Kernel", "KernelLike", "NoSignalWarning", "OutsideWarning", "Problem", "Solution", "Solver",
    "register", "warn",
}  # fmt: skip


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    return {entry.name: entry for entry in entries(World(tmp_path_factory.mktemp("bad")))}


@pytest.mark.parametrize(("name", "argument", "value", "error", "words"), CASES)
def test_a_bad_value_is_told_in_one_sentence(every, name, argument, value, error, words):
    entry = every[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error, match=words) as raised:
            entry.call(**{**entry.good, argument: value})
    assert is_clear(raised.value) == ""


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        ("GradientDescent", "momentum", Fraction(1, 2)),
        ("GradientDescent", "target_sd", Fraction(1, 2)),
        ("GradientDescent", "initial", -0.0),
        ("RKMRegressor", "n_jobs", 10**12),
        ("feed", "X", np.ma.masked_less(np.linspace(0, 1, 180).reshape(60, 3), 0.3)),
    ],
)
def test_an_odd_value_that_means_something_is_taken(every, name, argument, value):
    given = {**every[name].good, argument: value}
    assert every[name].right(every[name].call(**given), given)


def test_there_are_enough_cases():
    assert len(CASES) >= 400


def test_good_arguments_are_good(every):
    for entry in every.values():
        if not entry.name.startswith("fetch_"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert entry.right(entry.call(**entry.good), entry.good), entry.name


def test_every_public_callable_is_an_entry_point(every):
    rooms = [(mlkm, mlkm.__all__), (kernels, kernels.__all__), (datasets, datasets.__all__), (solvers, solvers.__all__)]
    rooms += [(onnx, onnx.__all__), (tables, tables.__all__)]
    for room in (metrics, plotting):
        rooms.append((room, [name for name, thing in vars(room).items() if _is_public(room, thing)]))
    known = {part for name in every for part in name.split(".")} | NO_ENTRIES
    for room, names in rooms:
        for name in names:
            thing = getattr(room, name)
            if callable(thing) and not isinstance(thing, types.ModuleType):
                assert name in known, f"{room.__name__}.{name} needs an entry in benchmarks/entry_points.py"
    with_cases = {case.values[0] for case in CASES}
    assert set(every) - with_cases <= {"Ridge", "model.fit", "online.conformalize",
                                       "online.predict_interval", "model.left_out_predictions"}  # fmt: skip


def _is_public(room, thing):
    own = inspect.isfunction(thing) and thing.__module__.startswith("mlkm.") and not thing.__name__.startswith("_")
    return own and (thing.__module__ == room.__name__ or thing.__name__.startswith("plot_"))


@pytest.mark.parametrize(
    "make",
    [
        mlkm.MLKMRegressor, mlkm.RKMRegressor, mlkm.RandomFeatureRidge, mlkm.RandomFeatures, mlkm.ConformalRegressor,
        mlkm.OnlineConformal, solvers.GradientDescent, solvers.VariableProjection, solvers.Kernels, tables.TableEncoder,
    ],
)  # fmt: skip
def test_a_misspelt_parameter_is_told_with_the_class_and_the_nearest_name(make):
    name = next(iter(inspect.signature(make).parameters))
    with pytest.raises(TypeError, match=f"^{make.__name__} has no parameter '{name}s'; the nearest is '{name}'.$"):
        make(**{f"{name}s": 1})
    with pytest.raises(TypeError, match=f"^{make.__name__} has no parameter 'zzz'; its parameters are {name}") as error:
        make(zzz=1)
    assert fault_of(str(error.value)) == ""
    with pytest.raises(TypeError, match=f"^{make.__name__} got wrong arguments, too many positional arguments; its"):
        make(*range(30))


def test_a_misspelt_parameter_of_the_published_method_is_told_with_its_class():
    with pytest.raises(TypeError, match=r"^RKMRegressor.published has no parameter 'wdths'; the nearest is 'widths'.$"):
        mlkm.RKMRegressor.published(wdths=3)


def test_features_that_do_not_fit_into_memory_are_refused_before_they_are_drawn():
    with mlkm.config_context(max_memory="1GB"), pytest.raises(MemoryError, match="features of 40 rows need about"):
        mlkm.RandomFeatureRidge(10**6, scale=1.0).fit(np.arange(80.0).reshape(40, 2), np.arange(40.0))


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("fit no.csv --target y", 2, "no.csv"),
        ("fit table.csv --target z", 2, "'z'"),
        ("fit table.csv", 2, "--target"),
        ("fit table.csv --target y --effort slow", 2, "--effort must be fast, .*; got 'slow'"),
        ("fit table.csv --target y --effort -1", 2, "--effort must be fast, .*; got '-1'"),
        ("fit table.csv --target y --confidence-level 95", 2, "confidence_level must be a number between 0 and 1"),
        ("fit table.csv --target y --confidence-level a", 2, "'--confidence-level'"),
        ("fit table.csv --target y --seed -1", 2, "'--seed'"),
        ("fit table.csv --target y --out no/model.mlkm", 2, "There is no folder .*no' to write 'model.mlkm' to"),
        ("fit table.csv --target y --out table.csv", 2, "would overwrite"),
        ("fit table.csv --target y --report page.txt", 2, "must end in .html or .htm; got 'page.txt'"),
        ("fit table.csv --target y --features a,z", 2, "'z'"),
        ("fit table.csv --target y --weights z", 2, "'z'"),
        ("fit table.csv --target y --nonsense 3", 2, "No such option"),
        ("predict no.mlkm table.csv --out p.csv", 2, "There is no file 'no.mlkm'"),
        ("predict table.csv table.csv --out p.csv", 1, "is no file that mlkm.save wrote"),
        ("predict model.mlkm no.csv --out p.csv", 2, "no.csv"),
        ("predict model.mlkm table.csv --out p.txt", 2, "must end in .*; got 'p.txt'"),
        ("inspect no.mlkm", 2, "There is no file 'no.mlkm'"),
        ("inspect .", 2, "A model is a file; got '.', which is a folder"),
        ("report no.mlkm table.csv --out p.html", 2, "There is no file 'no.mlkm'"),
        ("export model.mlkm --onnx no/model.onnx", 2, "There is no folder .*no' to write 'model.onnx' to"),
        ("demo --n 3", 2, "'--n'"),
        ("nonsense", 2, "No such command"),
    ],
)
def test_wrong_commands_end_with_one_sentence(every, monkeypatch, words, code, told):
    monkeypatch.chdir(every["save"].good["path"].rsplit("/", 1)[0])
    result = CliRunner().invoke(app, words.split(), env={"COLUMNS": "300"})
    text = " ".join(result.stderr.replace("│", " ").split())
    assert result.exit_code == code, text
    assert re.search(told, text)
    assert "Traceback" not in text
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    if not lines[0].startswith("Usage:"):
        assert len(lines) == 1
        assert fault_of(lines[0]) == ""
