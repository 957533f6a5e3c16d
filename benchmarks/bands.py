"""The bands' bars, each with its figure: python benchmarks/bands.py [name ...]; names: repeats example1 noise quantiles
online sml2010 yearmsd speed memory.

`repeats` draws Example 1 again and again and checks the guarantee of every score and method. `sml2010` and `yearmsd`
read the files of these data sets from the folder in the environment variable MLKM_DATA_HOME, and are skipped without
it.
"""

import argparse
import os
import resource
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression

from mlkm import ConformalRegressor, MLKMRegressor, OnlineConformal, RandomFeatureRidge, metrics
from mlkm.conformal.quantile import fit_quantiles
from mlkm.data import plain_rows
from mlkm.datasets import fetch_sml2010, make_example1
from mlkm.kernels import Gaussian
from mlkm.model.draws import draw_features
from mlkm.model.machine import Machine, layer_shapes
from mlkm.solve.ridge import ridge
from mlkm.solve.uncertainty import RidgeUncertainty


def data_home(folder):
    home = os.environ.get("MLKM_DATA_HOME")
    if home is None or not (Path(home) / folder).exists():
        print(f"{folder}: skipped, MLKM_DATA_HOME names no folder with {folder} in it")
        return None
    return Path(home) / folder


def repeats(n_draws=400, n=200, m=199):
    """Mean coverage over draws of (n + m training rows, 50 test rows), and its standard error."""
    ridge = RandomFeatureRidge(60, "gaussian", 1.0, penalty=1e-3, random_state=0)
    dummy = DummyRegressor()
    cases = [(ridge, "split", s, None) for s in ("variance", "absolute", "residual", "quantile")]
    cases += [(dummy, "split", s, None) for s in ("absolute", "residual", "quantile")]
    cases += [
        (ridge, "cross", "absolute", 5),
        (ridge, "cross", "variance", 5),
        (ridge, "cross", "absolute", "loo"),
        (ridge, "cross", "variance", "loo"),
    ]
    hits = np.zeros((len(cases), 2, n_draws))
    for draw in range(n_draws):
        X, y, _ = make_example1(n + m, 4, random_state=10_000 + draw)
        X_test, y_test, _ = make_example1(50, 4, random_state=50_000 + draw)
        for c, (model, method, score, cv) in enumerate(cases):
            band = ConformalRegressor(
                model, score=score, method=method, cv=cv or 5, calibration_size=m, random_state=draw
            ).fit(X, y)
            interval = band.predict_interval(X_test, [0.9, 0.95])[1]
            for k in range(2):
                hits[c, k, draw] = metrics.inside(y_test, interval[:, :, k]).mean()
    for c, (model, method, score, cv) in enumerate(cases):
        for k, level in enumerate((0.9, 0.95)):
            mean, se = hits[c, k].mean(), hits[c, k].std(ddof=1) / np.sqrt(n_draws)
            margin = norm.isf(5e-4) * se
            low, high = (
                (level - margin, level + 1 / (m + 1) + margin) if method == "split" else (level - 0.02, level + 0.02)
            )
            verdict = "ok" if low <= mean <= high else "FAIL"
            print(
                f"repeats {type(model).__name__:18s} {method:5s} {score:8s} cv={cv!s:4s} {level}: {mean:.4f} in"
                f" [{low:.4f}, {high:.4f}] {verdict}"
            )


def example1(dimensions=(4, 8, 128), score="variance"):
    for d, bar in zip(dimensions, (4.10, 4.15, 4.35), strict=True):
        X, y, _ = make_example1(4000, d, random_state=0)
        X_test, y_test, _ = make_example1(4000, d, random_state=1)
        begin = time.perf_counter()
        band = ConformalRegressor(MLKMRegressor(random_state=0), score=score, random_state=0).fit(X, y)
        interval = band.predict_interval(X_test)[1]
        share = metrics.coverage(y_test, interval)
        seconds = time.perf_counter() - begin
        print(
            f"example1 d={d}: coverage {share.share:.4f} (0.94 to 0.96), mean length {metrics.mean_width(interval):.3f}"
            f" (bar {bar}), {seconds:.0f} s",
            flush=True,
        )


LAWS = {
    "linear": lambda x: 0.2 + 1.8 * x,
    "geometric": lambda x: 0.2 * 10**x,
    "steep": lambda x: 0.2 + 1.8 * expit(20 * (x - 0.5)),
}


