"""The published program's settings: shapes, learning rates, weight decay, initial weights. The paper's text gives the
shapes and scales only."""

from dataclasses import dataclass, replace

DEFAULT_INIT = None  # the framework's own initial weights


@dataclass(frozen=True)
class Shape:
    """d-D_1-...-D_L-1 with the kernel and the scale of each layer."""

    widths: tuple[int, ...]
    scales: tuple[float, ...]
    kernels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.kernels:
            object.__setattr__(self, "kernels", ("gaussian",) * len(self.widths))


@dataclass(frozen=True)
class Descent:
    """Stochastic gradient descent: `init` is the interval of the initial weights (equal ends: all weights alike),
    `patience` ends the run when the training loss is above all of the last `patience` epochs (None: never),
    `test_patience` when the test loss is, where test rows are monitored."""

    learning_rate: float
    weight_decay: float
    init: tuple[float, float] | None = DEFAULT_INIT
    batch_size: int = 128
    epochs: int = 2000
    patience: int | None = None
    momentum: float = 0.9
    bias: float = 0.01
    test_patience: int | None = None

    def shorter(self, factor: float) -> "Descent":
        return replace(self, epochs=max(int(self.epochs * factor), 5))


def _around(a: float) -> tuple[float, float]:
    return (-a, a)


def _all(a: float) -> tuple[float, float]:
    return (a, a)


def shape12(d: int) -> Shape:
    return Shape({4: (32, 8), 8: (64, 8)}.get(d, (256, 16)), (1.0, 1.0))


# Penalties (alpha of KernelRidge and Ridge, sums of squares) that the published five-fold search ended at.
KRR_ALPHA = {
    1: {4: 1e-7, 8: 1e-4, 16: 1e-2, 32: 1e-1, 64: 1e-4, 128: 1e-4},
    2: {4: 1e-4, 8: 1e-3, 16: 1e-1, 32: 1e-7, 64: 1e-7, 128: 1e-7},
}
RF_ALPHA = {
    1: {4: 1e-5, 8: 1e-5, 16: 1e-1, 32: 1.0, 64: 1.0, 128: 1.0},
    2: {4: 1e-6, 8: 1e-3, 16: 1.0, 32: 1.0, 64: 1.0, 128: 1.0},
}
DESCENT12 = {
    (1, "MLKM"): {
        4: Descent(1e-3, 1e-3, _all(-0.5)),
        8: Descent(1e-3, 1e-3, _all(-0.5)),
        16: Descent(1e-3, 1e-2, _all(-0.5)),
        32: Descent(1e-3, 1e-1, _around(0.1)),
        64: Descent(1e-3, 0.3, _around(0.2)),
        128: Descent(1e-3, 1.0, _around(0.1)),
    },
    (1, "RKM"): {
        4: Descent(1e-3, 1e-7, _around(0.1)),
        8: Descent(8e-4, 1e-3),
        16: Descent(1e-3, 1e-1, _around(0.1)),
        32: Descent(1e-3, 1e-1, _around(0.1)),
        64: Descent(1e-3, 0.7, _around(0.2)),
        128: Descent(1e-3, 1.0, _around(0.1)),
    },
    (2, "MLKM"): {
        4: Descent(1e-3, 1e-7, _around(0.1)),
        8: Descent(1e-3, 1e-3, _around(0.1)),
        16: Descent(1e-3, 1e-2, _around(0.1)),
        32: Descent(1e-3, 1e-1, _around(0.1)),
        64: Descent(5e-3, 0.2, _around(0.1)),
        128: Descent(1e-3, 0.1, _around(0.1)),
    },
    (2, "RKM"): {
        4: Descent(1e-3, 1e-4, _around(0.1)),
        8: Descent(5e-4, 1e-3),
        16: Descent(1e-3, 1e-1, _around(0.1)),
        32: Descent(1e-3, 0.3, _around(0.1)),
        64: Descent(1e-3, 0.7, _around(0.1)),
        128: Descent(1e-3, 1.0, _around(0.1)),
    },
}

SHAPE3 = Shape((64, 32, 16, 8), (0.25, 0.5, 1.0, 2.0))


