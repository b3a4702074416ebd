"""Frequencies of random Fourier features: how they are drawn, and how rows meet them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.base.threads import one_blas_thread, row_blocks
from gramless.kernels import RadialKernel, SpectralKernel
from gramless.loops import hadamard, trig

FloatArray = NDArray[np.float64]

_BLOCK = 256
"""Frequencies a random stream."""
_MOST_ORTHOGONAL = 1024
"""Directions orthogonal to each other, at most: the work of one grows with their number."""
_MOST_TOGETHER = 1 << 24
"""Numbers made orthogonal at once, at most."""
_SMALLEST_UNIFORM = 2.0**-54
_HALF_STEP = 2.0**-31
"""Sobol points are multiples of twice this."""

_ROWS = 192
_CHUNK = 528
"""Frequencies at once: whole panels, and no power of two, which would put the sums of all rows
into one place of the first-level cache."""
_SUMS_AT_ONCE = 1 << 17

# A row beyond these limits, times a frequency, transformed twice over a million inputs, is finite.
_ROW_LIMITS = {"f": 2.0**36, "d": 2.0**600}
_EXPONENT_LIMITS = {"f": 50, "d": 200}


def draw_frequencies(
    kernel: SpectralKernel, sampling: str, seed: int, n_frequencies: int, n_inputs: int
) -> FloatArray:
    """Draw frequencies of a kernel at bandwidth 1, each of exactly its law.

    Parameters
    ----------
    kernel : SpectralKernel
    sampling : {"iid", "orthogonal", "qmc"}
        As in :class:`~gramless.features.fourier.RandomFourier`.
    seed : int
    n_frequencies : int
        Fewer are the first of more.
    n_inputs : int

    Returns
    -------
    array (n_frequencies, n_inputs)

    Raises
    ------
    InputError
        If no Sobol sequence has enough dimensions.

    Notes
    -----
    Some 10 ns a number and what the kernel takes; orthogonal ones ``4 min(n_inputs, 1024)``
    operations a number more.

    Examples
    --------
    >>> from gramless.kernels import Gaussian
    >>> few = draw_frequencies(Gaussian(), "orthogonal", 0, 3, 5)
    >>> bool(abs(few[0] @ few[1]) < 1e-12)
    True
    >>> bool((draw_frequencies(Gaussian(), "orthogonal", 0, 300, 5)[:3] == few).all())
    True
    """
    draw = {"iid": _independent, "orthogonal": _orthogonal, "qmc": _low_discrepancy}[sampling]
    normals, uniforms = draw(seed, n_frequencies, n_inputs, kernel.n_uniforms(n_inputs))
    return kernel.frequencies(normals, uniforms)


def _independent(seed: int, n: int, n_inputs: int, n_uniforms: int) -> tuple[FloatArray, ...]:
    normals = np.empty((n, n_inputs))
    for k, (a, b) in enumerate(row_blocks(n, _BLOCK)):
        stream(seed, "frequencies", k).standard_normal(out=normals[a:b])
    return normals, _uniforms(seed, n, n_uniforms)


def _orthogonal(seed: int, n: int, n_inputs: int, n_uniforms: int) -> tuple[FloatArray, ...]:
    """Draw directions of the uniform law, orthogonal to each other, and lengths of normals."""
    size = min(n_inputs, _MOST_ORTHOGONAL, max(1, _MOST_TOGETHER // n_inputs))
    shape = (max(1, _BLOCK // size), n_inputs, size)
    normals = np.empty((n, n_inputs))
    for k, (a, b) in enumerate(row_blocks(n, shape[0] * size)):
        generator = stream(seed, "orthogonal frequencies", k)
        with one_blas_thread():
            columns, triangles = np.linalg.qr(generator.standard_normal(shape))
        # Only with a positive diagonal is the decomposition unique, and its law Haar's.
        columns *= np.sign(np.diagonal(triangles, axis1=1, axis2=2))[:, None]
        columns *= np.sqrt(generator.chisquare(n_inputs, (shape[0], 1, size)))
        normals[a:b] = columns.swapaxes(1, 2).reshape(-1, n_inputs)[: b - a]
    return normals, _uniforms(seed, n, n_uniforms)


def _low_discrepancy(seed: int, n: int, n_inputs: int, n_uniforms: int) -> tuple[FloatArray, ...]:
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


def _uniforms(seed: int, n: int, n_uniforms: int) -> FloatArray:
    uniforms = np.empty((n, n_uniforms))
    for k, (a, b) in enumerate(row_blocks(n, _BLOCK)):
        stream(seed, "uniforms of frequencies", k).random(out=uniforms[a:b])
    return uniforms


@dataclass(frozen=True)
class Panels:
    """Frequencies that are written down, cut up as the loops want them.

    Parameters
    ----------
    panels : array (n_panels, n_inputs, frequencies a panel) of float32 or float64
    """

    panels: NDArray[Any]

    @classmethod
    def of(cls, frequencies: FloatArray, dtype: DTypeLike) -> Panels:
        """Cut frequencies (n, n_inputs) up, in half turns, for rows of some precision.

        Examples
        --------
        >>> Panels.of(np.ones((100, 3)), np.float32).panels.shape
        (7, 3, 16)
        """
        n, n_inputs = frequencies.shape
        lanes = trig.PANEL_BYTES // np.dtype(dtype).itemsize
        whole = np.zeros((-(-n // lanes) * lanes, n_inputs), dtype)
        whole[:n] = half_turns(frequencies, np.dtype(dtype))
        return cls(np.ascontiguousarray(whole.reshape(-1, lanes, n_inputs).swapaxes(1, 2)))

    @property
    def chunk(self) -> int:
        """How many frequencies are projected on at once."""
        return _CHUNK

    @property
    def rows_at_once(self) -> int:
        """How many rows are projected at once, at most."""
        return _ROWS

    def room(self, n_rows: int, sparse: bool) -> NDArray[Any]:
        """Return an array for :meth:`prepare` to write so many rows into, if it has to."""
        shape = 0 if sparse else -(-n_rows // trig.GROUP_ROWS) * trig.GROUP_ROWS
        return np.zeros((shape, self.panels.shape[1]), self.panels.dtype)

    def prepare(
        self, X: Any, center: FloatArray, inverse: FloatArray, room: NDArray[Any]
    ) -> NDArray[Any] | tuple[NDArray[Any], ...]:
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

    def project(self, rows: Any, first: int, starts: NDArray[Any], sums: NDArray[Any]) -> None:
        """Write ``starts`` and products of prepared rows with frequencies from ``first`` on."""
        lanes = self.panels.shape[2]
        panels = self.panels[first // lanes : (first + self.chunk) // lanes]
        if isinstance(rows, tuple):
            trig.project_sparse(*rows, panels, starts, sums)
        else:
            trig.project(rows, panels, starts, sums)


@dataclass(frozen=True)
class HadamardBlocks:
    """Frequencies that are never written down: products of Hadamard matrices and octonions.

    The p frequencies of a block, p a power of two, are the rows of ``S H G P H B`` with random
    signs B, a random permutation P, normal numbers G and lengths S. In *Fastfood* (Le, Sarlós &
    Smola 2013) G is a diagonal. Here it multiplies p / 8 octonions by p / 8 normal ones, of eight
    numbers each. In both, whatever B and P, each row is the numbers of G turned, times a constant:
    with its length drawn anew it is exactly normal, and S may have a kernel's radii as well. But
    octonions keep angles: of the projections of a row on two frequencies of a block, seven
    pairs in eight are uncorrelated. The kernel's squared error, 1.2 to 1.7 times that of
    independent frequencies with a diagonal, is about half of it, near that of orthogonal ones.

    Parameters
    ----------
    signs : array (n_blocks, p)
    orders : array (n_blocks, p) of int
        Permutations.
    factors : array (n_blocks, p)
        Of G; number c of octonion b stands at ``c p / 8 + b``.
    scales : array (n_frequencies,)
        Of S; the last block may be cut off.

    Raises
    ------
    InputError
        If the arrays do not fit each other.
    """

    signs: NDArray[Any]
    orders: NDArray[np.int32]
    factors: NDArray[Any]
    scales: NDArray[Any]

    def __post_init__(self) -> None:
        # The loops trust these sizes and numbers, which may come from a file.
        n_blocks, width = shape = self.orders.shape
        fit = self.signs.shape == self.factors.shape == shape and self.scales.ndim == 1
        fit = fit and self.orders.dtype.kind == "i"
        fit = fit and width >= hadamard.LANES and width & (width - 1) == 0
        fit = fit and (n_blocks - 1) * width < self.scales.size <= n_blocks * width
        if not fit or not (np.sort(self.orders, axis=1) == np.arange(width)).all():
            raise InputError(
                "HadamardBlocks: signs, orders, factors and scales do not fit each other."
            )

    @classmethod
    def draw(
        cls, kernel: RadialKernel, seed: int, n_frequencies: int, n_inputs: int
    ) -> HadamardBlocks:
        """Draw the frequencies of a kernel at bandwidth 1.

        Parameters
        ----------
        kernel : RadialKernel
        seed : int
        n_frequencies : int
            Fewer are the first of more.
        n_inputs : int
            p is the next power of two, at least 16.

        Returns
        -------
        HadamardBlocks
            21 bytes a frequency, and p of them at least.

        Examples
        --------
        >>> from gramless.kernels import Gaussian
        >>> HadamardBlocks.draw(Gaussian(), 0, n_frequencies=100, n_inputs=20).signs.shape
        (4, 32)
        """
        width = max(hadamard.LANES, 1 << (n_inputs - 1).bit_length())
        shape, n_blocks = (max(1, _BLOCK // width), width), -(-n_frequencies // width)
        parts = [
            _hadamard_blocks(kernel, stream(seed, "hadamard frequencies", k), shape)
            for k in range(-(-n_blocks // shape[0]))
        ]
        found = (np.concatenate(part)[:n_blocks] for part in zip(*parts, strict=True))
        signs, orders, factors, scales = found
        return cls(signs, orders, factors, scales.ravel()[:n_frequencies])

    def astype(self, dtype: DTypeLike) -> HadamardBlocks:
        """Return the same frequencies, for rows of some precision."""
        signs, factors = self.signs.astype(dtype), self.factors.astype(dtype)
        scales = half_turns(self.scales, np.dtype(dtype)).astype(dtype)
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
        return max(1, _CHUNK // width) * width

    @property
    def rows_at_once(self) -> int:
        """How many rows are projected at once, at most."""
        return max(1, min(_ROWS, _SUMS_AT_ONCE // self.chunk))

    def room(self, n_rows: int, sparse: bool) -> NDArray[Any]:
        """Return an array for :meth:`prepare` to write so many rows into."""
        return np.zeros((n_rows, self.orders.shape[1]), self.signs.dtype)

    def prepare(
        self, X: Any, center: FloatArray, inverse: FloatArray, room: NDArray[Any]
    ) -> NDArray[Any]:
        """Return a few rows in units of the bandwidth, filled up with zeros."""
        dense = X.toarray() if sp.issparse(X) else X
        return _scaled(dense, center, inverse, room)[: len(dense)]

    def project(self, rows: Any, first: int, starts: NDArray[Any], sums: NDArray[Any]) -> None:
        """Write ``starts`` and products of prepared rows with frequencies from ``first`` on."""
        width = self.orders.shape[1]
        blocks = slice(first // width, (first + self.chunk) // width)
        hadamard.project_blocks(
            *(rows, self.signs[blocks], self.orders[blocks], self.factors[blocks]),
            *(self.scales[first : first + self.chunk], np.empty((2, width), rows.dtype)),
            *(starts, sums),
        )


def _hadamard_blocks(
    kernel: RadialKernel, generator: np.random.Generator, shape: tuple[int, int]
) -> tuple[NDArray[Any], ...]:
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


def _scaled(
    X: NDArray[Any], center: FloatArray, inverse: FloatArray, room: NDArray[Any]
) -> NDArray[Any]:
    """Write rows in units of the bandwidth into an array at least as large, and return it."""
    numbers = X if X.dtype.kind == "f" else X.astype(np.float64)
    trig.scale_rows(numbers, center, inverse, _ROW_LIMITS[room.dtype.char], room)
    return room


def half_turns(frequencies: FloatArray, dtype: np.dtype[Any]) -> FloatArray:
    """Return frequencies, in radians, as the loops want them: what turns by pi is turned by 1."""
    return within_exponents(frequencies / np.pi, dtype)


def within_exponents(numbers: FloatArray, dtype: np.dtype[Any]) -> FloatArray:
    """Lower the exponents of numbers that are too large for sums of them to be finite."""
    limit = _EXPONENT_LIMITS[dtype.char]
    large = np.abs(numbers) > 2.0**limit
    if not large.any():
        return numbers
    # Moved to one value they would be an atom of the law, whose cosine is not 0 on average.
    bounded, mantissas = numbers.copy(), np.frexp(numbers[large])[0]
    bounded[large] = np.ldexp(mantissas, limit)
    return bounded
