"""The plan of a fit: what a constructor's values ask for, checked once, and what the data then decide.

>>> plan = Plan.parse({"widths": (256, 16), "cv": "rotate"})
>>> plan.depth, plan.closed_form, plan.automatic, plan.n_parts
(2, False, True, 2)
>>> plan.at(d=4, seed=7).orders
(1, 4)
>>> Plan.parse({"penalty": -1})
Traceback (most recent call last):
...
ValueError: penalty must be 'auto', 'cv' or a number of at least 0; got -1.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import mul
from typing import Any

import numpy as np

from .._types import Array, IntArray
from ..data import Standardiser, as_splitter, splits_of
from ..kernels import Gaussian, Kernel, as_kernel
from ..model.features import Interactions, as_orders
from ..model.scales import Geometric, check_scale
from ..runtime import checks as check
from ..runtime.checks import brief, is_auto
from ..runtime.progress import Deadline
from ..runtime.resources import check_memory
from ..runtime.sizes import LARGEST_ANGLE
from ..solve import BY_NAME, GradientDescent, Ridge, Solver, VariableProjection
from ..solve.solver import as_solver
from .cost import Cost, cost_of_default, cost_of_features, within
from .policy import Policy, check_effort, current_policy, with_effort

_AUTOMATIC = ("widths", "kernels", "scales", "interactions", "relevance", "linear", "penalty", "solver")
_NOT_GIVEN: dict[str, Any] = dict.fromkeys(_AUTOMATIC, "auto") | dict.fromkeys(("cv", "effort", "n_jobs"))
_OTHER_SPLITS = "None, 'rotate'"  # what `cv` may be beside a splitter, in messages


@dataclass(frozen=True)
class Plan:
    """The settings of a fit, with "auto" resolved as far as that is possible before data are seen, and what data
    decide.

    `Plan.parse` checks the values of a constructor and reads no rows. `sized` adds the policy, by the number of rows
    and columns, and `at` adds what the inputs decide.

    Attributes
    ----------
    widths : tuple of int or None
        Numbers of features per layer; None lets the default choose that of its one layer.
    kernels : tuple of Kernel
        One per layer.
    given_scales : tuple
        One per layer, in the units of X for layer 1; "auto" where it is chosen.
    interactions : int, "full" or a tuple of these
        Interaction orders of layer 1.
    slopes : tuple of float
        Candidates of the prior standard deviation of a linear term, where it is not learned; empty without that term.
    penalty : float or None
        None where it is chosen, by leave-one-out or, where there are `penalties`, by cross-validation over these.
    penalties : tuple of float
        Candidates of five-fold cross-validation, where that was asked for.
    solver : Solver
        How the weights are computed.
    cv : None, "rotate", int, splitter or iterable of splits
        How rows are split for cross-fitting; None does not split them.
    effort : str, float or None
        The name of an effort, or a number of seconds; None leaves the policy as it is.
    n_jobs : int or None
        How many rotations run at the same time.
    residual : bool
        Whether layers are residual blocks.
    landmarks : bool
        Whether the default may take kernels at all rows or at landmarks in the place of random features.
    learned : bool
        Whether the scales of layer 1 are learned by the evidence.
    rough : bool
        Whether the learned kernels may have a rough part.
    policy : Policy
        The numbers that "auto" decides by: the policy in force, and after `sized` with the sizes of the effort.
    seed : int
        Root of all random numbers; set by `at`, as are the following.
    scales : tuple of array or None
        One per layer, on standardised inputs; None where that of layer 1 is chosen.
    orders : tuple of int
        Interaction orders of layer 1 as numbers of inputs.
    origin : array or None
        The origin of the inputs in standardised units, where features of a given scale are functions of uncentred
        inputs.
    n_rows : int or None
        The number of all rows, where a fit sees a sample of them.
    """

    widths: tuple[int, ...] | None
    kernels: tuple[Kernel, ...]
    given_scales: tuple[Any, ...]
    interactions: Interactions
    slopes: tuple[float, ...]
    penalty: float | None
    penalties: tuple[float, ...]
    solver: Solver
    cv: Any
    effort: str | float | None
    n_jobs: int | None
    residual: bool
    landmarks: bool
    learned: bool
    rough: bool
    policy: Policy
    seed: int = 0
    scales: tuple[Array | None, ...] = (None,)
    orders: tuple[int, ...] = ()
    origin: Array | None = None
    n_rows: int | None = None

    @classmethod
    def parse(cls, params: Mapping[str, Any], *, residual: bool = False, landmarks: bool = False) -> "Plan":
        """Check the values of a constructor, all of them but the size of scales, which depends on the inputs.

        Parameters
        ----------
        params : mapping
            Values of widths, kernels, scales, interactions, relevance, linear, penalty, solver, cv, effort and n_jobs;
            those that are missing are left open, and other names are ignored.
        residual : bool, default=False
            Whether layers are residual blocks.
        landmarks : bool, default=False
            Whether the default may take kernels at all rows or at landmarks in the place of random features.

        Returns
        -------
        Plan
            What was asked for.
        """
        asked = _NOT_GIVEN | {name: value for name, value in params.items() if name in _NOT_GIVEN}
        policy = current_policy()
        check_effort(asked["effort"])
        named = None if is_auto(asked["solver"]) else as_solver(asked["solver"], BY_NAME)
        by_descent = named is not None and named.by_descent
        widths = _widths(asked["widths"]) or (policy.descent_widths if by_descent else None)
        depth = 1 if widths is None else len(widths)
        solver = named or (Ridge() if depth == 1 else VariableProjection())
        if named is not None:
            named.check(depth)
        scales, kernels, interactions = asked["scales"], asked["kernels"], asked["interactions"]
        by_layer = isinstance(scales, Geometric)
        scales = tuple(scales.of_layers(depth) if by_layer else check.per_layer("scales", scales, depth))
        relevance, linear = (check.yes_no_auto(name, asked[name]) for name in ("relevance", "linear"))
        learned = is_auto(scales[0]) and bool(relevance) and not by_descent
        open_choices = widths is None and is_auto(kernels) and is_auto(interactions)
        if is_auto(interactions):
            interactions = (1, "full") if learned else "full"
        as_orders(interactions, 1)
        return cls(
            widths=widths,
            kernels=tuple(
                Gaussian() if is_auto(name) else as_kernel(name) for name in check.per_layer("kernels", kernels, depth)
            ),
            given_scales=scales,
            interactions=interactions,
            slopes=(0.0, 1.0) if is_auto(linear) else (1.0,) if linear else (),
            penalty=_penalty(asked["penalty"]),
            penalties=policy.penalties if is_text(asked["penalty"], "cv") else (),
            solver=solver,
            cv=_cv(asked["cv"]),
            effort=asked["effort"],
            n_jobs=_n_jobs(asked["n_jobs"]),
            residual=residual,
            landmarks=landmarks,
            learned=learned,
            rough=landmarks and learned and open_choices,
            policy=policy,
        )

    def sized(self, n: int, d: int, *, in_memory: bool = True) -> "Plan":
        """Return the plan with the sizes of its effort, or if that is a time, with the sizes that it allows for n rows
        of d columns."""
        if self.seconds is None:
            return self._with(with_effort(self.policy, self.effort))
        policy = within(self.seconds, self.policy, lambda one: self._with(one).cost(n, d, in_memory=in_memory))
        return self._with(policy)

    def _with(self, policy: Policy) -> "Plan":
        """Return the plan with a policy, and the number of rows that a solver of kernels asks for, if it does."""
        rows = self.solver.kernel_rows
        return replace(self, policy=policy if rows is None else replace(policy, kernel_rows=(int(rows),) * 2))

    def at(self, d: int, units: Standardiser | None = None, *, seed: int = 0, n_rows: int | None = None) -> "Plan":
        """Return the plan with what the data decide.

        Parameters
        ----------
        d : int
            The number of inputs.
        units : Standardiser, optional
            The means and standard deviations by which inputs are standardised, 0 and 1 by default: given scales of
            layer 1 are in the units of X. In closed form, features of a given scale are functions of uncentred inputs.
        seed : int, default=0
            Root of all random numbers.
        n_rows : int, optional
            The number of all rows, where a fit sees a sample of them.

        Returns
        -------
        Plan
            With scales, orders, origin, seed and number of rows.
        """
        sizes = (d, *(self.widths or ()))
        needed = 8.0 * sum(map(mul, sizes, sizes[1:]))
        check_memory(needed, f"Layers of widths {brief(self.widths)}", "give fewer features")
        unit, mean = np.ones(d), np.zeros(d)
        if units is not None:
            unit, mean = np.where(np.isfinite(units.sd), units.sd, 1.0), units.mean
        scales = tuple(self._scale(layer, d, unit) for layer in range(self.depth))
        origin = mean / unit if self.closed_form else None
        _check_angles(scales[0], 0.0 if origin is None else origin)
        orders = as_orders(self.interactions, d)
        return replace(self, scales=scales, orders=orders, origin=origin, seed=seed, n_rows=n_rows)

    def _scale(self, layer: int, d: int, unit: Array) -> Array | None:
        """Return the scale of a layer; None where that of layer 1 is chosen. Deeper layers take 1/sqrt(D_l)."""
        scale = self.given_scales[layer]
        size = self.widths[layer] if layer and self.widths is not None else d
        if is_auto(scale):
            return np.array(1 / np.sqrt(size)) if layer else None
        return check_scale(scale, size) * (1.0 if layer else unit)

    @property
    def depth(self) -> int:
        """Return the number of layers."""
        return 1 if self.widths is None else len(self.widths)

    @property
    def descent(self) -> GradientDescent | None:
        """Return the solver if it is the paper's descent, else None."""
        return self.solver if isinstance(self.solver, GradientDescent) else None

    @property
    def n_features(self) -> int | None:
        """Return D_1, where it was given."""
        return None if self.widths is None else self.widths[0]

    @property
    def kernel(self) -> Kernel:
        """Return the kernel of layer 1."""
        return self.kernels[0]

    @property
    def linear(self) -> bool:
        """Return whether there is a linear term in the inputs."""
        return bool(self.slopes)

    @property
    def automatic(self) -> bool:
        """Return whether the scale of layer 1 is chosen by the rows; inputs and predictions are then kept within
        limits."""
        return is_auto(self.given_scales[0]) and self.descent is None

    @property
    def closed_form(self) -> bool:
        """Return whether the fit is one layer in closed form, which can be summed up over blocks of rows."""
        return self.cv is None and self.depth == 1 and self.solver.in_closed_form and not self.penalties

    @property
    def takes_levels(self) -> bool:
        """Return whether the fit is the default's, whose kernels take levels of categories; others take numbers."""
        return self.rough and self.cv is None and self.penalty is None and not self.penalties

    @property
    def rotate(self) -> bool:
        """Return whether rows are split, and machines trained by rotations of the parts."""
        return self.cv is not None

    @property
    def n_parts(self) -> int | None:
        """Return the number of parts that rows are split into; 0 where they are not, None for a splitter, which has to
        see all rows."""
        if self.cv is None:
            return 0
        if is_text(self.cv, "rotate"):
            return self.depth
        return self.cv if isinstance(self.cv, int) else None

    @property
    def seconds(self) -> float | None:
        """Return the seconds that the fit may take, None if the effort is not a time."""
        return None if self.effort is None or isinstance(self.effort, str) else float(self.effort)

    def folds(self, X: Array, y: Array) -> IntArray | None:
        """Return the part of every row under a splitter, the number of its test fold; None without a splitter."""
        if self.cv is None or is_text(self.cv, "rotate"):
            return None
        return splits_of(as_splitter(self.cv, _OTHER_SPLITS), X, y)[0]

    def parts(self, d: int) -> tuple[str, ...]:
        """Return the names of the kernel terms that a search of d inputs learns."""
        several = max(self.orders) > 1 or d == 1
        asked = ("additive",) * (1 in self.orders) + ("gaussian",) * several
        names = (term.name for term in self.policy.terms)
        return tuple(name for name in names if (self.linear if name == "linear" else self.rough or name in asked))

    def sums(self, n: int) -> bool:
        """Return whether n rows are so many that the fit is computed from sums over blocks of them."""
        return self.closed_form and n > self.policy.kernel_rows[0]

    def cost(self, n: int, d: int, *, in_memory: bool = True) -> Cost:
        """Return the cost of a fit to n rows of d columns under the policy, by the default's kernels or by features."""
        if self.widths is None and self.landmarks:
            return cost_of_default(n, d, self.policy, in_memory)
        D, given = self.n_features or self.policy.width(n), self.widths is not None
        return cost_of_features(n, d, D, given=given, in_memory=in_memory, searched=self.automatic, policy=self.policy)

    def deadline(self, begin: float, n: int, d: int, *, in_memory: bool = True) -> Deadline:
        """Return when the search and the fit have to end, where the effort is a time: the search has at least a fourth
        of it."""
        if self.seconds is None:
            return Deadline()
        after_search = self.cost(n, d, in_memory=in_memory).after_search
        return Deadline(begin + max(self.seconds - after_search, self.seconds / 4), begin + self.seconds)

    def with_penalty(self, penalty: float) -> "Plan":
        """Return the plan with this penalty."""
        return replace(self, penalty=penalty, penalties=())


