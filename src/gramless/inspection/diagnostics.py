"""Statistics of bins that describe how fast they learn (RB16, sections 3.2 and 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramless.base.errors import InputError
from gramless.base.types import FloatArray
from gramless.losses import Loss
from gramless.matrices.binned import BinnedMatrix, fullest_shares


@dataclass(frozen=True)
class Diagnostics:
    """Statistics of bins that RB16 relates to the convergence of random binning.

    Parameters
    ----------
    n_grids : int
        R, the number of non-zeros per row.
    n_columns : int
        D, the number of occupied bins of all grids.
    nu : float
        The mean over the grids of the share of rows in the fullest bin (equation 9 and below). The
        share is 1 if a grid separates no rows, and ``1/n_rows`` if it separates all.
    kappa : float
        The mean over the grids of the inverse of that share (equation 10), at least ``1 / nu`` and
        at most ``kappa_bar``.

    Examples
    --------
    >>> bins = Diagnostics(n_grids=2, n_columns=8, nu=0.5, kappa=2.0)
    >>> bins.kappa_bar, bins.speedup_limit
    (4.0, 7.0)
    """

    n_grids: int
    n_columns: int
    nu: float
    kappa: float

    @property
    def kappa_bar(self) -> float:
        """``D / R``, the mean number of occupied bins per grid (RB16, section 4.2)."""
        return self.n_columns / self.n_grids

    def speedup(self, threads: float) -> float:
        """Return the speed-up of parallel coordinate descent by :func:`law_of_speedup`.

        Parameters
        ----------
        threads : float
            Number of threads that each update one column at the same time.
        """
        return law_of_speedup(threads, self.n_grids, self.n_columns)

    @property
    def speedup_limit(self) -> float:
        """The limit of :meth:`speedup` for many threads, ``(D - 1) / (R - 1)``.

        RB16 gives ``kappa_bar``, its value for large D and R (equation 30). It is infinite for one
        grid and 1 for dense features, where D = R.
        """
        if self.n_columns == self.n_grids:
            return 1.0
        return (self.n_columns - 1) / (self.n_grids - 1) if self.n_grids > 1 else np.inf

    def error_estimate(self, loss: Loss, weights: FloatArray) -> float:
        """Return ``beta |w|^2 / (kappa R)``, an estimate of the bound of Theorem 1.

        Theorem 1 of RB16: ``E F(w_R) - F(w*) <= beta |w*|^2 / (kappa R')`` with ``R' = R - c`` and
        ``c = ceil(2 kappa (F(0) - F(w*)) / (beta |w*|^2))``. F is the objective on the training
        rows, ``w_R`` its minimiser on R random grids, ``w*`` a reference solution over the bins of
        infinitely many grids, and beta is ``loss.smoothness``.

        The estimate is not a bound, because it replaces the norm of the unknown ``w*`` by that of
        the fitted weights, and ``R'`` by R. It concerns the training objective and its mean over
        draws of the grids, not this draw or new rows: a small bandwidth increases kappa and
        overfits.

        Parameters
        ----------
        loss : Loss
            A loss with bounded curvature.
        weights : array (n_columns,) or (n_columns, K)
            Weights without the intercept, in units of the targets.
        """
        if len(weights) != self.n_columns:
            raise InputError(
                f"Diagnostics of {self.n_columns} columns: weights must have one row per column, "
                f"got {len(weights)}."
            )
        return loss.smoothness * float(np.sum(weights**2)) / (self.kappa * self.n_grids)


def law_of_speedup(threads: float, n_nonzeros: int, n_columns: int) -> float:
    """Return the speed-up of parallel coordinate descent (RB16, equation 29).

    It is ``tau / (1 + (R - 1) (tau - 1) / (D - 1))`` for tau threads that each update a column
    drawn uniformly from all D, if rows have at most R non-zeros. It compares the guarantees of
    single steps with those of rounds of tau steps. It ignores the costs of memory and threads, and
    applies only to coordinate descent.

    Examples
    --------
    >>> round(law_of_speedup(102, n_nonzeros=10, n_columns=910), 6)
    51.0
    """
    if not threads >= 1:
        raise InputError(f"The law of speed-up: threads must be at least 1, got {threads!r}.")
    # If rows have no zeros, the ratio is 1, also for a single column, where it would be 0 / 0.
    shared = 1.0 if n_columns == n_nonzeros else (n_nonzeros - 1) / (n_columns - 1)
    return threads / (1.0 + shared * (threads - 1.0))


def diagnose(matrix: BinnedMatrix) -> Diagnostics:
    """Return the diagnostics of the bins of a matrix.

    Parameters
    ----------
    matrix : BinnedMatrix (n_rows, D)
        Matrix of the training rows.

    Returns
    -------
    Diagnostics

    Raises
    ------
    InputError
        If the matrix has no rows or no grids, or if none of the rows has a known bin in a grid.

    Notes
    -----
    One pass over the codes: n_rows * n_grids additions and 8 bytes per column.

    Examples
    --------
    >>> import numpy as np
    >>> diagnose(BinnedMatrix(np.array([[1, 2, 1, 1]], np.uint8), np.array([0, 2])))
    Diagnostics(n_grids=1, n_columns=2, nu=0.75, kappa=1.3333333333333333)
    """
    return summarise(fullest_shares(matrix), matrix.shape[1])


def summarise(shares: FloatArray, n_columns: int) -> Diagnostics:
    """Return the diagnostics of grids, given the share of rows in the fullest bin of each."""
    if len(shares) == 0 or not ((shares > 0.0) & (shares <= 1.0)).all():
        raise InputError(
            "Diagnostics need at least one grid, and rows in a bin of each grid: use the matrix "
            "of the rows that the grids were fitted to."
        )
    return Diagnostics(
        n_grids=len(shares),
        n_columns=int(n_columns),
        nu=float(np.mean(shares)),
        kappa=float(np.mean(1.0 / shares)),
    )
