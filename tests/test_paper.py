"""The paper's experiments: the data are the published ones, a run is resumable, and what it leaves to read is right,
also in a browser."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from machines import jacobian, random_machine
from paper import data, systems
from paper.__main__ import main
from paper.data import AVAILABLE, AVAILABLE_CODED, CODED, WRITTEN, example1, example2, example3, example4
from paper.experiment import Details, Experiment, Options, Text
from paper.experiments import EXPERIMENTS
from paper.experiments.table4 import fresh
from paper.page import write_document, write_reports
from paper.published import omitted, published
from paper.runner import compute, pending, run_cell, store_of
from paper.settings import KRR_ALPHA
from paper.store import Cell, Store
from paper.tables import comparison, number, to_markdown, with_error
from sklearn.dummy import DummyRegressor

from mlkm.datasets import example1_truth
from mlkm.model.machine import forward, output_factors


@pytest.mark.slow
@pytest.mark.parametrize("d", [4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("example", [1, 2])
def test_kernel_ridge_on_the_published_seeds_gives_the_published_column(example, d):
    """No other source of randomness is left: the data are the published ones."""
    sample = (example1 if example == 1 else example2)(CODED, d)
    found = systems.measure(systems.kernel_ridge(KRR_ALPHA[example][d], 0), sample, all_rows=True)
    assert found["test_mse"] == pytest.approx(published(f"table{example + 1}", f"d = {d}", "KRR", "test_mse"), rel=1e-4)


def constant_mse(sample):
    return float(np.mean((DummyRegressor().fit(sample.X, sample.y).predict(sample.X_test) - sample.y_test) ** 2))


@pytest.mark.parametrize(
    ("function", "law", "constant", "truth", "n_fresh"),
    [
        ("trig", "uniform", 13.77, 0, 1000),
        ("trig", "normal", 23.74, 0, 1000),
        ("sin_ratio", "uniform", 1.975, 0, 500),
        ("sin_ratio", "normal", 3.445, 0, 1000),
        ("mix", "uniform", 7.91, 0.689, 500),
        ("mix", "normal", 14.06, 0.962, 500),
    ],
)
def test_example3_as_coded(function, law, constant, truth, n_fresh):
    """The error of the mean, the error of the truth itself, and how many test rows are not training rows."""
    sample = example3(CODED, function, law)
    assert constant_mse(sample) == pytest.approx(constant, rel=1e-3)
    assert np.mean((sample.f_test - sample.y_test) ** 2) == pytest.approx(truth, rel=1e-3)
    assert fresh(sample).sum() == n_fresh
    assert fresh(example3(WRITTEN, function, law)).all()


@pytest.mark.parametrize(
    ("d", "constant"), [(1, 0.197), (2, 0.401), (5, 1.015), (10, 2.025), (100, 2.174), (1000, 2.153)]
)
def test_example4_as_coded(d, constant):
    assert constant_mse(example4(CODED, d)) == pytest.approx(constant, rel=2e-3)


def test_as_written_has_fresh_rows_for_every_seed_and_as_coded_never():
    for make in (example1, example2):
        first, second = make(WRITTEN, 4, 0), make(WRITTEN, 4, 1)
        assert not np.isin(first.X[:, 0], np.concatenate([second.X[:, 0], first.X_cal[:, 0], first.X_test[:, 0]])).any()
        np.testing.assert_array_equal(make(CODED, 4, 0).y, make(CODED, 4, 1).y)
    sample = example1(WRITTEN, 4, 0)
    np.testing.assert_allclose(sample.f_test, example1_truth(sample.X_test))


class FullFile:
    """Rows of the layout of YearPredictionMSD whose first input is the row number."""

    y, n_train = np.zeros(515_345), 463_715

    def rows(self, begin, end):
        index = np.arange(begin, end)
        X = np.random.default_rng(begin).normal(size=(len(index), 90))
        X[:, 0] = index
        return X, 1990 + 5 * X[:, 1] + index % 7


def test_year_study_as_coded_takes_the_published_row_numbers(monkeypatch):
    monkeypatch.setattr(data, "_full_years", lambda home: FullFile())
    sample = data.small_years(CODED)
    assert (len(sample.X), len(sample.X_cal), len(sample.X_test)) == (700, 500, 300)
    starts = [X[0, 0] for X in (sample.X, sample.X_cal, sample.X_test)]
    assert (starts[1] - starts[0]) / (starts[2] - starts[0]) == pytest.approx(
        0.5
    )  # rows 300,000, 400,000 and 500,000 after standardisation
    everything = np.vstack([sample.X, sample.X_cal, sample.X_test])
    np.testing.assert_allclose(everything.mean(axis=0), 0, atol=1e-9)


@pytest.mark.parametrize("system", ["mean", "NN", "MLKM", "MLKM+"])
def test_year_study_runs_as_soon_as_the_file_is_there(system, monkeypatch):
    if system != "mean":
        pytest.importorskip("torch", reason="the published networks need the extra paper")
    monkeypatch.setattr(data, "_full_years", lambda home: FullFile())
    _, found, error = run_cell("table8", Cell(CODED, "small", system, 0), Options(1, quick=True))
    assert not error
    assert np.isfinite(found["test_mse"])
    if system == "MLKM+":
        assert found["test_mse"] <= found["mean_of_mses"]  # the average is never worse than the mean of the rotations


def test_versions_of_the_year_study_follow_the_files(tmp_path):
    assert data.year_versions(str(tmp_path)) == []
    (tmp_path / "yearmsd").mkdir()
    (tmp_path / "yearmsd" / "yearmsd_8k.npz").touch()
    assert data.year_versions(str(tmp_path)) == [AVAILABLE]
    (tmp_path / "yearmsd" / "YearPredictionMSD.txt").touch()
    assert data.year_versions(str(tmp_path)) == [AVAILABLE, WRITTEN, CODED]
    versions = {cell.version for cell in EXPERIMENTS["table8"].cells(Options(1, data_home=str(tmp_path)))}
    assert versions == {AVAILABLE, AVAILABLE_CODED, WRITTEN, CODED}


@pytest.fixture
def sample_of_years(tmp_path):
    """A folder with a sample of invented songs."""
    rng = np.random.default_rng(0)
    (tmp_path / "yearmsd").mkdir()
    X = rng.normal(size=(2000, 90)) * np.arange(1, 91)
    is_test = np.arange(2000) >= 1500
    np.savez(tmp_path / "yearmsd" / "yearmsd_8k.npz", X=X, y=1990 + rng.integers(20, size=2000), is_test=is_test)
    return str(tmp_path)


def test_available_rows_are_the_same_in_both_settings(sample_of_years):
    """Standardised with the test rows instead of in [0, 1]; the rows, and so the years, are those of the same seed."""
    plain, coded = (data.small_years(version, 3, sample_of_years) for version in (AVAILABLE, AVAILABLE_CODED))
    for name in ("y", "y_cal", "y_test"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(coded, name))
    everything = np.vstack([coded.X, coded.X_cal, coded.X_test])
    np.testing.assert_allclose(everything.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(everything.std(axis=0), 1)
    assert plain.X.min() == 0
    assert abs(np.corrcoef(plain.X[:, 5], coded.X[:, 5])[0, 1]) == pytest.approx(1)


def test_as_coded_settings_on_available_rows_are_the_published_descent(sample_of_years, monkeypatch):
    """Networks descend on raw years there, on centred ones otherwise; MLKM+ is the published variant, with the error of
    each rotation."""
    pytest.importorskip("torch", reason="the published networks need the extra paper")
    from paper import networks
    from paper.experiments.table8 import SAME, TURNS

    seen, fit = [], networks.PublishedNetwork.fit
    monkeypatch.setattr(networks.PublishedNetwork, "fit", lambda self, *given: seen.append(self) or fit(self, *given))
    for version, system in ((AVAILABLE, "NN"), (AVAILABLE_CODED, "NN"), (AVAILABLE_CODED, "MLKM")):
        run_cell("table8", Cell(version, "small", system, 0), Options(1, True, sample_of_years))
    assert [network.centre_ > 1900 for network in seen] == [True, False, False]
    errors = set()
    for system in ("MLKM+", TURNS):
        _, found, _ = run_cell("table8", Cell(AVAILABLE_CODED, "small", system, 0), Options(1, True, sample_of_years))
        assert found["test_mse"] <= found["mean_of_mses"]
        errors.add(found["test_mse"])
    assert len(errors) == 2
    run_cell("table8", Cell(AVAILABLE_CODED, "small", SAME, 0), Options(1, True, sample_of_years))
    assert [network.descent.learning_rate for network in seen[2:]] == [1e-3, 7e-4]


def test_what_cross_fitting_brings_is_paired_by_draw(tmp_path):
    """MLKM+ lower by 1, 2 and 3 on the three draws that both have; a fourth, of MLKM only, does not count."""
    from paper.experiments.table8 import ideas, paired

    store = store_of(EXPERIMENTS["table8"], tmp_path)
    for seed in range(4):
        store.append(Cell(AVAILABLE_CODED, "small", "MLKM", seed), "0", {"test_mse": 100.0 + 7 * seed})
    for seed in range(3):
        found = {"test_mse": 99.0 + 6 * seed, "mean_of_mses": 101.0 + 6 * seed}
        store.append(Cell(AVAILABLE_CODED, "small", "MLKM+", seed), "0", found)
    results = store.read()
    np.testing.assert_allclose(paired(results, AVAILABLE_CODED, ("MLKM", "test_mse"), ("MLKM+", "test_mse")), [1, 2, 3])
    lines = dict(ideas(results, AVAILABLE_CODED).lines)
    assert [entry.ours for entry in lines["MLKM - MLKM+"]] == ["2 ± 0.6", "3 of 3"]
    assert [entry.ours for entry in lines["MLKM - MLKM+, rotations not averaged"]] == ["0 ± 0.6", "1 of 3"]
    assert "RKM - RKM+" not in lines


def test_draws_of_sml2010_say_where_the_published_run_lies(tmp_path):
    from paper.experiments.table7 import DRAWS, draws

    known = published("table7", "SML2010", "MLKM", "test_mse")
    store = store_of(EXPERIMENTS["table7"], tmp_path)
    for seed, distance in enumerate((-0.1, 0.1, 0.3, 0.5, 0.7)):
        store.append(Cell(CODED, "SML2010", "MLKM", seed), "0", {"test_mse": known + distance})
    table = draws(store.read())
    (name, entries), at = table.lines[0], {title: k - 1 for k, title in enumerate(table.header)}
    assert name == "MLKM"
    assert entries[at["50 %"]].ours == number(known + 0.3)
    assert entries[at["draws at or below it"]].ours == "1 of 5"
    assert entries[at["from the mean"]].ours == "-0.9 sd"
    (tmp_path / "sml2010").mkdir()
    (tmp_path / "sml2010" / "NEW-DATA-2.T15.txt").touch()
    cells = EXPERIMENTS["table7"].cells(Options(2, data_home=str(tmp_path)))
    count = {key: sum((cell.version, cell.system) == key for cell in cells) for key in ((CODED, "RKM"), (CODED, "NN"))}
    assert list(count.values()) == [DRAWS, 2]


def test_only_the_first_draws_of_sml2010_have_the_costly_band(monkeypatch):
    pytest.importorskip("torch", reason="the published networks need the extra paper")
    from paper import networks
    from paper.experiments import table7

    sample = example2(WRITTEN, 4, 0, (50, 50, 50))
    monkeypatch.setattr(table7, "sml2010", lambda *given: sample)
    monkeypatch.setattr(table7, "DESCENT_SML", {"MLKM": table7.DESCENT_SML["MLKM"].shorter(0)})
    monkeypatch.setattr(networks, "published_measures", lambda *given: {"length": 1.0})
    has_band = ["length" in table7.run(Cell(CODED, "SML2010", "MLKM", seed), Options(2)) for seed in range(4)]
    assert has_band == [True, True, False, False]


@pytest.mark.parametrize("widths", [(6, 2), (8, 3), (32, 8)])
def test_the_papers_matrix_is_singular_for_every_rkm_of_two_layers_with_one_output(widths):
    """W2 enters f through W_L W2 only, D_L numbers for D_L^2 weights, and the bias beside it repeats the last one: F'F
    has rank p - D_L^2. That of MLKM has full rank. The gap between the two kinds of singular values is wide."""
    X = np.random.default_rng(1).standard_normal((600, 3))
    for residual in (True, False):
        machine = random_machine(np.random.default_rng(0), widths=widths, residual=residual)
        F = jacobian(output_factors(machine, forward(machine, X)))
        s = np.linalg.svd(F, compute_uv=False) / np.linalg.norm(F, 2)
        rank = machine.n_parameters - (widths[1] ** 2 if residual else 0)
        assert s[rank - 1] > 1e-7
        assert (s[rank:] < 1e-13).all()


def test_published_network_of_one_layer_less_is_the_formula():
    """MLKM 2-8-4-1 with the published layers, rebuilt from its weights; the gradient of the band is that of finite
    differences."""
    torch = pytest.importorskip("torch", reason="the published networks need the extra paper")
    from paper.networks import PublishedNetwork
    from paper.settings import Descent, Shape

    X = np.random.default_rng(0).uniform(size=(30, 2))
    network = PublishedNetwork("MLKM", Shape((8, 4), (1.0, 2.0)), Descent(1e-3, 1e-3, (-0.5, 0.5), epochs=3)).fit(
        X, X[:, 0]
    )
    first, (inner, last) = network.first_, network.net_

    def phi(cosines, Z):
        return np.sqrt(2 / cosines.phases.numel()) * np.cos(Z @ cosines.frequencies.numpy() + cosines.phases.numpy())

    def affine(linear, Z):
        return Z @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()

    np.testing.assert_allclose(
        network.predict(X), affine(last, phi(inner[1], affine(inner[0], phi(first, X))))[:, 0], atol=1e-5
    )
    slopes = network.jacobian(X)
    assert slopes.shape == (30, 8 * 4 + 4 + 4 + 1)
    before = network.predict(X)
    with torch.no_grad():
        inner[0].bias[2] += 1e-2
    np.testing.assert_allclose((network.predict(X) - before) / 1e-2, slopes[:, 8 * 4 + 2].numpy(), atol=1e-2)


def test_published_band_and_its_exact_form():
    """Exchangeable rows and few weights: the exact form keeps every row and covers 95 % up to four standard errors; the
    coded one is not narrower."""
    pytest.importorskip("torch", reason="the published networks need the extra paper")
    from paper.networks import PublishedNetwork, published_band
    from paper.settings import Descent, Shape

    sample = example2(WRITTEN, 4, 0, (300, 300, 1000))
    network = PublishedNetwork("RKM", Shape((8, 2), (1.0, 1.0)), Descent(1e-3, 1e-3, (-0.5, 0.5), epochs=20)).fit(
        sample.X, sample.y
    )
    coded, exact = published_band(network, sample)
    assert exact.kept == 1
    assert abs(exact.coverage - 0.95) < 4 * np.sqrt(0.95 * 0.05 * (1 / 300 + 1 / 1000))
    if coded.kept == 1:
        assert coded.length >= exact.length * (1 - 1e-3)


def test_descent_that_diverges_is_repeated_with_smaller_steps():
    class Diverging:
        learning_rate = 0.9

        def get_params(self):
            return {"solver__learning_rate": self.learning_rate}

        def set_params(self, solver__learning_rate):
            self.learning_rate = solver__learning_rate

        def fit(self, X, y):
            if self.learning_rate > 0.15:
                raise ValueError("Gradient descent diverged: lower learning_rate.")
            return self

    assert systems.Patient(Diverging()).fit(np.zeros((3, 1)), np.arange(3.0)).learning_rate == pytest.approx(0.1)


def test_the_papers_machines_descend_on_targets_in_their_own_units():
    """Multiplying y by a number changes their course, where the package's own descent is the same up to that number."""
    from paper.settings import Descent, Shape

    X = np.random.default_rng(0).uniform(size=(60, 2))
    y = np.sin(6 * X[:, 0])
    shape, descent = Shape((8, 4), (1.0, 1.0)), Descent(1e-2, 1e-3, batch_size=30, epochs=50)
    once, tenfold = (systems.faithful("MLKM", shape, descent, 0).fit(X, c * y).predict(X) / c for c in (1.0, 10.0))
    assert np.abs(once - tenfold).max() > 0.01
    ours, tenfold = (
        systems.faithful("MLKM", shape, descent, 0).model.set_params(solver__target_sd=12.0).fit(X, c * y).predict(X)
        / c
        for c in (1.0, 10.0)
    )
    np.testing.assert_allclose(ours, tenfold, atol=1e-4)


