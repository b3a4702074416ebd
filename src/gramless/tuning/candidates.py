"""Grids that might be worth having: drawn anew, or by changing earlier winners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

MOST_INPUTS = 16
"""Inputs that a grown grid divides at most."""

_NARROWEST, _WIDEST = 0.05, 4.0
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


_Proposed = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]
"""Inputs, sizes and widths, as those of :class:`Candidates`."""


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
        self.parents: list[tuple[NDArray[np.int32], NDArray[np.float64]]] = []

    def propose(self, n_grids: int) -> Candidates:
        """Return grids to be scored."""
        inputs = np.zeros((n_grids, MOST_INPUTS), np.int32)
        sizes, widths = np.zeros(n_grids, np.int64), np.ones((n_grids, MOST_INPUTS))
        fresh = self.generator.random(n_grids) < (_FRESH if self.parents else 1.0)
        for those, make in ((fresh, self._fresh), (~fresh, self._changed)):
            if those.any():
                inputs[those], sizes[those], widths[those] = make(int(np.count_nonzero(those)))
        shifts = self.generator.random(widths.shape) * widths
        parted = self.categorical[inputs]
        widths[parted], shifts[parted] = 1.0, 0.5
        return Candidates(inputs, sizes, widths, shifts)

    def reward(self, winners: Candidates) -> None:
        """Learn from grids that were kept."""
        for c, size in enumerate(winners.sizes):
            own = winners.inputs[c, :size]
            self.parents.append((own, winners.widths[c, :size]))
            self.input_odds[own] += _INPUT_REWARD * self.n_inputs
            self.size_odds[size - 1] += _SIZE_REWARD
        del self.parents[:-_PARENTS]

    def _fresh(self, n_grids: int) -> _Proposed:
        """Draw grids anew."""
        generator, most = self.generator, self.most
        bounds = np.cumsum(self.size_odds)
        sizes = 1 + np.searchsorted(bounds, generator.random(n_grids) * bounds[-1], "right")
        sizes = np.minimum(sizes, most)
        # The smallest of odds-weighted exponential clocks: sampling without replacement.
        clocks = generator.exponential(size=(n_grids, self.n_inputs)) / self.input_odds
        first = np.argpartition(clocks, most - 1, axis=1)[:, :most]
        order = np.argsort(np.take_along_axis(clocks, first, axis=1), axis=1)
        inputs = np.zeros((n_grids, MOST_INPUTS), np.int32)
        inputs[:, :most] = np.take_along_axis(first, order, axis=1)
        base = np.exp(generator.uniform(np.log(_NARROWEST), np.log(_WIDEST), n_grids))
        spread = np.exp(generator.normal(0.0, _SPREAD, inputs.shape))
        return inputs, sizes, (base * np.sqrt(sizes))[:, None] * spread

    def _changed(self, n_grids: int) -> _Proposed:
        """Change earlier winners: at most one input of each, and all widths."""
        generator = self.generator
        inputs, sizes, widths = self._winners(generator.integers(len(self.parents), size=n_grids))
        move, place = generator.random(n_grids), (generator.random(n_grids) * sizes).astype(int)
        ends = np.cumsum([_ADD, _DROP, _SWAP])
        adds = (move < ends[0]) & (sizes < self.most)
        drops = (ends[0] <= move) & (move < ends[1]) & (sizes > 1)
        swaps = (ends[1] <= move) & (move < ends[2]) & (sizes < self.n_inputs)
        # What comes has the width of another; the last input takes the place of what goes.
        widths[adds, sizes[adds]] = widths[adds, place[adds]]
        for part in (inputs, widths):
            part[drops, place[drops]] = part[drops, sizes[drops] - 1]
        new = adds | swaps
        inputs[new, np.where(adds, sizes, place)[new]] = self._others(inputs[new], sizes[new])
        together = generator.normal(0.0, _JITTER, (n_grids, 1))
        apart = generator.normal(0.0, _JITTER, widths.shape)
        widths = np.maximum(widths * np.exp(together + apart), _NARROWEST_CHANGE)
        return inputs, sizes + adds - drops, widths

    def _winners(self, chosen: NDArray[np.int64]) -> _Proposed:
        """Return some of the parents."""
        inputs = np.zeros((len(self.parents), MOST_INPUTS), np.int32)
        widths = np.ones((len(self.parents), MOST_INPUTS))
        sizes = np.array([len(own) for own, _ in self.parents])
        for row, (own, own_widths) in enumerate(self.parents):
            inputs[row, : len(own)], widths[row, : len(own)] = own, own_widths
        return inputs[chosen], sizes[chosen], widths[chosen]

    def _others(self, inputs: NDArray[np.int32], sizes: NDArray[np.int64]) -> NDArray[np.intp]:
        """Draw an input for each grid that it does not divide yet."""
        odds = np.tile(self.input_odds, (len(inputs), 1))
        grid, place = np.nonzero(np.arange(MOST_INPUTS) < sizes[:, None])
        odds[grid, inputs[grid, place]] = 0.0
        bounds = np.cumsum(odds, axis=1)
        aims = self.generator.random((len(inputs), 1)) * bounds[:, -1:]
        return np.argmax(bounds > aims, axis=1)
