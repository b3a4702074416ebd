"""Random binning features as scikit-learn transformers."""

from __future__ import annotations

from copy import copy
from itertools import pairwise
from typing import Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gramless.base.errors import InputError
from gramless.base.memory import should_store_codes
from gramless.base.random import RandomStateLike
from gramless.base.state import State, array_in, check_columns, number_in, part_in
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, TableLike
from gramless.features.base import FeatureMap, SizedMap, as_output
from gramless.features.cells import CellRanks
from gramless.features.grids import BinTables, CodeType, Grids, KnownBins, divided_inputs
from gramless.kernels import BinningKernel, KernelLike, as_binning_kernel
from gramless.matrices.binned import BinnedMatrix, fullest_shares, unit_scale
from gramless.matrices.codes import PlainBins, bytes_of_codes, bytes_of_grid
from gramless.matrices.stored import StoredBinnedMatrix
from gramless.preprocessing.categories import CategoryCodes
from gramless.preprocessing.rows import Rows, check_rows, dense_columns

_MAX_CATEGORY = 2.0**20  # keys of larger ones could lose more than 23 of 63 bits


class GridMap(FeatureMap):
    """Base class of maps to the bins of grids, with one column per bin."""

    size_unit: ClassVar[str] = "grids"
    fitted_name: ClassVar[str] = "widths_"

    widths_: FloatArray
    shifts_: FloatArray
    n_bins_: IntArray
    offsets_: IntArray
    scale_: float
    _known: KnownBins
    _cells: CellRanks | None
    _rebuilt = frozenset(("_known", "_cells", "n_bins_"))

    def transform(self, X: TableLike) -> sp.csr_array:
        return self.feature_matrix(X).tocsr()

    def check_state(self, state: State) -> None:
        check_columns(state, KnownBins.check_state(state))
        if "cells" in state:
            widths, offsets = (part_in(state, name, np.ndarray) for name in ("widths_", "offsets_"))
            part_in(state, "cells", CellRanks).check_bins(widths, offsets)

    def _set_known(self, known: KnownBins, cells: CellRanks | None = None) -> None:
        """Set the known bins, and their cells if these are stored instead of keys."""
        self._known, self._cells = known, cells
        self.widths_, self.shifts_ = known.grids.widths, known.grids.shifts
        self.n_bins_ = known.n_bins
        self.offsets_ = np.concatenate([[0], np.cumsum(self.n_bins_)])

    def _fitted(self) -> dict[str, object]:
        fitted = super()._fitted()
        if not fitted:
            return fitted
        grids, cells = self._known.grids, self._cells
        keys = {"keys": self._known.keys()} if cells is None else {"cells": cells}
        projection = {} if grids.projection is None else {"projection": grids.projection}
        hashes = {"multipliers": grids.multipliers, "cell_offsets": grids.offsets}
        return fitted | hashes | projection | keys

    def _set_attributes(self, attributes: dict[str, Any]) -> None:
        known, cells = None, attributes.pop("cells", None)
        if "keys" in attributes or cells is not None:
            known = KnownBins.from_arrays(attributes, None if cells is None else cells.keys)
            attributes.setdefault("scale_", unit_scale(len(known.grids)))
        super()._set_attributes(attributes)
        if known is not None:
            self._set_known(known, cells)

    @property
    def n_features_out(self) -> int:
        return int(self.offsets_[-1])

    @property
    def numbers_per_row(self) -> int:
        return len(self.n_bins_)

    @property
    def n_inputs(self) -> int:
        return self._known.grids.n_features

    @property
    def used_columns(self) -> BoolArray:
        return np.asarray(self.divided_inputs.any(axis=0))

    @property
    def divided_inputs(self) -> BoolArray:
        """Mask of the inputs that each grid divides (n_grids, n_inputs)."""
        return divided_inputs(self.widths_, self._known.grids.projection)