def test_network_stops_on_the_monitored_rows_and_a_careful_one_centres():
    """With targets of the opposite sign the monitored error rises from the start; a careful network is the same for
    years counted from anywhere."""
    pytest.importorskip("torch", reason="the published networks need the extra paper")
    from paper.networks import PublishedNetwork
    from paper.settings import Descent, Shape

    X = np.random.default_rng(0).uniform(size=(100, 2))
    y = X[:, 0] - 0.5
    shape, descent = Shape((8, 4), (1.0, 1.0)), Descent(1e-2, 0.0, (-0.5, 0.5), 20, 60, test_patience=3)
    assert len(PublishedNetwork("MLKM", shape, descent).fit(X, y, monitor=(X, -y)).curve_) < 60
    assert len(PublishedNetwork("MLKM", shape, descent).fit(X, y).curve_) == 0
    near, far = (
        PublishedNetwork("MLKM", shape, descent, careful=True).fit(X, y + c).predict(X) - c for c in (0.0, 2000.0)
    )
    np.testing.assert_allclose(near, far, atol=1e-3)


def test_network_that_diverges_at_every_rate_says_so():
    pytest.importorskip("torch", reason="the published networks need the extra paper")
    from paper.networks import PublishedNetwork
    from paper.settings import Descent, Shape

    X = np.random.default_rng(0).uniform(size=(60, 2))
    network = PublishedNetwork("NN", Shape((8, 4), (1.0, 1.0)), Descent(1e9, 0.0, (-0.5, 0.5), 10, 10), careful=True)
    with pytest.raises(ValueError, match="NN still diverges"):
        network.fit(X, 1 + X[:, 0])


