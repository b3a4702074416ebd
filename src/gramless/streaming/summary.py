"""One pass over a stream: moments, a sample, what the targets are; and principal components."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.memory import memory_budget
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.preprocessing.rows import Rows, check_width
from gramless.streaming.passes import Reservoir, check_finite, fixed_blocks

MOST_CLASSES = 10_000

_LEAST_SQUARES, _ROUNDING = 1e-300, 1e-12
_PANEL_COLUMNS = 256
_APPLY_ROWS = 4096
_APPLY_BYTES = 1 << 25


@dataclass(frozen=True, eq=False)
class Summary:
    """What one pass over a stream of rows finds.

    Attributes
    ----------
    n_rows : int
    mean, variance : ndarray (n_features,)
        The variance is divided by ``n_rows``.
    covariance : ndarray (n_features, n_features) or None
        Divided by ``n_rows``.
    sample : ndarray (n, n_features) of float64, or CSR
        Rows in the order of the stream, each of the stream's rows equally likely.
    sample_targets : ndarray (n,) or (n, n_outputs)
    classes : ndarray or None
        Sorted labels. None where targets have several outputs or measure something: numbers
        that are not whole, or more than 10,000 different ones.
    target_mean, target_variance : ndarray (1,) or (n_outputs,), or None
        None for text.
    """

    n_rows: int
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    covariance: NDArray[np.float64] | None
    sample: Rows
    sample_targets: NDArray[Any]
    classes: NDArray[Any] | None
    target_mean: NDArray[np.float64] | None
    target_variance: NDArray[np.float64] | None


def summarise(
    chunks: Iterable[tuple[Any, Any]],
    *,
    seed: int,
    sample_rows: int = 2000,
    covariance: bool = False,
    n_jobs: int | None = None,
) -> Summary:
    """Read a stream of rows once and summarise it.

    Rows are summed block by block, and blocks joined by the pairwise update of Chan, Golub &
    LeVeque (1983), *Algorithms for computing the sample variance*. The result depends on the seed
    and the rows alone, to the last bit: not on chunks or threads.

    Parameters
    ----------
    chunks : iterable of (X, y)
        X dense or CSR (n, n_features), y (n,) or (n, n_outputs), numbers or labels.
    seed : int
        Of the sample.
    sample_rows : int, default=2000
    covariance : bool, default=False
    n_jobs : int or None, default=None
        Threads for the covariance; None means every processor.

    Returns
    -------
    Summary

    Raises
    ------
    InputError
        For NaN or infinity, naming the row; for numbers too large to be squared, or too near to
        each other; if there are no rows, chunks do not fit each other, or the covariance does not
        fit into memory.

    Notes
    -----
    About 2 ns a number, and ``n_features / 10`` ns more for the covariance on one core. Holds the
    chunk that is being read, 96 MB, the sample, and ``16 n_features^2`` bytes with covariance.

    Examples
    --------
    >>> summary = summarise([(np.eye(2), [0, 1]), (np.eye(2), [1, 2])], seed=0)
    >>> summary.n_rows, summary.mean, summary.variance, summary.classes
    (4, array([0.5, 0.5]), array([0.25, 0.25]), array([0, 1, 2]))
    """
    reservoir = Reservoir(sample_rows, seed, "sample")
    rows = _Moments("Column", covariance, n_jobs)
    targets = _Targets()
    n_rows = 0
    for X, y in fixed_blocks(chunks, dense=covariance):
        check_finite(X, y, n_rows)
        rows.add(X)
        targets.add(y)
        reservoir.add(X, y, np.arange(n_rows, n_rows + len(y)))
        n_rows += len(y)
    sample, sample_targets = reservoir.rows()
    return Summary(
        n_rows,
        rows.mean,
        rows.squares / n_rows,
        rows.products / n_rows if covariance else None,
        sample.astype(np.float64),
        sample_targets,
        targets.classes,
        *targets.moments(),
    )


class _Moments:
    """The mean of rows, sums of squares around it and, where asked, of products."""

    def __init__(self, name: str, with_products: bool = False, n_jobs: int | None = 1) -> None:
        self._name, self._with_products, self._n_jobs = name, with_products, n_jobs
        self.n_rows = 0
        self.mean = self.squares = np.zeros(0)
        self.products = np.zeros((0, 0))

    def add(self, X: Any) -> None:
        """Take another block into account."""
        n = X.shape[0]
        if self.n_rows == 0:
            self._start(X.shape[1])
        dense = not sp.issparse(X) or self._with_products
        block = X.toarray() if sp.issparse(X) and dense else X
        share = self.n_rows * n / (self.n_rows + n)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, squares, centred = _block_moments(block)
            step = mean - self.mean
            self.squares = self.squares + squares + share * step**2
        self._check_squares()
        self._check_lost(block, mean, centred)
        if self._with_products:
            _add_products(self.products, centred, self._n_jobs)
            self.products += share * np.outer(step, step)
        self.mean = self.mean + step * (n / (self.n_rows + n))
        self.n_rows += n

    def _check_squares(self) -> None:
        too_large = np.flatnonzero(~np.isfinite(self.squares))
        if len(too_large):
            raise InputError(
                f"{self._name} {int(too_large[0])} has numbers whose squares are too large for "
                "double precision; rescale it."
            )

    def _check_lost(self, block: Any, mean: NDArray[np.float64], centred: Any) -> None:
        """Refuse columns that would look constant because the squares of differences are lost."""
        few = np.flatnonzero(self.squares < _LEAST_SQUARES)
        if not len(few):
            return
        if sp.issparse(block):
            stored = np.bincount(block.indices[block.data != 0], minlength=block.shape[1])[few]
            lost = few[(stored > 0) & (stored < block.shape[0])]
        else:
            lost = few[np.abs(centred[:, few]).max(axis=0) > _ROUNDING * np.abs(mean[few])]
        if len(lost):
            raise InputError(
                f"{self._name} {int(lost[0])} has numbers that differ by so little that their "
                "squares are lost in double precision; multiply it."
            )

    def _start(self, n_features: int) -> None:
        self.mean = self.squares = np.zeros(n_features)
        if self._with_products:
            if 32 * n_features**2 > memory_budget():
                raise InputError(
                    f"The covariance of {n_features:,} inputs does not fit into memory; drop "
                    "inputs, or do without principal components."
                )
            self.products = np.zeros((n_features, n_features))


def _block_moments(X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64], Any]:
    """Return a block's mean, squares around it and, if dense, the rows less the mean."""
    n, width = X.shape
    if not sp.issparse(X):
        centred = X.astype(np.float64)
        mean = centred.mean(axis=0)
        centred -= mean
        return mean, np.einsum("nj,nj->j", centred, centred), centred
    values = X.data.astype(np.float64)
    mean = np.bincount(X.indices, values, width) / n
    squares = np.bincount(X.indices, (values - mean[X.indices]) ** 2, width)
    zeros = n - np.bincount(X.indices, minlength=width)
    return mean, squares + zeros * mean**2, None


