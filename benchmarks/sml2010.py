"""SML2010: indoor temperature from 15 sensors, trained on the first file of the set and tested on the second, a later month.

Target (column 4) and inputs (6-18, 22, 23) are the paper's. Files are read from the folder `sml2010` of MLKM_DATA_HOME. The error is the test MSE in
squared degrees; the paper's best is 1.35.
"""

import numpy as np

from .problem import Problem, data_home, standardised

FILES = ("NEW-DATA-1.T15.txt", "NEW-DATA-2.T15.txt")
TARGET = 4  # columns count from 1, as in the files' header
INPUTS = (*range(6, 19), 22, 23)
GOAL, PUBLISHED = 1.15, 1.35
SETS = ["sml2010"]
MODELS = ["mlkm", "rkm", "rfr", "ols", "catboost", "lightgbm", "krr"]


def read(file: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and target of one file; columns 1 and 2 are the date and the time."""
    table = np.loadtxt(data_home() / "sml2010" / file, skiprows=1, usecols=[j - 1 for j in (TARGET, *INPUTS)])
    return table[:, 1:], table[:, 0]


def load(name: str, seed: int) -> Problem:
    (X, y), (X_test, y_test) = (read(file) for file in FILES)
    return standardised(X, y, X_test, y_test)
