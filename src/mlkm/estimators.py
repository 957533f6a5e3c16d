"""The regressors: validate, call, store."""

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_scalar

from ._seeds import root_seed
from ._types import RandomState
from .base import KernelMachine
from .fit.train import TARGET_SD, Choices, Descent, first_scale, is_auto, train_machine
from .kernels import KernelLike
from .model.features import Interactions

Auto: TypeAlias = Literal["auto"]


class RandomFeatureRidge(KernelMachine):
    """One layer in closed form: ridge regression on random features, with an intercept.

    Minimises (1/n) sum_i (y_i - a - c'phi(x_i))^2 + penalty |c|^2 on standardised inputs and targets; the penalty is
    chosen by exact leave-one-out.

    Parameters
    ----------
    n_features : int or "auto", default="auto"
        D, the number of random features.
    kernel : str, kernel or "auto", default="auto"
        Kernel of the features; see `RandomFeatures`.
    scale : float, array or "auto", default="auto"
        gamma, which multiplies the frequencies (length scale 1/gamma): one number or one per input, in the units of X
        as given. "auto" learns it on standardised inputs.
    interactions : "full", int, tuple or "auto", default="auto"
        Interaction orders of the features; see `RandomFeatures`. "auto" mixes orders 1, 2 and full, with amplitudes
        learned by the evidence.
    relevance : bool or "auto", default="auto"
        Whether every input gets scales and amplitudes of its own, learned by the evidence; False uses one scale for
        all, chosen by leave-one-out.
    linear : bool or "auto", default="auto"
        Whether the model also has a linear term in the inputs.
    penalty : float or "auto", default="auto"
        lambda; "auto" chooses it by exact leave-one-out.
    random_state : int, RandomState or None, default=None
        Seed of the features. With a given scale they are those of `RandomFeatures` with the same seed and choices, on
        centred inputs.

    Attributes
    ----------
    loo_error_ : float
        Mean squared leave-one-out error.
    penalty_, scales_, widths_ : float, tuple, tuple
        The penalty, scale and number of features in use.
    feature_relevance_ : array of shape (d,)
        Mean squared gradient of the fit along each standardised input, summing to 1.

    Examples
    --------
    >>> from mlkm import RandomFeatureRidge
    >>> from mlkm.datasets import make_example2
    >>> X, y, f = make_example2(n=500, d=4, noise=0.1, random_state=0)
    >>> model = RandomFeatureRidge(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    def __init__(
        self,
        n_features: int | Auto = "auto",
        kernel: KernelLike = "auto",
        scale: float | ArrayLike | Auto = "auto",
        *,
        interactions: Interactions | Auto = "auto",
        relevance: bool | Auto = "auto",
        linear: bool | Auto = "auto",
        penalty: float | Auto = "auto",
        random_state: RandomState = None,
    ) -> None:
        self.n_features = n_features
        self.kernel = kernel
        self.scale = scale
        self.interactions = interactions
        self.relevance = relevance
        self.linear = linear
        self.penalty = penalty
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to inputs X (n, d) and targets y (n,) or (n, k)."""
        rows = self._rows(X, y, sample_weight, automatic=is_auto(self.scale))
        choices = Choices(
            widths="auto" if self.n_features == "auto" else (self.n_features,),
            kernels=self.kernel,
            scales="auto" if is_auto(self.scale) else (self.scale,),
            interactions=self.interactions,
            relevance=_yes_no_auto("relevance", self.relevance),
            linear=_yes_no_auto("linear", self.linear),
            penalty=self.penalty,
            solver="ridge",
            residual=False,
            landmarks=False,
        )
        return self._store(train_machine(rows, choices, root_seed(self.random_state), self._units(), Descent()), rows)


