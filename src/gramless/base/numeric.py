"""Checks, conversions and rounding of numbers."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from gramless.base.errors import InputError
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import FloatArray

_MAX_INTEGER = 2**63 - 1
_MAX_FLOAT = np.finfo(np.float64).max
_SINGLE_DIGITS = 24  # binary digits of a number of single precision
_NUMBERS_PER_BLOCK = 1 << 16  # numbers that a thread rounds at a time


def is_whole(value: object, minimum: int) -> bool:
    """Return whether a value is an integer from ``minimum`` to ``2**63 - 1``, and not a boolean."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        return False
    return minimum <= int(value) <= _MAX_INTEGER


def upper_limit_text(value: object) -> str:
    """Return " and below 2**63" for an integer that is too large, and "" for other values.

    Messages about invalid parameters append it to the lower limit.
    """
    is_large = isinstance(value, Integral) and int(value) > _MAX_INTEGER
    return " and below 2**63" if is_large else ""


def as_float(value: object) -> float:
    """Return a number as a float, infinity if it is too large, or NaN if it is not a number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def clip_infinities(numbers: FloatArray) -> FloatArray:
    """Replace infinities by the largest positive and the largest negative float.

    Examples
    --------
    >>> import numpy as np
    >>> clip_infinities(np.array([2.0, -np.inf]))
    array([ 2.00000000e+000, -1.79769313e+308])
    """
    return np.clip(numbers, -_MAX_FLOAT, _MAX_FLOAT)


def check_numbers(name: str, values: ArrayLike) -> FloatArray:
    """Return values of shape (n,) or (n, K) as float64.

    Raises InputError if they have another shape or are not finite.
    """
    array = np.asarray(values, np.float64)
    if array.ndim not in (1, 2) or not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, (n,) or (n, K), got shape {array.shape}.")
    return array


def check_shape(name: str, values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return values as float64; raise InputError if they have another shape."""
    array = np.asarray(values, np.float64)
    if array.shape != shape:
        raise InputError(f"{name} must have shape {shape}, got {array.shape}.")
    return array


def check_sample_weight(name: str, sample_weight: ArrayLike | None, n_rows: int) -> FloatArray:
    """Return the sample weights of validation rows as float64, or ones for None.

    Raises InputError if there are no rows, if the shape is not (n_rows,), or unless the weights are
    finite, not negative and not all zero.
    """
    weights = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weights.shape != (n_rows,) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise InputError(
            f"{name}: needs held-back rows, and sample_weight of shape ({n_rows},), finite, not "
            f"negative and somewhere above 0; got shape {weights.shape}."
        )
    return weights


def rounded_to_single(array: FloatArray) -> FloatArray:
    """Round numbers to the 24 binary digits of single precision, without the limits of its range.

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
    n_rows = max(1, _NUMBERS_PER_BLOCK * len(array) // max(1, array.size))

    def round_block(first: int, last: int) -> None:
        block = result[first:last]
        np.divide(array[first:last], step, out=block)
        np.rint(block, out=block)
        block *= step
        block += 0.0  # turns -0.0 into 0.0

    map_blocks(round_block, row_blocks(len(array), n_rows), n_jobs)
    return result
