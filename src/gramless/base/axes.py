"""Axes of pictures: where numbers stand, and which are named."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_FEWEST, _FEW_DECADES = 3, 2.5
"""Names that a logarithmic axis should have; decades below which powers of ten are too few."""
_STEPS = ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))


@dataclass(frozen=True)
class Axis:
    """One axis: where numbers stand between its ends, and which are named.

    Parameters
    ----------
    title : str
    low, high : float
        The ends, as ``place`` returns them.
    ticks : sequence of (float, str)
        Numbers and their names.
    place : callable
        From a number to its place.
    """

    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    place: Callable[[float], float]

    def share(self, value: float) -> float:
        """Return how far along the axis a number stands, 0 to 1 within its ends."""
        return (self.place(value) - self.low) / (self.high - self.low)


def linear_axis(title: str, values: Sequence[float]) -> Axis:
    """Return an axis that holds the numbers.

    Examples
    --------
    >>> [name for _, name in linear_axis("", [0.0, 10.0]).ticks]
    ['0', '2', '4', '6', '8', '10']
    """
    low, high = _ends(values, 0.5 * max(map(abs, values), default=1.0))
    step = _nice_step((high - low) / 6.0)
    digits = max(6, math.ceil(math.log10(max(abs(low), abs(high)) / step)) + 1)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = [(k * step, f"{k * step:.{digits}g}") for k in range(first, last + 1)]
    pad = 0.03 * (high - low)
    return Axis(title, low - pad, high + pad, ticks, float)


def log_axis(title: str, values: Sequence[float]) -> Axis:
    """Return a logarithmic axis that holds the numbers, all of them positive.

    Examples
    --------
    >>> [name for _, name in log_axis("", [0.001, 1.0]).ticks]
    ['0.001', '0.01', '0.1', '1']
    """
    low, high = _ends([math.log10(value) for value in values], 0.1)
    span = high - low
    every, slack = max(1, math.ceil(span / 8.0)), 1e-9 + 0.02 * span
    decades = [k for k in range(math.floor(low), math.ceil(high) + 1) if k % every == 0]
    for steps in _STEPS[span < _FEW_DECADES :]:
        places = [step * 10.0**k for k in decades for step in steps]
        inside = [at for at in places if low - slack <= math.log10(at) <= high + slack]
        ticks = [(at, f"{at:.3g}") for at in inside]
        if len(ticks) >= _FEWEST:
            break
    else:
        # The ends are so near to each other that the axis is nearly linear.
        ticks = list(linear_axis("", [10.0**low, 10.0**high]).ticks)
    return Axis(title, low - 0.03 * span, high + 0.03 * span, ticks, math.log10)


def _ends(values: Sequence[float], around: float) -> tuple[float, float]:
    """Return the least and the largest value, apart from each other."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high > low:
        return low, high
    return low - (around or 1.0), high + (around or 1.0)


def _nice_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(k * power for k in (1.0, 2.0, 2.5, 5.0, 10.0) if k * power >= 0.999 * least)
