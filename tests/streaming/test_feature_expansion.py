"""Weights that shrink by one factor and average themselves, against plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.streaming.feature_expansion import FeatureExpansion

from .references import step_weights

Array = NDArray[np.float64]

COLUMNS, OUTPUTS = 4, 2


class Plain:
    """The same with everything written down, in float64."""

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.weights: list[Array] = []
        self.sums: list[Array] = []
        self.offset, self.intercept = np.zeros(OUTPUTS), np.zeros(OUTPUTS)
        self.history: list[tuple[list[Array], Array]] = []

    def move(self, intercept: Array, offset: Array) -> None:
        self.intercept, self.offset = self.intercept + intercept, self.offset + offset

    def shrink(self, factor: float) -> None:
        self.weights = [factor * block for block in self.weights]
        self.sums = [factor * block for block in self.sums]
        self.offset = factor * self.offset

    def add(self, weights: Array, total: Array) -> None:
        self.weights.append(weights)
        self.sums.append(total)

    def change(self, block: int, step: Array, total: Array) -> None:
        self.weights[block] = self.weights[block] + step
        self.sums[block] = self.sums[block] + total

    def average(self) -> None:
        self.history.append((list(self.weights), self.offset + self.intercept))

    def averages(self) -> tuple[Array, Array]:
        means, constant = [np.zeros((COLUMNS, OUTPUTS)) for _ in self.weights], np.zeros(OUTPUTS)
        shares = step_weights(len(self.history), self.decay)
        for share, (weights, constant_then) in zip(shares, self.history, strict=True):
            constant = constant + share * constant_then
            for k, block in enumerate(weights):
                means[k] = means[k] + share * block
        return joined(means), constant

    def largest(self) -> float:
        """Return the largest weight there ever was: the scale of all roundings."""
        ever = [block for weights, _ in self.history for block in weights] + self.weights
        return max((float(np.abs(block).max()) for block in ever), default=0.0)


def joined(blocks: list[Array]) -> Array:
    return np.concatenate([*blocks, np.zeros((0, OUTPUTS))])


def compare(f: FeatureExpansion, plain: Plain, averages: bool) -> None:
    assert f.n_blocks == len(plain.weights)
    room = 2e-6 * plain.largest() + 1e-30
    weights = joined(plain.weights)
    np.testing.assert_allclose(f.weights(), weights, rtol=0, atol=room)
    assert f.weights().dtype == np.float32
    np.testing.assert_allclose(f.squared_norm, (weights**2).sum(), atol=room * plain.largest() * 9)
    np.testing.assert_allclose(f.sums, np.reshape(plain.sums, (-1, OUTPUTS)), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(f.constant, plain.offset + plain.intercept, rtol=1e-9, atol=1e-9)
    if averages:
        means, constant = plain.averages()
        np.testing.assert_allclose(f.averaged_weights(), means, rtol=0, atol=room)
        np.testing.assert_allclose(f.averaged_constant, constant, rtol=1e-9, atol=1e-9)


def act(f: Any, action: str, number: int, factor: float, rng: np.random.Generator) -> None:
    """Do one thing to an expansion or to its reference."""
    weights, total = rng.normal(size=(COLUMNS, OUTPUTS)), rng.normal(size=OUTPUTS)
    n_blocks = f.n_blocks if isinstance(f, FeatureExpansion) else len(f.weights)
    if action == "shrink":
        f.shrink(factor)
    elif action == "average":
        f.average()
    elif action == "move":
        f.move(total, weights[0])
    elif action == "add" or not n_blocks:
        f.add(weights, total)
    else:
        f.change(number % n_blocks, weights, total)


ACTIONS = st.tuples(
    st.sampled_from(["shrink", "average", "average", "add", "change", "change", "move"]),
    st.integers(0, 30),
    st.sampled_from([0.0, 1.0, -0.5, 0.99, 0.3, 1e-7, -2e-4, 1.5]) | st.floats(-1.2, 1.2),
)


@given(
    st.lists(ACTIONS, max_size=60),
    st.integers(1, 5),
    st.sampled_from([0.0, 1.0, 3.0]),
    st.integers(5, 60),
)
def test_any_sequence_of_operations_matches_the_reference(
    actions: list[Any], group_blocks: int, decay: float, pause: int
) -> None:
    f, plain = FeatureExpansion(COLUMNS, group_blocks, OUTPUTS, decay), Plain(decay)
    for k, (action, number, factor) in enumerate(actions):
        act(f, action, number, factor, np.random.default_rng(k))
        act(plain, action, number, factor, np.random.default_rng(k))
        compare(f, plain, averages=k % pause == 0)
    compare(f, plain, averages=True)


@given(st.lists(ACTIONS, max_size=40), st.lists(ACTIONS, max_size=20), st.integers(1, 4))
def test_restored_copy_continues_identically(
    before: list[Any], after: list[Any], group_blocks: int
) -> None:
    f = FeatureExpansion(COLUMNS, group_blocks, OUTPUTS)
    for k, action in enumerate(before):
        act(f, *action, np.random.default_rng(k))
    copy = FeatureExpansion(COLUMNS, group_blocks, OUTPUTS)
    copy.restore(f.state())
    for k, action in enumerate(after):
        for expansion in (f, copy):
            act(expansion, *action, np.random.default_rng(k))
    for name, value in f.state().items():
        np.testing.assert_array_equal(copy.state()[name], value, err_msg=name)
    np.testing.assert_array_equal(copy.averaged_weights(), f.averaged_weights())
    for a, b in zip(copy.groups, f.groups, strict=True):
        np.testing.assert_array_equal(a, b)


def test_long_run_matches_the_reference() -> None:
    for limits in [(1e-6, 1e6), (0.3, 3.0)]:
        f = FeatureExpansion(COLUMNS, 7, OUTPUTS, scale_limits=limits)
        plain, rng = Plain(3.0), np.random.default_rng(0)
        for t in range(1, 400):
            weights, total = rng.normal(size=(COLUMNS, OUTPUTS)), rng.normal(size=OUTPUTS)
            block = int(rng.integers(f.n_blocks + 1)) if t % 3 else f.n_blocks
            for expansion in (f, plain):
                expansion.shrink(1.0 - 1.5 / (1.0 + 0.05 * t))
                if block == len(expansion.sums):
                    expansion.add(weights, total)
                else:
                    expansion.change(block, weights, total)
                expansion.average()
        assert f.n_blocks > 64
        compare(f, plain, averages=True)


@given(st.lists(ACTIONS, max_size=40), st.integers(1, 4))
def test_reading_averages_does_not_change_the_state(actions: list[Any], group_blocks: int) -> None:
    looked, alone = (FeatureExpansion(COLUMNS, group_blocks, OUTPUTS) for _ in range(2))
    copies = []
    for k, action in enumerate(actions):
        for f in (looked, alone):
            act(f, *action, np.random.default_rng(k))
        result = looked.averaged_weights(), looked.averaged_constant
        copies.append((result, [part.copy() for part in result]))
    for name, value in alone.state().items():
        np.testing.assert_array_equal(looked.state()[name], value, err_msg=name)
    for result, before in copies:
        for part, same in zip(result, before, strict=True):
            np.testing.assert_array_equal(part, same)


def test_empty_expansion_has_empty_arrays() -> None:
    f = FeatureExpansion(COLUMNS, 1, OUTPUTS)
    f.shrink(0.0)
    f.average()
    assert f.weights().shape == f.averaged_weights().shape == (0, OUTPUTS)
    assert f.sums.shape == (0, OUTPUTS)
    assert f.squared_norm == 0.0
    assert f.groups == []
