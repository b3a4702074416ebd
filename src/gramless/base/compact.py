"""Arrays in fewer bytes, without loss, and numbers rounded so that they take fewer."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray, FloatArray
from gramless.portable import ARRAY_FORMS

MOST_FILLED = 1 << 24
"""Bytes of arrays that hardly any bytes stand for: a small file must not ask for much memory."""

_MIN_NUMBERS = 400  # shorter arrays are not worth the 200 bytes that describe a form
_MAX_SHARE = 0.85  # of the bytes of an array; what saves less is not worth the time to inflate
_PROBED_NUMBERS = 1 << 14  # most arrays that do not deflate are recognised by so many numbers
# Bytes restored from one that is stored; more count against MOST_FILLED.
_MAX_RATIO = 64
_SINGLE_DIGITS = 24  # binary digits of a number of single precision
_ROUNDED_NUMBERS = 1 << 16  # rounded at a time


@dataclass(frozen=True)
class CompactArray:
    """An array of float64 or int64 in fewer bytes, as files and pickles hold it.

    Attributes
    ----------
    form : str
        A key of :data:`gramless.portable.ARRAY_FORMS`. ``"Deflated"`` is written, the others are
        read from files of 0.2.0.
    fields : mapping
        Arguments of the function that restores the array, which may come from a foreign file.
    """

    form: str
    fields: Mapping[str, Any]

    def restored(self) -> AnyArray:
        """Return the array, or raise any exception for fields of a foreign file."""
        return ARRAY_FORMS[self.form](**self.fields)

    @property
    def n_filled(self) -> int:
        """Bytes of the array that no bytes of the form stand for."""
        shape = self.fields.get("shape", ())
        size = 8 * int(np.prod(shape, dtype=object)) if len(shape) else 0
        if self.form == "MostlyOne":
            return size
        return max(0, size - _MAX_RATIO * self.n_bytes)

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays of the form."""
        return sum(array.nbytes for array in _arrays_in([*self.fields.values()]))


def _arrays_in(parts: list[object]) -> Iterator[AnyArray]:
    for part in parts:
        if isinstance(part, list):
            yield from _arrays_in(part)
        elif isinstance(part, np.ndarray):
            yield part


def compacted(array: AnyArray, most_filled: int = MOST_FILLED) -> AnyArray | CompactArray:
    """Return the compact form of a long array, or the array itself where that saves little.

    Parameters
    ----------
    array : array
    most_filled : int
        Bytes of the array beyond 64 times those of its form, at most.

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
    data, n_planes = min(((_deflated(first, n), n) for n in (8, 1)), key=lambda one: len(one[0]))
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
    """Compress bytes of equal place in their number together, each place with its own code."""
    little = numbers.astype(numbers.dtype.newbyteorder("<"), copy=False)
    stream = zlib.compressobj(strategy=zlib.Z_FILTERED)
    parts = []
    for plane in little.view(np.uint8).reshape(-1, n_planes).T:
        parts += [stream.compress(plane.tobytes()), stream.flush(zlib.Z_BLOCK)]
    return b"".join([*parts, stream.flush()])


def rounded_to_single(array: FloatArray) -> FloatArray:
    """Round numbers to the digits of single precision, whatever their size.

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
    """Round numbers to multiples of a step above 0, which may be one for each column.

    They are written into ``out`` where it is given, of the shape of the array.

    Examples
    --------
    >>> rounded_to_multiples(np.array([0.1, -0.3, 1.0]), 0.25)
    array([ 0.  , -0.25,  1.  ])
    """
    found = np.empty(array.shape) if out is None else out
    rows = max(1, _ROUNDED_NUMBERS * len(array) // max(1, array.size))

    def fill(first: int, last: int) -> None:
        own = found[first:last]
        np.divide(array[first:last], step, out=own)
        np.rint(own, out=own)
        own *= step
        own += 0.0  # No zero is negative.

    map_blocks(fill, row_blocks(len(array), rows), n_jobs)
    return found
