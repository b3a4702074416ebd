"""Indicators of the landmarks nearest to a row: a neighbour graph in linear time."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gramless.base.errors import InputError
from gramless.base.lazy_rows import take_rows
from gramless.base.memory import check_memory
from gramless.base.numeric import is_whole
from gramless.base.random import RandomStateLike, seed_from, stream
from gramless.base.state import State, array_in, check_columns, number_in, require
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import BoolArray, FloatArray, TableLike
from gramless.features.base import FeatureMap
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.base import Rows as MatrixRows
from gramless.matrices.binned import BinnedMatrix
from gramless.preprocessing.categories import category_mask, check_categories
from gramless.preprocessing.equal_rows import row_hashes
from gramless.preprocessing.rows import Rows, check_rows, check_width, dense_columns

# With several neighbours, inputs are clipped to this number of standard deviations from their mean,
# so that outliers are not clusters.
MAX_DEVIATIONS = 2.0
_BLOCK_DISTANCES = 1 << 19  # 4 MB of distances between rows and landmarks
_LANDMARK_BYTES = 16  # per input of a landmark, which is stored unscaled and scaled
_SAMPLE_ROWS = 1000  # landmarks whose neighbours determine the distance of categories


class NearestLandmarks(FeatureMap):
    """Scaled indicators of the landmarks nearest to a row; all other features are 0.

    Landmarks are random rows of the fit, or all rows. Non-zero features are
    ``1/sqrt(n_neighbors)``, so the inner product of two rows is the share of their neighbours that
    are the same. It is the graph of shared nearest neighbours (Jarvis & Patrick 1973). With
    normalised degrees, the features are those of landmark-based spectral clustering (Chen & Cai
    2011) with weights of 1.

    Parameters
    ----------
    n_neighbors : int, default=8
        Number of non-zero features of a row. The nearest landmark of a landmark is itself.
    n_landmarks : int, default=10_000
        Largest number of landmarks. Equal rows are one landmark.
    units : array-like (n_features,), default=None
        Divisor of each input; infinity ignores an input. 1 by default. Inputs that have only two
        values among the landmarks are treated as categorical instead.
    categorical : list of int or array (n_features,) of bool, default=None
        Positions or a mask of categorical inputs. The distance of different categories is the
        median distance of landmarks from their ``n_neighbors``-th neighbour in the numeric inputs.
        One-hot encoded categories have the same distance.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks.
    n_jobs : int or None, default=None
        Number of threads; None means all processors. Results do not depend on it.

    Attributes
    ----------
    landmarks_ : array (m, n_features)
        Scaled inputs of the landmarks, ``(x - centre_) * inverse_``. If rows are sparse, the stored
        numbers of a CSR matrix with the parts ``indices_`` and ``indptr_``.
    levels_ : array (n_categorical, m)
        Categories of the landmarks.
    low_, high_ : array (n_features,)
        Bounds to which inputs are clipped: two standard deviations below and above the mean of the
        landmarks. For inputs with only two values, with ``n_neighbors=1``, and if the deviation
        overflows, they are the minimum and maximum of the landmarks. If rows are sparse, the bounds
        include 0.
    centre_, inverse_ : array (n_features,)
        Offsets and factors of the scaled inputs, ``(x - centre_) * inverse_``.
    categorical_ : array (n_features,) of bool
    category_distance_ : float
        Distance of two different categories.
    n_features_in_, feature_names_in_

    Notes
    -----
    A row takes ``n_landmarks * (n_features + n_neighbors)`` operations. Distances are Euclidean.

    Examples
    --------
    >>> X = [[0.0], [1.0], [5.0], [6.0]]
    >>> NearestLandmarks(2, random_state=0).fit_transform(X).toarray().round(1)
    array([[0.7, 0.7, 0. , 0. ],
           [0.7, 0.7, 0. , 0. ],
           [0. , 0. , 0.7, 0.7],
           [0. , 0. , 0.7, 0.7]])
    """

    fitted_name: ClassVar[str] = "landmarks_"
    size_unit: ClassVar[str] = "landmarks"

    def __init__(
        self,
        n_neighbors: int = 8,
        *,
        n_landmarks: int = 10_000,
        units: ArrayLike | None = None,
        categorical: ArrayLike | None = None,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors, self.n_landmarks, self.units = n_neighbors, n_landmarks, units
        self.categorical, self.random_state, self.n_jobs = categorical, random_state, n_jobs

    def fit(self, X: TableLike, y: object = None) -> Self:
        rows = check_rows(self, X, reset=True)
        check_categories(rows, category_mask(self.categorical, rows.shape[1]))
        self._learn(rows)
        return self

    def transform(self, X: TableLike) -> sp.csr_array:
        self._check_fitted()
        return self.rows_matrix(check_rows(self, X, reset=False)).tocsr()

    def fit_rows(self, X: Rows) -> NeighbourMatrix:
        """Draw landmarks from validated rows and return the rows' feature matrix."""
        self._learn(X)
        return self.rows_matrix(X)

    def rows_matrix(self, X: Rows) -> NeighbourMatrix:
        check_width(type(self).__name__, X, self.n_inputs)
        n_rows, n_landmarks = X.shape[0], self.n_features_out
        codes = np.empty((self.numbers_per_row, n_rows), np.uint32)
        factors, half_squares = self._factors()

        def search(a: int, b: int) -> None:
            codes[:, a:b] = self._nearest(X[a:b], factors, half_squares)

        blocks = row_blocks(n_rows, max(16, _BLOCK_DISTANCES // n_landmarks))
        with one_blas_thread():
            map_blocks(search, blocks, self.n_jobs)
        return NeighbourMatrix(codes, n_landmarks, n_jobs=self.n_jobs)

    @property
    def n_inputs(self) -> int:
        return len(self.inverse_)

    @property
    def numbers_per_row(self) -> int:
        return min(int(self.n_neighbors), self.n_features_out)

    @property
    def n_features_out(self) -> int:
        return self.levels_.shape[1]

    def check_state(self, state: State) -> None:
        self._check_parameters()
        inverse = array_in(state, "inverse_", np.float64, (None,), finite=True)
        n_inputs = len(inverse)
        for name in ("centre_", "low_", "high_"):
            array_in(state, name, np.float64, (n_inputs,), finite=True)
        mask = array_in(state, "categorical_", np.bool_, (n_inputs,))
        levels = array_in(state, "levels_", np.float64, (int(mask.sum()), None))
        n_landmarks = levels.shape[1]
        require(n_landmarks > 0, "there are no landmarks")
        if "indptr_" in state:
            values = array_in(state, "landmarks_", np.float64, (None,), finite=True)
            indices = array_in(state, "indices_", np.int64, values.shape)
            indptr = array_in(state, "indptr_", np.int64, (n_landmarks + 1,))
            sp.csr_array((values, indices, indptr), (n_landmarks, n_inputs)).check_format()
        else:
            array_in(state, "landmarks_", np.float64, (n_landmarks, n_inputs), finite=True)
        number_in(state, "category_distance_", float, 0.0)
        check_columns(state, n_inputs)

    def _check_parameters(self) -> None:
        for name in ("n_neighbors", "n_landmarks"):
            if not is_whole(getattr(self, name), 1):
                raise InputError(
                    f"NearestLandmarks: {name} must be an integer, at least 1; got "
                    f"{getattr(self, name)!r}."
                )

    def _learn(self, X: Rows) -> None:
        self._check_parameters()
        n_rows, n_inputs = X.shape
        mask = category_mask(self.categorical, n_inputs)
        units = np.ones(n_inputs) if self.units is None else np.asarray(self.units, np.float64)
        self.inverse_: FloatArray = np.where(mask, 0.0, 1.0 / units)
        self.categorical_: BoolArray = mask
        n_landmarks = min(int(self.n_landmarks), n_rows)
        if not sp.issparse(X):
            check_memory(
                f"NearestLandmarks: n_landmarks={n_landmarks:,} of {n_inputs:,} inputs",
                _LANDMARK_BYTES * n_landmarks * n_inputs,
                "lower n_landmarks, or use fewer columns",
            )
        order = stream(seed_from(self.random_state), "landmarks").permutation(n_rows)
        sample = take_rows(X, np.sort(order[:n_landmarks]))
        low, high, has_two_values = _ranges(sample)
        with np.errstate(over="ignore", invalid="ignore"):
            means, deviations = _moments(sample)
            lower, upper = means - MAX_DEVIATIONS * deviations, means + MAX_DEVIATIONS * deviations
            # Moments and differences of numbers near 1e308 can be infinite.
            has_moments, ranges = np.isfinite(upper - lower), high - low
        # With one neighbour, outliers may be clusters, and clipping could make them equal.
        is_clipped = has_moments & (self.n_neighbors > 1)
        has_two_values &= np.isfinite(units) & ~mask & np.isfinite(ranges)
        self.low_: FloatArray = np.where(has_two_values | ~is_clipped, low, lower)
        self.high_: FloatArray = np.where(has_two_values | ~is_clipped, high, upper)
        # Without a centre, products of rows far from 0 would lose digits.
        middle = np.where(has_moments, means, 0.5 * low + 0.5 * high)
        self.centre_: FloatArray = np.where(has_two_values, low, middle)
        if sp.issparse(sample):
            self.low_, self.high_ = np.minimum(self.low_, 0.0), np.maximum(self.high_, 0.0)
            self.centre_ = np.zeros(n_inputs)
        self.inverse_[has_two_values] = 0.0
        self.category_distance_: float = _neighbour_distance(
            self._scale_rows(sample), self.n_neighbors
        )
        # In standard deviations, a rare value would be far from the other one. The factor is
        # sqrt(1/2) because one-hot encoded categories differ in two columns.
        scale = np.sqrt(0.5) * self.category_distance_
        self.inverse_[has_two_values] = scale / ranges[has_two_values]
        scaled, levels = self._scale_rows(sample), self._levels(sample)
        kept = _first_of_equal(scaled, levels)
        self.levels_: FloatArray = levels[:, kept]
        landmarks = scaled[kept]
        for name in ("indices_", "indptr_"):
            self.__dict__.pop(name, None)
        if not sp.issparse(landmarks):
            self.landmarks_: FloatArray = landmarks
            return
        self.landmarks_ = landmarks.data
        self.indices_: NDArray[np.int64] = landmarks.indices.astype(np.int64)
        self.indptr_: NDArray[np.int64] = landmarks.indptr.astype(np.int64)

    def _scale_rows(self, X: Rows) -> Rows:
        """Return clipped and scaled rows, with zeros for categorical inputs."""
        if not sp.issparse(X):
            scaled: FloatArray = np.clip(np.asarray(X, np.float64), self.low_, self.high_)
            # In place, because each copy is as large as the table.
            scaled -= self.centre_
            scaled *= self.inverse_
            return scaled
        at = X.indices
        clipped = np.clip(X.data.astype(np.float64), self.low_[at], self.high_[at])
        return sp.csr_array((clipped * self.inverse_[at], at, X.indptr), X.shape)

    def _levels(self, X: Rows) -> FloatArray:
        """Return the categories of rows (n_categorical, n_rows)."""
        columns = [column for _, column in dense_columns(X, self.categorical_)]
        return np.array(columns, np.float64).reshape(-1, X.shape[0])

    def _factors(self) -> tuple[Rows, FloatArray]:
        """Return the negative landmarks (n_features, m), and halves of their squared lengths."""
        if "indptr_" not in vars(self):
            return -self.landmarks_.T, 0.5 * _squared_lengths(self.landmarks_)
        shape = len(self.indptr_) - 1, self.n_inputs
        landmarks = sp.csr_array((self.landmarks_, self.indices_, self.indptr_), shape)
        return sp.csr_array(-landmarks.T), 0.5 * _squared_lengths(landmarks)

    def _nearest(self, X: Rows, factors: Rows, half_squares: FloatArray) -> NDArray[np.intp]:
        """Return the 1-based indices of the landmarks nearest to each row, nearest first."""
        scaled = self._scale_rows(X)
        products = scaled @ factors
        # Half of the squared distances. The squared length of the row is omitted: it does not
        # change their order.
        distances = products.toarray() if sp.issparse(products) else products
        distances += half_squares
        for levels, landmark_levels in zip(self._levels(X), self.levels_, strict=True):
            distances += 0.5 * self.category_distance_**2 * (levels[:, None] != landmark_levels)
        neighbours = np.empty((self.numbers_per_row, len(distances)), np.intp)
        rows = np.arange(len(distances))
        for nearest in neighbours:
            distances.argmin(axis=1, out=nearest)
            distances[rows, nearest] = np.inf
        return neighbours + 1


def _moments(rows: Rows) -> tuple[FloatArray, FloatArray]:
    if not sp.issparse(rows):
        numbers = np.asarray(rows, np.float64)
        return numbers.mean(axis=0), numbers.std(axis=0)
    numbers = sp.csr_array(rows, dtype=np.float64)
    means = numbers.mean(axis=0)
    return means, np.sqrt(np.maximum(numbers.power(2).mean(axis=0) - means**2, 0.0))


def _ranges(rows: Rows) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the minimum and maximum of each input, and whether it has exactly these two values."""
    if not sp.issparse(rows):
        numbers = np.asarray(rows, np.float64)
        low, high = numbers.min(axis=0), numbers.max(axis=0)
        return low, high, (low < high) & ((numbers == low) | (numbers == high)).all(axis=0)
    stored = sp.csr_array(rows, dtype=np.float64)
    low, high = (np.asarray(end(axis=0).todense()).ravel() for end in (stored.min, stored.max))
    at, n_inputs = stored.indices, rows.shape[1]
    is_between = (stored.data != low[at]) & (stored.data != high[at])
    n_between = np.bincount(at[is_between], minlength=n_inputs)
    has_zeros = np.bincount(at, minlength=n_inputs) < rows.shape[0]
    n_between += has_zeros & (low < 0.0) & (high > 0.0)
    return low, high, (low < high) & (n_between == 0)


def _squared_lengths(rows: Rows) -> FloatArray:
    if sp.issparse(rows):
        return np.asarray(rows.power(2).sum(axis=1))
    squares: FloatArray = np.einsum("ij,ij->i", rows, rows)
    return squares


def _neighbour_distance(rows: Rows, rank: int) -> float:
    """Return the median distance of rows from their ``rank``-th neighbour.

    Duplicates of rows are not counted. The result is 1 if the distance is 0 or there are no
    neighbours.
    """
    # With duplicates, most distances would be 0 for inputs with few values.
    distinct = rows[_first_of_equal(rows, np.zeros((0, rows.shape[0])))]
    n_rows = distinct.shape[0]
    rank = min(rank, n_rows - 1)
    if rank == 0:
        return 1.0
    order, lengths = stream(0, "neighbours").permutation(n_rows), _squared_lengths(distinct)
    squares = []
    with one_blas_thread():
        for a, b in row_blocks(min(n_rows, _SAMPLE_ROWS), max(1, _BLOCK_DISTANCES // n_rows)):
            block = order[a:b]
            products = distinct[block] @ distinct.T
            dense = products.toarray() if sp.issparse(products) else products
            # In place, because these are the largest arrays of the fit.
            dense *= 2.0
            distances = lengths[block, None] + lengths
            distances -= dense
            distances.partition(rank, axis=1)
            squares.append(distances[:, rank].copy())
    median = float(np.median(np.concatenate(squares)))
    return np.sqrt(median) if median > 0.0 else 1.0


def _first_of_equal(numbers: Rows, levels: FloatArray) -> NDArray[np.intp]:
    """Return the position of the first row of each group of equal rows, in ascending order."""
    hashes = row_hashes(numbers) + row_hashes(levels.T, numbers.shape[1])
    return np.sort(np.unique(hashes, return_index=True)[1])


class NeighbourMatrix(FeatureMatrix):
    """The sparse matrix with ``1 / sqrt(k)`` in the columns of the k neighbours of each row.

    ``codes`` (k, n_rows) are 1-based column indices, different within each row. The products are
    those of a :class:`BinnedMatrix` with a grid for each of the k neighbours.
    """

    def __init__(
        self, codes: NDArray[np.unsignedinteger], n_columns: int, *, n_jobs: int | None = None
    ) -> None:
        self.n_jobs, self._n_columns = n_jobs, n_columns
        offsets = n_columns * np.arange(len(codes) + 1)
        self._bins = BinnedMatrix(codes, offsets, has_unseen=False, n_jobs=n_jobs)

    @property
    def codes(self) -> NDArray[np.unsignedinteger]:
        """The 1-based column indices, (k, n_rows)."""
        return self._bins.codes

    @property
    def shape(self) -> tuple[int, int]:
        return self._bins.shape[0], self._n_columns

    @property
    def nbytes(self) -> int:
        return self._bins.nbytes

    def _matvec(self, w: Vector, out: Vector) -> None:
        self._bins.matvec(np.concatenate([w] * len(self.codes)), out=out)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        out[...] = self._sum_over_grids(self._bins.rmatvec(v))

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        return self._sum_over_grids(self._bins.gram_diagonal(weights))

    def take_rows(self, rows: MatrixRows) -> NeighbourMatrix:
        return NeighbourMatrix(self.codes[:, rows], self._n_columns, n_jobs=self.n_jobs)

    def tocsr(self) -> sp.csr_array:
        n_rows, (k, scale) = self.shape[0], (len(self.codes), self._bins.scale)
        columns = self.codes.T.reshape(-1).astype(np.int64) - 1
        csr = sp.csr_array(
            (np.full(k * n_rows, scale), columns, k * np.arange(n_rows + 1)), self.shape
        )
        csr.sort_indices()
        return csr

    def _sum_over_grids(self, sums: Vector) -> Vector:
        shape = len(self.codes), self._n_columns, *sums.shape[1:]
        result: Vector = sums.reshape(shape).sum(axis=0)
        return result
