"""Errors of inner products of features as approximations of their kernel, and their bounds."""

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

_DISTANCES = 2.0 ** -np.arange(4.0, 11.0)
"""Distances in bandwidths from which derivatives at zero are extrapolated."""
_SETTLED, _SHRINKS = 1e-6, 0.99


@dataclass(frozen=True)
class KernelErrors:
    """How well features of one size approximate their kernel; means over the seeds.

    Attributes
    ----------
    size, n_columns : int
        Grids, components or landmarks; columns.
    n_pairs : int
        Pairs of different rows.
    sup, mean, rms : float
        The largest, the mean and the root mean square of ``|z(x)'z(y) - k(x, y)|`` over the pairs.
    hoeffding_pair, hoeffding : float or None
        Bounds of the error of one pair, and of the largest over all these pairs, with the
        probability asked for; None for dependent draws.
    claim : float or None
        Bound for all pairs of a region that contains the sample, by Claim 1 or 2 of RR07; infinite
        where its constants are.
    n_bytes : int
        What the features of all rows take.
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
    """Measure a feature map's error of the kernel against its size.

    Parameters
    ----------
    feature_map : SizedMap
        A template; its ``random_state`` is the first of the seeds.
    X : array-like or sparse matrix (n_samples, n_features)
        Rows to fit to; the bandwidth is in their units.
    sizes : sequence of int
        Numbers of grids, components or landmarks to try.
    n_rows : int, default=300
        Rows in the sample, at most.
    n_seeds : int, default=3
        Draws of each size, over which errors are averaged.
    failure : float, default=0.05
        The probability that a bound may fail.

    Returns
    -------
    list of KernelErrors
        One a size.

    Raises
    ------
    InputError
        If there are not two rows, or a number is out of its range.

    Notes
    -----
    A fit a size and seed, and ``n_rows^2`` inner products.

    Examples
    --------
    >>> from gramless import RandomBinning
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> few, many = kernel_errors(RandomBinning(random_state=0), X, [64, 1024], n_rows=50)
    >>> 3 < few.rms / many.rms < 5, many.sup < many.hoeffding
    (True, True)
    """
    whole = isinstance(n_rows, Integral) and isinstance(n_seeds, Integral)
    if not whole or n_seeds < 1 or n_rows < 2 or len(sizes) == 0:
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
    # The bandwidth and the sampling of all sizes are those found by one fit to all rows.
    fitted = template.resized(min(sizes)).fit(rows)
    template.set_params(bandwidth=fitted.bandwidth_)
    if isinstance(fitted, RandomFourier):
        template.set_params(sampling=fitted.sampling_)
    chosen = sample_rows(rows.shape[0], n_rows, seed, "rows judged")
    truth = exact_gram(template, rows[chosen])[np.triu_indices(len(chosen), 1)]
    compared = varying_inputs(template, rows[chosen])
    found = []
    for size in sizes:
        runs = [
            _run(template.resized(size).set_params(random_state=seed + k), rows, chosen, truth)
            for k in range(n_seeds)
        ]
        columns, sup, mean, square, n_bytes, seconds = np.mean(runs, axis=0)
        drawn = error_bounds(template.resized(size), len(truth), *compared, failure)
        measured = (round(columns), len(truth), float(sup), float(mean), float(np.sqrt(square)))
        found.append(KernelErrors(size, *measured, *drawn, int(n_bytes), float(seconds)))
    return found


def _run(
    feature_map: SizedMap, rows: Rows, chosen: AnyArray, truth: FloatArray
) -> tuple[float, ...]:
    """Return columns, errors, bytes and seconds of one fit."""
    started = time.perf_counter()
    features = feature_map.fit_rows(rows)
    features.matvec(np.zeros(features.shape[1]))
    seconds = time.perf_counter() - started
    gram = feature_map.rows_matrix(rows[chosen]).row_gram()
    errors = np.abs(gram[np.triu_indices(len(chosen), 1)] - truth)
    measured = errors.max(), errors.mean(), np.mean(errors**2)
    return features.shape[1], *measured, features.nbytes, seconds


def error_bounds(
    feature_map: SizedMap,
    n_pairs: int,
    rows: AnyArray,
    bandwidth: FloatArray,
    categorical: BoolArray,
    failure: float,
) -> tuple[float | None, float | None, float | None]:
    """Return bounds of a map's errors for one pair, for so many pairs, and by a claim of RR07.

    Each may fail with the probability ``failure``. The claims hold within the diameter of the rows
    in bandwidths, and do not cover categories.
    """
    drawn = independent_draws(feature_map)
    if drawn is None:
        return None, None, None
    n_draws, spread = drawn
    pair = hoeffding_error(n_draws, failure, spread=spread)
    every = hoeffding_error(n_draws, failure, spread=spread, n_pairs=n_pairs)
    is_grid = isinstance(feature_map, RandomBinning)
    has_only_pairs = isinstance(feature_map, RandomFourier) and spread == 2.0
    if categorical.any() or not (is_grid or has_only_pairs):
        return pair, every, None
    n_inputs, kernel = int(np.isfinite(bandwidth).sum()), feature_map.check_parameters()
    diameter = float(pdist(rows / bandwidth).max(initial=0.0))
    if is_grid:
        slope = slope_at_zero(kernel)
        return pair, every, claim_2_error(failure, n_draws, n_inputs, slope, diameter)
    sigma = float(np.sqrt(n_inputs * curvature_at_zero(kernel)))
    return pair, every, claim_1_error(failure, n_draws, n_inputs, sigma, diameter)


def independent_draws(feature_map: SizedMap) -> tuple[int, float] | None:
    """Return the number of independent draws that a map averages, and the range of one.

    A grid takes values 0 or 1. A frequency takes values from -1 to 1, or from -2 to 2 in the
    shifted map; with an odd number of columns, the last frequency of the paired map counts half as
    much as the others and has twice their range. None for draws that depend on one another or on
    rows.
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
    """Return a bound on the errors of some pairs that fails with a given probability.

    Hoeffding's inequality for a mean of ``n_draws`` independent numbers in an interval of length
    ``spread``, ``2 exp(-2 D eps^2 / spread^2)``, summed over the pairs and solved for eps; with
    ``spread=2``, RR07's ``2 exp(-D eps^2 / 2)``.
    """
    return float(spread * np.sqrt(np.log(2.0 * n_pairs / failure) / (2.0 * n_draws)))


