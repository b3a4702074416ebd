"""Independent blocks: the exact kernel within blocks of rows, and zero between blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray

from gramless.base.errors import InputError
from gramless.base.random import RandomStateLike, stream
from gramless.base.threads import cached_property, map_blocks, one_blas_thread, row_blocks
from gramless.base.types import AnyArray, FloatArray
from gramless.features.base import DenseMap
from gramless.features.landmarks import (
    BLOCK_ROWS,
    InputKernel,
    Whitening,
    dense_rows,
    fill,
    pivoted_cholesky,
)
from gramless.kernels import Kernel, KernelLike, as_kernel
from gramless.preprocessing.categories import Mask
from gramless.preprocessing.rows import Rows, dense_columns
from studies.baselines.block_diagonal import BlockDiagonalMatrix

PartitionKind = Literal["random", "kmeans"]
PARTITIONS: tuple[PartitionKind, ...] = ("random", "kmeans")
_MEANS: PartitionKind = "kmeans"

Index = NDArray[np.intp]
_CUT = 1e-12
_SAMPLE_ROWS, _SAMPLE_NUMBERS = 2000, 1 << 22
_MIN_BALANCE = 0.25  # fraction of a node's rows in the smaller part of an acceptable split
_LLOYD_STEPS = 5


class IndependentBlocks(DenseMap):
    """The exact kernel within blocks of near rows, and 0 between blocks (Stein 2014).

    A kernel too, for which a linear fit is a kernel machine in each block (Stein 2014, *Limitations
    on Low Rank Approximations for Covariance Matrices of Spatial Data*; RB16, section 5.2). The
    blocks are the leaves of a tree: rows nearer to one of two centres than to the other go one way,
    with a threshold that makes both halves equally large. New rows go down the same tree.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="gaussian"
        Any but ``"precomputed"``.
    bandwidth : float, array-like (n_features,) or "median", default="median"
        In units of the inputs, one number or one an input (infinity ignores an input);
        ``"median"`` takes the median distance between rows, in the metric of the kernel.
    categorical : list of int or array (n_features,) of bool, default=None
        Positions or a mask of inputs whose numbers are categories: two that differ are 1 apart.
    block_rows : int, default=1000
        The most rows in a block, unless rows are so alike that no centres part them.
    partition : {"random", "kmeans"}, default="random"
        The two centres of a node: random rows, or the means of 2-means clusters (Lloyd's steps on
        at most 2,000 rows; categories of means are those of the row that they began with). Means
        are also used where random rows leave less than a quarter on one side.
    random_state : int, RandomState or None, default=None
        Seed of the blocks.
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    centres_ : array (n_nodes, 2, n_features) of float64
        Those of a complete binary tree: node k has the children ``2 k + 1`` and ``2 k + 2``.
    thresholds_ : array (n_nodes,)
        Rows go left where ``|x - first|^2 - |x - second|^2``, up to a constant, is at most this.
    landmarks_ : array (n, n_features) of float64
        The rows of all blocks, without those that others of the block represent to 1e-12.
    offsets_ : array (n_blocks + 1,) of int
        Where each block's landmarks, and columns, begin.
    factors_ : array (n_numbers,) of float64
        The lower Cholesky factors of the blocks' kernel matrices, row by row.
    bandwidth_ : array (n_features,)
    seed_ : int
    n_features_in_, feature_names_in_

    Notes
    -----
    ``fit`` takes some ``n_samples block_rows (n_features + block_rows)`` operations; it keeps ``8
    n_samples (n_features + block_rows)`` bytes, zeros of sparse rows included. :meth:`transform`
    writes all the zeros as well: prefer :meth:`feature_matrix`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> blocks = IndependentBlocks(block_rows=100, random_state=0)
    >>> Z = blocks.fit_matrix(X)
    >>> [len(rows) for rows, _, _ in Z.diagonal_blocks()]
    [63, 62, 63, 62, 63, 62, 63, 62]
    """

    size_name: ClassVar[str] = "block_rows"
    size_unit: ClassVar[str] = "rows a block"
    # Maximum number of different rows in a block, unless twice block_rows is more.
    most_landmarks: ClassVar[int] = 20_000

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        bandwidth: float | ArrayLike | str = "median",
        categorical: ArrayLike | None = None,
        block_rows: int = 1000,
        partition: PartitionKind = "random",
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel, bandwidth, categorical, random_state, n_jobs)
        self.block_rows, self.partition = block_rows, partition

    def check_parameters(self) -> Kernel:
        self._check_size()
        self._check_choice("partition", self.partition, PARTITIONS)
        return as_kernel(self.kernel)

    def learn(self, X: Rows, kernel: Kernel) -> None:
        depth = _depth(X.shape[0], int(self.block_rows))
        source = InputKernel(kernel, self.bandwidth_, self._metric().categorical)

        def factorise(rows: Index) -> tuple[FloatArray, FloatArray]:
            landmarks = np.unique(dense_rows(X[rows]), axis=0)
            if len(landmarks) > max(self.most_landmarks, 2 * int(self.block_rows)):
                raise InputError(
                    f"IndependentBlocks: {len(landmarks):,} different rows lie in one block, since "
                    "they are equally near to any two centres. Use Nystrom, or RandomBinning."
                )
            if len(rows) == 0:
                return landmarks, np.empty((0, 0))
            factor, kept = pivoted_cholesky(source.gram(X, landmarks, self.n_jobs), _CUT)
            return landmarks[kept], factor

        with one_blas_thread():
            tree, leaves = Tree.grow(X, depth, self._metric(), self.partition, self.seed_)
            learned = map_blocks(factorise, [(rows,) for rows in leaves], self.n_jobs)
        self.centres_, self.thresholds_ = tree.centres, tree.thresholds
        self.landmarks_ = np.concatenate([landmarks for landmarks, _ in learned])
        self.offsets_ = np.cumsum([0, *(len(landmarks) for landmarks, _ in learned)])
        self.factors_ = np.concatenate([factor.ravel() for _, factor in learned])

    def bytes_to_fit(self, n_rows: int, n_inputs: int) -> float:
        rows = float(n_rows) * (n_inputs + min(self.size, n_rows))
        return 8.0 * (rows + 2.0 * 2 ** _depth(n_rows, self.size) * n_inputs)

    @property
    def _memory_advice(self) -> str:
        return "it keeps rows with all their zeros; use RandomBinning, or RandomFourier"

    def compute(self, X: Rows, out: AnyArray) -> None:
        self._check_inputs(X)
        out[...] = 0.0
        for rows, columns, block in self._matrix(X, out.dtype, 1).diagonal_blocks():
            out[rows, columns] = block

    def _matrix_of(self, X: Rows) -> BlockDiagonalMatrix:
        with one_blas_thread():
            return self._matrix(X, np.float32, self.n_jobs)

    def _matrix(self, X: Rows, dtype: DTypeLike, n_jobs: int | None) -> BlockDiagonalMatrix:
        tree = Tree(self.centres_, self.thresholds_, self._metric())
        kernel = self.check_parameters()
        source = InputKernel(kernel, self.bandwidth_, tree.metric.categorical)
        sizes = np.diff(self.offsets_)
        ends = np.cumsum(sizes**2)

        def represent(k: int, rows: Index) -> tuple[Index, AnyArray]:
            size = int(sizes[k])
            block = np.empty((len(rows), size))
            if len(rows):
                landmarks = self.landmarks_[self.offsets_[k] : self.offsets_[k + 1]]
                factor = self.factors_[ends[k] - size**2 : ends[k]].reshape(size, size)
                fill(source.values_by_differences(landmarks), X[rows], block)
                Whitening(factor, np.float64)(block)
            return rows, block.astype(dtype, copy=False)

        parts = map_blocks(represent, list(enumerate(tree.leaves(X))), n_jobs)
        return BlockDiagonalMatrix(parts, X.shape[0], self.n_jobs)

    def _metric(self) -> Metric:
        return Metric(self.bandwidth_, self._mask(self.bandwidth_[None, :]))

    @property
    def n_features_out(self) -> int:
        return int(self.offsets_[-1])


def _depth(n_rows: int, block_rows: int) -> int:
    """Return the depth of the tree whose leaves have at most ``block_rows`` rows."""
    return int(np.ceil(np.log2(-(-n_rows // block_rows))))


@dataclass(frozen=True)
class Metric:
    """Squared Euclidean distance over the bandwidth, up to a factor; categories are 1 apart."""

    bandwidth: FloatArray
    categorical: Mask

    @cached_property
    def weights(self) -> FloatArray:
        """Weights of squared differences; 1 for the smallest bandwidth, 0 for infinite ones."""
        finite = np.isfinite(self.bandwidth)
        smallest = self.bandwidth.min(where=finite, initial=np.finfo(np.float64).max)
        return np.square(np.where(finite, smallest / self.bandwidth, 0.0))

    def leaning(self, X: Rows, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return ``|x - first|^2 - |x - second|^2`` up to a constant, each row's by itself."""
        slope = np.where(self.categorical, 0.0, 2.0 * (second - first) * self.weights)
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(X):
                leaning = np.asarray(X @ slope, np.float64)
            else:
                leaning = ((dense_rows(X) - 0.5 * (first + second)) * slope).sum(axis=1)
        for j, column in dense_columns(X, self.categorical):
            apart = (column != first[j]).astype(np.float64) - (column != second[j])
            leaning += apart * self.weights[j]
        return leaning

    def squares(self, X: FloatArray, point: FloatArray) -> FloatArray:
        """Return the squared distances of dense rows from a point."""
        gaps = X - point
        gaps[:, self.categorical] = gaps[:, self.categorical] != 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            return np.square(gaps) @ self.weights


