"""Strategies that choose the block and the size of each step: DSG, UDSG and CDSG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gramless.base.arrays import inner
from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.base.state import Stateful
from gramless.base.types import FloatArray


@dataclass(frozen=True)
class Situation:
    """What a strategy knows when it chooses a step."""

    iteration: int  # t, from 1
    step: float  # gamma_t, the step size of a new block
    gradient: FloatArray  # (n_outputs,): mean derivative of the loss over the batch
    # (n_blocks, n_outputs): beta of each old block, minus its steps times their mean gradients,
    # shrunk with it
    sums: FloatArray
    loss_bound: float  # M, the norm of the longest derivative of a row
    variance: float  # sigma^2 of a block of features
    batch_rows: int
    seed: int

    @property
    def n_blocks(self) -> int:
        """Number of old blocks."""
        return len(self.sums)


@dataclass(frozen=True)
class Choice:
    """The number of a block, new if it equals the number of old blocks, and a positive step."""

    block: int
    step: float


class Strategy(Protocol):
    """A rule that chooses the block and the size of each step."""

    def choose(self, situation: Situation) -> Choice:
        """Return the block to change and the step size."""


@dataclass(frozen=True)
class Grow(Stateful):
    """A new block each step: DSG (Dai et al. 2014; DSG16, Algorithm 1).

    Examples
    --------
    >>> now = Situation(3, 0.5, np.ones(1), np.zeros((2, 1)), 1.0, 0.1, 8, seed=0)
    >>> Grow().choose(now)
    Choice(block=2, step=0.5)
    """

    def choose(self, situation: Situation) -> Choice:
        return Choice(situation.n_blocks, situation.step)


@dataclass(frozen=True)
class Uniform(Stateful):
    """Some steps with a new block, then some with a random old one: UDSG.

    DSG16, Algorithm 3, with the iterations counted as in the proof of Theorem 4: as printed, the
    first step would look for an old block where there is none.

    Parameters
    ----------
    new : int, default=1
        Consecutive steps with a new block: G.
    old : int, default=1
        Consecutive steps with an old one: U.

    Examples
    --------
    >>> now = Situation(2, 0.5, np.ones(1), np.zeros((1, 1)), 1.0, 0.1, 8, seed=0)
    >>> Uniform().choose(now)
    Choice(block=0, step=0.5)
    """

    new: int = 1
    old: int = 1

    def __post_init__(self) -> None:
        if not (self.new >= 1 and self.old >= 0):
            raise InputError(
                f"Uniform: new must be at least 1 and old at least 0, got new={self.new!r}, "
                f"old={self.old!r}."
            )

    def choose(self, situation: Situation) -> Choice:
        n_blocks = situation.n_blocks
        if (situation.iteration - 1) % (self.new + self.old) < self.new:
            return Choice(n_blocks, situation.step)
        generator = stream(situation.seed, "old blocks", situation.iteration)
        return Choice(int(generator.integers(n_blocks)), situation.step)


@dataclass(frozen=True)
class Checking(Stateful):
    """The old block that allows the longest step, if that is longer than the step of a new block.

    ``Checking(longest=np.inf)`` is CDSG (DSG16, Algorithm 4). For each old block, the step is the
    largest eta above gamma with ::

        2 |beta - eta g|^2 + 2 (eta M sigma)^2 / B^power  <=  |beta|^2 + |gamma g|^2

    which is its (9) with the sign of eta reversed. Several outputs are summed; the bound on the
    right side holds for their sum.

    Parameters
    ----------
    power : {1, 2}, default=2
        2 as (9) is printed; the derivation above it gives 1.
    longest : float, default=1.0
        The longest step, in units of gamma. With 1, (9) chooses the block and the schedule its
        step. Infinity is the paper's line search. Its steps depend on the batch whose gradient
        they follow, so their mean does not point along the mean gradient: runs can diverge, and
        others do not keep the rate of Theorem 3.

    Examples
    --------
    >>> now = Situation(2, 0.5, np.array([1.0]), np.array([[2.0]]), 1.0, 0.1, 8, seed=0)
    >>> Checking().choose(now)
    Choice(block=0, step=0.5)
    >>> Checking(longest=np.inf).choose(now)
    Choice(block=0, step=3.45...)
    """

    power: int = 2
    longest: float = 1.0

    def __post_init__(self) -> None:
        if self.power not in (1, 2) or not self.longest >= 1.0:
            raise InputError(
                f"Checking: power must be 1 or 2 and longest at least 1, got "
                f"power={self.power!r}, longest={self.longest!r}."
            )

    def choose(self, situation: Situation) -> Choice:
        if situation.n_blocks:
            steps = self.steps(situation)
            block = int(np.argmax(steps))
            if steps[block] > situation.step:
                return Choice(block, float(min(steps[block], self.longest * situation.step)))
        return Choice(situation.n_blocks, situation.step)

    def steps(self, situation: Situation) -> FloatArray:
        """Return the longest step that each old block allows, 0 if it allows none."""
        gamma, gradient, sums = situation.step, situation.gradient, situation.sums
        squared = inner(gradient, gradient)
        noise = situation.loss_bound**2 * situation.variance / situation.batch_rows**self.power
        # a eta^2 - 2 b eta + c <= 0
        a = 2.0 * (squared + noise)
        b = 2.0 * np.einsum("ij,j->i", sums, gradient)
        c = np.einsum("ij,ij->i", sums, sums) - gamma**2 * squared
        inside = b**2 - a * c
        longest = (b + np.sqrt(np.maximum(inside, 0.0))) / max(a, np.finfo(float).tiny)
        return np.where(inside >= 0.0, longest, 0.0)
