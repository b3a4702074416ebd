"""What the bins of a matrix say about learning on it (RB16, sections 3.2 and 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramless.base.errors import InputError
from gramless.base.types import FloatArray
from gramless.losses import Loss
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.occupancy import fullest_shares


@dataclass(frozen=True)
class Diagnostics:
    """The numbers that RB16 ties to how fast random binning learns.

    Parameters
    ----------
    n_grids : int
        R, the non-zeros of a row.
    n_columns : int
        D, the occupied bins of all grids.
    nu : float
        Mean over the grids of the share of the rows in the fullest bin
        (equation 9 and below): 1 where a grid tells no rows apart, ``1/n_rows``
        where it tells all apart.
    kappa : float
        Mean over the grids of one over that share (equation 10). At least
        ``1 / nu``, at most ``kappa_bar``.

    Examples
    --------
    >>> import numpy as np
    >>> codes = np.array([[1, 2, 1, 1], [1, 2, 3, 4]], np.uint8)
    >>> found = diagnose(BinnedMatrix(codes, np.array([0, 2, 6])))
    >>> found.nu, round(found.kappa, 4), found.kappa_bar
    (0.5, 2.6667, 3.0)
    """

    n_grids: int
    n_columns: int
    nu: float
    kappa: float

    @property
    def kappa_bar(self) -> float:
        """``D / R``, the mean number of occupied bins a grid (RB16, section 4.2)."""
        return self.n_columns / self.n_grids

    def speedup(self, threads: float) -> float:
        """Return how much faster parallel coordinate descent is: :func:`law_of_speedup`.

        Examples
        --------
        >>> found = Diagnostics(n_grids=10, n_columns=910, nu=0.1, kappa=10.0)
        >>> found.speedup(1), round(found.speedup(102), 6), found.speedup_limit
        (1.0, 51.0, 101.0)
        """
        return law_of_speedup(threads, self.n_grids, self.n_columns)

    @property
    def speedup_limit(self) -> float:
        """``(D - 1) / (R - 1)``, which :meth:`speedup` approaches as threads are added.

        RB16 gives it as ``kappa_bar``, for large D and R (equation 30). Infinite
        for one grid, whose bins share no row; 1 where every grid has one bin, and
        for dense features, where D = R.
        """
        if self.n_columns == self.n_grids:
            return 1.0
        return (self.n_columns - 1) / (self.n_grids - 1) if self.n_grids > 1 else np.inf

    def error_estimate(self, loss: Loss, weights: FloatArray) -> float:
        """Return ``beta |w|^2 / (kappa R)``, an estimate of Theorem 1's bound.

        Theorem 1 of RB16: ``E F(w_R) - F(w*) <= beta |w*|^2 / (kappa R')`` with
        ``R' = R - c`` and ``c = ceil(2 kappa (F(0) - F(w*)) / (beta |w*|^2))``. F
        is the objective on the training rows, ``w_R`` its best weights on R
        random grids, and ``w*`` any reference solution over the infinitely many
        bins of all grids, such as the one that no finite R reaches.

        This is an estimate and not a bound: ``w*`` is not known, and the norm of the
        fitted weights stands in for its own, R for ``R'``. It is about the mean over
        draws of the grids and about the objective on training rows, neither about this
        one draw nor about new rows. A small bandwidth raises kappa and overfits. Free
        rows such as an intercept do not count.

        Parameters
        ----------
        loss : Loss
            ``loss.smoothness`` is beta.
        weights : array (D,) or (D, K)
            In units of the targets that the loss is taken of.

        Returns
        -------
        float
            In units of the objective.

        Raises
        ------
        InputError
            If ``weights`` has not one row a column.

        Examples
        --------
        >>> import numpy as np
        >>> from gramless.losses import Logistic
        >>> found = Diagnostics(n_grids=2, n_columns=4, nu=0.5, kappa=2.0)
        >>> found.error_estimate(Logistic(), np.array([2.0, 0.0, -2.0, 0.0]))
        0.5
        """
        if len(weights) != self.n_columns:
            raise InputError(
                f"Diagnostics of {self.n_columns} columns: weights need one row a column, "
                f"got {len(weights)}."
            )
        return loss.smoothness * float(np.sum(weights**2)) / (self.kappa * self.n_grids)


def law_of_speedup(threads: float, n_nonzeros: int, n_columns: int) -> float:
    """Return how much faster parallel coordinate descent is (RB16, equation 29).

    ``tau / (1 + (R - 1) (tau - 1) / (D - 1))`` for tau threads, each of which updates one column at
    a time, drawn uniformly from all D; rows have at most R non-zeros, which is the number of grids
    of random bins. It compares guarantees: coordinate steps that the theory asks of one thread,
    over rounds of steps that it asks of tau. Costs of memory and threads are not in it, and
    solvers that do not descend by coordinates do not follow it.

    Examples
    --------
    >>> round(law_of_speedup(102, n_nonzeros=10, n_columns=910), 6)
    51.0
    >>> law_of_speedup(102, n_nonzeros=64, n_columns=64)
    1.0
    """
    if not threads >= 1:
        raise InputError(f"The law of speed-up: threads must be at least 1, got {threads!r}.")
    # One column alone is among the features without zeros.
    shared = 1.0 if n_columns == n_nonzeros else (n_nonzeros - 1) / (n_columns - 1)
    return threads / (1.0 + shared * (threads - 1.0))


def diagnose(matrix: BinnedMatrix) -> Diagnostics:
    """Measure the bins of a matrix.

    Parameters
    ----------
    matrix : BinnedMatrix (n_rows, D)

    Returns
    -------
    Diagnostics

    Raises
    ------
    InputError
        If the matrix has no rows or no grids, or a grid knows none of the rows.

    Notes
    -----
    One pass over the codes: n_rows * n_grids additions; 8 bytes a column.

    Examples
    --------
    >>> import numpy as np
    >>> diagnose(BinnedMatrix(np.array([[1, 2, 1, 1]], np.uint8), np.array([0, 2])))
    Diagnostics(n_grids=1, n_columns=2, nu=0.75, kappa=1.3333333333333333)
    """
    return summarise(fullest_shares(matrix), matrix.shape[1])


def summarise(shares: FloatArray, n_columns: int) -> Diagnostics:
    """Return the diagnostics of grids by the shares of their fullest bins.

    :class:`RandomBinning` keeps the shares as ``nu_``; ``n_columns`` counts the bins of all grids.

    Examples
    --------
    >>> import numpy as np
    >>> summarise(np.array([0.25, 0.5]), n_columns=8).kappa
    3.0
    """
    if len(shares) == 0 or not ((shares > 0.0) & (shares <= 1.0)).all():
        raise InputError(
            "Diagnostics need at least one grid and, in each, a bin that holds rows: take the "
            "matrix of the rows that the grids were fitted to."
        )
    return Diagnostics(
        n_grids=len(shares),
        n_columns=int(n_columns),
        nu=float(np.mean(shares)),
        kappa=float(np.mean(1.0 / shares)),
    )
