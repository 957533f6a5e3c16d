"""A hidden layer on the default's learned kernel: python -m benchmarks.hidden_layer [SET ...] [--splits 0 1]

Hidden units are additive functions of the inputs, z = W'phi_1(x), with phi_1 the cosines of an input's ranks and the
input itself, and y ~ GP(0, s K + a^2 k(z, z') + sigma^2) with K the kernel that the default has learned and k a
Gaussian kernel by 64 Sobol frequencies. W, a, s and sigma climb the evidence on rows outside a fold. The start of W is
not random: it has the directions of phi_1 along whose gradients those of the default lie. The last layer is solved on
all rows. Leave-one-out residuals at the rows of the fold, whose targets W has not seen, give the share of the hidden
layer, averaged over Bayesian bootstraps.

The evidence uses the leading eigenvectors of K, of which a randomised range finder gives 200, and the mean of the other
eigenvalues, which act as noise.

Two ways to join the machines of the folds are compared: `predictions` averages what they predict, `kernels` averages
their kernels and solves once. The table has the test error over that of the default, the share, and the CPU time over
the default's. Choices are made on `DECIDED` and composed truths; `JUDGED` is looked at once per candidate.
"""

import argparse
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, lapack
from scipy.optimize import minimize
from scipy.stats import norm, qmc

from mlkm import MLKMRegressor

from . import real

COMPOSED = ["cos", "radial", "product"]
DECIDED = [
    "uci_evans/airfoil", "uci_evans/pol", "uci_evans/energy", "uci_evans/concrete", "gal_splits/kin8nm",
    "uci_evans/yacht", "uci_evans/parkinsons", "uci_evans/pumadyn32nm", "single/seoul_bike", "uci_evans/kin40k",
]  # fmt: skip
JUDGED = [
    "uci_evans/housing", "uci_evans/wine", "uci_evans/skillcraft", "uci_evans/elevators", "gal_splits/power-plant",
    "single/space_ga", "single/sulfur", "single/king_county", "single/miami_housing", "single/abalone",
]  # fmt: skip
UNITS, ORDER, FREQUENCIES, STEPS, ROWS, RANK = 3, 4, 64, 30, 1000, 200
CONSTANT = 9.0  # prior variance of the mean of standardised targets
WAYS = ("predictions", "kernels")


@dataclass(frozen=True)
class Hidden:
    """Hidden weights W (M, units), frequencies (units, F), the amplitude a, and the scales s and sigma^2."""

    W: np.ndarray
    frequencies: np.ndarray
    amplitude: float
    scale: float
    noise: float

    def features(self, A: np.ndarray) -> np.ndarray:
        """Return the cosines and sines of the hidden units."""
        return cosines(A @ self.W, self.frequencies, self.amplitude)[0]


