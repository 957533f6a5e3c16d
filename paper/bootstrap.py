"""The published bootstrap. Its replicates start from the same weights and see the same order of rows, so that all of
them are trained at once, as one network with a further axis: an order of magnitude faster than one after the other."""

import numpy as np
import torch
from torch import Tensor

from .data import Array
from .networks import Band, Kind, PublishedNetwork, as_tensor, build, must_stop, start
from .settings import Descent, Shape


def published_bootstrap(
    kind: Kind, shape: Shape, descents: tuple[Descent, Descent], n_replicates: int, sample, seed: int
) -> Band:
    """The basic bootstrap interval [2 f - q_hi, 2 f - q_lo] of resampled fits. It has no term for the noise: an
    interval for f, used for y."""
    fitted = PublishedNetwork(kind, shape, descents[0], seed).fit(sample.X, sample.y).predict(sample.X_test)
    rows = np.random.default_rng([seed, 2]).integers(len(sample.X), size=(n_replicates, len(sample.X)))
    replicates = predictions_of_samples(kind, shape, descents[1], seed, sample.X, sample.y, rows, sample.X_test)
    low, high = np.quantile(replicates, [0.025, 0.975], axis=0)
    lower, upper = 2 * fitted - high, 2 * fitted - low
    return Band(float(np.mean(upper - lower)), float(np.mean((lower <= sample.y_test) & (sample.y_test <= upper))))


def predictions_of_samples(
    kind: Kind, shape: Shape, descent: Descent, seed: int, X: Array, y: Array, rows: np.ndarray, X_new: Array
) -> Array:  # shape (len(rows), len(X_new))
    """What `PublishedNetwork` would predict after a fit to X[r], y[r], for every r of `rows`."""
    first, net, _ = build(kind, X.shape[1], shape, seed)
    start(net, descent, seed)
    weights = {name: value.detach().repeat(len(rows), *[1] * value.ndim) for name, value in net.named_parameters()}
    speed = {name: torch.zeros_like(value) for name, value in weights.items()}
    with torch.no_grad():
        H, H_new = first(as_tensor(X)), first(as_tensor(X_new))
    H, targets = H[rows], as_tensor(y)[rows]

    def error(weights: dict[str, Tensor], h: Tensor, y: Tensor) -> Tensor:
        return (torch.func.functional_call(net, weights, (h,))[:, 0] - y).square().mean()

    slopes, errors = torch.func.vmap(torch.func.grad(error)), torch.func.vmap(error)
    generator = torch.Generator().manual_seed(seed)
    losses: list[list[float]] = [[] for _ in rows]
    training = torch.ones(len(rows))
    for _ in range(descent.epochs):
        order = torch.randperm(H.shape[1], generator=generator)
        for batch in order.split(descent.batch_size):
            for name, slope in slopes(weights, H[:, batch], targets[:, batch]).items():
                speed[name].mul_(descent.momentum).add_(slope).add_(weights[name], alpha=descent.weight_decay)
                still = training.reshape(-1, *[1] * (slope.ndim - 1))
                weights[name].sub_(descent.learning_rate * still * speed[name])
        if descent.patience is not None:
            for history, loss in zip(losses, errors(weights, H, targets).tolist(), strict=True):
                history.append(loss)
            training *= torch.tensor([0.0 if must_stop(history, descent.patience) else 1.0 for history in losses])
        if not training.any():
            break
    values = torch.func.vmap(lambda weights: torch.func.functional_call(net, weights, (H_new,))[:, 0])(weights)
    return values.numpy().astype(np.float64)
