"""Examples 1 to 4 as the paper writes them: t = 1 and e^-1; 2000 training rows for Examples 1 and 2, 500 for 3, 1000
for 4; fresh test rows.

The error is the mean squared distance to the noiseless truth: the excess over the noise in Examples 1 and 2, the test
MSE in 3 and 4, which have none. Seed s draws the data and the model.
"""

from dataclasses import dataclass
from typing import Any

from mlkm.datasets import make_example1, make_example2, make_example3, make_example4

from .problem import Problem, standardised

MAKE = {1: make_example1, 2: make_example2, 3: make_example3, 4: make_example4}
ROWS = {1: (2000, 4000), 2: (2000, 4000), 3: (500, 1000), 4: (1000, 1000)}


@dataclass(frozen=True)
class Example:
    """One column of the paper's tables: the error to reach, and the best error the paper has (less the noise)."""

    number: int
    d: int
    goal: float
    published: float
    options: dict[str, Any]

    @property
    def name(self) -> str:
        return " ".join([f"example{self.number}", *self.options.values(), f"d={self.d}"])


_DIMENSIONS = (4, 8, 16, 32, 64, 128)
_PUBLISHED = {1: (0.196, 0.506, 1.5, 4.1, 7.3, 13.9), 2: (0.064, 0.196, 0.75, 2.5, 6.2, 6.5)}
_PUBLISHED_3 = {
    ("trig", "uniform"): 1.94,
    ("sin_ratio", "uniform"): 0.76,
    ("mix", "uniform"): 1.23,
    ("trig", "normal"): 1.86,
    ("sin_ratio", "normal"): 0.92,
    ("mix", "normal"): 1.49,
}
_EXAMPLE_4 = ((1, 1e-8, 1.1e-5), (2, 1e-7, 2.8e-4), (5, 1e-5, 5.5e-3), (100, 1e-3, 2.9), (1000, 0.3, 2.7))
EXAMPLES = [
    *(
        Example(k, d, 0.03 if d <= 32 else 0.06, best, {})
        for k in (1, 2)
        for d, best in zip(_DIMENSIONS, _PUBLISHED[k], strict=True)
    ),
    *(
        Example(3, 10, 1e-3 if law == "uniform" else 0.05, best, {"function": f, "law": law})
        for (f, law), best in _PUBLISHED_3.items()
    ),
    *(Example(4, d, goal, best, {}) for d, goal, best in _EXAMPLE_4),
]
BY_NAME = {example.name: example for example in EXAMPLES}


def load(name: str, seed: int) -> Problem:
    example = BY_NAME[name]
    make, (n, n_test) = MAKE[example.number], ROWS[example.number]
    X, y, _ = make(n, example.d, random_state=seed, **example.options)
    X_test, _, truth = make(n_test, example.d, random_state=5000 + seed, **example.options)
    return standardised(X, y, X_test, truth)
