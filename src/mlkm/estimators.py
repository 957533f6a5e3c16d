"""The regressors: each checks its parameters, calls the fit and stores the result."""

from collections.abc import Sequence
from inspect import cleandoc
from typing import Literal, Self, TypeAlias, TypeVar

from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ._types import RandomState
from .base import KernelMachine
from .data import checked_weights
from .data.preparation import given_rows
from .incremental import Incremental
from .kernels import KernelLike
from .model.features import Interactions
from .model.scales import Geometric
from .runtime.callbacks import listening
from .runtime.checks import as_targets, brief, is_auto, named_parameters, whole
from .runtime.resources import root_seed
from .search.plan import Plan
from .solve import GradientDescent, Solver

Auto: TypeAlias = Literal["auto"]
Model = TypeVar("Model", bound="_MultiLayer")


class RandomFeatureRidge(Incremental):
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
        Interaction orders of the features; see `RandomFeatures`. "auto" uses order 1 and full order, with amplitudes
        learned by the evidence.
    relevance : bool or "auto", default="auto"
        Whether every input has its own scales and amplitudes, learned by the evidence; False uses one scale for all,
        chosen by leave-one-out.
    linear : bool or "auto", default="auto"
        Whether the model also has a linear term in the inputs.
    penalty : float or "auto", default="auto"
        lambda; "auto" chooses it by exact leave-one-out.
    categorical_features : "from_dtype", None, names, places or a mask, default="from_dtype"
        Columns that are categories though they hold numbers. Words, pandas' and polars' categories and enumerations are
        always categories; "from_dtype" and None add none.
    verbose : 0, 1 or callable, default=0
        1 shows the progress of a fit on stderr; a function is called with every `mlkm.Event`, one at a time, from any
        thread. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the features. With a given scale they are those of `RandomFeatures` with the same seed and choices,
        whatever the rows.

    Attributes
    ----------
    loo_error_ : float
        Mean squared leave-one-out error, in squared units of y. With a given scale it is exact, the penalty held fixed.
        With scale="auto" and up to 1000 rows it is the error on held-out rows that neither the search nor the fit has
        used: five, two or one of five folds. With more rows, and after `partial_fit`, `forget` and `mlkm.merge`, the
        features are held fixed; with many inputs the error is then too small, because the search has used the same
        rows.
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

    @named_parameters
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
        categorical_features: object = "from_dtype",
        verbose: object = 0,
        random_state: RandomState = None,
    ) -> None:
        self.n_features = n_features
        self.kernel = kernel
        self.scale = scale
        self.interactions = interactions
        self.relevance = relevance
        self.linear = linear
        self.penalty = penalty
        self.categorical_features = categorical_features
        self.verbose = verbose
        self.random_state = random_state

    def _plan(self) -> Plan:
        """Return the plan of the checked parameters, which is one layer in closed form."""
        asked = {
            "widths": "auto" if is_auto(self.n_features) else (whole("n_features", self.n_features),),
            "kernels": self.kernel,
            "scales": "auto" if is_auto(self.scale) else (self.scale,),
            "solver": "ridge",
        }
        return Plan.parse(vars(self) | asked)