def test_stop_rule_of_the_published_program():
    pytest.importorskip("torch", reason="the published networks need the extra paper")
    from paper.networks import must_stop

    falling = [3.0, 2.0, 1.0, 0.5]
    assert not must_stop(falling, 3)
    assert must_stop([*falling, 1.5], 3)
    assert not must_stop([*falling, 1.5], None)


COUNT = []


def counted(cell, options):
    COUNT.append(cell)
    if cell.system == "broken":
        raise ValueError("no such system")
    return {"test_mse": float(cell.seed), "curve": [1.0, 2.5]}


@pytest.fixture
def small(monkeypatch):
    """An experiment of two systems and three seeds, one of which fails."""
    pytest.importorskip("joblib", "1.4", reason="the extra paper asks for joblib 1.4")
    COUNT.clear()
    names = ["fine", "broken"]
    experiment = Experiment(
        "small",
        "A small experiment",
        ("test_mse", "curve"),
        lambda options: [Cell(WRITTEN, "d = 1", name, seed) for name in names for seed in range(options.seeds)],
        counted,
        lambda results, folder: [comparison(results, "table5", WRITTEN, "test_mse", "Test MSE"), Text("Words.")],
    )
    monkeypatch.setitem(EXPERIMENTS, "small", experiment)
    return experiment


