"""Proposals of grids: drawn anew, or by changing earlier winners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gramless.base.types import BoolArray, FloatArray

MOST_INPUTS = 16  # that a grown grid divides at most


@dataclass(frozen=True)
class GridProposals:
    """Grids that divide a few inputs each, in arrays (n_grids, MOST_INPUTS).

    The first ``sizes[c]`` of row c count. Widths and shifts are in standard deviations of the
    inputs; shifts lie in ``[0, width)``.
    """

    inputs: NDArray[np.int32]
    sizes: NDArray[np.int64]
    widths: FloatArray
    shifts: FloatArray

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, chosen: NDArray[np.intp]) -> GridProposals:
        """Return some of the grids."""
        return GridProposals(*(values[chosen] for values in vars(self).values()))

    def replaced(self, places: NDArray[np.intp], others: GridProposals) -> GridProposals:
        """Return the grids with others in some places."""
        order = np.arange(len(self))
        order[places] = len(self) + np.arange(len(places))
        return GridProposals.joined([self, others]).take(order)

    @classmethod
    def joined(cls, parts: Sequence[GridProposals]) -> GridProposals:
        """Return the grids of all parts, one after the other."""
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))

    def parted(self, uncombined: BoolArray) -> GridProposals:
        """Return the grids without inputs that must not be combined with others.

        A grid whose first input is one of these keeps only that.
        """
        divided = np.arange(self.inputs.shape[1]) < self.sizes[:, None]
        leaves = uncombined[self.inputs] & divided
        leaves[leaves[:, 0], 1:] = True
        leaves[:, 0] = False
        leaves &= divided
        order = np.argsort(leaves | ~divided, axis=1, kind="stable")
        return GridProposals(
            np.take_along_axis(self.inputs, order, axis=1),
            self.sizes - leaves.sum(axis=1),
            np.take_along_axis(self.widths, order, axis=1),
            np.take_along_axis(self.shifts, order, axis=1),
        )

    def without_each(self) -> tuple[GridProposals, NDArray[np.intp], NDArray[np.int32]]:
        """Return each grid of two inputs or more without each of its inputs.

        Besides the simpler grids, the number of the grid that each was made from, and the input
        that is missing.
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

    def dense(self, n_inputs: int) -> tuple[FloatArray, FloatArray]:
        """Return widths and shifts (n_grids, n_inputs), infinite and 0 where not divided."""
        widths, shifts = np.full((len(self), n_inputs), np.inf), np.zeros((len(self), n_inputs))
        grid, place = np.nonzero(np.arange(self.inputs.shape[1]) < self.sizes[:, None])
        columns = self.inputs[grid, place]
        widths[grid, columns] = self.widths[grid, place]
        shifts[grid, columns] = self.shifts[grid, place]
        return widths, shifts


@dataclass(frozen=True)
class ProposalSettings:
    """How grids are proposed.

    A share ``fresh`` of proposals is drawn anew; the others are changes of earlier winners, the
    latest ``n_parents``. ``log_widths`` is the range of the logarithm of a fresh grid's width for
    one input, in standard deviations; more inputs have wider cells. ``width_spread`` and ``jitter``
    are standard deviations of the logarithms of widths, within a fresh grid and in a change.
    ``add``, ``drop`` and ``swap`` say how often a winner gains, loses or exchanges an input.
    ``narrowest``: cells of inputs a hundred thousand standard deviations away still have a number
    of 32 bits. A win adds ``input_reward`` to the odds of an input (times the number of inputs)
    and ``size_reward`` to those of a size.
    """

    fresh: float = 0.4
    log_widths: tuple[float, float] = (-3.0, 1.386)
    width_spread: float = 0.5
    jitter: float = 0.3
    add: float = 0.25
    drop: float = 0.2
    swap: float = 0.15
    narrowest: float = 1e-4
    n_parents: int = 200
    input_reward: float = 1.0 / 60.0
    size_reward: float = 0.1


