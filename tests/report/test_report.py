"""Reports: what is on the page, that it needs nothing else, and that its numbers are right."""

import json
import re
from contextlib import nullcontext
from html.parser import HTMLParser

import browser
import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
import sklearn
from mixed_table import mixed
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from threadpoolctl import threadpool_limits

import mlkm
from mlkm import ConformalRegressor, MLKMRegressor, RandomFeatureRidge, metrics
from mlkm.datasets import make_example1
from mlkm.report.advice import watch_out
from mlkm.report.facts import fit_facts, gather

EVIL = "<script>alert('x')</script> & \"y\" </script>"


class Page(HTMLParser):
    """Elements with their attributes, and text by element."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self._open = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data):
        if self._open:
            self.text.setdefault(self._open[-1], []).append(data)

    def all(self, tag):
        return [attributes for own, attributes in self.elements if own == tag]


@pytest.fixture(scope="module")
def rows():
    frame, y = mixed(700)
    return frame.rename(columns={"size": EVIL}), y


@pytest.fixture(scope="module")
def band(rows):
    frame, y = rows
    model = MLKMRegressor(effort="fast", random_state=0).fit(frame[:300], y[:300])
    return ConformalRegressor(model, confidence_level=0.9).conformalize(frame[300:450], y[300:450])


@pytest.fixture(scope="module")
def report(band, rows):
    frame, y = rows
    return band.report(frame[450:], y[450:])


@pytest.fixture(scope="module")
def page(report):
    return Page(report.html)


def test_the_page_has_every_part(page):
    headings = " ".join(page.text["h2"])
    for words in (
        "watch out",
        "was fitted",
        "accurate",
        "band",
        "columns matter",
        "each column does",
        "misses",
        "outside",
    ):
        assert words in headings
    assert page.all("html") == [{"lang": "en"}]
    assert any("width=device-width" in own.get("content", "") for own in page.all("meta"))
    style = "".join(page.text["style"])
    assert "prefers-color-scheme: dark" in style
    assert len(page.all("h1")) == 1


def test_every_figure_has_words_and_a_table(page, report):
    plots = [own for own in page.all("div") if own.get("class") == "plot"]
    assert len(plots) >= 8
    assert all(own["role"] == "img" and len(own["aria-label"]) > 40 for own in plots)
    assert len(page.all("figcaption")) == len(page.all("details")) == len(page.all("figure")) == len(plots)
    drawn = json.loads(re.search(r'id="figures">(.*?)</script>', report.html, re.S).group(1))
    assert ["plot-" + own["name"] for own in drawn] == [own["id"] for own in sorted(plots, key=_place(drawn))]
    for own in drawn:
        go.Figure(data=_without_names(own["data"]), layout=_without_names(own["layout"]))  # plotly knows all of it


def _place(drawn):
    names = ["plot-" + own["name"] for own in drawn]
    return lambda own: names.index(own["id"])


def _without_names(value):
    """Colours for their names."""
    return json.loads(re.sub(r'"var:\w+"', '"#123456"', json.dumps(value)))


def test_the_page_needs_nothing_else(page, report):
    for _, attributes in page.elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            assert not re.match(r"\s*(https?:)?//", attributes.get(name) or ""), attributes
    assert not any("src" in own for own in page.all("script"))
    assert all(own["href"] == "data:," for own in page.all("link"))
    policy = next(own for own in page.all("meta") if "http-equiv" in own)["content"]
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert "connect-src" not in policy  # so that it is default-src: none
    assert not re.search(r"url\(|@import", "".join(page.text["style"]))
    assert len(report.html.encode()) < 6e6


def test_names_of_columns_are_text(page, report):
    assert len(page.all("script")) == 3
    assert "alert('x')" not in "".join(page.text["script"][1:])
    assert EVIL in " ".join(page.text["td"])
    assert report.html.count("<script") - report.html.count("<script>alert") >= 3


def test_numbers_are_those_of_the_rows(band, rows, report):
    frame, y = rows[0][450:], rows[1][450:]
    mean, interval = band.predict_interval(frame)
    own = report.facts.scores[0]
    assert own.rmse == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    assert own.r2 == pytest.approx(r2_score(y, mean))
    assert report.facts.band.overall == metrics.coverage(y, interval)
    assert report.facts.band.mean_width == pytest.approx(metrics.mean_width(interval))
    assert sum(coverage.n for _, _, coverage in report.facts.band.tenths) == len(y)
    np.testing.assert_array_equal(report.facts.outside, band.estimator_.outside(frame))


def test_simple_models_see_the_same_rows():
    """On numbers without repetitions they are those that anybody would fit."""
    X, y, _ = make_example1(n=600, d=4, random_state=0)
    model = RandomFeatureRidge(50, random_state=0).fit(X[:400], y[:400])
    boosting, _, mean = gather(model, X[400:], y[400:]).scores[1:]
    assert mean.rmse == pytest.approx(np.sqrt(np.mean((y[400:] - y[:400].mean()) ** 2)))
    with threadpool_limits(1, user_api="openmp"):
        other = HistGradientBoostingRegressor(random_state=0).fit(X[:400], y[:400]).predict(X[400:])
    assert boosting.rmse == pytest.approx(np.sqrt(np.mean((y[400:] - other) ** 2)), rel=0.03)  # rows in another order


def test_it_saves_and_shows_itself(report, tmp_path):
    assert report.save(tmp_path / "r.html").read_text(encoding="utf-8") == report.html
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    frame = Page(report._repr_html_()).all("iframe")[0]
    assert frame["srcdoc"] == report.html
    assert frame["sandbox"] == "allow-scripts"


def test_a_regressor_without_a_band_has_one_without_a_guarantee():
    X, y, _ = make_example1(n=400, d=4, random_state=0)
    facts = MLKMRegressor(effort="fast", random_state=0).fit(X[:200], y[:200]).report(X[200:], y[200:]).facts
    assert not facts.band.guaranteed
    assert any("no guarantee" in sentence for sentence in watch_out(facts))
    assert facts.fit.rows == 200


def test_other_regressors_and_models_without_rows_have_what_is_known(tmp_path):
    X, y, _ = make_example1(n=300, d=4, random_state=0)
    linear = ConformalRegressor(LinearRegression(), random_state=0).fit(X[:200], y[:200])
    assert linear.report(X[200:], y[200:], tmp_path / "l.html").facts.curves == ()
    assert (tmp_path / "l.html").exists()
    for n_features in (50, 150):  # sums are kept of few
        model = RandomFeatureRidge(n_features, random_state=0).fit(X[:200], y[:200])
        with nullcontext() if n_features == 50 else pytest.warns(UserWarning, match="need the training rows"):
            mlkm.save(model, tmp_path / "m.mlkm", keep_rows=False)
        facts = mlkm.load(tmp_path / "m.mlkm").report(X[200:], y[200:]).facts
        assert (facts.band is None) == (n_features == 150)
        assert len(facts.scores) == 1
        assert len(facts.notes) >= 2 - (n_features == 50)


def test_it_is_about_one_target_and_as_many_rows():
    X, y, _ = make_example1(n=100, d=4, random_state=0)
    model = RandomFeatureRidge(20, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="one target; got y with 2"):
        model.report(X, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.report(X, y[:-1])


def test_what_to_watch_out_for():
    """Rows unlike those of the calibration, rows far away, and rows of the fit."""
    X, y, _ = make_example1(n=600, d=4, random_state=0)
    model = RandomFeatureRidge(50, random_state=0).fit(X[:200], y[:200])
    band = ConformalRegressor(model).conformalize(X[200:400], y[200:400])
    fine = " ".join(watch_out(gather(band, X[400:], y[400:])))
    assert "less than the 95 %" not in fine
    assert "outside the range" not in " ".join(watch_out(gather(band, X[:200], y[:200])))
    assert "200 of 200 rows are rows of the fit itself" in " ".join(watch_out(gather(band, X[:200], y[:200])))
    noisy = " ".join(watch_out(gather(band, X[400:] + 0.5, y[400:] + 10)))
    assert "less than the 95 % asked for" in noisy
    assert "too low on average, by" in noisy
    assert "outside the range" in noisy


def test_a_fitted_regressor_shows_its_facts(band):
    shown = band._repr_html_()
    assert "Facts of the fit" in shown
    assert "sk-container" in shown or "sk-top-container" in shown
    names = [name for name, _ in fit_facts(band).summary()]
    assert names == ["rows", "inputs kept", "relevance", "leave-one-out error", "band"]
    assert "Facts of the fit" not in MLKMRegressor()._repr_html_()
    assert "Facts of the fit" in band._repr_mimebundle_()["text/html"]
    with sklearn.config_context(display="text"):
        assert list(band._repr_mimebundle_()) == ["text/plain"]
        assert not hasattr(band, "_repr_html_")
    assert "<script>alert" not in shown.split("</table>")[0]


def test_constant_targets_and_few_rows_are_no_trouble():
    X = pd.DataFrame({"x": np.arange(30.0), "gone": np.nan, "c": ["a", None] * 15})
    y = np.r_[np.arange(20.0), np.ones(10)]
    facts = MLKMRegressor(effort="fast", random_state=0).fit(X[:20], y[:20]).report(X[20:], y[20:])
    assert "undefined" in facts.html


@pytest.mark.slow
@pytest.mark.skipif(browser.CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [1280, 390])
def test_chromium_draws_every_figure_without_complaint(report, tmp_path, width):
    text, logged = browser.dumped(report.save(tmp_path / "r.html"), tmp_path / "profile", f"--window-size={width},900")
    assert logged == []
    assert text.count('class="plot js-plotly-plot"') == len(Page(report.html).all("figure"))