def best_ratio(law, level=0.9):
    """Mean width of the true conditional quantiles over the width of the best band of one width."""
    sd = law((np.arange(100_000) + 0.5) / 100_000)
    one = brentq(lambda q: np.mean(2 * norm.cdf(q / sd) - 1) - level, 0.1, 10)
    return norm.ppf((1 + level) / 2) * sd.mean() / one


def noise(n=4000):
    """Noise of standard deviation 0.2 to 2 along x_1, rising in three ways."""
    for name, law in LAWS.items():
        rng = np.random.default_rng(0)
        X, X_test = rng.random((n, 4)), rng.random((10_000, 4))
        y, y_test = (np.sin(4 * Z[:, 0]) + Z[:, 1] + law(Z[:, 0]) * rng.standard_normal(len(Z)) for Z in (X, X_test))
        print(f"noise {name}: true quantiles are {best_ratio(law):.3f} as wide as the best band of one width")
        for score in ("absolute", "variance", "residual", "quantile"):
            model = RandomFeatureRidge(random_state=0)
            interval = (
                ConformalRegressor(model, confidence_level=0.9, score=score, random_state=0)
                .fit(X, y)
                .predict_interval(X_test)[1]
            )
            width = metrics.mean_width(interval)
            if score == "absolute":
                first = width
            worst = min(part.share for *_, part in metrics.coverage_by_bin(y_test, interval, X_test[:, 0]))
            print(
                f"noise {name} {score}: coverage {metrics.coverage(y_test, interval).share:.4f}, worst quintile"
                f" {worst:.4f} (bar 0.86), worst slice {metrics.worst_slice_coverage(X_test, y_test, interval):.4f}, of"
                f" absolute's width {width / first:.3f} (bar 0.80)",
                flush=True,
            )


def quantiles():
    """CPU time of two quantile fits beside that of the ridge path on as many features."""
    for n, d in ((8000, 1), (8000, 5), (2000, 100), (8000, 100)):
        rng = np.random.default_rng(0)
        X = rng.random((n, d))
        y = np.sin(4 * X[:, 0]) + LAWS["steep"](X[:, 0]) * rng.standard_normal(n)
        phi = draw_features(rng, d, int(np.clip(4 * np.sqrt(n), 50, 400)), Gaussian(), 1 / np.sqrt(d), (1, "full"))
        clock = [time.process_time()]
        fit_quantiles(X, y, Fraction(9, 10), 0)
        clock.append(time.process_time())
        ridge(np.hstack([X, phi.features(X)]), y[:, None])
        clock.append(time.process_time())
        fits, path = np.diff(clock)
        print(f"quantiles n={n} d={d}: {fits:.2f} s of CPU, a ridge path {path:.2f} s", flush=True)


