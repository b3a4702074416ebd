"""Bins of grids that were chosen elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramless.features.binning_map import BinningMap
from gramless.features.grids import Grids, KnownBins
from gramless.matrices.binned import BinnedMatrix, unit_scale
from gramless.preprocessing.rows import check_rows


class GivenBinning(BinningMap):
    """The features of :class:`RandomBinning`, for grids that are given.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless.features.grids import Grids
    >>> from gramless.kernels import Laplacian
    >>> grids = Grids.draw(Laplacian(), np.array([1.0, np.inf]), 4, seed=0)
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> GivenBinning().fit_grids(X, grids).shape[0]
    50
    """

    def __init__(self, *, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    @classmethod
    def beside(cls, first: BinningMap, second: BinningMap) -> GivenBinning:
        """Return the grids of two maps that were fitted to the same rows as one map.

        Parameters
        ----------
        first, second : BinningMap
            Over as many inputs. Their bins are shared with the new map, not copied.

        Returns
        -------
        GivenBinning
            Features have the value ``1/sqrt(n_grids)`` of all grids.

        Examples
        --------
        >>> import numpy as np
        >>> from gramless import RandomBinning
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> maps = [RandomBinning(n_grids=n, random_state=n).fit(X) for n in (3, 5)]
        >>> len(GivenBinning.beside(*maps).n_bins_)
        8
        """
        both = cls(n_jobs=first.n_jobs)
        both._know(KnownBins.joined([first._known, second._known]))
        both.scale_ = unit_scale(len(both._grids))
        both._describe(np.concatenate([first.nu_, second.nu_]))
        return both

    def fit(self, X: Any, y: Any = None) -> GivenBinning:
        """Learn anew which bins of the same grids the rows occupy.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
        y : ignored

        Returns
        -------
        GivenBinning

        Raises
        ------
        NotFittedError
            If no grids were given before, by :meth:`fit_grids`.
        """
        self._check_fitted()
        self.fit_grids(X, self._grids)
        return self

    def fit_grids(self, X: Any, grids: Grids) -> BinnedMatrix:
        """Learn which bins of the grids the rows occupy; return their feature matrix.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
        grids : Grids
            Over as many inputs.

        Returns
        -------
        BinnedMatrix (n_samples, D)

        Raises
        ------
        InputError
            If the rows have another number of inputs than the grids.
        """
        rows = check_rows(self, X, reset=True)
        return self.learn_bins(rows, grids)