@dataclass
class Proposer:
    """Proposes grids, and learns from those that were kept.

    Some are drawn anew: a random number of random inputs, random widths. Most are changes of
    earlier winners: other widths and shifts, and an input more, less or exchanged. Inputs and
    sizes that won are drawn more often. Categorical inputs are whole numbers, and a grid that
    divides them separates all categories. ``uncombined`` inputs are divided by grids over nothing
    else.
    """

    n_inputs: int
    generator: np.random.Generator
    categorical: BoolArray
    settings: ProposalSettings = field(default_factory=ProposalSettings)
    uncombined: BoolArray | None = None

    def __post_init__(self) -> None:
        self.most = min(MOST_INPUTS, self.n_inputs)
        self.input_odds = np.ones(self.n_inputs)
        self.size_odds = np.ones(self.most)
        self.parents: GridProposals | None = None

    def propose(self, n_grids: int) -> GridProposals:
        """Return grids to be scored."""
        n_fresh = n_grids
        if self.parents is not None:
            n_fresh = int(self.generator.binomial(n_grids, self.settings.fresh))
        fresh = self._drawn_anew(n_fresh)
        changed = [] if n_fresh == n_grids else [self._changed(n_grids - n_fresh)]
        proposals = GridProposals.joined([fresh, *changed])
        if self.uncombined is not None:
            proposals = proposals.parted(self.uncombined)
        widths = np.maximum(proposals.widths, self.settings.narrowest)
        shifts = self.generator.random(widths.shape) * widths
        apart = self.categorical[proposals.inputs]
        widths[apart], shifts[apart] = 1.0, 0.5
        return replace(proposals, widths=widths, shifts=shifts)

    def reward(self, winners: GridProposals) -> None:
        """Learn from grids that were kept."""
        divided = np.arange(MOST_INPUTS) < winners.sizes[:, None]
        reward = self.settings.input_reward * self.n_inputs
        np.add.at(self.input_odds, winners.inputs[divided], reward)
        np.add.at(self.size_odds, winners.sizes - 1, self.settings.size_reward)
        parts = [winners] if self.parents is None else [self.parents, winners]
        joined = GridProposals.joined(parts)
        self.parents = joined.take(np.arange(len(joined))[-self.settings.n_parents :])

    def _drawn_anew(self, n_grids: int) -> GridProposals:
        generator, settings = self.generator, self.settings
        bounds = np.cumsum(self.size_odds)
        sizes = 1 + np.searchsorted(bounds[:-1], generator.random(n_grids) * bounds[-1], "right")
        # The smallest of odds-weighted exponential clocks: sampling without replacement.
        clocks = generator.exponential(size=(n_grids, self.n_inputs)) / self.input_odds
        inputs = np.zeros((n_grids, MOST_INPUTS), np.int32)
        first = np.argpartition(clocks, self.most - 1, axis=1)[:, : self.most]
        order = np.argsort(np.take_along_axis(clocks, first, axis=1), axis=1)
        inputs[:, : self.most] = np.take_along_axis(first, order, axis=1)
        base = np.exp(generator.uniform(*settings.log_widths, n_grids)) * np.sqrt(sizes)
        spread = generator.normal(0.0, settings.width_spread, (n_grids, MOST_INPUTS))
        widths = base[:, None] * np.exp(spread)
        return GridProposals(inputs, sizes, widths, np.zeros_like(widths))

    def _changed(self, n_grids: int) -> GridProposals:
        assert self.parents is not None
        generator, settings, rows = self.generator, self.settings, np.arange(n_grids)
        parents = self.parents.take(generator.integers(len(self.parents), size=n_grids))
        inputs, sizes, widths = parents.inputs, parents.sizes, parents.widths
        move = generator.random(n_grids)
        at = generator.integers(sizes)
        another = self._another(inputs, sizes)
        adds = (move < settings.add) & (sizes < self.most)
        drops = (settings.add <= move) & (move < settings.add + settings.drop) & (sizes > 1)
        ends = settings.add + settings.drop, settings.add + settings.drop + settings.swap
        swaps = (ends[0] <= move) & (move < ends[1]) & (sizes < self.n_inputs)
        inputs[rows[swaps], at[swaps]] = another[swaps]
        inputs[rows[adds], sizes[adds]] = another[adds]
        widths[rows[adds], sizes[adds]] = widths[rows[adds], at[adds]]
        for part in (inputs, widths):
            part[rows[drops], at[drops]] = part[rows[drops], sizes[drops] - 1]
        sizes = sizes + adds - drops
        together = generator.normal(0.0, settings.jitter, n_grids)
        apart = generator.normal(0.0, settings.jitter, widths.shape)
        widths = widths * np.exp(together[:, None] + apart)
        return GridProposals(inputs, sizes, widths, parents.shifts)

    def _another(self, inputs: NDArray[np.int32], sizes: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return an input for each grid that it does not divide yet, where there is one."""
        clocks = self.generator.exponential(size=(len(sizes), self.n_inputs)) / self.input_odds
        grid, place = np.nonzero(np.arange(MOST_INPUTS) < sizes[:, None])
        clocks[grid, inputs[grid, place]] = np.inf
        return clocks.argmin(axis=1)
