"""What the first file of SML2010 can tell about the second: python -m benchmarks.seasons

Errors of the default and of least squares when single rows are left out of the first file, when ten blocks of
consecutive rows are left out in turn, and on the second file, later and warmer weeks. Folder `sml2010` of
MLKM_DATA_HOME; a few minutes.
"""

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, LeaveOneOut, cross_val_predict

from mlkm import MLKMRegressor
from mlkm.datasets import fetch_sml2010


def main() -> None:
    data = fetch_sml2010(download_if_missing=False)
    X, y = data.X_train, data.y_train
    model, line = MLKMRegressor(random_state=0), LinearRegression()
    by_blocks = [float(np.mean((cross_val_predict(m, X, y, cv=KFold(10)) - y) ** 2)) for m in (model, line)]
    model.fit(X, y)
    by_rows = [float(model.loo_error_), float(np.mean((cross_val_predict(line, X, y, cv=LeaveOneOut()) - y) ** 2))]
    later = [float(np.mean((m.predict(data.X_test) - data.y_test) ** 2)) for m in (model, line.fit(X, y))]
    for i, name in enumerate(("default", "least squares")):
        print(
            f"{name}: single rows left out {by_rows[i]:.3f}, blocks left out {by_blocks[i]:.3f}, second file"
            f" {later[i]:.3f}"
        )


if __name__ == "__main__":
    main()
