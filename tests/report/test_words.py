"""Words of levels: the numbers in them, and their text beside other columns."""

import numpy as np
import pandas as pd

from mlkm import MLKMRegressor
from mlkm.data.tables import TableEncoder


def test_numbers_inside_words_are_inputs():
    power = [f"{k / 2} bhp" for k in range(100, 140)]
    torque = [f"{k % 37 + 90}Nm@ {2000 + 10 * k}rpm" for k in range(40)]
    time = [f"{k % 24:02d}:{5 * (k % 12):02d}" for k in range(40)]
    part = [f"C-{k:04d}" for k in range(40)]  # leading zeros: a name
    model = [f"{['Alto', 'Brio', 'Clio', 'Duna'][k % 4]} {k}" for k in range(40)]  # what comes before differs
    few = ["1 stop", "2 stops"] * 20
    frame = pd.DataFrame({"power": power, "torque": torque, "time": time, "part": part, "model": model, "few": few})
    encoder = TableEncoder().fit(frame)
    X, names = encoder.transform(frame), encoder.get_feature_names_out().tolist()
    assert [name for name in names if " number " in name] == [
        "power number 1", "torque number 1", "torque number 2", "time number 1", "time number 2",
    ]  # fmt: skip
    np.testing.assert_allclose(X[:, names.index("power number 1")], np.arange(100, 140) / 2)
    np.testing.assert_allclose(X[:, names.index("torque number 2")], 2000 + 10 * np.arange(40))
    new = frame.iloc[:3].assign(power=["61.25 bhp", "unknown", None])
    later = encoder.transform(new)[:, names.index("power number 1")]
    np.testing.assert_allclose(later, [61.25, 59.75, 59.75])  # a new level has a place, others the median


def test_a_new_level_is_predicted_by_its_number():
    rng = np.random.default_rng(0)
    power = rng.integers(50, 200, 300)
    frame = pd.DataFrame({"power": [f"{p} bhp" for p in power]})
    model = MLKMRegressor(random_state=0).fit(frame, power / 10 + 0.1 * rng.standard_normal(300))
    unseen = sorted(set(range(60, 190)) - set(power))
    assert len(unseen) > 5
    found = model.predict(pd.DataFrame({"power": [f"{p} bhp" for p in unseen]}))
    assert np.abs(found - np.array(unseen) / 10).max() < 1.0


def test_numbers_that_were_said_to_be_names_have_no_order():
    encoder = TableEncoder(categorical_features=[0]).fit(np.arange(100.0)[:, None] % 40)
    assert encoder.get_feature_names_out().tolist() == ["x0"]


def test_words_act_together_with_numbers():
    """The slope of a number follows the text of a level: levels that share letters share it."""
    rng = np.random.default_rng(0)
    kinds, n = ["maruti alto", "maruti swift", "toyota corolla", "toyota camry"], 600
    kind, x = rng.integers(0, 4, n), rng.standard_normal(n)
    words = [f"{kinds[k]} {'abcdefgh'[rng.integers(8)]}{'klmnopqr'[rng.integers(8)]}" for k in kind]
    y = np.where(kind < 2, 1 + 2 * x, -1.0) + 0.1 * rng.standard_normal(n)
    frame = pd.DataFrame({"model": words, "x": x})
    model = MLKMRegressor(random_state=0).fit(frame[:400], y[:400])
    new = frame[400:].assign(model=[f"{kinds[k]} zz" for k in kind[400:]])  # levels that no row had
    for rows, limit in ((frame[400:], 0.2), (new, 0.45)):
        assert np.sqrt(np.mean((model.predict(rows) - y[400:]) ** 2)) < limit * y.std()


def test_numbers_inside_words_have_signs_and_are_finite():
    degrees = pd.DataFrame({"t": [f"{k} C" for k in range(-10, 10)] + ["\u22127 C", "Golf 5", "1" * 400 + " C", "n/a"]})
    encoder = TableEncoder().fit(degrees[:20])
    names = encoder.get_feature_names_out().tolist()
    found = encoder.transform(degrees)[:, names.index("t number 1")]
    np.testing.assert_allclose(found[:20], np.arange(-10, 10))
    np.testing.assert_allclose(found[20:], [-7, -0.5, -0.5, -0.5])  # others say something else before it, or no number
    ranges = TableEncoder().fit(pd.DataFrame({"r": [f"{k}-{k + 10} EUR" for k in range(30)]}))
    assert ranges.transform(pd.DataFrame({"r": ["100-200 EUR"]}))[0, 1:3].tolist() == [100, 200]


def test_new_levels_of_words_do_not_run_away():
    """With few rows a linear part of texts would tell levels apart along directions that new ones leave."""
    rng = np.random.default_rng(0)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    names = ["".join(rng.choice(syllables, 3)) for _ in range(60)]
    effects, at, x = rng.standard_normal(60), rng.integers(0, 60, 900), rng.standard_normal(900)
    y = x + effects[at] + 0.1 * rng.standard_normal(900)
    frame, seen = pd.DataFrame({"name": np.array(names)[at], "x": x}), at < 48
    model = MLKMRegressor(random_state=0).fit(frame[seen], y[seen])
    f, std = model.predict(frame[~seen], return_std=True)
    known = model.predict(frame[seen], return_std=True)[1]
    assert np.sqrt(np.mean((f - y[~seen]) ** 2)) < 1.3 * y.std()
    assert std.mean() > 3 * known.mean()
