"""Spectral clustering on features: a consensus of clusterings, inputs of noise, new rows."""

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
from gramless.estimators.features import feature_blocks
from gramless.estimators.given_rows import take_given_rows
from gramless.estimators.parameters import check_count, check_number, is_auto
from gramless.features.base import SizedMap
from gramless.features.neighbours import MAX_DEVIATIONS, NearestLandmarks
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.preprocessing.equal_rows import equal_rows
from gramless.preprocessing.rows import Rows
from gramless.unsupervised.base import ProjectingMachine, degree_normalised

Labels = NDArray[np.int32]
T = TypeVar("T")

_START_ROWS = 10_000  # among which k-means starts; with more rows, the best start goes on with all
_VECTOR_ROWS = 100_000  # of which singular vectors are computed before a consensus
_CORRELATION_ROWS, _MAX_CORRELATED_INPUTS = 5000, 1000
_BLOCK_ROWS = 1 << 14  # of which coordinates are held
_REGULARIZATION = 0.1  # of features of a kernel, in means of the degrees
# Eigenvalues of the Laplacian below this, over the number of landmarks, are as good as 0.
_NO_GAP = 0.5

# The consensus. Time grows by the square of the clusters of a base clustering.
_N_BASE_CLUSTERINGS, _MAX_CLUSTERS_WITH_CONSENSUS = 20, 20
_BASE_STARTS, _BASE_ITERATIONS = 3, 20
_BASE_CLUSTERS_PER_CLUSTER, _MAX_BASE_CLUSTERS, _ROWS_PER_BASE_CLUSTER = (2, 6), 60, 5
# A consensus is dropped if its normalised cut is more than 1.1 times as large as that without it.
# Cuts that are all but 0 have no meaningful ratio.
_MAX_CUT_RATIO, _SMALL_CUT = 1.1, 1e-3

# Inputs of noise. Correlations count from so many standard errors on, within these bounds.
_LEAST, _STANDARD_ERRORS, _MOST = 0.1, 4.0, 0.3
_FEW_VALUES = 10  # always are in groups, which says nothing; two are categories
_TRIMMED = 0.01  # share of the values at either end that groups leave out
_QUANTILES, _MOST_GROUPS = 300, 6
_LEFT_BY_GROUPS = 0.9  # of the variance that groups leave of uniform values


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
            shown = unit_rows(coordinates[:, :size])
            kmeans = KMeans(
                size, n_init=_BASE_STARTS, max_iter=_BASE_ITERATIONS, random_state=start
            )
            # Threads of k-means add up sums in the order in which they end.
            with one_openmp_thread():
                kmeans.fit(shown, sample_weight=weights)
            centers[end - size : end, : shown.shape[1]] = kmeans.cluster_centers_

        with one_blas_thread(), warnings.catch_warnings():
            # Equal rows may have fewer clusters.
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
                shown = unit_rows(coordinates[:, : centers.shape[1]])
                row[...] = pairwise_distances_argmin(shown, centers) + 1
        return codes

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


