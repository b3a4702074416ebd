"""How far inner products of features are from the kernel that they stand for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from gramless.base.errors import InputError
from gramless.base.random import seed_from, stream
from gramless.base.threads import one_blas_thread
from gramless.features.base import SizedMap
from gramless.inspection.bounds import Bounds
from gramless.kernels import Kernel
from gramless.matrices.base import FeatureMatrix
from gramless.preprocessing.categories import Mask, category_mask
from gramless.preprocessing.rows import Rows, check_rows


@dataclass(frozen=True)
class KernelErrors:
    """How well features of one size stand for their kernel, means over the seeds.

    Parameters
    ----------
    size : int
        Grids, frequencies' columns or landmarks.
    n_columns, n_pairs : int
        Pairs of different rows, all of a sample.
    sup, mean, rms : float
        Largest, mean and root mean square of ``|z(x)'z(y) - k(x, y)|`` over the pairs.
    hoeffding_pair, hoeffding : float or None
        What the error of one pair, and the largest of all these pairs, stays below but
        with the probability asked for; None where draws are not independent.
    claim : float or None
        The same for all pairs of a region that holds the sample, by Claim 1 or 2 of RR07;
        infinite where its constants are.
    n_bytes : int
        Of the features of all rows of the fit, kept whole.
    seconds : float
        To fit, to compute these features and to multiply by them once.
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

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return asdict(self)


