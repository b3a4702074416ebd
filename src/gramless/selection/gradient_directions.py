"""Directions along which a model of grids varies: combinations of inputs for other grids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramless.base.random import stream
from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray, IntArray
from gramless.features.binning import GivenBinning
from gramless.matrices.base import Vector
from gramless.preprocessing.scaling import Scaler
from gramless.selection.growth import GrownGrids
from gramless.selection.task import SelectionTask
from gramless.solvers.choose import path_solver
from gramless.solvers.objective import columns

# Directions are not worth their time for tables with fewer training rows or more used inputs.
_MIN_ROWS, _MAX_INPUTS = 1000, 256
_TRAINING_ROWS = 10_000
# Rows at which gradients are measured: fewer for more inputs.
_MAX_SHIFTED, _MIN_SHIFTED, _SHIFTED_NUMBERS = 2000, 200, 60_000
_STEP = 0.5  # finite differences shift an input by this many units to either side
_MIN_SHARE = 1e-3  # directions with a smaller share of the squared gradients are left out
# A direction is left out if a single input has more than this share of it, because grids divide
# single inputs anyway.
_SINGLE_INPUT = 0.97
_PENALTY = 10.0**0.5  # ridge penalty, as a multiple of that of growth
_TOL, _ITERATIONS = 3e-2, 16


def gradient_directions(
    task: SelectionTask, grown: GrownGrids, n_directions: int
) -> FloatArray | None:
    """Return the directions in which a ridge regression over grown grids varies most.

    They are the leading eigenvectors of its average gradient outer product (Radhakrishnan,
    Beaglehole, Pandit & Belkin 2024, *Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models*). Gradients are finite differences over a unit of
    each input, at no more than 2,000 training rows. Inputs of two values and categories are
    left out.

    Returns
    -------
    array (n_columns, n_found) or None
        Over the scaled rows, at most ``n_directions``. None if there are few rows or very many
        inputs, if inputs are monotone, and if no direction combines inputs.

    Notes
    -----
    Takes 0.1 to 0.5 s on two cores for 6 to 100 inputs, whatever the number of rows.
    """
    training, scaler = task.split[0], task.scaler
    if n_directions == 0 or len(training) < _MIN_ROWS or task.monotone is not None:
        return None
    n_inputs = task.data.rows.shape[1]
    # The columns of scaled rows are the values of all inputs, followed by their ranks.
    has_both_units = np.isfinite(scaler.unit).reshape(2, n_inputs).all(axis=0)
    is_divided = np.isfinite(grown.grids.widths).any(axis=0).reshape(2, n_inputs).any(axis=0)
    used: IntArray = np.flatnonzero(
        has_both_units & is_divided & ~scaler.categorical_mask[:n_inputs]
    )
    if not 2 <= len(used) <= _MAX_INPUTS:
        return None
    model = _GridModel.fit(task, grown)
    n_rows = int(np.clip(_SHIFTED_NUMBERS // (2 * len(used)), _MIN_SHIFTED, _MAX_SHIFTED))
    chosen = stream(task.seed, "shifted rows").permutation(training)[:n_rows]
    rows = np.asarray(task.data.rows[chosen], np.float64)
    gradients = np.stack([model.finite_differences(rows, j).ravel() for j in used])
    with one_blas_thread():
        shares, axes = np.linalg.eigh(gradients @ gradients.T)
    shares, axes = shares[::-1] / max(shares.sum(), np.finfo(float).tiny), axes[:, ::-1]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(len(used))])
    kept = (shares >= _MIN_SHARE) & (np.abs(axes).max(axis=0) < _SINGLE_INPUT)
    kept[n_directions:] = False
    if not kept.any():
        return None
    directions = np.zeros((len(scaler.unit), np.count_nonzero(kept)))
    directions[used] = axes[:, kept] / scaler.unit[used, None]
    return directions


@dataclass(frozen=True, eq=False)
class _GridModel:
    """Ridge regression over grown grids."""

    scaler: Scaler
    binning: GivenBinning
    weights: Vector

    @classmethod
    def fit(cls, task: SelectionTask, grown: GrownGrids) -> _GridModel:
        data, n_jobs, scaler = task.data.for_squares, task.n_jobs, task.scaler
        chosen = stream(task.seed, "slopes").permutation(task.split[0])[:_TRAINING_ROWS]
        binning = GivenBinning(n_jobs=n_jobs)
        Z = data.matrix(binning.learn_bins(scaler.rows(data.rows[chosen], n_jobs), grown.grids))
        problem = data.problem(Z, _PENALTY * grown.alpha / data.mass_of(chosen), chosen)
        solver = path_solver(
            Z,
            problem.row_weights,
            tol=_TOL,
            max_iter=_ITERATIONS,
            n_jobs=n_jobs,
            n_alphas=1,
            n_outputs=data.n_outputs,
        )
        weights = solver.solve(problem).weights
        return cls(scaler, binning, weights[: len(weights) - int(data.intercept)])

    def finite_differences(self, rows: FloatArray, j: int) -> FloatArray:
        """Return the increase of predictions over a unit of input j, (n_rows, K).

        At the ends of its known range, the input changes by less than a unit.
        """
        n_inputs, ends, known = rows.shape[1], [], self.scaler.knots[j]
        # Other grids have the same bins at both ends.
        divided = self.binning.divided_inputs
        divides_input = divided[:, j] | divided[:, n_inputs + j]
        binning = self.binning.of_grids(divides_input)
        weights = self.weights[np.repeat(divides_input, self.binning.n_bins_)]
        for step in (-_STEP, _STEP):
            moved = rows.copy()
            moved[:, j] = np.clip(moved[:, j] + step * self.scaler.unit[j], known[0], known[-1])
            scaled = self.scaler.rows(moved, self.binning.n_jobs)
            ends.append(columns(binning.rows_matrix(scaled).matvec(weights)))
        return ends[1] - ends[0]
