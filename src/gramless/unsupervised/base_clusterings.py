"""Several k-means clusterings of the same rows, of which spectral clustering makes a consensus."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin

from gramless.base.random import stream
from gramless.base.state import Stateful, array_in, require
from gramless.base.threads import map_blocks, one_blas_thread, one_openmp_thread
from gramless.base.types import FloatArray, IntArray
from gramless.matrices.binned import BinnedMatrix

_STARTS = 3
_ITERATIONS = 20
_MORE_CLUSTERS = (2, 6)
"""Clusters of a base clustering for each one that is wanted: at least and at most."""
_MOST_CLUSTERS = 60
"""But no more than these, or twice as many as are wanted: time grows by their square."""
_ROWS_A_CLUSTER = 5
"""Base clusterings have fewer clusters where they would have fewer rows, on average."""


@dataclass(frozen=True, eq=False, repr=False)
class BaseClusterings(Stateful):
    """Clusterings of rows by k-means, each into another number of clusters.

    Clustering i takes a row's first ``n_clusters[i]`` coordinates, scaled to length 1, to the
    nearest of as many centres. ``centers`` (sum of n_clusters, n_coordinates) are 0 beyond these.
    """

    n_clusters: IntArray
    centers: FloatArray

    @classmethod
    def fit(
        cls,
        coordinates: FloatArray,
        weights: FloatArray,
        n_clusters: IntArray,
        seed: int,
        n_jobs: int | None = None,
    ) -> Self:
        """Cluster rows, given their coordinates (n, n_coordinates) and weights (n,)."""
        seeds = stream(seed, "base clusterings").integers(2**31, size=len(n_clusters))
        centers = np.zeros((int(n_clusters.sum()), coordinates.shape[1]))

        def cluster(size: int, end: int, start: int) -> None:
            own = unit_rows(coordinates[:, :size])
            kmeans = KMeans(size, n_init=_STARTS, max_iter=_ITERATIONS, random_state=start)
            # Threads of k-means add up sums in the order in which they end.
            with one_openmp_thread():
                kmeans.fit(own, sample_weight=weights)
            centers[end - size : end, : own.shape[1]] = kmeans.cluster_centers_

        with one_blas_thread(), warnings.catch_warnings():
            # Equal rows may have fewer clusters.
            warnings.simplefilter("ignore", ConvergenceWarning)
            map_blocks(cluster, zip(n_clusters, np.cumsum(n_clusters), seeds, strict=True), n_jobs)
        return cls(n_clusters, centers)

    def codes(self, coordinates: FloatArray) -> NDArray[np.uint32]:
        """Return the cluster of each row in each clustering, from 1: (n_clusterings, n_rows)."""
        found = np.empty((len(self.n_clusters), len(coordinates)), np.uint32)
        with one_openmp_thread():
            for row, centers in zip(found, self._own_centers(), strict=True):
                own = unit_rows(coordinates[:, : centers.shape[1]])
                row[...] = pairwise_distances_argmin(own, centers) + 1
        return found

    def matrix(self, codes: NDArray[np.uint32], n_jobs: int | None) -> BinnedMatrix:
        """Return features of rows: a column for each cluster of each clustering."""
        offsets = np.concatenate([[0], np.cumsum(self.n_clusters)])
        return BinnedMatrix(codes, offsets, has_unseen=False, n_jobs=n_jobs)

    def check(self) -> None:
        """Check that the parts of clusterings from a file fit each other."""
        n_clusters = array_in(vars(self), "n_clusters", np.int64, (None,))
        require(
            len(n_clusters) > 0 and bool((n_clusters > 0).all()), "clusterings have no clusters"
        )
        array_in(vars(self), "centers", np.float64, (int(n_clusters.sum()), None), finite=True)

    def _own_centers(self) -> Iterator[FloatArray]:
        for size, end in zip(self.n_clusters, np.cumsum(self.n_clusters), strict=True):
            yield self.centers[end - size : end, :size]


def draw_n_clusters(n_clusterings: int, n_wanted: int, n_rows: int, seed: int) -> IntArray:
    """Return how many clusters each base clustering has: 2 to 6 times as many as are wanted."""
    low, high = (times * n_wanted for times in _MORE_CLUSTERS)
    most = max(n_wanted, n_rows // _ROWS_A_CLUSTER)
    low, high = min(low, most), min(high, max(low, _MOST_CLUSTERS), most)
    return stream(seed, "sizes of clusterings").integers(low, high + 1, size=n_clusterings)


def unit_rows(coordinates: FloatArray) -> FloatArray:
    """Return rows divided by their lengths; rows of zeros stay."""
    lengths = np.sqrt(np.einsum("ij,ij->i", coordinates, coordinates))[:, None]
    return coordinates / np.where(lengths > 0, lengths, 1.0)
