"""Summary statistics of a stream, from a single pass over its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gramless.base.errors import InputError
from gramless.base.memory import large_array_budget
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import AnyArray, FloatArray
from gramless.preprocessing.rows import Rows
from gramless.streaming.chunk_checks import (
    Batch,
    BlockSizes,
    check_finite,
    is_sparse,
    regroup_chunks,
)
from gramless.streaming.reservoir import Reservoir

# Smaller sums of squares may have underflowed. Smaller deviations, relative to the mean, may be the
# rounding of a constant.
_MIN_SQUARES, _CONSTANT_TOL = 1e-300, 1e-12


@dataclass(frozen=True, eq=False)
class Summary:
    """Statistics of a stream of rows; variances and covariances are divided by ``n_rows``."""

    n_rows: int
    mean: FloatArray
    variance: FloatArray
    covariance: FloatArray | None
    sample: Rows  # uniform, in the order of the stream, float64
    sample_targets: AnyArray
    # Sorted labels. None for several outputs, for numbers that are not whole, and for more than
    # max_classes different values.
    classes: AnyArray | None
    target_mean: FloatArray | None  # (n_outputs,), None for text
    target_variance: FloatArray | None


def summarise(
    chunks: Iterable[Batch],
    *,
    seed: int,
    sample_rows: int = 2000,
    covariance: bool = False,
    n_jobs: int | None = None,
    max_classes: int = 10_000,
    blocks: BlockSizes | None = None,
    panel_columns: int = 256,
) -> Summary:
    """Read a stream of rows once and summarise it.

    The moments of blocks are merged by the pairwise update of Chan, Golub & LeVeque (1983),
    *Algorithms for computing the sample variance*. To the last bit, the result depends only on the
    seed and the rows, not on chunks or threads.

    A number takes about 2 ns of one core, and ``n_features / 10`` ns more with the covariance.
    Memory use is the current chunk, 96 MB, the sample and, with the covariance,
    ``16 n_features^2`` bytes.
    """
    reservoir = Reservoir(sample_rows, seed, "sample")
    rows = _Moments("Column", panel_columns if covariance else None, n_jobs)
    targets = _Targets(max_classes)
    n_rows = 0
    for X, y in regroup_chunks(chunks, covariance, blocks):
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
    """The mean of rows and the sums of squares around it.

    With ``panel_columns``, also the sums of products of two columns around it.
    """

    def __init__(self, name: str, panel_columns: int | None = None, n_jobs: int | None = 1) -> None:
        self._name, self._panel_columns, self._n_jobs = name, panel_columns, n_jobs
        self.n_rows = 0
        self.mean: FloatArray = np.zeros(0)
        self.squares: FloatArray = np.zeros(0)
        self.products: FloatArray = np.zeros((0, 0))

    def add(self, X: Rows) -> None:
        n, width = X.shape
        if self.n_rows == 0:
            self.mean = self.squares = np.zeros(width)
            if self._panel_columns is not None:
                if 32 * width**2 > large_array_budget():
                    raise InputError(
                        f"The covariance of {width:,} inputs does not fit into memory; drop "
                        "inputs, or do without principal components."
                    )
                self.products = np.zeros((width, width))
        block = X.toarray() if is_sparse(X) and self._panel_columns is not None else X
        share = self.n_rows * n / (self.n_rows + n)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, squares, centred = _block_moments(block)
            step = mean - self.mean
            self.squares = self.squares + squares + share * step**2
        self._check_range(block, mean, centred)
        if self._panel_columns is not None:
            assert centred is not None
            _add_products(self.products, centred, self._panel_columns, self._n_jobs)
            self.products += share * np.outer(step, step)
        self.mean = self.mean + step * (n / (self.n_rows + n))
        self.n_rows += n

    def _check_range(self, block: Rows, mean: FloatArray, centred: FloatArray | None) -> None:
        """Raise InputError if squares of a column overflow or underflow."""
        too_large = np.flatnonzero(~np.isfinite(self.squares))
        if len(too_large):
            raise InputError(
                f"{self._name} {int(too_large[0])} has numbers whose squares are too large for "
                "double precision; rescale it."
            )
        few = np.flatnonzero(self.squares < _MIN_SQUARES)
        if not len(few):
            return
        if is_sparse(block):
            stored = np.bincount(block.indices[block.data != 0], minlength=block.shape[1])[few]
            lost = few[(stored > 0) & (stored < block.shape[0])]
        else:
            assert centred is not None
            lost = few[np.abs(centred[:, few]).max(axis=0) > _CONSTANT_TOL * np.abs(mean[few])]
        if len(lost):
            raise InputError(
                f"{self._name} {int(lost[0])} has numbers that differ by so little that their "
                "squares are lost in double precision; multiply it."
            )


def _block_moments(X: Rows) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return the mean of a block, the sums of squares around it and, if dense, the centred rows."""
    n, width = X.shape
    if not is_sparse(X):
        centred: FloatArray = X.astype(np.float64)
        mean = centred.mean(axis=0)
        centred -= mean
        return mean, np.einsum("nj,nj->j", centred, centred), centred
    values = X.data.astype(np.float64)
    mean = np.bincount(X.indices, values, width) / n
    squares = np.bincount(X.indices, (values - mean[X.indices]) ** 2, width)
    zeros = n - np.bincount(X.indices, minlength=width)
    return mean, squares + zeros * mean**2, None


def _add_products(
    total: FloatArray, rows: FloatArray, panel_columns: int, n_jobs: int | None
) -> None:
    """Add ``rows' rows`` to ``total``, by panels that do not depend on the number of threads."""

    def add(first: int, last: int) -> None:
        panel = rows[:, :last].T @ rows[:, first:last]
        total[:last, first:last] += panel
        total[first:last, :first] += panel[:first].T

    with one_blas_thread():
        map_blocks(add, row_blocks(rows.shape[1], panel_columns), n_jobs)


class _Targets:
    """The moments of numerical targets, and the labels of targets that may be classes."""

    def __init__(self, max_classes: int) -> None:
        self._max_classes = max_classes
        self.classes: AnyArray | None = None
        self._moments: _Moments | None = None
        self._is_regression = False

    def add(self, y: AnyArray) -> None:
        if y.dtype.kind in "biuf":
            self._moments = self._moments or _Moments("Target")
            self._moments.add(y.reshape(len(y), -1))
        is_whole = y.dtype.kind != "f" or bool((y == np.rint(y)).all())
        self._is_regression |= y.ndim > 1 or not is_whole
        if not self._is_regression:
            try:
                labels = np.unique(y)
            except TypeError as error:
                raise InputError(
                    "Targets mix text, numbers or missing values; give every label in one type."
                ) from error
            self.classes = labels if self.classes is None else np.union1d(self.classes, labels)
            self._is_regression = len(self.classes) > self._max_classes
        self.classes = None if self._is_regression else self.classes

    def moments(self) -> tuple[FloatArray | None, FloatArray | None]:
        """Return the mean and variance of each output, or None for text."""
        if self._moments is None:
            return None, None
        return self._moments.mean, self._moments.squares / self._moments.n_rows
