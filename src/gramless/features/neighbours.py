"""The landmarks nearest to a row as its features: a graph of neighbours, linear in the rows."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gramless.base.errors import InputError
from gramless.base.lazy_rows import take_rows
from gramless.base.memory import check_memory
from gramless.base.numeric import is_whole
from gramless.base.random import RandomState, seed_from, stream
from gramless.base.state import State, array_in, check_columns, number_in, require
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import BoolArray, FloatArray, TableLike
from gramless.features.base import FeatureMap
from gramless.matrices.neighbours import NeighbourMatrix
from gramless.preprocessing.categories import category_mask, check_categories
from gramless.preprocessing.equal_rows import row_hashes
from gramless.preprocessing.rows import Rows, check_rows, check_width, dense_columns

MOST_DEVIATIONS = 2.0
"""Numbers count up to so many standard deviations from their mean: outliers are no clusters."""
_NUMBERS_AT_ONCE = 1 << 19
"""Distances that are computed before the smallest are looked for: 4 MB."""
_LANDMARK_BYTES = 16  # of an input of a landmark, as given and scaled
_SAMPLE_ROWS = 1000
"""Landmarks whose neighbours say how far categories are apart."""


class NearestLandmarks(FeatureMap):
    """Features that are 1 for the few landmarks nearest to a row, 0 for all others.

    Landmarks are rows of the fit, drawn at random, or all of them. The product of two rows is the
    number of neighbours that they share, over ``n_neighbors``: the graph of shared nearest
    neighbours (Jarvis & Patrick 1973), whose degree-normalised features are those of landmark-based
    spectral clustering (Chen & Cai 2011) with weights of 1.

    Parameters
    ----------
    n_neighbors : int, default=8
        Landmarks that a row is joined to, a landmark to itself first.
    n_landmarks : int, default=10_000
        The most landmarks. Equal rows count as one.
    units : array-like (n_features,), default=None
        What each input is divided by, infinity for those that are ignored; 1 by default. Inputs
        that have two values among the landmarks are categories instead.
    categorical : list of int or array (n_features,) of bool, default=None
        Positions or a mask of inputs whose numbers are categories. Two that differ are as far apart
        as landmarks are from their ``n_neighbors``-th neighbour by numbers alone; so are two
        categories that have columns of their own, with two values each.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks.
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    landmarks_ : array (m, n_features)
        Their inputs less ``centre_``, over units. Of sparse rows the stored numbers alone, of which
        ``indices_`` and ``indptr_`` are those of CSR.
    levels_ : array (n_categorical, m)
        Their categories.
    low_, high_ : array (n_features,)
        Two standard deviations below and above the mean of the landmarks, or their only two values:
        inputs beyond count as these bounds. Of sparse rows the bounds include 0.
    centre_, inverse_ : array (n_features,)
        What is subtracted from inputs, and what they are then multiplied by.
    categorical_ : array (n_features,) of bool
    category_distance_ : float
        Between two categories that differ.
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
        random_state: RandomState = None,
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
        """Draw landmarks among validated rows and return the feature matrix of these."""
        self._learn(X)
        return self.rows_matrix(X)

    def rows_matrix(self, X: Rows) -> NeighbourMatrix:
        check_width(type(self).__name__, X, self.n_inputs)
        n_rows, n_landmarks = X.shape[0], self._n_features_out
        codes = np.empty((self.numbers_per_row, n_rows), np.uint32)
        towards, halves = self._factors()

        def search(a: int, b: int) -> None:
            codes[:, a:b] = self._nearest(X[a:b], towards, halves)

        blocks = row_blocks(n_rows, max(16, _NUMBERS_AT_ONCE // n_landmarks))
        with one_blas_thread():
            map_blocks(search, blocks, self.n_jobs)
        return NeighbourMatrix(codes, n_landmarks, n_jobs=self.n_jobs)

    @property
    def n_inputs(self) -> int:
        return len(self.inverse_)

    @property
    def numbers_per_row(self) -> int:
        return min(int(self.n_neighbors), self._n_features_out)

    @property
    def _n_features_out(self) -> int:
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
                "lower n_landmarks, or give fewer columns",
            )
        drawn = stream(seed_from(self.random_state), "landmarks").permutation(n_rows)
        some = take_rows(X, np.sort(drawn[:n_landmarks]))
        low, high, are_two = _ranges(some)
        with np.errstate(over="ignore", invalid="ignore"):
            means, deviations = _moments(some)
            least, most = means - MOST_DEVIATIONS * deviations, means + MOST_DEVIATIONS * deviations
            # Numbers of some 1e308 have no moments, and differences without end.
            has_moments, ranges = np.isfinite(most - least), high - low
        # With one neighbour, rows far away may be clusters: they are not to become equal.
        is_cut = has_moments & (self.n_neighbors > 1)
        are_two &= np.isfinite(units) & ~mask & np.isfinite(ranges)
        self.low_: FloatArray = np.where(are_two | ~is_cut, low, least)
        self.high_: FloatArray = np.where(are_two | ~is_cut, high, most)
        # Products of rows that are far from 0 would lose digits.
        middle = np.where(has_moments, means, 0.5 * low + 0.5 * high)
        self.centre_: FloatArray = np.where(are_two, low, middle)
        if sp.issparse(some):
            self.low_, self.high_ = np.minimum(self.low_, 0.0), np.maximum(self.high_, 0.0)
            self.centre_ = np.zeros(n_inputs)
        self.inverse_[are_two] = 0.0
        self.category_distance_: float = _neighbour_distance(self._scaled(some), self.n_neighbors)
        # A rare value is many deviations away from the other one. Two categories in columns of
        # their own differ in both.
        self.inverse_[are_two] = np.sqrt(0.5) * self.category_distance_ / ranges[are_two]
        scaled, levels = self._scaled(some), self._levels(some)
        kept = _first_of_equal(scaled, levels)
        self.levels_: FloatArray = levels[:, kept]
        self._keep(scaled[kept])

    def _keep(self, landmarks: Rows) -> None:
        for name in ("indices_", "indptr_"):
            self.__dict__.pop(name, None)
        if not sp.issparse(landmarks):
            self.landmarks_: FloatArray = landmarks
            return
        self.landmarks_ = landmarks.data
        self.indices_: NDArray[np.int64] = landmarks.indices.astype(np.int64)
        self.indptr_: NDArray[np.int64] = landmarks.indptr.astype(np.int64)

    def _scaled(self, X: Rows) -> Rows:
        """Return rows from the centre in units, within the bounds; categories are 0."""
        if not sp.issparse(X):
            scaled: FloatArray = np.clip(np.asarray(X, np.float64), self.low_, self.high_)
            # In place: of wide tables each copy is as large as the table.
            scaled -= self.centre_
            scaled *= self.inverse_
            return scaled
        at = X.indices
        clipped = np.clip(X.data.astype(np.float64), self.low_[at], self.high_[at])
        return sp.csr_array((clipped * self.inverse_[at], at, X.indptr), X.shape)

    def _levels(self, X: Rows) -> FloatArray:
        """Return the categories of rows, (n_categorical, n_rows)."""
        columns = [column for _, column in dense_columns(X, self.categorical_)]
        return np.array(columns, np.float64).reshape(-1, X.shape[0])

    def _factors(self) -> tuple[Rows, FloatArray]:
        """Return what multiplies scaled rows, (n_features, m), and halves of squared lengths."""
        if "indptr_" not in vars(self):
            return -self.landmarks_.T, 0.5 * _squared_lengths(self.landmarks_)
        shape = len(self.indptr_) - 1, self.n_inputs
        landmarks = sp.csr_array((self.landmarks_, self.indices_, self.indptr_), shape)
        return sp.csr_array(-landmarks.T), 0.5 * _squared_lengths(landmarks)

    def _nearest(self, X: Rows, towards: Rows, halves: FloatArray) -> NDArray[np.intp]:
        """Return the numbers of the nearest landmarks of a few rows, from 1, the nearest first."""
        # Half of the squared distances, less half of the row's own square.
        scaled = self._scaled(X)
        products = scaled @ towards
        distances = products.toarray() if sp.issparse(products) else products
        distances += halves
        for own, known in zip(self._levels(X), self.levels_, strict=True):
            distances += 0.5 * self.category_distance_**2 * (own[:, None] != known)
        found = np.empty((self.numbers_per_row, len(distances)), np.intp)
        rows = np.arange(len(distances))
        for nearest in found:
            distances.argmin(axis=1, out=nearest)
            distances[rows, nearest] = np.inf
        return found + 1


def _moments(rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the standard deviation of each input."""
    if not sp.issparse(rows):
        numbers = np.asarray(rows, np.float64)
        return numbers.mean(axis=0), numbers.std(axis=0)
    numbers = sp.csr_array(rows, dtype=np.float64)
    means = numbers.mean(axis=0)
    return means, np.sqrt(np.maximum(numbers.power(2).mean(axis=0) - means**2, 0.0))


def _ranges(rows: Rows) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the least and the largest number of each input, and whether there is no other."""
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
    found: FloatArray = np.einsum("ij,ij->i", rows, rows)
    return found


def _neighbour_distance(rows: Rows, rank: int) -> float:
    """Return the median distance of a row to its neighbour of some rank, or 1 if all are equal.

    Equal rows count as one: of numbers with few values most neighbours would be 0 apart.
    """
    distinct = rows[_first_of_equal(rows, np.zeros((0, rows.shape[0])))]
    n_rows = distinct.shape[0]
    rank = min(rank, n_rows - 1)
    if rank == 0:
        return 1.0
    some, lengths = stream(0, "neighbours").permutation(n_rows), _squared_lengths(distinct)
    squares = []
    with one_blas_thread():
        for a, b in row_blocks(min(n_rows, _SAMPLE_ROWS), max(1, _NUMBERS_AT_ONCE // n_rows)):
            block = some[a:b]
            products = distinct[block] @ distinct.T
            dense = products.toarray() if sp.issparse(products) else products
            # In place: of many inputs and landmarks these are the largest arrays of the fit.
            dense *= 2.0
            distances = lengths[block, None] + lengths
            distances -= dense
            distances.partition(rank, axis=1)
            squares.append(distances[:, rank].copy())
    median = float(np.median(np.concatenate(squares)))
    return np.sqrt(median) if median > 0.0 else 1.0


def _first_of_equal(numbers: Rows, levels: FloatArray) -> NDArray[np.intp]:
    """Return the positions of rows that equal none before them, in order."""
    hashes = row_hashes(numbers) + row_hashes(levels.T, numbers.shape[1])
    return np.sort(np.unique(hashes, return_index=True)[1])
