"""Slow references of doubly stochastic training, as DSG16's Algorithms 1 to 4 and (9) are printed.

Where they depart from the print: features have one of the two factors ``sqrt(2)`` and
``1/sqrt(m)``, so that ``phi(x)'phi(x) = 1``; steps with old blocks are counted as in the proof of
Theorem 4; beta_k gets its old value, not alpha_k's. Each shrinks all weights in a loop, writes
the weights of all steps down and averages them in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gramless.streaming.doubly_stochastic import DoublyStochastic

Array = NDArray[np.float64]
Draw = Callable[[int], Array]
Slopes = Callable[[Array, Array], Array]


def responses(training: DoublyStochastic, X: Array) -> Array:
    """Return the present function of some training at rows."""
    f, rows = training.expansion, training.products.prepare(X)
    if f.n_blocks == 0:
        return np.zeros((len(X), f.n_outputs))
    return f.scale * training.products.responses(rows, f.groups, f.n_blocks) + f.constant


def multinomial_slopes(z: Array, y: Array) -> Array:
    grown = np.exp(z - z.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True) - (y > 0)


SLOPES: dict[str, Slopes] = {
    "squared": lambda z, y: z - y,
    "logistic": lambda z, y: -y / (1.0 + np.exp(y * z)),
    "multinomial": multinomial_slopes,
    "squared_hinge": lambda z, y: -y * np.maximum(0.0, 1.0 - y * z),
    "hinge": lambda z, y: np.where(y * z < 1.0, -y, 0.0),
}
"""l' of each loss."""


def features(X: Array, frequencies: Array) -> Array:
    """Return phi(x) of each row: cosine and sine of one frequency after the other."""
    columns = []
    for w in frequencies:
        columns += [np.cos(X @ w), np.sin(X @ w)]
    return np.stack(columns, axis=1) / np.sqrt(len(frequencies))


@dataclass
class Reference:
    """The weights of all blocks, now and after every step."""

    draw: Draw
    slopes: Slopes
    n_outputs: int
    penalty: float
    alpha: list[Array] = field(default_factory=list)
    beta: list[Array] = field(default_factory=list)
    history: list[list[Array]] = field(default_factory=list)

    def predict(self, X: Array) -> Array:
        """Algorithm 2."""
        f = np.zeros((len(X), self.n_outputs))
        for i, alpha in enumerate(self.alpha):
            f = f + features(X, self.draw(i)) @ alpha
        return f

    def gradient(self, X: Array, slopes: Array, block: int) -> Array:
        """Return the batch's mean of l' phi: that of the losses in the weights of a block."""
        phi, total = features(X, self.draw(block)), 0.0
        for row, slope in zip(phi, slopes, strict=True):
            total = total + np.outer(row, slope)
        return total / len(X)

    def update(self, X: Array, slopes: Array, block: int, eta: float) -> None:
        """Shrink all weights and change one block, new or old."""
        gradient, mean = self.gradient(X, slopes, block), slopes.mean(axis=0)
        for j in range(len(self.alpha)):
            self.alpha[j] = (1.0 - eta * self.penalty) * self.alpha[j]
            self.beta[j] = (1.0 - eta * self.penalty) * self.beta[j]
        if block == len(self.alpha):
            self.alpha.append(np.zeros_like(gradient))
            self.beta.append(np.zeros(self.n_outputs))
        self.alpha[block] = self.alpha[block] - eta * gradient
        self.beta[block] = self.beta[block] - eta * mean
        self.history.append(list(self.alpha))

    def averaged(self, decay: float) -> list[Array]:
        """Return the mean of the weights after each step; a block had none before it came."""
        weights = step_weights(len(self.history), decay)
        means = [np.zeros_like(alpha) for alpha in self.alpha]
        for weight, alphas in zip(weights, self.history, strict=True):
            for j, alpha in enumerate(alphas):
                means[j] = means[j] + weight * alpha
        return means


def step_weights(n_steps: int, decay: float) -> list[float]:
    """Return what each step counts in ``mean_t = (1 - r_t) mean_(t-1) + r_t f_t``.

    ``r_t = (1 + decay) / (t + decay)``: Shamir & Zhang (2013), section 4.
    """
    weights = []
    for step in range(1, n_steps + 1):
        weight = (1.0 + decay) / (step + decay)
        for later in range(step + 1, n_steps + 1):
            weight *= 1.0 - (1.0 + decay) / (later + decay)
        weights.append(weight)
    return weights


def grow(reference: Reference, X: Array, y: Array, gamma: float) -> tuple[int, float]:
    """Algorithm 1."""
    slopes = reference.slopes(reference.predict(X), y)
    new = len(reference.alpha)
    reference.update(X, slopes, new, gamma)
    return new, gamma


