"""Weighted random binning features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gramless.base.errors import InputError, KernelError
from gramless.base.random import RandomStateLike
from gramless.base.state import State, array_in, part_in
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray
from gramless.features.binning import DrawnGrids
from gramless.features.grids import Grids, separate_categories
from gramless.features.packing import block_rows
from gramless.kernels.windowed import Windowed
from gramless.loops.windows import window_values
from gramless.matrices.weighted import WeightedBinnedMatrix
from gramless.preprocessing.rows import Rows

_PRECISIONS: dict[str, type[np.floating]] = {"float32": np.float32, "float16": np.float16}
_MAX_BLOCK_ROWS = 4096  # rows of a task
_MIN_THREADED_VALUES = 1 << 15  # fewer values are computed in one thread


class SmoothBinning(DrawnGrids):
    """Weighted random binning features, for functions that are smoother than plain bins.

    Each of ``n_grids`` random grids divides the input space into bins, as in
    :class:`RandomBinning`. A row has one non-zero feature per grid: the value at the row of a
    window over its bin, which decreases towards the edges, times ``1/sqrt(n_grids)``. Inner
    products are unbiased estimates of the kernel (Kapralov et al. 2020, *Scaling up kernel ridge
    regression via locality sensitive hashing*).

    Parameters
    ----------
    kernel : Windowed or "windowed", default="windowed"
        The window and the distribution of the widths; the name means ``Windowed()``. For many more
        than twenty inputs, use ``Windowed.for_inputs(d)``: its window is flatter, so that a few
        grids do not dominate.
    bandwidth : float, array-like (n_features,) or "median", default="median"
        In units of the inputs, one number or one per input. Infinity ignores an input.
        ``"median"`` is the median L1 distance between rows.
    categorical : list of int or array (n_features,) of bool, default=None
        Positions or a mask of categorical inputs. The kernel's factor of such an input is 1 if two
        rows have the same category, else the kernel's value at a distance of 1. Numbers are rounded
        to integers.
    n_grids : int, default=256
        Number of grids. The error of the kernel is proportional to ``1/sqrt(n_grids)``.
    precision : {"float32", "float16"}, default="float32"
        Type of the stored values; all sums are float64. Half precision saves 2 of 6 bytes
        per non-zero, with rounding errors of at most 0.05 %.
    sparse_output : bool, default=True
        Whether ``transform`` returns SciPy CSR. With False it returns an array, which
        ``set_output(transform="pandas")`` needs.
    random_state : int, RandomState or None, default=None
        Seed. Grid r depends on the seed and r only, so a larger ``n_grids`` adds grids and keeps
        the others.
    n_jobs : int or None, default=None
        Number of threads; None means all processors. Results do not depend on it.

    Attributes
    ----------
    kernel_ : Windowed
    categorical_ : array (n_features,) of bool
    bandwidth_, widths_, shifts_, n_bins_, offsets_, scale_, category_codes_, seed_
        As in :class:`RandomBinning`.
    n_effective_grids_ : float
        ``(sum_r m_r)^2 / sum_r m_r^2`` for the mean squared value m_r of the rows in grid r. If it
        is far below ``n_grids``, a few grids dominate, and a flatter window is better.
    n_features_in_, feature_names_in_

    Notes
    -----
    In addition to the time and memory of :class:`RandomBinning`, a fit takes about ``0.5 *
    n_features`` ns per row and grid on one core, also for the zeros of sparse rows, and 4 or 2
    bytes per row and grid.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless.kernels.windowed import Windowed
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> Z = SmoothBinning(bandwidth=2.0, n_grids=1024, random_state=0).fit_transform(X)
    >>> Z.shape[0], Z.nnz
    (500, 512000)
    >>> exact = Windowed().gram(X[:1], X[1:2], bandwidth=2.0)[0, 0]
    >>> bool(abs((Z[[0]] @ Z[[1]].T).toarray()[0, 0] - exact) < 0.1)
    True
    """

    def __init__(
        self,
        kernel: Windowed | Literal["windowed"] = "windowed",
        *,
        bandwidth: float | ArrayLike | str = "median",
        categorical: ArrayLike | None = None,
        n_grids: int = 256,
        precision: Literal["float32", "float16"] = "float32",
        sparse_output: bool = True,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel, bandwidth, categorical, random_state, n_jobs)
        self.n_grids, self.precision, self.sparse_output = n_grids, precision, sparse_output

    def fit_rows(self, X: Rows) -> WeightedBinnedMatrix:
        self.kernel_ = cast(Windowed, self._prepare(X))
        X = self._learn_codes(X)
        mask = self.categorical_ = self._mask(X)
        grids = Grids.draw(self.kernel_.grids, self.bandwidth_, self.size, self.seed_)
        probability = self.kernel_.profile(1.0 / self.bandwidth_[mask])  # of a common cell
        # Shifts are uniform over the width.
        is_separated = grids.shifts[:, mask] >= probability * grids.widths[:, mask]
        separate_categories(grids.widths, grids.shifts, mask, is_separated)
        codes, known = grids.learn(X, self.n_jobs)
        self._set_known(known)
        self.scale_ = float(1.0 / np.sqrt(len(grids)))
        matrix = self._matrix(codes, X, has_unseen=False)
        squares = np.add.reduceat(matrix.gram_diagonal(), self.offsets_[:-1])
        if not squares.any():
            n_inputs = np.count_nonzero(np.isfinite(self.bandwidth_) & ~self.categorical_)
            raise InputError(
                f"SmoothBinning: the values of windows over {n_inputs} inputs are too small for "
                f"{self.precision}: use kernel=Windowed.for_inputs({n_inputs})."
            )
        self.n_effective_grids_ = float(squares.sum() ** 2 / (squares @ squares))
        return matrix

    def rows_matrix(self, X: Rows) -> WeightedBinnedMatrix:
        X = self._coded(X)
        return self._matrix(self._known.find(X, self.n_jobs), X, has_unseen=None)

    def check_state(self, state: State) -> None:
        super().check_state(state)
        array_in(state, "categorical_", np.bool_, part_in(state, "bandwidth_", np.ndarray).shape)
        self.check_parameters()
        part_in(state, "kernel_", Windowed)

    def check_parameters(self) -> Windowed:
        self._check_size()
        self._check_choice("precision", self.precision, _PRECISIONS)
        kernel = self.kernel
        if isinstance(kernel, Windowed):
            return kernel
        if not isinstance(kernel, str) or kernel != Windowed.name:
            raise KernelError(
                f"SmoothBinning: kernel must be 'windowed' or an object such as "
                f"Windowed(depth=0.3), got {kernel!r}; others need RandomBinning or RandomFourier."
            )
        return Windowed()

    def _matrix(self, codes: AnyArray, X: Rows, has_unseen: bool | None) -> WeightedBinnedMatrix:
        return WeightedBinnedMatrix(
            codes,
            self._values(X),
            self.offsets_,
            scale=self.scale_,
            has_unseen=has_unseen,
            n_jobs=self.n_jobs,
        )

    def _values(self, X: Rows) -> NDArray[np.floating]:
        """Return the window values (n_grids, n_rows), also for unseen bins."""
        columns = np.flatnonzero(np.isfinite(self.bandwidth_) & ~self.categorical_)
        inverse = np.ascontiguousarray(1.0 / self.widths_[:, columns])
        shifts = np.ascontiguousarray(self.shifts_[:, columns])
        dtype = _PRECISIONS[self.precision]
        values = np.empty((len(inverse), X.shape[0]), dtype)
        windows = inverse, shifts, self.kernel_.coefficients, float(np.finfo(dtype).max)

        def compute_block(a: int, b: int) -> None:
            rows, block = X[a:b][:, columns], np.empty((len(values), b - a), np.float32)
            dense = rows.toarray() if sp.issparse(rows) else rows
            window_values(np.ascontiguousarray(dense.T, np.float64), *windows, block)
            values[:, a:b] = block

        blocks = row_blocks(X.shape[0], min(_MAX_BLOCK_ROWS, block_rows(len(columns))))
        n_jobs = self.n_jobs if values.size >= _MIN_THREADED_VALUES else 1
        map_blocks(compute_block, blocks, n_jobs)
        return values