def is_text(value: object, text: str) -> bool:
    """Return whether a value is this text; arrays, which compare by element, are not."""
    return isinstance(value, str) and value == text


def _widths(widths: Any) -> tuple[int, ...] | None:
    """Return the numbers of features, None where they are chosen."""
    if is_auto(widths):
        return None
    try:
        given = tuple(int(D) for D in widths)
        valid = len(given) > 0 and all(1 <= D <= sys.maxsize and D == E for D, E in zip(given, widths, strict=True))
    except (TypeError, ValueError, OverflowError):
        valid = False
    if not valid:
        raise ValueError(
            f"widths must be 'auto' or positive whole numbers, one per layer, as in (256, 16); got {brief(widths)}."
        )
    return given


def _check_angles(scale: Array | None, origin: Array | float) -> None:
    """Refuse a given scale that makes angles, inputs times scale, so large that their squares overflow."""
    size = 0.0 if scale is None else float(np.max(scale * np.maximum(1.0, np.abs(origin)), initial=0.0))
    if size > LARGEST_ANGLE:
        raise ValueError(
            f"The inputs times the given scale are of size {size:.3g}, at which cosines are rounding error only; give"
            f" a scale with which they are below {LARGEST_ANGLE:.0e}, or 'auto', or rescale the inputs."
        )


def _penalty(penalty: object) -> float | None:
    """Return the penalty, None where it is chosen."""
    if isinstance(penalty, str) and penalty in ("auto", "cv"):
        return None
    return check.number("penalty", penalty, at_least=0, words="'auto', 'cv' or a number of at least 0")


def _cv(cv: Any) -> Any:
    """Return how rows are split, checked; splits that can be iterated over once only are left for the fit to check."""
    unsplit = cv is None or is_text(cv, "rotate") or isinstance(cv, Iterator)
    return cv if unsplit else as_splitter(cv, _OTHER_SPLITS)


def _n_jobs(n_jobs: Any) -> int | None:
    """Return the number of jobs, checked."""
    if n_jobs is not None and check.whole("n_jobs", n_jobs, -sys.maxsize) == 0:
        raise ValueError("n_jobs must be None or a whole number other than 0; got 0.")
    return None if n_jobs is None else int(n_jobs)
