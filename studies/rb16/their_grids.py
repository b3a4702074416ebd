"""The random grids of the authors' program, reproduced with its random number generators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.features.binning import RandomBinning
from gramless.features.grids import Grids
from gramless.kernels import Laplacian
from gramless.matrices.codes import PlainBins
from gramless.preprocessing.rows import Rows
from studies.methods import least_squares
from studies.settings import Setting
from studies.study import Clock, Snapshot, Trainer, Training

_LCG, _PRIME = 16807, 2**31 - 1
_LAGS, _WARM_UP = (31, 3), 310
_RAND_MAX = 2.0**31 - 1.0


@cache
def authors_grids(n_inputs: int, n_grids: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the widths and shifts that the authors' program draws for gamma = 1.

    The program is written in C++ for libstdc++ on Linux. It draws the widths from
    ``gamma_distribution(2, 1 / gamma)`` with an unseeded ``default_random_engine``, and the shifts
    from ``rand()`` after ``srandom(0)``, for each grid and each input. Its first input is always 0.

    Parameters
    ----------
    n_inputs, n_grids : int

    Returns
    -------
    widths, shifts : arrays (n_grids, n_inputs)
        For another gamma, divide both by it.

    Notes
    -----
    Takes about 3 microseconds per number. Source: ``codes_KRR_randbin/randFeature.hpp`` and
    ``KRR_OneVsAll_RandBin.cpp`` at commit 57578cb.

    Examples
    --------
    >>> widths, shifts = authors_grids(12, 8)
    >>> widths.shape, bool(np.all(shifts < widths))
    ((8, 12), True)
    """
    gammas, uniforms = _gamma_of_two(_minimal_standard()), _additive_feedback()
    pairs = np.array([(next(gammas), next(uniforms)) for _ in range(n_grids * (n_inputs + 1))])
    widths, shares = pairs.reshape(n_grids, n_inputs + 1, 2)[:, 1:].transpose(2, 0, 1)
    return widths.copy(), widths * shares


class AuthorsGrids(RandomBinning):
    """Random bins of the Laplacian kernel on the authors' grids, for inputs scaled to [-1, 1].

    Subclasses are for other scalings, which map another value of each input to 0.

    Parameters
    ----------
    kernel, bandwidth, categorical, n_grids, random_state, n_jobs
        Parameters of :class:`RandomBinning`; the grids do not depend on ``kernel`` and
        ``random_state``.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> grids = AuthorsGrids(bandwidth=1.0, n_grids=8)
    >>> grids.fit(X).widths_.shape
    (8, 2)
    """

    def fit_rows(self, X: Rows) -> PlainBins:
        """Fit to validated dense rows and return their bins."""
        self.bandwidth_ = self._bandwidth_of(X, self.check_parameters())
        widths, shifts = authors_grids(X.shape[1], self.size)
        hashes = Grids.draw(Laplacian(), self.bandwidth_, self.size, seed=0)
        # Constant inputs have an infinite bandwidth and no shift.
        offsets = np.where(np.isfinite(self.bandwidth_), shifts * self.bandwidth_, 0.0)
        shifts = self.input_offsets(X) + offsets
        return self.learn_bins(X, replace(hashes, widths=widths * self.bandwidth_, shifts=shifts))

    def input_offsets(self, X: Rows) -> NDArray[np.float64]:
        """Return the value of each input that its scaling maps to 0."""
        middle: NDArray[np.float64] = (X.min(axis=0) + X.max(axis=0)) / 2.0
        return middle


class _GridsFromMinimum(AuthorsGrids):
    """The authors' grids for inputs scaled to [0, 1]."""

    def input_offsets(self, X: Rows) -> NDArray[np.float64]:
        minimum: NDArray[np.float64] = X.min(axis=0)
        return minimum


class _GridsFromZero(AuthorsGrids):
    """The authors' grids for inputs that are divided but not shifted."""

    def input_offsets(self, X: Rows) -> NDArray[np.float64]:
        return np.zeros(X.shape[1])


def least_squares_on_authors_grids(
    training: Training, options: Mapping[str, Any], clock: Clock
) -> Iterator[Snapshot]:
    """Fit ridge regression on the authors' grids; drawing them does not count as training time.

    The arguments and snapshots are those of :func:`studies.methods.least_squares`.
    """
    setting = Setting.read(options)
    kinds = {"half range": AuthorsGrids, "range": _GridsFromMinimum}
    with clock.phase("drawing"):
        for each in setting.each():
            authors_grids(setting.rows(training.X[:1]).shape[1], each.size)
    kind = kinds.get(setting.units, _GridsFromZero)
    yield from least_squares(kind, training, options, clock)


def _minimal_standard() -> Iterator[int]:
    """Yield the numbers of ``std::default_random_engine``, from 1 to 2**31 - 2."""
    state = 1
    while True:
        state = state * _LCG % _PRIME
        yield state


def _uniform(numbers: Iterator[int]) -> float:
    """Return a number as ``std::generate_canonical<double, 53>`` combines two numbers."""
    low, high = next(numbers) - 1.0, next(numbers) - 1.0
    span = _RAND_MAX - 1.0
    return (low + high * span) / (span * span)


def _gamma_of_two(numbers: Iterator[int]) -> Iterator[float]:
    """Yield the numbers of ``std::gamma_distribution(2, 1)`` (Marsaglia & Tsang 2000)."""
    normal = _normal(numbers)
    d = 2.0 - 1.0 / 3.0
    c = 1.0 / sqrt(9.0 * d)
    while True:
        n = next(normal)
        v = 1.0 + c * n
        while v <= 0.0:
            n = next(normal)
            v = 1.0 + c * n
        v = v * v * v
        u = _uniform(numbers)
        if u <= 1.0 - 0.0331 * n**4 or log(u) <= 0.5 * n * n + d * (1.0 - v + log(v)):
            yield d * v


def _normal(numbers: Iterator[int]) -> Iterator[float]:
    """Yield the numbers of ``std::normal_distribution`` (Marsaglia's polar method)."""
    while True:
        x, y = (2.0 * _uniform(numbers) - 1.0 for _ in range(2))
        square = x * x + y * y
        if not 0.0 < square <= 1.0:
            continue
        factor = sqrt(-2.0 * log(square) / square)
        yield y * factor
        yield x * factor


def _additive_feedback() -> Iterator[float]:
    """Yield ``rand() / RAND_MAX`` after ``srandom(0)``, for which glibc uses the seed 1."""
    long_lag, short_lag = _LAGS
    states = [1]
    while len(states) < long_lag:
        states.append(states[-1] * _LCG % _PRIME)
    states += states[:short_lag]
    while True:
        states.append((states[-long_lag] + states[-short_lag]) % 2**32)
        # glibc discards the first 310 numbers.
        if len(states) > _WARM_UP + long_lag + short_lag:
            yield (states[-1] >> 1) / _RAND_MAX


TRAINERS: dict[str, Trainer] = {"authors' grids": least_squares_on_authors_grids}
