"""Arrays in fewer bytes, without loss: the forms in which files and pickles hold long ones.

Each form gives all bits of its array back. Forms come from foreign files too: :func:`restored`
checks what they hold, and an array is at most :data:`MOST_FILLED` bytes longer than twice its form.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np

from gramless.base.types import AnyArray, FloatArray

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
        """Return the form; see :class:`CompactArray`."""
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
        """Return the array; see :class:`CompactArray`."""
        others = _restored(self.others)
        size = self.n_filled // _NUMBER_BYTES
        _check(self.places, np.uint8, -(-size // 8))
        _require(others.dtype in (np.float64, np.int64) and others.ndim == 1)
        other = np.unpackbits(self.places, count=size).view(bool)
        array = np.full(size, self.fill, others.dtype)
        array[other] = others
        return array.reshape(self.shape)

    @property
    def n_filled(self) -> int:
        """Bytes of the array."""
        _require(all(type(length) is int and length > 0 for length in self.shape))
        return math.prod(self.shape) * _NUMBER_BYTES


@dataclass(frozen=True)
class SinglePrecision(CompactArray):
    """An array of float64 whose numbers float32 holds exactly."""

    values: AnyArray

    @classmethod
    def of(cls, array: AnyArray) -> SinglePrecision | None:
        """Return the form; see :class:`CompactArray`."""
        if array.dtype != np.float64:
            return None
        with np.errstate(over="ignore", under="ignore"):
            values = array.astype(np.float32)
        same = values.astype(np.float64).view(np.int64) == array.view(np.int64)
        return cls(values) if same.all() else None

    def restored(self) -> FloatArray:
        """Return the array; see :class:`CompactArray`."""
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
        """Return the form; see :class:`CompactArray`."""
        if array.dtype != np.int64:
            return None
        every = int(np.bitwise_or.reduce(array, axis=None))
        n_zero = next((n for n in range(_MOST_ZERO_BYTES, 0, -1) if every % (1 << 8 * n) == 0), 0)
        if n_zero == 0:
            return None
        own = array.astype("<i8").view(np.uint8).reshape(*array.shape, _NUMBER_BYTES)
        return cls(np.ascontiguousarray(own[..., n_zero:]))

    def restored(self) -> AnyArray:
        """Return the array; see :class:`CompactArray`."""
        _check(self.high, np.uint8)
        *shape, n_bytes = self.high.shape
        _require(_NUMBER_BYTES - _MOST_ZERO_BYTES <= n_bytes < _NUMBER_BYTES)
        own = np.zeros((*shape, _NUMBER_BYTES), np.uint8)
        own[..., _NUMBER_BYTES - n_bytes :] = self.high
        return own.view("<i8")[..., 0].astype(np.int64, copy=False)


FORMS: dict[str, type[CompactArray]] = {
    kind.__name__: kind for kind in (MostlyOne, SinglePrecision, HighBytes)
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
    ('SinglePrecision', True)
    """
    if array.size < _LEAST_NUMBERS or array.dtype not in (np.float64, np.int64):
        return array
    contiguous = np.ascontiguousarray(array)
    found: CompactArray | None = None
    if array.nbytes <= most_filled:
        found = MostlyOne.of(contiguous)
    for kind in (SinglePrecision, HighBytes):
        found = found if found is not None else kind.of(contiguous)
    return array if found is None else found


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


def _restored(array: AnyArray | CompactArray) -> AnyArray:
    return array.restored() if isinstance(array, CompactArray) else array


def _check(array: object, dtype: type[np.generic], length: int | None = None) -> None:
    """Check an array of a foreign file."""
    _require(isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim > 0)
    assert isinstance(array, np.ndarray)
    _require(length is None or array.shape == (length,))


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError("a compact form of an array is damaged")
