"""Arrays in fewer bytes, without loss: the forms in which files and pickles hold long ones.

Each form gives all bits of its array back. Forms come from foreign files too: :func:`restored`
checks what they hold, and an array is at most :data:`MOST_FILLED` bytes longer than twice its form.
"""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np

from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray, FloatArray, IntArray

MOST_FILLED = 1 << 24
"""Bytes of arrays that are mostly one value: a small file must not ask for much memory."""

_LEAST_NUMBERS = 1024
"""Shorter arrays are not worth a form of their own."""
_LEAST_SHARE = 0.25
"""Of one value, from which the places of all others are worth a bit a number."""
_NUMBER_BYTES = 8
_MOST_ZERO_BYTES = 4
_SINGLE_DIGITS = 24
"""Binary digits of a number of single precision."""
_ROUNDED_NUMBERS = 1 << 16
"""Numbers that are rounded at a time."""
_DOUBLE_DIGITS = 53
_MOST_PLANES, _MOST_PLANES_OF_FLOATS = 6, 4
"""Bytes of the whole numbers of fixed-point arrays; floats of more digits deflate badly."""
_MOST_SHORTENED = 64
"""By which deflated arrays may be longer than what they are restored from, and more only within
:data:`MOST_FILLED`."""
_MOST_EXPONENT = 1 << 11
_DAMAGED = "a compact form of an array is damaged"


