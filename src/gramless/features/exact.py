"""Features whose inner products are exact kernel values."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gramless.base.errors import InputError
from gramless.base.random import RandomStateLike
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import AnyArray, BoolArray, FloatArray
from gramless.features.base import SizedMap
from gramless.features.landmarks import BLOCK_ROWS, InputKernel, Values
from gramless.features.nystrom import LandmarkMap, LandmarkMatrix, Nystrom
from gramless.kernels import Kernel, KernelLike
from gramless.matrices.dense import DenseMatrix
from gramless.preprocessing.categories import category_mask
from gramless.preprocessing.rows import Rows

_CUT = 1e-12  # rows that the others represent up to this share of the kernel are dropped


class ExactKernel(LandmarkMap):
    """Features whose inner products are the exact kernel matrix of the training rows.

    The features Z of the training rows are a Cholesky factor of the kernel matrix, ``Z Z' = K``, so
    a linear model of them is the exact kernel machine. The inner products of the features of a new
    row with those of the training rows are its kernel values.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="gaussian"
        Any kernel, or ``"precomputed"`` if rows have kernel values with the training rows instead
        of inputs.
    bandwidth : float, array-like (n_features,) or "median", default="median"
        In units of the inputs, one number or one per input. Infinity ignores an input.
        ``"median"`` is the median distance between rows in the metric of the kernel.
    categorical : list of int or array (n_features,) of bool, default=None
        Positions or a mask of categorical inputs. Different categories have the distance 1.
    max_rows : int, default=20_000
        A fit to more rows raises ``InputError``. 20,000 rows take 7 GB and some minutes.
    random_state : int, RandomState or None, default=None
        Seed of the sample of rows for the median distance.
    n_jobs : int or None, default=None
        Number of threads; None means all processors. Results do not depend on it.

    Attributes
    ----------
    landmarks_ : array (n, n_features) of float64
        The training rows, without those that the others represent to 1e-12. They are ordered such
        that each is the one that the earlier ones represent worst. For a precomputed kernel, the
        indices of their columns (n,).
    indices_, factor_, whitening_, n_double_, bandwidth_, seed_
        As in :class:`Nystrom`. All features are computed in float64.
    n_features_in_, feature_names_in_

    Notes
    -----
    ``fit`` takes ``n_samples**2 n_features + n_samples**3 / 3`` operations and ``16 n_samples**2``
    bytes; the features of a new row take ``n_samples (n_features + n_samples)`` operations, its
    prediction only ``n_samples n_features`` (Rasmussen & Williams 2006, Algorithm 2.1).

    Examples
    --------
    >>> import numpy as np
    >>> from gramless.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> Z = ExactKernel(bandwidth=2.0).fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - Gaussian().gram(X, bandwidth=2.0)).max() < 1e-10)
    True
    """

    size_name: ClassVar[str] = "max_rows"
    size_unit: ClassVar[str] = "rows"

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        bandwidth: float | ArrayLike | str = "median",
        categorical: ArrayLike | None = None,
        max_rows: int = 20_000,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel, bandwidth, categorical, random_state, n_jobs)
        self.max_rows = max_rows

    def check_parameters(self) -> Kernel:
        self._check_size()
        return super().check_parameters()

    def learn(self, X: Rows, kernel: Kernel) -> None:
        if X.shape[0] > self.max_rows:
            raise InputError(
                f"ExactKernel: {X.shape[0]:,} rows are more than max_rows={self.max_rows:,}: use "
                "Nystrom, RandomFourier or RandomBinning, or raise max_rows."
            )
        source = self._source(kernel)
        landmarks = source.landmarks(X, np.arange(X.shape[0]))
        with one_blas_thread():
            self.indices_ = self._whiten(X, source, landmarks, _CUT)
            self.steps()  # fills the cache

    @property
    def _memory_advice(self) -> str:
        return "use Nystrom, RandomFourier or RandomBinning"

    def fit_rows(self, X: Rows) -> DenseMatrix:
        self._fit_checked(X)
        features = np.empty((X.shape[0], self.n_features_out))
        features[self.indices_] = self.factor_
        others = np.setdiff1d(np.arange(X.shape[0]), self.indices_)

        def compute_block(a: int, b: int) -> None:
            block = np.empty((b - a, features.shape[1]))
            self.compute(X[others[a:b]], block)
            features[others[a:b]] = block

        with one_blas_thread():
            map_blocks(compute_block, row_blocks(len(others), BLOCK_ROWS), self.n_jobs)
        return DenseMatrix(features, self.n_jobs)

    def _matrix_of(self, X: Rows) -> LandmarkMatrix:
        return LandmarkMatrix(X, self, np.float64)

    def sketch(self, max_size: int) -> SizedMap:
        """Return an unfitted Nyström map of the same kernel, for a search on samples of rows."""
        return Nystrom(
            self.kernel,
            bandwidth=self.bandwidth,
            categorical=self.categorical,
            n_components=min(max_size, self.max_rows),
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    def _values(self) -> Values:
        source = self._source(self.check_parameters())
        if isinstance(source, InputKernel):
            return source.values_by_differences(self.landmarks_)
        return source.values_with(self.landmarks_)


def exact_gram(feature_map: SizedMap, rows: Rows) -> FloatArray:
    """Return the exact kernel matrix of rows; the map must have a numeric ``bandwidth``."""
    dense, bandwidth, categorical = varying_inputs(feature_map, rows)
    kernel: Kernel = feature_map.check_parameters()
    return kernel.gram(dense, bandwidth=bandwidth, categorical=categorical)


def varying_inputs(feature_map: SizedMap, rows: Rows) -> tuple[AnyArray, FloatArray, BoolArray]:
    """Return rows, bandwidths and the category mask, without empty columns of sparse rows."""
    mask = category_mask(feature_map.categorical, rows.shape[1])
    bandwidth = np.broadcast_to(feature_map.bandwidth, rows.shape[1])
    if not sp.issparse(rows):
        return rows, bandwidth, mask
    # At least one input, also if all rows are zero.
    used = np.union1d(rows.indices, [0])
    return rows[:, used].toarray(), bandwidth[used], mask[used]
