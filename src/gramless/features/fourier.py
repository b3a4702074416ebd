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
from gramless.base.numeric import in_range
from gramless.base.random import RandomState, stream
from gramless.base.state import LARGEST, State, Stateful, array_in, part_in, require
from gramless.base.threads import one_blas_thread, row_blocks
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.features.base import DenseMap, DifferentiableMap, SeparableMap
from gramless.kernels import Kernel, KernelLike, RadialKernel, SpectralKernel, as_spectral_kernel
from gramless.kernels.composites import Sum
from gramless.kernels.spectral import within_exponents
from gramless.loops import hadamard, trig
from gramless.preprocessing.rows import Rows, dense_columns

Prepared: TypeAlias = AnyArray | tuple[AnyArray, AnyArray, AnyArray]
"""Rows ready to meet frequencies: whole groups, or the parts of CSR."""

_BLOCK = 256
"""Frequencies drawn from one random stream."""
_MOST_ORTHOGONAL = 1024
"""The most directions orthogonal to each other: the work for each grows with their number."""
_MOST_TOGETHER = 1 << 24
"""The most numbers made orthogonal at once."""
_SMALLEST_UNIFORM = 2.0**-54
_HALF_STEP = 2.0**-31
"""Sobol points are multiples of twice this."""

_ROWS = 192
_SUMS_AT_ONCE = 1 << 17

# A row beyond these limits, times a frequency, transformed twice over a million inputs, is finite.
_ROW_LIMITS = {"f": 2.0**36, "d": 2.0**600}
_EXPONENT_LIMITS = {"f": 50, "d": 200}


def draw_frequencies(
    kernel: SpectralKernel, sampling: str, seed: int, n_frequencies: int, n_inputs: int
) -> FloatArray:
    """Draw frequencies of the kernel's distribution at bandwidth 1: fewer are the first of more."""
    n_uniforms = kernel.n_uniforms(n_inputs)
    if sampling == "qmc":
        return kernel.frequencies(*_low_discrepancy(seed, n_frequencies, n_inputs, n_uniforms))
    if sampling == "orthogonal":
        normals = _orthogonal(seed, n_frequencies, n_inputs)
    else:
        normals = np.empty((n_frequencies, n_inputs))
        for k, (a, b) in enumerate(row_blocks(n_frequencies, _BLOCK)):
            stream(seed, "frequencies", k).standard_normal(out=normals[a:b])
    uniforms = np.empty((n_frequencies, n_uniforms))
    for k, (a, b) in enumerate(row_blocks(n_frequencies, _BLOCK)):
        stream(seed, "uniforms of frequencies", k).random(out=uniforms[a:b])
    return kernel.frequencies(normals, uniforms)


