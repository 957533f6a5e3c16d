"""What was asked for, checked once, and what is left open for "auto"."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import mul
from typing import Any, Literal, cast

import numpy as np

from .._types import Array
from ..kernels import Gaussian, Kernel, KernelLike, as_kernel
from ..model.features import Interactions, as_orders
from ..model.scales import Geometric, check_scale
from ..runtime import checks as check
from ..runtime.checks import brief, is_auto
from ..runtime.memory import check_memory
from ..solve import BY_NAME, GradientDescent, Kernels, Ridge, Solver, VariableProjection
from ..solve.solver import as_solver
from .policy import Policy, current_policy

_LARGEST_ANGLE = 1e100  # far above where cosines lose all digits (1e16), far below where squares overflow (1e154)
DESCENT_WIDTHS = (256, 16)  # the paper's shape from 16 inputs on
PENALTIES = tuple(10.0**k for k in range(-7, 1))  # candidates of penalty="cv", as in the paper's searches


@dataclass(frozen=True)
class Plan:
    """The choices with nothing left open but what is None: the widths, the scale of layer 1, the penalty.

    `slopes` are what the prior standard deviation of a linear term may be where it is not learned; there are none
    without that term. `learned` says that layer 1 is searched for, `rough` that it may have a rough part, and
    `penalties` are the candidates of five-fold cross-validation, if that was asked for.
    """

    widths: tuple[int, ...] | None
    kernels: tuple[Kernel, ...]
    scales: tuple[Array | None, ...]
    orders: tuple[int, ...]
    slopes: tuple[float, ...]
    penalty: float | None
    penalties: tuple[float, ...]
    solver: Solver
    residual: bool
    learned: bool
    rough: bool
    rotate: bool
    seed: int
    n_jobs: int | None
    policy: Policy
    n_rows: int | None = None  # how many there are, where a fit sees a sample of them
    origin: Array | None = None  # the inputs' origin in standardised units, where features are to be held at it

    @property
    def depth(self) -> int:
        return 1 if self.widths is None else len(self.widths)

    @property
    def n_features(self) -> int | None:
        """D_1, where it was given."""
        return None if self.widths is None else self.widths[0]

    @property
    def kernel(self) -> Kernel:
        """That of layer 1."""
        return self.kernels[0]

    @property
    def linear(self) -> bool:
        return bool(self.slopes)

    def parts(self, d: int) -> tuple[str, ...]:
        """Return the names of the kernel terms that a search of d inputs learns."""
        several = max(self.orders) > 1 or d == 1
        asked = ("additive",) * (1 in self.orders) + ("gaussian",) * several
        names = (term.name for term in self.policy.terms)
        return tuple(name for name in names if (self.linear if name == "linear" else self.rough or name in asked))

    @property
    def automatic(self) -> bool:
        """Whether the scale of layer 1 is the default's, whose predictions are kept within limits."""
        return self.scales[0] is None and not isinstance(self.solver, GradientDescent)

    def with_penalty(self, penalty: float) -> "Plan":
        return replace(self, penalty=penalty, penalties=())


def make_plan(
    d: int,
    unit: Array,
    *,
    widths: Sequence[int] | Literal["auto"],
    kernels: KernelLike | Sequence[KernelLike],
    scales: Any,
    interactions: Interactions | Literal["auto"],
    relevance: bool | Literal["auto"],
    linear: bool | Literal["auto"],
    penalty: float | Literal["auto", "cv"],
    solver: Any,
    seed: int,
    residual: bool = False,
    landmarks: bool = False,
    rotate: bool = False,
    n_jobs: int | None = None,
    policy: Policy | None = None,
    n_rows: int | None = None,
    origin: Array | None = None,
) -> Plan:
    """Check every choice. `unit` holds the inputs' standard deviations: given scales of layer 1 are in the units of
    X."""
    given = _widths(widths)
    by_descent = isinstance(solver, GradientDescent) or (isinstance(solver, str) and solver == "gradient")
    if given is None and by_descent:
        given = DESCENT_WIDTHS
    sizes = (d, *(given or ()))
    check_memory(8.0 * sum(map(mul, sizes, sizes[1:])), f"Layers of widths {brief(given)}", "give fewer features")
    depth = 1 if given is None else len(given)
    trained_by = _solver(solver, depth)
    layers = check.per_layer("kernels", kernels, depth)
    if n_jobs is not None and check.whole("n_jobs", n_jobs, -sys.maxsize) == 0:
        raise ValueError("n_jobs must be None or a whole number other than 0; got 0.")
    at = _scales(scales, given, d, unit)
    _check_angles(at[0], 0.0 if origin is None else origin)
    searched, has_linear = check.yes_no_auto("relevance", relevance), check.yes_no_auto("linear", linear)
    learned = at[0] is None and searched is not False and not by_descent
    rough = landmarks and learned and given is None and is_auto(kernels) and is_auto(interactions)
    mixed: Interactions = (1, "full") if learned else "full"
    return Plan(
        widths=given,
        kernels=tuple(Gaussian() if is_auto(name) else as_kernel(name) for name in layers),
        scales=at,
        orders=as_orders(mixed if is_auto(interactions) else cast(Interactions, interactions), d),
        slopes=(0.0, 1.0) if is_auto(has_linear) else (1.0,) if has_linear else (),
        penalty=_penalty(penalty),
        penalties=PENALTIES if isinstance(penalty, str) and penalty == "cv" else (),
        solver=trained_by,
        residual=residual,
        learned=learned,
        rough=rough,
        rotate=rotate,
        seed=seed,
        n_jobs=n_jobs,
        policy=policy_for(current_policy() if policy is None else policy, trained_by),
        n_rows=n_rows,
        origin=origin,
    )