class _MultiLayer(KernelMachine):
    """Constructor, `fit` and `refit` of MLKM and RKM, which differ in the machine only.

    Parameters
    ----------
    widths : sequence of int or "auto", default="auto"
        D_1..D_L, the number of random features of each layer; `(256, 16)` is the paper's d-256-16-1. "auto" is one
        layer whose features are kernels at all training rows: smooth ones on learned directions and a rough one on
        ranks, each with a relevance for every input.
    kernels : str, kernel, sequence of these or "auto", default="auto"
        One kernel for all layers or one per layer: "gaussian", "matern", "laplacian", "cauchy" or an object of
        `mlkm.kernels`.
    scales : float, sequence, `Geometric` or "auto", default="auto"
        gamma of each layer: it multiplies the frequencies, so the length scale is 1/gamma. A given scale of layer 1 is
        in the units of X as given (one number, or one per input); "auto" learns it on standardised inputs. Deeper
        layers take 1/sqrt(D_l).
    interactions : "full", int, tuple or "auto", default="auto"
        How many inputs one feature of layer 1 depends on: 1, 2, "full", or a tuple of these. "auto" uses features of
        single inputs and of all inputs, with amplitudes learned by the evidence.
    relevance : bool or "auto", default="auto"
        Whether every input has its own scales and amplitudes in layer 1, learned by the evidence of a few hundred rows;
        False uses one scale for all, chosen by leave-one-out.
    linear : bool or "auto", default="auto"
        Whether the last layer also sees the inputs.
    penalty : float, "auto" or "cv", default="auto"
        lambda, the weight of |W|^2 beside the mean squared error, on standardised inputs and targets. "auto" chooses it
        by exact leave-one-out in closed form, and is 1e-4 for descent; "cv" is five-fold cross-validation.
    cv : None, "rotate", int, splitter or iterable of splits, default=None
        None trains all layers on all rows. "rotate" is the paper's cross-fitting: one part of the rows per layer, L
        rotations, their average. With a splitter, its test folds are the parts.
    solver : solver, "auto", "ridge", "projection" or "gradient", default="auto"
        How the weights are computed: an object of `mlkm.solvers`, which holds its settings, or its short name.
        `Ridge()` is the closed form of a single layer; `VariableProjection()` trains hidden layers and solves for the
        last layer exactly; `GradientDescent()` is the paper's descent. "auto" takes the first for one layer and the
        second for more.
    effort : "fast", "balanced", "best" or a number of seconds, default="balanced"
        How much time the default may take. It sets the number of searches and their rows, the rows that are solved on,
        and whether hidden layers are tried beside the kernels. A number of seconds makes these as large as the estimate
        of their time (`estimate_cost`) allows, up to those of "best", and a search that is late stops early; the result
        then depends on the speed of the machine. The time of fits with given `widths` is not limited.
    categorical_features : "from_dtype", None, names, places or a mask, default="from_dtype"
        Columns that are categories though they hold numbers. Words, pandas' and polars' categories and enumerations are
        always categories; "from_dtype" and None add none.
    n_jobs : int or None, default=None
        The number of rotations that run in parallel. The result does not depend on it.
    verbose : 0, 1 or callable, default=0
        1 shows the progress of a fit on stderr; a function is called with every `mlkm.Event`, one at a time, from any
        thread. The result does not depend on it.
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
        Mean squared leave-one-out error, in squared units of y. Where the scale of layer 1 is learned and there are
        up to 1000 rows, it is the error on held-out rows that neither the search nor the fit has used. With more rows,
        with given scales and by descent, features are held fixed, also those of trained hidden layers, which makes it
        too small if these overfit; it is exact for one layer of a given scale.
    penalty_, scales_, widths_ : float, tuple, tuple
        The penalty, scales and numbers of features in use; scales of layer 1 are for standardised inputs.
    feature_relevance_ : array of shape (d,)
        How much each column matters, summing to 1: the mean squared gradient of the fit along each standardised input,
        and in tables with categories or missing values the mean squared change of the prediction when a row takes its
        value of a column from another row.
    """

    _residual = False

    @named_parameters
    def __init__(
        self,
        widths: Sequence[int] | Auto = "auto",
        kernels: KernelLike | Sequence[KernelLike] = "auto",
        scales: float | Sequence[object] | Geometric | Auto = "auto",
        *,
        interactions: Interactions | Auto = "auto",
        relevance: bool | Auto = "auto",
        linear: bool | Auto = "auto",
        penalty: float | Literal["auto", "cv"] = "auto",
        cv: object = None,
        solver: Literal["auto", "ridge", "projection", "gradient"] | Solver = "auto",
        effort: Literal["fast", "balanced", "best"] | float = "balanced",
        categorical_features: object = "from_dtype",
        n_jobs: int | None = None,
        verbose: object = 0,
        random_state: RandomState = None,
    ) -> None:
        self.widths = widths
        self.kernels = kernels
        self.scales = scales
        self.interactions = interactions
        self.relevance = relevance
        self.linear = linear
        self.penalty = penalty
        self.cv = cv
        self.solver = solver
        self.effort = effort
        self.categorical_features = categorical_features
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @classmethod
    @named_parameters
    def published(
        cls,
        widths: Sequence[int] = (256, 16),
        scales: float | Sequence[object] | Geometric = 1.0,
        *,
        kernels: KernelLike | Sequence[KernelLike] = "gaussian",
        penalty: float | Literal["cv"] = "cv",
        cv: object = "rotate",
        solver: GradientDescent | Literal["gradient"] = "gradient",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> Self:
        """Return an estimator that is exactly Algorithm 1 of the paper.

        It uses features of full order at the given scales, without a linear term or relevances, and trains them by
        gradient descent on targets that are centred but not rescaled, by rotations of subsamples; `cv=None` trains all
        layers jointly on all rows. `penalty="cv"` chooses the penalty by five-fold cross-validation, as the paper does.
        What the paper leaves open is set by the solver: `GradientDescent(learning_rate, momentum, batch_size, max_iter,
        patience, steps, initial)`.

        >>> from mlkm import MLKMRegressor
        >>> MLKMRegressor.published(widths=(32, 8), penalty=1e-3).solver
        GradientDescent(target_sd='own')
        """
        descent = GradientDescent() if isinstance(solver, str) and solver == "gradient" else solver
        if not isinstance(descent, GradientDescent):
            raise ValueError(
                f"Algorithm 1 is solver='gradient' or a GradientDescent(...) of its own; got {brief(solver)}."
            )
        descent = clone(descent)
        if is_auto(descent.target_sd):
            descent.set_params(target_sd="own")
        return cls(
            widths, kernels, scales, interactions="full", relevance=False, linear=False,
            penalty=penalty, cv=cv, solver=descent, n_jobs=n_jobs, random_state=random_state,
        )  # fmt: skip

    def set_params(self, **params: object) -> Self:
        """Set parameters by name; `solver__learning_rate` and the like are those of a solver given as an object."""
        solver, nested = params.get("solver", self.solver), [name for name in params if name.startswith("solver__")]
        if nested and isinstance(solver, str):
            raise ValueError(
                f"{nested[0]} is a setting of a solver object, and solver={solver!r} is a short name for one with its"
                " defaults; give the object, as in solver=GradientDescent()."
            )
        super().set_params(**params)
        return self

    def refit(self, X: object, y: object, sample_weight: ArrayLike | None = None) -> Self:
        """Solve on other rows of the same columns with the first layer that `fit` has learned, without a search:
        relevances, directions, ranks and the scalings of the inputs are held fixed; variances, noise, penalty and
        weights are estimated from the rows given. This is several times faster than `fit`, and about as accurate if the
        dependence of y on X has not changed.

        Hidden layers of effort="best" are left out. `loo_error_` holds the kernel fixed, so that it is too small if the
        search has used the same rows.

        Examples
        --------
        >>> from mlkm import MLKMRegressor
        >>> from mlkm.datasets import make_example2
        >>> X, y, f = make_example2(n=600, d=4, noise=0.1, random_state=0)
        >>> model = MLKMRegressor(random_state=0).fit(X[:300], y[:300])
        >>> before = model.loo_error_
        >>> bool(model.refit(X, y).loo_error_ < before)
        True
        """
        plan = self._plan()
        check_is_fitted(self)
        if not given_rows(X).in_memory:
            raise ValueError("refit takes rows in memory; call fit for rows in files or on a cluster.")
        self.fitted_.first_layer()
        with listening(self.verbose):
            inputs, targets = self.fitted_.preparation.read(self, X), as_targets(y)
            check_consistent_length(inputs, targets)
            weights = checked_weights(sample_weight, len(targets))
            self.fitted_ = self.fitted_.refit(inputs, targets, weights, plan, root_seed(self.random_state))
        return self

    def _plan(self) -> Plan:
        """Return the plan of the checked parameters."""
        return Plan.parse(vars(self), residual=self._residual, landmarks=True)


def _with_parameters(model: type[Model]) -> type[Model]:
    """Return a class whose docstring has the parameters and attributes of `_MultiLayer` before its examples."""
    summary, heading, examples = cleandoc(model.__doc__ or "").partition("Examples\n")
    _, first, sections = cleandoc(_MultiLayer.__doc__ or "").partition("Parameters\n")
    model.__doc__ = f"{summary}{first}{sections}\n\n{heading}{examples}"
    return model


@_with_parameters
class MLKMRegressor(_MultiLayer):
    """Multi-Layer Kernel Machine: f(x) = W_L phi_L(... W_1 phi_1(x)), phi_l random features, W_l trained.

    Examples
    --------
    >>> from mlkm import MLKMRegressor
    >>> from mlkm.datasets import make_example2
    >>> X, y, f = make_example2(n=500, d=4, noise=0.1, random_state=0)
    >>> model = MLKMRegressor(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """


@_with_parameters
class RKMRegressor(_MultiLayer):
    """Residual Kernel Machine: layers T_l(z) = W_l^(2) phi_l(u) + u with u = W_l^(1) z, then a linear map.

    Examples
    --------
    >>> from mlkm import RKMRegressor
    >>> from mlkm.datasets import make_example2
    >>> from mlkm.solvers import GradientDescent
    >>> X, y, f = make_example2(n=300, d=4, noise=0.1, random_state=0)
    >>> model = RKMRegressor(widths=(64, 8), solver=GradientDescent(max_iter=300), random_state=0).fit(X, y)
    >>> model.widths_
    (64, 8)
    """

    _residual = True