def _orthogonal(seed: int, n: int, n_inputs: int) -> FloatArray:
    """Draw uniform directions orthogonal to each other, with the lengths of normal vectors."""
    size = min(n_inputs, _MOST_ORTHOGONAL, max(1, _MOST_TOGETHER // n_inputs))
    shape = (max(1, _BLOCK // size), n_inputs, size)
    normals = np.empty((n, n_inputs))
    for k, (a, b) in enumerate(row_blocks(n, shape[0] * size)):
        generator = stream(seed, "orthogonal frequencies", k)
        with one_blas_thread():
            columns, triangles = np.linalg.qr(generator.standard_normal(shape))
        # Only with a positive diagonal is the decomposition unique, and its distribution the Haar
        # measure.
        columns *= np.sign(np.diagonal(triangles, axis1=1, axis2=2))[:, None]
        columns *= np.sqrt(generator.chisquare(n_inputs, (shape[0], 1, size)))
        normals[a:b] = columns.swapaxes(1, 2).reshape(-1, n_inputs)[: b - a]
    return normals


def _low_discrepancy(
    seed: int, n: int, n_inputs: int, n_uniforms: int
) -> tuple[FloatArray, FloatArray]:
    n_dimensions = n_inputs + n_uniforms
    if n_dimensions > qmc.Sobol.MAXDIM:
        raise InputError(
            f"sampling='qmc' needs {n_dimensions} dimensions for {n_inputs} inputs, and Sobol "
            f"sequences end at {qmc.Sobol.MAXDIM}; use sampling='orthogonal'."
        )
    scrambling = int(stream(seed, "sobol frequencies").integers(2**31))
    sequence = qmc.Sobol(n_dimensions, seed=scrambling)
    points = sequence.random_base2((n - 1).bit_length())[:n] + _HALF_STEP
    return ndtri(points[:, :n_inputs]), points[:, n_inputs:]


@dataclass(frozen=True)
class Panels:
    """Frequencies that are written down: panels (n_panels, n_inputs, frequencies a panel)."""

    panels: AnyArray
    chunk: ClassVar[int] = 528
    """How many frequencies are projected on at once: whole panels, but no power of two, for which
    the sums of all rows would fall into the same cache lines."""
    rows_at_once: ClassVar[int] = _ROWS
    """The most rows that are projected at once."""

    @classmethod
    def of(cls, frequencies: FloatArray, dtype: DTypeLike) -> Panels:
        """Cut up frequencies (n, n_inputs), converted to half turns, for rows of some precision."""
        n, n_inputs = frequencies.shape
        lanes = trig.PANEL_BYTES // np.dtype(dtype).itemsize
        whole = np.zeros((-(-n // lanes) * lanes, n_inputs), dtype)
        whole[:n] = half_turns(frequencies, dtype)
        return cls(np.ascontiguousarray(whole.reshape(-1, lanes, n_inputs).swapaxes(1, 2)))

    def room(self, n_rows: int, sparse: bool) -> AnyArray:
        """Return an array into which :meth:`prepare` writes that many rows if it has to."""
        shape = 0 if sparse else -(-n_rows // trig.GROUP_ROWS) * trig.GROUP_ROWS
        return np.zeros((shape, self.panels.shape[1]), self.panels.dtype)

    def prepare(self, X: Rows, center: FloatArray, inverse: FloatArray, room: AnyArray) -> Prepared:
        """Return a few rows in units of the bandwidth: whole groups, or the parts of CSR."""
        if sp.issparse(X) and center.any():
            X, room = X.toarray(), self.room(X.shape[0], sparse=False)
        if not sp.issparse(X):
            n_groups = -(-len(X) // trig.GROUP_ROWS)
            return _scaled(X, center, inverse, room)[: n_groups * trig.GROUP_ROWS]
        limit = _ROW_LIMITS[room.dtype.char]
        with np.errstate(over="ignore"):
            values = np.clip(X.data * inverse[X.indices], -limit, limit)
        return X.indptr, X.indices, values.astype(room.dtype)

    def project(self, rows: Prepared, first: int, starts: AnyArray, sums: AnyArray) -> None:
        """Write ``starts`` plus products of prepared rows with frequencies from ``first`` on."""
        lanes = self.panels.shape[2]
        panels = self.panels[first // lanes : (first + self.chunk) // lanes]
        if isinstance(rows, tuple):
            trig.project_sparse(*rows, panels, starts, sums)
        else:
            trig.project(rows, panels, starts, sums)


@dataclass(frozen=True, repr=False)
class HadamardBlocks(Stateful):
    """Frequencies that are never written down: products of Hadamard matrices and octonions.

    The p frequencies of a block, p a power of two, are the rows of ``S H G P H B`` with random
    signs B, a random permutation P, normal numbers G and lengths S. In *Fastfood* (Le, Sarlós &
    Smola 2013) G is a diagonal. Here it multiplies p / 8 octonions by p / 8 normal ones, of eight
    numbers each. In both, whatever B and P, each row is the numbers of G rotated, times a constant:
    with its length drawn anew it is exactly normal, and S may contain a kernel's radii as well. But
    octonions keep angles: of the projections of a row on two frequencies of a block, seven pairs in
    eight are uncorrelated, and the kernel's squared error is near that of orthogonal frequencies.
    """

    signs: AnyArray
    """Those of B (n_blocks, p)."""
    orders: NDArray[np.int32]
    """Permutations (n_blocks, p)."""
    factors: AnyArray
    """Those of G (n_blocks, p); number c of octonion b stands at ``c p / 8 + b``."""
    scales: AnyArray
    """Lengths of S (n_frequencies,); the last block may be cut off."""

    def check(self) -> None:
        array_in(vars(self), "signs", np.int8)
        array_in(vars(self), "orders", np.int32)
        for name in ("factors", "scales"):
            numbers = array_in(vars(self), name, np.float64, finite=True)
            # Their products are frequencies.
            require(bool((np.abs(numbers) <= LARGEST**0.25).all()), f"{name} are too large")

    def __post_init__(self) -> None:
        # The loops trust these sizes and numbers, which may come from a file.
        n_blocks, width = shape = self.orders.shape
        fit = self.signs.shape == self.factors.shape == shape and self.scales.ndim == 1
        fit = fit and self.orders.dtype.kind == "i"
        fit = fit and width >= hadamard.LANES and width & (width - 1) == 0
        fit = fit and (n_blocks - 1) * width < self.scales.size <= n_blocks * width
        if not fit or not (np.sort(self.orders, axis=1) == np.arange(width)).all():
            raise InputError("HadamardBlocks: its arrays do not fit each other.")

    @classmethod
    def draw(
        cls, kernel: RadialKernel, seed: int, n_frequencies: int, n_inputs: int
    ) -> HadamardBlocks:
        """Draw the frequencies of a kernel at bandwidth 1; fewer are the first of more."""
        width = max(hadamard.LANES, 1 << (n_inputs - 1).bit_length())
        shape, n_blocks = (max(1, _BLOCK // width), width), -(-n_frequencies // width)
        parts = [
            _hadamard_blocks(kernel, stream(seed, "hadamard frequencies", k), shape)
            for k in range(-(-n_blocks // shape[0]))
        ]
        whole = (np.concatenate(part)[:n_blocks] for part in zip(*parts, strict=True))
        signs, orders, factors, scales = whole
        return cls(signs, orders, factors, scales.ravel()[:n_frequencies])

    def astype(self, dtype: DTypeLike) -> HadamardBlocks:
        """Return the same frequencies, for rows of some precision."""
        signs, factors = self.signs.astype(dtype), self.factors.astype(dtype)
        scales = half_turns(self.scales, dtype).astype(dtype)
        return HadamardBlocks(signs, self.orders, factors, scales)

    def frequencies(self, n_inputs: int) -> FloatArray:
        """Write the frequencies down, (n_frequencies, n_inputs)."""
        blocks, n = self.astype(np.float64), len(self.scales)
        starts, room = np.zeros(self.chunk), blocks.room(n_inputs, sparse=False)
        rows = blocks.prepare(np.eye(n_inputs), np.zeros(n_inputs), np.ones(n_inputs), room)
        found = np.empty((n, n_inputs))
        for first in range(0, n, self.chunk):
            sums = np.empty((n_inputs, self.chunk))
            blocks.project(rows, first, starts, sums)
            found[first : first + self.chunk] = np.pi * sums.T[: n - first]
        return found

    @property
    def chunk(self) -> int:
        """How many frequencies are projected on at once: whole blocks."""
        width = self.orders.shape[1]
        return max(1, Panels.chunk // width) * width

    @property
    def rows_at_once(self) -> int:
        """The most rows that are projected at once."""
        return max(1, min(_ROWS, _SUMS_AT_ONCE // self.chunk))

    def room(self, n_rows: int, sparse: bool) -> AnyArray:
        """Return an array into which :meth:`prepare` writes that many rows."""
        return np.zeros((n_rows, self.orders.shape[1]), self.signs.dtype)

    def prepare(self, X: Rows, center: FloatArray, inverse: FloatArray, room: AnyArray) -> AnyArray:
        """Return a few rows in units of the bandwidth, padded with zeros."""
        dense = X.toarray() if sp.issparse(X) else X
        return _scaled(dense, center, inverse, room)[: len(dense)]

    def project(self, rows: Prepared, first: int, starts: AnyArray, sums: AnyArray) -> None:
        """Write ``starts`` plus products of prepared rows with frequencies from ``first`` on."""
        width = self.orders.shape[1]
        blocks = slice(first // width, (first + self.chunk) // width)
        hadamard.project_blocks(
            *(rows, self.signs[blocks], readonly(self.orders[blocks]), self.factors[blocks]),
            *(self.scales[first : first + self.chunk], np.empty((2, width), self.signs.dtype)),
            *(starts, sums),
        )


def _hadamard_blocks(
    kernel: RadialKernel, generator: np.random.Generator, shape: tuple[int, int]
) -> tuple[AnyArray, ...]:
    """Draw signs, orders, factors and scales of some blocks."""
    width = shape[1]
    signs = generator.integers(0, 2, shape, np.int8) * np.int8(2) - np.int8(1)
    orders = generator.permuted(np.tile(np.arange(width, dtype=np.int32), (shape[0], 1)), axis=1)
    factors = generator.standard_normal(shape)
    # Of the rows of H G P H B: the right transform lengthens by sqrt(p), and each octonion of a row
    # of the left one has the norm sqrt(8).
    norms = np.sqrt(8 * width) * np.linalg.norm(factors, axis=1, keepdims=True)
    lengths = np.sqrt(generator.chisquare(width, shape)) / norms
    uniforms = generator.random((lengths.size, kernel.n_uniforms(width)))
    radii = kernel.radii(np.maximum(uniforms, _SMALLEST_UNIFORM))
    return signs, orders, factors, lengths * radii.reshape(shape)


def _scaled(X: AnyArray, center: FloatArray, inverse: FloatArray, room: AnyArray) -> AnyArray:
    """Write rows in units of the bandwidth into ``room``, at least as large, and return it."""
    numbers = X if X.dtype.kind == "f" else X.astype(np.float64)
    given = readonly(numbers), readonly(center), readonly(inverse)
    trig.scale_rows(*given, _ROW_LIMITS[room.dtype.char], room)
    return room


def half_turns(frequencies: FloatArray, dtype: DTypeLike) -> FloatArray:
    """Convert frequencies from radians to half turns, the unit of the loops."""
    return summable(frequencies / np.pi, dtype)


def summable(numbers: FloatArray, dtype: DTypeLike) -> FloatArray:
    """Lower the exponents of numbers too large for sums of them to be finite."""
    return within_exponents(numbers, _EXPONENT_LIMITS[np.dtype(dtype).char])


_MAPS = ("paired", "shifted")
_SAMPLINGS = ("auto", "iid", "orthogonal", "qmc", "structured")
_MANY_INPUTS = 256
"""Inputs from which structured frequencies are the fastest and the most precise."""
_ROWS_LOOKED_AT = 1000
_COMPONENT_BYTES, _FREQUENCY_BYTES = 64, 24.0
"""Bytes of a component beside its frequency; of each input of a frequency in all forms."""
_PHASES_KEPT = 1024
"""Categories whose phases are cached, since drawing them costs more than all else."""


class RandomFourier(DenseMap, DifferentiableMap, SeparableMap):
    """Random Fourier features (Rahimi & Recht 2007, section 3 and Algorithm 1).

    A kernel of the difference of two rows is the mean of ``cos(w'(x - y))`` over a distribution of
    frequencies w. The features of a row are the cosine and sine of ``w'x`` for some random
    frequencies, times ``sqrt(2/n_components)``; inner products estimate the kernel without bias.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        One that has a distribution of frequencies: ``"gaussian"``, ``"laplacian"``, ``"matern"``,
        ``"cauchy"``, ``"rational_quadratic"``, an object such as ``Matern(nu=0.5)``.
    bandwidth : float, array-like (n_features,) or "median", default="median"
        In units of the inputs, one number or one an input (infinity ignores an input);
        ``"median"`` takes the median distance between rows, in the metric of the kernel.
    categorical : list of int or array (n_features,) of bool, default=None
        Positions or a mask of inputs whose numbers are categories: the kernel's factor is 1 where
        two rows agree, else that of a distance of 1. New rows count as the nearest whole number.
    n_components : int, default=1024
        Columns: two per frequency in the paired map, one in the shifted map. If the number is odd,
        the last column of the paired map is a column of the shifted map. The error of the kernel
        falls as ``1/sqrt(n_components)``.
    map : {"paired", "shifted"}, default="paired"
        "paired" is cosine and sine; "shifted" is ``sqrt(2/n_components) cos(w'x + b)`` with a
        random phase b. The error of "shifted" is larger, and the inner product of equal rows is 1
        only on average. Both estimate the kernel without bias, for every ``n_components``.
    sampling : {"auto", "iid", "orthogonal", "qmc", "structured"}, default="auto"
        How frequencies are drawn; each follows the kernel's distribution exactly. Independent; in
        directions that are orthogonal to each other, at most 1,024 at a time (Yu et al. 2016,
        *Orthogonal Random Features*, section 3); along a scrambled Sobol sequence (Avron et al.
        2016, *Quasi-Monte Carlo Feature Maps*), at most 21,201 inputs; or as products of Hadamard
        matrices and octonions (after Le, Sarlós & Smola 2013, *Fastfood*), fast where inputs are
        many, for kernels of the Euclidean distance alone. All err less than independent ones where
        the kernel is smooth. ``"auto"``: structured for such kernels and dense rows of 256 inputs
        or more, else independent.
    random_state : int, RandomState or None, default=None
        Raising ``n_components`` keeps the earlier frequencies.
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    frequencies_ : array (n_frequencies, n_features)
        In radians a unit of the input, 0 for inputs ignored and categories.
    phases_ : array (n_frequencies,) or (1,) or None
        Random phases of the shifted map, or of the last frequency of a paired map with an odd
        number of columns.
    bandwidth_ : array (n_features,)
    center_ : array (n_features,)
        Subtracted from rows in float64, so that large offsets cost no digits; 0 for sparse rows.
    spreads_ : array (n_features,)
        Standard deviations of the phases that categories have, 0 for other inputs.
    unit_frequencies_ : array (n_frequencies, n_features) or None
        At bandwidth 1; None for structured ones.
    blocks_ : HadamardBlocks or None
        Structured frequencies.
    sampling_ : str
        How they were drawn.
    seed_ : int
    n_features_in_, feature_names_in_

    Notes
    -----
    In float32 a number takes some ``0.3 + 0.01 n_features`` ns on one core, a structured one 1.3
    ns. Frequencies take ``12 n_frequencies n_features`` bytes, structured ones 40 each. In float32,
    rows thousands of bandwidths from ``center_`` have lost digits.

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

    _rebuilt = frozenset(("_typed",))
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
        random_state: RandomState = None,
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
                f"and {type(kernel).__name__} is none; use sampling='orthogonal'."
            )
        return kernel

    def learn(self, X: Rows, kernel: Kernel) -> None:
        n_columns, n_inputs = int(self.n_components), X.shape[1]
        n_pairs = n_columns // 2 if self.map == "paired" else 0
        n_single = n_columns - 2 * n_pairs
        n, self.phases_ = n_pairs + n_single, None
        if n_single:
            self.phases_ = 2.0 * np.pi * stream(self.seed_, "phases").random(n_single)
        self.center_ = _center(X)
        self.spreads_ = np.zeros(n_inputs)
        if (categorical := self._mask(X)).any():
            self.spreads_[categorical] = _spreads(kernel, self.bandwidth_[categorical])
        self.unit_frequencies_ = self.blocks_ = None
        many = n_inputs >= _MANY_INPUTS and not sp.issparse(X) and isinstance(kernel, RadialKernel)
        chosen = "structured" if many else "iid"
        self.sampling_ = chosen if self.sampling == "auto" else str(self.sampling)
        if self.sampling_ == "structured":
            self.blocks_ = HadamardBlocks.draw(cast(RadialKernel, kernel), self.seed_, n, n_inputs)
        else:
            # The sampling depends on the rows, which bytes_to_fit does not know.
            check_memory(
                f"RandomFourier: {n:,} frequencies of {n_inputs:,} inputs",
                _FREQUENCY_BYTES * n * n_inputs,
                "lower n_components, or take sampling='structured'",
            )
            self.unit_frequencies_ = draw_frequencies(
                cast(SpectralKernel, kernel), self.sampling_, self.seed_, n, n_inputs
            )
        self._typed: dict[str, Panels | HadamardBlocks] = {}

    def compute(self, X: Rows, out: AnyArray) -> None:
        self._check_inputs(X)
        self._check_shapes()
        frequencies, n = self._frequencies_in(out.dtype), self._n_frequencies
        chunk, n_pairs = frequencies.chunk, self._n_pairs
        starts = np.zeros(-(-n // chunk) * chunk, out.dtype)
        starts[n_pairs:n] = self._single_phases / np.pi
        scale = out.dtype.type(np.sqrt(2.0 / self._n_features_out))
        inverse, categorical = self._inverse_bandwidth(), self.spreads_ > 0
        categories = self._phases_of_categories(X, categorical, out.dtype)
        n_together = min(frequencies.rows_at_once, X.shape[0])
        room = frequencies.room(n_together, sp.issparse(X))
        # The loops fill up the last group of rows.
        sums = np.empty((n_together + trig.GROUP_ROWS, chunk), out.dtype)
        for a, b in row_blocks(X.shape[0], n_together):
            rows = frequencies.prepare(X[a:b], self.center_, inverse, room)
            for first in range(0, n, chunk):
                last = min(first + chunk, n)
                frequencies.project(rows, first, starts[first : first + chunk], sums)
                for table, codes in categories:
                    sums[: b - a, : last - first] += table[codes[a:b], first:last]
                if first < n_pairs:
                    trig.paired(sums, b - a, scale, out, a, first)
                if last > n_pairs:
                    skipped = max(n_pairs - first, 0)
                    single = np.ascontiguousarray(sums[:, skipped:])
                    trig.cosines(single, b - a, scale, out, a, n_pairs + first + skipped)

    def bytes_to_fit(self, n_rows: int, n_inputs: int) -> float:
        auto = self.sampling == "auto" and n_inputs >= _MANY_INPUTS
        structured = auto or self.sampling == "structured"
        return float(self.size) * (_COMPONENT_BYTES + (0 if structured else 8 * n_inputs))

    def gradients(self, X: Rows, weights: FloatArray) -> FloatArray:
        # A quarter of a turn further, features are their own derivatives.
        features = np.empty((X.shape[0], self._n_features_out))
        outputs, n_paired = weights.reshape(len(weights), -1), 2 * self._n_pairs
        turned = self
        if self.phases_ is not None:
            turned = object.__new__(type(self))
            turned.__dict__.update(self.__dict__, phases_=self.phases_ + np.pi / 2)
        turned.compute(X, features)
        cosines, sines = features[:, :n_paired:2, None], features[:, 1:n_paired:2, None]
        pairs = -sines * outputs[:n_paired:2] + cosines * outputs[1:n_paired:2]
        slopes = np.concatenate([pairs, features[:, n_paired:, None] * outputs[n_paired:]], axis=1)
        with one_blas_thread():
            found = np.einsum("nmk,md->ndk", slopes, self.frequencies_, optimize=True)
        return found.reshape(*found.shape[:2], *weights.shape[1:])

    def terms(self, weights: FloatArray) -> AnyArray:
        n_paired = 2 * self._n_pairs
        pairs = weights[:n_paired:2] - 1j * weights[1:n_paired:2]
        single = np.exp(1j * self._single_phases)[:, None] * weights[n_paired:]
        terms: AnyArray = np.sqrt(2.0 / len(weights)) * np.concatenate([pairs, single])
        return terms

    def factors(self, X: FloatArray, columns: IntArray) -> AnyArray:
        categorical = np.zeros(X.shape[1], bool)
        categorical[columns] = self.spreads_[columns] > 0
        used = self.frequencies_[:, columns]
        with one_blas_thread():
            angles = (X[:, columns] - self.center_[columns]) @ used.T
        for table, codes in self._phases_of_categories(X, categorical, np.dtype(np.float64)):
            angles += np.pi * table[codes]
        return np.exp(1j * angles)

    @property
    def frequencies_(self) -> FloatArray:
        """Frequencies in units of the inputs, (n_frequencies, n_features)."""
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
        """The phases of the last frequencies, which have one column each."""
        return np.zeros(0) if self.phases_ is None else self.phases_

    @property
    def _n_pairs(self) -> int:
        return self._n_frequencies - len(self._single_phases)

    @property
    def _n_features_out(self) -> int:
        return self._n_frequencies + self._n_pairs

    def _frequencies_in(self, dtype: np.dtype[np.floating]) -> Panels | HadamardBlocks:
        # Not part of the state: models read from a file make it when they need it.
        typed: dict[str, Panels | HadamardBlocks] = self.__dict__.setdefault("_typed", {})
        if dtype.char not in typed:
            blocks, unit = self.blocks_, self.unit_frequencies_
            typed[dtype.char] = Panels.of(unit, dtype) if blocks is None else blocks.astype(dtype)
        return typed[dtype.char]

    def check_state(self, state: State) -> None:
        super().check_state(state)
        n_inputs = len(part_in(state, "bandwidth_", np.ndarray))
        array_in(state, "center_", np.float64, (n_inputs,), finite=True)
        spreads = array_in(state, "spreads_", np.float64, (n_inputs,), finite=True)
        # Their products with phases are angles.
        require(bool((spreads <= LARGEST**0.25).all()), "spreads_ are too large")
        require((spreads >= 0).all(), "spreads_ are negative")
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
        """Check that fitted arrays fit each other: attributes may have been set by hand."""
        n_inputs, n = len(self.center_), self._n_frequencies
        if self.blocks_ is None:
            fit = self.unit_frequencies_.shape == (n, n_inputs)
        else:
            fit = self.blocks_.orders.shape[1] >= n_inputs
        fit = fit and self.bandwidth_.shape == self.spreads_.shape == (n_inputs,) and n > 0
        if not fit or (self.phases_ is not None and self.phases_.shape not in ((1,), (n,))):
            raise InputError("RandomFourier: its fitted arrays do not fit each other; fit it anew.")

    def _inverse_bandwidth(self) -> FloatArray:
        """Return 1 / bandwidth; 0 for ignored and categorical inputs."""
        used = np.isfinite(self.bandwidth_) & (self.spreads_ == 0)
        with np.errstate(over="ignore"):
            inverse = np.where(used, 1.0 / self.bandwidth_, 0.0)
        return in_range(inverse)

    def _phases_of_categories(
        self, X: Rows, categorical: BoolArray, dtype: np.dtype[np.floating]
    ) -> list[tuple[AnyArray, NDArray[np.intp]]]:
        """Return phases (n_values, n_frequencies) and codes of rows for some categorical inputs."""
        found = []
        for j, column in dense_columns(X, categorical):
            values, codes = np.unique(np.rint(column), return_inverse=True)
            phases = [_normals(self.seed_, j, int(v), self._n_frequencies) for v in values]
            found.append(((self.spreads_[j] / np.pi * np.stack(phases)).astype(dtype), codes))
        return found


@lru_cache(maxsize=_PHASES_KEPT)
def _normals(seed: int, position: int, category: int, n: int) -> FloatArray:
    """Return the normal numbers of a category, which need not have been seen before."""
    generator = stream(seed, f"categories of input {position}", category % 2**64)
    normals = generator.standard_normal(n)
    normals.setflags(write=False)
    return normals


def _center(X: Rows) -> FloatArray:
    """Return approximate medians of the inputs; zeros for sparse rows, which stay sparse."""
    if sp.issparse(X):
        return np.zeros(X.shape[1])
    sample = np.sort(X[:: max(1, len(X) // _ROWS_LOOKED_AT)].astype(np.float64), axis=0)
    return np.ascontiguousarray(sample[len(sample) // 2])


def _spreads(kernel: Kernel, bandwidth: FloatArray) -> FloatArray:
    """Return the deviations of normal phases for which ``E cos(a - b) = profile(1/bandwidth)``."""
    if _has_sum(kernel):
        raise KernelError(
            "RandomFourier: random phases cannot give the factors that a Sum kernel has for "
            "categories; use a Mixture or a Product, or leave out 'categorical'."
        )
    factors = np.clip(kernel.profile(1.0 / bandwidth), np.finfo(np.float64).tiny, 1.0)
    return np.sqrt(-np.log(factors))


def _has_sum(kernel: Kernel) -> bool:
    return isinstance(kernel, Sum) or any(_has_sum(part) for part in kernel.parts)