def policy_for(policy: Policy, solver: Any) -> Policy:
    """The policy with the rows that a solver of kernels is to take, if it says so."""
    if not isinstance(solver, Kernels) or solver.max_rows is None:
        return policy
    most = check.whole("max_rows", solver.max_rows)
    return replace(policy, kernel_rows=(most, most))


def is_automatic(scales: Any, solver: Any) -> bool:
    """Whether the scale of layer 1 is left to the default, which then keeps inputs and predictions within limits."""
    first = scales[0] if isinstance(scales, (tuple, list)) and len(scales) else scales
    return is_auto(first) and not (isinstance(solver, GradientDescent) or is_text(solver, "gradient"))


def takes_levels(*, cv: Any, landmarks: bool = False, **choices: Any) -> bool:
    """Whether the fit is the default's, whose kernels take levels of categories as they are; others take numbers."""
    open_choices = ("widths", "kernels", "scales", "interactions", "penalty")
    return (
        landmarks
        and cv is None
        and _by_ridge(choices["solver"])
        and all(is_auto(choices[name]) for name in open_choices)
        and choices["relevance"] is not False
    )


def in_closed_form(*, cv: Any, **choices: Any) -> bool:
    """Whether the fit is one layer in closed form, which can be summed up over pieces of the rows."""
    solver, widths = choices["solver"], choices["widths"]
    one = is_auto(widths) or (isinstance(widths, (tuple, list)) and len(widths) == 1)
    return cv is None and one and _by_ridge(solver) and not is_text(choices["penalty"], "cv")


def _by_ridge(solver: Any) -> bool:
    """Whether one layer is solved in closed form."""
    return is_auto(solver) or isinstance(solver, Ridge) or is_text(solver, "ridge") or is_text(solver, "kernels")


def is_text(value: Any, text: str) -> bool:
    return isinstance(value, str) and value == text


def _solver(solver: Any, depth: int) -> Solver:
    if is_auto(solver):
        return Ridge() if depth == 1 else VariableProjection()
    return as_solver(solver, depth, BY_NAME)


def _widths(widths: Any) -> tuple[int, ...] | None:
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


def _scales(scales: Any, widths: tuple[int, ...] | None, d: int, unit: Array) -> tuple[Array | None, ...]:
    """One scale per layer; None where that of layer 1 is to be learned. Deeper layers take 1/sqrt(D_l) by
    themselves."""
    depth = 1 if widths is None else len(widths)
    given = scales.of_layers(depth) if isinstance(scales, Geometric) else check.per_layer("scales", scales, depth)
    result: list[Array | None] = []
    for layer, scale in enumerate(given):
        size = widths[layer] if layer and widths is not None else d
        if is_auto(scale):
            result.append(np.array(1 / np.sqrt(size)) if layer else None)
        else:
            result.append(check_scale(scale, size) * (1.0 if layer else unit))
    return tuple(result)


def _check_angles(scale: Array | None, origin: Array | float) -> None:
    """Refuse a given scale that makes angles, inputs times scale, so large that their squares overflow."""
    size = 0.0 if scale is None else float(np.max(scale * np.maximum(1.0, np.abs(origin)), initial=0.0))
    if size > _LARGEST_ANGLE:
        raise ValueError(
            f"The inputs times the given scale are of size {size:.3g}, at which cosines are rounding error only; give"
            f" a scale with which they are below {_LARGEST_ANGLE:.0e}, or 'auto', or rescale the inputs."
        )


def _penalty(penalty: Any) -> float | None:
    if isinstance(penalty, str) and penalty in ("auto", "cv"):
        return None
    return check.number("penalty", penalty, at_least=0, words="'auto', 'cv' or a number of at least 0")
