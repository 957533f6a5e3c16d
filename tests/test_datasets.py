"""The paper's examples: formulas at points worked out by hand, laws of the inputs, variance of the truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares
from scipy.stats import norm

from mlkm.datasets import example1_truth, example2_truth, make_example1, make_example2, make_example3, make_example4

MAKERS = [
    pytest.param(lambda **o: make_example1(d=5, **o), id="example1"),
    pytest.param(lambda **o: make_example2(d=5, **o), id="example2"),
    pytest.param(lambda **o: make_example3(d=5, **o), id="example3"),
    pytest.param(lambda **o: make_example4(d=5, **o), id="example4"),
]


def close_to_variance(f, reference, rounding=5e-4):
    """Whether the variance of f over its sample is `reference`, up to the rounding of the latter and 5 standard errors:
    level 6e-7 a test."""
    centred = f - f.mean()
    error = np.sqrt(np.var(centred**2) / len(f))
    return abs(f.var() - reference) < rounding + 5 * error


def test_example1_at_points():
    """x = 0: f_1 = 6 (.2 + .4), f_2 = 3, f_3 = f_4 = 0. x = 1/4: s = 1, c = 0. The last inputs do nothing."""
    assert example1_truth(np.array([[0.0, 0.0, 0.0, 0.0, 9.0]])) == pytest.approx(6 * 0.6 + 3)
    assert example1_truth(np.array([[0.25, 0.5, 1.0, 0.25, -2.0]])) == pytest.approx(6 * (0.1 + 0.3 + 0.5) + 0 + 5 + 4)
    assert example1_truth(np.array([[0.75, 1.0, 0.2, 0.75, 0.0]])) == pytest.approx(
        6 * (-0.1 + 0.3 - 0.5) + 3 + 1 - 4 / 3
    )
    assert example1_truth(np.array([[0.125, 0.25, 0.0, 0.5, 0.0]])) == pytest.approx(
        6 * (0.3 * 2**-0.5 + 0.3 / 2 + 0.9 * 2**-1.5) + 3 / 4, rel=1e-12
    )


def test_example2_at_points():
    """f = -2 sin(2 pi x1) + sqrt(2/pi) e^{-(x1-1)^2/2} (x2^2 - 1/3) + 3 cos(2 pi x1) (x3 - 1/2) + 4 (e^x4 + e^{-1} -
    1)."""
    e = np.e
    assert example2_truth(np.array([[0.0, 0.0, 0.0, 0.0]])) == pytest.approx(
        -((2 / np.pi) ** 0.5) * e**-0.5 / 3 - 1.5 + 4 / e
    )
    assert example2_truth(np.array([[1.0, 1.0, 1.0, 1.0]])) == pytest.approx(
        (2 / np.pi) ** 0.5 * 2 / 3 + 1.5 + 4 * (e + 1 / e - 1)
    )
    assert example2_truth(np.array([[0.25, 0.5, 0.9, 0.0]])) == pytest.approx(
        -2 - (2 / np.pi) ** 0.5 * e ** (-9 / 32) / 12 + 4 / e
    )
    assert example2_truth(np.array([[0.0] * 4]), exponent=1.0) - example2_truth(np.array([[0.0] * 4])) == pytest.approx(
        4 * (e - 1 / e)
    )


@pytest.mark.parametrize("function", ["trig", "sin_ratio", "mix"])
@pytest.mark.parametrize("law", ["uniform", "normal"])
def test_example3_is_its_formula_for_some_coefficients_between_one_and_two(function, law):
    """Fitted by least squares from the middle; the residual vanishes. With d = 2, the mixture is trigonometric in x1, a
    sine ratio in x2."""
    X, y, f = make_example3(400, 2, function=function, law=law, random_state=0)

    def component(x, kind, c):
        if kind == "trig":
            return c[0] * np.sin(x) + c[1] * np.cos(x) + c[2] * np.sin(x) ** 2
        return np.sin(c[0] * x) / (2 - np.sin(c[1] * x))

    kinds = {"trig": ("trig", "trig"), "sin_ratio": ("ratio", "ratio"), "mix": ("trig", "ratio")}[function]
    sizes = [3 if kind == "trig" else 2 for kind in kinds]

    def residuals(c):
        return component(X[:, 0], kinds[0], c[: sizes[0]]) + component(X[:, 1], kinds[1], c[sizes[0] :]) - f

    fit = least_squares(residuals, np.full(sum(sizes), 1.5), xtol=1e-15, ftol=1e-15, gtol=1e-15)
    np.testing.assert_allclose(fit.fun, 0, atol=1e-7)
    if (
        function != "trig"
    ):  # with two trigonometric components, their coefficients of cos and sin^2 are found as well, but less sharply
        assert ((fit.x > 1 - 1e-6) & (fit.x < 2 + 1e-6)).all()
    np.testing.assert_array_equal(y, f)


def test_example3_shares_one_truth_between_samples():
    """The coefficients come from their own seed: equal inputs of two samples would have equal f."""
    X, _, f = make_example3(2000, 1, random_state=0)
    X2, _, f2 = make_example3(2000, 1, random_state=1)
    order = np.argsort(X[:, 0])
    assert np.abs(np.interp(X2[:, 0], X[order, 0], f[order]) - f2).max() < 0.05
    _, _, other = make_example3(2000, 1, random_state=0, coefficients=1)
    assert np.abs(other - f).max() > 0.05


def test_example4_is_its_formula():
    X, y, f = make_example4(50, 12, random_state=0)
    np.testing.assert_allclose(f, sum(X[:, j] + 2 * np.exp(-16 * X[:, j] ** 2) for j in range(10)))
    np.testing.assert_array_equal(y, f)
    X, _, f = make_example4(50, 12, n_active=1, random_state=0)
    np.testing.assert_allclose(f, X[:, 0] + 2 * np.exp(-16 * X[:, 0] ** 2))


@pytest.mark.parametrize(("t", "reference"), [(0.3, 15.225), (1.0, 13.693)])
def test_variance_of_example1(t, reference):
    assert close_to_variance(make_example1(400_000, 4, t=t, random_state=0)[2], reference)


def test_variance_of_example2():
    """The constant in f_4 does not change it."""
    assert close_to_variance(make_example2(400_000, 4, random_state=0)[2], 6.290)


@pytest.mark.parametrize(("d", "active"), [(3, 3), (10, 10), (20, 10)])
def test_variance_of_example4(d, active):
    assert close_to_variance(make_example4(200_000, d, random_state=0)[2], 0.1957 * active, rounding=5e-5 * active)


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
def test_inputs_of_example1_are_correlated(t):
    """cor(X_j, X_k) = t^2 / (1 + t^2). Six pairs at 5 standard errors of Fisher's z: level 4e-6 a value of t."""
    X, _, _ = make_example1(100_000, 4, t=t, random_state=1)
    assert X.min() >= 0
    assert X.max() <= 1
    z = np.arctanh(np.corrcoef(X.T)[np.triu_indices(4, 1)])
    assert np.abs(z - np.arctanh(t**2 / (1 + t**2))).max() < 5 / np.sqrt(100_000)


