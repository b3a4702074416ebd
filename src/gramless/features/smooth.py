"""Smooth bins as a scikit-learn transformer: random grids whose bins carry weights inside."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gramless.base.errors import InputError, KernelError
from gramless.base.random import RandomState
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
_ROWS_AT_ONCE = 4096
_WORTH_THREADS = 1 << 15


class SmoothBinning(DrawnGrids):
    """Weighted random binning features, for functions smoother than plain bins can be.

    Each of ``n_grids`` random grids cuts the input space into bins, as in :class:`RandomBinning`. A
    row has one non-zero in each: a window over its bin, which falls towards the edges, at the row's
    place, times ``1/sqrt(n_grids)``. Inner products estimate the kernel without bias (Kapralov et
    al. 2020, *Scaling up kernel ridge regression via locality sensitive hashing*).

    Parameters
    ----------
    kernel : Windowed or "windowed", default="windowed"
        The window and the distribution of the widths; by name ``Windowed()``.
        ``Windowed.for_inputs(d)`` has the window that is as deep as d inputs bear: needed for many
        more than twenty.
    bandwidth : float, array-like (n_features,) or "median", default="median"
        In units of the inputs, one number or one an input (infinity ignores an input);
        ``"median"`` takes the median L1 distance between rows.
    categorical : list of int or array (n_features,) of bool, default=None
        Positions or a mask of inputs whose numbers are categories: the kernel's factor is 1 where
        two rows agree, else that of a distance of 1. New rows count as the nearest whole number.
    n_grids : int, default=256
        The error of the kernel falls as ``1/sqrt(n_grids)``.
    precision : {"float32", "float16"}, default="float32"
        Of the values that are kept; all sums are float64. Half precision saves 2 of 6 bytes a
        non-zero and rounds values by 0.05 % at most.
    sparse_output : bool, default=True
        Whether ``transform`` returns SciPy CSR. False returns an array, which
        ``set_output(transform="pandas")`` needs.
    random_state : int, RandomState or None, default=None
        Grid r depends on the seed and r alone: raising ``n_grids`` keeps the earlier grids.
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    kernel_ : Windowed
    categorical_ : array (n_features,) of bool
    bandwidth_, widths_, shifts_, n_bins_, offsets_, scale_, category_codes_, seed_
        As in :class:`RandomBinning`.
    n_effective_grids_ : float
        With m_r the mean squared value of the rows in grid r, ``(sum m)^2 / sum m^2``: far below
        ``n_grids``, few grids outweigh all others, and a flatter window is better.
    n_features_in_, feature_names_in_

    Notes
    -----
    Beside the time and bytes of :class:`RandomBinning`: some ``0.5 * n_features`` ns a row, grid
    and core, also for the zeros of sparse rows; 4 or 2 bytes a row and grid.

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
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel, bandwidth, categorical, random_state, n_jobs)
        self.n_grids, self.precision, self.sparse_output = n_grids, precision, sparse_output

    def fit_rows(self, X: Rows) -> WeightedBinnedMatrix:
        self.kernel_, X = cast(Windowed, self._prepare(X)), self._learn_codes(X)
        self.categorical_ = self._mask(X)
        grids = Grids.draw(self.kernel_.grids, self.bandwidth_, self.size, self.seed_)
        own = self.categorical_
        together = self.kernel_.profile(1.0 / self.bandwidth_[own])
        # The shift, which is uniform over the width, decides.
        parted = grids.shifts[:, own] >= together * grids.widths[:, own]
        separate_categories(grids.widths, grids.shifts, own, parted)
        codes, known = grids.learn(X, self.n_jobs)
        self._know(known)
        self.scale_ = float(1.0 / np.sqrt(len(grids)))
        matrix = self._matrix(codes, X, has_unseen=False)
        self.n_effective_grids_ = self._effective(matrix)
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
        own = codes, self._values(X), self.offsets_
        return WeightedBinnedMatrix(
            *own, scale=self.scale_, has_unseen=has_unseen, n_jobs=self.n_jobs
        )

    def _values(self, X: Rows) -> NDArray[np.floating]:
        """Return the values of rows in each grid, also in bins never seen."""
        columns = np.flatnonzero(np.isfinite(self.bandwidth_) & ~self.categorical_)
        inverse = np.ascontiguousarray(1.0 / self.widths_[:, columns])
        shifts = np.ascontiguousarray(self.shifts_[:, columns])
        kind = _PRECISIONS[self.precision]
        out = np.empty((len(inverse), X.shape[0]), kind)
        rule = inverse, shifts, self.kernel_.coefficients, float(np.finfo(kind).max)

        def work(a: int, b: int) -> None:
            rows, single = X[a:b][:, columns], np.empty((len(out), b - a), np.float32)
            dense = rows.toarray() if sp.issparse(rows) else rows
            window_values(np.ascontiguousarray(dense.T, np.float64), *rule, single)
            out[:, a:b] = single

        blocks = row_blocks(X.shape[0], min(_ROWS_AT_ONCE, block_rows(len(columns))))
        map_blocks(work, blocks, self.n_jobs if out.size >= _WORTH_THREADS else 1)
        return out

    def _effective(self, matrix: WeightedBinnedMatrix) -> float:
        squares = np.add.reduceat(matrix.gram_diagonal(), self.offsets_[:-1])
        if not squares.any():
            n_inputs = np.count_nonzero(np.isfinite(self.bandwidth_) & ~self.categorical_)
            raise InputError(
                f"SmoothBinning: the values of windows over {n_inputs} inputs are too small for "
                f"{self.precision}: use kernel=Windowed.for_inputs({n_inputs})."
            )
        return float(squares.sum() ** 2 / (squares @ squares))
