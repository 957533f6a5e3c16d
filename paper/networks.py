"""Networks and kernel machines trained as the published program trains them: stochastic gradient descent on raw
targets, written anew in torch.

A network is a frozen first map (random features, or the inputs themselves) followed by trained modules.
`PublishedNetwork` is a regressor like any other; `published_band` and `CrossFitted` repeat the published band and
cross-fitting.
"""

from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import Literal, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from torch import Tensor, nn

from .data import Array
from .settings import Descent, Shape

Kind = Literal["NN", "ResNet", "MLKM", "RKM"]


class Cosines(nn.Module):
    """phi(x) = sqrt(2/D) cos(Omega x + b), frozen. `kernel` names K: the frequencies of the l1-Laplacian kernel are
    Cauchy."""

    def __init__(self, d: int, D: int, kernel: str, scale: float, rng: np.random.Generator) -> None:
        super().__init__()
        draw = {"gaussian": rng.standard_normal, "laplacian": rng.standard_cauchy}[kernel]
        self.register_buffer("frequencies", torch.tensor(scale * draw((d, D)), dtype=torch.float32))
        self.register_buffer("phases", torch.tensor(rng.uniform(0, 2 * np.pi, D), dtype=torch.float32))
        self.amplitude = sqrt(2 / D)

    def forward(self, x: Tensor) -> Tensor:
        return self.amplitude * torch.cos(x @ self.frequencies + self.phases)


class ResidualKernelBlock(nn.Module):
    """T(z) = W2 phi(u) + u with u = W1 z."""

    def __init__(self, into: int, phi: Cosines, out: int) -> None:
        super().__init__()
        self.first, self.phi, self.second = nn.Linear(into, out), phi, nn.Linear(out, out)

    def forward(self, z: Tensor) -> Tensor:
        u = self.first(z)
        return u + self.second(self.phi(u))


class ResidualBlock(nn.Module):
    """relu(B x + relu(A x))."""

    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(into, out), nn.Linear(into, out)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.b(x) + torch.relu(self.a(x)))


def build(kind: Kind, d: int, shape: Shape, seed: int) -> tuple[nn.Module, nn.Sequential, list[list[nn.Parameter]]]:
    """The frozen first map, the trained rest, and the parameters of each layer."""
    rng, widths = np.random.default_rng([seed, 1]), shape.widths
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        if kind in ("NN", "ResNet"):
            first: nn.Module = nn.Identity()
            for into, out in zip((d, *widths[:-1]), widths, strict=True):
                layers.append(
                    ResidualBlock(into, out) if kind == "ResNet" else nn.Sequential(nn.Linear(into, out), nn.ReLU())
                )
        else:
            first = Cosines(d, widths[0], shape.kernels[0], shape.scales[0], rng)
            for into, out, kernel, scale in zip(
                widths[:-1], widths[1:], shape.kernels[1:], shape.scales[1:], strict=True
            ):
                phi = Cosines(out, out, kernel, scale, rng)
                layers.append(
                    ResidualKernelBlock(into, phi, out) if kind == "RKM" else nn.Sequential(nn.Linear(into, out), phi)
                )
        layers.append(nn.Linear(widths[-1], 1))
    return first, nn.Sequential(*layers), [list(layer.parameters()) for layer in layers]


def start(net: nn.Module, descent: Descent, seed: int) -> None:
    """Weights uniform on `descent.init`, biases constant; the framework's own where that is None."""
    if descent.init is None:
        return
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in net.named_parameters():
        with torch.no_grad():
            if name.endswith("bias"):
                parameter.fill_(descent.bias)
            elif descent.init[0] == descent.init[1]:
                parameter.fill_(descent.init[0])
            else:
                parameter.uniform_(*descent.init, generator=generator)


def as_tensor(values: Array) -> Tensor:
    return torch.tensor(np.ascontiguousarray(values), dtype=torch.float32)


def sgd(parameters, descent: Descent) -> torch.optim.SGD:
    return torch.optim.SGD(
        parameters, lr=descent.learning_rate, momentum=descent.momentum, weight_decay=descent.weight_decay
    )


def one_pass(
    net: nn.Module, optimiser: torch.optim.SGD, H: Tensor, y: Tensor, batch_size: int, generator: torch.Generator
) -> None:
    """One epoch of mini-batches."""
    order = torch.randperm(len(H), generator=generator)
    H, y = H[order], y[order]
    for begin in range(0, len(H), batch_size):
        optimiser.zero_grad()
        residual = net(H[begin : begin + batch_size])[:, 0] - y[begin : begin + batch_size]
        residual.square().mean().backward()
        optimiser.step()


