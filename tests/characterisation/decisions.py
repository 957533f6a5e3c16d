"""What a fit decides by a search, recorded and given back: the one place of these tests that knows inner modules.

A search amplifies rounding errors, so that results after a change of the code can be compared to many digits only where
both have the same decisions. A decision is the value of one inner function: it is stored as named arrays, together with
a few moments of what the function was given, by which it is recognised in whatever order fits are made.

`DECISIONS` names those functions. Where they move or change their arguments, only the entries of that list change.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from threading import Lock
from typing import Any
from unittest.mock import patch

import numpy as np

from mlkm.model.transforms import TargetTransform
from mlkm.search.policy import Policy, policy_context

# parameters of the kernels of one search: their plain names, and the terms and names that the package has for them
PARAMETERS = {
    "additive_amplitude": ("additive", "amplitude"),
    "additive_scale": ("additive", "scale"),
    "gaussian_amplitude": ("gaussian", "amplitude"),
    "gaussian_scale": ("gaussian", "scale"),
    "gaussian_turn": ("gaussian", "turn"),
    "laplace_amplitude": ("laplace", "amplitude"),
    "laplace_relevance": ("laplace", "scale"),
    "linear_slope": ("linear", "slope"),
    "text_slope": ("linear", "text"),
    "text_gaussian": ("gaussian", "text"),
    "text_laplace": ("laplace", "text"),
    "noise": ("noise", "amplitude"),
}
TRANSFORM = ("power", "centre", "spread", "mean", "sd", "low", "high")
SAME = 1e-3  # by which moments of the same rows may differ, relative to their size: results of float32 are among them

Arrays = dict[str, np.ndarray]


@contextmanager
def few_rows_are_many(**sizes: Any) -> Iterator[None]:
    """Fits inside treat more than 300 rows as those that are too many for kernels."""
    with policy_context(Policy(**{"kernel_rows": (300, 300), "layer_work": (1e8, 100, 100), **sizes})):
        yield


def few_search_steps() -> Any:
    """Fits inside search on fewer rows, and by fewer steps."""
    return policy_context(
        Policy(joint_rows=300, first_joint_rows=200, variance_rows=300, joint_steps=(12, 10), draws=1)
    )


def hidden_layers_always() -> Any:
    """Fits inside keep the hidden layers that they were asked for, also where one layer does as well."""
    return policy_context(Policy(worth_depth=np.inf))


def kernels_alone() -> Any:
    """Fits inside have nothing beside the kernels, and no row is held out."""
    return policy_context(Policy(stack_rows=0))


# --- the decisions, each with what it is recognised by


def _of_rows(rows: Any, *_: Any) -> list[Any]:
    """Without the coordinates of texts, which are directions of a decomposition and differ between processors."""
    return [rows.X[:, ~rows.inputs.texts], rows.Y, rows.weights]


def _of_sample(sample: Any, begin: Any, *_: Any) -> list[Any]:
    return [sample.Y, sample.weights, [begin is None]]


def _of_samples(samples: Sequence[Any], *_: Any) -> list[Any]:
    return [part for sample in samples for part in _of_sample(sample, None)]


def _of_kernels(kernels: Sequence[Any], Y: Any, weights: Any, *_: Any) -> list[Any]:
    return [Y, weights, *kernels]


def _of_members(predictions: Any, Y: Any, weights: Any, *_: Any) -> list[Any]:
    return [Y, weights, np.ones(len(predictions))]


def _of_targets(*arrays: Any) -> list[Any]:
    return list(arrays)


def _plain_parameters(parameters: dict[str, Any]) -> Arrays:
    every = {plain: parameters.get(term, {}).get(name) for plain, (term, name) in PARAMETERS.items()}
    return {plain: value for plain, value in every.items() if value is not None}


def _parameters(arrays: Arrays) -> dict[str, Any]:
    parameters: dict[str, Any] = {name: {} for name in ("additive", "gaussian", "laplace", "levels", "linear", "noise")}
    for plain, value in arrays.items():
        term, name = PARAMETERS[plain]
        parameters[term][name] = value
    return parameters


def _plain_transform(transform: TargetTransform) -> Arrays:
    return {name: getattr(transform, name) for name in TRANSFORM}


def _plain_inputs(decided: tuple[Any, Any]) -> Arrays:
    return {"inputs": decided[0], **_plain_parameters(decided[1])}


def _inputs(arrays: Arrays) -> tuple[Any, Any]:
    others = {name: value for name, value in arrays.items() if name != "inputs"}
    return arrays["inputs"].astype(np.intp), _parameters(others)


def _plain_number(value: Any) -> Arrays:
    return {"value": np.asarray(value, np.float64)}


def _array(arrays: Arrays) -> Any:
    return arrays["value"]


def _number(arrays: Arrays) -> float:
    return float(arrays["value"])


@dataclass(frozen=True)
class Decision:
    """An inner function that decides: where it is called from, what it is recognised by, and its value as arrays."""

    kind: str
    places: tuple[str, ...]
    seen: Callable[..., list[Any]]
    plain: Callable[[Any], Arrays]
    value: Callable[[Arrays], Any]


DECISIONS = (
    Decision("input selection", ("mlkm.search.kernel_search.select_inputs",), _of_rows, _plain_inputs, _inputs),
    Decision("kernel parameters", ("mlkm.search.kernel_search._search",), _of_sample, _plain_parameters, _parameters),
    Decision(
        "residual search", ("mlkm.search.kernel_search.learn_together",), _of_samples, _plain_parameters, _parameters
    ),
    Decision(
        "kernel variances and noise",
        ("mlkm.search.kernel_search.kernel_variances",),
        _of_kernels,
        _plain_number,
        _array,
    ),
    Decision(
        "target transform",
        ("mlkm.fit.default.fit_target_transform",),
        _of_targets,
        _plain_transform,
        lambda arrays: TargetTransform(**arrays),
    ),
    Decision("noise on the other scale", ("mlkm.fit.default.share_of_spread",), _of_targets, _plain_number, _number),
    Decision(
        "shares",
        ("mlkm.fit.default.convex_weights", "mlkm.fit.deep.convex_weights"),
        _of_members,
        _plain_number,
        _array,
    ),
    Decision("shares of both scales", ("mlkm.fit.default.shared_weights",), _of_members, _plain_number, _array),
)


# --- recording and giving back


def _moments(parts: Sequence[Any]) -> np.ndarray:
    """Return sizes and moments that tell the arguments of a decision from others, whatever the order of the rows."""
    result: list[float] = []
    for part in parts:
        values = np.asarray(part, np.float64).ravel()
        result += [len(part), len(values), *(float(np.sum(values**k)) / max(len(values), 1) for k in (1, 2, 3))]
    return np.array(result)


@dataclass
class Decided:
    """One decision as it is stored."""

    kind: str
    moments: np.ndarray
    arrays: Arrays
    uses: int = 0

    def is_of(self, kind: str, moments: np.ndarray) -> bool:
        """Return whether it was made for arguments with these moments."""
        if kind != self.kind or len(moments) != len(self.moments):
            return False
        return bool(np.all(np.abs(moments - self.moments) <= SAME * (1 + np.abs(self.moments))))

    def distance(self, moments: np.ndarray) -> float:
        """Return how far its arguments are from those with these moments."""
        return float(np.abs(moments - self.moments).max())


@dataclass
class Decisions:
    """The decisions of one setting, in the order they were made."""

    made: list[Decided] = field(default_factory=list)
    _lock: Any = field(default_factory=Lock)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Fits inside search, and what they decide is added here."""
        with self._replaced(self._recording):
            yield

    @contextmanager
    def given(self) -> Iterator[None]:
        """Fits inside take the decisions that are here, and fail where one is missing."""
        with self._replaced(self._giving):
            yield

    @contextmanager
    def _replaced(self, by: Callable[[Decision, Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
        with ExitStack() as stack:
            for decision in DECISIONS:
                for place in decision.places:
                    module, name = place.rsplit(".", 1)
                    original = getattr(import_module(module), name)
                    stack.enter_context(patch(place, by(decision, original)))
            yield

    def _recording(self, decision: Decision, original: Callable[..., Any]) -> Callable[..., Any]:
        def searched(*args: Any) -> Any:
            moments, value = _moments(decision.seen(*args)), original(*args)
            with self._lock:
                arrays = {name: np.array(array, np.float64) for name, array in decision.plain(value).items()}
                self.made.append(Decided(decision.kind, moments, arrays))
            return value

        return searched

    def _giving(self, decision: Decision, original: Callable[..., Any]) -> Callable[..., Any]:
        def given(*args: Any) -> Any:
            moments = _moments(decision.seen(*args))
            with self._lock:
                same = [decided for decided in self.made if decided.is_of(decision.kind, moments)]
                if not same:
                    raise AssertionError(f"No decision on {decision.kind} was recorded for these rows: {moments}.")
                chosen = min(same, key=lambda decided: (round(decided.distance(moments), 5), decided.uses))
                chosen.uses += 1
            return decision.value({name: array.copy() for name, array in chosen.arrays.items()})

        return given
