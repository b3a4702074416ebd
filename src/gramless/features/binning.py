"""Random binning features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gramless.base.errors import InputError
from gramless.base.random import RandomState, seed_from
from gramless.features.binning_map import BinningMap
from gramless.features.categories import Mask, category_mask, check_categories
from gramless.features.grids import Grids
from gramless.features.inputs import Rows, check_rows
from gramless.features.median import median_distance
from gramless.features.sized import SizedMap
from gramless.kernels import BinningKernel, KernelLike, as_binning_kernel, bandwidth_vector
from gramless.matrices.binned import BinnedMatrix


class RandomBinning(BinningMap, SizedMap):
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
    categorical : list of int or array (n_features,) of bool, default=None
        Positions or a mask of inputs whose numbers are categories: the kernel's
        factor is 1 where two rows agree, else that of a distance of 1. They hold
        whole numbers, new rows count as the nearest one.
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

    size_name: ClassVar[str] = "n_grids"
    size_unit: ClassVar[str] = "grids"
    enough_to_search: ClassVar[int] = 96

    def __init__(
        self,
        kernel: KernelLike = "laplacian",
        *,
        bandwidth: float | ArrayLike | str = "median",
        categorical: ArrayLike | None = None,
        n_grids: int = 256,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.categorical = categorical
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
            If the bandwidth, ``categorical`` or ``n_grids`` cannot be used.
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
        rows = check_rows(self, X, reset=True)
        check_categories(rows, category_mask(self.categorical, rows.shape[1]))
        return self.fit_rows(rows)

    def fit_rows(self, X: Rows) -> BinnedMatrix:
        """Do as :meth:`fit_matrix` on rows that are validated already."""
        kernel = self.check_parameters()
        self.seed_ = seed_from(self.random_state)
        categorical = category_mask(self.categorical, X.shape[1])
        self.bandwidth_ = self._bandwidth(X, categorical)
        grids = Grids.draw(kernel, self.bandwidth_, int(self.n_grids), self.seed_, categorical)
        return self.learn_bins(X, grids)

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

    def _bandwidth(self, X: Rows, categorical: Mask) -> NDArray[np.float64]:
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "median":
                raise InputError(
                    f"RandomBinning: bandwidth must be a number, one number an input or "
                    f"'median', got {self.bandwidth!r}."
                )
            return np.full(X.shape[1], median_distance(X, self.seed_, categorical))
        return np.array(bandwidth_vector(self.bandwidth, X.shape[1]))
