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
    """The information on which a strategy bases the choice of a step."""

    iteration: int  # t, from 1
    step: float  # gamma_t, the step size of a new block
    gradient: FloatArray  # (n_outputs,): mean derivative of the loss over the batch
    # (n_blocks, n_outputs): beta of each old block, the negative sum of its steps times their mean
    # gradients, which shrinks with its weights
    sums: FloatArray
    loss_bound: float  # M, the largest norm of a row's derivative of the loss in the batch
    variance: float  # sigma^2 of the kernel estimate of one block
    batch_rows: int
    seed: int

    @property
    def n_blocks(self) -> int:
        return len(self.sums)


@dataclass(frozen=True)
class Choice:
    """A block, which is new if its index is the number of old blocks, and a positive step size."""

    block: int
    step: float


class Strategy(Protocol):
    """A rule that chooses the block and the size of each step."""

    def choose(self, situation: Situation) -> Choice:
        """Return the block to change and the step size."""


@dataclass(frozen=True)
class Grow(Stateful):
    """DSG: each step adds a new block (Dai et al. 2014; DSG16, Algorithm 1).

    Examples
    --------
    >>> now = Situation(3, 0.5, np.ones(1), np.zeros((2, 1)), 1.0, 0.1, 8, seed=0)
    >>> Grow().choose(now)
    Choice(block=2, step=0.5)
    """

    def choose(self, situation: Situation) -> Choice:
        """Return a new block and the step size."""
        return Choice(situation.n_blocks, situation.step)


@dataclass(frozen=True)
class Uniform(Stateful):
    """UDSG: some steps with a new block, then some with a random old block.

    This is DSG16's Algorithm 3 with the iterations counted as in the proof of Theorem 4. As
    printed, the first step would need an old block.

    Parameters
    ----------
    new : int, default=1
        Number of consecutive steps with a new block, G in the paper.
    old : int, default=1
        Number of consecutive steps with an old block, U in the paper.

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
        """Return a new block or, in the steps for old ones, a random old block."""
        n_blocks = situation.n_blocks
        if (situation.iteration - 1) % (self.new + self.old) < self.new:
            return Choice(n_blocks, situation.step)
        generator = stream(situation.seed, "old blocks", situation.iteration)
        return Choice(int(generator.integers(n_blocks)), situation.step)


@dataclass(frozen=True)
class Checking(Stateful):
    """CDSG: a step with the old block that allows the longest one, or with a new block.

    A new block is used if no old block allows a step longer than gamma, the step of a new block.
    ``Checking(longest=np.inf)`` is DSG16's Algorithm 4. The step of an old block is the largest eta
    above gamma with ::

        2 |beta - eta g|^2 + 2 (eta M sigma)^2 / B^power  <=  |beta|^2 + |gamma g|^2

    which is DSG16's (9) with the sign of eta reversed. Both sides are summed over the outputs; the
    bound holds for the sums.

    Parameters
    ----------
    power : {1, 2}, default=2
        The power of B. (9) is printed with 2; the derivation above it gives 1.
    longest : float, default=1.0
        The maximum step, in units of gamma. With 1, (9) chooses the block and the schedule the
        step. Infinity is the paper's line search. Its steps depend on the batch of the gradient,
        so their mean is not along the mean gradient: some runs diverge, and others do not have
        the rate of Theorem 3.

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
        """Return the old block with the longest step, or a new block with the usual step."""
        if situation.n_blocks:
            steps = self.steps(situation)
            block = int(np.argmax(steps))
            if steps[block] > situation.step:
                return Choice(block, float(min(steps[block], self.longest * situation.step)))
        return Choice(situation.n_blocks, situation.step)

    def steps(self, situation: Situation) -> FloatArray:
        """Return the longest step that each old block allows, or 0 if it allows none."""
        gamma, gradient, sums = situation.step, situation.gradient, situation.sums
        squared = inner(gradient, gradient)
        noise = situation.loss_bound**2 * situation.variance / situation.batch_rows**self.power
        # With these, (9) is a eta^2 - 2 b eta + c <= 0.
        a = 2.0 * (squared + noise)
        b = 2.0 * np.einsum("ij,j->i", sums, gradient)
        c = np.einsum("ij,ij->i", sums, sums) - gamma**2 * squared
        discriminant = b**2 - a * c
        longest = (b + np.sqrt(np.maximum(discriminant, 0.0))) / max(a, np.finfo(float).tiny)
        return np.where(discriminant >= 0.0, longest, 0.0)
