"""Nyström features: whitened kernel values with landmarks."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.linalg import cholesky, eigvalsh, solve_triangular
from sklearn.utils import Tags

from gramless.base.errors import InputError
from gramless.base.numeric import rounded_to_single
from gramless.base.random import RandomStateLike, stream
from gramless.base.state import State, array_in, number_in, part_in, require
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.features.base import DenseMap, SeparableMap
from gramless.features.landmarks import (
    BLOCK_ROWS,
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
from gramless.matrices.dense import ComputedMatrix
from gramless.matrices.transformed import WhitenedMatrix
from gramless.preprocessing.rows import Rows

LandmarkKind = Literal["uniform", "kmeans", "leverage"]
LANDMARKS: tuple[LandmarkKind, ...] = ("uniform", "kmeans", "leverage")

Index = NDArray[np.intp]

# Landmarks by k-means are chosen from a sample of 10,000 rows, or of 4 rows per landmark if that is
# more.
_SAMPLE_ROWS, _SAMPLE_ROWS_PER_LANDMARK = 10_000, 4
_MAX_SEEDING_ROUNDS = 64  # of k-means++; each round draws the same number of rows
_LLOYD_STEPS = 3  # of k-means, after the seeding
_MAX_LEVERAGE_SAMPLE = 512  # rows on which leverage scores are based
# A landmark is dropped if the others represent all but this share of its kernel values.
_CUT = 2.0**-21
_DOUBLE_COLUMNS = 128  # columns computed in float64 if float32 is not precise enough for all
_DOUBLE_BLOCK_ROWS = 256
_ROUNDING_ROWS = 256  # rounding errors are measured on at most this many rows
_GRAM_MATRICES = 2  # n x n arrays in memory during a fit: the kernel matrix and its factor


def choose_landmarks(
    kind: LandmarkKind, X: Rows, source: RowKernel, n: int, seed: int, n_jobs: int | None
) -> tuple[AnyArray, Index | None]:
    """Return n landmarks, and their row indices unless they are means of rows.

    All rows are landmarks if there are at most n.
    """
    if kind == "uniform" or n >= X.shape[0]:
        index = stream(seed, "landmarks").permutation(X.shape[0])[:n]
        return source.landmarks(X, index), index
    if kind == "leverage":
        index = draw_leverage_rows(X, source, n, stream(seed, "leverage"), n_jobs)
        return source.landmarks(X, index), index
    generator = stream(seed, "k-means")
    size = max(_SAMPLE_ROWS, _SAMPLE_ROWS_PER_LANDMARK * n)
    sampled = generator.permutation(X.shape[0])[:size]
    sample = source.take_rows(X, sampled)
    index = sampled[draw_spread_rows(sample, source, n, generator, n_jobs)]
    points = source.landmarks(X, index)
    if not isinstance(source, InputKernel) or source.categorical.any():
        return points, index
    return cluster_means(sample, points, source.bandwidth, n_jobs), None


def draw_spread_rows(
    X: Rows, source: RowKernel, n: int, generator: np.random.Generator, n_jobs: int | None
) -> Index:
    """Return n distinct rows by kernel k-means++ seeding (Oglic & Gärtner 2017).

    Each row is drawn with probability proportional to its squared distance from the nearest row
    drawn before, in the kernel's metric ``|x - y|^2 = kxx + kyy - 2 kxy``. More than 127 rows are
    drawn in 64 rounds of equal size, as in k-means|| (Bahmani et al. 2012).
    """
    diagonal = source.diagonal(X)
    nearest, chosen = np.full(X.shape[0], np.inf), np.zeros(X.shape[0], bool)
    index = new = generator.integers(X.shape[0], size=1)
    while len(index) < n:
        chosen[new] = True
        values = source.values_with(source.landmarks(X, new))

        def lower(a: int, b: int, values: Values = values, new: Index = new) -> None:
            squares = diagonal[a:b, None] + diagonal[new] - 2.0 * values(X[a:b])
            np.minimum(nearest[a:b], squares.min(axis=1), out=nearest[a:b])

        map_blocks(lower, row_blocks(X.shape[0], BLOCK_ROWS), n_jobs)
        # The largest sums with Gumbel numbers are a weighted sample without replacement.
        keys = np.log(np.maximum(nearest, np.finfo(float).tiny))
        keys += generator.gumbel(size=len(keys))
        keys[chosen] = -np.inf
        new = _largest(keys, min(max(1, n // _MAX_SEEDING_ROUNDS), n - len(index)))
        index = np.concatenate([index, new])
    return index


def cluster_means(
    X: Rows, centres: FloatArray, bandwidth: FloatArray, n_jobs: int | None
) -> FloatArray:
    """Return centres after three Lloyd steps of k-means (Zhang et al. 2008).

    Distances are in units of the bandwidth. Centres of empty clusters do not move.
    """
    n_rows, n = X.shape[0], len(centres)
    labels = np.empty(n_rows, np.intp)
    blocks = row_blocks(n_rows, BLOCK_ROWS)
    for _ in range(_LLOYD_STEPS):
        shift = centres.mean(axis=0)
        scaled = (centres - shift) / bandwidth
        factors = scaled.T / bandwidth[:, None]
        offsets = shift @ factors + 0.5 * np.einsum("ij,ij->i", scaled, scaled)

        def assign(
            a: int, b: int, factors: FloatArray = factors, offsets: FloatArray = offsets
        ) -> None:
            labels[a:b] = np.argmax(X[a:b] @ factors - offsets, axis=1)

        map_blocks(assign, blocks, n_jobs)
        counts = np.bincount(labels, minlength=n)
        members = sp.csr_array((np.ones(n_rows), (labels, np.arange(n_rows))), shape=(n, n_rows))
        sums = members @ X
        sums = sums.toarray() if sp.issparse(sums) else sums
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    return centres


def draw_leverage_rows(
    X: Rows, source: RowKernel, n: int, generator: np.random.Generator, n_jobs: int | None
) -> Index:
    """Return n distinct rows, drawn in proportion to approximate ridge leverage scores.

    This is recursive sampling (Musco & Musco 2017, *Recursive Sampling for the Nyström Method*,
    Algorithm 3, with the smaller samples of section 5.2.1). A sample of half of the rows gives the
    scores by which the next sample is drawn from twice as many rows, and so on until all rows have
    scores. The ridge is proportional to the sum of all but the ``s / (4 log s)`` largest
    eigenvalues, for samples of size s, at most 512. Rows with large scores tend to come first.
    """
    n_rows = X.shape[0]
    wanted_size = np.ceil(np.sqrt((n_rows * n + float(n) ** 3) / (4.0 * n_rows)))
    sample_size = int(np.clip(wanted_size, 2, min(_MAX_LEVERAGE_SAMPLE, n_rows)))
    oversampling = max(1.0, np.log(sample_size))
    order = generator.permutation(n_rows)
    sizes = [n_rows]
    while sizes[-1] > sample_size:
        sizes.append(-(-sizes[-1] // 2))
    sample, probabilities = order[: sizes[-1]], np.ones(sizes[-1])
    for size in sizes[-2:0:-1]:
        scores = ridge_leverage_scores(X, source, order[:size], sample, probabilities, n_jobs)
        probabilities = np.minimum(1.0, oversampling * scores)
        is_drawn = generator.random(size) < probabilities
        if not is_drawn.any():
            is_drawn[:sample_size], probabilities[:] = True, min(1.0, sample_size / size)
        sample, probabilities = order[:size][is_drawn], probabilities[is_drawn]
    scores = ridge_leverage_scores(X, source, order, sample, probabilities, n_jobs)
    with np.errstate(divide="ignore"):
        keys = np.log(scores) + generator.gumbel(size=n_rows)
    return order[_largest(keys, n)]


def ridge_leverage_scores(
    X: Rows,
    source: RowKernel,
    rows: Index,
    sample: Index,
    probabilities: FloatArray,
    n_jobs: int | None,
) -> FloatArray:
    """Return approximate ridge leverage scores (Musco & Musco 2017, Lemma 6).

    They are ``(k_ii - k_iS (K_SS + ridge diag(probabilities))^-1 k_Si) / ridge`` for a sample S
    that was drawn with these probabilities, clipped to [0, 1].
    """
    landmarks = source.landmarks(X, sample)
    gram = source.gram(X, landmarks, n_jobs)
    ridge = _ridge(gram, probabilities)
    lower = cholesky(gram + np.diag(ridge * probabilities), lower=True)
    whitening = solve_triangular(lower, np.eye(len(lower)), lower=True).T
    values, diagonal = source.values_with(landmarks), source.diagonal(X)
    scores = np.empty(len(rows))

    def score(a: int, b: int) -> None:
        explained = values(X[rows[a:b]]) @ whitening
        residual = diagonal[rows[a:b]] - np.einsum("ij,ij->i", explained, explained)
        scores[a:b] = np.clip(residual / ridge, 0.0, 1.0)

    map_blocks(score, row_blocks(len(rows), BLOCK_ROWS), n_jobs)
    return scores


def _ridge(gram: FloatArray, probabilities: FloatArray) -> float:
    roots = np.sqrt(1.0 / probabilities)
    weighted = gram * roots[:, None] * roots
    size, trace = len(gram), float(np.trace(weighted))
    leading = int(np.ceil(size / (4.0 * max(1.0, np.log(size)))))
    remainder = trace - eigvalsh(weighted, subset_by_index=[size - leading, size - 1]).sum()
    return float(max(remainder / leading, 1e-6 * trace / size))


def _largest(keys: FloatArray, n: int) -> Index:
    """Return the positions of the n largest keys, in descending order."""
    return np.argsort(-keys, kind="stable")[:n]


class LandmarkMap(DenseMap, SeparableMap):
    """Base class of maps to whitened kernel values, ``z(x) = L^-1 k(landmarks, x)``."""

    landmarks_: AnyArray
    factor_: FloatArray
    n_double_: int
    _rebuilt = frozenset(("_cached_steps", "_cached_coefficients"))

    def check_state(self, state: State) -> None:
        super().check_state(state)
        n_inputs = len(part_in(state, "bandwidth_", np.ndarray))
        factor = array_in(state, "factor_", np.float64, (None, None), finite=True)
        n, width = factor.shape
        require(n == width > 0 and (factor.diagonal() != 0).all(), "factor_ is not invertible")
        if isinstance(self.check_parameters(), Precomputed):
            landmarks = array_in(state, "landmarks_", np.int64, (n,))
            are_columns = ((landmarks >= 0) & (landmarks < n_inputs)).all()
            require(are_columns, "landmarks_ are not column indices")
        else:
            array_in(state, "landmarks_", np.float64, (n, n_inputs), finite=True)
        number_in(state, "n_double_", int, 0, n + 1)

    def check_parameters(self) -> Kernel:
        if not (isinstance(self.kernel, str) and self.kernel == Precomputed.name):
            return as_kernel(self.kernel)
        if self.categorical is not None or not isinstance(self.bandwidth, str):
            raise InputError(
                f"{type(self).__name__}: with kernel='precomputed', rows are kernel values: leave "
                "out 'bandwidth' and 'categorical'."
            )
        return Precomputed()

    def compute(self, X: Rows, out: AnyArray) -> None:
        self._check_inputs(X)
        values, double, mixed = self.steps()
        if out.dtype == np.float64:
            fill(values, X, out)
            double(out)
            return
        for a, b in row_blocks(X.shape[0], _DOUBLE_BLOCK_ROWS):
            block = np.empty((b - a, out.shape[1]))
            fill(values, X[a:b], block)
            mixed.begin(out[a:b], block)
        mixed.finish(out)

    def round_factor(self) -> None:
        """Round ``factor_`` to single precision, so that model files are half as large.

        Features are then computed from the rounded factor, with the same precision as before. Their
        covariance changes slightly.
        """
        for name in ("_cached_steps", "_cached_coefficients"):
            self.__dict__.pop(name, None)
        self.factor_ = rounded_to_single(self.factor_)

    @property
    def whitening_(self) -> FloatArray:
        """Inverse of ``factor_.T``; features are ``k(X, landmarks_) @ whitening_``."""
        return solve_triangular(self.factor_, np.eye(len(self.factor_)), lower=True).T

    def landmark_coefficients(self, weights: Vector) -> Vector:
        """Return the coefficients c with ``k(X, landmarks_) @ c = Z @ weights``."""
        # Predictions of single rows use the same weights each time.
        cached: tuple[Vector, Vector] | None = self.__dict__.get("_cached_coefficients")
        if cached is None or not np.array_equal(cached[0], weights):
            coefficients = solve_triangular(
                self.factor_, weights, lower=True, trans="T", check_finite=False
            )
            # A single assignment is safe if other threads predict with other weights.
            cached = self._cached_coefficients = weights.copy(), coefficients
        return cached[1]

    @property
    def is_separable(self) -> bool:
        return self.check_parameters().is_separable

    def terms(self, weights: FloatArray) -> FloatArray:
        return self.landmark_coefficients(weights)

    def factors(self, X: FloatArray, columns: IntArray) -> FloatArray:
        source = self._source(self.check_parameters())
        assert isinstance(source, InputKernel)
        return source.gram_of_columns(X, self.landmarks_, columns)

    def bytes_to_fit(self, n_rows: int, n_inputs: int) -> float:
        n = float(min(self.size, n_rows))
        n_numbers = 0 if isinstance(self.check_parameters(), Precomputed) else n_inputs
        return 8.0 * n * (_GRAM_MATRICES * n + n_numbers)

    def _source(self, kernel: Kernel) -> RowKernel:
        if isinstance(kernel, Precomputed):
            return GivenKernel()
        mask = self._mask(self.bandwidth_[None, :])
        return InputKernel(kernel, self.bandwidth_, mask)

    def _values(self) -> Values:
        return self._source(self.check_parameters()).values_with(self.landmarks_)

    def steps(self) -> tuple[Values, Whitening, MixedWhitening]:
        """Return the kernel values with landmarks, and whitening in float64 and float32."""
        # Not part of the state: models from files have none at first.
        if "_cached_steps" not in self.__dict__:
            double = Whitening(self.factor_, np.float64)
            self._cached_steps = (
                self._values(),
                double,
                MixedWhitening(self.factor_, self.n_double_),
            )
        return self._cached_steps

    def _whiten(
        self, X: Rows, source: RowKernel, landmarks: AnyArray, cut: float
    ) -> NDArray[np.intp]:
        """Set the landmarks and their factor, and return which landmarks were kept."""
        for name in ("_cached_steps", "_cached_coefficients"):
            self.__dict__.pop(name, None)
        self.factor_, kept = pivoted_cholesky(source.gram(X, landmarks, self.n_jobs), cut)
        self.landmarks_, self.n_double_ = landmarks[kept], len(self.factor_)
        return kept

    def _bandwidth_of(self, X: Rows, kernel: Kernel) -> FloatArray:
        if not isinstance(kernel, Precomputed):
            return super()._bandwidth_of(X, kernel)
        if X.shape[0] != X.shape[1]:
            raise InputError(
                f"{type(self).__name__}: with kernel='precomputed', fit needs the square kernel "
                f"matrix of the training rows; got shape {X.shape}."
            )
        return np.ones(X.shape[1])

    @property
    def n_features_out(self) -> int:
        return len(self.factor_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == Precomputed.name
        return tags


class Nystrom(LandmarkMap):
    """Nyström features: inner products ``k(x, L) k(L, L)^+ k(L, y)`` for landmarks L.

    The kernel is approximated by its values with some rows, the landmarks (Williams & Seeger 2001,
    *Using the Nyström Method to Speed Up Kernel Machines*). The inner product of the features of a
    row x with themselves is ``k(x, x)`` minus the squared distance of x from the span of the
    landmarks, in the kernel's metric.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="gaussian"
        Any kernel, or ``"precomputed"`` if rows have kernel values with all training rows instead
        of inputs. Then ``fit`` needs the square kernel matrix, and landmarks are columns of it.
    bandwidth : float, array-like (n_features,) or "median", default="median"
        In units of the inputs, one number or one per input. Infinity ignores an input.
        ``"median"`` is the median distance between rows in the metric of the kernel.
    categorical : list of int or array (n_features,) of bool, default=None
        Positions or a mask of categorical inputs. Different categories have the distance 1.
    n_components : int, default=1000
        Number of landmarks; all rows if there are fewer. Landmarks that the others represent to
        5e-7 of the kernel are dropped.
    landmarks : {"uniform", "kmeans", "leverage"}, default="uniform"
        How landmarks are chosen.

        - "uniform": random rows.
        - "kmeans": means of clusters, from a sample of 10,000 rows or of 4 per landmark if these
          are more. With categories or a precomputed kernel, landmarks are the rows with which
          k-means++ starts.
        - "leverage": rows drawn by approximate ridge leverage scores, which are large for rows that
          the others do not represent.
    random_state : int, RandomState or None, default=None
        Seed. With ``"uniform"``, a larger ``n_components`` adds landmarks and keeps the others.
    n_jobs : int or None, default=None
        Number of threads; None means all processors. Results do not depend on it.

    Attributes
    ----------
    landmarks_ : array (n, n_features) of float64
        The landmarks, ordered such that each is the one that the earlier ones represent worst. For
        a precomputed kernel, the indices of their columns (n,).
    indices_ : array (n,) of int or None
        The row indices of the landmarks; None if landmarks are means of rows.
    factor_ : array (n, n) of float64
        Lower triangular ``C`` with ``C C'`` the kernel matrix of the landmarks.
    whitening_ : array (n, n)
        ``W``, the inverse of ``factor_.T``. The features are ``k(X, landmarks_) W``.
    n_double_ : int
        Number of the first features that are computed in float64 even if the result is float32: 0,
        128 or all. It is the smallest for which rounding errors are, on 256 rows, less than a
        thousandth of the features in squares.
    bandwidth_ : array (n_features,)
    seed_ : int
    n_features_in_, feature_names_in_

    Notes
    -----
    ``fit`` takes ``n**2 (n_features + n)`` operations and ``32 n**2`` bytes. In addition, "kmeans"
    needs 3 kernel values per sampled row and landmark, and "leverage" up to 512 kernel values per
    row. The features of a row take n kernel values and ``n**2`` operations; ``matvec`` of
    :meth:`feature_matrix` needs only the kernel values. ``K - Z Z'`` is positive semidefinite.

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
    # Maximum share of rounding errors in the squares of features of float32. Above it, columns are
    # computed in float64.
    max_noise: ClassVar[float] = 1e-3

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        bandwidth: float | ArrayLike | str = "median",
        categorical: ArrayLike | None = None,
        n_components: int = 1000,
        landmarks: LandmarkKind = "uniform",
        random_state: RandomStateLike = None,
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
            self.n_double_ = self._choose_n_double(X)
            self.steps()  # fills the cache

    def fit_rows(self, X: Rows) -> ComputedMatrix:
        self._fit_checked(X)
        return NystromMatrix(X, self)

    def _matrix_of(self, X: Rows) -> ComputedMatrix:
        return LandmarkMatrix(X, self)

    def _choose_n_double(self, X: Rows) -> int:
        sample = X[:: max(1, X.shape[0] // _ROUNDING_ROWS)][:_ROUNDING_ROWS]
        values = np.empty((sample.shape[0], len(self.factor_)))
        fill(self._values(), sample, values)
        wide, narrow = values.copy(), np.empty(values.shape, np.float32)
        Whitening(self.factor_, np.float64)(wide)
        squares = np.square(wide).sum(axis=0)
        for n_double in range(0, min(len(self.factor_), _DOUBLE_COLUMNS + 1), _DOUBLE_COLUMNS):
            mixed = MixedWhitening(self.factor_, n_double)
            mixed.begin(narrow, values.copy())
            mixed.finish(narrow)
            noise = np.square(narrow - wide).sum(axis=0)
            total = np.maximum(noise + squares, np.finfo(np.float64).tiny)
            if np.mean(noise / total) <= self.max_noise:
                return n_double
        return len(self.factor_)


class NystromMatrix(ComputedMatrix):
    """Nyström features of training rows; solvers can also use the kernel values."""

    def __init__(self, rows: Rows, nystrom: Nystrom) -> None:
        super().__init__(rows, nystrom.compute, nystrom.n_features_out, n_jobs=nystrom.n_jobs)
        self.nystrom = nystrom

    def unwhitened(self) -> WhitenedMatrix:
        values, *_ = self.nystrom.steps()
        kernel = ComputedMatrix(
            self.rows,
            partial(fill, values),
            self.shape[1],
            dtype=np.float64 if self.nystrom.n_double_ else np.float32,
            n_jobs=self.n_jobs,
        )
        return WhitenedMatrix(kernel, self.nystrom.factor_)


class LandmarkMatrix(ComputedMatrix):
    """Features of new rows, whose predictions need only kernel values.

    The kernel values of few rows are cached, for several products ``Z @ w``.
    """

    max_cached_values = 1 << 25  # 256 MB of float64

    def __init__(self, rows: Rows, nystrom: LandmarkMap, dtype: DTypeLike = np.float32) -> None:
        n_columns, n_jobs = nystrom.n_features_out, nystrom.n_jobs
        super().__init__(rows, nystrom.compute, n_columns, dtype=dtype, n_jobs=n_jobs)
        self.nystrom = nystrom
        self._values: FloatArray | None = None

    def _matvec(self, w: Vector, out: Vector) -> None:
        kernel_values, *_ = self.nystrom.steps()
        cached, has_few_rows = self._values, self.shape[0] * self.shape[1] <= self.max_cached_values
        new = np.empty(self.shape) if has_few_rows and cached is None else None
        with one_blas_thread():
            coefficients = self.nystrom.landmark_coefficients(w)

        def multiply(a: int, b: int) -> None:
            if cached is not None:
                block = cached[a:b]
            else:
                block = np.empty((b - a, self.shape[1])) if new is None else new[a:b]
                fill(kernel_values, self.rows[a:b], block)
            np.matmul(block, coefficients, out=out[a:b])

        with one_blas_thread():
            map_blocks(multiply, row_blocks(self.shape[0], self.chunk_rows), self.n_jobs)
        self._values = new if cached is None else cached