def run_all(experiment, options, folder):
    return list(compute(experiment, pending(experiment, options, folder), options, folder, 1, lambda cell: None))


def test_second_run_goes_on_where_the_first_stopped(small, tmp_path):
    failures = run_all(small, Options(2), tmp_path)
    assert [cell.system for cell, _ in failures] == ["broken", "broken"]
    assert "no such system" in failures[0][1]
    assert len(COUNT) == 4
    run_all(small, Options(3), tmp_path)
    assert [(cell.system, cell.seed) for cell in COUNT[4:]] == [
        ("fine", 2),
        ("broken", 0),
        ("broken", 1),
        ("broken", 2),
    ]
    results = store_of(small, tmp_path).read()
    np.testing.assert_array_equal(results.values(WRITTEN, "d = 1", "fine", "test_mse"), [0, 1, 2])
    assert results.lists(WRITTEN, "d = 1", "fine", "curve") == [[1.0, 2.5]] * 3


def test_a_line_cut_off_is_computed_again(small, tmp_path):
    run_all(small, Options(2), tmp_path)
    path = tmp_path / "small.csv"
    path.write_text(path.read_text()[:-25])
    assert Cell(WRITTEN, "d = 1", "fine", 1) in pending(small, Options(2), tmp_path)
    run_all(small, Options(2), tmp_path)
    np.testing.assert_array_equal(store_of(small, tmp_path).read().values(WRITTEN, "d = 1", "fine", "test_mse"), [0, 1])