def test_inputs_of_example3():
    """Covariance 0.5^|j-k| at 5 standard errors, at most sqrt(2 / n) each: level 1e-5; or uniform on [-2, 2]."""
    X, _, _ = make_example3(100_000, 4, law="normal", random_state=0)
    expected = 0.5 ** np.abs(np.subtract.outer(range(4), range(4)))
    assert np.abs(np.cov(X.T) - expected).max() < 5 * np.sqrt(2 / 100_000)
    X, _, _ = make_example3(100_000, 4, random_state=0)
    assert X.min() >= -2
    assert X.max() <= 2
    assert np.abs(np.cov(X.T) - 4 / 3 * np.eye(4)).max() < 5 * (4 / 3) / np.sqrt(100_000)


@pytest.mark.parametrize("make", MAKERS)
def test_noise_is_normal_with_the_given_sd(make):
    """Mean and variance of (y - f) / noise at the level 1e-4 each."""
    n = 20_000
    _, y, f = make(n=n, noise=0.7, random_state=3)
    z = (y - f) / 0.7
    bound = norm.ppf(1 - 5e-5)
    assert abs(z.mean()) < bound / np.sqrt(n)
    assert abs(z.var() - 1) < bound * np.sqrt(2 / n)
    _, y, f = make(n=10, noise=0.0)
    np.testing.assert_array_equal(y, f)