def uniform(
    reference: Reference,
    X: Array,
    y: Array,
    gamma: float,
    n_new: int,
    n_old: int,
    draw_old: Callable[[int, int], int],
) -> tuple[int, float]:
    """Algorithm 3; ``draw_old(i, m)`` is the k of its step i."""
    i, m = len(reference.history) + 1, len(reference.alpha)
    slopes = reference.slopes(reference.predict(X), y)
    chosen = m if (i - 1) % (n_new + n_old) < n_new else draw_old(i, m)
    reference.update(X, slopes, chosen, gamma)
    return chosen, gamma


def check(
    reference: Reference,
    X: Array,
    y: Array,
    gamma: float,
    sigma: float,
    power: int,
    longest: float,
) -> tuple[int, float]:
    """Algorithm 4, whose steps are at most ``longest`` times gamma."""
    slopes = reference.slopes(reference.predict(X), y)
    bound = max(float(np.linalg.norm(slope)) for slope in slopes)
    noise = bound * sigma / len(X) ** (power / 2)
    steps = [solve_9(beta, slopes.mean(axis=0), gamma, noise) for beta in reference.beta]
    chosen, eta = len(reference.alpha), gamma
    if steps and max(steps) > gamma:
        chosen = steps.index(max(steps))
        eta = min(steps[chosen], longest * gamma)
    reference.update(X, slopes, chosen, eta)
    return chosen, eta


def excess_9(eta: float, beta: Array, g: Array, gamma: float, noise: float) -> float:
    """Return the left side of (9) less its right side; noise is ``M sigma / B^(power/2)``."""
    left = 2.0 * np.sum((beta + eta * g) ** 2) + 2.0 * (eta * noise) ** 2
    return float(left - (np.sum(beta**2) + np.sum((gamma * g) ** 2)))


def solve_9(beta: Array, g: Array, gamma: float, noise: float) -> float:
    """Return |eta| of the longest step ``eta < -gamma`` that (9) allows, or 0."""
    a = 2.0 * np.sum(g**2) + 2.0 * noise**2
    b = 4.0 * np.sum(beta * g)
    c = np.sum(beta**2) - np.sum((gamma * g) ** 2)
    if a == 0.0 or b * b < 4.0 * a * c:
        return 0.0
    eta = (-b - np.sqrt(b * b - 4.0 * a * c)) / (2.0 * a)
    return -float(eta) if eta < -gamma else 0.0


def search_9(beta: Array, g: Array, gamma: float, noise: float) -> float:
    """Find the same by trying steps, and then halving the last change of sign."""
    far = 4.0 * (np.linalg.norm(beta) / max(np.linalg.norm(g), noise, 1e-300) + gamma)
    tried = -np.linspace(0.0, far, 401)
    allowed = [excess_9(eta, beta, g, gamma, noise) <= 0.0 for eta in tried]
    if not any(allowed):
        return 0.0
    last = max(k for k, fits in enumerate(allowed) if fits)
    eta = brentq(
        excess_9, tried[last + 1], tried[last], (beta, g, gamma, noise), xtol=1e-14, rtol=1e-14
    )
    return -eta if eta < -gamma else 0.0


@dataclass
class CenteredReference:
    """``f(x) = c + sum of (phi_k(x) - m)' delta`` over the steps, each with its own k, m, delta."""

    draw: Draw
    slopes: Slopes
    n_outputs: int
    penalty: float
    constant: Array = field(init=False)
    parts: list[tuple[int, Array, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.constant = np.zeros(self.n_outputs)

    def predict(self, X: Array) -> Array:
        f = np.tile(self.constant, (len(X), 1))
        for block, mean, delta in self.parts:
            f = f + (features(X, self.draw(block)) - mean) @ delta
        return f

    def update(self, X: Array, y: Array, block: int, eta: float, length: float) -> None:
        slopes = self.slopes(self.predict(X), y)
        phi = features(X, self.draw(block))
        centered = phi - phi.mean(axis=0)
        gradient = sum(np.outer(p, s) for p, s in zip(centered, slopes, strict=True)) / len(X)
        factor = 1.0 - eta * self.penalty
        self.parts = [(k, mean, factor * delta) for k, mean, delta in self.parts]
        self.parts.append((block, phi.mean(axis=0), -eta * gradient))
        self.constant = self.constant - length * slopes.mean(axis=0)

    def weights(self, n_blocks: int) -> Array:
        """Return the weights of all blocks, one below the other."""
        totals = [np.zeros_like(self.parts[0][2]) for _ in range(n_blocks)]
        for block, _, delta in self.parts:
            totals[block] = totals[block] + delta
        return np.concatenate(totals)

    def at_zero_features(self) -> Array:
        """Return what f is but for ``sum phi_k(x)' alpha_k``."""
        return self.constant - sum(mean @ delta for _, mean, delta in self.parts)
