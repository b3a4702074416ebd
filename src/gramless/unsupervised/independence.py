"""Independence test: whether the columns of two tables with the same rows depend on each other.

The statistic is the Hilbert-Schmidt independence criterion (HSIC) of Gretton et al. (2005), the
squared norm of the cross-covariance of the features of the two tables, for several kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import scipy.fft
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gramless.base.columns import is_frame, labels
from gramless.base.errors import InputError
from gramless.base.lazy_rows import taken
from gramless.base.random import RandomState, seed_from, stream
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks, thread_count
from gramless.base.types import AnyArray, FloatArray, IntArray, TableLike
from gramless.estimators.features import given_map
from gramless.features.base import SizedMap
from gramless.features.registry import map_class
from gramless.matrices.chunked import ChunkedMatrix
from gramless.preprocessing.rows import Rows
from gramless.unsupervised.encoded_tables import EncodedTable, maps_of, scaler_of
from gramless.unsupervised.permutations import check_permutations, p_value, standardised

Orders: TypeAlias = Sequence[tuple[IntArray, IntArray]]
"""For each round, the order of the rows of both tables."""
BANDWIDTHS = (0.25, 0.5, 1.0, 2.0)
"""Bandwidths that are tried for either table, in median distances."""
_OWNER = "independence_test"
_LEAST_ROWS = 4
_COLUMNS = 256
"""Features that the bandwidths of a table share; of few rows, each has so many."""
_FEW_ROWS = 1000
"""Up to so many rows, Gram matrices of more features take less time than cross-covariances."""
_MOST_BLOCKS, _MANY_ROWS = 250, 100_000
"""Blocks that are shifted; twice as many of more rows, of which a round takes long."""
_CHUNK_ROWS = 4096
_AT_ONCE = 8
"""Frequencies of a task."""


@dataclass(frozen=True)
class IndependenceResult:
    """The result of an independence test.

    Attributes
    ----------
    p_value : float
        Small if the two tables depend on each other. If they do not, it is at most alpha with a
        probability of at most alpha.
    statistic : float
        The largest standardised HSIC of all pairs of kernels.
    hsic : array (n_bandwidths_x, n_bandwidths_y)
        Of each pair of bandwidths, not standardised.
    bandwidths_x, bandwidths_y : tuple
        In units of the scaled inputs.
    n_permutations, n_rows : int
    """

    p_value: float
    statistic: float
    hsic: FloatArray
    bandwidths_x: tuple[float | FloatArray, ...]
    bandwidths_y: tuple[float | FloatArray, ...]
    n_permutations: int
    n_rows: int


def independence_test(
    X: TableLike,
    Y: TableLike,
    *,
    features: str | SizedMap = "fourier",
    x_bandwidth: float | ArrayLike | str = "auto",
    y_bandwidth: float | ArrayLike | str = "auto",
    scaling: str = "auto",
    x_categorical: str | ArrayLike = "auto",
    y_categorical: str | ArrayLike = "auto",
    n_permutations: int = 499,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> IndependenceResult:
    """Test whether two tables of the same rows are independent of each other.

    Gaussian kernels of four bandwidths for either table give sixteen criteria of independence. The
    largest, standardised by its permutations, is compared with the largest of each permutation: the
    p-value counts that several were tried.

    Parameters
    ----------
    X, Y : array-like, sparse matrix or data frame (n_samples, n_x), (n_samples, n_y)
        Row i of both belongs together. ``Y`` may be an array (n_samples,) of numbers or labels.
        Rows must be independent of each other: those that follow each other in time often are not.
    features : str or feature map, default="fourier"
        As in :class:`~gramless.KernelRegressor`. The bandwidths of a table share 256 features: 64
        for each of four, 256 for a single one. Up to 1,000 rows each has 256. Of maps that make
        more, such as bins, as many random projections are taken.
    x_bandwidth, y_bandwidth : float, array-like (n_inputs,), "auto" or "median", default="auto"
        In units of the scaled inputs. "auto" tries a quarter of the median distance between two
        rows, half of it, the distance itself and twice it.
    scaling : str, default="auto"
        "standard", "quantile", "both" or "none"; "auto" is "quantile", of sparse rows "standard".
    x_categorical, y_categorical : "auto" or array-like, default="auto"
        Categories among the columns, as ``categorical_features`` of
        :class:`~gramless.KernelRegressor`.
    n_permutations : int, default=499
        At least 19; rounded up to what whole rounds of shifts give.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything that is drawn; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.

    Returns
    -------
    IndependenceResult

    Raises
    ------
    InputError
        For tables of different numbers of rows, fewer than four, and unusable parameters.

    Notes
    -----
    Permutations shift 250 blocks of rows of ``Y``, in random order, along those of ``X``; for more
    than 249 permutations the rows of ``Y`` are put into another random order for each further round
    of shifts. Shifts are a group and rounds are its cosets, so the level is exact. The
    cross-covariances of all shifts of a round are one circular correlation: Fourier transforms make
    it as cheap as two permutations one by one, ``4 n_samples q_x q_y`` operations for q features of
    either side, 256 by default. They take ``500 q_x q_y`` numbers of double precision. Of up to
    1,000 rows all shifts of single rows are taken, by Gram matrices of the features; of more than
    100,000 there are 500 blocks, and one round gives 499 permutations.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> independence_test(X, X[:, 0] ** 2 + rng.normal(size=500), random_state=0).p_value
    0.002
    >>> independence_test(X, rng.normal(size=500), random_state=0).p_value > 0.05
    True
    """
    n_permutations = check_permutations(n_permutations, _OWNER)
    tables = [
        EncodedTable.of(*_as_table(table, categorical), _OWNER)
        for table, categorical in ((X, x_categorical), (Y, y_categorical))
    ]
    n_rows, other = (table.rows.shape[0] for table in tables)
    if n_rows != other or n_rows < _LEAST_ROWS:
        raise InputError(
            f"{_OWNER}: needs two tables of the same rows, at least {_LEAST_ROWS}; got "
            f"{n_rows} and {other} rows."
        )
    seed = seed_from(random_state)
    first, second = (
        _Side.of(table, features, bandwidth, scaling, (seed + k) % 2**32, n_jobs)
        for k, (table, bandwidth) in enumerate(zip(tables, (x_bandwidth, y_bandwidth), strict=True))
    )
    orders = _orders(n_rows, n_permutations, seed)
    shifted = _of_few_rows if n_rows <= _FEW_ROWS else _of_many_rows
    criteria = np.concatenate(shifted(first, second, orders, n_jobs), axis=1)
    largest = standardised(criteria).max(axis=0)
    hsic = criteria[:, 0].reshape(len(first.maps), len(second.maps))
    return IndependenceResult(
        p_value(largest),
        float(largest[0]),
        hsic,
        first.bandwidths,
        second.bandwidths,
        criteria.shape[1] - 1,
        n_rows,
    )


@dataclass(frozen=True, eq=False)
class _Side:
    """The scaled rows of one of the two tables, and a map to features for each bandwidth.

    ``places`` (n_rows,) tells where the rows of the table stand among them.
    Features are multiplied by ``projections``: random ones of maps to many, else the identity.
    """

    rows: Rows
    places: IntArray
    maps: tuple[SizedMap, ...]
    projections: tuple[FloatArray, ...]
    bandwidths: tuple[FloatArray | float, ...]

    @classmethod
    def of(
        cls,
        table: EncodedTable,
        features: str | SizedMap,
        bandwidth: float | ArrayLike | str,
        scaling: str,
        seed: int,
        n_jobs: int | None,
    ) -> _Side:
        """Learn units, bandwidths and features."""
        # Units and bandwidths are learned from rows at fixed places, which must not depend on the
        # rows beside them.
        order = stream(seed, "rows of one side").permutation(table.rows.shape[0])
        table = replace(table, rows=taken(table.rows, order))
        scaler = scaler_of(scaling, table)
        rows = scaler.rows(table.rows, n_jobs)
        feature_map: SizedMap
        if isinstance(features, str):
            feature_map = map_class(features)(random_state=seed, n_jobs=n_jobs)
        else:
            feature_map = given_map(features, _OWNER, rows.shape, None, seed, n_jobs)
        widths, maps = maps_of(bandwidth, BANDWIDTHS, rows, scaler, feature_map, seed, _OWNER)
        n_columns = _COLUMNS if rows.shape[0] <= _FEW_ROWS else _COLUMNS // len(widths)
        if isinstance(features, str):
            maps = [own.resized(n_columns) for own in maps]
        projections = []
        for k, own in enumerate(maps):
            own.fit_rows(rows)
            drawn = stream(seed, "projections", k).normal(size=(own._n_features_out, n_columns))
            many = len(drawn) > n_columns
            projections.append(drawn / np.sqrt(n_columns) if many else np.eye(len(drawn)))
        return cls(rows, np.argsort(order), tuple(maps), tuple(projections), tuple(widths))

    def features(self, rows: IntArray) -> FloatArray:
        """Return the features (n, q) of some rows, those of each bandwidth together."""
        own, parts = taken(self.rows, self.places[rows]), []
        for feature_map, projection in zip(self.maps, self.projections, strict=True):
            matrix = feature_map.rows_matrix(own)
            if matrix.shape[1] == projection.shape[1] and isinstance(matrix, ChunkedMatrix):
                parts.append(matrix.chunk(0, len(rows)))
            else:
                parts.append(matrix.matvec(projection))
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def centred_grams(self, rows: IntArray) -> FloatArray:
        """Return the inner products (n_bandwidths, n, n) of the centred features of some rows."""
        features = self.features(rows)
        features -= features.mean(axis=0)
        with one_blas_thread():
            return np.stack([features[:, a:b] @ features[:, a:b].T for a, b in pairwise(self.ends)])

    @property
    def ends(self) -> IntArray:
        """Where the features of each bandwidth start, and the number of all."""
        return np.cumsum([0, *(own.shape[1] for own in self.projections)])


def _as_table(X: TableLike, categorical: str | ArrayLike) -> tuple[TableLike, str | ArrayLike]:
    """Return what may be a single column of numbers or labels as a table, and its categories."""
    if is_frame(X) or sp.issparse(X):
        return X, categorical
    column = np.asarray(X)
    if column.ndim != 1:
        return X, categorical
    if column.dtype.kind in "OUSTb":
        _, codes = np.unique([*labels(column.tolist())], return_inverse=True)
        return codes.astype(np.float64)[:, None], [0]
    return column[:, None], categorical


def _block_count(n_rows: int) -> int:
    """Return how many blocks are shifted: of few rows, each row is one."""
    if n_rows <= _FEW_ROWS:
        return n_rows
    return _MOST_BLOCKS if n_rows <= _MANY_ROWS else 2 * _MOST_BLOCKS


def _orders(n_rows: int, n_permutations: int, seed: int) -> list[tuple[IntArray, IntArray]]:
    """Return in which order rounds take the rows of both tables: the first the same for both."""
    n_rounds = -(-(n_permutations + 1) // _block_count(n_rows))
    orders = [stream(seed, "rounds of shifts", k).permutation(n_rows) for k in range(n_rounds)]
    return [(orders[0], own) for own in orders]


def _of_few_rows(
    first: _Side, second: _Side, orders: Orders, n_jobs: int | None
) -> list[FloatArray]:
    """Return the HSIC (n_pairs, n_rows) of all pairs of bandwidths, for each shift of rows.

    Sums of products of two Gram matrices, the second shifted along its diagonal, are correlations
    along each diagonal.
    """
    n_rows = len(orders[0][0])
    along = (np.arange(n_rows)[:, None] + np.arange(n_rows)) % n_rows
    workers = thread_count(n_jobs)

    def spectra(side: _Side, order: IntArray) -> AnyArray:
        grams = side.centred_grams(order)
        diagonals = np.take_along_axis(grams, along[None], axis=2)
        return scipy.fft.rfft(diagonals, axis=1, workers=workers)

    ahead, found = spectra(first, orders[0][0]).conj(), []
    for _, order in orders:
        products = np.einsum("afd,bfd->abf", ahead, spectra(second, order))
        found.append(scipy.fft.irfft(products, n_rows).reshape(-1, n_rows) / n_rows**2)
    return found


def _of_many_rows(
    first: _Side, second: _Side, orders: Orders, n_jobs: int | None
) -> list[FloatArray]:
    """Return the HSIC (n_pairs, n_blocks) of all pairs of bandwidths, for each shift of blocks."""
    return [_shifted_criteria(first, second, own, n_jobs) for own in orders]


def _shifted_criteria(
    first: _Side, second: _Side, orders: tuple[IntArray, IntArray], n_jobs: int | None
) -> FloatArray:
    """Return the HSIC of all shifts of one round.

    Row ``p * n_blocks + g`` in the given orders is row p of block g. Shift s puts block g of the
    first table beside block ``g + s`` of the second; rows that fill no block stay.
    """
    n_rows, q_x, q_y = len(orders[0]), int(first.ends[-1]), int(second.ends[-1])
    n_blocks = _block_count(n_rows)
    spectra = np.zeros((n_blocks // 2 + 1, q_x, q_y), complex)
    kept = np.zeros((q_x, q_y))
    sums = np.zeros(q_x), np.zeros(q_y)
    step = max(1, _CHUNK_ROWS // n_blocks) * n_blocks
    for a, b in row_blocks(n_rows, step):
        parts = [
            side.features(order[a:b]) for side, order in zip((first, second), orders, strict=True)
        ]
        for total, part in zip(sums, parts, strict=True):
            total += part.sum(axis=0)
        whole = (b - a) // n_blocks * n_blocks
        _add_spectra(parts[0][:whole], parts[1][:whole], n_blocks, n_jobs, spectra)
        with one_blas_thread():
            kept += parts[0][whole:].T @ parts[1][whole:]
    # Means are those of all rows, whatever the shift.
    kept -= np.outer(sums[0], sums[1]) / n_rows
    found = []
    for a, b in pairwise(first.ends):
        shifted = scipy.fft.irfft(spectra[:, a:b], n_blocks, axis=0, workers=thread_count(n_jobs))
        shifted += kept[a:b]
        squares = np.einsum("sab,sab->sb", shifted, shifted)
        found.append(np.add.reduceat(squares, second.ends[:-1], axis=1).T)
    return np.concatenate(found) / n_rows**2


def _add_spectra(
    first: FloatArray,
    second: FloatArray,
    n_blocks: int,
    n_jobs: int | None,
    out: NDArray[np.complex128],
) -> None:
    """Add products of Fourier transforms along the blocks to ``out`` (n_frequencies, q_x, q_y)."""
    workers = thread_count(n_jobs)
    ahead, behind = (
        scipy.fft.rfft(part.reshape(-1, n_blocks, part.shape[1]), axis=1, workers=workers)
        for part in (first, second)
    )

    def add(a: int, b: int) -> None:
        own = np.ascontiguousarray(ahead[:, a:b].conj().transpose(1, 2, 0))
        out[a:b] += own @ np.ascontiguousarray(behind[:, a:b].transpose(1, 0, 2))

    with one_blas_thread():
        map_blocks(add, row_blocks(len(out), _AT_ONCE), n_jobs)
