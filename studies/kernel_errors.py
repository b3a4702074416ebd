"""Errors of the kernel approximated by inner products of features, and bounds of the errors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from scipy.spatial.distance import pdist
from scipy.special import wrightomega
from sklearn.base import clone

from gramless.base.errors import InputError
from gramless.base.random import seed_from
from gramless.base.types import AnyArray, BoolArray, FloatArray
from gramless.features.base import SizedMap
from gramless.features.binning import RandomBinning
from gramless.features.exact import exact_gram, varying_inputs
from gramless.features.fourier import RandomFourier
from gramless.inspection.explanation import sample_rows
from gramless.kernels import Kernel
from gramless.preprocessing.rows import Rows, check_rows

# Distances in bandwidths from which derivatives at zero are extrapolated.
_DISTANCES = 2.0 ** -np.arange(4.0, 11.0)
_CONVERGED = 1e-6  # relative last difference below which a sequence has its limit
_MAX_RATIO = 0.99  # of successive differences; above it, a sequence counts as divergent


@dataclass(frozen=True)
class KernelErrors:
    """Errors of the kernel approximation by features of one size, averaged over seeds.

    Attributes
    ----------
    size, n_columns : int
        Number of grids, components or landmarks; number of columns.
    n_pairs : int
        Number of pairs of different rows in the sample.
    sup, mean, rms : float
        The maximum, mean and root mean square of ``|z(x)'z(y) - k(x, y)|`` over the pairs.
    hoeffding_pair, hoeffding : float or None
        Bounds of the error of one pair, and of the largest error of all pairs, that fail with the
        given probability. None if the draws are dependent.
    claim : float or None
        Bound for all pairs of a region that contains the sample, by Claim 1 or 2 of RR07. Infinite
        if its constants are infinite, and None if neither claim applies.
    n_bytes : int
        Size of the feature matrix of all rows.
    seconds : float
        Time to fit and compute these features and to multiply by them once.

    Examples
    --------
    >>> from gramless import RandomBinning
    >>> X = np.random.default_rng(0).uniform(size=(50, 2))
    >>> [one] = kernel_errors(RandomBinning(random_state=0), X, [64], n_seeds=1)
    >>> one.size, one.mean <= one.rms <= one.sup
    (64, True)
    """

    size: int
    n_columns: int
    n_pairs: int
    sup: float
    mean: float
    rms: float
    hoeffding_pair: float | None
    hoeffding: float | None
    claim: float | None
    n_bytes: int
    seconds: float


def kernel_errors(
    feature_map: SizedMap,
    X: Rows,
    sizes: Sequence[int],
    *,
    n_rows: int = 300,
    n_seeds: int = 3,
    failure: float = 0.05,
) -> list[KernelErrors]:
    """Measure the error of the kernel approximated by a feature map, for several sizes.

    Parameters
    ----------
    feature_map : SizedMap
        An unfitted map, which is cloned. Its ``random_state`` is the first of the seeds.
    X : array-like or sparse matrix (n_samples, n_features)
        Rows to fit; the bandwidth is in their units.
    sizes : sequence of int
        Numbers of grids, components or landmarks.
    n_rows : int, default=300
        Maximum number of sampled rows, whose pairs are compared.
    n_seeds : int, default=3
        Number of draws per size, over which errors are averaged.
    failure : float, default=0.05
        Probability with which a bound may fail.

    Returns
    -------
    list of KernelErrors
        One per size.

    Raises
    ------
    InputError
        If there are fewer than two rows, or a number is out of range.

    Notes
    -----
    The cost is one fit, and about ``n_rows^2`` inner products, for each size and seed.

    Examples
    --------
    >>> from gramless import RandomBinning
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> few, many = kernel_errors(RandomBinning(random_state=0), X, [64, 1024], n_rows=50)
    >>> 3 < few.rms / many.rms < 5, many.sup < many.hoeffding
    (True, True)
    """
    are_integers = isinstance(n_rows, Integral) and isinstance(n_seeds, Integral)
    if not are_integers or n_seeds < 1 or n_rows < 2 or len(sizes) == 0:
        raise InputError(
            f"kernel_errors needs a size, a seed and two rows; got {len(sizes)} sizes, "
            f"n_seeds={n_seeds!r} and n_rows={n_rows!r}."
        )
    if not 0.0 < failure < 1.0:
        raise InputError(f"kernel_errors: failure must be between 0 and 1, got {failure!r}.")
    template = clone(feature_map)
    rows = check_rows(template, X, reset=True, min_rows=2)
    seed = seed_from(template.random_state)
    template.set_params(random_state=seed)
    # One fit to all rows determines the bandwidth and the sampling for all sizes.
    fitted = template.resized(min(sizes)).fit(rows)
    template.set_params(bandwidth=fitted.bandwidth_)
    if isinstance(fitted, RandomFourier):
        template.set_params(sampling=fitted.sampling_)
    sample = sample_rows(rows.shape[0], n_rows, seed, "rows judged")
    exact = exact_gram(template, rows[sample])[np.triu_indices(len(sample), 1)]
    inputs = varying_inputs(template, rows[sample])
    results = []
    for size in sizes:
        runs = [
            _run(template.resized(size).set_params(random_state=seed + k), rows, sample, exact)
            for k in range(n_seeds)
        ]
        columns, sup, mean, square, n_bytes, seconds = np.mean(runs, axis=0)
        bounds = error_bounds(template.resized(size), len(exact), *inputs, failure)
        errors = (round(columns), len(exact), float(sup), float(mean), float(np.sqrt(square)))
        results.append(KernelErrors(size, *errors, *bounds, int(n_bytes), float(seconds)))
    return results


def _run(
    feature_map: SizedMap, rows: Rows, sample: AnyArray, exact: FloatArray
) -> tuple[float, ...]:
    """Return the columns, maximum, mean and mean squared error, bytes and seconds of one fit."""
    started = time.perf_counter()
    features = feature_map.fit_rows(rows)
    features.matvec(np.zeros(features.shape[1]))
    seconds = time.perf_counter() - started
    gram = feature_map.rows_matrix(rows[sample]).row_gram()
    errors = np.abs(gram[np.triu_indices(len(sample), 1)] - exact)
    statistics = errors.max(), errors.mean(), np.mean(errors**2)
    return features.shape[1], *statistics, features.nbytes, seconds


def error_bounds(
    feature_map: SizedMap,
    n_pairs: int,
    rows: AnyArray,
    bandwidth: FloatArray,
    categorical: BoolArray,
    failure: float,
) -> tuple[float | None, float | None, float | None]:
    """Return bounds of the error for one pair, for all of ``n_pairs``, and by a claim of RR07.

    Each bound fails with probability ``failure`` at most. The claims hold for regions with the
    diameter of the rows, measured in bandwidths, and do not cover categories.
    """
    draws = independent_draws(feature_map)
    if draws is None:
        return None, None, None
    n_draws, spread = draws
    one_pair = hoeffding_error(n_draws, failure, spread=spread)
    all_pairs = hoeffding_error(n_draws, failure, spread=spread, n_pairs=n_pairs)
    is_binning = isinstance(feature_map, RandomBinning)
    is_paired = isinstance(feature_map, RandomFourier) and spread == 2.0
    if categorical.any() or not (is_binning or is_paired):
        return one_pair, all_pairs, None
    n_inputs, kernel = int(np.isfinite(bandwidth).sum()), feature_map.check_parameters()
    diameter = float(pdist(rows / bandwidth).max(initial=0.0))
    if is_binning:
        slope = slope_at_zero(kernel)
        claim = claim_2_error(failure, n_draws, n_inputs, slope, diameter)
    else:
        sigma = float(np.sqrt(n_inputs * curvature_at_zero(kernel)))
        claim = claim_1_error(failure, n_draws, n_inputs, sigma, diameter)
    return one_pair, all_pairs, claim


def independent_draws(feature_map: SizedMap) -> tuple[int, float] | None:
    """Return the number of independent draws that a map averages, and the length of their range.

    The inner product for one grid is 0 or 1. For one frequency it is between -1 and 1, or between
    -2 and 2 in the shifted map. With an odd number of columns, the last frequency of the paired map
    has half the weight and twice the range. None if the draws depend on each other or on rows.
    """
    if isinstance(feature_map, RandomBinning):
        return feature_map.n_grids, 1.0
    if isinstance(feature_map, RandomFourier) and feature_map.sampling == "iid":
        n_columns = feature_map.n_components
        n_frequencies = (n_columns + 1) // 2 if feature_map.map == "paired" else n_columns
        return n_frequencies, 4.0 * n_frequencies / n_columns
    return None


def hoeffding_error(
    n_draws: int, failure: float, *, spread: float = 2.0, n_pairs: int = 1
) -> float:
    """Return a bound on the errors of ``n_pairs`` pairs that fails with a given probability.

    Hoeffding's inequality for the mean of ``n_draws`` independent numbers in an interval of length
    ``spread`` is ``2 exp(-2 D eps^2 / spread^2)``. It is summed over the pairs and solved for eps.
    With ``spread=2`` it is RR07's ``2 exp(-D eps^2 / 2)``.
    """
    return float(spread * np.sqrt(np.log(2.0 * n_pairs / failure) / (2.0 * n_draws)))


def claim_1_error(
    failure: float, n_draws: int, n_inputs: int, sigma: float, diameter: float
) -> float:
    """Return the bound of RR07's Claim 1 on the errors of all pairs in a region.

    The failure probability ``2^8 (sigma diam / eps)^2 exp(-D eps^2 / (4 (d + 2)))`` is used as
    printed and solved for eps, with D frequencies, d inputs, and ``sigma`` the root of the mean of
    ``w'w`` over the frequencies.
    """
    if not np.isfinite(sigma):
        return np.inf
    rate = n_draws / (4.0 * (n_inputs + 2.0))
    # With x = eps^2: x exp(rate x) = 2^8 (sigma diam)^2 / failure, and omega(ln y) exp(...) = y.
    with np.errstate(divide="ignore"):
        log = np.log(rate * 2.0**8 / failure) + 2.0 * np.log(sigma * diameter)
    return float(np.sqrt(wrightomega(log).real / rate))


def claim_2_error(
    failure: float, n_grids: int, n_inputs: int, slope: float, diameter: float
) -> float:
    """Return the bound of RR07's Claim 2 on the errors of all pairs in a region.

    The failure probability ``36 d P a diam exp(-(P eps^2 / 8 + ln(eps / L)) / (d + 1))`` is used as
    printed and solved for eps, with P grids, d inputs, and ``a = E[1/delta] = L``, minus the slope
    of the kernel at 0. The bound is too optimistic: the proof sums over cells of the region, but
    needs pairs of cells.
    """
    if not np.isfinite(slope):
        return np.inf
    with np.errstate(divide="ignore"):
        cells = np.log(36.0 * n_inputs * n_grids / failure) + np.log(slope * diameter)
    # With x = eps^2: x exp(P x / 4) = (slope * exp((d + 1) * cells))^2.
    log = np.log(n_grids / 4.0) + 2.0 * ((n_inputs + 1.0) * cells + np.log(slope))
    return float(np.sqrt(wrightomega(log).real * 4.0 / n_grids))


def curvature_at_zero(kernel: Kernel) -> float:
    """Return ``E w^2 = -k''(0)``, the share of one input in Claim 1's ``sigma_p^2``.

    It is the limit of ``2 (1 - k(h)) / h^2`` at bandwidth 1, infinite for a kernel with a kink at
    0.
    """
    return _limit(2.0 * (1.0 - kernel.profile(_DISTANCES)) / _DISTANCES**2)


def slope_at_zero(kernel: Kernel) -> float:
    """Return ``-k'(0)``, which is ``E[1/delta]`` and the Lipschitz constant in Claim 2.

    The kernel must be convex and decreasing. The result is infinite for a vertical slope at 0.
    """
    return _limit((1.0 - kernel.profile(_DISTANCES)) / _DISTANCES)


def _limit(values: FloatArray) -> float:
    """Return the limit of a sequence by Aitken's extrapolation, or infinity."""
    previous, last = np.diff(values)[-2:]
    if previous == 0.0 or abs(last) <= _CONVERGED * abs(values[-1]):
        return float(values[-1])
    ratio = last / previous
    return float(values[-1] + last * ratio / (1.0 - ratio)) if ratio < _MAX_RATIO else np.inf