def _add_products(
    total: NDArray[np.float64], rows: NDArray[np.float64], n_jobs: int | None
) -> None:
    """Add ``rows' rows``: the panels of columns are the same for every number of threads."""

    def add(first: int, last: int) -> None:
        panel = rows[:, :last].T @ rows[:, first:last]
        total[:last, first:last] += panel
        total[first:last, :first] += panel[:first].T

    with one_blas_thread():
        map_blocks(add, row_blocks(rows.shape[1], _PANEL_COLUMNS), n_jobs)


class _Targets:
    """What targets are: their moments where they are numbers, their labels where few."""

    def __init__(self) -> None:
        self.classes: NDArray[Any] | None = None
        self._moments: _Moments | None = None
        self._measured = False

    def add(self, y: NDArray[Any]) -> None:
        """Take another block into account."""
        if y.dtype.kind in "biuf":
            self._moments = self._moments or _Moments("Target")
            self._moments.add(y.reshape(len(y), -1))
        whole = y.dtype.kind != "f" or bool((y == np.rint(y)).all())
        self._measured |= y.ndim > 1 or not whole
        if self._measured:
            self.classes = None
            return
        labels = _labels(y)
        self.classes = labels if self.classes is None else np.union1d(self.classes, labels)
        self._measured = len(self.classes) > MOST_CLASSES
        self.classes = None if self._measured else self.classes

    def moments(self) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """Return mean and variance of each output."""
        if self._moments is None:
            return None, None
        return self._moments.mean, self._moments.squares / self._moments.n_rows


