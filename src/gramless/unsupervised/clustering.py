"""Spectral clustering by features, with a consensus of clusterings and detection of noise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from typing import Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import _num_samples

from gramless.base.errors import InputError
from gramless.base.lazy_rows import take_rows
from gramless.base.random import stream
from gramless.base.state import State, Stateful, array_in, number_in, part_in, require
from gramless.base.threads import map_blocks, one_blas_thread, one_openmp_thread, row_blocks
from gramless.base.types import BoolArray, FloatArray, IntArray, TableLike
from gramless.estimators.given_rows import take_given_rows
from gramless.estimators.parameters import check_count, check_number, is_auto
from gramless.features.base import SizedMap
from gramless.features.neighbours import MAX_DEVIATIONS, NearestLandmarks
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.preprocessing.equal_rows import equal_rows
from gramless.preprocessing.rows import Rows
from gramless.unsupervised.base import ProjectingMachine, normalise_by_degree

Labels = NDArray[np.int32]
T = TypeVar("T")

_START_ROWS = 10_000  # rows on which k-means is started; the best start continues with all rows
_VECTOR_ROWS = 100_000  # rows for the singular vectors, if a consensus follows
_CORRELATION_ROWS, _MAX_CORRELATED_INPUTS = 5000, 1000
_BLOCK_ROWS = 1 << 14  # the coordinates of one block are in memory at once
_REGULARIZATION = 0.1  # share of the mean degree that is added with kernel features
# Eigenvalues of the Laplacian below this, divided by the number of landmarks, are practically 0.
_MIN_EIGENVALUE = 0.5

# The consensus. Time grows by the square of the clusters of a base clustering.
_N_BASE_CLUSTERINGS, _MAX_CLUSTERS_WITH_CONSENSUS = 20, 20
_BASE_STARTS, _BASE_ITERATIONS = 3, 20
_BASE_CLUSTERS_PER_CLUSTER, _MAX_BASE_CLUSTERS, _ROWS_PER_BASE_CLUSTER = (2, 6), 60, 5
# A consensus is dropped if its normalised cut is more than 1.1 times as large as that without it.
# Cuts that are all but 0 have no meaningful ratio.
_MAX_CUT_RATIO, _SMALL_CUT = 1.1, 1e-3

# Noise inputs. The smallest correlation that counts, in standard errors, and its bounds.
_STANDARD_ERRORS, _MIN_CORRELATION, _MAX_CORRELATION = 4.0, 0.1, 0.3
_FEW_VALUES = 10  # inputs with at most this many values form groups even if they are noise
_TRIMMED = 0.01  # share of values at either end that the groups leave out
_N_QUANTILES, _MAX_GROUPS = 300, 6
# The variance within groups, relative to that of uniform values, below which an input is grouped.
_MAX_GROUPED_VARIANCE = 0.9


@dataclass(frozen=True, eq=False, repr=False)
class BaseClusterings(Stateful):
    """Clusterings of rows by k-means with different numbers of clusters.

    Clustering i assigns the first ``n_clusters[i]`` coordinates of a row, scaled to length 1, to
    the nearest of ``n_clusters[i]`` centres. ``centers`` (sum of n_clusters, n_coordinates) are 0
    in the other coordinates.
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

        def cluster(size: int, end: int, kmeans_seed: int) -> None:
            rows = unit_rows(coordinates[:, :size])
            kmeans = KMeans(
                size, n_init=_BASE_STARTS, max_iter=_BASE_ITERATIONS, random_state=kmeans_seed
            )
            # The sums of k-means in threads depend on the order in which threads finish.
            with one_openmp_thread():
                kmeans.fit(rows, sample_weight=weights)
            centers[end - size : end, : rows.shape[1]] = kmeans.cluster_centers_

        with one_blas_thread(), warnings.catch_warnings():
            # There may be fewer distinct rows than clusters.
            warnings.simplefilter("ignore", ConvergenceWarning)
            map_blocks(cluster, zip(n_clusters, np.cumsum(n_clusters), seeds, strict=True), n_jobs)
        return cls(n_clusters, centers)

    def codes(self, coordinates: FloatArray) -> NDArray[np.uint32]:
        """Return the cluster of each row in each clustering, from 1: (n_clusterings, n_rows)."""
        codes = np.empty((len(self.n_clusters), len(coordinates)), np.uint32)
        with one_openmp_thread():
            ends = np.cumsum(self.n_clusters)
            for row, size, end in zip(codes, self.n_clusters, ends, strict=True):
                centers = self.centers[end - size : end, :size]
                rows = unit_rows(coordinates[:, : centers.shape[1]])
                row[...] = pairwise_distances_argmin(rows, centers) + 1
        return codes

    def matrix(self, codes: NDArray[np.uint32], n_jobs: int | None) -> BinnedMatrix:
        """Return a feature matrix with a column for each cluster of each clustering."""
        offsets = np.concatenate([[0], np.cumsum(self.n_clusters)])
        return BinnedMatrix(codes, offsets, has_unseen=False, n_jobs=n_jobs)

    def check(self) -> None:
        n_clusters = array_in(vars(self), "n_clusters", np.int64, (None,))
        require(
            len(n_clusters) > 0 and bool((n_clusters > 0).all()), "clusterings have no clusters"
        )
        array_in(vars(self), "centers", np.float64, (int(n_clusters.sum()), None), finite=True)