def composed(kind: str, n: int, seed: int, d: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, noisy targets and a truth with a hidden layer, of variance 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    if kind == "cos":
        f = np.cos(1.5 * np.sin(np.pi * X).sum(axis=1) / np.sqrt(d / 2))
    elif kind == "radial":
        f = np.sin(2.5 * ((X**2).sum(axis=1) - d / 3) / np.sqrt(d * 4 / 45))
    else:
        f = np.sin(2 * np.sin(2 * X[:, : d // 2]).sum(axis=1)) * np.tanh(np.cos(2 * X[:, d // 2 :]).sum(axis=1))
    f = (f - f.mean()) / f.std()
    return X, f + 0.1 * rng.standard_normal(n), f


def data(name: str, split: int, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Return training rows and targets, test rows and what predictions are compared with."""
    if name in COMPOSED:
        X, y, _ = composed(name, 1500, 10 * split)
        X_test, _, f = composed(name, 3000, 10 * split + 1)
        return X, y, X_test, f
    problem = real.load(name, split, most_train=most, most_test=3000)
    return None if problem is None else (problem.X, problem.y, problem.X_test, problem.target)


def additive(X: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return phi_1: for every input the cosines of its ranks, of falling variance, and the input within its range;
    centred, with a mean squared length of 1."""
    maps = []
    for j, column in enumerate(X.T):
        values, first = np.unique(np.sort(column), return_index=True)
        if len(values) > 1:
            ranks = (first + np.append(first[1:], len(column))) / 2 / len(column)
            maps.append((j, values, ranks, np.arange(1, min(ORDER, len(values) - 1) + 1)))

    def raw(Z: np.ndarray) -> np.ndarray:
        parts = []
        for j, values, ranks, orders in maps:
            parts.append(np.cos(np.pi * np.outer(np.interp(Z[:, j], values, ranks), orders)) / orders)
            parts.append(Z[:, [j]].clip(values[0], values[-1]))
        return np.hstack(parts)

    A = raw(X)
    mean = A.mean(axis=0)
    scale = np.sqrt(((A - mean) ** 2).sum(axis=1).mean())
    return lambda Z: (raw(Z) - mean) / scale


def start(
    kernel: Any, X: np.ndarray, alpha: np.ndarray, phi: Callable[..., np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Return W whose columns maximise sum (grad f . grad w'phi)^2 / sum |grad f|^2 |grad w'phi|^2, over a few rows;
    gradients are differences between quantiles."""
    n_rows = int(np.clip(3000 // X.shape[1], 50, 300))
    Z, slopes, moves = X[rng.permutation(len(X))[:n_rows]], [], []
    for j in range(X.shape[1]):
        at = np.searchsorted(np.sort(X[:, j]), Z[:, j]) / len(X)
        low, high = Z.copy(), Z.copy()
        low[:, j], high[:, j] = (np.quantile(X[:, j], np.clip(at + q, 0, 1)) for q in (-0.04, 0.04))
        both = kernel.matrix(np.vstack([low, high]).astype(np.float32), X.astype(np.float32)) @ alpha
        slopes.append(both[len(Z) :] - both[: len(Z)])
        moves.append(phi(high) - phi(low))
    G, J = np.array(slopes), np.array(moves)  # (d, rows), (d, rows, M)
    along = np.einsum("jr,jrm->rm", G, J)
    lengths = (np.sqrt((G**2).sum(axis=0))[None, :, None] * J).reshape(-1, J.shape[2])
    B = lengths.T @ lengths
    B[np.diag_indices(len(B))] += 0.01 * np.trace(B) / len(B) + 1e-12
    V = eigh(along.T @ along, B)[1][:, ::-1][:, :UNITS]
    return V / (phi(X) @ V).std(axis=0)


def cosines(Z: np.ndarray, frequencies: np.ndarray, amplitude: float) -> tuple[np.ndarray, np.ndarray]:
    """Return cosines and sines of the units, and their derivatives in the angles."""
    angles = Z @ frequencies
    c, s, size = np.cos(angles), np.sin(angles), Z.dtype.type(amplitude / np.sqrt(frequencies.shape[1]))
    return np.hstack([c, s]) * size, np.hstack([-s, c]) * size


def leading(K: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the leading eigenvalues and eigenvectors of K, and the mean of the other eigenvalues."""
    m = len(K)
    if m // 2 < RANK:
        values, U = np.linalg.eigh(K)
        values, U = np.maximum(values[::-1], 0), U[:, ::-1]
        return values[:RANK], U[:, :RANK], float(values[RANK:].mean()) if m > RANK else 0.0
    single = K.astype(np.float32)
    Q = rng.standard_normal((m, RANK + 20)).astype(np.float32)
    for _ in range(3):
        Q = np.linalg.qr(single @ Q)[0]
    values, V = np.linalg.eigh((Q.T @ (single @ Q)).astype(np.float64))
    values, V = np.maximum(values[::-1][:RANK], 0), V[:, ::-1][:, :RANK]
    return values, Q.astype(np.float64) @ V, max(float((np.trace(K) - values.sum()) / (m - RANK)), 0.0)


def learn(K: np.ndarray, noise: float, A: np.ndarray, y: np.ndarray, W: np.ndarray, rng: np.random.Generator) -> Hidden:
    """Return what a climb of the evidence from W reaches."""
    m, (values, U, tail) = len(y), leading(K, rng)
    frequencies = norm.ppf(qmc.Sobol(UNITS, rng=rng).random(FREQUENCIES)).T
    dtype: Any = np.float32 if noise + tail > 1e-4 * np.trace(K) / m else np.float64
    U_, A_, omega, y_ = U.astype(dtype), A.astype(dtype), frequencies.astype(dtype), y.astype(dtype)
    both, constant = np.hstack([omega, omega]).T, np.full((m, 1), np.sqrt(CONSTANT), dtype)
    y_U, y_y = U.T @ y, y @ y

    def minus_evidence(p: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and its gradient; S = I / base + U h U' is the inverse of s K + sigma^2."""
        W, (log_a, log_s, log_noise) = p[:-3].reshape(A.shape[1], -1), p[-3:]
        F, dF = cosines(A_ @ W.astype(dtype), omega, np.exp(log_a))
        s, sigma = np.exp(log_s), np.exp(log_s + log_noise)
        base, D = s * tail + sigma, s * values + sigma
        h, P = 1 / D - 1 / base, np.hstack([F, constant])
        P_U, P_P = (U_.T @ P).astype(float), (P.T @ P).astype(float)
        inner = np.eye(P.shape[1]) + P_P / base + P_U.T @ (h[:, None] * P_U)
        try:
            factor = cho_factor(inner, lower=True)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros(len(p))
        b = (P.T @ y_).astype(float) / base + P_U.T @ (h * y_U)
        w, inverse = cho_solve(factor, b), cho_solve(factor, np.eye(len(inner)))
        alpha = (y - P @ w) / base + U @ (h * (y_U - P_U @ w))
        solved = P_U @ inverse
        M_P = (P @ inverse.astype(dtype)) / dtype(base) + U_ @ (h[:, None] * solved).astype(dtype)
        g_F = M_P[:, :-1] - np.outer(alpha, alpha @ P[:, :-1]).astype(dtype)
        a_U, at_D = U.T @ alpha, 1 / D - (P_U * solved).sum(axis=1) / D**2
        weights = (1 / D**2 - 1 / base**2)[:, None] * P_U
        trace = (m - len(D)) / base + (1 / D).sum() - np.trace(inverse @ (P_P / base**2 + P_U.T @ weights))
        g_D = 0.5 * (at_D - a_U**2)
        g_base = 0.5 * (trace - at_D.sum() - (alpha @ alpha - a_U @ a_U))
        log_det = np.log(D).sum() + (m - len(D)) * np.log(base) + 2 * np.log(np.diag(factor[0])).sum()
        value = 0.5 * (y_y / base + (h * y_U) @ y_U - b @ w + log_det + (W**2).sum()) + 0.125 * (log_a + 1) ** 2
        g_W = (A_.T @ ((g_F * dF) @ both)).astype(float) + W
        others = [float((g_F * F).sum()) + 0.25 * (log_a + 1), g_D @ D + g_base * base, sigma * (g_D.sum() + g_base)]
        return value, np.append(g_W.ravel(), others)

    explained = (y_U**2 / (values + noise)).sum() + (y_y - y_U @ y_U) / (tail + noise)
    log_s, log_noise = np.log(max(explained / m, 1e-12)), np.log(noise)
    bounds = [(None, None)] * W.size + [(-7, 2), (log_s - 5, log_s + 5), (log_noise - 5, log_noise + 5)]
    begin = np.append(W.ravel(), [-1.0, log_s, log_noise])
    options: Any = {"maxiter": STEPS, "maxcor": 20}
    p = minimize(minus_evidence, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    a, s, relative = np.exp(p[-3:])
    return Hidden(p[:-3].reshape(W.shape), frequencies, float(a), float(s), float(s * relative))


def solve(K: np.ndarray, noise: float, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return alpha and the leave-one-out residuals. K is overwritten."""
    K += CONSTANT
    K[np.diag_indices(len(K))] += noise
    L, failed = lapack.dpotrf(K.T, lower=1, overwrite_a=1, clean=0)
    if failed:
        raise np.linalg.LinAlgError("the kernel is not positive definite")
    alpha = lapack.dpotrs(L, y, lower=1)[0]
    return alpha, alpha / np.diag(lapack.dpotri(L, lower=1, overwrite_c=1)[0])


def share_of(flat: np.ndarray, deep: np.ndarray, rng: np.random.Generator, bootstraps: int = 30) -> float:
    """Return the share of the deep fit whose mixture of leave-one-out residuals has the least square, averaged over
    Bayesian bootstraps."""
    difference = flat - deep
    weights = rng.exponential(size=(bootstraps, len(flat)))
    best = weights @ (flat * difference) / np.maximum(weights @ difference**2, 1e-300)
    return float(np.clip(best, 0, 1).mean())


def deepened(
    kernel: Any, noise: float, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, way: str, folds: int, seed: int = 0
) -> tuple[np.ndarray, float]:
    """Return the change of predictions that a hidden layer brings, and its share in them."""
    rng, n, noise = np.random.default_rng(seed), len(y), max(noise, 1e-9)
    phi, K, K_test = additive(X), np.asarray(kernel.gram(X), float), np.asarray(kernel.matrix(X_test, X), float)
    A, A_test, order = phi(X), phi(X_test), rng.permutation(n)
    unit = y @ np.linalg.solve(K + noise * np.eye(n), y) / n
    flat, residuals = solve(unit * K, unit * noise, y)
    honest, layers, outputs = np.empty(n), [], []
    for k in range(folds):
        held = order[k::folds]
        rows = rng.permutation(np.setdiff1d(order, held))[:ROWS]
        part = K[np.ix_(rows, rows)]
        alpha = np.linalg.solve(part + noise * np.eye(len(rows)) + CONSTANT, y[rows])
        hidden = learn(part, noise, A[rows], y[rows], start(kernel, X[rows], alpha, phi, rng), rng)
        F = hidden.features(A)
        alpha, left_out = solve(hidden.scale * K + F @ F.T, hidden.noise, y)
        honest[held] = left_out[held]
        layers.append(hidden)
        outputs.append(
            hidden.scale * (K_test @ alpha) + hidden.features(A_test) @ (F.T @ alpha) + CONSTANT * alpha.sum()
        )
    if way == "kernels":
        scale, sigma = (np.exp(np.mean(np.log(v))) for v in zip(*((h.scale, h.noise) for h in layers), strict=True))
        F, F_test = (np.hstack([h.features(B) for h in layers]) / np.sqrt(folds) for B in (A, A_test))
        alpha, _ = solve(scale * K + F @ F.T, float(sigma), y)
        outputs = [scale * (K_test @ alpha) + F_test @ (F.T @ alpha) + CONSTANT * alpha.sum()]
    share = share_of(residuals, honest, rng)
    return share * (np.mean(outputs, axis=0) - unit * (K_test @ flat) - CONSTANT * flat.sum()), share


def compared(name: str, split: int, most: int, ways: list[str], folds: int) -> list[float] | None:
    """Print and return the error of every way over that of the default."""
    given = data(name, split, most)
    if given is None:
        return None
    X, y, X_test, target = given
    begin = process_time()
    model = MLKMRegressor(random_state=0).fit(X, y)
    seconds, f = process_time() - begin, model.predict(X_test)
    uncertainty: Any = model.fitted_.uncertainty
    kernel_share = uncertainty.shares[0] + uncertainty.transformed_share
    Z, Z_test, (mean, sd) = model.standardised(X), model.standardised(X_test), (y.mean(), y.std())
    words, ratios = [f"{name}:{split}", f"default {np.sqrt(np.mean((f - target) ** 2)):.4f} ({seconds:.1f} s)"], []
    for way in ways:
        begin = process_time()
        change, share = deepened(*uncertainty.learned, Z, (y - mean) / sd, Z_test, way, folds)
        taken, g = process_time() - begin, f + kernel_share * sd * change
        ratios.append(float(np.sqrt(np.mean((g - target) ** 2) / np.mean((f - target) ** 2))))
        words.append(f"{way} {ratios[-1]:.3f}, share {share:.2f}, time {taken / seconds:.2f}")
    print("; ".join(words), flush=True)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=COMPOSED + DECIDED)
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--most", type=int, default=2000, help="training rows at most")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    cases = [(name, split) for name in options.sets for split in options.splits]
    every = [compared(name, split, options.most, options.ways, options.folds) for name, split in cases]
    ratios = np.array([one for one, (name, _) in zip(every, cases, strict=True) if one and name not in COMPOSED])
    for way, column in zip(options.ways, ratios.T if len(ratios) else [], strict=False):
        print(f"{way}: geometric mean over real sets {np.exp(np.log(column).mean()):.4f}, worst {column.max():.3f}")


if __name__ == "__main__":
    main()
