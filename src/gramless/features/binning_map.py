"""What all maps to bins share: known bins, features of new rows, bins that are kept."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError

from gramless.base.errors import InputError
from gramless.features.grids import Grids, KnownBins
from gramless.matrices.binned import BinnedMatrix, unit_scale
from gramless.matrices.diagnostics import fullest_shares, summarise
from gramless.preprocessing.rows import Rows, check_rows


class BinningMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Rows to the bins of grids that a subclass provides.

    Its attributes are described in :class:`RandomBinning`.
    """

    size_unit: ClassVar[str] = "grids"
    nu_: NDArray[np.float64]
    _grids: Grids
    _known: KnownBins
    offsets_: NDArray[np.int64]
    n_jobs: int | None

    def learn_bins(self, X: Rows, grids: Grids) -> BinnedMatrix:
        """Learn which bins of some grids the rows occupy; return their feature matrix."""
        codes, known = grids.learn(X, self.n_jobs)
        self._know(known)
        self.scale_ = unit_scale(len(grids))
        matrix = BinnedMatrix(
            codes, self.offsets_, scale=self.scale_, has_unseen=False, n_jobs=self.n_jobs
        )
        self._describe(fullest_shares(matrix))
        return matrix

    def keep_bins(self, kept: NDArray[np.bool_]) -> None:
        """Forget all other bins, and grids that are left without any.

        What was a bin is then one never seen. The values of features stay, and so do
        ``kappa_`` and ``kappa_bar_``, which describe the training rows.

        Parameters
        ----------
        kept : array (D,) of bool
            At least one must be kept.

        Raises
        ------
        InputError
            If nothing is kept or the length is not D.

        Examples
        --------
        >>> import numpy as np
        >>> from gramless import RandomBinning
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> Z = RandomBinning(n_grids=3, random_state=0).fit(X)
        >>> kept = np.arange(Z.offsets_[-1]) < 2
        >>> before = Z.transform(X)[:, kept].toarray()
        >>> Z.keep_bins(kept)
        >>> bool((Z.transform(X).toarray() == before).all()), len(Z.n_bins_)
        (True, 1)
        """
        self._check_fitted()
        kept = np.asarray(kept)
        usable = kept.dtype == bool and kept.shape == (self.offsets_[-1],)
        if not usable or not kept.any():
            raise InputError(
                f"{type(self).__name__}: kept must be an array of bool that says of "
                f"{self.offsets_[-1]} bins which to keep, at least one; got {kept.dtype} of shape "
                f"{kept.shape} with {np.count_nonzero(kept)} of them."
            )
        counts = np.add.reduceat(kept, self.offsets_[:-1], dtype=np.int64)
        grids = counts > 0
        keys = self._known.keys()[kept]
        self.nu_ = self.nu_[grids]
        offsets = np.concatenate([[0], np.cumsum(counts[grids])])
        left, n_learned = self._grids.take(grids), self._known.n_learned
        self._know(KnownBins.from_keys(left, keys, offsets, n_learned))

    def feature_matrix(self, X: Any) -> BinnedMatrix:
        """Return the compact feature matrix of rows.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)

        Returns
        -------
        BinnedMatrix (n_samples, D)
            Nothing in a grid where a row falls into a bin never seen in ``fit``.
        """
        self._check_fitted()
        return self.rows_matrix(check_rows(self, X, reset=False))

    def rows_matrix(self, X: Rows) -> BinnedMatrix:
        """Do as :meth:`feature_matrix` on rows that are validated already."""
        codes = self._known.find(X, self.n_jobs)
        return BinnedMatrix(codes, self.offsets_, scale=self.scale_, n_jobs=self.n_jobs)

    def transform(self, X: Any) -> sp.csr_array:
        """Return the features of rows as SciPy CSR.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)

        Returns
        -------
        csr_array (n_samples, D)
            ``n_grids`` entries of ``1/sqrt(n_grids)`` a row, fewer where a row
            falls into bins never seen in ``fit``. 12 bytes a non-zero.
        """
        return self.feature_matrix(X).tocsr()

    def _check_fitted(self) -> None:
        if not hasattr(self, "widths_"):
            raise NotFittedError(f"{type(self).__name__} knows no bins yet; fit it first.")

    def _know(self, known: KnownBins) -> None:
        """Take grids whose bins are known."""
        self._grids, self._known = known.grids, known
        self.widths_, self.shifts_ = known.grids.widths, known.grids.shifts
        self.n_bins_ = known.n_bins
        self.offsets_ = np.concatenate([[0], np.cumsum(self.n_bins_)])

    def _describe(self, shares: NDArray[np.float64]) -> None:
        """Take the share of the training rows in the fullest bin of each grid."""
        self.nu_ = shares
        found = summarise(self.nu_, self._n_features_out)
        self.kappa_, self.kappa_bar_ = found.kappa, found.kappa_bar

    @property
    def _n_features_out(self) -> int:
        return int(self.offsets_[-1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
