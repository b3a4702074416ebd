"""Doubly stochastic training, step by step, against slow reference implementations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.base.random import stream
from gramless.kernels import Gaussian, Matern, SpectralKernel
from gramless.losses import Hinge, Logistic, Loss, Multinomial, Squared, SquaredHinge
from gramless.streaming.doubly_stochastic import (
    DoublyStochastic,
    FreeIntercept,
    NewtonStep,
    NoIntercept,
    Step,
    Update,
)
from gramless.streaming.feature_blocks import CpuProducts, FrequencyBlocks
from gramless.streaming.feature_expansion import FeatureExpansion
from gramless.streaming.step_sizes import InverseTime
from gramless.streaming.strategies import Checking, Grow, Strategy, Uniform

from . import references
from .references import CenteredReference, Reference

Array = NDArray[np.float64]
Follow = Callable[[Reference, Array, Array, float], tuple[int, float]]

SEED, N_INPUTS, SIGMA = 5, 4, 0.6
FAR = 1e9
"""A delay that makes all steps alike."""
LOSSES: dict[str, tuple[Loss, int]] = {
    "squared": (Squared(), 2),
    "logistic": (Logistic(), 1),
    "multinomial": (Multinomial(), 3),
    "squared_hinge": (SquaredHinge(), 1),
    "hinge": (Hinge(), 2),
}


def follow_uniform(n_new: int, n_old: int) -> Follow:
    def draw_old(i: int, m: int) -> int:
        return int(stream(SEED, "old blocks", i).integers(m))

    return lambda *now: references.uniform(*now, n_new, n_old, draw_old)


def follow_checking(power: int, longest: float) -> Follow:
    return lambda *now: references.check(*now, SIGMA, power, longest)


STRATEGIES: dict[str, tuple[Strategy, Follow]] = {
    "grow": (Grow(), references.grow),
    "uniform": (Uniform(), follow_uniform(1, 1)),
    "uniform_2_3": (Uniform(2, 3), follow_uniform(2, 3)),
    "checking": (Checking(), follow_checking(2, 1.0)),
    "checking_twice": (Checking(longest=2.0), follow_checking(2, 2.0)),
    "checking_2_inf": (Checking(2, np.inf), follow_checking(2, np.inf)),
    "checking_1": (Checking(1, 2.0), follow_checking(1, 2.0)),
    "checking_1_inf": (Checking(1, np.inf), follow_checking(1, np.inf)),
}

GAUSSIAN, NONE = Gaussian(), NoIntercept()


@dataclass
class Pair:
    """Training and its reference, over the same batches."""

    name: str
    loss_name: str = "squared"
    size: int = 3
    batch_rows: int = 7
    theta: float = 3.0
    alpha: float = 0.4
    delay: float = 2.0
    decay: float = 3.0
    kernel: SpectralKernel = GAUSSIAN
    intercept: Update = NONE
    group_frequencies: int = 2048
    scale_limits: tuple[float, float] = (1e-6, 1e6)

    def __post_init__(self) -> None:
        self.loss, self.n_outputs = LOSSES[self.loss_name]
        strategy, self.follow = STRATEGIES[self.name]
        sizes = self.size, N_INPUTS, self.group_frequencies
        self.blocks = FrequencyBlocks(self.kernel, SEED, *sizes)
        schedule = InverseTime(self.theta, self.delay)
        self.ours = DoublyStochastic(
            *(self.products(), self.expansion(), self.loss, self.alpha, schedule),
            *(strategy, self.intercept, SEED, SIGMA**2),
        )
        slopes = references.SLOPES[self.loss_name]
        self.draw = cache(self.blocks.draw)
        self.reference = Reference(self.draw, slopes, self.n_outputs, self.alpha)
        self.rng = np.random.default_rng(0)

    def products(self) -> CpuProducts:
        return CpuProducts(self.blocks, np.zeros(N_INPUTS), np.ones(N_INPUTS), 1 << 20, n_jobs=1)

    def expansion(self) -> FeatureExpansion:
        sizes = 2 * self.size, self.blocks.group_blocks, self.n_outputs
        return FeatureExpansion(*sizes, self.decay, self.scale_limits)

    def batch(self) -> tuple[Array, Array]:
        """Return rows that float32 holds, and targets."""
        X = self.rng.normal(size=(self.batch_rows, N_INPUTS)).astype(np.float32).astype(float)
        noise = self.rng.normal(size=(self.batch_rows, self.n_outputs))
        targets = np.sin(2.0 * X[:, : self.n_outputs]) + 0.3 * noise
        if self.loss_name == "multinomial":
            return X, np.where(targets == targets.max(axis=1, keepdims=True), 1.0, -1.0)
        return X, targets if self.loss_name == "squared" else np.where(targets > 0, 1.0, -1.0)

    def step(self) -> Step:
        """Take a step with both and compare what they chose, and what they are then."""
        X, y = self.batch()
        z = self.reference.predict(X)
        value, slopes = self.loss.value(z, y).sum() / len(X), self.reference.slopes(z, y)
        squares = sum(float((alpha**2).sum()) for alpha in self.reference.alpha)
        penalty = 0.5 * self.alpha * len(self.reference.alpha) * squares
        done = self.ours.step(X, y)
        block, eta = self.follow(
            *(self.reference, X, y, self.theta / (len(self.reference.history) + 1 + self.delay))
        )
        assert (done.block, done.n_blocks) == (block, len(self.reference.alpha))
        assert done.iteration == self.ours.iteration == len(self.reference.history)
        near(done.step, eta)
        near(done.loss, value)
        near(done.objective, value + penalty)
        near(done.gradient_norm, np.linalg.norm(slopes.mean(axis=0)), np.abs(slopes).max())
        self.compare()
        return done

    def compare(self) -> None:
        f, reference = self.ours.expansion, self.reference
        near(f.weights(), np.concatenate(reference.alpha))
        near(f.sums, np.stack(reference.beta))
        near(f.squared_norm, sum(float((alpha**2).sum()) for alpha in reference.alpha))
        X, _ = self.batch()
        near(references.responses(self.ours, X), reference.predict(X))

    def compare_averages(self) -> None:
        reference = self.reference.averaged(self.decay)
        near(self.ours.expansion.averaged_weights(), np.concatenate(reference))


def near(actual: Any, expected: Any, least: float = 1e-30) -> None:
    """Compare to some roundings of float32, relative to the largest number."""
    scale = max(float(np.abs(expected).max()), least)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5 * scale)


# Step for step.


@pytest.mark.parametrize(
    ("name", "loss_name"),
    zip(STRATEGIES, [*LOSSES, "squared", "multinomial", "hinge"], strict=True),
)
def test_training_matches_the_reference_for_every_strategy_and_loss(
    name: str, loss_name: str
) -> None:
    pair = Pair(name, loss_name)
    for _ in range(14):
        pair.step()
    pair.compare_averages()


@pytest.mark.parametrize(
    ("name", "size", "batch_rows"),
    [
        ("grow", 1, 1),
        ("uniform_2_3", 3, 1),
        ("checking", 1, 7),
        ("checking_1_inf", 64, 100),
        ("uniform", 64, 7),
        ("checking_2_inf", 64, 7),
    ],
)
def test_training_matches_the_reference_for_every_size(
    name: str, size: int, batch_rows: int
) -> None:
    pair = Pair(name, "logistic", size, batch_rows, theta=6.0)
    for k in range(12):
        # Unlimited steps along a few rows that fit well are as long as the weights' factor is huge.
        if pair.step().step * pair.alpha > 4.0:
            break
        if k % 5 == 4:
            pair.compare_averages()
    assert k >= 2
    pair.compare_averages()


@pytest.mark.parametrize("name", ["grow", "uniform_2_3", "checking"])
def test_training_matches_the_reference_over_several_groups(name: str) -> None:
    pair = Pair(name, size=17, theta=0.5, alpha=1.0, group_frequencies=40)
    assert pair.blocks.group_blocks == 2
    for _ in range(15):
        pair.step()
    assert len(pair.ours.expansion.groups) >= 2
    pair.compare_averages()


def test_averages_match_the_reference_for_every_decay() -> None:
    for decay in [0.0, 3.0, 8.0]:
        pair = Pair("uniform", decay=decay)
        for _ in range(30):
            pair.step()
        pair.compare_averages()


def test_training_matches_the_reference_for_another_kernel() -> None:
    pair = Pair("checking_1_inf", "squared_hinge", kernel=Matern(1.5))
    for _ in range(20):
        pair.step()
    pair.compare_averages()


def test_checking_uses_new_and_old_blocks() -> None:
    pair = Pair("checking_1_inf", "logistic", batch_rows=100, theta=9.0)
    for _ in range(40):
        pair.step()
    assert 2 < len(pair.reference.alpha) < 35


# Factors that turn signs, vanish, or become too small or large to be one number.


@pytest.mark.parametrize(
    ("name", "product"),
    [("grow", 1.0), ("uniform_2_3", 1.5), ("checking", 2.0), ("uniform", 3.0), ("checking_1", 1.0)],
)
def test_shrinkage_factors_may_be_negative_or_zero(name: str, product: float) -> None:
    pair = Pair(name, theta=product, alpha=1.0, delay=0.0)
    factors = [1.0 - product / t for t in (1, 2, 3)]
    assert min(factors) < 0.0 or 0.0 in factors
    for _ in range(12):
        pair.step()
    pair.compare_averages()


@pytest.mark.parametrize(
    ("name", "product"),
    [("grow", 1.4), ("uniform_2_3", 2.2), ("checking", 0.5), ("checking_1_inf", 2.2)],
)
def test_folded_scales_match_the_reference(name: str, product: float) -> None:
    limits = (0.1, 1.5)
    pair = Pair(name, theta=0.2 * product * FAR, alpha=5.0, delay=FAR, scale_limits=limits)
    for _ in range(16):
        if pair.step().step * pair.alpha > 4.0:
            break
    pair.compare_averages()


@pytest.mark.parametrize("name", ["grow", "uniform_2_3"])
def test_long_runs_that_forget_match_the_reference(name: str) -> None:
    pair = Pair(name, "logistic", theta=0.5 * FAR, alpha=1.0, delay=FAR)
    scales = []
    for _ in range(65):
        pair.step()
        scales.append(pair.ours.expansion.scale)
    pair.compare_averages()
    assert scales.count(1.0) == 3


# Gradients.


@pytest.mark.parametrize("loss_name", [name for name in LOSSES if name != "hinge"])
def test_steps_follow_the_negative_gradient(loss_name: str) -> None:
    pair = Pair("uniform", loss_name, size=5, batch_rows=11)
    for _ in range(5):
        pair.step()
    X, y = pair.batch()
    before = [alpha.copy() for alpha in pair.reference.alpha]
    done = pair.ours.step(X, y)
    assert done.block < len(before)
    factor = 1.0 - done.step * pair.alpha
    after = pair.ours.expansion.weights()[10 * done.block : 10 * (done.block + 1)]
    gradient = (after - factor * before[done.block]) / -done.step
    expected, h = np.empty_like(gradient), 1e-5
    for place in np.ndindex(gradient.shape):
        ends = []
        for sign in (1.0, -1.0):
            moved = before[done.block].copy()
            moved[place] += sign * h
            pair.reference.alpha = [*before]
            pair.reference.alpha[done.block] = moved
            ends.append(pair.loss.value(pair.reference.predict(X), y).sum() / len(X))
        expected[place] = (ends[0] - ends[1]) / (2.0 * h)
    np.testing.assert_allclose(gradient, expected, atol=3e-5 * np.abs(expected).max())


# With a constant.


@pytest.mark.parametrize(
    ("name", "loss_name"),
    [("grow", "squared"), ("uniform_2_3", "multinomial"), ("checking", "squared_hinge")],
)
def test_centred_features_match_the_reference(name: str, loss_name: str) -> None:
    length = 0.7
    pair = Pair(name, loss_name, batch_rows=20, intercept=FreeIntercept(length))
    f, schedule = pair.ours.expansion, pair.ours.schedule
    reference = CenteredReference(pair.draw, pair.reference.slopes, pair.n_outputs, pair.alpha)
    constants = []
    for _ in range(14):
        X, y = pair.batch()
        done = pair.ours.step(X, y)
        share = schedule.step(done.iteration) / schedule.step(1)
        reference.update(X, y, done.block, done.step, share * length)
        near(f.weights(), reference.weights(done.n_blocks))
        near(f.constant, reference.at_zero_features(), least=0.1)
        near(references.responses(pair.ours, X), reference.predict(X))
        constants.append(reference.at_zero_features())
    shares = references.step_weights(len(constants), pair.decay)
    mean = sum(share * constant for share, constant in zip(shares, constants, strict=True))
    near(f.averaged_constant, mean, least=0.1)


@pytest.mark.parametrize(
    ("name", "loss_name"),
    [("grow", "squared"), ("uniform_2_3", "multinomial"), ("checking", "multinomial")],
)
def test_newton_steps_solve_the_block_system(name: str, loss_name: str) -> None:
    newton = NewtonStep(curvature=0.8, first=1.5, ridge=0.02, damping=0.6)
    pair = Pair(name, loss_name, batch_rows=40, intercept=newton)
    f, schedule = pair.ours.expansion, pair.ours.schedule
    for _ in range(8):
        X, y = pair.batch()
        weights, intercept = f.weights().astype(float), f.intercept.copy()
        offset = f.constant - intercept
        slopes = pair.reference.slopes(references.responses(pair.ours, X), y)
        done = pair.ours.step(X, y)
        kept = 1.0 - newton.damping * done.step * pair.alpha
        features = references.features(X, pair.draw(done.block))
        inside = features - features.mean(axis=0)
        covariance = inside.T @ inside / len(X) + newton.ridge * np.eye(features.shape[1])
        direction = np.linalg.solve(covariance, inside.T @ slopes / len(X))
        step = -newton.damping * done.step / (newton.first * newton.curvature) * direction
        place = slice(done.block * len(step), (done.block + 1) * len(step))
        expected = np.zeros((done.n_blocks * len(step), pair.n_outputs))
        expected[: len(weights)] = kept * weights
        expected[place] += step
        near(f.weights(), expected)
        share = schedule.step(done.iteration) / schedule.step(1)
        moved = -share / newton.curvature * slopes.mean(axis=0) - features.mean(axis=0) @ step
        near(f.constant, intercept + kept * offset + moved, least=0.1)


def test_intercept_converges_to_the_mean() -> None:
    pair = Pair("grow", theta=1.0, alpha=1.0, batch_rows=50, intercept=FreeIntercept(1.0))
    X, y = pair.batch()
    for _ in range(300):
        pair.ours.step(X, y + 1e4)
    mean = references.responses(pair.ours, X).mean(axis=0)
    np.testing.assert_allclose(mean, (y + 1e4).mean(axis=0), rtol=1e-6)


# Interruptions.


def identical(one: DoublyStochastic, other: DoublyStochastic) -> None:
    for name, value in one.expansion.state().items():
        np.testing.assert_array_equal(other.expansion.state()[name], value, err_msg=name)
    np.testing.assert_array_equal(
        one.expansion.averaged_weights(), other.expansion.averaged_weights()
    )
    assert one.iteration == other.iteration


@pytest.mark.parametrize(
    ("name", "intercept", "n_before"),
    [
        ("grow", NONE, 0),
        ("grow", FreeIntercept(0.5), 15),
        ("uniform", FreeIntercept(0.5), 1),
        ("uniform", NONE, 15),
        ("checking", FreeIntercept(0.5), 0),
        ("checking", NONE, 15),
    ],
)
def test_restored_training_continues_identically(
    name: str, intercept: Update, n_before: int
) -> None:
    whole, parts = (
        Pair(name, "multinomial", 5, 9, theta=1.5, alpha=1.0, delay=0.0, intercept=intercept)
        for _ in range(2)
    )
    batches = [whole.batch() for _ in range(n_before + 8)]
    for X, y in batches[:n_before]:
        whole.ours.step(X, y)
        parts.ours.step(X, y)
    again = Pair(name, "multinomial", 5, 9, theta=1.5, alpha=1.0, delay=0.0, intercept=intercept)
    again.ours.expansion.restore(parts.ours.expansion.state())
    again.ours.iteration = parts.ours.iteration
    for X, y in batches[n_before:]:
        assert whole.ours.step(X, y) == again.ours.step(X, y)
    identical(whole.ours, again.ours)


def test_number_of_threads_does_not_change_training() -> None:
    for n_jobs in [2, 3]:
        one, several = (Pair("checking", "multinomial", 40, 300, theta=9.0) for _ in range(2))
        one.ours.products.n_jobs, several.ours.products.n_jobs = 1, n_jobs
        for _ in range(10):
            X, y = one.batch()
            assert one.ours.step(X, y) == several.ours.step(X, y)
        identical(one.ours, several.ours)


def test_state_is_a_copy() -> None:
    pair = Pair("uniform")
    pair.step()
    state = pair.ours.expansion.state()
    kept = {name: np.copy(value) for name, value in state.items()}
    other = pair.expansion()
    other.restore(state)
    for _ in range(3):
        pair.step()
        other.shrink(0.5)
        other.change(0, np.ones((6, 2)), np.ones(2))
        other.move(np.ones(2), np.ones(2))
        other.average()
    for name, value in state.items():
        np.testing.assert_array_equal(value, kept[name], err_msg=name)
