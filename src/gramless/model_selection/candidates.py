"""Grids that might be worth having: drawn anew, or by changing earlier winners."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Noise = NDArray[np.float64]

MOST_INPUTS = 16
"""Inputs that a grown grid divides at most."""

_LOG_WIDTHS = math.log(0.05), math.log(4.0)
"""Of widths drawn anew, in standard deviations, for one input; more inputs want wider cells."""
_SPREAD = 0.5
_JITTER = 0.3
_ADD, _DROP, _SWAP = 0.25, 0.2, 0.15
"""How often a winner gains, loses or exchanges an input."""
_NARROWEST_CHANGE = 1e-4
"""Cells of inputs a hundred thousand standard deviations away still have a number of 32 bits."""
_FRESH = 0.4
_PARENTS = 200
_INPUT_REWARD, _SIZE_REWARD = 1.0 / 60.0, 0.1
"""What a win adds to the odds of an input (of as many as there are) and of a size."""


@dataclass(frozen=True)
class Candidates:
    """Grids that divide a few inputs each.

    Attributes
    ----------
    inputs : array (n_grids, MOST_INPUTS) of int32
        The first ``sizes[c]`` of row c count.
    sizes : array (n_grids,) of int64
    widths, shifts : arrays (n_grids, MOST_INPUTS)
        In standard deviations of the inputs; shifts lie in ``[0, width)``.
    """

    inputs: NDArray[np.int32]
    sizes: NDArray[np.int64]
    widths: NDArray[np.float64]
    shifts: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, chosen: NDArray[np.intp]) -> Candidates:
        """Return some of the grids."""
        return Candidates(
            self.inputs[chosen], self.sizes[chosen], self.widths[chosen], self.shifts[chosen]
        )

    def replaced(self, places: NDArray[np.intp], others: Candidates) -> Candidates:
        """Return the grids with others in some places."""
        order = np.arange(len(self))
        order[places] = len(self) + np.arange(len(places))
        return Candidates.joined([self, others]).take(order)

    @classmethod
    def joined(cls, parts: Sequence[Candidates]) -> Candidates:
        """Return the grids of all parts, one after the other."""
        return cls(
            np.concatenate([part.inputs for part in parts]),
            np.concatenate([part.sizes for part in parts]),
            np.concatenate([part.widths for part in parts]),
            np.concatenate([part.shifts for part in parts]),
        )

    def without_each(self) -> tuple[Candidates, NDArray[np.intp], NDArray[np.int32]]:
        """Return each grid of two inputs or more without each of its inputs.

        Returns
        -------
        simpler : Candidates
        owner : array (n_simpler,)
            The grid that each was made of.
        dropped : array (n_simpler,)
            The input that is missing.
        """
        many = np.where(self.sizes > 1, self.sizes, 0)
        owner = np.repeat(np.arange(len(self)), many)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(many) - many, many)
        dropped = self.inputs[owner, place]
        simpler = self.take(owner)
        # The last input takes the place of the one that goes.
        last = simpler.sizes - 1
        rows = np.arange(len(owner))
        for part in (simpler.inputs, simpler.widths, simpler.shifts):
            part[rows, place] = part[rows, last]
        return replace(simpler, sizes=last), owner, dropped

    def dense(self, n_inputs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return widths and shifts (n_grids, n_inputs), infinite and 0 where not divided."""
        widths, shifts = np.full((len(self), n_inputs), np.inf), np.zeros((len(self), n_inputs))
        grid, place = np.nonzero(np.arange(self.inputs.shape[1]) < self.sizes[:, None])
        columns = self.inputs[grid, place]
        widths[grid, columns] = self.widths[grid, place]
        shifts[grid, columns] = self.shifts[grid, place]
        return widths, shifts