def descent3(system: str, function: str, law: str) -> Descent:
    case = (function, law)
    if system in ("NN", "ResNet"):
        rate = 2e-3 if system == "ResNet" and case == ("mix", "uniform") else 1e-3
        return Descent(rate, 1e-2, _around(0.5), 100, 1000)
    rate, decay, init = {
        "MLKM": {
            ("trig", "uniform"): (7e-4, 1e-3, _around(0.1)),
            ("trig", "normal"): (8e-4, 1e-3, _all(-0.1)),
            ("sin_ratio", "uniform"): (3e-4, 1e-3, _around(0.3)),
            ("sin_ratio", "normal"): (3e-4, 1e-3, _all(-0.1)),
            ("mix", "uniform"): (3e-4, 1e-2, _around(0.2)),
            ("mix", "normal"): (3e-4, 1e-3, _around(0.2)),
        },
        "RKM": {
            ("trig", "uniform"): (8e-4, 1e-3, _around(0.01)),
            ("trig", "normal"): (8e-4, 1e-3, _around(0.01)),
            ("sin_ratio", "uniform"): (4e-4, 1e-3, _around(0.25)),
            ("sin_ratio", "normal"): (4e-4, 1e-3, _around(0.1)),
            ("mix", "uniform"): (4e-4, 1e-3, _around(0.2)),
            ("mix", "normal"): (4e-4, 1e-3, _around(0.15)),
        },
    }[system][case]
    return Descent(rate, decay, init, 100, 1000)


SHAPE4 = Shape((10, 10, 10, 10), (0.5, 1.0, 2.0, 4.0))


def descent4(system: str, d: int) -> Descent:
    high = d > 10
    if system in ("NN", "ResNet"):
        # A decay of 1e-2 is on record for the NN with few inputs; with 1e-3 its error at d = 1 is the published one to
        # four digits.
        return (
            Descent(5e-4, 1e-2, _around(0.5), 100, 4000, 2000)
            if high
            else Descent(3e-3, 1e-3, _around(0.5), 100, 4000, 2000)
        )
    if high:
        return Descent(1e-4, 1e-2, _around(0.2) if system == "MLKM" else _all(-0.2), 100, 4000, 2000)
    if system == "MLKM":
        rate, decay, init, patience = (
            (1e-3, 1e-3, _all(-0.1), 2000) if d <= 2 else (8e-4, 1e-3 if d == 5 else 5e-2, _around(0.5), 4000)
        )
    elif d <= 5:
        rate, decay, init, patience = 8e-4, 1e-3, _around(0.5), 3000 if d <= 2 else 4000
    else:
        rate, decay, init, patience = 1e-3, 5e-2, (-0.1, 0.0), 4000
    return Descent(rate, decay, init, 100, 6000, patience)


SHAPE_SML = Shape((100, 50), (0.1, 0.4))
DESCENT_SML = {
    "NN": Descent(1e-4, 1e-2, (0.0, 0.1), 256, 1000, 50, bias=0.0),
    "ResNet": Descent(1e-4, 1e-2, _around(0.1), 256, 1000, 50, bias=0.0),
    "MLKM": Descent(7e-4, 1e-3, _around(0.1), 256, 1000, 50, momentum=0.95, bias=0.0),
    "RKM": Descent(1e-4, 1e-2, DEFAULT_INIT, 128, 1000, 50, bias=0.0),
}

SHAPE_YEARS = Shape((32, 8), (0.01, 0.1), ("laplacian", "gaussian"))
DESCENT_YEARS = {
    "NN": Descent(1e-6, 1e-2, (0.0, 0.1), 100, 2000, 500),
    "ResNet": Descent(5e-7, 1e-2, (0.0, 0.1), 100, 2000, 200),
    "MLKM": Descent(1e-3, 1e-4, (0.0, 1.0), 100, 2000, 200),
    "RKM": Descent(1e-6, 0.0, DEFAULT_INIT, 100, 2000, 200),
    "MLKM+": Descent(7e-4, 1e-4, (0.0, 1.0), 100, 2000, 200),
    "RKM+": Descent(1e-6, 1e-4, (0.0, 1.0), 100, 2000, 200),
}
BOOTSTRAP_YEARS = {  # settings of the replicates and their number; the RKM's start from U(0, 1)
    "NN": (DESCENT_YEARS["NN"], 80),
    "ResNet": (DESCENT_YEARS["ResNet"], 80),
    "MLKM": (Descent(8e-4, 0.0, (0.0, 1.0), 100, 2000, 200), 80),
    "RKM": (Descent(1e-6, 0.0, (0.0, 1.0), 100, 2000, 200), 200),
}

SHAPE_LARGE = Shape((256, 128, 64), (0.02, 0.1, 0.5), ("laplacian", "gaussian", "gaussian"))
DESCENT_LARGE = {
    "NN": Descent(1e-4, 1e-2, (0.0, 0.1), 1024, 20, test_patience=5),
    "ResNet": Descent(1e-4, 1e-2, (0.0, 0.1), 1024, 20, test_patience=5),
    "MLKM": Descent(5e-5, 1e-2, (0.0, 1.0), 1024, 20, test_patience=5),
    "RKM": Descent(1e-6, 1e-2, DEFAULT_INIT, 1024, 20, test_patience=5),
}
