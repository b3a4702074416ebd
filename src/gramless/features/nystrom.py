"""Nyström features: the kernel with some landmarks, whitened."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.linalg import cholesky, eigvalsh, solve_triangular
from sklearn.utils import Tags

from gramless.base.compact import rounded_to_single
from gramless.base.errors import InputError
from gramless.base.random import RandomState, stream
from gramless.base.state import State, array_in, number_in, part_in, require
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.features.base import DenseMap, SeparableMap
from gramless.features.landmarks import (
    ROWS_AT_ONCE,
    GivenKernel,
    InputKernel,
    MixedWhitening,
    Precomputed,
    RowKernel,
    Values,
    Whitening,
    fill,
    pivoted_cholesky,
)
from gramless.kernels import Kernel, KernelLike, as_kernel
from gramless.matrices.base import Vector
from gramless.matrices.computed import ComputedMatrix
from gramless.matrices.whitened import WhitenedMatrix
from gramless.preprocessing.rows import Rows

LandmarkKind = Literal["uniform", "kmeans", "leverage"]
LANDMARKS: tuple[LandmarkKind, ...] = ("uniform", "kmeans", "leverage")

Index = NDArray[np.intp]

_SAMPLE_ROWS, _SAMPLE_A_LANDMARK = 10_000, 4
_ROUNDS = 64
_LLOYD_STEPS = 3
_LARGEST_LEVEL = 512


def choose_landmarks(
    kind: LandmarkKind, X: Rows, source: RowKernel, n: int, seed: int, n_jobs: int | None
) -> tuple[AnyArray, Index | None]:
    """Choose n landmarks for rows, all rows where there are no more; with their numbers if rows."""
    if kind == "uniform" or n >= X.shape[0]:
        index = stream(seed, "landmarks").permutation(X.shape[0])[:n]
        return source.landmarks(X, index), index
    if kind == "leverage":
        index = leverage_rows(X, source, n, stream(seed, "leverage"), n_jobs)
        return source.landmarks(X, index), index
    generator = stream(seed, "k-means")
    size = max(_SAMPLE_ROWS, _SAMPLE_A_LANDMARK * n)
    sampled = generator.permutation(X.shape[0])[:size]
    sample = source.subset(X, sampled)
    index = sampled[spread_rows(sample, source, n, generator, n_jobs)]
    points = source.landmarks(X, index)
    if not isinstance(source, InputKernel) or source.categorical.any():
        return points, index
    return cluster_means(sample, points, source.bandwidth, n_jobs), None


def spread_rows(
    X: Rows, source: RowKernel, n: int, generator: np.random.Generator, n_jobs: int | None
) -> Index:
    """Draw n different rows far apart in the kernel's metric, ``|x - y|^2 = kxx + kyy - 2 kxy``.

    The seeding of kernel k-means++ (Oglic & Gärtner 2017): each row is drawn in proportion to its
    squared distance from the nearest one drawn before. Beyond 127, rows are drawn in 64 rounds of
    equal size, as in k-means|| (Bahmani et al. 2012).
    """
    diagonal = source.diagonal(X)
    nearest, chosen = np.full(X.shape[0], np.inf), np.zeros(X.shape[0], bool)
    index = new = generator.integers(X.shape[0], size=1)
    while len(index) < n:
        chosen[new] = True
        values = source.towards(source.landmarks(X, new))

        def lower(a: int, b: int, values: Values = values, new: Index = new) -> None:
            squares = diagonal[a:b, None] + diagonal[new] - 2.0 * values(X[a:b])
            np.minimum(nearest[a:b], squares.min(axis=1), out=nearest[a:b])

        map_blocks(lower, row_blocks(X.shape[0], ROWS_AT_ONCE), n_jobs)
        keys = np.log(np.maximum(nearest, np.finfo(float).tiny))
        keys += generator.gumbel(size=len(keys))
        keys[chosen] = -np.inf
        new = _largest(keys, min(max(1, n // _ROUNDS), n - len(index)))
        index = np.concatenate([index, new])
    return index


def cluster_means(
    X: Rows, centres: FloatArray, bandwidth: FloatArray, n_jobs: int | None
) -> FloatArray:
    """Move centres to the means of the rows nearest to them, three times (Zhang et al. 2008).

    Lloyd's steps of k-means in units of the bandwidth; a centre nearest to no row stays.
    """
    n_rows, n = X.shape[0], len(centres)
    labels = np.empty(n_rows, np.intp)
    blocks = row_blocks(n_rows, ROWS_AT_ONCE)
    for _ in range(_LLOYD_STEPS):
        shift = centres.mean(axis=0)
        scaled = (centres - shift) / bandwidth
        factors = scaled.T / bandwidth[:, None]
        offsets = shift @ factors + 0.5 * np.einsum("ij,ij->i", scaled, scaled)

        def assign(a: int, b: int, by: FloatArray = factors, less: FloatArray = offsets) -> None:
            labels[a:b] = np.argmax(X[a:b] @ by - less, axis=1)

        map_blocks(assign, blocks, n_jobs)
        counts = np.bincount(labels, minlength=n)
        members = sp.csr_array((np.ones(n_rows), (labels, np.arange(n_rows))), shape=(n, n_rows))
        sums = members @ X
        sums = sums.toarray() if sp.issparse(sums) else sums
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    return centres


def leverage_rows(
    X: Rows, source: RowKernel, n: int, generator: np.random.Generator, n_jobs: int | None
) -> Index:
    """Draw n different rows in proportion to their approximate ridge leverage scores.

    Recursive sampling (Musco & Musco 2017, *Recursive Sampling for the Nyström Method*, Algorithm
    3, with the smaller samples of section 5.2.1): rows drawn from half of the rows give the scores
    by which rows are drawn from twice as many, until the scores are those of all. The ridge is what
    the leading ``s / (4 log s)`` eigenvalues leave over, where s, at most 512, is the size of the
    samples. The most important rows likely come first.
    """
    n_rows = X.shape[0]
    wanted = np.sqrt((n_rows * n + float(n) ** 3) / (4.0 * n_rows))
    level = int(np.clip(np.ceil(wanted), 2, min(_LARGEST_LEVEL, n_rows)))
    oversampling = max(1.0, np.log(level))
    order = generator.permutation(n_rows)
    sizes = [n_rows]
    while sizes[-1] > level:
        sizes.append(-(-sizes[-1] // 2))
    chosen, chances = order[: sizes[-1]], np.ones(sizes[-1])
    for size in sizes[-2:0:-1]:
        scores = ridge_leverage(X, source, order[:size], chosen, chances, n_jobs)
        chances = np.minimum(1.0, oversampling * scores)
        drawn = generator.random(size) < chances
        if not drawn.any():
            drawn[:level], chances[:] = True, min(1.0, level / size)
        chosen, chances = order[:size][drawn], chances[drawn]
    scores = ridge_leverage(X, source, order, chosen, chances, n_jobs)
    with np.errstate(divide="ignore"):
        keys = np.log(scores) + generator.gumbel(size=n_rows)
    return order[_largest(keys, n)]


def ridge_leverage(
    X: Rows, source: RowKernel, rows: Index, sample: Index, chances: FloatArray, n_jobs: int | None
) -> FloatArray:
    """Return ``(k_ii - k_iS (K_SS + ridge diag(chances))^-1 k_Si) / ridge``, in [0, 1].

    Approximate ridge leverage scores, from a sample S (Musco & Musco 2017, Lemma 6).
    """
    landmarks = source.landmarks(X, sample)
    gram = source.gram(X, landmarks, n_jobs)
    ridge = _ridge(gram, chances)
    lower = cholesky(gram + np.diag(ridge * chances), lower=True)
    whitening = solve_triangular(lower, np.eye(len(lower)), lower=True).T
    values, diagonal = source.towards(landmarks), source.diagonal(X)
    scores = np.empty(len(rows))

    def score(a: int, b: int) -> None:
        explained = values(X[rows[a:b]]) @ whitening
        left = diagonal[rows[a:b]] - np.einsum("ij,ij->i", explained, explained)
        scores[a:b] = np.clip(left / ridge, 0.0, 1.0)

    map_blocks(score, row_blocks(len(rows), ROWS_AT_ONCE), n_jobs)
    return scores


def _ridge(gram: FloatArray, chances: FloatArray) -> float:
    """Return the mean of what the leading eigenvalues leave over, never quite 0."""
    roots = np.sqrt(1.0 / chances)
    weighted = gram * roots[:, None] * roots
    size, trace = len(gram), float(np.trace(weighted))
    leading = int(np.ceil(size / (4.0 * max(1.0, np.log(size)))))
    left = trace - eigvalsh(weighted, subset_by_index=[size - leading, size - 1]).sum()
    return float(max(left / leading, 1e-6 * trace / size))


def _largest(keys: FloatArray, n: int) -> Index:
    """Return the positions of the largest keys, the largest first."""
    return np.argsort(-keys, kind="stable")[:n]


_CUT = 2.0**-21
_MOST_DOUBLE = 128
_ROWS_IN_DOUBLE = 256
_ROWS_MEASURED = 256
_SQUARES = 2
"""Arrays (n, n) held in a fit: the kernel matrix of the landmarks and its factor."""


class LandmarkMap(DenseMap, SeparableMap):
    """A map to whitened kernel values, ``z(x) = L^-1 k(landmarks, x)``; see :class:`Nystrom`."""

    landmarks_: AnyArray
    factor_: FloatArray
    n_double_: int
    _rebuilt = frozenset(("_made", "_solved"))

    def check_state(self, state: State) -> None:
        super().check_state(state)
        n_inputs = len(part_in(state, "bandwidth_", np.ndarray))
        factor = array_in(state, "factor_", np.float64, (None, None), finite=True)
        n, width = factor.shape
        require(n == width > 0 and (factor.diagonal() != 0).all(), "factor_ has no inverse")
        if isinstance(self.check_parameters(), Precomputed):
            landmarks = array_in(state, "landmarks_", np.int64, (n,))
            inside = ((landmarks >= 0) & (landmarks < n_inputs)).all()
            require(inside, "landmarks_ are no columns")
        else:
            array_in(state, "landmarks_", np.float64, (n, n_inputs), finite=True)
        number_in(state, "n_double_", int, 0, n + 1)

    def check_parameters(self) -> Kernel:
        if not (isinstance(self.kernel, str) and self.kernel == Precomputed.name):
            return as_kernel(self.kernel)
        if self.categorical is not None or not isinstance(self.bandwidth, str):
            raise InputError(
                f"{type(self).__name__}: kernel='precomputed' takes kernel values for rows: leave "
                "out 'bandwidth' and 'categorical'."
            )
        return Precomputed()

    def compute(self, X: Rows, out: AnyArray) -> None:
        self._check_inputs(X)
        values, double, mixed = self._ready()
        if out.dtype == np.float64:
            fill(values, X, out)
            double(out)
            return
        for a, b in row_blocks(X.shape[0], _ROWS_IN_DOUBLE):
            block = np.empty((b - a, out.shape[1]))
            fill(values, X[a:b], block)
            mixed.begin(out[a:b], block)
        mixed.finish(out)

    def round_factor(self) -> None:
        """Round ``factor_`` to the digits of single precision, which halves the bytes in files.

        Features are then those of the rounded factor: hardly less white, and as exact as before.
        """
        for name in ("_made", "_solved"):
            self.__dict__.pop(name, None)
        self.factor_ = rounded_to_single(self.factor_)

    @property
    def whitening_(self) -> FloatArray:
        """The inverse of ``factor_.T``: ``k(X, landmarks) @ whitening_`` are the features."""
        return solve_triangular(self.factor_, np.eye(len(self.factor_)), lower=True).T

    def at_landmarks(self, weights: Vector) -> Vector:
        """Return the weights with ``k(X, landmarks) @ at_landmarks(weights) = Z @ weights``."""
        # Rows that come one by one are predicted with the same weights.
        known: tuple[Vector, Vector] | None = self.__dict__.get("_solved")
        if known is None or not np.array_equal(known[0], weights):
            own = solve_triangular(self.factor_, weights, lower=True, trans="T", check_finite=False)
            # Set as one: other threads may ask for other weights.
            known = self._solved = weights.copy(), own
        return known[1]

    @property
    def is_separable(self) -> bool:
        return self.check_parameters().is_separable

    def terms(self, weights: FloatArray) -> FloatArray:
        return self.at_landmarks(weights)

    def factors(self, X: FloatArray, columns: IntArray) -> FloatArray:
        source = self._source(self.check_parameters())
        assert isinstance(source, InputKernel)
        return source.of_columns(X, self.landmarks_, columns)

    def bytes_to_fit(self, n_rows: int, n_inputs: int) -> float:
        n = float(min(self.size, n_rows))
        own = 0 if isinstance(self.check_parameters(), Precomputed) else n_inputs
        return 8.0 * n * (_SQUARES * n + own)

    def _source(self, kernel: Kernel) -> RowKernel:
        if isinstance(kernel, Precomputed):
            return GivenKernel()
        mask = self._mask(self.bandwidth_[None, :])
        return InputKernel(kernel, self.bandwidth_, mask)

    def _values(self) -> Values:
        return self._source(self.check_parameters()).towards(self.landmarks_)

    def _ready(self) -> tuple[Values, Whitening, MixedWhitening]:
        # Not part of the state: models read from a file make it when they need it.
        if "_made" not in self.__dict__:
            double = Whitening(self.factor_, np.float64)
            self._made = self._values(), double, MixedWhitening(self.factor_, self.n_double_)
        return self._made

    def _whiten(
        self, X: Rows, source: RowKernel, landmarks: AnyArray, cut: float
    ) -> NDArray[np.intp]:
        """Learn from landmarks, dropping those that others represent; return those kept."""
        for name in ("_made", "_solved"):
            self.__dict__.pop(name, None)
        self.factor_, kept = pivoted_cholesky(source.gram(X, landmarks, self.n_jobs), cut)
        self.landmarks_, self.n_double_ = landmarks[kept], len(self.factor_)
        return kept

    def _bandwidth_of(self, X: Rows, kernel: Kernel) -> FloatArray:
        if not isinstance(kernel, Precomputed):
            return super()._bandwidth_of(X, kernel)
        if X.shape[0] != X.shape[1]:
            raise InputError(
                f"{type(self).__name__}: kernel='precomputed' is fitted to the square kernel "
                f"matrix of the training rows; got shape {X.shape}."
            )
        return np.ones(X.shape[1])

    @property
    def _n_features_out(self) -> int:
        return len(self.factor_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == Precomputed.name
        return tags


class Nystrom(LandmarkMap):
    """Nyström features: inner products ``k(x, L) k(L, L)^+ k(L, y)`` for landmarks L.

    The kernel seen through some rows, the landmarks (Williams & Seeger 2001, *Using the Nyström
    Method to Speed Up Kernel Machines*). The inner product of a row x with itself is short of
    ``k(x, x)`` by the squared distance of x from the span of the landmarks.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="gaussian"
        Any; ``"precomputed"`` for rows of kernel values with all training rows, of which ``fit``
        takes the square matrix and chooses columns as landmarks.
    bandwidth : float, array-like (n_features,) or "median", default="median"
        In units of the inputs, one number or one an input (infinity ignores an input);
        ``"median"`` takes the median distance between rows, in the metric of the kernel.
    categorical : list of int or array (n_features,) of bool, default=None
        Positions or a mask of inputs whose numbers are categories: two that differ are 1 apart.
    n_components : int, default=1000
        Landmarks; all rows where there are fewer. Those that the others represent, to 5e-7 of the
        kernel, are dropped.
    landmarks : {"uniform", "kmeans", "leverage"}, default="uniform"
        Random rows; the means of clusters of at most 10,000 rows or 4 a landmark (with categories
        or a precomputed kernel rows far apart); or rows drawn by approximate ridge leverage scores,
        likely ones that the others do not represent.
    random_state : int, RandomState or None, default=None
        With ``"uniform"``, raising ``n_components`` keeps the earlier landmarks.
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    landmarks_ : array (n, n_features) of float64
        Those kept, each the one that those before represent worst. For a precomputed kernel, the
        column numbers (n,).
    indices_ : array (n,) of int or None
        The rows that they are; None for means.
    factor_ : array (n, n) of float64
        Lower triangular ``C`` with ``C C'`` the kernel matrix of the landmarks.
    whitening_ : array (n, n)
        ``W``, the inverse of ``factor_.T``: the features are ``k(X, landmarks_) W``.
    n_double_ : int
        How many of the first features are computed in float64 where float32 is asked for: 0, 128 or
        all, such that rounding is less than a thousandth of their squares on 256 rows.
    bandwidth_ : array (n_features,)
    seed_ : int
    n_features_in_, feature_names_in_

    Notes
    -----
    ``fit`` takes ``n**2 (n_features + n)`` operations and ``32 n**2`` bytes, and what the choice of
    landmarks takes: by clusters 3, by leverage up to 512 kernel values a row and landmark, or row.
    A row's features take n kernel values and ``n**2`` operations, and ``matvec`` of
    :meth:`feature_matrix` only the former. ``Z Z' <= K`` in the order of positive matrices.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> nystrom = Nystrom(bandwidth=2.0, n_components=100, random_state=0)
    >>> Z = nystrom.fit_transform(X)
    >>> exact = np.exp(-np.sum((X[0] - X[1]) ** 2) / (2 * 2.0**2))
    >>> bool(abs(Z[0] @ Z[1] - exact) < 1e-3), Z.shape[1] <= 100
    (True, True)
    """

    size_unit: ClassVar[str] = "landmarks"
    most_noise: ClassVar[float] = 1e-3
    """The share of rounding in features of float32 from which float64 is used."""

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        bandwidth: float | ArrayLike | str = "median",
        categorical: ArrayLike | None = None,
        n_components: int = 1000,
        landmarks: LandmarkKind = "uniform",
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel, bandwidth, categorical, random_state, n_jobs)
        self.n_components, self.landmarks = n_components, landmarks

    def check_parameters(self) -> Kernel:
        self._check_size()
        self._check_choice("landmarks", self.landmarks, LANDMARKS)
        return super().check_parameters()

    def learn(self, X: Rows, kernel: Kernel) -> None:
        source, n = self._source(kernel), int(self.n_components)
        with one_blas_thread():
            points, index = choose_landmarks(self.landmarks, X, source, n, self.seed_, self.n_jobs)
            kept = self._whiten(X, source, points, _CUT)
            self.indices_ = None if index is None else index[kept]
            self.n_double_ = self._double_needed(X)
            self._ready()

    def fit_rows(self, X: Rows) -> ComputedMatrix:
        self._fit_checked(X)
        return NystromMatrix(X, self)

    def _matrix_of(self, X: Rows) -> ComputedMatrix:
        return LandmarkMatrix(X, self)

    def _double_needed(self, X: Rows) -> int:
        """Return in how many columns float64 is needed to keep rounding errors small."""
        sample = X[:: max(1, X.shape[0] // _ROWS_MEASURED)][:_ROWS_MEASURED]
        values = np.empty((sample.shape[0], len(self.factor_)))
        fill(self._values(), sample, values)
        wide, narrow = values.copy(), np.empty(values.shape, np.float32)
        Whitening(self.factor_, np.float64)(wide)
        squares = np.square(wide).sum(axis=0)
        for n_double in range(0, min(len(self.factor_), _MOST_DOUBLE + 1), _MOST_DOUBLE):
            mixed = MixedWhitening(self.factor_, n_double)
            mixed.begin(narrow, values.copy())
            mixed.finish(narrow)
            noise = np.square(narrow - wide).sum(axis=0)
            whole = np.maximum(noise + squares, np.finfo(np.float64).tiny)
            if np.mean(noise / whole) <= self.most_noise:
                return n_double
        return len(self.factor_)


class NystromMatrix(ComputedMatrix):
    """Nyström features of training rows, which solvers may also use unwhitened."""

    def __init__(self, rows: Rows, nystrom: Nystrom) -> None:
        super().__init__(rows, nystrom.compute, nystrom._n_features_out, n_jobs=nystrom.n_jobs)
        self.nystrom = nystrom

    def unwhitened(self) -> WhitenedMatrix:
        values, *_ = self.nystrom._ready()
        kernel = ComputedMatrix(
            self.rows,
            partial(fill, values),
            self.shape[1],
            dtype=np.float64 if self.nystrom.n_double_ else np.float32,
            n_jobs=self.n_jobs,
        )
        return WhitenedMatrix(kernel, self.nystrom.factor_)


class LandmarkMatrix(ComputedMatrix):
    """Features of rows to predict for: ``Z @ w`` needs kernel values alone, which few rows keep."""

    values_kept = 1 << 25

    def __init__(self, rows: Rows, nystrom: LandmarkMap, dtype: DTypeLike = np.float32) -> None:
        n_columns, n_jobs = nystrom._n_features_out, nystrom.n_jobs
        super().__init__(rows, nystrom.compute, n_columns, dtype=dtype, n_jobs=n_jobs)
        self.nystrom = nystrom
        self._values: FloatArray | None = None

    def _matvec(self, w: Vector, out: Vector) -> None:
        kernel_values, *_ = self.nystrom._ready()
        known, few = self._values, self.shape[0] * self.shape[1] <= self.values_kept
        kept = np.empty(self.shape) if few and known is None else None

        def respond(a: int, b: int) -> None:
            if known is not None:
                block = known[a:b]
            else:
                block = np.empty((b - a, self.shape[1])) if kept is None else kept[a:b]
                fill(kernel_values, self.rows[a:b], block)
            np.matmul(block, at_landmarks, out=out[a:b])

        with one_blas_thread():
            at_landmarks = self.nystrom.at_landmarks(w)
            map_blocks(respond, row_blocks(self.shape[0], self.chunk_rows), self.n_jobs)
        self._values = kept if known is None else known