def mse(net: nn.Module, H: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float((net(H)[:, 0] - y).square().mean())


def must_stop(losses: list[float], patience: int | None) -> bool:
    """The published rule: the loss has just risen above each of the `patience` - 1 losses before it."""
    return patience is not None and len(losses) > patience and losses[-1] > max(losses[-patience:-1])


class PublishedNetwork(RegressorMixin, BaseEstimator):
    """A network or kernel machine with the published descent.

    `curve_` holds the test MSE after every epoch if `fit` is given rows to monitor. A careful network is for data on
    which the published rate was not chosen: it centres the targets, and repeats a descent that diverges with a third of
    the rate.
    """

    def __init__(self, kind: Kind, shape: Shape, descent: Descent, seed: int = 0, careful: bool = False) -> None:
        self.kind = kind
        self.shape = shape
        self.descent = descent
        self.seed = seed
        self.careful = careful

    def fit(self, X: Array, y: Array, monitor: tuple[Array, Array] | None = None) -> Self:
        descent = self.descent
        self.centre_ = float(np.mean(y)) if self.careful else 0.0
        if monitor is not None:
            monitor = (monitor[0], monitor[1] - self.centre_)
        for _ in range(8):
            if self._train(X, y - self.centre_, descent, monitor):
                break
            descent = replace(descent, learning_rate=descent.learning_rate / 3)
        else:
            raise ValueError(
                f"the descent of {self.kind} still diverges with learning_rate={descent.learning_rate:.1g}"
            )
        return self

    def _train(self, X: Array, y: Array, descent: Descent, monitor: tuple[Array, Array] | None) -> bool:
        """Train from the start. A careful network gives up, with False, once its loss is well above that of predicting
        0 after the first epochs."""
        self.first_, self.net_, _ = build(self.kind, X.shape[1], self.shape, self.seed)
        start(self.net_, descent, self.seed)
        targets, optimiser, generator = (
            as_tensor(y),
            sgd(self.net_.parameters(), descent),
            torch.Generator().manual_seed(self.seed),
        )
        losses: list[float] = []
        self.curve_: list[float] = []
        with torch.no_grad():
            H = self.first_(as_tensor(X))
            watched = None if monitor is None else (self.first_(as_tensor(monitor[0])), as_tensor(monitor[1]))
        for _ in range(descent.epochs):
            one_pass(self.net_, optimiser, H, targets, descent.batch_size, generator)
            if descent.patience is not None or self.careful:
                losses.append(mse(self.net_, H, targets))
            if watched is not None:
                self.curve_.append(mse(self.net_, *watched))
            if self.careful and len(losses) > 4 and not losses[-1] < 1.5 * float(targets.square().mean()):
                return False
            if must_stop(losses, descent.patience) or must_stop(self.curve_, descent.test_patience):
                break
        return True

    def predict(self, X: Array) -> Array:
        with torch.no_grad():
            return self.centre_ + self.net_(self.first_(as_tensor(X)))[:, 0].numpy().astype(np.float64)

    def jacobian(self, X: Array) -> Tensor:
        """The gradient of f with respect to all trained weights, one row per row of X."""
        with torch.no_grad():
            H = self.first_(as_tensor(X))
        parameters = {name: value.detach() for name, value in self.net_.named_parameters()}

        def output(weights: dict[str, Tensor], h: Tensor) -> Tensor:
            return torch.func.functional_call(self.net_, weights, (h[None],))[0, 0]

        slopes = torch.func.vmap(torch.func.grad(output), in_dims=(None, 0))(parameters, H)
        return torch.cat([slope.flatten(1) for slope in slopes.values()], dim=1)


class CrossFitted(RegressorMixin, BaseEstimator):
    """The published cross-fitting: as many networks as layers, alike at the start; in an epoch, layer l of network j
    passes once over part j + l.

    The prediction is the average. `predictions` gives each network's own: the published figure is the mean of their
    errors. With `shared` every part is all rows: what is left of cross-fitting are the turns of the layers and the
    average.
    """

    def __init__(self, kind: Kind, shape: Shape, descent: Descent, seed: int = 0, shared: bool = False) -> None:
        self.kind = kind
        self.shape = shape
        self.descent = descent
        self.seed = seed
        self.shared = shared

    def fit(self, X: Array, y: Array) -> Self:
        L = len(self.shape.widths)
        order = np.random.RandomState(self.seed).permutation(len(X))
        parts = [order] * L if self.shared else np.array_split(order, L)
        generator, targets = torch.Generator().manual_seed(self.seed), as_tensor(y)
        self.nets_ = []
        for _ in range(L):
            self.first_, net, layers = build(self.kind, X.shape[1], self.shape, self.seed)
            start(net, self.descent, self.seed)
            self.nets_.append((net, [sgd(layer, self.descent) for layer in layers]))
        with torch.no_grad():
            H = self.first_(as_tensor(X))
        losses: list[float] = []
        for _ in range(self.descent.epochs):
            for j, (net, optimisers) in enumerate(self.nets_):
                for l, optimiser in enumerate(optimisers):
                    rows = parts[(j + l) % L]
                    net.zero_grad()
                    one_pass(net, optimiser, H[rows], targets[rows], self.descent.batch_size, generator)
            losses.append(float(np.mean([mse(net, H, targets) for net, _ in self.nets_])))
            if must_stop(losses, self.descent.patience):
                break
        return self

    def predictions(self, X: Array) -> Array:
        with torch.no_grad():
            H = self.first_(as_tensor(X))
            return np.stack([net(H)[:, 0].numpy().astype(np.float64) for net, _ in self.nets_])

    def predict(self, X: Array) -> Array:
        return self.predictions(X).mean(axis=0)


@dataclass(frozen=True)
class Band:
    """Mean length and coverage of a band, and the share of test rows it was measured on."""

    length: float
    coverage: float
    kept: float = 1.0


def published_measures(network: PublishedNetwork, sample) -> dict[str, float]:
    """Length and coverage of the published band as coded, the share of rows it keeps, and both with exact rank and all
    rows."""
    coded, exact = published_band(network, sample)
    return {
        "length": coded.length,
        "coverage": coded.coverage,
        "kept": coded.kept,
        "length_exact": exact.length,
        "coverage_exact": exact.coverage,
    }


def published_band(network: PublishedNetwork, sample) -> tuple[Band, Band]:
    """The paper's band as coded and as written. As coded: float32 inverse, the rank one too high, and rows of negative
    variance left out. As written: the exact rank, all rows, in float64 with a damping of 1e-8 of the mean eigenvalue
    (with more weights than rows the formula needs one)."""
    F = network.jacobian(sample.X)
    g_cal, g_test = network.jacobian(sample.X_cal), network.jacobian(sample.X_test)
    residuals = [
        np.abs(y - network.predict(X)) for X, y in ((sample.X_cal, sample.y_cal), (sample.X_test, sample.y_test))
    ]
    m = len(residuals[0])
    rank = ceil(0.95 * (m + 1))

    def leverages(dtype: torch.dtype, damping: float) -> list[Array]:
        gram = (F.T @ F).to(dtype) if dtype is torch.float32 else F.to(dtype).T @ F.to(dtype)
        gram.diagonal().add_(damping * gram.trace() / len(gram))
        inverse = torch.linalg.inv(gram)
        return [((g.to(dtype) @ inverse) * g.to(dtype)).sum(dim=1).numpy().astype(np.float64) for g in (g_cal, g_test)]

    def band(cal: Array, test: Array, index: int) -> Band:
        kept_cal, kept = np.isfinite(cal) & (cal >= 0), np.isfinite(test) & (test >= 0)
        scores = np.sort(residuals[0][kept_cal] / np.sqrt(1 + cal[kept_cal]))
        if not kept.any() or not len(scores):
            return Band(np.nan, np.nan, 0.0)
        half = scores[min(index, len(scores) - 1)] * np.sqrt(1 + test[kept])
        return Band(float(2 * half.mean()), float(np.mean(residuals[1][kept] <= half)), float(kept.mean()))

    try:
        coded_leverages = leverages(torch.float32, 0.0)
    except torch.linalg.LinAlgError:  # exactly singular in single precision
        coded_leverages = [np.full(len(g), np.nan) for g in (g_cal, g_test)]
    n_kept = int(np.sum(np.isfinite(coded_leverages[0]) & (coded_leverages[0] >= 0)))
    coded = band(*coded_leverages, ceil(0.95 * (n_kept + 1)))
    return coded, band(*[np.maximum(values, 0.0) for values in leverages(torch.float64, 1e-8)], rank - 1)


def published_split_band(network: PublishedNetwork, sample) -> Band:
    """Split conformal with absolute residuals, the rank one too high as coded."""
    scores = np.sort(np.abs(sample.y_cal - network.predict(sample.X_cal)))
    half = scores[min(ceil(0.95 * (len(scores) + 1)), len(scores) - 1)]
    return Band(float(2 * half), float(np.mean(np.abs(sample.y_test - network.predict(sample.X_test)) <= half)))
