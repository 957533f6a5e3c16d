"""The package computes what it has computed: see the package's docstring.

Quick part: `pytest tests/characterisation -m "not slow"`. The slow part has the settings that take longer, and the
comparison of all searches end to end.
"""

from functools import cache

import numpy as np
import pytest

from . import store
from .outputs import outputs, predictions
from .settings import SETTINGS

DIGITS = 1e-7
LOOSER = {
    "onnx float32": 1e-4,
    # the quantile of simulated maxima, along eigenvectors whose signs and number hang on rounding
    "simultaneous band": 0.03,
}


@cache
def records():
    return store.read(store.names())


def marked(names):
    return [pytest.param(name, marks=pytest.mark.slow if SETTINGS[name].slow else ()) for name in names]


def test_every_setting_has_a_record():
    assert list(records()) == list(SETTINGS)


@pytest.mark.parametrize("name", marked(SETTINGS))
def test_outputs_are_those_recorded_with_decisions_given(name):
    setting, record = SETTINGS[name], records()[name]
    with record.decisions.given():
        now = outputs(setting.case())
    assert list(now) == list(record.outputs)
    different = {output: far for output in now if (far := distance(setting, output, now, record.outputs)) > 1}
    assert not different, f"in units of what is allowed: {different}"


def distance(setting, output, now, then):
    """Return how far an output is from its record, in units of what is allowed."""
    now, recorded, mean = now[output], then[output], then["mean"]
    if now.shape != recorded.shape:
        return np.inf
    size = np.abs(recorded[np.isfinite(recorded)]).max(initial=0)
    if "effect" in output or "band" in output or output == "contributions":  # differences of predictions
        size = max(size, np.ptp(mean))
    with np.errstate(invalid="ignore"):
        allowed = limit(setting, output) * (np.abs(recorded) + size) + 1e-300
        far = np.where(now == recorded, 0, np.abs(now - recorded) / allowed)
    return np.nan_to_num(far, nan=np.inf).max(initial=0)


def limit(setting, output):
    """Return what is allowed, relative to the number and to the size of the output."""
    stated = [value for key, value in setting.tolerance.items() if output.startswith(key)]
    return max([DIGITS, *stated, *(value for key, value in LOOSER.items() if key in output)])


@pytest.mark.slow
def test_searches_end_to_end():
    """Errors of predictions of the noiseless truth: their ratios, new over old, have a geometric mean within .5 %, and
    predictions differ by at most .15 of the error."""
    ratios, moves = [], []
    for name, setting in SETTINGS.items():
        if not setting.end_to_end:
            continue
        case, then = setting.case(), records()[name].searched
        now, truth = predictions(case), case.test[1]
        old, new = (np.sqrt(np.mean((f - truth) ** 2, axis=0)) for f in (then, now))
        ratios.append(np.mean(np.log(new / old)))
        moves.append(np.mean((now - then) ** 2 / old**2))
    assert abs(np.exp(np.mean(ratios)) - 1) < 0.005
    assert np.sqrt(np.mean(moves)) < 0.15