def claim_1_error(
    failure: float, n_draws: int, n_inputs: int, sigma: float, diameter: float
) -> float:
    """Return the error that some pair in a region exceeds with a given probability.

    RR07's Claim 1, ``2^8 (sigma diam / eps)^2 exp(-D eps^2 / (4 (d + 2)))`` as printed, solved for
    eps: D frequencies, d inputs, ``sigma`` the root of the mean of ``w'w`` over the frequencies.
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
    """Return the error that some pair in a region exceeds with a given probability.

    RR07's Claim 2, ``36 d P a diam exp(-(P eps^2 / 8 + ln(eps / L)) / (d + 1))`` as printed, solved
    for eps: P grids, d inputs, ``a = E[1/delta] = L``, the slope at which the kernel leaves 1. Its
    proof sums over cells of the region where it has pairs of cells: it promises too much.
    """
    if not np.isfinite(slope):
        return np.inf
    with np.errstate(divide="ignore"):
        cells = np.log(36.0 * n_inputs * n_grids / failure) + np.log(slope * diameter)
    # With x = eps^2: x exp(P x / 4) = (slope * exp((d + 1) * cells))^2.
    log = np.log(n_grids / 4.0) + 2.0 * ((n_inputs + 1.0) * cells + np.log(slope))
    return float(np.sqrt(wrightomega(log).real * 4.0 / n_grids))


def curvature_at_zero(kernel: Kernel) -> float:
    """Return ``E w^2 = -k''(0)``, an input's part of Claim 1's ``sigma_p^2`` at bandwidth 1.

    It is the limit of ``2 (1 - k(h)) / h^2``, infinite for a kernel with a kink at 0.
    """
    return _limit(2.0 * (1.0 - kernel.profile(_DISTANCES)) / _DISTANCES**2)


def slope_at_zero(kernel: Kernel) -> float:
    """Return ``-k'(0)``, which is ``E[1/delta]`` and the Lipschitz constant in Claim 2.

    For convex, decreasing kernels; infinite for one that falls vertically at 0.
    """
    return _limit((1.0 - kernel.profile(_DISTANCES)) / _DISTANCES)


def _limit(values: FloatArray) -> float:
    """Return the limit of a sequence by Aitken's extrapolation, or infinity."""
    before, last = np.diff(values)[-2:]
    if before == 0.0 or abs(last) <= _SETTLED * abs(values[-1]):
        return float(values[-1])
    ratio = last / before
    return float(values[-1] + last * ratio / (1.0 - ratio)) if ratio < _SHRINKS else np.inf