@dataclass(eq=False, repr=False)
class SpectralClustering(ClusterMixin, ProjectingMachine):
    """Spectral clustering in time linear in the rows.

    Rows are the nodes of a graph. The weights of its edges are the products of their features,
    ``W = Z Z.T``; W is never formed. The leading left singular vectors of ``D^-1/2 Z``, with the
    degrees ``D = diag(Z (Z.T 1))``, are scaled to rows of length 1 and clustered by k-means (Wu et
    al. 2018, SC_RB). New rows are projected in the same way and assigned to the nearest centre.

    By default, the weight of two rows is the share of their nearest landmarks that they have in
    common. The coordinates are clustered several times into more clusters than requested, and the
    same steps are applied to the graph of these base clusterings (Huang et al. 2020,
    "Ultra-scalable spectral clustering and ensemble clustering"). ``features="binning"`` is SC_RB.

    Parameters
    ----------
    n_clusters : int or "eigengap", default=8
        Number of clusters. "eigengap" selects the number from 2 to ``max_clusters`` after which the
        eigenvalues of the graph's Laplacian increase by the largest factor.
    max_clusters : int, default=20
        Maximum number of clusters for "eigengap".
    n_init : int, default=10
        Number of starts of k-means on at most 10,000 rows; the best start continues with all rows.
    n_base_clusterings : int or "auto", default="auto"
        Number of k-means clusterings; their consensus defines the clusters. Each has 2 to 6 times
        as many clusters as requested, but at most the larger of 60 and twice as many, and at most
        one cluster per five distinct rows unless more are requested. With 0, k-means on the
        coordinates of the graph defines the clusters; this is also used if the normalised cut of
        the consensus is larger by more than a tenth. "auto" is 20 for up to 20 clusters with
        neighbours, otherwise 0.
    regularization : float or "auto", default="auto"
        Added to the degrees, as a multiple of their mean, so that a few isolated rows do not form
        clusters (Qin & Rohe 2013). "auto" is 0 for neighbours and 0.1 for other features.
    features : "auto", "neighbors", other str or feature map, default="auto"
        "neighbors" uses common nearest landmarks; other values are kernel features, see
        :class:`~gramless.KernelRegressor`. "auto" is "binning" if fewer than two inputs are numbers
        that vary, or if ``bandwidth`` or ``n_grids`` is given; otherwise "neighbors".
    n_neighbors : int, default=8
        Number of nearest landmarks of a row. It is reduced if there are fewer distinct rows than
        this number times the clusters. Distances are Euclidean distances of scaled inputs, clipped
        to two standard deviations. The distance of two different categories is the typical distance
        of neighbours by numbers alone.
    n_landmarks : int, default=10_000
        Number of random rows among which neighbours are searched; equal rows count as one.
    min_correlation : float or "auto", default="auto"
        A numeric input is ignored as noise if neither its values nor their squares have at least
        this correlation with those of another input, in at most 5,000 random rows. Inputs of two
        values are kept, and inputs of more than ten values if these form two to six groups. All
        inputs are kept if fewer than two with more than ten values would remain, or if there are
        more than 1,000. 0 ignores no input. "auto" is four standard errors of a correlation,
        between 0.1 and 0.3, with neighbours, and 0 with other features.
    bandwidth : float, array-like (n_inputs,), "auto", "median" or "neighbors", default="auto"
        Bandwidth of kernel features in units of the scaled inputs. "neighbors" is the median
        distance of a row to its tenth neighbour among at most 1,000 rows, "median" the median
        distance of two random rows. "auto" is the bandwidth of the feature map if that is a
        number, else "neighbors".
    scaling : str, default="auto"
        "standard", "quantile", "both" or "none"; "auto" is "standard".
    categorical_features : "auto" or array-like, default="auto"
        See :class:`~gramless.KernelRegressor`.
    n_grids : int or "auto", default="auto"
        Number of grids, if ``features`` is the name of features with grids.
    tol : float, default=1e-4
        Tolerance for the residuals of singular vectors, relative to the largest singular value.
    max_iter : int, default=1000
        Maximum number of products with a block of vectors.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random numbers; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Number of threads; None means all processors. Results do not depend on it.

    Attributes
    ----------
    labels_ : array (n_samples,)
        The cluster of each training row.
    n_clusters_ : int
        Number of clusters.
    cluster_centers_ : array (n_clusters, n_clusters)
        Centres in the coordinates of the final k-means.
    components_, singular_values_ : array (n_components, n_features_out), (n_components,)
        Right singular vectors and singular values of ``D^-1/2 Z``.
    base_clusterings_ : BaseClusterings or None
        None if the clusters are not a consensus.
    consensus_weights_ : array (n_base_clusters, n_clusters) or None
        Map from the clusters of a row in the base clusterings to its final coordinates.
    eigenvalues_ : array (max_clusters + 1,) or shorter
        Eigenvalues of the Laplacian without regularisation; only with "eigengap".
    ignored_columns_ : array (n_ignored,) of int
        Indices of the columns that are ignored as noise.
    features_, scaler_ : feature map, scaling of the inputs
    bandwidth_ : float or array (n_inputs,)
        Bandwidth of kernel features; only with these.
    n_iter_ : int
        Number of products with a block of vectors.

    Notes
    -----
    Neighbours take ``n_samples * n_landmarks * (n_features + n_neighbors)`` operations, a second
    for 100,000 rows of 20 inputs on two cores. Base clusterings take about three seconds for 10,000
    or more rows. Equal rows count as one row with the sum of their weights. If there are at most as
    many distinct rows as clusters, each is a cluster. Rows must have positive degrees, which
    neighbours and bins guarantee but Fourier features do not.

    Examples
    --------
    >>> from gramless import SpectralClustering
    >>> rng = np.random.default_rng(0)
    >>> angle, ring = rng.uniform(0, 2 * np.pi, 400), np.repeat([1.0, 3.0], 200)
    >>> X = np.column_stack([ring * np.cos(angle), ring * np.sin(angle)])
    >>> clusters = SpectralClustering(2, random_state=0).fit(X)
    >>> bool(len(set(clusters.labels_[:200])) == len(set(clusters.labels_[200:])) == 1)
    True
    """

    _bandwidth_rule = "neighbors"

    n_clusters: int | str = 8
    _: KW_ONLY
    max_clusters: int = 20
    n_init: int = 10
    n_base_clusterings: int | str = "auto"
    regularization: float | str = "auto"
    features: str | SizedMap = "auto"
    n_neighbors: int = 8
    n_landmarks: int = 10_000
    min_correlation: float | str = "auto"
    tol: float = 1e-4
    max_iter: int = 1000

    def fit(self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the features, the coordinates and the clusters.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Training rows.
        y : ignored
            Ignored; present for scikit-learn's interface.
        sample_weight : array-like (n_samples,), optional
            A row of weight 2 counts as two equal rows. A row of weight 0 gets a label, but has no
            influence on the clusters.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        ValueError
            If rows, weights or parameters are invalid, if there are fewer rows of positive weight
            than clusters, or if the degree of a row is not positive.

        Warns
        -----
        UserWarning
            If there are fewer distinct rows than clusters.
        ConvergenceWarning
            If the singular vectors do not meet ``tol``.
        """
        for name in ("n_init", "n_neighbors", "n_landmarks"):
            check_count(self, name)
        weighted_rows, row_weights, used = self._without_ignored(X, sample_weight)
        min_clusters = self._min_clusters()
        rows, _ = self._learn_inputs(weighted_rows)
        n_rows = rows.shape[0]
        if n_rows < min_clusters:
            raise InputError(
                f"SpectralClustering: needs at least one row per cluster, got n_samples={n_rows} "
                f"rows for {min_clusters} clusters."
            )
        weights = self._relative_weights(row_weights, n_rows)
        first, group = equal_rows(rows)
        if len(first) == n_rows and weights.min() == weights.max():
            self._fit_distinct(rows, weights / weights.mean())
            labels = self.labels_
        else:
            # Among copies of rows, nearest neighbours and bandwidths would be at distance 0.
            sums = np.bincount(group, weights=weights)
            self._fit_distinct(take_rows(rows, first), sums / sums.mean())
            labels = self.labels_[group]
        if used is not None:
            ignored = np.setdiff1d(np.arange(_num_samples(X)), used)
            labels = np.append(labels, self.predict(take_given_rows(X, ignored)))
            labels = labels[np.argsort(np.append(used, ignored))]
        self.labels_: Labels = labels
        return self

    def _fit_distinct(self, rows: Rows, row_weights: FloatArray) -> None:
        n_clusters, n_rows = self._requested_clusters(), rows.shape[0]
        min_clusters = self._min_clusters()
        if n_rows < min_clusters:
            warnings.warn(
                f"SpectralClustering: X has {n_rows} distinct rows, fewer than the "
                f"{min_clusters} requested clusters, so each distinct row is a cluster. Lower "
                f"n_clusters.",
                UserWarning,
                stacklevel=3,
            )
            n_clusters = n_rows
        matrix, seed = self._fit_row_features(rows, row_weights)
        self.__dict__.pop("eigenvalues_", None)
        if n_clusters is None:
            n_values = min(n_rows, int(self.max_clusters) + 1)
            graph = normalise_by_degree(matrix, row_weights, "SpectralClustering")
            self._decompose(graph, n_values, seed)
            self.eigenvalues_: FloatArray = 1.0 - self.singular_values_**2
            # Without this constant, ratios of eigenvalues that are practically 0 would be largest.
            values = np.maximum(self.eigenvalues_[1:], 0.0) + _MIN_EIGENVALUE / min(matrix.shape)
            n_clusters = 2 + int(np.argmax(values[1:] / values[:-1])) if len(values) > 1 else 2
        self.n_clusters_: int = n_clusters
        n_base_clusters = draw_n_clusters(
            self._n_base_clusterings(n_clusters), n_clusters, n_rows, seed
        )
        n_components = max(n_clusters, n_base_clusters.max(initial=0))
        sample = _sample_rows(n_rows, _VECTOR_ROWS if len(n_base_clusters) else n_rows, seed)
        normalised = normalise_by_degree(
            matrix.take_rows(sample),
            row_weights[sample],
            "SpectralClustering",
            self._regularization(),
        )
        self._decompose(normalised, int(n_components), seed)
        self.base_clusterings_: BaseClusterings | None = None
        self.consensus_weights_: FloatArray | None = None
        coordinates = np.concatenate(self._by_blocks(matrix, self._coordinates))
        self.cluster_centers_: FloatArray = self._fit_centres(coordinates, row_weights, seed)
        self.labels_ = _nearest(coordinates, self.cluster_centers_)
        if len(n_base_clusters):
            self._learn_consensus(matrix, row_weights, n_base_clusters, seed)
        if self.base_clusterings_ is None:
            # Only base clusterings need more coordinates than there are clusters.
            self.singular_values_ = self.singular_values_[:n_clusters]
            self.components_ = self.components_[:n_clusters]

    def predict(self, X: TableLike) -> Labels:
        """Return the cluster of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples,)
            Labels from 0 to ``n_clusters_ - 1``. With bins as features, a row without any known bin
            is assigned to the cluster with the centre nearest to 0.
        """
        self._check_fitted()
        parts = [self._by_blocks(block, self._coordinates) for block in self._feature_blocks(X)]
        labels = (_nearest(part, self.cluster_centers_) for part in chain(*parts))
        return np.concatenate([np.zeros(0, np.int32), *labels])

    def _learn_features(self, rows: Rows, seed: int) -> FeatureMatrix:
        is_ignored = self._noise_inputs(rows, seed)
        self.scaler_ = self.scaler_.ignoring(is_ignored)
        # With scaling "both", the inputs are repeated.
        sources = np.resize(self.inputs_.sources(self.n_features_in_), len(is_ignored))
        self.ignored_columns_: IntArray = np.unique(sources[is_ignored])
        if not self._uses_neighbours(rows.shape[0]):
            return super()._learn_features(rows, seed)
        for name in ("bandwidth", "n_grids"):
            if not is_auto(getattr(self, name)):
                raise InputError(
                    f"SpectralClustering: {name} is for kernel features, and features='neighbors' "
                    f"has no kernel; pass features='binning' too, or leave out {name}."
                )
        self.__dict__.pop("bandwidth_", None)
        n_rows, n_clusters = rows.shape[0], self._min_clusters()
        # More neighbours than rows per cluster would connect clusters. If each row is a cluster,
        # it is its only neighbour.
        max_neighbours = 1 if n_rows <= n_clusters else max(2, n_rows // n_clusters)
        neighbours = NearestLandmarks(
            min(int(self.n_neighbors), max_neighbours),
            n_landmarks=self.n_landmarks,
            units=self.scaler_.unit,
            categorical=self.scaler_.categorical,
            random_state=seed,
            n_jobs=self.n_jobs,
        )
        self.features_ = neighbours
        return neighbours.fit_rows(rows)

    def _uses_neighbours(self, n_rows: int) -> bool:
        """Return whether features are neighbours if there are ``n_rows`` distinct rows."""
        if not is_auto(self.features):
            return isinstance(self.features, str) and self.features == "neighbors"
        is_kernel = not (is_auto(self.bandwidth) and is_auto(self.n_grids))
        is_number = np.isfinite(self.scaler_.unit) & ~self.scaler_.categorical_mask
        # A graph of few neighbours on a line falls into too many parts, unless each row is a
        # cluster.
        is_graph = int(np.count_nonzero(is_number)) > 1 or n_rows <= self._min_clusters()
        return not is_kernel and is_graph

    def _noise_inputs(self, rows: Rows, seed: int) -> BoolArray:
        n_rows, is_noise = rows.shape[0], np.zeros(rows.shape[1], bool)
        indices = _sample_rows(n_rows, _CORRELATION_ROWS, seed)
        if not is_auto(self.min_correlation):
            min_correlation = check_number(self, "min_correlation", high=1.0)
        elif self._uses_neighbours(n_rows) and n_rows > self._min_clusters():
            min_correlation = default_min_correlation(len(indices))
        else:
            min_correlation = 0.0
        numbers = np.flatnonzero(np.isfinite(self.scaler_.unit) & ~self.scaler_.categorical_mask)
        # Whitened inputs are uncorrelated, whether or not they are noise.
        is_whitened = self.scaler_.whitening is not None
        can_test = not is_whitened and 0 < len(numbers) <= _MAX_CORRELATED_INPUTS
        if min_correlation > 0.0 and can_test:
            sample = take_rows(rows, indices)[:, numbers]
            dense = np.asarray(sample.toarray() if sp.issparse(sample) else sample, np.float64)
            is_noise[numbers] = ~informative_inputs(dense, min_correlation)
        return is_noise

    @property
    def _kernel_features(self) -> str | SizedMap:
        return "binning" if is_auto(self.features) else self.features

    def _regularization(self) -> float:
        if is_auto(self.regularization):
            return 0.0 if isinstance(self.features_, NearestLandmarks) else _REGULARIZATION
        return check_number(self, "regularization", low=0.0)

    def _requested_clusters(self) -> int | None:
        """Return the checked number of clusters, None if the eigengap determines it."""
        check_count(self, "max_clusters", low=2)
        if isinstance(self.n_clusters, str) and self.n_clusters == "eigengap":
            return None
        return check_count(self, "n_clusters")

    def _min_clusters(self) -> int:
        """Return the requested number of clusters, or 2, the smallest one of "eigengap"."""
        return self._requested_clusters() or 2

    def _n_base_clusterings(self, n_clusters: int) -> int:
        if is_auto(self.n_base_clusterings):
            is_graph = isinstance(self.features_, NearestLandmarks)
            has_consensus = is_graph and n_clusters <= _MAX_CLUSTERS_WITH_CONSENSUS
            return _N_BASE_CLUSTERINGS if has_consensus else 0
        return check_count(self, "n_base_clusterings", low=0)

    def _learn_consensus(
        self, matrix: FeatureMatrix, weights: FloatArray, n_base_clusters: IntArray, seed: int
    ) -> None:
        """Replace the clusters by a consensus of clusterings, unless its cut is much larger.

        ``n_base_clusters`` (n_clusterings,) are the numbers of clusters of the clusterings.
        """
        sample = _sample_rows(len(weights), _START_ROWS, seed)
        coordinates = matrix.take_rows(sample).matvec(self._graph_weights())
        clusterings = BaseClusterings.fit(
            coordinates, weights[sample], n_base_clusters, seed, self.n_jobs
        )
        codes = self._by_blocks(matrix, clusterings.codes)
        consensus = clusterings.matrix(np.concatenate(codes, axis=1), self.n_jobs)
        graph = normalise_by_degree(consensus, weights, "SpectralClustering")
        triplets = self._triplets(graph, self.n_clusters_, seed)
        consensus_weights = np.ascontiguousarray(triplets.right / triplets.singular_values)
        coordinates = unit_rows(consensus.matvec(consensus_weights))
        centres = self._fit_centres(coordinates, weights, seed)
        labels = _nearest(coordinates, centres)
        cut, cut_before = (
            normalised_cut(matrix, each, weights, self.n_clusters_)
            for each in (labels, self.labels_)
        )
        if cut + _SMALL_CUT <= _MAX_CUT_RATIO * (cut_before + _SMALL_CUT):
            self.base_clusterings_, self.consensus_weights_ = clusterings, consensus_weights
            self.cluster_centers_, self.labels_ = centres, labels

    def _graph_weights(self) -> FloatArray:
        """Return the map (n_features_out, n_components) from features to coordinates of the graph.

        It omits the degrees and weights of rows, because coordinates are scaled to length 1 later.
        """
        return np.ascontiguousarray(self.components_.T / self.singular_values_)

    def _by_blocks(self, matrix: FeatureMatrix, function: Callable[[FloatArray], T]) -> list[T]:
        """Apply a function to the graph coordinates (n, n_components) of blocks of rows."""
        weights = self._graph_weights()

        def apply(a: int, b: int) -> T:
            return function(matrix.take_rows(slice(a, b)).matvec(weights))

        with one_blas_thread():
            return map_blocks(apply, row_blocks(matrix.shape[0], _BLOCK_ROWS), self.n_jobs)

    def _coordinates(self, graph_coordinates: FloatArray) -> FloatArray:
        """Return the coordinates (n, n_clusters_) of the final k-means."""
        clusterings = self.base_clusterings_
        if clusterings is None or self.consensus_weights_ is None:
            return unit_rows(graph_coordinates[:, : self.n_clusters_])
        matrix = clusterings.matrix(clusterings.codes(graph_coordinates), self.n_jobs)
        return unit_rows(matrix.matvec(self.consensus_weights_))

    def _fit_centres(self, coordinates: FloatArray, weights: FloatArray, seed: int) -> FloatArray:
        """Return the centres of k-means, of which the best start on a sample uses all rows."""
        n_rows = len(coordinates)
        kmeans = KMeans(self.n_clusters_, n_init=self.n_init, random_state=seed)
        # The sums of k-means in threads depend on the order in which threads finish.
        with one_blas_thread(), one_openmp_thread():
            sample = _sample_rows(n_rows, _START_ROWS, seed)
            kmeans.fit(coordinates[sample], sample_weight=weights[sample])
            if n_rows > _START_ROWS:
                kmeans.set_params(init=kmeans.cluster_centers_, n_init=1)
                kmeans.fit(coordinates, sample_weight=weights)
        centres: FloatArray = kmeans.cluster_centers_
        return centres

    def check_state(self, state: State) -> None:
        """Raise InputError if the parts of a model from a file are inconsistent."""
        super().check_state(state)
        n_coordinates = len(part_in(state, "components_", np.ndarray))
        if state["base_clusterings_"] is not None:
            clusterings = part_in(state, "base_clusterings_", BaseClusterings)
            n_base, width = len(clusterings.centers), clusterings.centers.shape[1]
            require(width == n_coordinates, "base clusterings are none of these coordinates")
            weights = array_in(state, "consensus_weights_", np.float64, (n_base, None), finite=True)
            n_coordinates = weights.shape[1]
        n_clusters = number_in(state, "n_clusters_", int, 1)
        n_coordinates = min(n_clusters, n_coordinates)
        array_in(state, "cluster_centers_", np.float64, (n_clusters, n_coordinates), finite=True)
        array_in(state, "labels_", np.int32, (None,))
        array_in(state, "ignored_columns_", np.int64, (None,))
        if "eigenvalues_" in state:
            array_in(state, "eigenvalues_", np.float64, (None,), finite=True)


def normalised_cut(
    matrix: FeatureMatrix, labels: Labels, weights: FloatArray, n_clusters: int
) -> float:
    """Return the normalised cut: the sum of the shares of edges that leave each cluster.

    The weight of an edge is the product of two rows' features and weights. The term of an empty
    cluster is 1 (Shi & Malik 2000).
    """
    members = np.zeros((len(labels), n_clusters))
    members[np.arange(len(labels)), labels] = weights
    sums = matrix.rmatvec(members)
    inside, edges = (sums**2).sum(axis=0), sums.sum(axis=1) @ sums
    shares = np.divide(inside, edges, where=edges > 0, out=np.zeros(n_clusters))
    return float(n_clusters - shares.sum())


def _nearest(coordinates: FloatArray, centres: FloatArray) -> Labels:
    with one_blas_thread(), one_openmp_thread():
        labels: Labels = pairwise_distances_argmin(coordinates, centres).astype(np.int32)
    return labels


def _sample_rows(n_rows: int, max_rows: int, seed: int) -> IntArray:
    """Return the indices of at most ``max_rows`` random rows in ascending order."""
    return np.sort(stream(seed, "starts").permutation(n_rows)[:max_rows])


def draw_n_clusters(n_clusterings: int, n_clusters: int, n_rows: int, seed: int) -> IntArray:
    """Return the random numbers of clusters of the base clusterings."""
    low, high = (factor * n_clusters for factor in _BASE_CLUSTERS_PER_CLUSTER)
    limit = max(n_clusters, n_rows // _ROWS_PER_BASE_CLUSTER)
    low, high = min(low, limit), min(high, max(low, _MAX_BASE_CLUSTERS), limit)
    return stream(seed, "sizes of clusterings").integers(low, high + 1, size=n_clusterings)


def unit_rows(coordinates: FloatArray) -> FloatArray:
    """Return rows divided by their Euclidean lengths; rows of zeros are unchanged."""
    lengths = np.sqrt(np.einsum("ij,ij->i", coordinates, coordinates))[:, None]
    return coordinates / np.where(lengths > 0, lengths, 1.0)


def default_min_correlation(n_rows: int) -> float:
    """Return a correlation from 0.1 to 0.3 that independent inputs rarely reach by chance."""
    error = 1.0 / np.sqrt(n_rows)
    return float(np.clip(_STANDARD_ERRORS * error, _MIN_CORRELATION, _MAX_CORRELATION))


def informative_inputs(rows: FloatArray, min_correlation: float) -> BoolArray:
    """Return a mask of the inputs of rows (n_rows, n_inputs) that are not noise.

    Inputs that distinguish clusters depend on each other. So an input is noise if neither its
    values nor their squares have a correlation of at least ``min_correlation`` with those of
    another input. Inputs of one or two values are not noise, nor are inputs of more than ten
    values in groups. Three to ten values would form groups even if they were noise, so inputs of
    these need the correlation. If fewer than two inputs with more than ten values would be kept, no
    input is noise. The function takes ``4 * n_rows * n_inputs**2`` operations.
    """
    standard = _standardised(rows)
    n_values = np.array([len(np.unique(values)) for values in standard.T])
    is_kept = (_largest_correlations(standard) >= min_correlation) | (n_values <= 2)
    for j in np.flatnonzero(~is_kept & (n_values > _FEW_VALUES)):
        is_kept[j] = variance_within_groups(standard[:, j]) < _MAX_GROUPED_VARIANCE
    has_too_few = np.count_nonzero(is_kept[n_values > _FEW_VALUES]) < 2
    return is_kept | has_too_few


def variance_within_groups(values: FloatArray) -> float:
    """Return the variance within groups of values, relative to that of uniform values.

    The groups minimise this ratio among exact one-dimensional k-means with k = 2 to 6. For uniform
    values, their variance within groups is ``1 / k**2`` of the total. One per cent of the values is
    left out at either end.
    """
    x = np.quantile(values, np.linspace(_TRIMMED, 1.0 - _TRIMMED, _N_QUANTILES))
    x = x - x.mean()
    total = float(x @ x)
    if not total > 0.0:
        return 1.0
    # within[i, j] is the sum of squares within the group of the sorted values i to j - 1.
    sums, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (x, x * x))
    counts = np.arange(len(x) + 1) - np.arange(len(x) + 1)[:, None]
    within = squares - squares[:, None] - (sums - sums[:, None]) ** 2 / np.maximum(counts, 1)
    within[counts < 0] = np.inf
    # best[j] is the least sum of squares of the first j values in k groups.
    best, ratios = within[0], []
    for k in range(2, _MAX_GROUPS + 1):
        best = (best[:, None] + within).min(axis=0)
        ratios.append(k**2 * best[-1] / total)
    return float(min(ratios))


def _standardised(rows: FloatArray) -> FloatArray:
    """Return inputs with mean 0 and deviation 1 in contiguous columns; constants become 0."""
    sizes = np.abs(rows).max(axis=0)
    # The squares of huge values would overflow.
    result = np.asfortranarray(rows / np.where(sizes > 0.0, sizes, 1.0))
    is_constant = result.min(axis=0) == result.max(axis=0)
    result -= result.mean(axis=0)
    deviations = result.std(axis=0)
    result /= np.where(deviations > 0.0, deviations, 1.0)
    # The deviation of a constant is only a rounding error.
    result[:, is_constant] = 0.0
    return result


def _largest_correlations(standard: FloatArray) -> FloatArray:
    """Return the largest correlation of each input with another, of values or squares."""
    n_inputs = standard.shape[1]
    values = np.clip(standard, -MAX_DEVIATIONS, MAX_DEVIATIONS)
    both = _standardised(np.hstack([values, values**2]))
    with one_blas_thread():
        correlations = np.abs(both.T @ both) / len(both)
    pairs = correlations.reshape(2, n_inputs, 2, n_inputs).max(axis=(0, 2))
    np.fill_diagonal(pairs, 0.0)
    largest: FloatArray = pairs.max(axis=0, initial=0.0)
    return largest