class CompactArray(ABC):
    """A form of an array of float64 or int64 that takes fewer bytes."""

    @classmethod
    @abstractmethod
    def of(cls, array: AnyArray) -> Self | None:
        """Return the form of a contiguous array; None where it would lose bits, or save nothing."""

    @abstractmethod
    def restored(self) -> AnyArray:
        """Return the array, or any exception for fields of a foreign file."""

    @property
    def n_filled(self) -> int:
        """Bytes of the array that no bytes of the form stand for."""
        return 0

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays of the form."""
        return sum(map(_bytes_of, vars(self).values()))


@dataclass(frozen=True)
class MostlyOne(CompactArray):
    """An array most of whose numbers are one.

    Attributes
    ----------
    fill : float or int
    places : array of uint8
        A bit for each number, set where it is another one.
    others : array or CompactArray
        These others, in order.
    shape : tuple of int
    """

    fill: float
    places: AnyArray
    others: AnyArray | CompactArray
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: AnyArray) -> MostlyOne | None:
        if array.nbytes > MOST_FILLED:
            return None
        bits = array.reshape(-1).view(np.int64)
        quarters = [len(bits) * k // 4 for k in (1, 2, 3)]
        # What makes up more than a quarter of all numbers stands at one of these places.
        candidates = np.unique(np.partition(bits, quarters)[quarters])
        counts = [np.count_nonzero(bits == candidate) for candidate in candidates]
        most = int(np.argmax(counts))
        fill = candidates[most : most + 1].view(array.dtype)[0].item()
        if counts[most] < _LEAST_SHARE * len(bits) or math.isnan(fill):
            return None
        other = bits != candidates[most]
        own = compacted(array.reshape(-1)[other])
        return cls(fill, np.packbits(other), own, array.shape)

    def restored(self) -> AnyArray:
        others = _restored(self.others)
        size = _bytes_of_shape(self.shape) // _NUMBER_BYTES
        _check(self.places, np.uint8, -(-size // 8))
        _require(others.dtype in (np.float64, np.int64) and others.ndim == 1)
        other = np.unpackbits(self.places, count=size).view(bool)
        array = np.full(size, self.fill, others.dtype)
        array[other] = others
        return array.reshape(self.shape)

    @property
    def n_filled(self) -> int:
        """Bytes of the array, and those of the form of its other numbers."""
        others = self.others.n_filled if isinstance(self.others, CompactArray) else 0
        return _bytes_of_shape(self.shape) + others


@dataclass(frozen=True)
class SinglePrecision(CompactArray):
    """An array of float64 whose numbers float32 holds exactly."""

    values: AnyArray

    @classmethod
    def of(cls, array: AnyArray) -> SinglePrecision | None:
        if array.dtype != np.float64:
            return None
        # Invalid: signalling NaN, of which NumPy 1 warns.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            values = array.astype(np.float32)
        same = values.astype(np.float64).view(np.int64) == array.view(np.int64)
        return cls(values) if same.all() else None

    def restored(self) -> FloatArray:
        _check(self.values, np.float32)
        return self.values.astype(np.float64)


@dataclass(frozen=True)
class HighBytes(CompactArray):
    """An array of int64 whose lowest bytes are all zero.

    Attributes
    ----------
    high : array (..., n_bytes) of uint8
        The other bytes, the lowest first.
    """

    high: AnyArray

    @classmethod
    def of(cls, array: AnyArray) -> HighBytes | None:
        if array.dtype != np.int64:
            return None
        every = int(np.bitwise_or.reduce(array, axis=None))
        n_zero = next((n for n in range(_MOST_ZERO_BYTES, 0, -1) if every % (1 << 8 * n) == 0), 0)
        if n_zero == 0:
            return None
        own = array.astype("<i8").view(np.uint8).reshape(*array.shape, _NUMBER_BYTES)
        return cls(np.ascontiguousarray(own[..., n_zero:]))

    def restored(self) -> AnyArray:
        _check(self.high, np.uint8)
        *shape, n_bytes = self.high.shape
        _require(_NUMBER_BYTES - _MOST_ZERO_BYTES <= n_bytes < _NUMBER_BYTES)
        own = np.zeros((*shape, _NUMBER_BYTES), np.uint8)
        own[..., _NUMBER_BYTES - n_bytes :] = self.high
        return own.view("<i8")[..., 0].astype(np.int64, copy=False)


@dataclass(frozen=True)
class FixedPoint(CompactArray):
    """An array whose numbers are whole multiples of powers of two, one power for each column.

    Attributes
    ----------
    exponents : list of int
        Of the columns, all axes but the first taken as one; none for whole numbers.
    planes : list of arrays of uint8
        Of the lowest bytes of all multiples, of the next ones and so on, each compressed by
        deflate. Multiples are 0, -1, 1, -2, ... as 0, 1, 2, 3, ...: small ones leave high bytes 0.
    shape : tuple of int
    """

    exponents: list[int]
    planes: list[AnyArray]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: AnyArray) -> FixedPoint | None:
        columns, exponents = array.reshape(len(array), -1), np.zeros(0, np.int64)
        if array.dtype == np.float64:
            # Most arrays of other numbers are seen to be none from a few.
            for part in (columns[: _LEAST_NUMBERS // columns.shape[1] + 1], columns):
                exponents = _lowest_exponents(part)
                with np.errstate(over="ignore", invalid="ignore"):
                    multiples = np.ldexp(part, -exponents)
                if not (np.abs(multiples) < 1 << (8 * _MOST_PLANES_OF_FLOATS - 1)).all():
                    return None
        else:
            multiples = columns
            most = 1 << (8 * _MOST_PLANES - 1)
            if multiples.min() < -most or multiples.max() >= most:
                return None
        whole = multiples.astype(np.int64)
        zigzag = ((whole << 1) ^ (whole >> 63)).astype("<i8").reshape(-1, 1).view(np.uint8)
        n_planes = int(np.flatnonzero(zigzag.any(axis=0)).max(initial=-1)) + 1
        planes = [_deflated(plane) for plane in zigzag.T[:n_planes]]
        form = cls(exponents.tolist(), planes, array.shape)
        # Minus zero has no multiple of its own.
        is_same = np.array_equal(form.restored().view(np.int64), array.view(np.int64))
        return form if is_same else None

    def restored(self) -> AnyArray:
        size, known = _bytes_of_shape(self.shape) // _NUMBER_BYTES, map(type, self.exponents)
        _require(set(known) <= {int} and len(self.planes) <= _MOST_PLANES)
        zigzag = np.zeros(size, np.int64)
        for k, plane in enumerate(self.planes):
            zigzag |= _inflated(plane, size).astype(np.int64) << 8 * k
        multiples = (zigzag >> 1) ^ -(zigzag & 1)
        if not self.exponents:
            return multiples.reshape(self.shape)
        exponents = np.array(self.exponents)
        _require((np.abs(exponents) <= _MOST_EXPONENT).all())
        columns = multiples.astype(np.float64).reshape(self.shape[0], -1)
        _require(columns.shape[1] == len(exponents))
        with np.errstate(over="ignore"):
            return np.ldexp(columns, exponents).reshape(self.shape)

    @property
    def n_filled(self) -> int:
        """Bytes of the array beyond a multiple of those of the planes."""
        return max(0, _bytes_of_shape(self.shape) - _MOST_SHORTENED * self.n_bytes)


FORMS: dict[str, type[CompactArray]] = {
    kind.__name__: kind for kind in (MostlyOne, SinglePrecision, HighBytes, FixedPoint)
}
"""By the names that files give them."""


def compacted(array: AnyArray, most_filled: int = MOST_FILLED) -> AnyArray | CompactArray:
    """Return the form of an array that takes the fewest bytes: mostly the array itself.

    Parameters
    ----------
    array : array
    most_filled : int
        Bytes that an array which is mostly one value may have.

    Examples
    --------
    >>> weights = np.arange(2000) / 8
    >>> short = compacted(weights)
    >>> type(short).__name__, bool((short.restored() == weights).all())
    ('FixedPoint', True)
    """
    if array.size < _LEAST_NUMBERS or array.dtype not in (np.float64, np.int64):
        return array
    contiguous = np.ascontiguousarray(array)
    tried = [kind.of(contiguous) for kind in FORMS.values()]
    found = [form for form in tried if form is not None and form.n_filled <= most_filled]
    best = min(found, key=lambda form: form.n_bytes, default=None)
    return array if best is None or best.n_bytes >= array.nbytes else best


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


def _lowest_exponents(columns: FloatArray) -> IntArray:
    """Return for each column the largest power of two whose multiples all its numbers are."""
    digits, exponents = np.frexp(columns)
    with np.errstate(invalid="ignore"):
        whole = np.ldexp(digits, _DOUBLE_DIGITS).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    powers = np.where(whole == 0, _MOST_EXPONENT, exponents - _DOUBLE_DIGITS + lowest)
    found = powers.min(axis=0)
    return np.where(found == _MOST_EXPONENT, 0, found)


def _deflated(plane: AnyArray) -> AnyArray:
    return np.frombuffer(zlib.compress(plane.tobytes()), np.uint8)


def _inflated(plane: object, size: int) -> AnyArray:
    """Return so many bytes of a foreign file, never more."""
    _check(plane, np.uint8)
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(np.asarray(plane).tobytes(), size)
        # zlib checks the checksum only when it reads on.
        more = stream.decompress(stream.unconsumed_tail, 1)
    except zlib.error as fault:
        raise ValueError(_DAMAGED) from fault
    _require(len(content) == size and not more)
    _require(stream.eof and not stream.unused_data)
    return np.frombuffer(content, np.uint8)


def _bytes_of(part: object) -> int:
    """Return the bytes of arrays of a form."""
    if isinstance(part, CompactArray):
        return part.n_bytes
    if isinstance(part, list):
        return sum(map(_bytes_of, part))
    return part.nbytes if isinstance(part, np.ndarray) else 0


def _bytes_of_shape(shape: tuple[int, ...]) -> int:
    _require(all(type(length) is int and length > 0 for length in shape))
    return math.prod(shape) * _NUMBER_BYTES


def _restored(array: AnyArray | CompactArray) -> AnyArray:
    return array.restored() if isinstance(array, CompactArray) else array


def _check(array: object, dtype: type[np.generic], length: int | None = None) -> None:
    """Check an array of a foreign file."""
    _require(isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim > 0)
    assert isinstance(array, np.ndarray)
    _require(length is None or array.shape == (length,))


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError(_DAMAGED)