@pytest.mark.parametrize("make", MAKERS)
def test_seeds_and_shapes(make):
    first, again, other = make(n=30, random_state=0), make(n=30, random_state=0), make(n=30, random_state=1)
    assert [a.shape for a in first] == [(30, 5), (30,), (30,)]
    for a, b, c in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a != c).any()
    assert make(n=30, random_state=np.random.RandomState(0))[0].shape == (30, 5)
    assert (make(n=30)[0] != make(n=30)[0]).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_example1(10, 3), "number of inputs, must be a whole number of at least 4; got 3"),
        (lambda: make_example2(10, 3), "number of inputs, must be a whole number of at least 4; got 3"),
        (lambda: make_example3(10, 0), "number of inputs, must be a whole number of at least 1; got 0"),
        (lambda: make_example1(0, 4), "number of rows, must be a whole number of at least 1; got 0"),
        (lambda: make_example1(10, 4, t=-1.0), "t must be a finite number of at least 0 and at most .*; got -1.0"),
        (
            lambda: make_example1(10**12, 4),
            r"rows of 4 inputs need about 32000\.0 GB, and .* may be taken; .* or ask for fewer",
        ),
        (lambda: make_example3(10, function="linear"), "function must be 'trig', 'sin_ratio' or 'mix'; got 'linear'"),
        (lambda: make_example3(10, law="t"), "law must be 'uniform' or 'normal'; got 't'"),
        (lambda: make_example4(10, 5, n_active=6), "n_active must be a whole number from 1 to 5; got 6"),
        (lambda: make_example4(10, 5, n_active=0), "n_active must be a whole number from 1 to 5; got 0"),
    ],
)
def test_bad_arguments_are_explained(call, message):
    with pytest.raises((ValueError, MemoryError), match=message):
        call()


NO_NUMBERS = st.sampled_from([None, "5", "", [5], (), {}, 5j, np.array([5, 6]), np.array("x"), np.nan, True, object()])
NO_SIZES = NO_NUMBERS | st.floats() | st.integers(max_value=0) | st.integers(min_value=10**13)
NO_AMOUNTS = NO_NUMBERS | st.floats(max_value=0, exclude_max=True) | st.sampled_from([np.inf, 1e308])
NO_CHOICES = NO_NUMBERS | st.text().filter(lambda text: text not in ("trig", "sin_ratio", "mix", "uniform", "normal"))
BAD = {
    make_example1: {"n": NO_SIZES, "d": NO_SIZES | st.integers(1, 3), "noise": NO_AMOUNTS, "t": NO_AMOUNTS},
    make_example2: {"n": NO_SIZES, "d": NO_SIZES | st.integers(1, 3), "noise": NO_AMOUNTS, "exponent": NO_NUMBERS},
    make_example3: {"n": NO_SIZES, "d": NO_SIZES, "noise": NO_AMOUNTS, "function": NO_CHOICES, "law": NO_CHOICES},
    make_example4: {
        "n": NO_SIZES,
        "d": NO_SIZES,
        "noise": NO_AMOUNTS,
        "n_active": (NO_SIZES | st.integers(6, 99)).filter(lambda value: value is not None),
    },
}


@pytest.mark.parametrize(
    ("make", "name"), [(make, name) for make, names in BAD.items() for name in names], ids=lambda x: str(x)[:23]
)
@given(data=st.data())
def test_whatever_is_bad_is_explained_in_one_sentence(make, name, data):
    """One argument is bad, the others are good. Before, most of these were errors of NumPy, or NaN."""
    value = data.draw(BAD[make][name])
    with pytest.raises((ValueError, MemoryError), match=r"^.*\b(must be .*; got|inputs need about) .*\.\Z") as error:
        make(**{"n": 5, "d": 5, "noise": 0.5} | {name: value})
    assert isinstance(error.value, MemoryError) or name in str(error.value).split("; got")[0]


@pytest.mark.parametrize("make", BAD)
def test_sizes_of_numpy_are_sizes(make):
    X, _, _ = make(np.int32(7), np.uint8(4), noise=np.float32(0.5), random_state=0)
    np.testing.assert_array_equal(X, make(7, 4, noise=0.5, random_state=0)[0])