class Breeder:
    """Proposes grids, and learns from those that were kept.

    Some are drawn anew: a random number of random inputs, random widths. Most are
    changes of earlier winners: other widths and shifts, and an input
    more, less or exchanged. Inputs and sizes that won are drawn more often.

    Parameters
    ----------
    n_inputs : int
    generator : numpy.random.Generator
    categorical : array (n_inputs,) of bool, optional
        Inputs of whole numbers, which a grid that divides them tells apart.
    """

    def __init__(
        self,
        n_inputs: int,
        generator: np.random.Generator,
        categorical: NDArray[np.bool_] | None = None,
    ) -> None:
        self.n_inputs, self.generator = n_inputs, generator
        self.categorical = np.zeros(n_inputs, bool) if categorical is None else categorical
        self.most = min(MOST_INPUTS, n_inputs)
        self.input_odds = np.ones(n_inputs)
        self.size_odds = np.ones(self.most)
        self.parents: list[tuple[list[int], list[float]]] = []

    def propose(self, n_grids: int) -> Candidates:
        """Return grids to be scored."""
        chosen: list[list[int]] = []
        bases: list[float] = []
        noises: list[NDArray[np.float64]] = []
        size_bounds = np.cumsum(self.size_odds).tolist()
        for _ in range(n_grids):
            fresh = not self.parents or self.generator.random() < _FRESH
            own, base, noise = self._fresh(size_bounds) if fresh else self._changed()
            chosen.append(own)
            bases += base
            noises.append(noise)
        inputs, widths = np.zeros((n_grids, MOST_INPUTS), np.int32), np.ones((n_grids, MOST_INPUTS))
        sizes = np.array([len(own) for own in chosen], np.int64)
        divided = np.arange(MOST_INPUTS) < sizes[:, None]
        inputs[divided] = [j for own in chosen for j in own]
        factors = np.exp(np.concatenate([np.empty(0), *noises]))
        widths[divided] = np.maximum(bases * factors, _NARROWEST_CHANGE)
        shifts = self.generator.random(widths.shape) * widths
        parted = self.categorical[inputs]
        widths[parted], shifts[parted] = 1.0, 0.5
        return Candidates(inputs, sizes, widths, shifts)

    def reward(self, winners: Candidates) -> None:
        """Learn from grids that were kept."""
        for c, size in enumerate(winners.sizes):
            own = winners.inputs[c, :size].tolist()
            self.parents.append((own, winners.widths[c, :size].tolist()))
            self.input_odds[own] += _INPUT_REWARD * self.n_inputs
            self.size_odds[size - 1] += _SIZE_REWARD
        del self.parents[:-_PARENTS]

    def _fresh(self, size_bounds: list[float]) -> tuple[list[int], list[float], Noise]:
        """Return inputs, widths, and the logarithms of what these are multiplied with."""
        generator = self.generator
        size = 1 + _draw(size_bounds, generator)
        # The smallest of odds-weighted exponential clocks: sampling without replacement.
        clocks = generator.exponential(size=self.n_inputs) / self.input_odds
        first = np.argpartition(clocks, size - 1)[:size]
        # NumPy leaves them in an order that depends on the processor.
        own = first[np.argsort(clocks[first])].tolist()
        base = np.exp(generator.uniform(*_LOG_WIDTHS)) * math.sqrt(size)
        return own, [float(base)] * size, generator.normal(0.0, _SPREAD, size)

    def _changed(self) -> tuple[list[int], list[float], Noise]:
        """Do as :meth:`_fresh`, from an earlier winner."""
        generator = self.generator
        own, widths = self.parents[int(generator.integers(len(self.parents)))]
        move = generator.random()
        if move < _ADD and len(own) < self.most:
            own = [*own, self._another(own)]
            widths = [*widths, widths[int(generator.integers(len(widths)))]]
        elif _ADD <= move < _ADD + _DROP and len(own) > 1:
            dropped = int(generator.integers(len(own)))
            own = own[:dropped] + own[dropped + 1 :]
            widths = widths[:dropped] + widths[dropped + 1 :]
        elif _ADD + _DROP <= move < _ADD + _DROP + _SWAP and len(own) < self.n_inputs:
            another, at = self._another(own), int(generator.integers(len(own)))
            own = [*own[:at], another, *own[at + 1 :]]
        together, apart = generator.normal(0.0, _JITTER), generator.normal(0.0, _JITTER, len(own))
        return own, widths, together + apart

    def _another(self, own: list[int]) -> int:
        odds = self.input_odds.copy()
        odds[own] = 0.0
        return _draw(np.cumsum(odds).tolist(), self.generator)


def _draw(bounds: list[float], generator: np.random.Generator) -> int:
    """Return a place with probability proportional to its odds, whose sums are given."""
    return min(bisect.bisect_right(bounds, generator.random() * bounds[-1]), len(bounds) - 1)