@dataclass(frozen=True)
class Tree:
    """A complete binary tree; each node splits rows by their distances from two centres."""

    centres: FloatArray
    thresholds: FloatArray
    metric: Metric

    @classmethod
    def grow(
        cls, X: Rows, depth: int, metric: Metric, kind: PartitionKind, seed: int
    ) -> tuple[Tree, list[Index]]:
        """Return the tree whose leaves are of equal size, and the rows of each leaf."""
        n_nodes = 2**depth - 1
        tree = cls(np.zeros((n_nodes, 2, X.shape[1])), np.full(n_nodes, np.inf), metric)
        leaves = [np.arange(X.shape[0])]
        for level in range(depth):
            for k, rows in enumerate(leaves):
                if len(rows) > 1:
                    tree._split(X, rows, 2**level - 1 + k, kind, seed)
            leaves = tree._parted(X, leaves, level)
        return tree, leaves

    def _split(self, X: Rows, rows: Index, node: int, kind: PartitionKind, seed: int) -> None:
        """Set centres and threshold of a node; means are used if random rows split unevenly."""
        generator, most = stream(seed, "partition", node), -1
        for candidate in dict.fromkeys((kind, _MEANS)):
            centres = _two_centres(X, rows, self.metric, candidate, generator)
            threshold, n_smaller = _halving(self._leaning(X, rows, centres))
            if n_smaller > most:
                self.centres[node], self.thresholds[node], most = centres, threshold, n_smaller
            if n_smaller >= _MIN_BALANCE * len(rows):
                return

    def leaves(self, X: Rows) -> list[Index]:
        """Return the row indices of each leaf, in increasing order."""
        leaves = [np.arange(X.shape[0])]
        for level in range(len(self.thresholds).bit_length()):
            leaves = self._parted(X, leaves, level)
        return leaves

    def _parted(self, X: Rows, groups: list[Index], level: int) -> list[Index]:
        children = []
        for k, rows in enumerate(groups):
            node = 2**level - 1 + k
            left = self._leaning(X, rows, self.centres[node]) <= self.thresholds[node]
            children += [rows[left], rows[~left]]
        return children

    def _leaning(self, X: Rows, rows: Index, centres: FloatArray) -> FloatArray:
        first, second = centres
        leaning = np.empty(len(rows))
        for a, b in row_blocks(len(rows), BLOCK_ROWS):
            leaning[a:b] = self.metric.leaning(X[rows[a:b]], first, second)
        return leaning


