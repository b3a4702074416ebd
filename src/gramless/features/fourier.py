"""Random Fourier features as a scikit-learn transformer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from gramless.base.arrays import readonly
from gramless.base.errors import InputError, KernelError
from gramless.base.memory import check_memory
from gramless.base.numeric import clip_infinities
from gramless.base.random import RandomStateLike, stream
from gramless.base.state import LARGEST, State, Stateful, array_in, part_in, require
from gramless.base.threads import one_blas_thread, row_blocks
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.features.base import DenseMap, DifferentiableMap, SeparableMap
from gramless.kernels import Kernel, KernelLike, RadialKernel, SpectralKernel, as_spectral_kernel
from gramless.kernels.composites import Sum
from gramless.kernels.spectral import limit_exponents
from gramless.loops import hadamard, trig
from gramless.preprocessing.rows import Rows, dense_columns

# Scaled rows for projections on frequencies: dense rows, padded to whole groups, or the data,
# indices and indptr of CSR.
Prepared: TypeAlias = AnyArray | tuple[AnyArray, AnyArray, AnyArray]

_STREAM_FREQUENCIES = 256  # frequencies that are drawn from one random stream
_MAX_ORTHOGONAL = 1024  # mutually orthogonal directions; the cost of each grows with their number
_MAX_QR_NUMBERS = 1 << 24  # numbers of a matrix that is decomposed to get orthogonal directions
_MIN_UNIFORM = 2.0**-54  # kernels need uniforms above 0
_HALF_SOBOL_STEP = 2.0**-31  # Sobol points are multiples of twice this, and may be 0

_MAX_BLOCK_ROWS = 192  # rows of a projection
_MAX_BLOCK_SUMS = 1 << 17  # rows times frequencies of a projection

# Products of rows within these limits with frequencies within the exponents stay finite, even if a
# Hadamard transform adds a million of them, twice.
_ROW_LIMITS = {"f": 2.0**36, "d": 2.0**600}
_EXPONENT_LIMITS = {"f": 50, "d": 200}


def draw_frequencies(
    kernel: SpectralKernel, sampling: str, seed: int, n_frequencies: int, n_inputs: int
) -> FloatArray:
    """Draw frequencies at bandwidth 1; a larger number only adds frequencies."""
    n_uniforms = kernel.n_uniforms(n_inputs)
    if sampling == "qmc":
        return kernel.frequencies(*_sobol_draws(seed, n_frequencies, n_inputs, n_uniforms))
    if sampling == "orthogonal":
        normals = _orthogonal_draws(seed, n_frequencies, n_inputs)
    else:
        normals = np.empty((n_frequencies, n_inputs))
        for k, (a, b) in enumerate(row_blocks(n_frequencies, _STREAM_FREQUENCIES)):
            stream(seed, "frequencies", k).standard_normal(out=normals[a:b])
    uniforms = np.empty((n_frequencies, n_uniforms))
    for k, (a, b) in enumerate(row_blocks(n_frequencies, _STREAM_FREQUENCIES)):
        stream(seed, "uniforms of frequencies", k).random(out=uniforms[a:b])
    return kernel.frequencies(normals, uniforms)


def _orthogonal_draws(seed: int, n: int, n_inputs: int) -> FloatArray:
    size = min(n_inputs, _MAX_ORTHOGONAL, max(1, _MAX_QR_NUMBERS // n_inputs))
    shape = (max(1, _STREAM_FREQUENCIES // size), n_inputs, size)
    normals = np.empty((n, n_inputs))
    for k, (a, b) in enumerate(row_blocks(n, shape[0] * size)):
        generator = stream(seed, "orthogonal frequencies", k)
        with one_blas_thread():
            columns, triangles = np.linalg.qr(generator.standard_normal(shape))
        # With a positive diagonal of R, the QR decomposition is unique and Q has the Haar measure.
        columns *= np.sign(np.diagonal(triangles, axis1=1, axis2=2))[:, None]
        columns *= np.sqrt(generator.chisquare(n_inputs, (shape[0], 1, size)))
        normals[a:b] = columns.swapaxes(1, 2).reshape(-1, n_inputs)[: b - a]
    return normals


def _sobol_draws(
    seed: int, n: int, n_inputs: int, n_uniforms: int
) -> tuple[FloatArray, FloatArray]:
    n_dimensions = n_inputs + n_uniforms
    if n_dimensions > qmc.Sobol.MAXDIM:
        raise InputError(
            f"sampling='qmc' needs {n_dimensions} dimensions for {n_inputs} inputs, but Sobol "
            f"sequences have at most {qmc.Sobol.MAXDIM}; use sampling='orthogonal'."
        )
    scrambling = int(stream(seed, "sobol frequencies").integers(2**31))
    sequence = qmc.Sobol(n_dimensions, seed=scrambling)
    points = sequence.random_base2((n - 1).bit_length())[:n] + _HALF_SOBOL_STEP
    return ndtri(points[:, :n_inputs]), points[:, n_inputs:]


@dataclass(frozen=True)
class Panels:
    """Frequencies as a matrix, in panels (n_panels, n_inputs, n_lanes) for the loops."""

    panels: AnyArray
    # Number of frequencies of a projection, in whole panels. With a power of two, the sums of all
    # rows would fall into the same cache lines.
    chunk_size: ClassVar[int] = 528
    max_rows: ClassVar[int] = _MAX_BLOCK_ROWS

    @classmethod
    def of(cls, frequencies: FloatArray, dtype: DTypeLike) -> Panels:
        """Return panels of frequencies (n, n_inputs) in radians, for rows of some dtype."""
        n, n_inputs = frequencies.shape
        lanes = trig.PANEL_BYTES // np.dtype(dtype).itemsize
        padded = np.zeros((-(-n // lanes) * lanes, n_inputs), dtype)
        padded[:n] = to_half_turns(frequencies, dtype)
        return cls(np.ascontiguousarray(padded.reshape(-1, lanes, n_inputs).swapaxes(1, 2)))

    def buffer(self, n_rows: int, sparse: bool) -> AnyArray:
        """Return a buffer for :meth:`prepare`; it is empty for sparse rows, which need none."""
        shape = 0 if sparse else -(-n_rows // trig.GROUP_ROWS) * trig.GROUP_ROWS
        return np.zeros((shape, self.panels.shape[1]), self.panels.dtype)

    def prepare(
        self, X: Rows, center: FloatArray, inverse: FloatArray, buffer: AnyArray
    ) -> Prepared:
        """Return rows minus ``center``, times ``inverse``; ``buffer`` is overwritten."""
        if sp.issparse(X) and center.any():
            X, buffer = X.toarray(), self.buffer(X.shape[0], sparse=False)
        if not sp.issparse(X):
            n_groups = -(-len(X) // trig.GROUP_ROWS)
            return _scale_rows(X, center, inverse, buffer)[: n_groups * trig.GROUP_ROWS]
        limit = _ROW_LIMITS[buffer.dtype.char]
        with np.errstate(over="ignore"):
            values = np.clip(X.data * inverse[X.indices], -limit, limit)
        return X.indptr, X.indices, values.astype(buffer.dtype)

    def project(self, rows: Prepared, first: int, starts: AnyArray, sums: AnyArray) -> None:
        """Write ``starts`` plus products of prepared rows with frequencies from ``first`` on."""
        lanes = self.panels.shape[2]
        panels = self.panels[first // lanes : (first + self.chunk_size) // lanes]
        if isinstance(rows, tuple):
            trig.project_sparse(*rows, panels, starts, sums)
        else:
            trig.project(rows, panels, starts, sums)


@dataclass(frozen=True, repr=False)
class HadamardBlocks(Stateful):
    """Structured frequencies: products of Hadamard matrices and octonions, without a matrix.

    The p frequencies of a block are the rows of ``S H G P H B``, with Hadamard matrices H of size
    p, a power of two, random signs B, a random permutation P, normal numbers G and lengths S.

    In *Fastfood* (Le, Sarlós & Smola 2013) G is a diagonal matrix. Here it multiplies p / 8
    octonions, of eight numbers each, by p / 8 normal octonions. In both cases each row is, for
    given B and P, a rotation of the numbers of G times a constant. If its length is drawn
    independently, the row is exactly normal, and S may also contain the radii of a kernel.
    Octonions preserve angles: seven of eight pairs of frequencies of a block have uncorrelated
    projections, so the squared error of the kernel is near that of orthogonal frequencies.

    Attributes
    ----------
    signs : array (n_blocks, p)
        Diagonals of B.
    orders : array (n_blocks, p) of int32
        The permutations P.
    factors : array (n_blocks, p)
        The numbers of G; number c of octonion b is at ``c p / 8 + b``.
    scales : array (n_frequencies,)
        Diagonals of S; the last block may be incomplete.
    """

    signs: AnyArray
    orders: NDArray[np.int32]
    factors: AnyArray
    scales: AnyArray

    def check(self) -> None:
        array_in(vars(self), "signs", np.int8)
        array_in(vars(self), "orders", np.int32)
        for name in ("factors", "scales"):
            numbers = array_in(vars(self), name, np.float64, finite=True)
            # Frequencies are their products, which must be finite.
            require(bool((np.abs(numbers) <= LARGEST**0.25).all()), f"{name} are too large")

    def __post_init__(self) -> None:
        # The arrays may come from a file, and the loops do not check bounds.
        n_blocks, width = shape = self.orders.shape
        is_valid = self.signs.shape == self.factors.shape == shape and self.scales.ndim == 1
        is_valid = is_valid and self.orders.dtype.kind == "i"
        is_valid = is_valid and width >= hadamard.LANES and width & (width - 1) == 0
        is_valid = is_valid and (n_blocks - 1) * width < self.scales.size <= n_blocks * width
        if not is_valid or not (np.sort(self.orders, axis=1) == np.arange(width)).all():
            raise InputError("HadamardBlocks: the arrays do not fit each other.")

    @classmethod
    def draw(
        cls, kernel: RadialKernel, seed: int, n_frequencies: int, n_inputs: int
    ) -> HadamardBlocks:
        """Draw frequencies at bandwidth 1; a larger number only adds frequencies."""
        width = max(hadamard.LANES, 1 << (n_inputs - 1).bit_length())
        shape, n_blocks = (max(1, _STREAM_FREQUENCIES // width), width), -(-n_frequencies // width)
        parts = [
            _draw_hadamard_blocks(kernel, stream(seed, "hadamard frequencies", k), shape)
            for k in range(-(-n_blocks // shape[0]))
        ]
        arrays = (np.concatenate(part)[:n_blocks] for part in zip(*parts, strict=True))
        signs, orders, factors, scales = arrays
        return cls(signs, orders, factors, scales.ravel()[:n_frequencies])

    def astype(self, dtype: DTypeLike) -> HadamardBlocks:
        """Return the frequencies in half turns, for rows of some dtype."""
        signs, factors = self.signs.astype(dtype), self.factors.astype(dtype)
        scales = to_half_turns(self.scales, dtype).astype(dtype)
        return HadamardBlocks(signs, self.orders, factors, scales)

    def frequencies(self, n_inputs: int) -> FloatArray:
        """Return the frequencies as a matrix (n_frequencies, n_inputs) in radians."""
        blocks, n = self.astype(np.float64), len(self.scales)
        starts, buffer = np.zeros(self.chunk_size), blocks.buffer(n_inputs, sparse=False)
        rows = blocks.prepare(np.eye(n_inputs), np.zeros(n_inputs), np.ones(n_inputs), buffer)
        frequencies = np.empty((n, n_inputs))
        for first in range(0, n, self.chunk_size):
            sums = np.empty((n_inputs, self.chunk_size))
            blocks.project(rows, first, starts, sums)
            frequencies[first : first + self.chunk_size] = np.pi * sums.T[: n - first]
        return frequencies

    @property
    def chunk_size(self) -> int:
        """Number of frequencies of a projection, in whole blocks."""
        width = self.orders.shape[1]
        return max(1, Panels.chunk_size // width) * width

    @property
    def max_rows(self) -> int:
        """Largest number of rows of a projection."""
        return max(1, min(_MAX_BLOCK_ROWS, _MAX_BLOCK_SUMS // self.chunk_size))

    def buffer(self, n_rows: int, sparse: bool) -> AnyArray:
        """Return a buffer for :meth:`prepare`."""
        return np.zeros((n_rows, self.orders.shape[1]), self.signs.dtype)

    def prepare(
        self, X: Rows, center: FloatArray, inverse: FloatArray, buffer: AnyArray
    ) -> AnyArray:
        """Return rows minus ``center``, times ``inverse``, padded with zeros."""
        dense = X.toarray() if sp.issparse(X) else X
        return _scale_rows(dense, center, inverse, buffer)[: len(dense)]

    def project(self, rows: Prepared, first: int, starts: AnyArray, sums: AnyArray) -> None:
        """Write ``starts`` plus products of prepared rows with frequencies from ``first`` on."""
        width = self.orders.shape[1]
        blocks = slice(first // width, (first + self.chunk_size) // width)
        hadamard.project_blocks(
            *(rows, self.signs[blocks], readonly(self.orders[blocks]), self.factors[blocks]),
            *(self.scales[first : first + self.chunk_size], np.empty((2, width), self.signs.dtype)),
            *(starts, sums),
        )


def _draw_hadamard_blocks(
    kernel: RadialKernel, generator: np.random.Generator, shape: tuple[int, int]
) -> tuple[AnyArray, ...]:
    width = shape[1]
    signs = generator.integers(0, 2, shape, np.int8) * np.int8(2) - np.int8(1)
    orders = generator.permuted(np.tile(np.arange(width, dtype=np.int32), (shape[0], 1)), axis=1)
    factors = generator.standard_normal(shape)
    # Norms of the rows of H G P H B: the right transform multiplies by sqrt(p), and each octonion
    # of a row of the left one has the norm sqrt(8).
    norms = np.sqrt(8 * width) * np.linalg.norm(factors, axis=1, keepdims=True)
    lengths = np.sqrt(generator.chisquare(width, shape)) / norms
    uniforms = generator.random((lengths.size, kernel.n_uniforms(width)))
    radii = kernel.radii(np.maximum(uniforms, _MIN_UNIFORM))
    return signs, orders, factors, lengths * radii.reshape(shape)


def _scale_rows(X: AnyArray, center: FloatArray, inverse: FloatArray, buffer: AnyArray) -> AnyArray:
    """Write ``(X - center) * inverse`` to the first rows of ``buffer``, and return it."""
    numbers = X if X.dtype.kind == "f" else X.astype(np.float64)
    arguments = readonly(numbers), readonly(center), readonly(inverse)
    trig.scale_rows(*arguments, _ROW_LIMITS[buffer.dtype.char], buffer)
    return buffer


def to_half_turns(frequencies: FloatArray, dtype: DTypeLike) -> FloatArray:
    """Return frequencies, given in radians, in half turns, which the loops use."""
    return limit_for_sums(frequencies / np.pi, dtype)


def limit_for_sums(numbers: FloatArray, dtype: DTypeLike) -> FloatArray:
    """Return numbers, with reduced exponents where sums of them could overflow."""
    return limit_exponents(numbers, _EXPONENT_LIMITS[np.dtype(dtype).char])


_MAPS = ("paired", "shifted")
_SAMPLINGS = ("auto", "iid", "orthogonal", "qmc", "structured")
# From this number on, structured frequencies are faster and more precise than the others.
_MIN_STRUCTURED_INPUTS = 256
_MEDIAN_ROWS = 1000  # ``center_`` is the median of about this many rows
_COMPONENT_BYTES = 64  # per component, without its frequency
_FREQUENCY_BYTES = 24.0  # per frequency and input: float64, and panels of both precisions
_MAX_CACHED_PHASES = 1024  # categories; drawing their phases is the slowest part of a prediction


class RandomFourier(DenseMap, DifferentiableMap, SeparableMap):
    """Random Fourier features (Rahimi & Recht 2007, section 3 and Algorithm 1).

    A kernel that depends on ``x - y`` is the mean of ``cos(w'(x - y))`` over a distribution of
    frequencies w. The features of a row are the cosines and sines of ``w'x`` for random
    frequencies, times ``sqrt(2/n_components)``. Their inner products are unbiased estimates of the
    kernel.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        A kernel with a known distribution of frequencies: ``"gaussian"``, ``"laplacian"``,
        ``"matern"``, ``"cauchy"``, ``"rational_quadratic"`` or an object such as
        ``Matern(nu=0.5)``.
    bandwidth : float, array-like (n_features,) or "median", default="median"
        In units of the inputs, one number or one per input. Infinity ignores an input.
        ``"median"`` is the median distance between rows in the metric of the kernel.
    categorical : list of int or array (n_features,) of bool, default=None
        Positions or a mask of categorical inputs. The kernel's factor of such an input is 1 if two
        rows have the same category, else the kernel's value at a distance of 1. Numbers are rounded
        to integers.
    n_components : int, default=1024
        Number of features: two per frequency in the paired map, one in the shifted map. If it is
        odd, the last feature of the paired map is one of the shifted map. The error of the kernel
        is proportional to ``1/sqrt(n_components)``.
    map : {"paired", "shifted"}, default="paired"
        "paired" features are cosines and sines. "shifted" features are ``sqrt(2/n_components)
        cos(w'x + b)`` with a random phase b. Their error is larger, and the inner product of equal
        rows is 1 only on average. Both estimate the kernel without bias.
    sampling : {"auto", "iid", "orthogonal", "qmc", "structured"}, default="auto"
        How frequencies are drawn. Each frequency has exactly the kernel's distribution.

        - "iid": independently.
        - "orthogonal": with mutually orthogonal directions, in groups of at most 1,024 (Yu et al.
          2016, *Orthogonal Random Features*, section 3).
        - "qmc": from a scrambled Sobol sequence (Avron et al. 2016, *Quasi-Monte Carlo Feature
          Maps*), for at most 21,201 inputs.
        - "structured": as products of Hadamard matrices and octonions (after Le, Sarlós & Smola
          2013, *Fastfood*). This is fast for many inputs, and needs a kernel of the Euclidean
          distance.
        - "auto": "structured" for such kernels and dense rows of at least 256 inputs, else "iid".

        For smooth kernels, all other ways have a smaller error than "iid".
    random_state : int, RandomState or None, default=None
        Seed. A larger ``n_components`` adds frequencies and keeps the others.
    n_jobs : int or None, default=None
        Number of threads; None means all processors. Results do not depend on it.

    Attributes
    ----------
    frequencies_ : array (n_frequencies, n_features)
        In radians per unit of the input; 0 for ignored and categorical inputs.
    phases_ : array (n_frequencies,) or (1,) or None
        Random phases of the shifted map, or of the last frequency of a paired map with an odd
        number of features.
    bandwidth_ : array (n_features,)
    center_ : array (n_features,)
        Approximate medians of the inputs; 0 for sparse rows. They are subtracted from rows in
        float64, so that large offsets do not cost digits.
    spreads_ : array (n_features,)
        Standard deviations of the random phases of categories; 0 for other inputs.
    unit_frequencies_ : array (n_frequencies, n_features) or None
        Frequencies at bandwidth 1; None for structured ones.
    blocks_ : HadamardBlocks or None
        Structured frequencies.
    sampling_ : str
        The sampling that ``"auto"`` has chosen, else ``sampling``.
    seed_ : int
    n_features_in_, feature_names_in_

    Notes
    -----
    In float32 a feature takes about ``0.3 + 0.01 n_features`` ns on one core, or 1.3 ns if it is
    structured. Frequencies take ``12 n_frequencies n_features`` bytes, structured ones 40 bytes
    each. In float32, rows that are thousands of bandwidths from ``center_`` lose digits.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> Z = RandomFourier(bandwidth=2.0, n_components=4096, random_state=0).fit_transform(X)
    >>> Z.shape
    (500, 4096)
    >>> exact = np.exp(-np.sum((X[0] - X[1]) ** 2) / (2 * 2.0**2))
    >>> bool(abs(Z[0] @ Z[1] - exact) < 0.05)
    True
    """

    _rebuilt = frozenset(("_cached_frequencies",))
    phases_: FloatArray | None
    unit_frequencies_: Any
    blocks_: HadamardBlocks | None

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        bandwidth: float | ArrayLike | str = "median",
        categorical: ArrayLike | None = None,
        n_components: int = 1024,
        map: Literal["paired", "shifted"] = "paired",
        sampling: Literal["auto", "iid", "orthogonal", "qmc", "structured"] = "auto",
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel, bandwidth, categorical, random_state, n_jobs)
        self.n_components, self.map, self.sampling = n_components, map, sampling

    def check_parameters(self) -> SpectralKernel:
        self._check_choice("map", self.map, _MAPS)
        self._check_choice("sampling", self.sampling, _SAMPLINGS)
        self._check_size()
        kernel = as_spectral_kernel(self.kernel)
        if self.sampling == "structured" and not isinstance(kernel, RadialKernel):
            raise KernelError(
                f"RandomFourier: sampling='structured' needs a kernel of the Euclidean distance, "
                f"which {type(kernel).__name__} is not; use sampling='orthogonal'."
            )
        return kernel

    def learn(self, X: Rows, kernel: Kernel) -> None:
        n_columns, n_inputs = int(self.n_components), X.shape[1]
        n_pairs = n_columns // 2 if self.map == "paired" else 0
        n_single = n_columns - 2 * n_pairs
        n, self.phases_ = n_pairs + n_single, None
        if n_single:
            self.phases_ = 2.0 * np.pi * stream(self.seed_, "phases").random(n_single)
        self.center_ = _approximate_medians(X)
        self.spreads_ = np.zeros(n_inputs)
        if (categorical := self._mask(X)).any():
            self.spreads_[categorical] = _phase_deviations(kernel, self.bandwidth_[categorical])
        self.unit_frequencies_ = self.blocks_ = None
        self.sampling_ = str(self.sampling)
        if self.sampling == "auto":
            has_many_inputs = n_inputs >= _MIN_STRUCTURED_INPUTS and not sp.issparse(X)
            is_structured = has_many_inputs and isinstance(kernel, RadialKernel)
            self.sampling_ = "structured" if is_structured else "iid"
        if self.sampling_ == "structured":
            self.blocks_ = HadamardBlocks.draw(cast(RadialKernel, kernel), self.seed_, n, n_inputs)
        else:
            # bytes_to_fit assumes structured frequencies for many inputs, because its arguments do
            # not say whether the rows are sparse.
            check_memory(
                f"RandomFourier: {n:,} frequencies of {n_inputs:,} inputs",
                _FREQUENCY_BYTES * n * n_inputs,
                "lower n_components, or use sampling='structured'",
            )
            self.unit_frequencies_ = draw_frequencies(
                cast(SpectralKernel, kernel), self.sampling_, self.seed_, n, n_inputs
            )
        self._cached_frequencies: dict[str, Panels | HadamardBlocks] = {}

    def compute(self, X: Rows, out: AnyArray) -> None:
        self._check_inputs(X)
        self._check_shapes()
        frequencies, n = self._typed_frequencies(out.dtype), self._n_frequencies
        chunk_size, n_pairs = frequencies.chunk_size, self._n_pairs
        starts = np.zeros(-(-n // chunk_size) * chunk_size, out.dtype)
        starts[n_pairs:n] = self._single_phases / np.pi
        scale = out.dtype.type(np.sqrt(2.0 / self.n_features_out))
        inverse, categorical = self._inverse_bandwidth(), self.spreads_ > 0
        categories = self._phases_of_categories(X, categorical, out.dtype)
        block_rows = min(frequencies.max_rows, X.shape[0])
        buffer = frequencies.buffer(block_rows, sp.issparse(X))
        # The loops write whole groups of rows, also for an incomplete last one.
        sums = np.empty((block_rows + trig.GROUP_ROWS, chunk_size), out.dtype)
        for a, b in row_blocks(X.shape[0], block_rows):
            rows = frequencies.prepare(X[a:b], self.center_, inverse, buffer)
            for first in range(0, n, chunk_size):
                last = min(first + chunk_size, n)
                frequencies.project(rows, first, starts[first : first + chunk_size], sums)
                for table, codes in categories:
                    sums[: b - a, : last - first] += table[codes[a:b], first:last]
                if first < n_pairs:
                    trig.write_cosines_and_sines(sums, b - a, scale, out, a, first)
                if last > n_pairs:
                    n_paired = max(n_pairs - first, 0)
                    single = np.ascontiguousarray(sums[:, n_paired:])
                    trig.write_cosines(single, b - a, scale, out, a, n_pairs + first + n_paired)

    def bytes_to_fit(self, n_rows: int, n_inputs: int) -> float:
        is_auto = self.sampling == "auto" and n_inputs >= _MIN_STRUCTURED_INPUTS
        is_structured = is_auto or self.sampling == "structured"
        return float(self.size) * (_COMPONENT_BYTES + (0 if is_structured else 8 * n_inputs))

    def gradients(self, X: Rows, weights: FloatArray) -> FloatArray:
        # The derivative of a cosine is the cosine shifted by a quarter turn.
        features = np.empty((X.shape[0], self.n_features_out))
        outputs, n_paired = weights.reshape(len(weights), -1), 2 * self._n_pairs
        shifted = self
        if self.phases_ is not None:
            # A copy of the map that shares all attributes but the phases.
            shifted = object.__new__(type(self))
            shifted.__dict__.update(self.__dict__, phases_=self.phases_ + np.pi / 2)
        shifted.compute(X, features)
        cosines, sines = features[:, :n_paired:2, None], features[:, 1:n_paired:2, None]
        pairs = -sines * outputs[:n_paired:2] + cosines * outputs[1:n_paired:2]
        slopes = np.concatenate([pairs, features[:, n_paired:, None] * outputs[n_paired:]], axis=1)
        with one_blas_thread():
            gradients = np.einsum("nmk,md->ndk", slopes, self.frequencies_, optimize=True)
        return gradients.reshape(*gradients.shape[:2], *weights.shape[1:])

    def terms(self, weights: FloatArray) -> AnyArray:
        n_paired = 2 * self._n_pairs
        pairs = weights[:n_paired:2] - 1j * weights[1:n_paired:2]
        single = np.exp(1j * self._single_phases)[:, None] * weights[n_paired:]
        terms: AnyArray = np.sqrt(2.0 / len(weights)) * np.concatenate([pairs, single])
        return terms

    def factors(self, X: FloatArray, columns: IntArray) -> AnyArray:
        categorical = np.zeros(X.shape[1], bool)
        categorical[columns] = self.spreads_[columns] > 0
        frequencies = self.frequencies_[:, columns]
        with one_blas_thread():
            angles = (X[:, columns] - self.center_[columns]) @ frequencies.T
        for table, codes in self._phases_of_categories(X, categorical, np.dtype(np.float64)):
            angles += np.pi * table[codes]
        return np.exp(1j * angles)

    @property
    def frequencies_(self) -> FloatArray:
        """Frequencies (n_frequencies, n_features) in radians per unit of the inputs."""
        unit, inverse = self.unit_frequencies_, self._inverse_bandwidth()
        if self.blocks_ is not None:
            unit = self.blocks_.frequencies(len(inverse))
        with np.errstate(over="ignore"):
            return np.asarray(unit * inverse)

    @property
    def _n_frequencies(self) -> int:
        return len(self.unit_frequencies_ if self.blocks_ is None else self.blocks_.scales)

    @property
    def _single_phases(self) -> FloatArray:
        """Phases of the last frequencies, those with a single feature."""
        return np.zeros(0) if self.phases_ is None else self.phases_

    @property
    def _n_pairs(self) -> int:
        return self._n_frequencies - len(self._single_phases)

    @property
    def n_features_out(self) -> int:
        return self._n_frequencies + self._n_pairs

    def _typed_frequencies(self, dtype: np.dtype[np.floating]) -> Panels | HadamardBlocks:
        # Not part of the state: models from files have none at first.
        cache: dict[str, Panels | HadamardBlocks]
        cache = self.__dict__.setdefault("_cached_frequencies", {})
        if dtype.char not in cache:
            blocks, unit = self.blocks_, self.unit_frequencies_
            cache[dtype.char] = Panels.of(unit, dtype) if blocks is None else blocks.astype(dtype)
        return cache[dtype.char]

    def check_state(self, state: State) -> None:
        super().check_state(state)
        n_inputs = len(part_in(state, "bandwidth_", np.ndarray))
        array_in(state, "center_", np.float64, (n_inputs,), finite=True)
        spreads = array_in(state, "spreads_", np.float64, (n_inputs,), finite=True)
        # Angles are their products with normal numbers, and must be finite.
        require(bool((spreads <= LARGEST**0.25).all()), "spreads_ are too large")
        require((spreads >= 0).all(), "spreads_ must not be negative")
        if state["blocks_"] is None:
            unit = array_in(state, "unit_frequencies_", np.float64, (None, n_inputs), finite=True)
            n = len(unit)
        else:
            blocks = part_in(state, "blocks_", HadamardBlocks)
            require(blocks.orders.shape[1] >= n_inputs, "blocks_ have too few inputs")
            n = len(blocks.scales)
        require(n > 0 and "unit_frequencies_" in state, "there are no frequencies")
        if state["phases_"] is not None:
            phases = array_in(state, "phases_", np.float64, finite=True)
            require(phases.shape in ((1,), (n,)), "phases_ do not fit the frequencies")

    def _check_shapes(self) -> None:
        # Users can assign fitted attributes, and the loops do not check bounds.
        n_inputs, n = len(self.center_), self._n_frequencies
        if self.blocks_ is None:
            is_valid = self.unit_frequencies_.shape == (n, n_inputs)
        else:
            is_valid = self.blocks_.orders.shape[1] >= n_inputs
        shapes = {self.bandwidth_.shape, self.spreads_.shape}
        is_valid = is_valid and shapes == {(n_inputs,)} and n > 0
        if not is_valid or (self.phases_ is not None and self.phases_.shape not in ((1,), (n,))):
            raise InputError(
                "RandomFourier: the fitted arrays do not fit each other; fit it again."
            )

    def _inverse_bandwidth(self) -> FloatArray:
        """Return ``1 / bandwidth``; 0 for ignored and categorical inputs."""
        used = np.isfinite(self.bandwidth_) & (self.spreads_ == 0)
        with np.errstate(over="ignore"):
            inverse = np.where(used, 1.0 / self.bandwidth_, 0.0)
        return clip_infinities(inverse)

    def _phases_of_categories(
        self, X: Rows, categorical: BoolArray, dtype: np.dtype[np.floating]
    ) -> list[tuple[AnyArray, NDArray[np.intp]]]:
        """Return a table (n_values, n_frequencies) and the codes of rows for each such input."""
        tables = []
        for j, column in dense_columns(X, categorical):
            values, codes = np.unique(np.rint(column), return_inverse=True)
            phases = [
                _draw_category_normals(self.seed_, j, int(v), self._n_frequencies) for v in values
            ]
            tables.append(((self.spreads_[j] / np.pi * np.stack(phases)).astype(dtype), codes))
        return tables


@lru_cache(maxsize=_MAX_CACHED_PHASES)
def _draw_category_normals(seed: int, position: int, category: int, n: int) -> FloatArray:
    """Return n normal numbers that depend on the category only, also for unseen ones."""
    generator = stream(seed, f"categories of input {position}", category % 2**64)
    normals = generator.standard_normal(n)
    normals.setflags(write=False)
    return normals


def _approximate_medians(X: Rows) -> FloatArray:
    """Return the medians of a sample of rows; zeros for sparse rows, which must stay sparse."""
    if sp.issparse(X):
        return np.zeros(X.shape[1])
    sample = np.sort(X[:: max(1, len(X) // _MEDIAN_ROWS)].astype(np.float64), axis=0)
    return np.ascontiguousarray(sample[len(sample) // 2])


def _phase_deviations(kernel: Kernel, bandwidth: FloatArray) -> FloatArray:
    """Return deviations of normal phases a and b with ``E cos(a - b) = profile(1 / bandwidth)``."""
    if _has_sum(kernel):
        raise KernelError(
            "RandomFourier: a Sum kernel has no random phases for categories; use a Mixture or a "
            "Product, or leave out 'categorical'."
        )
    factors = np.clip(kernel.profile(1.0 / bandwidth), np.finfo(np.float64).tiny, 1.0)
    return np.sqrt(-np.log(factors))


def _has_sum(kernel: Kernel) -> bool:
    return isinstance(kernel, Sum) or any(_has_sum(part) for part in kernel.parts)