def test_a_line_cut_off_in_its_last_number_is_no_line(small, tmp_path):
    run_all(small, Options(2), tmp_path)
    path = tmp_path / "small.csv"
    whole = path.read_text()
    path.write_text(whole[:-2])  # its number of seconds would be another one
    assert Cell(WRITTEN, "d = 1", "fine", 1) in pending(small, Options(2), tmp_path)
    run_all(small, Options(2), tmp_path)
    lines = [line.split(",")[:-1] for line in path.read_text().splitlines()]
    assert lines == [line.split(",")[:-1] for line in whole.splitlines()]


def test_empty_file_of_a_run_that_was_cut_is_begun_anew(small, tmp_path):
    (tmp_path / "small.csv").touch()
    run_all(small, Options(2), tmp_path)
    np.testing.assert_array_equal(store_of(small, tmp_path).read().values(WRITTEN, "d = 1", "fine", "test_mse"), [0, 1])


def test_quick_cells_do_not_count_as_results(small, tmp_path):
    run_all(small, Options(2, quick=True), tmp_path)
    assert len(pending(small, Options(2), tmp_path)) == 4
    assert [cell.system for cell in pending(small, Options(2, quick=True), tmp_path)] == ["broken", "broken"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("a,b\n1,2\n", "not a file of results"), ("version,row,system,seed,mlkm,test_mse\nv,r,fine,x,0,1\n", "line 2")],
)
def test_damaged_file_of_results_is_named(text, said, small, tmp_path, capsys):
    (tmp_path / "small.csv").write_text(text)
    assert main(["small", "--output", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err
    assert (tmp_path / "small.csv").read_text() == text


@pytest.mark.parametrize("wrong", [["--seeds", "0"], ["--seeds", "-3"], ["--jobs", "0"], ["--seeds", "many"]])
def test_numbers_of_seeds_and_jobs_are_checked(wrong, capsys):
    with pytest.raises(SystemExit):
        main(["table2", *wrong])
    assert "at least 1" in capsys.readouterr().err


def test_folder_that_cannot_be_made(small, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["small", "--output", str(tmp_path / "file" / "folder")]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_missing_data_and_unknown_systems_are_said(small, tmp_path, capsys):
    names = ["table7", "table8", "table9", "table10", "small"]
    main([*names, "--systems", "nobody", "--output", str(tmp_path), "--data-home", str(tmp_path)])
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("needs YearPredictionMSD") == 3
    assert "table7 needs SML2010" in said
    assert "small has none of these systems; it has fine, broken" in said


def test_reports_of_results_that_are_not_complete(tmp_path):
    for name in ("coverage", "rates", "bias"):
        experiment = EXPERIMENTS[name]
        size = 100 if name == "bias" else 20
        for cell in experiment.cells(Options(1, quick=True))[1::2]:
            value = 0.5 if name == "rates" else np.linspace(0.1, 0.9, size).tolist()
            store_of(experiment, tmp_path).append(cell, "0", {experiment.measures[0]: value})
    write_reports(tmp_path)
    assert "nan" not in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_bias_and_variance_of_known_fits():
    """Fits truth + 0.3 + noise of variance 0.04: squared bias 0.09; the difference of two machines with the same noise
    has the error of neither."""
    from paper.experiments.bias import decompose, jackknife

    noise = 0.2 * np.random.default_rng(0).standard_normal((400, 50))
    truth = np.zeros(50)
    np.testing.assert_allclose(decompose(truth + 0.3 + noise, truth), [0.09, 0.04, 0.13], atol=0.005)
    pair = np.stack([0.3 + noise, 0.1 + noise], axis=1)
    difference = jackknife(lambda v: decompose(v[:, 0], truth) - decompose(v[:, 1], truth), pair)
    assert difference[0].ours.startswith("0.0")
    assert abs(float(difference[1].ours.split(" ± ")[0])) < 1e-12


def test_store_refuses_a_measure_that_it_has_no_column_for(tmp_path):
    with pytest.raises(ValueError, match="no columns"):
        Store(tmp_path / "x.csv", ("test_mse",)).append(Cell(WRITTEN, "d = 1", "mean", 0), "0", {"other": 1.0})


def test_numbers_and_errors_as_text():
    assert [number(v) for v in (1.23456, 0.0, 1.1e-5, 12345.6, np.nan, np.inf)] == [
        "1.235",
        "0",
        "1.10e-05",
        "12346",
        "-",
        "inf",
    ]
    assert with_error(np.array([1.0, 3.0])) == "2 ± 1"
    assert with_error(np.array([2.0])) == "2"
    assert published("table5", "d = 10", "NN", "test_mse") == 0.8172
    assert omitted("table5", "d = 10", "NN", "test_mse")
    assert not omitted("table5", "d = 5", "NN", "test_mse")


def test_list_and_wrong_names(capsys):
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"table{k} " in listed for k in range(1, 11))
    with pytest.raises(SystemExit):
        main(["table99"])
    assert "no experiment is called table99" in capsys.readouterr().err


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_cells_are_distinct_and_quick_has_fewer(name, tmp_path):
    (tmp_path / "yearmsd").mkdir()
    (tmp_path / "yearmsd" / "yearmsd_8k.npz").touch()
    (tmp_path / "sml2010").mkdir()
    (tmp_path / "sml2010" / "NEW-DATA-2.T15.txt").touch()
    quick, full = (
        EXPERIMENTS[name].cells(options)
        for options in (Options(1, True, str(tmp_path)), Options(5, False, str(tmp_path)))
    )
    assert 0 < len(quick) <= len(full)
    assert len(set(full)) == len(full)
    assert {cell.version for cell in quick} == {cell.version for cell in full}


@pytest.fixture
def written(tmp_path, small):
    """A folder of results: the small experiment by the command, which reports its failures; tables and figures of
    invented numbers."""
    assert main(["small", "--seeds", "2", "--jobs", "1", "--output", str(tmp_path)]) == 1
    rng = np.random.default_rng(0)
    for name, measures in (
        ("table2", ("test_mse", "seconds", "length", "coverage")),
        ("figure5", ("curve",)),
        ("rates", ("excess",)),
    ):
        experiment = EXPERIMENTS[name]
        for cell in experiment.cells(Options(2, quick=True)):
            values = {m: rng.uniform(1, 2, 20).tolist() if m == "curve" else rng.uniform(0.9, 1) for m in measures}
            store_of(experiment, tmp_path).append(cell, "0", values)
    write_reports(tmp_path)
    return tmp_path


def test_reports_show_ours_beside_the_published(written):
    text = (written / "table2.md").read_text(encoding="utf-8")
    assert re.search(r"\| KRR \| (\*\*)?0\.9\d* ± \S+(\*\*)? \[1\.472\] \|", text)
    assert "as-written" in text
    assert "as-coded" in text
    page = (written / "index.html").read_text(encoding="utf-8")
    assert page.count("<img ") == 2
    assert '<span class="published">[1.472]</span>' in page
    assert to_markdown(Text("Words.")) in (written / "small.md").read_text(encoding="utf-8")


def test_agreement_counts_the_entries_by_their_distance(tmp_path):
    """RF met exactly, MLKM 5 % above, RKM at half of the published number; KRR, our own systems and as-written cells do
    not count."""
    from paper.agreement import blocks

    store = store_of(EXPERIMENTS["table2"], tmp_path)
    for system, factor in (("KRR", 1.0), ("RF", 1.0), ("MLKM", 1.05), ("RKM", 0.5)):
        store.append(
            Cell(CODED, "d = 4", system, 0),
            "0",
            {"test_mse": factor * published("table2", "d = 4", system, "test_mse")},
        )
    store.append(Cell(CODED, "d = 4", "mlkm", 0), "0", {"test_mse": 1.0})
    store.append(Cell(WRITTEN, "d = 4", "RF", 0), "0", {"test_mse": 1.0})
    table, far = blocks(tmp_path)
    assert [entry.ours for entry in table.lines[0][1]] == ["3", "1", "2", "2", "5.0 %"]
    assert "RKM, d = 4 (0.5)" in far.text
    assert "MLKM, d = 4" not in far.text


def test_systems_may_have_seeds_of_their_own(small, tmp_path):
    """More seeds for one system: only its cells are computed, and the table tells whose numbers are of how many."""
    small.cells(Options(1))  # both systems
    main(["small", "--seeds", "2", "--jobs", "1", "--output", str(tmp_path), "--systems", "fine"])
    assert "seeds" not in (tmp_path / "small.md").read_text(encoding="utf-8").split("|")[2]
    store_of(small, tmp_path).append(Cell(WRITTEN, "d = 1", "broken", 0), "0", {"test_mse": 7.0})
    COUNT.clear()
    main(["small", "--seeds", "10", "--jobs", "1", "--output", str(tmp_path), "--systems", "fine"])
    assert [(cell.system, cell.seed) for cell in COUNT] == [("fine", seed) for seed in range(2, 10)]
    text = (tmp_path / "small.md").read_text(encoding="utf-8")
    assert "| system | d = 1 | seeds |" in text
    assert "| fine | **4.5 ± 1** | 10 |" in text
    assert "| broken | 7 | 1 |" in text


def test_seconds_are_folded_away_at_the_end(written):
    blocks = EXPERIMENTS["table2"].report(store_of(EXPERIMENTS["table2"], written).read(), written)
    assert [isinstance(block, Details) for block in blocks[-2:]] == [False, True]
    text, page = ((written / name).read_text(encoding="utf-8") for name in ("table2.md", "index.html"))
    assert text.index("<details>") < text.index("Seconds of one fit, no search") < text.index("</details>")
    assert page.count("<details>") == page.count("</details>") == 1


def test_claims_are_decided_by_the_numbers(tmp_path):
    """MLKM+ lower than MLKM on two of three draws, RKM ahead of both networks everywhere and MLKM nowhere; what has not
    been run is not judged."""
    from paper import claims
    from paper.claims.base import NO, PART, YES, verdict

    assert [verdict([True, True]), verdict([False], [True]), verdict([False, False])] == [YES, PART, NO]
    assert claims.blocks({name: store_of(e, tmp_path).read() for name, e in EXPERIMENTS.items()}) == []
    store = store_of(EXPERIMENTS["table8"], tmp_path)
    for seed, crossed in enumerate((8.0, 9.0, 11.0)):
        errors = {"NN": 12.0, "ResNet": 12.0, "MLKM": 10.0, "MLKM+": crossed, "RKM": 7.0, "RKM+": 8.0, "mean": 9.0}
        for system, error in errors.items():
            store.append(Cell(AVAILABLE_CODED, "small", system, seed), "0", {"test_mse": error})
    write_reports(tmp_path)
    lines = (tmp_path / "claims.md").read_text(encoding="utf-8").splitlines()
    said = {line.split(" | ")[0][2:]: line.split(" | ")[1:] for line in lines if line.startswith("| ")}
    assert said["YearPredictionMSD: MLKM, RKM ahead of NN, ResNet"][0] == YES
    assert "ahead of the mean on 0 and 3 of 3" in said["YearPredictionMSD: MLKM, RKM ahead of NN, ResNet"][1]
    assert said["Cross-fitting lowers the error"][0] == PART
    assert "MLKM - MLKM+ = 0.7 ± 0.9, above 0 on 2 of 3 draws" in said["Cross-fitting lowers the error"][1]
    assert "RKM - RKM+ = -1, above 0 on 0 of 3 draws" in said["Cross-fitting lowers the error"][1]
    assert not any(claim.startswith(("Theorem", "Example", "SML")) for claim in said)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.index('id="claims"') < page.index("<nav>")
    assert '<td class="yes">yes</td>' in page


def test_every_claim_points_to_a_place_of_the_page():
    """All claims have been judged from the results that come with the repository, and their links lead somewhere."""
    from paper import claims
    from paper.__main__ import ROOT

    folder = ROOT / "paper" / "results"
    table, _ = claims.blocks({name: store_of(e, folder).read() for name, e in EXPERIMENTS.items()})
    assert len(table.lines) == len(claims.CLAIMS)
    document = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    for _, entries in table.lines:
        for _, name in entries[-1].links:
            assert f'<a id="{name}"></a>' in document
    assert to_markdown(table, link="#{}") in document


def test_document_takes_the_tables_and_keeps_our_words(written, tmp_path):
    document = tmp_path / "paper.md"
    document.write_text("Before.\n<!-- small -->\nold\n<!-- /small -->\nAfter.\n", encoding="utf-8")
    for _ in range(2):  # again and again with the same result
        write_document(written, document)
        text = document.read_text(encoding="utf-8")
        assert text.startswith("Before.\n<!-- small -->\n**Test MSE**")
        assert text.endswith("Words.\n<!-- /small -->\nAfter.\n")


def test_page_in_a_browser(written):
    """All figures load and the console stays empty; a script appended for the test counts the images that did not
    load."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not installed")
    probe = (
        "<script>addEventListener('load', () => { document.title = [...document.images].map(i => i.naturalWidth >"
        " 0).join(); });</script>"
    )
    page = written / "probe.html"
    page.write_text((written / "index.html").read_text(encoding="utf-8") + probe, encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--virtual-time-budget=3000",
        "--dump-dom",
    ]
    run = subprocess.run(
        [browser, *flags, f"--user-data-dir={written / 'browser'}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    title = re.search(r"<title>(.*?)</title>", run.stdout)[1]
    assert title == "true,true"
    assert "CONSOLE" not in run.stderr


def test_replicates_trained_at_once_are_those_trained_one_by_one():
    pytest.importorskip("torch", reason="needs the extra `paper`")
    from paper.bootstrap import predictions_of_samples
    from paper.networks import PublishedNetwork
    from paper.settings import Descent, Shape

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), rng.standard_normal(60)
    rows = rng.integers(60, size=(4, 60))
    shape, descent = Shape((8, 4), (1.0, 1.0), ("gaussian", "gaussian")), Descent(3e-2, 1e-3, (0.0, 0.5), 25, 60, 20)
    for kind in ("NN", "ResNet", "MLKM", "RKM"):
        together = predictions_of_samples(kind, shape, descent, 1, X, y, rows, X)
        alone = [PublishedNetwork(kind, shape, descent, 1).fit(X[r], y[r]).predict(X) for r in rows]
        np.testing.assert_allclose(together, alone, rtol=1e-3, atol=1e-4)