class BinningMap(GridMap):
    """Base class of maps to bins in which every non-zero feature has the same value."""

    nu_: FloatArray

    def check_state(self, state: State) -> None:
        super().check_state(state)
        array_in(state, "nu_", np.float64, (len(part_in(state, "widths_", np.ndarray)),))
        number_in(state, "kappa_", float)
        number_in(state, "kappa_bar_", float)

    @property
    def keys(self) -> IntArray:
        """Keys of the known bins, grid after grid."""
        return self._known.keys()

    @property
    def known_tables(self) -> list[BinTables]:
        """Hash tables of the keys of the known bins."""
        return self._known.tables

    @property
    def grids(self) -> Grids:
        """The grids whose bins are known."""
        return self._known.grids

    def learn_bins(self, X: Rows, grids: Grids, scale: float | None = None) -> PlainBins:
        """Learn the bins of the grids that rows occupy, and return the rows' feature matrix.

        ``scale`` is the value of the non-zero features. By default rows have unit length. Codes are
        stored on disk if they exceed the memory limit of the user.
        """
        self.scale_ = scale = unit_scale(len(grids)) if scale is None else scale
        matrix: PlainBins
        if should_store_codes(bytes_of_codes(X.shape[0], len(grids))):
            blocks, known = grids.learn_on_disk(X, self.n_jobs)
            self._set_known(known)
            matrix = StoredBinnedMatrix(blocks, self.offsets_, scale=scale, n_jobs=self.n_jobs)
        else:
            parts, known = grids.learn_parts(X, self.n_jobs)
            self._set_known(known)
            matrix = BinnedMatrix(
                parts, self.offsets_, scale=scale, has_unseen=False, n_jobs=self.n_jobs
            )
        self.describe(fullest_shares(matrix))
        return matrix

    def relearned(self, X: Rows) -> tuple[Self, PlainBins]:
        """Return a map with the same grids and scale for the bins of other rows, and its matrix."""
        other = copy(self)
        return other, other.learn_bins(X, self.grids, self.scale_)

    def extended(self, X: Rows) -> tuple[Self, BinnedMatrix]:
        """Return a map that also knows the bins of other rows, and their feature matrix."""
        other, _ = self.relearned(X)
        is_new, old_keys, other_keys = other._columns_in(self) < 0, self.keys, other.keys
        keys, offsets = [], [0]
        for (a, b), (c, d) in zip(pairwise(self.offsets_), pairwise(other.offsets_), strict=True):
            keys += [old_keys[a:b], other_keys[c:d][is_new[c:d]]]
            offsets.append(offsets[-1] + len(keys[-2]) + len(keys[-1]))
        extended = copy(self)
        extended._set_known(
            KnownBins.from_keys(self.grids, np.concatenate(keys), np.array(offsets))
        )
        return extended, extended.rows_matrix(X)

    def of_grids(self, chosen: BoolArray) -> BinningMap:
        """Return a map to the bins of some of the grids, with the same scale."""
        if chosen.all() and self.grids.projection is None:
            return self
        grids = self.grids.take(chosen)
        if not grids.divides_combinations.any():
            grids = grids.over_inputs()
        keys = self.keys[np.repeat(chosen, self.n_bins_)]
        offsets = np.append(0, np.cumsum(self.n_bins_[chosen]))
        other = GivenBinning(n_jobs=self.n_jobs)
        other.scale_ = self.scale_
        other._set_known(KnownBins.from_keys(grids, keys, offsets))
        other.describe(self.nu_[chosen])
        return other

    def complete_cells(self, X: Rows, columns: IntArray) -> BinnedMatrix:
        """Make all cells from 0 to 1 known bins of grids over one input, in ascending order.

        ``columns[r]`` is the only input that grid r divides, or -1 if its bins stay as they are.
        Return the feature matrix of the rows.
        """
        grids, keys = self.grids, []
        for r, (a, b) in enumerate(pairwise(self.offsets_)):
            if (j := columns[r]) < 0:
                keys.append(self.keys[a:b])
                continue
            inverse, shift = 1.0 / grids.widths[r, j], grids.shifts[r, j]
            first, last = (int(np.floor((end - shift) * inverse)) for end in (0.0, 1.0))
            cells = np.arange(first, last + 1)
            keys.append(grids.offsets[r] + grids.multipliers[r, j] * cells)
        offsets = np.concatenate([[0], np.cumsum([len(grid_keys) for grid_keys in keys])])
        self._set_known(KnownBins.from_keys(grids, np.concatenate(keys), offsets))
        return self.rows_matrix(X)

    def weights_in(self, other: BinningMap, weights: FloatArray) -> FloatArray:
        """Return the weights of these bins, in the order of another map over the same grids.

        Bins that only the other map knows get weight 0. Weights of columns after the bins come
        after the other map's bins.
        """
        n_old, n_new = self.n_features_out, other.n_features_out
        moved = np.zeros((n_new + len(weights) - n_old, *weights.shape[1:]))
        columns = self._columns_in(other)
        moved[columns[columns >= 0]] = weights[:n_old][columns >= 0]
        moved[n_new:] = weights[n_old:]
        return moved

    def _columns_in(self, other: BinningMap) -> IntArray:
        """Return the column of each bin in another map over the same grids, or -1."""
        columns = np.full(self.n_features_out, -1)
        keys, other_keys = self.keys, other.keys
        for (a, b), (c, d) in zip(pairwise(self.offsets_), pairwise(other.offsets_), strict=True):
            order = np.argsort(other_keys[c:d])
            ranked = other_keys[c:d][order]
            places = np.minimum(np.searchsorted(ranked, keys[a:b]), d - c - 1)
            columns[a:b] = np.where(ranked[places] == keys[a:b], c + order[places], -1)
        return columns

    def take_bins(self, keys: IntArray, offsets: IntArray, code_type: CodeType) -> None:
        """Replace the known bins of the grids; ``keys`` has them grid after grid."""
        self._set_known(KnownBins.from_keys(self.grids, keys, offsets, code_type))

    def rows_matrix(self, X: Rows) -> BinnedMatrix:
        codes = self._known.find(X, self.n_jobs)
        return BinnedMatrix(codes, self.offsets_, scale=self.scale_, n_jobs=self.n_jobs)

    def keep_bins(self, kept: BoolArray) -> None:
        """Keep only some bins, and drop grids without any.

        Dropped bins are treated like bins that the fit has not seen. ``scale_``, ``kappa_`` and
        ``kappa_bar_`` do not change; the last two describe the training rows.

        Parameters
        ----------
        kept : array (D,) of bool
            Mask of the bins to keep, at least one.

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
        kept, n_bins = np.asarray(kept), self.n_features_out
        if kept.dtype != bool or kept.shape != (n_bins,) or not kept.any():
            raise InputError(
                f"{type(self).__name__}: kept must be an array of bool, a mask of {n_bins} bins "
                f"with at least one True; got {kept.dtype} of shape {kept.shape} with "
                f"{np.count_nonzero(kept)} True."
            )
        self._keep(kept, self.keys[kept])

    def keep_ranked(self, kept: BoolArray, matrix: BinnedMatrix, rows: FloatArray) -> IntArray:
        """Keep only some bins, and order them such that model files are short.

        ``matrix`` has the features of ``rows``. Return the former column of each kept bin.
        """
        columns = np.asarray(self.grids.columns(rows))
        occupied = matrix.row_of_each_bin(), columns, matrix.bin_counts()
        ranked = CellRanks.of(self.grids, self.keys, self.offsets_, kept, *occupied, self.n_jobs)
        if ranked is None:
            self.keep_bins(kept)
            return np.flatnonzero(kept)
        cells, order = ranked
        self._keep(kept, self.keys[order], cells)
        return order

    def _keep(self, kept: BoolArray, keys: IntArray, cells: CellRanks | None = None) -> None:
        counts = np.add.reduceat(kept, self.offsets_[:-1], dtype=np.int64)
        has_bins = counts > 0
        self.nu_ = self.nu_[has_bins]
        grids, offsets = self.grids.take(has_bins), np.append(0, np.cumsum(counts[has_bins]))
        self._set_known(KnownBins.from_keys(grids, keys, offsets, self._known.code_type), cells)

    def describe(self, shares: FloatArray) -> None:
        """Set the statistics of bins from the share of rows in the fullest bin of each grid."""
        self.nu_ = shares
        self.kappa_ = float(np.mean(1.0 / shares))
        self.kappa_bar_ = self.n_features_out / len(shares)


class DrawnGrids(GridMap, SizedMap):
    """Base class of maps that draw their grids at random; the size is the number of grids."""

    size_name: ClassVar[str] = "n_grids"
    enough_to_search: ClassVar[int] = 96
    sparse_output: bool

    category_codes_: CategoryCodes

    def _learn_codes(self, X: Rows) -> Rows:
        """Return the rows with small category codes if some categories are large numbers."""
        mask = self._mask(X)
        columns = dense_columns(X, mask)
        is_large = any(bool((np.abs(c) > _MAX_CATEGORY).any()) for _, c in columns)
        self.__dict__.pop("category_codes_", None)
        if is_large:
            self.category_codes_ = CategoryCodes.fit(X, mask)
        return self._coded(X)

    def _coded(self, X: Rows) -> Rows:
        codes = vars(self).get("category_codes_")
        return X if codes is None else codes.transform(X)

    def check_state(self, state: State) -> None:
        super().check_state(state)
        if "category_codes_" in state:
            part_in(state, "category_codes_", CategoryCodes)
        SizedMap.check_state(self, state)
        array_in(state, "bandwidth_", np.float64, part_in(state, "widths_", np.ndarray).shape[1:])

    def transform(self, X: TableLike) -> AnyArray | sp.csr_array:
        return as_output(self, self.feature_matrix(X).tocsr())

    def fit_transform(self, X: TableLike, y: object = None) -> AnyArray | sp.csr_array:
        """Fit to rows and return their features, in one pass over the rows.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
            Rows to learn from and to transform.
        y : ignored
            Ignored; present for scikit-learn's interface.
        """
        return as_output(self, self.fit_matrix(X, y).tocsr())

    def bytes_to_fit(self, n_rows: int, n_inputs: int) -> float:
        return float(self.size) * bytes_of_grid(n_rows, n_inputs)


class RandomBinning(BinningMap, DrawnGrids):
    """Random binning features (Rahimi & Recht 2007, section 4; Wu et al. 2016, Algorithm 1).

    Each of ``n_grids`` random grids divides the input space into bins. A row has one non-zero
    feature per grid, ``1/sqrt(n_grids)``, for the bin that contains the row. The inner product of
    the features of two rows is the share of grids in which both rows are in the same bin, which is
    an unbiased estimate of the kernel.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="laplacian"
        ``"laplacian"``, ``"exponential_power"``, ``"inverse_power"``, ``"hat"``, an object such as
        ``ExponentialPower(0.7)``, or a convex decreasing function of the distance. The Gaussian
        kernel has no random binning.
    bandwidth : float, array-like (n_features,) or "median", default="median"
        In units of the inputs, one number or one per input. Infinity ignores an input.
        ``"median"`` is the median L1 distance between rows.
    categorical : list of int or array (n_features,) of bool, default=None
        Positions or a mask of categorical inputs. The kernel's factor of such an input is 1 if two
        rows have the same category, else the kernel's value at a distance of 1. Numbers are rounded
        to integers.
    n_grids : int, default=256
        Number of grids. The error of the kernel is proportional to ``1/sqrt(n_grids)``.
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
    bandwidth_ : array (n_features,)
    widths_, shifts_ : arrays (n_grids, n_features)
        The grids. The cell of a row is ``floor((x - shift) / width)``.
    n_bins_ : array (n_grids,)
        Number of occupied bins of each grid; D is their sum.
    offsets_ : array (n_grids + 1,)
        First column of each grid, and D.
    scale_ : float
        Value of the non-zero features.
    nu_ : array (n_grids,)
        Share of the rows in the fullest bin of each grid (the collision probability).
    category_codes_ : CategoryCodes
        Small codes of the categories; only if some categories are larger than 2^20.
    kappa_ : float
        Mean of ``1/nu_`` (RB16, Definition 1). The larger it is, the faster learning converges.
    kappa_bar_ : float
        ``D / n_grids``, the mean number of bins of a grid.
    seed_ : int
    n_features_in_, feature_names_in_

    Notes
    -----
    A fit takes about ``0.14 * n_features + 1.5`` ns and 1, 2 or 4 bytes per row and grid, on one
    core.

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

    def __init__(
        self,
        kernel: KernelLike = "laplacian",
        *,
        bandwidth: float | ArrayLike | str = "median",
        categorical: ArrayLike | None = None,
        n_grids: int = 256,
        sparse_output: bool = True,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel, bandwidth, categorical, random_state, n_jobs)
        self.n_grids, self.sparse_output = n_grids, sparse_output

    def fit_rows(self, X: Rows) -> PlainBins:
        kernel, X = cast(BinningKernel, self._prepare(X)), self._learn_codes(X)
        grids = Grids.draw(kernel, self.bandwidth_, self.size, self.seed_, self._mask(X))
        return self.learn_bins(X, grids)

    def rows_matrix(self, X: Rows) -> BinnedMatrix:
        return super().rows_matrix(self._coded(X))

    def bytes_to_fit(self, n_rows: int, n_inputs: int) -> float:
        on_disk = should_store_codes(bytes_of_codes(n_rows, self.size))
        return super().bytes_to_fit(0 if on_disk else n_rows, n_inputs)

    def check_parameters(self) -> BinningKernel:
        self._check_size()
        return as_binning_kernel(self.kernel)


class GivenBinning(BinningMap):
    """Binning features of given grids; see :meth:`fit_grids`."""

    def __init__(self, *, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Learn the bins of the same grids that other rows occupy."""
        self._check_fitted()
        self.fit_grids(X, self.grids)
        return self

    def fit_grids(self, X: TableLike, grids: Grids) -> PlainBins:
        """Learn the bins of the grids that rows occupy, and return the rows' feature matrix."""
        return self.learn_bins(check_rows(self, X, reset=True), grids)