def online(n=4000, start=1000):
    """An exact start with noise of variance 1 afterwards, and few scores in the window; 90 %."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    e = rng.standard_normal(n)
    exact = X[:, 0] + np.where(np.arange(n) < start, 0, e)
    for name, y, parameters in (
        ("exact start, decaying", exact, {"method": "decaying"}),
        ("exact start, adaptive", exact, {}),
        ("window=1", X[:, 0] + e, {"window": 1}),
        ("window=200", X[:, 0] + e, {}),
    ):
        band = OnlineConformal(LinearRegression(), confidence_level=0.9, **parameters).fit(X[:start], y[:start])
        interval = band.predict_online(X[start:], y[start:])[1]
        share, width = metrics.coverage(y[start:], interval).share, metrics.mean_width(interval)
        print(
            f"online {name}: coverage {share:.4f}, mean length {width:.2f} (quantiles of the noise: 3.29)", flush=True
        )
    for method in ("adaptive", "decaying"):
        for level in (0.8, 0.9, 0.95):
            share, error = first_outcomes(method, level)
            print(f"online nothing changes, {method}, {level}: coverage {share:.4f} +- {error:.4f}", flush=True)


def first_outcomes(method, level, series=500, start=60, steps=50):
    """Return the coverage of the first outcomes of many exchangeable series, and its standard error."""
    rng, X = np.random.default_rng(0), np.zeros((start + steps, 1))
    band = OnlineConformal(LinearRegression().fit(X[:2], [0, 0]), confidence_level=level, method=method)
    shares = []
    for _ in range(series):
        y = rng.standard_normal(start + steps)
        interval = band.conformalize(X[:start], y[:start]).predict_online(X[start:], y[start:])[1]
        shares.append(metrics.coverage(y[start:], interval).share)
    return np.mean(shares), np.std(shares) / np.sqrt(series)


def sml2010():
    if data_home("sml2010") is None:
        return
    data = fetch_sml2010(download_if_missing=False)
    X, y, X_test, y_test = data.X_train, data.y_train, data.X_test, data.y_test
    linear, mlkm = ("least squares", LinearRegression()), ("MLKM", MLKMRegressor(random_state=0))
    cases = [(*model, method, "absolute") for model in (linear, mlkm) for method in ("adaptive", "decaying")]
    for name, model, method, score in [*cases, (*mlkm, "adaptive", "variance")]:
        band = OnlineConformal(model, method=method, score=score).fit(X, y)
        interval = band.predict_online(X_test, y_test)[1]
        share, width = metrics.coverage(y_test, interval).share, metrics.mean_width(interval)
        print(
            f"sml2010 {name}, {method}, {score}: coverage {share:.4f} (0.945 to 0.955), mean length {width:.3f} (bar"
            " 4.3)",
            flush=True,
        )


def yearmsd():
    folder = data_home("yearmsd")
    if folder is None:
        return
    data = np.load(folder / "yearmsd_8k.npz", allow_pickle=False)
    X, y, test = data["X"], data["y"].astype(float), data["is_test"]
    for score in ("variance", "absolute"):
        band = ConformalRegressor(MLKMRegressor(random_state=0), score=score, random_state=0).fit(X[~test], y[~test])
        interval = band.predict_interval(X[test])[1]
        share = metrics.coverage(y[test], interval)
        print(
            f"yearmsd {score}: coverage {share.share:.4f} (0.94 to 0.96), mean length"
            f" {metrics.mean_width(interval):.2f}",
            flush=True,
        )


def _predict(model, X, y):
    model.predict(X)


def _factorise(model, X, y):
    model.predict(X[:1], return_std=True)


def _calibrate(model, X, y):
    half = len(X) // 2
    ConformalRegressor(model).conformalize(X[:half], y[:half]).predict_interval(X[half:])


def speed(n=100_000):
    """Calibrating on half of the rows and predicting the other half, beside a plain predict of them all."""
    for d, rough in ((8, False), (4, True)):
        X, y, _ = make_example1(2000 + n, d, random_state=0)
        if rough:
            y = y + 3 * np.sign(np.sin(12 * X[:, 0]))
        model = MLKMRegressor(random_state=0).fit(X[:2000], y[:2000])
        clock = [time.perf_counter()]
        for job in (_predict, _factorise, _calibrate):
            job(model, X[2000:], y[2000:])
            clock.append(time.perf_counter())
        plain, factor, band = np.diff(clock)
        print(
            f"speed D={model.widths_[0]}: predict {plain:.1f} s, factorisation {factor:.2f} s, band {band:.1f} s, ratio"
            f" {band / plain:.2f} (bar 3)",
            flush=True,
        )


def memory(n=20_000, d=8, widths=(256, 128, 64)):
    """p = 41,217 weights and n = 20,000 rows."""
    rng = np.random.default_rng(0)
    sizes = [(d, widths[0]), *((D, D) for D in widths[1:])]
    maps = tuple(draw_features(rng, into, D, Gaussian(), 1 / np.sqrt(into)) for into, D in sizes)
    layers = tuple(
        tuple(rng.standard_normal(shape) / np.sqrt(shape[0]) for shape in layer) for layer in layer_shapes(maps, 1)
    )
    machine = Machine(maps, layers)
    X = rng.standard_normal((n, d))
    rows = plain_rows(X, rng.standard_normal((n, 1)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    begin = time.perf_counter()
    variance = RidgeUncertainty((machine,), 1e-8, np.zeros(1), rows, hidden_penalty=1e-8)
    sigma = variance.predict(X)[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(
        f"memory p={machine.n_parameters} n={n}: {time.perf_counter() - begin:.0f} s for the factorisation and {n}"
        f" rows, peak {peak:.0f} MB ({before:.0f} MB before), tr H {variance.smoothers[0][0].degrees:.0f}, all finite"
        f" and positive: {bool((np.isfinite(sigma) & (sigma > 0)).all())}"
    )


if __name__ == "__main__":
    jobs = {f.__name__: f for f in (repeats, example1, noise, quantiles, online, sml2010, yearmsd, speed, memory)}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    for name in parser.parse_args().names or jobs:
        jobs[name]()
