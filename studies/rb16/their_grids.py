"""The authors' own random grids, number by number as their program drew them."""

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
_MOST = 2.0**31 - 1.0


@cache
def authors_grids(n_inputs: int, n_grids: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw widths and shifts for gamma = 1 as the authors' program does.

    It is C++ with libstdc++ on Linux: widths from ``gamma_distribution(2, 1 / gamma)`` over an
    unseeded ``default_random_engine``, shifts from ``rand()`` after ``srandom(0)``, for each grid
    and input in turn, the first input being one that is always 0.

    Parameters
    ----------
    n_inputs, n_grids : int

    Returns
    -------
    widths, shifts : arrays (n_grids, n_inputs)
        Over gamma they are those of another gamma: the same draws, stretched.

    Notes
    -----
    Python, 3 microseconds a number. The source: ``codes_KRR_randbin/randFeature.hpp`` and
    ``KRR_OneVsAll_RandBin.cpp`` at commit 57578cb.

    Examples
    --------
    >>> widths, shifts = authors_grids(12, 8)
    >>> widths.shape, bool(np.all(shifts < widths))
    ((8, 12), True)
    """
    drawn, shares = _gamma_of_two(_minimal_standard()), _additive_feedback()
    pairs = np.array([(next(drawn), next(shares)) for _ in range(n_grids * (n_inputs + 1))])
    widths, shares_of = pairs.reshape(n_grids, n_inputs + 1, 2)[:, 1:].transpose(2, 0, 1)
    return widths.copy(), widths * shares_of


class AuthorsGrids(RandomBinning):
    """Random bins of the Laplacian kernel in the authors' own grids, inputs scaled to [-1, 1].

    Subclasses are for other scalings, which differ in what they move to 0.

    Parameters
    ----------
    kernel, bandwidth, categorical, n_grids, random_state, n_jobs
        As :class:`RandomBinning`; there is one draw alone, whatever the kernel and the random
        state.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> grids = AuthorsGrids(bandwidth=1.0, n_grids=8)
    >>> grids.fit(X).widths_.shape
    (8, 2)
    """

    def fit_rows(self, X: Rows) -> PlainBins:
        """Do as :meth:`fit_matrix` on rows that are validated already, dense ones."""
        self.bandwidth_ = self._bandwidth_of(X, self.check_parameters())
        widths, shifts = authors_grids(X.shape[1], self.size)
        hashes = Grids.draw(Laplacian(), self.bandwidth_, self.size, seed=0)
        # Constant inputs have an infinite bandwidth and no shift.
        moved = np.where(np.isfinite(self.bandwidth_), shifts * self.bandwidth_, 0.0)
        grids = replace(hashes, widths=widths * self.bandwidth_, shifts=self.zero_of(X) + moved)
        return self.learn_bins(X, grids)

    def zero_of(self, X: Rows) -> NDArray[np.float64]:
        """Return what the scaling of the inputs moves to 0."""
        middle: NDArray[np.float64] = (X.min(axis=0) + X.max(axis=0)) / 2.0
        return middle


class _GridsFromLow(AuthorsGrids):
    """For inputs scaled to [0, 1]."""

    def zero_of(self, X: Rows) -> NDArray[np.float64]:
        low: NDArray[np.float64] = X.min(axis=0)
        return low


class _GridsFromZero(AuthorsGrids):
    """For inputs that are divided, not moved."""

    def zero_of(self, X: Rows) -> NDArray[np.float64]:
        return np.zeros(X.shape[1])


def least_squares_on_authors_grids(
    training: Training, options: Mapping[str, Any], clock: Clock
) -> Iterator[Snapshot]:
    """Do as :func:`least_squares` on the authors' grids, which are drawn before its time begins."""
    setting = Setting.read(options)
    kinds = {"half range": AuthorsGrids, "range": _GridsFromLow}
    with clock.phase("drawing"):
        for each in setting.each():
            authors_grids(setting.rows(training.X[:1]).shape[1], each.size)
    kind = kinds.get(setting.units, _GridsFromZero)
    yield from least_squares(kind, training, options, clock)


def _minimal_standard() -> Iterator[int]:
    """Yield ``std::default_random_engine``'s numbers, 1 to 2**31 - 2."""
    state = 1
    while True:
        state = state * _LCG % _PRIME
        yield state


def _uniform(numbers: Iterator[int]) -> float:
    """Return ``std::generate_canonical<double, 53>``: two numbers make one."""
    low, high = next(numbers) - 1.0, next(numbers) - 1.0
    span = _MOST - 1.0
    return (low + high * span) / (span * span)


def _gamma_of_two(numbers: Iterator[int]) -> Iterator[float]:
    """Yield ``std::gamma_distribution(2, 1)``'s numbers (Marsaglia & Tsang 2000)."""
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
    """Yield ``std::normal_distribution``'s numbers (Marsaglia's polar method)."""
    while True:
        x, y = (2.0 * _uniform(numbers) - 1.0 for _ in range(2))
        square = x * x + y * y
        if not 0.0 < square <= 1.0:
            continue
        factor = sqrt(-2.0 * log(square) / square)
        yield y * factor
        yield x * factor


def _additive_feedback() -> Iterator[float]:
    """Yield ``rand() / RAND_MAX`` after ``srandom(0)``, which glibc takes as 1."""
    far, near = _LAGS
    kept = [1]
    while len(kept) < far:
        kept.append(kept[-1] * _LCG % _PRIME)
    kept += kept[:near]
    while True:
        kept.append((kept[-far] + kept[-near]) % 2**32)
        if len(kept) > _WARM_UP + far + near:
            yield (kept[-1] >> 1) / _MOST


TRAINERS: dict[str, Trainer] = {"authors' grids": least_squares_on_authors_grids}
"""Trainers by name."""
