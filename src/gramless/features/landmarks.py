"""Which rows, or means of rows, are the landmarks of Nyström features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigvalsh, solve_triangular

from gramless.base.random import stream
from gramless.base.threads import map_blocks, row_blocks
from gramless.features.landmark_kernel import ROWS_AT_ONCE, InputKernel, RowKernel
from gramless.kernels.base import FloatArray
from gramless.preprocessing.rows import Rows

LandmarkKind = Literal["uniform", "kmeans", "leverage"]
LANDMARKS: tuple[LandmarkKind, ...] = ("uniform", "kmeans", "leverage")

Index = NDArray[np.intp]

_SAMPLE_ROWS, _SAMPLE_A_LANDMARK = 10_000, 4
_ROUNDS = 64
_LLOYD_STEPS = 3
_LARGEST_LEVEL = 512


@dataclass(frozen=True)
class Landmarks:
    """Landmarks as the kernel takes them, and the numbers of the rows if they are rows."""

    points: NDArray[Any]
    index: Index | None


def choose_landmarks(
    kind: LandmarkKind, X: Rows, source: RowKernel, n: int, seed: int, n_jobs: int | None
) -> Landmarks:
    """Choose landmarks for rows.

    Parameters
    ----------
    kind : {"uniform", "kmeans", "leverage"}
    X : array (n_samples, n_features) or CSR
    source : RowKernel
    n : int
        All rows are taken, whatever the kind, where there are no more.
    seed : int
    n_jobs : int or None

    Returns
    -------
    Landmarks

    Examples
    --------
    >>> from gramless.kernels import Gaussian
    >>> X = np.repeat([[0.0], [9.0]], 50, axis=0)
    >>> source = InputKernel(Gaussian(), np.ones(1), np.zeros(1, bool))
    >>> sorted(choose_landmarks("kmeans", X, source, 2, 0, None).points.tolist())
    [[0.0], [9.0]]
    """
    if kind == "uniform" or n >= X.shape[0]:
        index = stream(seed, "landmarks").permutation(X.shape[0])[:n]
        return Landmarks(source.landmarks(X, index), index)
    if kind == "leverage":
        index = leverage_rows(X, source, n, stream(seed, "leverage"), n_jobs)
        return Landmarks(source.landmarks(X, index), index)
    generator = stream(seed, "k-means")
    size = max(_SAMPLE_ROWS, _SAMPLE_A_LANDMARK * n)
    sampled = generator.permutation(X.shape[0])[:size]
    sample = source.subset(X, sampled)
    index = sampled[spread_rows(sample, source, n, generator, n_jobs)]
    points = source.landmarks(X, index)
    if not isinstance(source, InputKernel) or source.categorical.any():
        return Landmarks(points, index)
    return Landmarks(cluster_means(sample, points, source.bandwidth, n_jobs), None)


def spread_rows(
    X: Rows, source: RowKernel, n: int, generator: np.random.Generator, n_jobs: int | None
) -> Index:
    """Draw rows far from each other in the kernel's metric, ``|x - y|^2 = kxx + kyy - 2 kxy``.

    The seeding of kernel k-means++ (Oglic & Gärtner 2017, *Nyström Method with Kernel
    K-means++ Samples as Landmarks*): each row is drawn in proportion to its squared distance
    from the nearest one drawn before. Beyond 127, rows are drawn in 64 rounds of equal size, as
    in k-means|| (Bahmani et al. 2012).

    Parameters
    ----------
    X : array (n_samples, n_features) or CSR
    source : RowKernel
    n : int
        At most n_samples.
    generator : numpy.random.Generator
    n_jobs : int or None

    Returns
    -------
    array (n,) of int
        Different rows.
    """
    diagonal = source.diagonal(X)
    nearest, chosen = np.full(X.shape[0], np.inf), np.zeros(X.shape[0], bool)
    index = new = generator.integers(X.shape[0], size=1)
    while len(index) < n:
        chosen[new] = True
        _lower(nearest, X, source, new, diagonal, n_jobs)
        keys = np.log(np.maximum(nearest, np.finfo(float).tiny))
        keys += generator.gumbel(size=len(keys))
        keys[chosen] = -np.inf
        new = _largest(keys, min(max(1, n // _ROUNDS), n - len(index)))
        index = np.concatenate([index, new])
    return index


def _lower(
    nearest: FloatArray,
    X: Rows,
    source: RowKernel,
    new: Index,
    diagonal: FloatArray,
    n_jobs: int | None,
) -> None:
    """Take the squared distances from more rows into account."""
    values = source.towards(source.landmarks(X, new))

    def lower(a: int, b: int) -> None:
        squares = diagonal[a:b, None] + diagonal[new] - 2.0 * values(X[a:b])
        np.minimum(nearest[a:b], squares.min(axis=1), out=nearest[a:b])

    map_blocks(lower, row_blocks(X.shape[0], ROWS_AT_ONCE), n_jobs)


def cluster_means(
    X: Rows, centres: FloatArray, bandwidth: FloatArray, n_jobs: int | None
) -> FloatArray:
    """Move centres to the means of the rows nearest to them, three times.

    Lloyd's steps of k-means, whose centres bound the error of Nyström features (Zhang, Tsang &
    Kwok 2008, *Improved Nyström Low-Rank Approximation and Error Analysis*). A centre that
    no row is nearest to stays.

    Parameters
    ----------
    X : array (n_samples, n_features) or CSR
    centres : array (n, n_features)
    bandwidth : array (n_features,)
        The units of the Euclidean distance.
    n_jobs : int or None

    Returns
    -------
    array (n, n_features)

    Notes
    -----
    3 * n_samples * n * n_features operations.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [8.0], [10.0]])
    >>> cluster_means(X, np.array([[0.0], [8.0]]), np.ones(1), None)
    array([[0.5],
           [9. ]])
    """
    n_rows, n = X.shape[0], len(centres)
    labels = np.empty(n_rows, np.intp)
    blocks = row_blocks(n_rows, ROWS_AT_ONCE)
    for _ in range(_LLOYD_STEPS):
        shift = centres.mean(axis=0)
        scaled = (centres - shift) / bandwidth
        factors = scaled.T / bandwidth[:, None]
        offsets = shift @ factors + 0.5 * np.einsum("ij,ij->i", scaled, scaled)

        def assign(a: int, b: int, by: FloatArray = factors, less: FloatArray = offsets) -> None:
            labels[a:b] = np.argmax(X[a:b] @ by - less, axis=1)

        map_blocks(assign, blocks, n_jobs)
        counts = np.bincount(labels, minlength=n)
        members = sp.csr_array((np.ones(n_rows), (labels, np.arange(n_rows))), shape=(n, n_rows))
        sums = members @ X
        sums = sums.toarray() if sp.issparse(sums) else sums
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    return centres


def leverage_rows(
    X: Rows, source: RowKernel, n: int, generator: np.random.Generator, n_jobs: int | None
) -> Index:
    """Draw rows in proportion to their approximate ridge leverage scores.

    Recursive sampling (Musco & Musco 2017, *Recursive Sampling for the Nyström Method*,
    Algorithm 3, with the smaller samples of section 5.2.1): rows drawn from half of the
    rows give the scores by which rows are drawn from twice as many, until the scores are those of
    all. The ridge is what the leading ``s / (4 log s)`` eigenvalues leave over, ``s`` the size of
    the samples, at most 512.

    Parameters
    ----------
    X : array (n_samples, n_features) or CSR
    source : RowKernel
    n : int
        Below n_samples.
    generator : numpy.random.Generator
    n_jobs : int or None

    Returns
    -------
    array (n,) of int
        Different rows, drawn without replacement, the most important ones likely first.

    Notes
    -----
    About 2 * n_samples kernel values a row of the samples, whose size is about
    ``sqrt(n / 4)`` where n is small beside n_samples.
    """
    n_rows = X.shape[0]
    wanted = np.sqrt((n_rows * n + float(n) ** 3) / (4.0 * n_rows))
    level = int(np.clip(np.ceil(wanted), 2, min(_LARGEST_LEVEL, n_rows)))
    oversampling = max(1.0, np.log(level))
    order = generator.permutation(n_rows)
    sizes = [n_rows]
    while sizes[-1] > level:
        sizes.append(-(-sizes[-1] // 2))
    chosen, chances = order[: sizes[-1]], np.ones(sizes[-1])
    for size in sizes[-2:0:-1]:
        scores = ridge_leverage(X, source, order[:size], chosen, chances, n_jobs)
        chances = np.minimum(1.0, oversampling * scores)
        drawn = generator.random(size) < chances
        if not drawn.any():
            drawn[:level], chances[:] = True, min(1.0, level / size)
        chosen, chances = order[:size][drawn], chances[drawn]
    scores = ridge_leverage(X, source, order, chosen, chances, n_jobs)
    with np.errstate(divide="ignore"):
        keys = np.log(scores) + generator.gumbel(size=n_rows)
    return order[_largest(keys, n)]


def ridge_leverage(
    X: Rows,
    source: RowKernel,
    rows: Index,
    sample: Index,
    chances: FloatArray,
    n_jobs: int | None,
) -> FloatArray:
    """Return approximate ridge leverage scores of rows, from a sample drawn by given chances.

    ``l_i = (k_ii - k_iS (K_SS + ridge diag(chances))^-1 k_Si) / ridge``, at most 1 (Musco &
    Musco 2017, Lemma 6).

    Parameters
    ----------
    X : array (n_samples, n_features) or CSR
    source : RowKernel
    rows, sample : array of int
        Row numbers.
    chances : array (len(sample),)
        With which each row of the sample was drawn.
    n_jobs : int or None

    Returns
    -------
    array (len(rows),)
        In [0, 1].
    """
    landmarks = source.landmarks(X, sample)
    gram = source.gram(X, landmarks, n_jobs)
    ridge = _ridge(gram, chances)
    lower = cholesky(gram + np.diag(ridge * chances), lower=True)
    whitening = solve_triangular(lower, np.eye(len(lower)), lower=True).T
    values, diagonal = source.towards(landmarks), source.diagonal(X)
    scores = np.empty(len(rows))

    def score(a: int, b: int) -> None:
        explained = values(X[rows[a:b]]) @ whitening
        left = diagonal[rows[a:b]] - np.einsum("ij,ij->i", explained, explained)
        scores[a:b] = np.clip(left / ridge, 0.0, 1.0)

    map_blocks(score, row_blocks(len(rows), ROWS_AT_ONCE), n_jobs)
    return scores


def _ridge(gram: FloatArray, chances: FloatArray) -> float:
    """Return the mean of what the leading eigenvalues leave over, never quite 0."""
    roots = np.sqrt(1.0 / chances)
    weighted = gram * roots[:, None] * roots
    size, trace = len(gram), float(np.trace(weighted))
    leading = int(np.ceil(size / (4.0 * max(1.0, np.log(size)))))
    left = trace - eigvalsh(weighted, subset_by_index=[size - leading, size - 1]).sum()
    return float(max(left / leading, 1e-6 * trace / size))


def _largest(keys: FloatArray, n: int) -> Index:
    """Return the places of the largest keys, the largest first."""
    return np.argsort(-keys, kind="stable")[:n]
