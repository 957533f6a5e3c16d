"""The paper's data: simulated examples, each returning X, y and f, the noiseless truth at X, and the two real data
sets, fetched when asked for."""

from typing import Literal

import numpy as np

from ._types import Array, RandomState
from .runtime.checks import number, one_of, whole
from .runtime.download import fetch_sml2010, fetch_year_prediction
from .runtime.resources import Purpose, check_memory, generator, root_seed
from .runtime.sizes import LARGEST_FACTOR

__all__ = ["fetch_sml2010", "fetch_year_prediction", "make_example1", "make_example2", "make_example3", "make_example4"]


def _check(n: int, d: int, noise: float, least: int = 1) -> float:
    """Check the sizes and the noise, and return the noise."""
    n, d = whole("n, the number of rows,", n), whole("d, the number of inputs,", d, least)
    check_memory(8.0 * d * (n + d), f"{n} rows of {d} inputs", "ask for fewer")
    return number("noise", noise, at_least=0, at_most=LARGEST_FACTOR)


def example1_truth(X: Array) -> Array:
    """Return the truth of Example 1, f(x) = f_1(x_1) + ... + f_4(x_4): sparse and additive.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows of at least 4 inputs.

    Returns
    -------
    array of shape (n,).

    Examples
    --------
    >>> example1_truth(np.zeros((1, 4))).round(1)
    array([6.6])
    """
    s1, c1, s4 = np.sin(2 * np.pi * X[:, 0]), np.cos(2 * np.pi * X[:, 0]), np.sin(2 * np.pi * X[:, 3])
    f1 = 6 * (0.1 * s1 + 0.2 * c1 + 0.3 * s1**2 + 0.4 * c1**3 + 0.5 * s1**3)
    f: Array = f1 + 3 * (2 * X[:, 1] - 1) ** 2 + 5 * X[:, 2] + 4 * s4 / (2 - s4)
    return f


def make_example1(
    n: int, d: int, *, t: float = 1.0, noise: float = 1.0, random_state: RandomState = None
) -> tuple[Array, Array, Array]:
    """Draw Example 1: four additive components, inputs X_j = (E_j + t U) / (1 + t) with E_j, U uniform on [0, 1].

    Parameters
    ----------
    n : int
        Number of rows.
    d : int
        Number of inputs, at least 4.
    t : float, default=1.0
        Weight of U, which makes the inputs correlated.
    noise : float, default=1.0
        Standard deviation of the normal noise.
    random_state : int, RandomState or None, default=None
        Seed of the inputs and the noise.

    Returns
    -------
    X : array of shape (n, d)
        The inputs.
    y : array of shape (n,)
        f plus the noise.
    f : array of shape (n,)
        The noiseless truth at X.

    Examples
    --------
    >>> X, y, f = make_example1(n=100, d=8, random_state=0)
    >>> X.shape, y.shape, f.shape
    ((100, 8), (100,), (100,))
    """
    noise = _check(n, d, noise, least=4)
    t = number("t", t, at_least=0, at_most=LARGEST_FACTOR)
    rng = generator(root_seed(random_state), Purpose.DATA)
    X = (rng.uniform(size=(n, d)) + t * rng.uniform(size=(n, 1))) / (1 + t)
    f = example1_truth(X)
    return X, f + noise * rng.standard_normal(n), f


def example2_truth(X: Array, exponent: float = -1.0) -> Array:
    """Return the truth of Example 2, f(x) = f_1(x_1) + sum_{j=2..4} a_j(x_1) f_j(x_j): interactions with the first
    input.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows of at least 4 inputs.
    exponent : float, default=-1.0
        The constant in f_4(x) = e^x + e^exponent - 1.

    Returns
    -------
    array of shape (n,).

    Examples
    --------
    >>> example2_truth(np.zeros((1, 4))).round(2)
    array([-0.19])
    """
    x1, x4 = X[:, 0], X[:, 3].copy()  # NumPy 1.26 may round exp of a view otherwise from call to call
    a2, a3 = np.sqrt(2 / np.pi) * np.exp(-((x1 - 1) ** 2) / 2), 3 * np.cos(2 * np.pi * x1)
    f4 = np.exp(x4) + np.exp(exponent) - 1
    f: Array = -2 * np.sin(2 * np.pi * x1) + a2 * (X[:, 1] ** 2 - 1 / 3) + a3 * (X[:, 2] - 0.5) + 4 * f4
    return f


