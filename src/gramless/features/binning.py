"""Random binning features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gramless.base.errors import InputError
from gramless.base.random import RandomState, seed_from
from gramless.features.grids import Grids, KnownBins
from gramless.features.inputs import Rows, check_rows
from gramless.features.median import median_distance
from gramless.kernels import BinningKernel, KernelLike, as_binning_kernel, bandwidth_vector
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.diagnostics import fullest_shares, summarise


class RandomBinning(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Random binning features (Rahimi & Recht 2007, section 4; Wu et al. 2016, Algorithm 1).

    Each of ``n_grids`` random grids cuts the input space into bins; a row has
    one non-zero, ``1/sqrt(n_grids)``, in the bin of each grid that it falls
    into. The inner product of two rows estimates the kernel without bias: it is
    the share of grids in which they fall into one bin.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="laplacian"
        ``"laplacian"``, ``"exponential_power"``, ``"inverse_power"``, ``"hat"``,
        an object such as ``ExponentialPower(0.7)``, or a convex decreasing
        function of the distance. The Gaussian kernel has no random binning.
    bandwidth : float, array-like (n_features,) or "median", default="median"
        In units of the inputs, one number or one an input (infinity ignores an
        input); ``"median"`` takes the median L1 distance between rows.
    n_grids : int, default=256
        The error of the kernel falls as ``1/sqrt(n_grids)``.
    random_state : int, RandomState or None, default=None
        Grid r depends on the seed and r alone: raising ``n_grids`` keeps the
        earlier grids.
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    bandwidth_ : array (n_features,)
    widths_, shifts_ : arrays (n_grids, n_features)
        The grids; a cell is ``floor((x - shift) / width)``.
    n_bins_ : array (n_grids,)
        Occupied bins a grid: D is their sum.
    offsets_ : array (n_grids + 1,)
        Where each grid's columns start.
    scale_ : float
        The value of every non-zero.
    nu_ : array (n_grids,)
        Collision probability: the share of the rows in the fullest bin.
    kappa_ : float
        Mean of ``1/nu_`` (RB16, Definition 1): the larger, the faster it learns.
    kappa_bar_ : float
        ``D / n_grids``, the mean number of bins.
    seed_ : int
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Fitting costs about ``0.14 * n_features + 1.5`` ns a row, grid and core, and
    1, 2 or 4 bytes a row and grid.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless import RandomBinning
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> Z = RandomBinning(bandwidth=2.0, n_grids=512, random_state=0).fit_transform(X)
    >>> Z.shape[0], Z.nnz
    (500, 256000)
    >>> exact = np.exp(-np.abs(X[0] - X[1]).sum() / 2.0)
    >>> bool(abs((Z[[0]] @ Z[[1]].T).toarray()[0, 0] - exact) < 0.1)
    True
    """

    nu_: NDArray[np.float64]

    def __init__(
        self,
        kernel: KernelLike = "laplacian",
        *,
        bandwidth: float | ArrayLike | str = "median",
        n_grids: int = 256,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.n_grids = n_grids
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> RandomBinning:
        """Draw the grids and learn which bins the rows occupy.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
        y : ignored

        Returns
        -------
        RandomBinning

        Raises
        ------
        KernelError
            If the kernel has no random binning.
        InputError
            If the bandwidth or ``n_grids`` cannot be used.
        """
        self.fit_matrix(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> sp.csr_array:
        """Fit to the rows and return their features, in one pass."""
        return self.fit_matrix(X, y).tocsr()

    def fit_matrix(self, X: Any, y: Any = None) -> BinnedMatrix:
        """Fit to the rows and return their compact feature matrix, in one pass.

        Returns
        -------
        BinnedMatrix (n_samples, D)
        """
        return self.fit_rows(check_rows(self, X, reset=True))

    def fit_rows(self, X: Rows) -> BinnedMatrix:
        """Do as :meth:`fit_matrix` on rows that are validated already."""
        kernel = self.check_parameters()
        self.seed_ = seed_from(self.random_state)
        self.bandwidth_ = self._bandwidth(X)
        self._grids = Grids.draw(kernel, self.bandwidth_, int(self.n_grids), self.seed_)
        codes, self._known = self._grids.learn(X, self.n_jobs)
        self.widths_, self.shifts_ = self._grids.widths, self._grids.shifts
        self.n_bins_ = self._known.n_bins
        self.offsets_ = np.concatenate([[0], np.cumsum(self.n_bins_)])
        matrix = BinnedMatrix(codes, self.offsets_, has_unseen=False, n_jobs=self.n_jobs)
        self.scale_ = matrix.scale
        self._describe(matrix)
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
        check_is_fitted(self, "widths_")
        kept = np.asarray(kept)
        usable = kept.dtype == bool and kept.shape == (self.offsets_[-1],)
        if not usable or not kept.any():
            raise InputError(
                f"RandomBinning: kept must be an array of bool that says of {self.offsets_[-1]} "
                f"bins which to keep, at least one; got {kept.dtype} of shape {kept.shape} with "
                f"{np.count_nonzero(kept)} of them."
            )
        counts = np.add.reduceat(kept, self.offsets_[:-1], dtype=np.int64)
        grids = counts > 0
        keys = self._known.keys()[kept]
        self.nu_ = self.nu_[grids]
        self._grids = self._grids.take(grids)
        self.n_bins_ = counts[grids]
        self.offsets_ = np.concatenate([[0], np.cumsum(self.n_bins_)])
        self._known = KnownBins.from_keys(self._grids, keys, self.offsets_)
        self.widths_, self.shifts_ = self._grids.widths, self._grids.shifts

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
        check_is_fitted(self, "widths_")
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

    def check_parameters(self) -> BinningKernel:
        """Return the kernel, or say which parameter cannot be used.

        Raises
        ------
        KernelError, InputError
        """
        n_grids = self.n_grids
        if not isinstance(n_grids, (int, np.integer)) or isinstance(n_grids, bool) or n_grids < 1:
            raise InputError(
                f"RandomBinning: n_grids must be an integer, at least 1; got {n_grids!r}."
            )
        return as_binning_kernel(self.kernel)

    def _bandwidth(self, X: Rows) -> NDArray[np.float64]:
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "median":
                raise InputError(
                    f"RandomBinning: bandwidth must be a number, one number an input or "
                    f"'median', got {self.bandwidth!r}."
                )
            return np.full(X.shape[1], median_distance(X, self.seed_))
        return np.array(bandwidth_vector(self.bandwidth, X.shape[1]))

    def _describe(self, matrix: BinnedMatrix) -> None:
        self.nu_ = fullest_shares(matrix)
        found = summarise(self.nu_, matrix.shape[1])
        self.kappa_, self.kappa_bar_ = found.kappa, found.kappa_bar

    @property
    def _n_features_out(self) -> int:
        return int(self.offsets_[-1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