def _labels(y: NDArray[Any]) -> NDArray[Any]:
    try:
        return np.unique(y)
    except TypeError as fault:
        raise InputError(
            "Targets mix text, numbers or missing values; give every label in one type."
        ) from fault


@dataclass(frozen=True, eq=False)
class Projection:
    """Rows to a few linear combinations of their inputs.

    Parameters
    ----------
    mean : ndarray (n_features,)
        Subtracted first.
    components : ndarray (n_features, n_components)

    Examples
    --------
    >>> Projection(np.array([1.0, 0.0]), np.array([[2.0], [0.0]])).apply(np.eye(2))
    array([[ 0.],
           [-2.]], dtype=float32)
    """

    mean: NDArray[np.float64]
    components: NDArray[np.float64]

    @classmethod
    def principal(cls, summary: Summary, n_components: int, whiten: bool = False) -> Self:
        """Return the projection to the directions in which rows vary most.

        Parameters
        ----------
        summary : Summary
            With a covariance.
        n_components : int
            Directions in which rows do not vary at all are left out.
        whiten : bool, default=False
            Scale every component to variance 1 (of the sample, divided by ``n_rows - 1``).

        Returns
        -------
        Projection
            As scikit-learn's PCA; of each direction the entry of largest magnitude is positive.

        Raises
        ------
        InputError
            If ``n_components`` is not from 1 to the number of inputs, the summary has no
            covariance, or all rows are equal.

        Notes
        -----
        Costs ``O(n_features^3)`` once.

        Examples
        --------
        >>> rows = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]])
        >>> summary = summarise([(rows, np.zeros(3))], seed=0, covariance=True)
        >>> Projection.principal(summary, 1).apply(rows).ravel()
        array([-2.,  0.,  2.], dtype=float32)
        """
        if summary.covariance is None:
            raise InputError("Principal components need the covariance: summarise with it.")
        width = len(summary.mean)
        if not 1 <= n_components <= width:
            raise InputError(
                f"n_components must be from 1 to the {width} inputs, got {n_components}."
            )
        with one_blas_thread():
            values, vectors = scipy.linalg.eigh(summary.covariance)
        least = width * np.finfo(np.float64).eps * values[-1]
        chosen = [j for j in range(width - 1, -1, -1) if values[j] > least][:n_components]
        if not chosen:
            raise InputError("All rows of the stream are equal; they have no principal components.")
        components = vectors[:, chosen]
        largest = np.argmax(np.abs(components), axis=0)
        components = components * np.sign(components[largest, np.arange(len(chosen))])
        if whiten:
            components /= np.sqrt(values[chosen] * (summary.n_rows / (summary.n_rows - 1)))
        return cls(summary.mean, np.ascontiguousarray(components))

    def apply(self, X: Rows, n_jobs: int | None = None) -> NDArray[np.float32]:
        """Return ``(X - mean) @ components``, computed in float64.

        Parameters
        ----------
        X : ndarray or CSR (n, n_features)
        n_jobs : int or None, default=None
            Threads; None means every processor.

        Returns
        -------
        ndarray (n, n_components) of float32

        Raises
        ------
        InputError
            If the number of columns is another.
        """
        check_width("Projection", X, len(self.mean))
        projected = np.empty((X.shape[0], self.components.shape[1]), np.float32)

        def fill(start: int, stop: int) -> None:
            rows: Any = X[start:stop]
            rows = rows.toarray() if sp.issparse(rows) else rows
            projected[start:stop] = (rows - self.mean) @ self.components

        most = max(1, min(_APPLY_ROWS, _APPLY_BYTES // (8 * X.shape[1])))
        with one_blas_thread():
            map_blocks(fill, row_blocks(X.shape[0], most), n_jobs)
        return projected