def make_example2(
    n: int, d: int, *, noise: float = 1.0, exponent: float = -1.0, random_state: RandomState = None
) -> tuple[Array, Array, Array]:
    """Draw Example 2: interactions with x_1, inputs uniform on [0, 1].

    Parameters
    ----------
    n : int
        Number of rows.
    d : int
        Number of inputs, at least 4.
    noise : float, default=1.0
        Standard deviation of the normal noise.
    exponent : float, default=-1.0
        The constant in f_4(x) = e^x + e^exponent - 1: -1 as the paper writes it, +1 as its experiments were coded.
    random_state : int, RandomState or None, default=None
        Seed of the inputs and the noise.

    Returns
    -------
    X : array of shape (n, d)
        The inputs.
    y : array of shape (n,)
        f plus the noise.
    f : array of shape (n,)
        The noiseless truth at X.

    Examples
    --------
    >>> X, y, f = make_example2(n=100, d=8, noise=0.0, random_state=0)
    >>> X.shape, bool((y == f).all())
    ((100, 8), True)
    """
    noise = _check(n, d, noise, least=4)
    exponent = number("exponent", exponent, at_least=-700, at_most=700)
    rng = generator(root_seed(random_state), Purpose.DATA)
    X = rng.uniform(size=(n, d))
    f = example2_truth(X, exponent)
    return X, f + noise * rng.standard_normal(n), f


def make_example3(
    n: int,
    d: int = 10,
    *,
    function: Literal["trig", "sin_ratio", "mix"] = "trig",
    law: Literal["uniform", "normal"] = "uniform",
    noise: float = 0.0,
    coefficients: RandomState = 0,
    random_state: RandomState = None,
) -> tuple[Array, Array, Array]:
    """Draw Example 3: d additive components, trigonometric polynomials, sine ratios, or half of each.

    Parameters
    ----------
    n : int
        Number of rows.
    d : int, default=10
        Number of inputs, at least 1.
    function : {"trig", "sin_ratio", "mix"}, default="trig"
        Trigonometric polynomials, sine ratios, or half of each.
    law : {"uniform", "normal"}, default="uniform"
        Inputs uniform on [-2, 2]^d, or normal with covariance 0.5^|j-k|.
    noise : float, default=0.0
        Standard deviation of the normal noise.
    coefficients : int, RandomState or None, default=0
        Seed of the coefficients, uniform on [1, 2]: a training and a test sample with different `random_state` share
        one truth.
    random_state : int, RandomState or None, default=None
        Seed of the inputs and the noise.

    Returns
    -------
    X : array of shape (n, d)
        The inputs.
    y : array of shape (n,)
        f plus the noise.
    f : array of shape (n,)
        The noiseless truth at X.

    Examples
    --------
    >>> X, y, f = make_example3(n=100, law="normal", random_state=0)
    >>> X.shape, y.shape
    ((100, 10), (100,))
    """
    noise = _check(n, d, noise)
    one_of("function", function, ("trig", "sin_ratio", "mix"))
    one_of("law", law, ("uniform", "normal"))
    coefficient_rng = generator(root_seed(coefficients, "coefficients"), Purpose.DATA, 3)
    rng = generator(root_seed(random_state), Purpose.DATA)
    u, c = coefficient_rng.uniform(1, 2, (3, d)), coefficient_rng.uniform(1, 2, (2, d))
    if law == "uniform":
        X = rng.uniform(-2, 2, (n, d))
    else:
        covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
        X = rng.standard_normal((n, d)) @ np.linalg.cholesky(covariance).T
    n_trigonometric = {"trig": d, "sin_ratio": 0, "mix": d // 2}[function]
    left, right = np.split(X, [n_trigonometric], axis=1)
    (u1, u2, u3), (c1, c2) = u[:, :n_trigonometric], c[:, n_trigonometric:]
    trigonometric = u1 * np.sin(left) + u2 * np.cos(left) + u3 * np.sin(left) ** 2
    f = trigonometric.sum(axis=1) + (np.sin(c1 * right) / (2 - np.sin(c2 * right))).sum(axis=1)
    return X, f + noise * rng.standard_normal(n), f


def make_example4(
    n: int, d: int, *, n_active: int | None = None, noise: float = 0.0, random_state: RandomState = None
) -> tuple[Array, Array, Array]:
    """Draw Example 4: components x_j + 2 exp(-16 x_j^2) of the first inputs, all uniform on [0, 1].

    Parameters
    ----------
    n : int
        Number of rows.
    d : int
        Number of inputs, at least 1.
    n_active : int, default=None
        Number of inputs that matter; by default 10, or d where that is less.
    noise : float, default=0.0
        Standard deviation of the normal noise.
    random_state : int, RandomState or None, default=None
        Seed of the inputs and the noise.

    Returns
    -------
    X : array of shape (n, d)
        The inputs.
    y : array of shape (n,)
        f plus the noise.
    f : array of shape (n,)
        The noiseless truth at X.

    Examples
    --------
    >>> X, y, f = make_example4(n=100, d=20, random_state=0)
    >>> bool((f <= 30).all())
    True
    """
    noise = _check(n, d, noise)
    n_active = min(d, 10) if n_active is None else n_active
    whole("n_active", n_active, 1, int(d))
    rng = generator(root_seed(random_state), Purpose.DATA)
    X = rng.uniform(size=(n, d))
    active = X[:, :n_active]
    f = (active + 2 * np.exp(-16 * active**2)).sum(axis=1)
    return X, f + noise * rng.standard_normal(n), f