class _MultiLayer(KernelMachine):
    """Constructor and `fit` of MLKM and RKM, which differ in the machine only."""

    _target_sd = TARGET_SD  # the experiments of the paper set it to that of the raw targets

    def __init__(
        self,
        widths: Sequence[int] | Auto = "auto",
        kernels: KernelLike | Sequence[KernelLike] = "auto",
        scales: float | Sequence[Any] | Auto = "auto",
        *,
        interactions: Interactions | Auto = "auto",
        relevance: bool | Auto = "auto",
        linear: bool | Auto = "auto",
        penalty: float | Auto = "auto",
        solver: Literal["auto", "ridge", "projection", "gradient"] = "auto",
        cv: Literal["rotate"] | Iterable[Any] | Any | None = None,
        learning_rate: float = 1e-3,
        momentum: float = 0.9,
        batch_size: int | None = None,
        max_iter: int = 2000,
        tol: float = 1e-4,
        patience: int = 100,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.widths = widths
        self.kernels = kernels
        self.scales = scales
        self.interactions = interactions
        self.relevance = relevance
        self.linear = linear
        self.penalty = penalty
        self.solver = solver
        self.cv = cv
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to inputs X (n, d) and targets y (n,) or (n, k)."""
        if self.solver not in ("auto", "ridge", "projection", "gradient"):
            raise ValueError(f"solver must be 'auto', 'ridge', 'projection' or 'gradient'; got {self.solver!r}.")
        descent = self._descent()
        rows = self._rows(
            X, y, sample_weight, self.cv, automatic=is_auto(first_scale(self.scales)) and self.solver != "gradient"
        )
        choices = Choices(
            widths=self.widths,
            kernels=self.kernels,
            scales=self.scales,
            interactions=self.interactions,
            relevance=_yes_no_auto("relevance", self.relevance),
            linear=_yes_no_auto("linear", self.linear),
            penalty=self.penalty,
            solver=self.solver,
            residual=self._residual,
            landmarks=True,
        )
        seed = root_seed(self.random_state)
        return self._store(train_machine(rows, choices, seed, self._units(), descent, rotate=self.cv is not None), rows)

    def _descent(self) -> Descent:
        """The settings of gradient descent, checked."""
        check_scalar(self.learning_rate, "learning_rate", Real, min_val=0, include_boundaries="neither")
        check_scalar(self.momentum, "momentum", Real, min_val=0, max_val=1, include_boundaries="left")
        check_scalar(self.max_iter, "max_iter", Integral, min_val=1)
        check_scalar(self.patience, "patience", Integral, min_val=1)
        check_scalar(self.tol, "tol", Real, min_val=0)
        if self.batch_size is not None:
            check_scalar(self.batch_size, "batch_size", Integral, min_val=1)
        return Descent(
            self.learning_rate,
            self.momentum,
            self.batch_size,
            self.max_iter,
            self.tol,
            self.patience,
            self.n_jobs,
            self._target_sd,
        )


_PARAMETERS = """
    Parameters
    ----------
    widths : sequence of int or "auto", default="auto"
        D_1..D_L, the number of random features of each layer; `(256, 16)` is the paper's d-256-16-1. "auto" is one
        layer of hundreds to thousands of features: smooth random features of all interaction orders, and a rough part
        at landmarks where the data have one.
    kernels : str, kernel, sequence of these or "auto", default="auto"
        One kernel for all layers or one per layer: "gaussian", "matern", "laplacian", "cauchy" or an object of
        `mlkm.kernels`.
    scales : float, sequence or "auto", default="auto"
        gamma of each layer: it multiplies the frequencies, so the length scale is 1/gamma. A given scale of layer 1 is
        in the units of X as given (one number, or one per input); "auto" learns it on standardised inputs. Deeper
        layers take 1/sqrt(D_l).
    interactions : "full", int, tuple or "auto", default="auto"
        How many inputs one feature of layer 1 sees: 1, 2, "full", or a tuple of these. "auto" mixes orders 1, 2 and
        full, with amplitudes learned by the evidence.
    relevance : bool or "auto", default="auto"
        Whether every input gets scales and amplitudes of its own in layer 1, learned by the evidence on at most 1500
        rows; False uses one scale for all, chosen by leave-one-out.
    linear : bool or "auto", default="auto"
        Whether the last layer also sees the inputs.
    penalty : float or "auto", default="auto"
        lambda, the weight of |W|^2 beside the mean squared error, on standardised inputs and targets.
    solver : {"auto", "ridge", "projection", "gradient"}, default="auto"
        "gradient" is the paper's descent; "ridge" the closed form of a single layer; "projection" trains hidden layers
        by variable projection, the last layer exact; "auto" takes the closed form for one layer and projection for
        more.
    cv : None, "rotate", int, splitter or iterable of splits, default=None
        None trains all layers on all rows. "rotate" is the paper's cross-fitting: one part of the rows per layer, L
        rotations, their average. With a splitter, its test folds are the parts.
    learning_rate, momentum : float
        eta and the momentum of gradient descent.
    batch_size : int or None, default=None
        Rows per step of gradient descent; None takes all.
    max_iter : int, default=2000
        Epochs at most.
    tol : float, default=1e-4
        Relative fall of the overall loss that counts as an improvement.
    patience : int, default=100
        T: training stops after this many epochs without improvement, and the best weights are restored.
    n_jobs : int or None, default=None
        Rotations run side by side. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of features, initial weights, splits and mini-batches.

    Attributes
    ----------
    machines_ : tuple of Machine
        One per rotation; the prediction is their average.
    n_iter_ : int
        Epochs run.
    loss_curve_ : list of float
        The overall loss after each epoch, for targets of variance 1.
    loo_error_ : float
        Mean squared leave-one-out error of the last layer, layers below held fixed, in squared units of y.
    penalty_, scales_, widths_ : float, tuple, tuple
        What was used; scales of layer 1 are for standardised inputs.
    feature_relevance_ : array of shape (d,)
        Mean squared gradient of the fit along each standardised input, summing to 1.
"""


class MLKMRegressor(_MultiLayer):
    __doc__ = f"""Multi-Layer Kernel Machine: f(x) = W_L phi_L(... W_1 phi_1(x)), phi_l random features, W_l trained.
{_PARAMETERS}
    Examples
    --------
    >>> from mlkm import MLKMRegressor
    >>> from mlkm.datasets import make_example2
    >>> X, y, f = make_example2(n=500, d=4, noise=0.1, random_state=0)
    >>> model = MLKMRegressor(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """


class RKMRegressor(_MultiLayer):
    __doc__ = f"""Residual Kernel Machine: layers T_l(z) = W_l^(2) phi_l(u) + u with u = W_l^(1) z, then a linear map.
{_PARAMETERS}
    Examples
    --------
    >>> from mlkm import RKMRegressor
    >>> from mlkm.datasets import make_example2
    >>> X, y, f = make_example2(n=300, d=4, noise=0.1, random_state=0)
    >>> model = RKMRegressor(widths=(64, 8), solver="gradient", max_iter=300, random_state=0).fit(X, y)
    >>> model.widths_
    (64, 8)
    """

    _residual = True


def _yes_no_auto(name: str, value: Any) -> Any:
    if not (isinstance(value, (bool, np.bool_)) or is_auto(value)):
        raise ValueError(f"{name} must be True, False or 'auto'; got {value!r}.")
    return value
