"""Write the records: `OPENBLAS_NUM_THREADS=1 python -m tests.characterisation.record [SETTING ...]`.

Without names all settings are recorded anew; with names, these alone.
"""

import sys
import warnings
from time import process_time

import numpy as np

from mlkm.exceptions import NoSignalWarning

from . import store
from .decisions import Decisions
from .outputs import outputs, predictions
from .settings import SETTINGS, Setting


def recorded(setting: Setting) -> store.Record:
    """Fit with the search, then with what it has decided given; outputs are those of the second fit."""
    decisions, searched = Decisions(), np.zeros(0)
    if setting.searched:
        with decisions.recorded():
            case = setting.case()
        searched = predictions(case) if setting.end_to_end else searched
    with decisions.given():
        return store.Record(outputs(setting.case()), searched, decisions)


def main(names: list[str]) -> None:
    """Record these settings, or all of them."""
    records = store.read(store.names()) if names else {}
    for name in names or SETTINGS:
        begin = process_time()
        records[name] = recorded(SETTINGS[name])
        print(f"{name:40s} {process_time() - begin:6.1f} s")  # noqa: T201
        store.write({known: records[known] for known in SETTINGS if known in records})
    print(f"{store.FILE.stat().st_size / 1e6:.2f} MB")  # noqa: T201


if __name__ == "__main__":
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", NoSignalWarning)
    main(sys.argv[1:])
