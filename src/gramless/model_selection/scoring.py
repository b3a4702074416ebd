"""The gain of candidate grids on what two models leave unexplained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramless.base.threads import map_blocks, row_blocks
from gramless.loops.scoring import score_grids
from gramless.matrices.base import Vector
from gramless.model_selection.candidates import MOST_INPUTS, Candidates

MOST_SKETCHES = 3
"""Outputs scored at once; more are projected on as many random directions."""
_TASK_GRIDS = 8
_BITS = (9, 15)
_ROWS_A_PLACE = 8


@dataclass(frozen=True)
class Unexplained:
    """Negative gradients (n_rows, K) and curvatures (n_rows,) of the loss.

    Of the model that is fitted to a row, and of the one that is judged by it.
    """

    fitted: Vector
    judged: Vector
    fitted_curvature: NDArray[np.float64]
    judged_curvature: NDArray[np.float64]

    def packed(self, generator: np.random.Generator) -> tuple[NDArray[np.float32], int]:
        """Return the rows' values for :func:`score_grids`, and how many outputs they have."""
        fitted, judged = self.fitted, self.judged
        n_outputs = fitted.shape[1]
        if n_outputs > MOST_SKETCHES:
            directions = generator.normal(size=(n_outputs, MOST_SKETCHES))
            fitted, judged = fitted @ directions, judged @ directions
            n_outputs = MOST_SKETCHES
        values = np.zeros((len(fitted), 4 if n_outputs == 1 else 8), np.float32)
        values[:, :n_outputs], values[:, n_outputs : 2 * n_outputs] = fitted, judged
        values[:, 2 * n_outputs] = self.fitted_curvature
        values[:, 2 * n_outputs + 1] = self.judged_curvature
        return values, n_outputs


def score_candidates(
    columns: NDArray[np.float32],
    values: NDArray[np.float32],
    n_outputs: int,
    parts: NDArray[np.int64],
    candidates: Candidates,
    multipliers: NDArray[np.uint32],
    shrinkage: float,
    n_jobs: int | None,
) -> NDArray[np.float64]:
    """Return how much each grid would lower the loss of rows that it was not fitted to.

    Bin values are fitted on one part of the rows and judged on the other, both ways:
    fine grids are favoured no more than coarse ones.

    Parameters
    ----------
    columns : array (n_inputs, n_rows) of float32
        The inputs in standard deviations.
    values : array (n_rows, 4 or 8)
        From :meth:`Unexplained.packed`.
    n_outputs : int
    parts : array (2, 2)
        First and last row of each part.
    candidates : Candidates
    multipliers : array (MOST_INPUTS,) of uint32, odd
        The hash of the cells.
    shrinkage : float
    n_jobs : int or None

    Returns
    -------
    array (n_grids,)

    Notes
    -----
    About 1.5 ns a row, grid and core for 4 inputs. Bins share at most 32,768 places:
    those that collide are judged as one.
    """
    n_rows = int((parts[:, 1] - parts[:, 0]).sum())
    bits = int(np.clip(np.ceil(np.log2(max(2, n_rows // _ROWS_A_PLACE))), *_BITS))
    gains = np.empty(len(candidates))
    grids = (
        candidates.inputs,
        (1.0 / candidates.widths).astype(np.float32),
        candidates.shifts.astype(np.float32),
    )
    shared = (columns, values, parts, n_outputs, candidates.sizes, grids, multipliers, bits)

    def score(first: int, last: int) -> None:
        score_grids(*shared, np.float32(shrinkage), first, last, gains)

    map_blocks(score, row_blocks(len(candidates), _TASK_GRIDS), n_jobs)
    return gains


def draw_multipliers(generator: np.random.Generator) -> NDArray[np.uint32]:
    """Return odd multipliers for the hash of a grid's cells."""
    drawn = generator.integers(0, 2**32, MOST_INPUTS, dtype=np.uint32)
    return drawn | np.uint32(1)
