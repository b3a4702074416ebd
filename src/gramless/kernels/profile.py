"""Kernels with a user's profile, as mixtures of hats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from gramless.base.errors import KernelError
from gramless.kernels.base import FloatArray, check_positive_number
from gramless.kernels.gridded import MAX_WIDTH, MIN_WIDTH, BinningKernel

# The ratio of neighbouring knots is 2**(1/128), or 0.5 %. The error of the table is at most 0.0014
# for a kink between two knots, and at most 4e-6 * t^2 k''(t) if the profile is smooth there.
_KNOTS_PER_OCTAVE = 128
# The range of the table is searched this many octaves below and above distance 1.
_OCTAVES = 40
# The table contains all distances at which the profile differs from 0 and 1 by more than this.
_NEGLIGIBLE = 1e-6
# Rounding errors of a profile are much smaller, about 1e-13 of probability per knot. Deviations
# from convexity that matter are much larger.
_TOLERANCE = 1e-9


@dataclass(frozen=True, repr=False)
class TabulatedProfile(BinningKernel):
    """A piecewise linear profile, given by its values at some distances.

    It is exactly a finite mixture of hats. The hat of width x, a knot, has the weight ``x * (slope
    after x - slope before x)``, the discrete form of ``w k''(w)`` (Rahimi & Recht 2007, Lemma 1).

    Parameters
    ----------
    distances : sequence of float
        Increasing distances from 0, in units of the bandwidth.
    values : sequence of float
        The profile at these distances: a convex and decreasing sequence from 1 to 0. Otherwise
        ``KernelError`` is raised.

    Examples
    --------
    >>> kernel = TabulatedProfile(distances=[0.0, 1.0, 3.0], values=[1.0, 0.25, 0.0])
    >>> kernel.gram([[0.0]], [[2.0]])
    array([[0.125]])
    """

    name: ClassVar[str] = "tabulated_profile"
    no_fourier_because: ClassVar[str] = (
        "the distribution of frequencies of a table has no closed form"
    )
    distances: Sequence[float]
    values: Sequence[float]
    _distances: FloatArray = field(init=False, compare=False)
    _values: FloatArray = field(init=False, compare=False)
    _cumulated_weights: FloatArray = field(init=False, compare=False)

    def __post_init__(self) -> None:
        distances = _as_finite_vector(self.distances, "distances")
        values = _as_finite_vector(self.values, "values")
        if distances.size != values.size or distances.size < 2:
            sizes = f"{distances.size} and {values.size}"
            raise KernelError(
                f"TabulatedProfile needs at least two distances and as many values, got {sizes}."
            )
        if distances[0] != 0.0 or np.any(np.diff(distances) <= 0.0):
            raise KernelError("TabulatedProfile needs distances that start at 0 and increase.")
        if values[0] != 1.0 or values[-1] != 0.0:
            raise KernelError(
                f"TabulatedProfile needs values from 1 to 0, got {values[0]} to {values[-1]}."
            )
        weights = _hat_weights(distances, values, "TabulatedProfile")
        vars(self).update(distances=tuple(distances.tolist()), values=tuple(values.tolist()))
        vars(self).update(
            _distances=distances, _values=values, _cumulated_weights=np.cumsum(weights)
        )

    def __repr__(self) -> str:
        return f"TabulatedProfile({len(self.distances)} distances up to {self.distances[-1]:.6g})"

    def profile(self, distance: FloatArray) -> FloatArray:
        return np.interp(distance, self._distances, self._values)

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        drawn = generator.random(size) * self._cumulated_weights[-1]
        return np.asarray(
            self._distances[1 + np.searchsorted(self._cumulated_weights, drawn, "right")]
        )


@dataclass(frozen=True)
class Profile(BinningKernel):
    """A kernel with your own one-dimensional profile, a convex function that falls from 1 to 0.

    The function is checked and tabulated once, at a few thousand distances that differ by 0.5 %.
    Exact kernel values are those of the function. Widths of grids are drawn for the table, which
    differs from the function by at most 0.0014 at distances between ``2**-40`` and ``upper``. As
    plain data the kernel is a :class:`TabulatedProfile`.

    Parameters
    ----------
    function : callable
        Returns the profile at an array of non-negative distances, in units of the bandwidth, as an
        array of the same shape. It must be 1 at 0, decreasing, convex and tend to 0. Otherwise
        ``KernelError`` is raised.
    upper : float, default=None
        Largest distance of the table. Beyond it, grids represent the continuation of the last line
        segment to 0. By default, the smallest power of two at which the profile is below 1e-6.

    Examples
    --------
    >>> import numpy as np
    >>> kernel = Profile(lambda t: 1 / np.sqrt(1 + t))
    >>> kernel.gram([[0.0]], [[3.0]])
    array([[0.5]])
    """

    name: ClassVar[str] = "profile"
    no_fourier_because: ClassVar[str] = (
        "the distribution of frequencies of a function has no closed form"
    )
    function: Callable[[FloatArray], FloatArray]
    upper: float | None = None
    _table: TabulatedProfile = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.upper is not None:
            upper = check_positive_number(self.upper, "Profile", "upper")
            if not MIN_WIDTH < upper < MAX_WIDTH:
                raise KernelError(f"Profile needs upper between 2**-40 and 2**60, got {upper!r}.")
            vars(self).update(upper=upper)
        # Two distances, because some functions of scalars accept arrays of size 1.
        at_zero = self._evaluate(np.zeros(2))[0]
        if abs(at_zero - 1.0) > _TOLERANCE:
            raise KernelError(f"{self._owner()} must be 1 at distance 0, it is {at_zero:.6g}.")
        distances = np.append(0.0, self._knots())
        values = np.append(1.0, self._evaluate(distances[1:]))
        # Raises an error that names the function if it is not a mixture of hats.
        _hat_weights(distances, values, self._owner())
        vars(self).update(_table=self._table_to_zero(distances, values))

    def profile(self, distance: FloatArray) -> FloatArray:
        return self.function(distance)

    def to_config(self) -> dict[str, object]:
        """Return the table as plain data, as a :class:`TabulatedProfile`."""
        return self._table.to_config()

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        return self._table.sample_widths(generator, size)

    def _owner(self) -> str:
        return f"the profile {getattr(self.function, '__name__', repr(self.function))}"

    def _evaluate(self, distances: FloatArray) -> FloatArray:
        try:
            with np.errstate(all="ignore"):
                values = np.asarray(self.function(distances), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise KernelError(
                f"{self._owner()} failed on an array of distances: use NumPy functions in it."
            ) from error
        if values.shape != distances.shape:
            raise KernelError(f"{self._owner()} must return one value per distance.")
        if not np.all(np.isfinite(values)):
            place = distances[np.argmin(np.isfinite(values))]
            raise KernelError(
                f"{self._owner()} is not finite at distance {place:.6g}: give upper if only "
                "shorter distances matter."
            )
        return values

    def _knots(self) -> FloatArray:
        octaves = np.arange(-_OCTAVES, _OCTAVES + 1)
        probes: FloatArray = np.ldexp(1.0, octaves)
        if self.upper is not None:
            probes = probes[probes < self.upper]
        values = self._evaluate(probes)
        # Raises an error if the profile is not a mixture of hats, before bounds are taken from it.
        _hat_weights(np.append(0.0, probes), np.append(1.0, values), self._owner())
        negligible = probes[values < _NEGLIGIBLE]
        if self.upper is None and not negligible.size:
            raise KernelError(
                f"{self._owner()} must fall to 0, it is still {values[-1]:.3g} at distance "
                f"{probes[-1]:.3g}: give upper, the largest distance that matters."
            )
        upper = negligible[0] if self.upper is None else self.upper
        lower = probes[(values > 1.0 - _NEGLIGIBLE) & (probes < upper)].max(initial=MIN_WIDTH)
        if lower >= upper:
            raise KernelError(f"{self._owner()} is 0 from distance {upper:.3g} on: stretch it.")
        n_knots = 1 + int(np.ceil(_KNOTS_PER_OCTAVE * np.log2(upper / lower)))
        return np.geomspace(lower, upper, n_knots)

    def _table_to_zero(self, distances: FloatArray, values: FloatArray) -> TabulatedProfile:
        values = np.maximum(values, 0.0)
        if values[-1] > 0.0:
            slope = (values[-1] - values[-2]) / (distances[-1] - distances[-2])
            with np.errstate(divide="ignore"):
                end = distances[-1] - values[-1] / slope
            if not distances[-1] < end < MAX_WIDTH:
                raise KernelError(f"{self._owner()} must fall to 0, it stays at {values[-1]:.3g}.")
            distances, values = np.append(distances, end), np.append(values, 0.0)
        return TabulatedProfile(tuple(distances), tuple(values))


def _hat_weights(distances: FloatArray, values: FloatArray, owner: str) -> FloatArray:
    """Return the weights of the hats of widths ``distances[1:]`` whose mixture is the profile.

    Raise ``KernelError`` if the profile is negative, rises or is not convex.
    """
    lowest = np.argmin(values)
    if values[lowest] < -_TOLERANCE:
        place = f"{values[lowest]:.3g} at distance {distances[lowest]:.6g}"
        raise KernelError(f"{owner} must not be negative, it is {place}.")
    changes = np.diff(values)
    steepest = np.argmax(changes)
    if changes[steepest] > _TOLERANCE:
        (low, high), (near, far) = (part[steepest : steepest + 2] for part in (values, distances))
        increase = f"from {low:.6g} at distance {near:.6g} to {high:.6g} at {far:.6g}"
        raise KernelError(f"{owner} must decrease, it rises {increase}.")
    slopes = np.append(changes / np.diff(distances), 0.0)
    weights = distances[1:] * np.diff(slopes)
    worst = np.argmin(weights)
    if weights[worst] < -_TOLERANCE:
        place = distances[1 + worst]
        raise KernelError(f"{owner} must be convex, it bends downwards near distance {place:.6g}.")
    return np.maximum(weights, 0.0)


def _as_finite_vector(numbers: Sequence[float], parameter: str) -> FloatArray:
    try:
        vector = np.array(numbers, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        vector = np.array(np.nan)
    if vector.ndim != 1 or not np.all(np.isfinite(vector)):
        raise KernelError(f"TabulatedProfile needs {parameter} to be a list of finite numbers.")
    return vector