def kernel_errors(
    feature_map: SizedMap,
    X: Any,
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
        Such as :func:`doubling` returns.
    n_rows : int, default=300
        Rows in the sample, at most.
    n_seeds : int, default=3
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
    _check(sizes, n_rows, n_seeds, failure)
    template = clone(feature_map)
    rows = check_rows(template, X, reset=True, min_rows=2)
    seed = seed_from(template.random_state)
    template.set_params(random_state=seed)
    template = _settled(template, template.resized(min(sizes)).fit(rows))
    chosen = sampled(rows.shape[0], n_rows, seed)
    truth = exact_gram(template, rows[chosen])[np.triu_indices(len(chosen), 1)]
    bounds = Bounds.of(template.check_parameters(), *_compared(template, rows[chosen]), failure)
    found = []
    for size in sizes:
        runs = [
            _run(template.resized(size).set_params(random_state=seed + k), rows, chosen, truth)
            for k in range(n_seeds)
        ]
        columns, sup, mean, square, n_bytes, seconds = np.mean(runs, axis=0)
        drawn = bounds.at(template.resized(size), len(truth))
        measured = (round(columns), len(truth), float(sup), float(mean), float(np.sqrt(square)))
        found.append(KernelErrors(size, *measured, *drawn, int(n_bytes), float(seconds)))
    return found


def _settled(template: Any, fitted: Any) -> Any:
    """Return a map that takes from one fitted to all rows what would differ from part to part."""
    settled = template.set_params(bandwidth=fitted.bandwidth_)
    return (
        settled.set_params(sampling=fitted.sampling_) if hasattr(fitted, "sampling_") else settled
    )


def _check(sizes: Sequence[int], n_rows: Any, n_seeds: Any, failure: float) -> None:
    whole = isinstance(n_rows, Integral) and isinstance(n_seeds, Integral)
    if not whole or n_seeds < 1 or n_rows < 2 or len(sizes) == 0:
        raise InputError(
            f"kernel_errors needs a size, a seed and two rows; got {len(sizes)} sizes, "
            f"n_seeds={n_seeds!r} and n_rows={n_rows!r}."
        )
    if not 0.0 < failure < 1.0:
        raise InputError(f"kernel_errors: failure must be between 0 and 1, got {failure!r}.")


def _run(
    feature_map: Any, rows: Rows, chosen: NDArray[np.intp], truth: NDArray[np.float64]
) -> tuple[float, ...]:
    """Return columns, errors, bytes and seconds of one fit."""
    started = time.perf_counter()
    features = feature_map.fit_rows(rows)
    features.matvec(np.zeros(features.shape[1]))
    seconds = time.perf_counter() - started
    gram = feature_map.rows_matrix(rows[chosen]).row_gram()
    errors = np.abs(gram[np.triu_indices(len(chosen), 1)] - truth)
    n_bytes = feature_bytes(features)
    return features.shape[1], errors.max(), errors.mean(), np.mean(errors**2), n_bytes, seconds


def exact_gram(feature_map: Any, rows: Rows) -> NDArray[np.float64]:
    """Return the kernel that a map approximates, between all pairs of a few rows.

    Parameters
    ----------
    feature_map : SizedMap
        Its ``bandwidth`` a number, or one an input.
    rows : array (n_rows, n_features) or CSR

    Returns
    -------
    array (n_rows, n_rows)

    Examples
    --------
    >>> from gramless import RandomBinning
    >>> exact_gram(RandomBinning(bandwidth=2.0), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """
    dense, bandwidth, categorical = _compared(feature_map, rows)
    kernel: Kernel = feature_map.check_parameters()
    return kernel.gram(dense, bandwidth=bandwidth, categorical=categorical)


def feature_bytes(matrix: FeatureMatrix) -> int:
    """Return what a feature matrix takes when all of it is kept.

    Parameters
    ----------
    matrix : FeatureMatrix
        Of a feature map.

    Returns
    -------
    int

    Examples
    --------
    >>> from gramless import RandomBinning
    >>> feature_bytes(RandomBinning(n_grids=8).fit_matrix(np.eye(3))) < 2 * 24 + 16 * 9
    True
    """
    return matrix.nbytes


def doubling(first: int, last: int) -> list[int]:
    """Return sizes that double, from one to another.

    Examples
    --------
    >>> doubling(8, 40)
    [8, 16, 32]
    """
    return [first << k for k in range(max(0, last // first).bit_length())]


def sampled(n_samples: int, most: int, seed: int) -> NDArray[np.intp]:
    """Return numbers of rows, drawn without repetition, in ascending order.

    Examples
    --------
    >>> sampled(3, 5, seed=0)
    array([0, 1, 2])
    """
    if n_samples <= most:
        return np.arange(n_samples)
    return np.sort(stream(seed, "rows judged").choice(n_samples, most, replace=False))


def kernel_effective_dimension(
    feature_map: Any, X: Rows, alpha: float, *, n_rows: int = 1000, seed: int = 0
) -> float:
    """Return the degrees of freedom that a penalty leaves a map's exact kernel.

    ``tr K (K + n alpha I)^-1``, from a sample of the rows: what a fit to the sample has,
    and on average no more than a fit to all rows. So many columns must an approximation
    have at least.

    Parameters
    ----------
    feature_map : SizedMap
        Its ``bandwidth`` a number, or one an input.
    X : array (n_samples, n_features) or CSR
    alpha : float
        As in the estimators, above 0.
    n_rows : int, default=1000
        Rows in the sample, at most.
    seed : int, default=0

    Returns
    -------
    float
        Between 0 and the number of rows in the sample.

    Raises
    ------
    InputError
        If ``alpha`` is not above 0.

    Notes
    -----
    ``n_rows^3`` operations and two arrays of ``n_rows^2`` numbers.

    Examples
    --------
    >>> from gramless import RandomBinning
    >>> X = np.arange(50.0)[:, None]
    >>> round(kernel_effective_dimension(RandomBinning(bandwidth=0.01), X, 1e-9), 3)
    50.0
    """
    if not alpha > 0:
        raise InputError(f"kernel_effective_dimension: alpha must be above 0, got {alpha!r}.")
    chosen = sampled(X.shape[0], n_rows, seed)
    gram = exact_gram(feature_map, X[chosen])
    with one_blas_thread():
        values = scipy.linalg.eigvalsh(gram, overwrite_a=True)
    values = np.maximum(values, 0.0) / len(chosen)
    return float(np.sum(values / (values + alpha)))


def _compared(feature_map: Any, rows: Any) -> tuple[NDArray[Any], NDArray[np.float64], Mask]:
    """Return a few rows as an array, and the bandwidth and categories of its inputs.

    Inputs that are zero in all of some sparse rows are left out.
    """
    mask = category_mask(feature_map.categorical, rows.shape[1])
    bandwidth = np.broadcast_to(feature_map.bandwidth, rows.shape[1])
    if not sp.issparse(rows):
        return rows, bandwidth, mask
    # One input more, of zeros, says nothing, and serves rows that have no others.
    used = np.union1d(rows.indices, [0])
    return rows[:, used].toarray(), bandwidth[used], mask[used]
