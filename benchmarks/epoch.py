"""The time of one epoch, ours and the same epoch written with torch: python benchmarks/epoch.py

An epoch is a pass over 2000 rows in mini-batches of 128, moving all layers, without evaluating the loss afterwards.
Ours takes the steps of `mlkm.solve.descent`, in float64 and with phi_1(X) computed once before training, as
`fit` does it. Torch's is an `nn.Module` with frozen random features, `MSELoss` and `SGD`, in float32, its mini-batches
slices of tensors. It is timed twice: computing phi_1 for every batch, as such a module does, and with phi_1(X) computed
once, as ours. Both sides use the same number of threads, and their repetitions take turns, so that a busy machine slows
both. Before timing, one epoch from the same weights over the same batches must end at the same weights.

Needs torch (the extra `bench`).
"""

import argparse
import time

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from mlkm.data import plain_rows
from mlkm.kernels import Gaussian
from mlkm.model.draws import draw_features
from mlkm.model.machine import Machine, flatten, layer_shapes, positions, with_layers
from mlkm.solve.descent import Step
from mlkm.solve.training_rows import loss_gradient, training_rows

N, BATCH, RATE, MOMENTUM, PENALTY = 2000, 128, 1e-3, 0.9, 1e-3
SHAPES = {"4-32-8-1": (4, 32, 8), "16-256-16-1": (16, 256, 16)}


class RandomFeature(torch.nn.Module):
    """Frozen phi(x) = amplitude cos(Omega'x + b)."""

    def __init__(self, phi):
        super().__init__()
        for name, value in vars(phi.astype(np.float32)).items():
            self.register_buffer(name, torch.from_numpy(value.copy()))

    def forward(self, X):
        return self.amplitudes * torch.cos(torch.addmm(self.phases, X, self.frequencies))


class TorchMachine(torch.nn.Module):
    """The two-layer MLKM or RKM with the weights of ours; `precomputed` means that phi_1(x) is given instead of x."""

    def __init__(self, machine, precomputed):
        super().__init__()
        self.residual = machine.residual
        self.first = torch.nn.Identity() if precomputed else RandomFeature(machine.maps[0])
        self.second = RandomFeature(machine.maps[1])
        self.linear = torch.nn.ModuleList(_linear(W) for W in flatten(machine.layers))

    def forward(self, X):
        u = self.linear[0](self.first(X))
        h = self.second(u)
        if self.residual:
            h = self.linear[1](h) + u
        return self.linear[-1](h)


def _linear(W):
    layer = torch.nn.Linear(W.shape[0] - 1, W.shape[1])
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(W[:-1].T))
        layer.bias.copy_(torch.from_numpy(W[-1]))
    return layer


def draw(shape, residual, seed=0):
    """A machine and rows as `fit` would hold them, phi_1 kept."""
    d, D1, D2 = shape
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d))
    Y = 12.0 * rng.standard_normal((N, 1))
    maps = (draw_features(rng, d, D1, Gaussian(), 1 / np.sqrt(d)), draw_features(rng, D2, D2, Gaussian()))
    layers = tuple(tuple(rng.uniform(-0.5, 0.5, size) for size in layer) for layer in layer_shapes(maps, 1, residual))
    return Machine(maps, layers, residual), training_rows(plain_rows(X, Y), maps[0])


class Ours:
    def __init__(self, machine, data):
        self.machine = with_layers(machine, [W.copy() for W in flatten(machine.layers)])
        self.velocity = [np.zeros_like(W) for W in flatten(machine.layers)]
        self.data, self.step = data, Step((RATE, RATE), MOMENTUM, BATCH, PENALTY)

    def epoch(self, rng):
        order, moving = rng.permutation(N), positions(self.machine, None)
        for start in range(0, N, BATCH):
            batch = order[start : start + BATCH]
            gradient = loss_gradient(self.machine, moving, self.data, batch, len(batch))
            self.step.move(self.machine, self.velocity, moving, gradient)

    def weights(self):
        return flatten(self.machine.layers)


class Torch:
    def __init__(self, machine, data, precomputed):
        self.model = TorchMachine(machine, precomputed)
        self.loss = torch.nn.MSELoss()
        # The derivative of lambda |W|^2 is 2 lambda W. Torch penalises the biases too: a difference within what
        # `check_same` allows.
        self.optimiser = torch.optim.SGD(self.model.parameters(), RATE, MOMENTUM, weight_decay=2 * PENALTY)
        X, first, Y = data.X, data.first, data.Y
        self.X, self.Y = (torch.from_numpy(part.astype(np.float32)) for part in (first if precomputed else X, Y))

    def epoch(self, rng):
        order = torch.from_numpy(rng.permutation(N))
        X, Y = self.X[order], self.Y[order]
        for start in range(0, N, BATCH):
            self.optimiser.zero_grad()
            self.loss(self.model(X[start : start + BATCH]), Y[start : start + BATCH]).backward()
            self.optimiser.step()

    def weights(self):
        return [
            np.vstack([layer.weight.detach().numpy().T, layer.bias.detach().numpy()]) for layer in self.model.linear
        ]


def check_same(machine, data):
    """One epoch from the same start over the same batches: torch must end at our weights, up to its float32."""
    ours = Ours(machine, data)
    ours.epoch(np.random.default_rng(1))
    for precomputed in (False, True):
        theirs = Torch(machine, data, precomputed)
        theirs.epoch(np.random.default_rng(1))
        for W, V in zip(ours.weights(), theirs.weights(), strict=True):
            np.testing.assert_allclose(V, W, rtol=1e-3, atol=1e-4)


def times(sides, repetitions):
    """Milliseconds per epoch, (repetitions, sides), the sides taking turns."""
    rng = np.random.default_rng(2)
    taken = np.zeros((repetitions + 3, len(sides)))
    for row in taken:
        for k, side in enumerate(sides):
            begin = time.perf_counter()
            side.epoch(rng)
            row[k] = 1e3 * (time.perf_counter() - begin)
    return taken[3:]  # the first few warm up


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200, help="epochs timed on each side")
    parser.add_argument("--threads", type=int, default=1, help="threads of both sides")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(
        f"Median milliseconds per epoch of {N} rows in batches of {BATCH}; {options.repetitions} repetitions;"
        f" {options.threads} thread(s)."
    )
    print("Ratios are ours / torch: below 1, ours is faster.")
    print(f"{'shape':14}{'machine':9}{'ours':>8}{'torch':>8}{'ratio':>7}{'torch, phi_1 once':>19}{'ratio':>7}")
    with threadpool_limits(options.threads):
        for name, shape in SHAPES.items():
            for residual in (False, True):
                machine, data = draw(shape, residual)
                check_same(machine, data)
                taken = times(
                    [Ours(machine, data), Torch(machine, data, False), Torch(machine, data, True)], options.repetitions
                )
                ours, plain, once = np.median(taken, axis=0)
                label = "RKM" if residual else "MLKM"
                print(
                    f"{name:14}{label:9}{ours:8.2f}{plain:8.2f}{ours / plain:7.2f}{once:19.2f}{ours / once:7.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
