"""Expansions in blocks of random features, with lazy shrinking and running averages."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.state import State, array_in, number_in, require
from gramless.base.types import FloatArray

Float32Array = NDArray[np.float32]
_MAX_MAGNITUDE = 1e18  # limit on the numbers of a run that are read from a file
_VECTORS = ("offset", "intercept", "averaged_constant")
_NUMBERS = ("scale", "squared_norm", "left", "mean")


class FeatureExpansion:
    """The function ``f(x) = sum_k phi_k(x)' alpha_k + constant``, and its average over the steps.

    The weights of block k are ``scale`` times the stored numbers, so shrinking all blocks is one
    multiplication. If the scale leaves ``scale_limits``, it is multiplied into the stored numbers.
    In the average, step t of T has a weight of about ``(t / T)^decay`` (Shamir & Zhang 2013,
    section 4). The average of a block is updated when the block changes, and when it is read.

    A block has ``block_columns`` features, two per frequency. ``groups`` stores ``group_blocks``
    blocks per array, and the averages likewise: ``8 block_columns n_outputs`` bytes per block. The
    constant of each output is an intercept, which does not shrink, plus an offset, which does.
    """

    def __init__(
        self,
        block_columns: int,
        group_blocks: int,
        n_outputs: int,
        decay: float = 3.0,
        scale_limits: tuple[float, float] = (1e-6, 1e6),
    ) -> None:
        self.block_columns, self.group_blocks = block_columns, group_blocks
        self.n_outputs, self.decay, self.scale_limits = n_outputs, decay, scale_limits
        self.n_blocks, self.scale, self.squared_norm = 0, 1.0, 0.0
        self.groups: list[Float32Array] = []
        self._averaged: list[Float32Array] = []
        self._sums: FloatArray = np.zeros((0, n_outputs))
        self.offset, self.intercept = np.zeros(n_outputs), np.zeros(n_outputs)
        self.averaged_constant = np.zeros(n_outputs)
        # ``left`` is the share of the initial value in the average, ``mean`` the mean scale since
        # then. ``_seen`` (n_blocks, 2) holds both at the last change of each block.
        self.left, self.mean, self.n_averaged = 1.0, 0.0, 0
        self._seen: FloatArray = np.zeros((0, 2))

    @property
    def sums(self) -> FloatArray:
        """The negative sum, for each block, of step times mean gradient: beta in DSG16's (9)."""
        return self.scale * self._sums[: self.n_blocks]

    @property
    def constant(self) -> FloatArray:
        return self.intercept + self.scale * self.offset

    def move(self, intercept: FloatArray, offset: FloatArray) -> None:
        self.intercept += intercept
        self.offset += offset / self.scale

    def shrink(self, factor: float) -> None:
        """Multiply all weights and the offset by a factor."""
        self.scale *= factor
        self.squared_norm *= factor * factor
        lowest, highest = self.scale_limits
        if lowest < abs(self.scale) < highest:
            return
        # The stored numbers are weights divided by the scale, so they would leave the range of
        # float32. They are multiplied by the scale, which becomes 1.
        for block in range(self.n_blocks):
            self._update_average(block)
        for group in self.groups:
            group *= np.float32(self.scale)
        self._sums *= self.scale
        self.offset *= self.scale
        self.scale, self.left, self.mean = 1.0, 1.0, 0.0
        self._seen[:] = 1.0, 0.0

    def add(self, weights: FloatArray, total: FloatArray) -> None:
        """Add a block with weights (block_columns, n_outputs); ``total`` is its entry of sums."""
        if self.n_blocks == len(self.groups) * self.group_blocks:
            shape = (self.block_columns * self.group_blocks, self.n_outputs)
            for groups in (self.groups, self._averaged):
                groups.append(np.zeros(shape, np.float32))
        if self.n_blocks == len(self._sums):
            n_more = max(64, self.n_blocks)
            self._sums = np.concatenate([self._sums, np.zeros((n_more, self.n_outputs))])
            self._seen = np.concatenate([self._seen, np.zeros((n_more, 2))])
        self.n_blocks += 1
        self._seen[self.n_blocks - 1] = self.left, self.mean
        self.change(self.n_blocks - 1, weights, total)

    def change(self, block: int, step: FloatArray, total: FloatArray) -> None:
        """Add ``step`` to the weights of a block and ``total`` to its entry of ``sums``."""
        stored = self._block(self.groups, block)
        self._update_average(block)
        old_norm = _squared_norm(stored)
        stored += (step / self.scale).astype(np.float32)
        self.squared_norm += self.scale**2 * (_squared_norm(stored) - old_norm)
        self._sums[block] += total / self.scale

    def average(self) -> None:
        """Include the current weights in the average; call this once after each step."""
        self.n_averaged += 1
        share = (1.0 + self.decay) / (self.n_averaged + self.decay)
        self.mean += share * (self.scale - self.mean)
        gap = self.constant - self.averaged_constant
        self.averaged_constant = self.averaged_constant + share * gap
        if share < 1.0:
            self.left *= 1.0 - share

    def weights(self) -> Float32Array:
        return np.float32(self.scale) * self._joined(self.groups)

    def averaged_weights(self) -> Float32Array:
        """Return the weights averaged over the steps, (n_blocks * block_columns, n_outputs)."""
        averaged = self._joined(self._averaged)
        for block in range(self.n_blocks):
            rows = slice(block * self.block_columns, (block + 1) * self.block_columns)
            self._catch_up(averaged[rows], block)
        return averaged

    def _joined(self, groups: list[Float32Array]) -> Float32Array:
        joined = np.concatenate([*groups, np.zeros((0, self.n_outputs), np.float32)])
        return joined[: self.n_blocks * self.block_columns]

    def _block(self, groups: list[Float32Array], block: int) -> Float32Array:
        group, k = divmod(block, self.group_blocks)
        return groups[group][k * self.block_columns : (k + 1) * self.block_columns]

    def _update_average(self, block: int) -> None:
        """Include all steps since the last change of a block in its average."""
        self._catch_up(self._block(self._averaged, block), block)
        self._seen[block] = self.left, self.mean

    def _catch_up(self, averaged: Float32Array, block: int) -> None:
        """Include the steps since the last change of a block in its average until then."""
        left, mean = self._seen[block]
        share = self.left / left
        averaged *= np.float32(share)
        averaged += np.float32(self.mean - share * mean) * self._block(self.groups, block)

    def state(self) -> dict[str, object]:
        return {
            "weights": self._joined(self.groups),
            "averaged": self._joined(self._averaged),
            "sums": self._sums[: self.n_blocks].copy(),
            "seen": self._seen[: self.n_blocks].copy(),
            **{name: copy(vars(self)[name]) for name in (*_VECTORS, *_NUMBERS, "n_averaged")},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state of an expansion of the same sizes; this one must be empty."""
        n_blocks = len(state["sums"])
        zeros = np.zeros((self.block_columns, self.n_outputs))
        for _ in range(n_blocks):
            self.add(zeros, np.zeros(self.n_outputs))
        for name, groups in (("weights", self.groups), ("averaged", self._averaged)):
            for k, group in enumerate(groups):
                part = state[name][k * len(group) : (k + 1) * len(group)]
                group[: len(part)] = part
        self._sums[:n_blocks], self._seen[:n_blocks] = state["sums"], state["seen"]
        vars(self).update(
            {name: copy(state[name]) for name in (*_VECTORS, *_NUMBERS, "n_averaged")}
        )

    @staticmethod
    def check_state(state: State, block_columns: int, n_outputs: int, n_steps: int) -> None:
        """Raise an error if a state from a file is invalid or not of a run of ``n_steps`` steps."""
        weights = array_in(state, "weights", np.float32, (None, n_outputs), finite=True)
        require(len(weights) % block_columns == 0, "the run's weights do not fit block_size_")
        n_blocks = len(weights) // block_columns
        array_in(state, "averaged", np.float32, weights.shape, finite=True)
        array_in(state, "sums", np.float64, (n_blocks, n_outputs), finite=True)
        seen = array_in(state, "seen", np.float64, (n_blocks, 2), finite=True)
        for name in _VECTORS:
            array_in(state, name, np.float64, (n_outputs,), finite=True)
        scale, _, left, _ = (
            number_in(state, name, float, -_MAX_MAGNITUDE, _MAX_MAGNITUDE) for name in _NUMBERS
        )
        is_positive = abs(scale) > 1.0 / _MAX_MAGNITUDE and 0.0 < left <= seen[:, 0].min(initial=1)
        require(is_positive, "the run's scale or average is 0")
        fits = number_in(state, "n_averaged", int) == n_steps
        require(fits, "the run has averaged another number of steps")


def _squared_norm(array: Float32Array) -> float:
    return float(np.sum(np.square(array, dtype=np.float64)))
