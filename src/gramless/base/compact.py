"""Lossless compression of arrays, and rounding of numbers so that they compress better."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray, FloatArray
from gramless.portable import ARRAY_FORMS

# A small hostile file must not make the reader allocate much memory. Up to this many bytes may be
# restored beyond 64 times the bytes that are stored.
MOST_FILLED = 1 << 24
_MAX_RATIO = 64

_MIN_NUMBERS = 400  # shorter arrays do not repay the 200 bytes that describe a form
_MAX_SHARE = 0.85  # of the bytes of an array; smaller savings do not repay the time to inflate
_PROBED_NUMBERS = 1 << 14  # these first numbers show for most arrays whether they deflate
_SINGLE_DIGITS = 24  # binary digits of a number of single precision
_ROUNDED_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class CompactArray:
    """A compressed array of float64 or int64, as files and pickles hold it.

    Attributes
    ----------
    form : str
        A key of :data:`gramless.portable.ARRAY_FORMS`. Only ``"Deflated"`` is written; the others
        occur in files of 0.2.0.
    fields : mapping
        Arguments of the function that restores the array, which may come from a foreign file.
    """

    form: str
    fields: Mapping[str, Any]

    def restored(self) -> AnyArray:
        """Return the array, or raise any exception if the fields are invalid."""
        return ARRAY_FORMS[self.form](**self.fields)

    @property
    def n_filled(self) -> int:
        """Bytes of the array beyond 64 times the stored ones."""
        shape = self.fields.get("shape", ())
        size = 8 * int(np.prod(shape, dtype=object)) if len(shape) else 0
        if self.form == "MostlyOne":
            return size
        return max(0, size - _MAX_RATIO * self.n_bytes)

    @property
    def n_bytes(self) -> int:
        """Bytes of the stored arrays."""
        return sum(array.nbytes for array in _arrays_in([*self.fields.values()]))


def _arrays_in(parts: list[object]) -> Iterator[AnyArray]:
    for part in parts:
        if isinstance(part, list):
            yield from _arrays_in(part)
        elif isinstance(part, np.ndarray):
            yield part


def compacted(array: AnyArray, most_filled: int = MOST_FILLED) -> AnyArray | CompactArray:
    """Return the compressed form of a long array, or the array itself if this saves little.

    Parameters
    ----------
    array : array
    most_filled : int
        The largest ``n_filled`` of the result.

    Examples
    --------
    >>> weights = np.arange(2000) / 8
    >>> short = compacted(weights)
    >>> short.n_bytes < 2000, bool((short.restored() == weights).all())
    (True, True)
    """
    if array.size < _MIN_NUMBERS or array.dtype not in (np.float64, np.int64):
        return array
    numbers = np.ascontiguousarray(array).reshape(-1)
    first = numbers[:_PROBED_NUMBERS]
    # Rounded numbers deflate best if their lowest bytes come first, then the next ones and so on;
    # numbers that are mostly the same deflate best as they are.
    data, n_planes = min(((_deflated(first, n), n) for n in (8, 1)), key=lambda pair: len(pair[0]))
    if len(data) > _MAX_SHARE * first.nbytes:
        return array
    data = _deflated(numbers, n_planes)
    if len(data) > _MAX_SHARE * numbers.nbytes:
        return array
    fields = {
        "data": np.frombuffer(data, np.uint8),
        "dtype": array.dtype.name,
        "shape": array.shape,
        "n_planes": n_planes,
    }
    result = CompactArray("Deflated", fields)
    return result if result.n_filled <= most_filled else array


def _deflated(numbers: AnyArray, n_planes: int) -> bytes:
    """Compress the bytes of each significance separately, each with its own Huffman code."""
    little = numbers.astype(numbers.dtype.newbyteorder("<"), copy=False)
    stream = zlib.compressobj(strategy=zlib.Z_FILTERED)
    parts = []
    for plane in little.view(np.uint8).reshape(-1, n_planes).T:
        parts += [stream.compress(plane.tobytes()), stream.flush(zlib.Z_BLOCK)]
    return b"".join([*parts, stream.flush()])


def rounded_to_single(array: FloatArray) -> FloatArray:
    """Round numbers to the digits of single precision, also beyond its range.

    Examples
    --------
    >>> rounded_to_single(np.array([1.0 + 2.0**-23, 1.0 + 2.0**-30, 1e300])) == [
    ...     1.0 + 2.0**-23,
    ...     1.0,
    ...     1e300,
    ... ]
    array([ True,  True, False])
    """
    digits, exponents = np.frexp(array)
    whole = np.rint(np.ldexp(digits, _SINGLE_DIGITS))
    return np.ldexp(whole, exponents - _SINGLE_DIGITS)


def rounded_to_multiples(
    array: FloatArray,
    step: float | FloatArray,
    n_jobs: int | None = 1,
    out: FloatArray | None = None,
) -> FloatArray:
    """Round numbers to multiples of a positive step, one for all or one for each column.

    The result is written into ``out`` if given.

    Examples
    --------
    >>> rounded_to_multiples(np.array([0.1, -0.3, 1.0]), 0.25)
    array([ 0.  , -0.25,  1.  ])
    """
    result = np.empty(array.shape) if out is None else out
    n_rows = max(1, _ROUNDED_AT_ONCE * len(array) // max(1, array.size))

    def round_block(first: int, last: int) -> None:
        block = result[first:last]
        np.divide(array[first:last], step, out=block)
        np.rint(block, out=block)
        block *= step
        block += 0.0  # turns -0.0 into 0.0

    map_blocks(round_block, row_blocks(len(array), n_rows), n_jobs)
    return result