@dataclass(eq=False, repr=False)
class SpectralClustering(ClusterMixin, ProjectingMachine):
    """Spectral clustering in time linear in the rows.

    Rows are the nodes of a graph whose weights are the products of their features, ``W = Z Z.T``,
    which is never formed. The leading left singular vectors of ``D^-1/2 Z``, with the degrees
    ``D = diag(Z (Z.T 1))``, are scaled to rows of length 1 and clustered by k-means (Wu et al.
    2018, SC_RB). New rows get coordinates by the same projection and the nearest centre.

    By default, the weight of two rows is the share of their nearest landmarks that they have in
    common. The coordinates are clustered several times into more clusters than are wanted, and the
    same steps follow for the graph of the base clusterings (Huang et al. 2020, "Ultra-scalable
    spectral clustering and ensemble clustering"). ``features="binning"`` is SC_RB.

    Parameters
    ----------
    n_clusters : int or "eigengap", default=8
        "eigengap" takes the number from 2 to ``max_clusters`` after which the eigenvalues of the
        graph's Laplacian grow by the largest factor.
    max_clusters : int, default=20
        The most clusters that "eigengap" finds.
    n_init : int, default=10
        Number of starts of k-means, among at most 10,000 rows; the best goes on with all.
    n_base_clusterings : int or "auto", default="auto"
        Number of k-means clusterings of which the clusters are a consensus, each into 2 to 6 times
        as many clusters as are wanted, but no more than 60 or twice as many. 0 clusters the
        coordinates of the graph; so does a consensus whose normalised cut is larger by more than a
        tenth. "auto" is 20 for up to 20 clusters by neighbours, else 0.
    regularization : float or "auto", default="auto"
        Added to the degrees, as a multiple of their mean, so that a few rows without similar ones
        form no clusters (Qin & Rohe 2013). "auto" is 0 for neighbours and 0.1 for other features.
    features : "auto", "neighbors", other str or feature map, default="auto"
        Neighbours in common, or features of a kernel as in :class:`~gramless.KernelRegressor`.
        "auto" takes "binning" if fewer than two inputs are numbers that vary, or ``bandwidth`` or
        ``n_grids`` is given.
    n_neighbors : int, default=8
        Neighbours of a row; fewer if there are fewer different rows than this number times the
        clusters. Distances are Euclidean in scaled inputs, clipped to two standard deviations; two
        different categories are as far apart as a row is from its neighbours by numbers alone.
    n_landmarks : int, default=10_000
        Number of random rows among which neighbours are searched; equal ones count as one.
    min_correlation : float or "auto", default="auto"
        Numbers are ignored as noise if neither their values nor squares have at least this
        correlation with those of any other input, in at most 5,000 random rows, unless their values
        are in two to six groups. At least two numbers are kept, and all inputs if there are more
        than 1,000. 0 ignores none. "auto" is four standard errors of a correlation, between 0.1 and
        0.3; for other ``features`` than neighbors 0.
    bandwidth : float, array-like (n_inputs,), "auto", "median" or "neighbors", default="auto"
        Of features of a kernel, in units of the scaled inputs. "neighbors" is the median distance
        of a row to its tenth neighbour, among at most 1,000 rows, and "median" that between two
        random ones. "auto" is the bandwidth of the feature map if that is a number, else
        "neighbors".
    scaling : str, default="auto"
        "standard", "quantile", "both" or "none"; "auto" is "standard".
    categorical_features : "auto" or array-like, default="auto"
        As in :class:`~gramless.KernelRegressor`.
    n_grids : int or "auto", default="auto"
        Number of grids of features by name.
    tol : float, default=1e-4
        Of the residuals of singular vectors, relative to the largest singular value.
    max_iter : int, default=1000
        The most products with a block of vectors.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything that is drawn; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Number of threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    labels_ : array (n_samples,)
        The cluster of each training row.
    n_clusters_ : int
    cluster_centers_ : array (n_clusters, n_clusters)
        In the coordinates that are clustered last.
    components_, singular_values_ : array (n_components, n_features_out), (n_components,)
        Right singular vectors and singular values of ``D^-1/2 Z``.
    base_clusterings_ : BaseClusterings or None
        None if the coordinates of the graph are clustered.
    consensus_weights_ : array (n_base_clusters, n_clusters) or None
        Map the clusters of a row in the base clusterings to its last coordinates.
    eigenvalues_ : array (max_clusters + 1,) or shorter
        Of the Laplacian without regularisation; with "eigengap" alone.
    ignored_columns_ : array (n_ignored,) of int
        Positions of the columns that are ignored as noise.
    features_, scaler_ : feature map, units of the inputs
    bandwidth_ : float or array (n_inputs,)
        Of features of a kernel alone.
    n_iter_ : int

    Notes
    -----
    Neighbours take ``n_samples * n_landmarks * (n_features + n_neighbors)`` operations, a second
    for 100,000 rows of 20 inputs on two cores; base clusterings some three seconds from 10,000 rows
    on. Equal rows count as one row with the sum of their weights. If there are not more different
    rows than clusters, each is a cluster. Rows must have positive degrees, as they have with
    neighbours and bins but not always with Fourier features.

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
        """Learn features, coordinates and clusters.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Training rows.
        y : ignored
            Ignored; present for scikit-learn's interface.
        sample_weight : array-like (n_samples,), optional
            A row of weight 2 counts like two equal rows. One of weight 0 gets a label, and has no
            influence on the clusters.

        Returns
        -------
        The estimator itself.
        """
        for name in ("n_init", "n_neighbors", "n_landmarks"):
            check_count(self, name)
        kept, kept_weight, used = self._without_ignored(X, sample_weight)
        labels = self._fit_rows(kept, kept_weight)
        if used is not None:
            ignored = np.setdiff1d(np.arange(_num_samples(X)), used)
            labels = np.append(labels, self.predict(take_given_rows(X, ignored)))
            labels = labels[np.argsort(np.append(used, ignored))]
        self.labels_: Labels = labels
        return self

    def _fit_rows(self, X: TableLike, sample_weight: ArrayLike | None) -> Labels:
        least = self._least_clusters()
        rows, _ = self._learn_inputs(X)
        n_rows = rows.shape[0]
        if n_rows < least:
            raise InputError(
                f"SpectralClustering: needs at least a row a cluster, got n_samples={n_rows} rows "
                f"for {least} clusters."
            )
        weights = self._relative_weights(sample_weight, n_rows)
        first, group = equal_rows(rows)
        if len(first) == n_rows and weights.min() == weights.max():
            self._fit_distinct(rows, weights / weights.mean())
            return self.labels_
        # Neighbours, bandwidths and samples of the rows would be those of the copies alone.
        sums = np.bincount(group, weights=weights)
        self._fit_distinct(take_rows(rows, first), sums / sums.mean())
        return self.labels_[group]

    def _fit_distinct(self, rows: Rows, row_weights: FloatArray) -> None:
        n_clusters, least, n_rows = self._given_clusters(), self._least_clusters(), rows.shape[0]
        if n_rows < least:
            warnings.warn(
                f"SpectralClustering: X has {n_rows} different rows, fewer "
                f"than the {least} clusters that are wanted; each is a cluster of its own. Lower "
                f"n_clusters.",
                UserWarning,
                stacklevel=3,
            )
            n_clusters = n_rows
        matrix, seed = self._fit_row_features(rows, row_weights)
        self.__dict__.pop("eigenvalues_", None)
        if n_clusters is None:
            most = min(n_rows, int(self.max_clusters) + 1)
            graph = degree_normalised(matrix, row_weights, "SpectralClustering")
            self._decompose(graph, most, seed)
            self.eigenvalues_: FloatArray = 1.0 - self.singular_values_**2
            # Without a floor, the ratios of eigenvalues that are all but 0 would be the largest.
            values = np.maximum(self.eigenvalues_[1:], 0.0) + _NO_GAP / min(matrix.shape)
            n_clusters = 2 + int(np.argmax(values[1:] / values[:-1])) if len(values) > 1 else 2
        self.n_clusters_: int = n_clusters
        n_base_clusters = draw_n_clusters(
            self._n_base_clusterings(n_clusters), n_clusters, n_rows, seed
        )
        n_components = max(n_clusters, n_base_clusters.max(initial=0))
        some = _some_rows(n_rows, _VECTOR_ROWS if len(n_base_clusters) else n_rows, seed)
        normalised = degree_normalised(
            matrix.take_rows(some), row_weights[some], "SpectralClustering", self._regularization()
        )
        self._decompose(normalised, int(n_components), seed)
        self.base_clusterings_: BaseClusterings | None = None
        self.consensus_weights_: FloatArray | None = None
        coordinates = np.concatenate(self._by_blocks(matrix, self._coordinates))
        self.cluster_centers_: FloatArray = self._centres(coordinates, row_weights, seed)
        self.labels_ = _nearest(coordinates, self.cluster_centers_)
        if len(n_base_clusters):
            self._learn_consensus(matrix, row_weights, n_base_clusters, seed)
        if self.base_clusterings_ is None:
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
            From 0 to ``n_clusters_ - 1``. A row without any known bin, where features are bins, has
            the cluster whose centre is nearest to 0.
        """
        self._check_fitted()
        rows = self.inputs_.transform(self, X)
        blocks = feature_blocks(self.features_, self.scaler_, rows, self.n_jobs)
        parts = [self._by_blocks(block, self._coordinates) for block in blocks]
        labels = (_nearest(part, self.cluster_centers_) for part in chain(*parts))
        return np.concatenate([np.zeros(0, np.int32), *labels])

    def _learn_features(self, rows: Rows, seed: int) -> FeatureMatrix:
        ignored = self._ignored_inputs(rows, seed)
        self.scaler_ = self.scaler_.ignoring(ignored)
        sources = np.resize(self.inputs_.sources(self.n_features_in_), len(ignored))
        self.ignored_columns_: IntArray = np.unique(sources[ignored])
        if not self._takes_neighbours(rows.shape[0]):
            return super()._learn_features(rows, seed)
        for name in ("bandwidth", "n_grids"):
            if not is_auto(getattr(self, name)):
                raise InputError(
                    f"SpectralClustering: {name} is for features of a kernel, and neighbors have "
                    f"none; pass features='binning' too, or leave {name} out."
                )
        self.__dict__.pop("bandwidth_", None)
        n_rows, n_clusters = rows.shape[0], self._least_clusters()
        # Neighbours in other clusters would join these, and only a row itself is in a cluster of
        # one.
        most = 1 if n_rows <= n_clusters else max(2, n_rows // n_clusters)
        neighbours = NearestLandmarks(
            min(int(self.n_neighbors), most),
            n_landmarks=self.n_landmarks,
            units=self.scaler_.unit,
            categorical=self.scaler_.categorical,
            random_state=seed,
            n_jobs=self.n_jobs,
        )
        self.features_ = neighbours
        return neighbours.fit_rows(rows)

    def _takes_neighbours(self, n_rows: int) -> bool:
        """Return whether neighbours join so many rows that differ, or features of a kernel."""
        if not is_auto(self.features):
            return isinstance(self.features, str) and self.features == "neighbors"
        is_kernel = not (is_auto(self.bandwidth) and is_auto(self.n_grids))
        numbers = np.isfinite(self.scaler_.unit) & ~self.scaler_.categorical_mask
        # On a line a graph of few neighbours falls apart, as it should if each row is a cluster.
        is_graph = int(np.count_nonzero(numbers)) > 1 or n_rows <= self._least_clusters()
        return not is_kernel and is_graph

    def _ignored_inputs(self, rows: Rows, seed: int) -> BoolArray:
        n_rows, ignored = rows.shape[0], np.zeros(rows.shape[1], bool)
        some = _some_rows(n_rows, _CORRELATION_ROWS, seed)
        if not is_auto(self.min_correlation):
            least = check_number(self, "min_correlation", high=1.0)
        elif self._takes_neighbours(n_rows) and n_rows > self._least_clusters():
            least = default_min_correlation(len(some))
        else:
            least = 0.0
        numbers = np.flatnonzero(np.isfinite(self.scaler_.unit) & ~self.scaler_.categorical_mask)
        # Whitened inputs are uncorrelated, whether or not they are noise.
        is_whitened = self.scaler_.whitening is not None
        if least > 0.0 and not is_whitened and 0 < len(numbers) <= _MAX_CORRELATED_INPUTS:
            sample = take_rows(rows, some)[:, numbers]
            dense = sample.toarray() if sp.issparse(sample) else sample
            ignored[numbers] = ~informative_inputs(np.asarray(dense, np.float64), least)
        return ignored

    @property
    def _kernel_features(self) -> str | SizedMap:
        return "binning" if is_auto(self.features) else self.features

    def _regularization(self) -> float:
        if is_auto(self.regularization):
            return 0.0 if isinstance(self.features_, NearestLandmarks) else _REGULARIZATION
        return check_number(self, "regularization", low=0.0)

    def _given_clusters(self) -> int | None:
        """Return the number of clusters, None where the eigengap decides; check both."""
        check_count(self, "max_clusters", low=2)
        if isinstance(self.n_clusters, str) and self.n_clusters == "eigengap":
            return None
        return check_count(self, "n_clusters")

    def _least_clusters(self) -> int:
        return self._given_clusters() or 2

    def _n_base_clusterings(self, n_clusters: int) -> int:
        if is_auto(self.n_base_clusterings):
            is_graph = isinstance(self.features_, NearestLandmarks)
            return (
                _N_BASE_CLUSTERINGS
                if is_graph and n_clusters <= _MAX_CLUSTERS_WITH_CONSENSUS
                else 0
            )
        return check_count(self, "n_base_clusterings", low=0)

    def _learn_consensus(
        self, matrix: FeatureMatrix, weights: FloatArray, n_base_clusters: IntArray, seed: int
    ) -> None:
        """Replace the clusters by a consensus of clusterings, unless it cuts many more edges.

        Clusterings are into as many clusters as ``n_base_clusters`` (n_clusterings,) say.
        """
        some = _some_rows(len(weights), _START_ROWS, seed)
        coordinates = matrix.take_rows(some).matvec(self._graph_weights())
        clusterings = BaseClusterings.fit(
            coordinates, weights[some], n_base_clusters, seed, self.n_jobs
        )
        codes = self._by_blocks(matrix, clusterings.codes)
        consensus = clusterings.matrix(np.concatenate(codes, axis=1), self.n_jobs)
        graph = degree_normalised(consensus, weights, "SpectralClustering")
        triplets = self._triplets(graph, self.n_clusters_, seed)
        consensus_weights = np.ascontiguousarray(triplets.right / triplets.singular_values)
        coordinates = unit_rows(consensus.matvec(consensus_weights))
        centres = self._centres(coordinates, weights, seed)
        labels = _nearest(coordinates, centres)
        cut, cut_before = (
            normalised_cut(matrix, each, weights, self.n_clusters_)
            for each in (labels, self.labels_)
        )
        if cut + _SMALL_CUT <= _MAX_CUT_RATIO * (cut_before + _SMALL_CUT):
            self.base_clusterings_, self.consensus_weights_ = clusterings, consensus_weights
            self.cluster_centers_, self.labels_ = centres, labels

    def _graph_weights(self) -> FloatArray:
        """Return weights (n_features_out, n_components) of features in coordinates of the graph.

        Degrees and weights of rows are missing: coordinates are scaled to length 1.
        """
        return np.ascontiguousarray(self.components_.T / self.singular_values_)

    def _by_blocks(self, matrix: FeatureMatrix, function: Callable[[FloatArray], T]) -> list[T]:
        """Call a function of the coordinates in the graph (n, n_components) of blocks of rows."""
        weights = self._graph_weights()

        def of_rows(a: int, b: int) -> T:
            return function(matrix.take_rows(slice(a, b)).matvec(weights))

        with one_blas_thread():
            return map_blocks(of_rows, row_blocks(matrix.shape[0], _BLOCK_ROWS), self.n_jobs)

    def _coordinates(self, of_graph: FloatArray) -> FloatArray:
        """Return the coordinates (n, n_clusters_) that are clustered, given those of the graph."""
        clusterings = self.base_clusterings_
        if clusterings is None or self.consensus_weights_ is None:
            return unit_rows(of_graph[:, : self.n_clusters_])
        matrix = clusterings.matrix(clusterings.codes(of_graph), self.n_jobs)
        return unit_rows(matrix.matvec(self.consensus_weights_))

    def _centres(self, coordinates: FloatArray, weights: FloatArray, seed: int) -> FloatArray:
        """Return the centres of k-means: of several starts among some rows the best goes on."""
        n_rows = len(coordinates)
        kmeans = KMeans(self.n_clusters_, n_init=self.n_init, random_state=seed)
        # Its threads add up sums in the order in which they end.
        with one_blas_thread(), one_openmp_thread():
            some = _some_rows(n_rows, _START_ROWS, seed)
            kmeans.fit(coordinates[some], sample_weight=weights[some])
            if n_rows > _START_ROWS:
                kmeans.set_params(init=kmeans.cluster_centers_, n_init=1)
                kmeans.fit(coordinates, sample_weight=weights)
        centres: FloatArray = kmeans.cluster_centers_
        return centres

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
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
    """Return the sum over clusters of the share of their edges that leave them (Shi & Malik 2000).

    The weight of an edge is the product of two rows' features and weights; an empty cluster
    counts 1.
    """
    members = np.zeros((len(labels), n_clusters))
    members[np.arange(len(labels)), labels] = weights
    sums = matrix.rmatvec(members)
    inside, edges = (sums**2).sum(axis=0), sums.sum(axis=1) @ sums
    shares = np.divide(inside, edges, where=edges > 0, out=np.zeros(n_clusters))
    return float(n_clusters - shares.sum())


def _nearest(coordinates: FloatArray, centres: FloatArray) -> Labels:
    with one_blas_thread(), one_openmp_thread():
        found: Labels = pairwise_distances_argmin(coordinates, centres).astype(np.int32)
    return found


def _some_rows(n_rows: int, most: int, seed: int) -> IntArray:
    """Return at most so many random rows, in order."""
    return np.sort(stream(seed, "starts").permutation(n_rows)[:most])


def draw_n_clusters(n_clusterings: int, n_wanted: int, n_rows: int, seed: int) -> IntArray:
    """Return how many clusters each base clustering has: 2 to 6 times as many as are wanted."""
    low, high = (times * n_wanted for times in _BASE_CLUSTERS_PER_CLUSTER)
    most = max(n_wanted, n_rows // _ROWS_PER_BASE_CLUSTER)
    low, high = min(low, most), min(high, max(low, _MAX_BASE_CLUSTERS), most)
    return stream(seed, "sizes of clusterings").integers(low, high + 1, size=n_clusterings)


def unit_rows(coordinates: FloatArray) -> FloatArray:
    """Return rows divided by their lengths; rows of zeros stay."""
    lengths = np.sqrt(np.einsum("ij,ij->i", coordinates, coordinates))[:, None]
    return coordinates / np.where(lengths > 0, lengths, 1.0)


def default_min_correlation(n_rows: int) -> float:
    """Return a correlation, 0.1 to 0.3, that independent inputs hardly reach by chance."""
    return float(np.clip(_STANDARD_ERRORS / np.sqrt(n_rows), _LEAST, _MOST))


def informative_inputs(rows: FloatArray, min_correlation: float) -> BoolArray:
    """Return which inputs of some rows (n_rows, n_inputs) may tell clusters apart.

    Inputs along which clusters differ depend on each other. So an input is noise if neither its
    values nor their squares have a correlation of at least ``min_correlation`` with those of
    another input. Inputs whose own values are in groups are not noise, nor are those of one or two
    values. If fewer than two inputs of more than ten values would be left, none is taken for noise.
    Takes ``4 * n_rows * n_inputs**2`` operations.
    """
    standard = _standardised(rows)
    n_values = np.array([len(np.unique(values)) for values in standard.T])
    kept = (_largest_correlations(standard) >= min_correlation) | (n_values <= 2)
    for j in np.flatnonzero(~kept & (n_values > _FEW_VALUES)):
        kept[j] = variance_left_by_groups(standard[:, j]) < _LEFT_BY_GROUPS
    too_few_are_left = np.count_nonzero(kept[n_values > _FEW_VALUES]) < 2
    return kept | too_few_are_left


def variance_left_by_groups(values: FloatArray) -> float:
    """Return the variance within the best groups of values, over that of uniform values.

    Groups are those of exact k-means on a line, which leave ``1 / k**2`` of the variance of uniform
    values; of k = 2 to 6 the best. One value in a hundred is left out at either end.
    """
    x = np.quantile(values, np.linspace(_TRIMMED, 1.0 - _TRIMMED, _QUANTILES))
    x = x - x.mean()
    total = float(x @ x)
    if not total > 0.0:
        return 1.0
    # Squares within the group of the sorted values from i up to, and without, j.
    sums, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (x, x * x))
    counts = np.arange(len(x) + 1) - np.arange(len(x) + 1)[:, None]
    within = squares - squares[:, None] - (sums - sums[:, None]) ** 2 / np.maximum(counts, 1)
    within[counts < 0] = np.inf
    left, shares = within[0], []
    for k in range(2, _MOST_GROUPS + 1):
        left = (left[:, None] + within).min(axis=0)
        shares.append(k**2 * left[-1] / total)
    return float(min(shares))


def _standardised(rows: FloatArray) -> FloatArray:
    """Return inputs of mean 0 and deviation 1, in contiguous columns; constants are 0."""
    sizes = np.abs(rows).max(axis=0)
    # Squares of huge values overflow.
    found = np.asfortranarray(rows / np.where(sizes > 0.0, sizes, 1.0))
    is_constant = found.min(axis=0) == found.max(axis=0)
    found -= found.mean(axis=0)
    deviations = found.std(axis=0)
    found /= np.where(deviations > 0.0, deviations, 1.0)
    # What rounding leaves of a constant is no deviation.
    found[:, is_constant] = 0.0
    return found


def _largest_correlations(standard: FloatArray) -> FloatArray:
    """Return each input's largest correlation with another one, of values and squares."""
    n_inputs = standard.shape[1]
    values = np.clip(standard, -MAX_DEVIATIONS, MAX_DEVIATIONS)
    both = _standardised(np.hstack([values, values**2]))
    with one_blas_thread():
        size = np.abs(both.T @ both) / len(both)
    pairs = size.reshape(2, n_inputs, 2, n_inputs).max(axis=(0, 2))
    np.fill_diagonal(pairs, 0.0)
    largest: FloatArray = pairs.max(axis=0, initial=0.0)
    return largest
