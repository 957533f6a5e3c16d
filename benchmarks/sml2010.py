"""SML2010: indoor temperature from 15 sensors, trained on the first file of the set and tested on the second, a later
month.

Target (column 4) and inputs (6-18, 22, 23) are the paper's. Files are read from the folder `sml2010` of MLKM_DATA_HOME.
The error is the test MSE in squared degrees; the paper's best is 1.35.
"""

from mlkm.datasets import fetch_sml2010

from .problem import Problem, data_home, standardised

GOAL, PUBLISHED = 1.15, 1.35
SETS = ["sml2010"]
MODELS = ["mlkm", "rkm", "rfr", "ols", "catboost", "lightgbm", "krr"]


def load(name: str, seed: int) -> Problem:
    data = fetch_sml2010(data_home=data_home(), download_if_missing=False)
    return standardised(data.X_train, data.y_train, data.X_test, data.y_test)
