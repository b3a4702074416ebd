"""Proposals of grids: random ones, and changes of earlier winners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gramless.base.types import BoolArray, FloatArray

MAX_INPUTS = 16  # the largest number of inputs that a grown grid divides
_GROUP_SIZES = (2, 2, 3, 3, 4, 6, 9)  # categories in a cell, if it holds more than one


@dataclass(frozen=True)
class GridProposals:
    """Grids that divide a few inputs each, as arrays (n_grids, MAX_INPUTS).

    Only the first ``sizes[c]`` entries of row c are used. Widths and shifts are in standard
    deviations of the inputs; shifts lie in ``[0, width)``.
    """

    inputs: NDArray[np.int32]
    sizes: NDArray[np.int64]
    widths: FloatArray
    shifts: FloatArray

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, chosen: NDArray[np.intp]) -> GridProposals:
        return GridProposals(*(values[chosen] for values in vars(self).values()))

    @classmethod
    def joined(cls, parts: Sequence[GridProposals]) -> GridProposals:
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))

    def without_combinations(self, uncombined: BoolArray) -> GridProposals:
        """Return grids in which ``uncombined`` inputs are never combined with other inputs.

        A grid whose first input is uncombined keeps only this input; other grids lose theirs.
        """
        is_used = np.arange(self.inputs.shape[1]) < self.sizes[:, None]
        is_dropped = uncombined[self.inputs] & is_used
        is_dropped[is_dropped[:, 0], 1:] = True
        is_dropped[:, 0] = False
        return self.with_inputs(is_used & ~is_dropped)

    def with_inputs(self, is_kept: BoolArray) -> GridProposals:
        """Return grids with only some of their inputs, given by a mask of ``inputs``."""
        order = np.argsort(~is_kept, axis=1, kind="stable")
        return GridProposals(
            np.take_along_axis(self.inputs, order, axis=1),
            is_kept.sum(axis=1),
            np.take_along_axis(self.widths, order, axis=1),
            np.take_along_axis(self.shifts, order, axis=1),
        )

    def dense(self, n_inputs: int) -> tuple[FloatArray, FloatArray]:
        """Return widths and shifts (n_grids, n_inputs), infinite and 0 for undivided inputs."""
        widths, shifts = np.full((len(self), n_inputs), np.inf), np.zeros((len(self), n_inputs))
        grid, position = np.nonzero(np.arange(self.inputs.shape[1]) < self.sizes[:, None])
        columns = self.inputs[grid, position]
        widths[grid, columns] = self.widths[grid, position]
        shifts[grid, columns] = self.shifts[grid, position]
        return widths, shifts


@dataclass(frozen=True)
class ProposalSettings:
    # Share of random grids; the others are changes of winners.
    fresh: float = 0.4
    # Range of the log width, in standard deviations, of a random grid over one input. Grids over
    # more inputs have wider cells.
    log_widths: tuple[float, float] = (-3.0, 1.386)
    # Standard deviations of log widths within a random grid, and of their changes.
    width_spread: float = 0.5
    jitter: float = 0.3
    # Probabilities that a change adds, drops or exchanges an input.
    add: float = 0.25
    drop: float = 0.2
    swap: float = 0.15
    # Cells at 100,000 standard deviations must have indices of 32 bits.
    narrowest: float = 1e-4
    # The share of divisions of a categorical input whose cells hold several categories.
    grouped: float = 0.5
    # The latest winners, which are changed.
    n_parents: int = 200
    # What a win adds to the odds of an input, times the number of inputs, and of a size.
    input_reward: float = 1.0 / 60.0
    size_reward: float = 0.1


@dataclass
class Proposer:
    """A generator of grids that adapts to the grids that were kept.

    Some grids are random: a random number of random inputs with random widths. Most are changes of
    earlier winners, with other widths and shifts, and sometimes one input more, fewer or exchanged.
    Inputs and sizes of winners become more probable. A grid that divides a categorical input
    separates all of its categories or groups of them. A grid over an ``uncombined`` input divides
    no other input. ``n_categories`` has the number of categories of each input, 0 for numbers and 1
    for categories that are not to be grouped.
    """

    n_inputs: int
    generator: np.random.Generator
    n_categories: NDArray[np.intp]
    settings: ProposalSettings = field(default_factory=ProposalSettings)
    uncombined: BoolArray | None = None

    def __post_init__(self) -> None:
        self.max_size = min(MAX_INPUTS, self.n_inputs)
        self.input_odds = np.ones(self.n_inputs)
        self.size_odds = np.ones(self.max_size)
        self.parents: GridProposals | None = None

    def propose(self, n_grids: int) -> GridProposals:
        n_fresh = n_grids
        if self.parents is not None:
            n_fresh = int(self.generator.binomial(n_grids, self.settings.fresh))
        fresh = self._draw(n_fresh)
        changed = [] if n_fresh == n_grids else [self._change_winners(n_grids - n_fresh)]
        proposals = GridProposals.joined([fresh, *changed])
        if self.uncombined is not None:
            proposals = proposals.without_combinations(self.uncombined)
        widths = np.maximum(proposals.widths, self.settings.narrowest)
        shifts = self.generator.random(widths.shape) * widths
        n_categories = self.n_categories[proposals.inputs]
        is_category = n_categories > 0
        cells = self._cells_of_categories(n_categories[is_category])
        widths[is_category], shifts[is_category] = cells
        return replace(proposals, widths=widths, shifts=shifts)

    def _cells_of_categories(self, n_categories: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Return widths and shifts of divisions of categories, whose codes are whole numbers.

        A cell holds one category, or in some divisions a few with neighbouring codes.
        """
        drawn = self.generator.choice(_GROUP_SIZES, len(n_categories))
        is_grouped = self.generator.random(len(n_categories)) < self.settings.grouped
        # Larger cells would not divide the input.
        widths = np.where(is_grouped, np.minimum(drawn, np.maximum(n_categories - 1, 1)), 1)
        shifts = np.floor(self.generator.random(len(widths)) * widths) + 0.5
        return widths.astype(np.float64), shifts

    def reward(self, winners: GridProposals) -> None:
        """Make grids like those that were kept more probable."""
        is_used = np.arange(MAX_INPUTS) < winners.sizes[:, None]
        reward = self.settings.input_reward * self.n_inputs
        np.add.at(self.input_odds, winners.inputs[is_used], reward)
        np.add.at(self.size_odds, winners.sizes - 1, self.settings.size_reward)
        parts = [winners] if self.parents is None else [self.parents, winners]
        joined = GridProposals.joined(parts)
        self.parents = joined.take(np.arange(len(joined))[-self.settings.n_parents :])

    def _draw(self, n_grids: int) -> GridProposals:
        generator, settings = self.generator, self.settings
        bounds = np.cumsum(self.size_odds)
        sizes = 1 + np.searchsorted(bounds[:-1], generator.random(n_grids) * bounds[-1], "right")
        # The inputs of the smallest weighted exponentials are a sample without replacement.
        clocks = generator.exponential(size=(n_grids, self.n_inputs)) / self.input_odds
        inputs = np.zeros((n_grids, MAX_INPUTS), np.int32)
        first = np.argpartition(clocks, self.max_size - 1, axis=1)[:, : self.max_size]
        order = np.argsort(np.take_along_axis(clocks, first, axis=1), axis=1)
        inputs[:, : self.max_size] = np.take_along_axis(first, order, axis=1)
        base = np.exp(generator.uniform(*settings.log_widths, n_grids)) * np.sqrt(sizes)
        spread = generator.normal(0.0, settings.width_spread, (n_grids, MAX_INPUTS))
        widths = base[:, None] * np.exp(spread)
        return GridProposals(inputs, sizes, widths, np.zeros_like(widths))

    def _change_winners(self, n_grids: int) -> GridProposals:
        assert self.parents is not None
        generator, settings, rows = self.generator, self.settings, np.arange(n_grids)
        parents = self.parents.take(generator.integers(len(self.parents), size=n_grids))
        inputs, sizes, widths = parents.inputs, parents.sizes, parents.widths
        move = generator.random(n_grids)
        at = generator.integers(sizes)
        # A random input that each grid does not divide yet, if there is one.
        clocks = generator.exponential(size=(n_grids, self.n_inputs)) / self.input_odds
        grid, position = np.nonzero(np.arange(MAX_INPUTS) < sizes[:, None])
        clocks[grid, inputs[grid, position]] = np.inf
        another = clocks.argmin(axis=1)
        adds = (move < settings.add) & (sizes < self.max_size)
        drops = (settings.add <= move) & (move < settings.add + settings.drop) & (sizes > 1)
        ends = settings.add + settings.drop, settings.add + settings.drop + settings.swap
        swaps = (ends[0] <= move) & (move < ends[1]) & (sizes < self.n_inputs)
        inputs[rows[swaps], at[swaps]] = another[swaps]
        inputs[rows[adds], sizes[adds]] = another[adds]
        widths[rows[adds], sizes[adds]] = widths[rows[adds], at[adds]]
        for part in (inputs, widths):
            part[rows[drops], at[drops]] = part[rows[drops], sizes[drops] - 1]
        sizes = sizes + adds - drops
        common = generator.normal(0.0, settings.jitter, n_grids)
        separate = generator.normal(0.0, settings.jitter, widths.shape)
        widths = widths * np.exp(common[:, None] + separate)
        return GridProposals(inputs, sizes, widths, parents.shifts)
