"""How far theory lets inner products of features be from their kernel (RR07)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from scipy.special import wrightomega

from gramless.features.binning import RandomBinning
from gramless.features.fourier import RandomFourier
from gramless.kernels import Kernel

_STEPS = 2.0 ** -np.arange(4.0, 11.0)
"""Distances at which a profile is asked how it leaves 1, in bandwidths."""
_SETTLED, _SHRINKS = 1e-6, 0.99


@dataclass(frozen=True)
class Bounds:
    """What the bounds ask of a kernel and some rows.

    Parameters
    ----------
    failure : float
        The probability that a bound may fail.
    n_inputs : int
        Those that the kernel does not ignore.
    diameter : float or None
        Largest Euclidean distance between the rows, in bandwidths; None with categories, of
        which the claims do not speak.
    curvature, slope : float
        Of the kernel, see :func:`curvature_at_zero` and :func:`slope_at_zero`.
    """

    failure: float
    n_inputs: int
    diameter: float | None
    curvature: float
    slope: float

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        rows: NDArray[Any],
        bandwidth: NDArray[np.float64],
        categorical: NDArray[np.bool_],
        failure: float,
    ) -> Self:
        """Measure a kernel and some rows.

        Parameters
        ----------
        kernel : Kernel
        rows : array (n_rows, n_features)
        bandwidth : array (n_features,)
        categorical : array (n_features,) of bool
        failure : float
        """
        n_inputs = int(np.isfinite(bandwidth).sum())
        diameter = None if categorical.any() else _diameter(rows / bandwidth)
        return cls(failure, n_inputs, diameter, curvature_at_zero(kernel), slope_at_zero(kernel))

    def at(self, feature_map: Any, n_pairs: int) -> tuple[float | None, float | None, float | None]:
        """Return the bounds of a map: for a pair, for so many pairs, and by its claim."""
        drawn = independent_draws(feature_map)
        if drawn is None:
            return None, None, None
        n_draws, spread = drawn
        pair = hoeffding_error(n_draws, self.failure, spread=spread)
        every = hoeffding_error(n_draws, self.failure, spread=spread, n_pairs=n_pairs)
        if self.diameter is None:
            return pair, every, None
        if isinstance(feature_map, RandomBinning):
            own = (self.n_inputs, self.slope, self.diameter)
            return pair, every, claim_2_error(self.failure, n_draws, *own)
        if feature_map.map != "paired":
            return pair, every, None
        sigma = float(np.sqrt(self.n_inputs * self.curvature))
        return (
            pair,
            every,
            claim_1_error(self.failure, n_draws, self.n_inputs, sigma, self.diameter),
        )


def independent_draws(feature_map: Any) -> tuple[int, float] | None:
    """Return how many independent draws a map is the mean of, and how far one may reach.

    Parameters
    ----------
    feature_map : SizedMap

    Returns
    -------
    (int, float) or None
        Grids of values 0 or 1, frequencies of values from -1 to 1, or from -2 to 2 for the
        shifted map; None where draws depend on one another or on rows.

    Examples
    --------
    >>> independent_draws(RandomBinning(n_grids=64))
    (64, 1.0)
    """
    if isinstance(feature_map, RandomBinning):
        return feature_map.n_grids, 1.0
    if isinstance(feature_map, RandomFourier) and feature_map.sampling == "iid":
        paired = feature_map.map == "paired"
        return (feature_map.n_components // 2, 2.0) if paired else (feature_map.n_components, 4.0)
    return None


def hoeffding_error(
    n_draws: int, failure: float, *, spread: float = 2.0, n_pairs: int = 1
) -> float:
    """Return what the errors of some pairs stay below, but with a small probability.

    Hoeffding's inequality for a mean of ``n_draws`` independent numbers in an interval of
    length ``spread``, ``2 exp(-2 D eps^2 / spread^2)``, summed over the pairs and solved for
    eps; with ``spread=2``, RR07's ``2 exp(-D eps^2 / 2)``.

    Parameters
    ----------
    n_draws : int
        D frequencies or grids.
    failure : float
        The probability.
    spread : float, default=2.0
        2 for a cosine and a sine a frequency, 4 for a shifted cosine, 1 for a grid.
    n_pairs : int, default=1

    Returns
    -------
    float

    Examples
    --------
    >>> error = hoeffding_error(1000, 0.05)
    >>> round(float(2 * np.exp(-1000 * error**2 / 2)), 6)
    0.05
    """
    return float(spread * np.sqrt(np.log(2.0 * n_pairs / failure) / (2.0 * n_draws)))


def claim_1_failure(
    error: float, n_draws: int, n_inputs: int, sigma: float, diameter: float
) -> float:
    """Return RR07's Claim 1: how likely some pair in a region has a larger error.

    ``2^8 (sigma diam / eps)^2 exp(-D eps^2 / (4 (d + 2)))``, as printed.

    Parameters
    ----------
    error : float
        eps.
    n_draws : int
        D frequencies, drawn independently.
    n_inputs : int
        d.
    sigma : float
        Root of the mean of ``w'w`` over the frequencies, in units of one over the inputs.
    diameter : float
        The largest Euclidean distance in the region.

    Returns
    -------
    float
        Above 1 it says nothing.

    Examples
    --------
    >>> claim_1_failure(0.5, 4096, 2, sigma=1.4, diameter=5.0) < 1e-20
    True
    """
    reach = (sigma * diameter / error) ** 2
    return float(2.0**8 * reach * np.exp(-n_draws * error**2 / (4.0 * (n_inputs + 2.0))))


def claim_1_error(
    failure: float, n_draws: int, n_inputs: int, sigma: float, diameter: float
) -> float:
    """Return the error at which :func:`claim_1_failure` is ``failure``.

    Examples
    --------
    >>> error = claim_1_error(0.05, 1000, 3, sigma=1.7, diameter=6.0)
    >>> round(claim_1_failure(error, 1000, 3, sigma=1.7, diameter=6.0), 6)
    0.05
    """
    if not np.isfinite(sigma):
        return np.inf
    rate = n_draws / (4.0 * (n_inputs + 2.0))
    # With x = eps^2: x exp(rate x) = 2^8 (sigma diam)^2 / failure, and omega(ln y) exp(...) = y.
    with np.errstate(divide="ignore"):
        log = np.log(rate * 2.0**8 / failure) + 2.0 * np.log(sigma * diameter)
    return float(np.sqrt(wrightomega(log).real / rate))


def claim_2_failure(
    error: float, n_grids: int, n_inputs: int, slope: float, diameter: float
) -> float:
    """Return RR07's Claim 2: how likely some pair in a region has a larger error.

    ``36 d P a diam exp(-(P eps^2 / 8 + ln(eps / L)) / (d + 1))``, as printed, with
    ``a = E[1/delta] = L``, the slope at which the kernel leaves 1. Its proof sums
    over cells of the region where it has pairs of cells: it promises too much.

    Parameters
    ----------
    error : float
        eps.
    n_grids : int
        P.
    n_inputs : int
        d.
    slope : float
        In units of one over the inputs: 1 for the Laplacian kernel at bandwidth 1.
    diameter : float

    Returns
    -------
    float
        Above 1 it says nothing.

    Examples
    --------
    >>> claim_2_failure(0.5, 4096, 2, slope=1.0, diameter=5.0) < 1e-10
    True
    """
    exponent = (n_grids * error**2 / 8.0 + np.log(error / slope)) / (n_inputs + 1.0)
    return float(36.0 * n_inputs * n_grids * slope * diameter * np.exp(-exponent))


def claim_2_error(
    failure: float, n_grids: int, n_inputs: int, slope: float, diameter: float
) -> float:
    """Return the error at which :func:`claim_2_failure` is ``failure``.

    Examples
    --------
    >>> error = claim_2_error(0.05, 4096, 3, slope=1.0, diameter=6.0)
    >>> round(claim_2_failure(error, 4096, 3, slope=1.0, diameter=6.0), 6)
    0.05
    """
    if not np.isfinite(slope):
        return np.inf
    with np.errstate(divide="ignore"):
        cells = np.log(36.0 * n_inputs * n_grids / failure) + np.log(slope * diameter)
    # With x = eps^2: x exp(P x / 4) = (slope * exp((d + 1) * cells))^2.
    log = np.log(n_grids / 4.0) + 2.0 * ((n_inputs + 1.0) * cells + np.log(slope))
    return float(np.sqrt(wrightomega(log).real * 4.0 / n_grids))


def curvature_at_zero(kernel: Kernel) -> float:
    """Return ``E w^2``, what one input adds to Claim 1's ``sigma_p^2`` at bandwidth 1.

    ``-k''(0)`` (RR07, section 3), as the limit of ``2 (1 - k(h)) / h^2``.

    Parameters
    ----------
    kernel : Kernel

    Returns
    -------
    float
        Infinite for a kernel with a kink at 0.

    Examples
    --------
    >>> from gramless.kernels import Gaussian, Laplacian
    >>> round(curvature_at_zero(Gaussian()), 6), curvature_at_zero(Laplacian())
    (1.0, inf)
    """
    return _limit(2.0 * (1.0 - kernel.profile(_STEPS)) / _STEPS**2)


def slope_at_zero(kernel: Kernel) -> float:
    """Return ``-k'(0)``, which is ``E[1/delta]`` and the Lipschitz constant in Claim 2.

    Parameters
    ----------
    kernel : Kernel
        Convex and decreasing.

    Returns
    -------
    float
        Infinite for a kernel that falls straight down at 0.

    Examples
    --------
    >>> from gramless.kernels import ExponentialPower, Laplacian
    >>> round(slope_at_zero(Laplacian()), 4), slope_at_zero(ExponentialPower(0.5))
    (1.0, inf)
    """
    return _limit((1.0 - kernel.profile(_STEPS)) / _STEPS)


def _limit(values: NDArray[np.float64]) -> float:
    """Return where a sequence leads whose steps shrink like a power; infinity where they do not.

    Aitken's extrapolation of the last three values.
    """
    before, last = np.diff(values)[-2:]
    if before == 0.0 or abs(last) <= _SETTLED * abs(values[-1]):
        return float(values[-1])
    ratio = last / before
    return float(values[-1] + last * ratio / (1.0 - ratio)) if ratio < _SHRINKS else np.inf


def _diameter(points: NDArray[np.float64]) -> float:
    return float(pdist(points).max()) if len(points) > 1 else 0.0