def _two_centres(
    X: Rows, rows: Index, metric: Metric, kind: PartitionKind, generator: np.random.Generator
) -> FloatArray:
    """Return two different rows of a sample, or the means of two clusters of it."""
    most = max(2, min(_SAMPLE_ROWS, _SAMPLE_NUMBERS // X.shape[1]))
    sample = dense_rows(X[generator.permutation(rows)[:most]])
    squares = metric.squares(sample, sample[0])
    different = squares > 0.0
    if not different.any():
        return sample[[0, 0]]
    if kind == "random":
        return sample[[0, int(np.argmax(different))]]
    drawn = generator.random() * squares.sum()
    second = min(int(np.searchsorted(np.cumsum(squares), drawn)), len(sample) - 1)
    centres = sample[[0, second]]
    for _ in range(_LLOYD_STEPS):
        nearer = metric.squares(sample, centres[0]) <= metric.squares(sample, centres[1])
        for centre, members in zip(centres, (nearer, ~nearer), strict=True):
            if members.any():
                mean = sample[members].mean(axis=0)
                centre[~metric.categorical] = mean[~metric.categorical]
    return centres


def _halving(leaning: FloatArray) -> tuple[float, int]:
    """Return the threshold that splits numbers as evenly as ties allow, and the smaller part."""
    ordered = np.sort(leaning)
    n = len(ordered)
    middle = ordered[n // 2]
    below, upto = (int(np.searchsorted(ordered, middle, side)) for side in ("left", "right"))
    cut = min((below, upto), key=lambda place: abs(place - (n + 1) // 2) if 0 < place < n else n)
    if not 0 < cut < n:
        return float(np.inf), 0
    low, high = ordered[cut - 1], ordered[cut]
    between = low + 0.5 * (high - low)
    return float(between if low <= between < high else low), min(cut, n - cut)
