"""Spectral clustering on features, and clusters of new rows."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import _num_samples

from gramless.base.errors import InputError
from gramless.base.lazy_rows import take_rows
from gramless.base.random import stream
from gramless.base.state import State, array_in, number_in, part_in, require
from gramless.base.threads import map_blocks, one_blas_thread, one_openmp_thread, row_blocks
from gramless.base.types import BoolArray, FloatArray, IntArray, TableLike
from gramless.estimators.features import feature_blocks
from gramless.estimators.given_rows import take_given_rows
from gramless.estimators.parameters import check_count, check_number, is_auto
from gramless.features.base import SizedMap
from gramless.features.neighbours import NearestLandmarks
from gramless.matrices.base import FeatureMatrix
from gramless.preprocessing.equal_rows import equal_rows
from gramless.preprocessing.rows import Rows
from gramless.unsupervised.base import (
    ProjectingMachine,
    are_neighbors,
    degree_normalised,
    refuse_kernel_parameters,
)
from gramless.unsupervised.base_clusterings import BaseClusterings, draw_n_clusters, unit_rows
from gramless.unsupervised.input_selection import default_min_correlation, informative_inputs

Labels = NDArray[np.int32]
T = TypeVar("T")

_ROWS_OF_STARTS = 10_000
"""Rows among which k-means starts; with more, the best start goes on with all."""
_ROWS_OF_VECTORS = 100_000
"""Rows of which singular vectors are computed where a consensus follows; others are projected."""
_ROWS_OF_CORRELATIONS, _MOST_CORRELATED = 5000, 1000
"""Rows and inputs, at most, of which correlations are computed."""
_ROWS_AT_ONCE = 1 << 14
"""Of which coordinates are held."""
_BASE_CLUSTERINGS = 20
_MOST_WITH_CONSENSUS = 20
"""Clusters for which base clusterings pay, by default."""
_LARGER_CUT, _SMALL_CUT = 1.1, 1e-3
"""A consensus is dropped if its normalised cut is more than so many times as large as that without
it; of cuts that are all but 0 no ratio is taken."""
_REGULARIZATION = 0.1
"""Of features of a kernel, in means of the degrees."""
_NO_GAP = 0.5
"""Eigenvalues of the Laplacian below this, over the number of landmarks, are as good as 0."""


@dataclass(eq=False, repr=False)
class SpectralClustering(ClusterMixin, ProjectingMachine):
    """Spectral clustering in time linear in the rows.

    Rows are the nodes of a graph, whose weights are the products of their features, ``W = Z Z.T``,
    which is never formed. With the degrees ``D = diag(Z (Z.T 1))``, the leading left singular
    vectors of ``D^-1/2 Z`` are the leading eigenvectors of the normalised graph; their rows, scaled
    to length 1, are clustered by k-means (Wu et al. 2018, SC_RB). A new row gets its coordinates by
    the same projection (Nyström's extension) and the cluster of the nearest centre.

    The weight of two rows is the share of their nearest neighbours, among landmarks, that they have
    in common. These coordinates are clustered several times, into more clusters than are wanted.
    The same steps follow once more, for the graph of which a weight is the share of these base
    clusterings that have two rows in one cluster: a consensus (Huang et al. 2020,
    "Ultra-scalable spectral clustering and ensemble clustering"; Strehl & Ghosh 2002).

    With ``features="binning"`` the weight is the share of random grids in which two rows have one
    bin, and there are no base clusterings: this is SC_RB.

    Parameters
    ----------
    n_clusters : int or "eigengap", default=8
        "eigengap" takes the number from 2 to ``max_clusters`` after which the eigenvalues of the
        graph's Laplacian, 1 less those of the normalised graph, grow by the largest factor. Half of
        the inverse of the smaller side of Z is added to them before, so that those of clusters
        that do not touch are alike.
    max_clusters : int, default=20
        The most clusters that "eigengap" finds.
    n_init : int, default=10
        Number of starts of k-means, among at most 10,000 rows; the best goes on with all.
    n_base_clusterings : int or "auto", default="auto"
        How many k-means clusterings the clusters are a consensus of. Each is into a random number
        of clusters, from 2 to 6 times as many as are wanted, but no more than 60 or twice as many.
        With 0 the coordinates of the graph itself are clustered; so they are where the normalised
        cut of the consensus, the sum over clusters of the share of their edges that leave them, is
        larger by more than a tenth.
        "auto" is 20 for up to 20 clusters by neighbours, else 0.
    regularization : float or "auto", default="auto"
        What is added to the degrees, as a multiple of their mean, so that a few rows without
        similar ones are no clusters of their own (Qin & Rohe 2013, "Regularized spectral clustering
        under the degree-corrected stochastic blockmodel"). "auto" is 0 for neighbours, which every
        row has, and 0.1 for other features; 0 is plain SC_RB.
    features : "auto", "neighbors", other str or feature map, default="auto"
        What joins rows: neighbours in common, or features of a kernel as in
        :class:`~gramless.KernelRegressor`; a map brings its kernel and its own bandwidth. "auto"
        takes "binning" where fewer than two inputs are numbers that vary, since on a line a graph
        of few neighbours falls apart, and where ``bandwidth`` or ``n_grids`` is given.
    n_neighbors : int, default=8
        How many a row has, with "neighbors"; fewer if there are fewer different rows than this
        number times the clusters. Distances are Euclidean in scaled inputs, which count
        up to two standard deviations from their mean; two categories that differ are as far apart
        as a row is from its neighbours by numbers alone.
    n_landmarks : int, default=10_000
        Among how many rows, drawn at random, neighbours are looked for; equal ones count as one.
    min_correlation : float or "auto", default="auto"
        Inputs that are independent noise are ignored: numbers of which neither values nor squares,
        within two standard deviations, have at least this correlation with those of any other
        input, in at most 5,000 random rows. An input whose values are in up to six groups is kept,
        unless it has ten values or fewer. So are categories, inputs of two values, and all inputs
        where fewer than two numbers would be left, or where there are more than 1,000. 0 ignores
        none. "auto" is 0.1; of fewer than 1,600 rows four standard errors of a correlation, at most
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
        Right singular vectors of ``D^-1/2 Z``, and singular values; their squares are
        eigenvalues of the normalised graph. As many as there are clusters, or as the finest base
        clustering has.
    base_clusterings_ : BaseClusterings or None
        None where the coordinates of the graph are clustered.
    consensus_weights_ : array (n_base_clusters, n_clusters) or None
        What leads from the clusters of a row in the base clusterings to its last coordinates.
    eigenvalues_ : array (max_clusters + 1,) or shorter
        Of the Laplacian without regularisation, by which "eigengap" chose; there with it alone.
    ignored_columns_ : array (n_ignored,) of int
        Positions of the columns that are ignored as noise.
    features_, scaler_ : feature map, units of the inputs
    bandwidth_ : float or array (n_inputs,)
        Of features of a kernel alone.
    n_iter_ : int

    Notes
    -----
    Neighbours take ``n_samples * n_landmarks * (n_features + n_neighbors)`` operations, a second
    for 100,000 rows of 20 inputs on two cores. More landmarks find clusters of images better, fewer
    long and thin ones. Base clusterings take some three seconds where there are 10,000 rows or
    more. The singular vectors that they need are those of at most 100,000 random rows; all others
    are projected, as new ones are.

    Equal rows count as one row with the sum of their weights, so they have the same cluster. If
    there are not more different rows than clusters, each is a cluster.

    Features of a kernel must have positive products: bins always have. Of Fourier features, which
    approximate small similarities by numbers around 0, rows may have no positive degree; they are
    refused.

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
        """Learn from rows, and return their labels."""
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
        """Learn from inputs of rows that differ."""
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
            self._decompose(self._normalised(matrix, row_weights), most, seed)
            self.eigenvalues_: FloatArray = 1.0 - self.singular_values_**2
            n_clusters = _by_eigengap(self.eigenvalues_, _NO_GAP / min(matrix.shape))
        self.n_clusters_: int = n_clusters
        n_base_clusters = draw_n_clusters(
            self._n_base_clusterings(n_clusters), n_clusters, n_rows, seed
        )
        n_components = max(n_clusters, n_base_clusters.max(initial=0))
        some = _some_rows(n_rows, _ROWS_OF_VECTORS if len(n_base_clusters) else n_rows, seed)
        normalised = self._normalised(
            matrix.take_rows(some), row_weights[some], self._regularization()
        )
        self._decompose(normalised, int(n_components), seed)
        self._learn_clusters(matrix, row_weights, seed)
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
        return self._labels_of_rows(self.inputs_.transform(self, X))

    def _labels_of_rows(self, rows: Rows) -> Labels:
        """Return the clusters of inputs of rows."""
        blocks = feature_blocks(self.features_, self.scaler_, rows, self.n_jobs)
        parts = [self._by_blocks(block, self._labels) for block in blocks]
        return np.concatenate([np.zeros(0, np.int32), *itertools.chain(*parts)])

    def _learn_features(self, rows: Rows, seed: int) -> FeatureMatrix:
        ignored = self._ignored_inputs(rows, seed)
        self.scaler_ = self.scaler_.ignoring(ignored)
        sources = np.resize(self.inputs_.sources(self.n_features_in_), len(ignored))
        self.ignored_columns_: IntArray = np.unique(sources[ignored])
        if not self._takes_neighbours(rows.shape[0]):
            return super()._learn_features(rows, seed)
        refuse_kernel_parameters(self)
        self.__dict__.pop("bandwidth_", None)
        neighbours = NearestLandmarks(
            self._neighbours_of(rows.shape[0]),
            n_landmarks=self.n_landmarks,
            units=self.scaler_.unit,
            categorical=self.scaler_.categorical,
            random_state=seed,
            n_jobs=self.n_jobs,
        )
        self.features_ = neighbours
        return neighbours.fit_rows(rows)

    def _neighbours_of(self, n_rows: int) -> int:
        """Return how many neighbours each of some rows has that differ."""
        n_clusters = self._least_clusters()
        # Neighbours in other clusters would join these, and only a row itself is in a cluster of
        # one.
        few = 1 if n_rows <= n_clusters else max(2, n_rows // n_clusters)
        return min(int(self.n_neighbors), few)

    def _takes_neighbours(self, n_rows: int) -> bool:
        """Return whether neighbours join so many rows that differ, or features of a kernel."""
        if not is_auto(self.features):
            return are_neighbors(self.features)
        is_kernel = not (is_auto(self.bandwidth) and is_auto(self.n_grids))
        numbers = np.isfinite(self.scaler_.unit) & ~self.scaler_.categorical_mask
        # On a line a graph of few neighbours falls apart, as it should if each row is a cluster.
        is_graph = int(np.count_nonzero(numbers)) > 1 or n_rows <= self._least_clusters()
        return not is_kernel and is_graph

    def _ignored_inputs(self, rows: Rows, seed: int) -> BoolArray:
        """Return which inputs of scaled rows are independent noise."""
        ignored = np.zeros(rows.shape[1], bool)
        if self.scaler_.whitening is not None:
            # Whitened inputs are uncorrelated, whether or not they are noise.
            return ignored
        numbers = np.flatnonzero(np.isfinite(self.scaler_.unit) & ~self.scaler_.categorical_mask)
        some = _some_rows(rows.shape[0], _ROWS_OF_CORRELATIONS, seed)
        min_correlation = self._min_correlation(rows.shape[0], len(some))
        if min_correlation > 0.0 and 0 < len(numbers) <= _MOST_CORRELATED:
            sample = take_rows(rows, some)[:, numbers]
            dense = sample.toarray() if sp.issparse(sample) else sample
            ignored[numbers] = ~informative_inputs(np.asarray(dense, np.float64), min_correlation)
        return ignored

    def _min_correlation(self, n_rows: int, n_sampled: int) -> float:
        """Return the least correlation that counts, 0 if all inputs are kept."""
        if not is_auto(self.min_correlation):
            return check_number(self, "min_correlation", high=1.0)
        # Rows that are a cluster each may differ in any input.
        can_ignore = self._takes_neighbours(n_rows) and n_rows > self._least_clusters()
        return default_min_correlation(n_sampled) if can_ignore else 0.0

    @property
    def _kernel_features(self) -> str | SizedMap:
        return "binning" if is_auto(self.features) else self.features

    def _regularization(self) -> float:
        """Return what is added to degrees, in means of these."""
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
        """Return the number of clusters, or the least that "eigengap" takes."""
        return self._given_clusters() or 2

    def _n_base_clusterings(self, n_clusters: int) -> int:
        """Return how many clusterings there is a consensus of, 0 for none."""
        if is_auto(self.n_base_clusterings):
            is_graph = isinstance(self.features_, NearestLandmarks)
            return _BASE_CLUSTERINGS if is_graph and n_clusters <= _MOST_WITH_CONSENSUS else 0
        return check_count(self, "n_base_clusterings", low=0)

    def _normalised(
        self, matrix: FeatureMatrix, weights: FloatArray, added: float = 0.0
    ) -> FeatureMatrix:
        return degree_normalised(matrix, weights, type(self).__name__, added)

    def _learn_clusters(self, matrix: FeatureMatrix, weights: FloatArray, seed: int) -> None:
        """Cluster rows by their coordinates in the graph."""
        self.base_clusterings_: BaseClusterings | None = None
        self.consensus_weights_: FloatArray | None = None
        coordinates = np.concatenate(self._by_blocks(matrix, self._coordinates))
        self.cluster_centers_: FloatArray = self._centres(coordinates, weights, seed)
        self.labels_ = _nearest(coordinates, self.cluster_centers_)

    def _learn_consensus(
        self, matrix: FeatureMatrix, weights: FloatArray, n_base_clusters: IntArray, seed: int
    ) -> None:
        """Replace the clusters by a consensus of clusterings, unless it cuts many more edges.

        Clusterings are into as many clusters as ``n_base_clusters`` (n_clusterings,) say.
        """
        some = _some_rows(len(weights), _ROWS_OF_STARTS, seed)
        coordinates = matrix.take_rows(some).matvec(self._graph_weights())
        clusterings = BaseClusterings.fit(
            coordinates, weights[some], n_base_clusters, seed, self.n_jobs
        )
        codes = self._by_blocks(matrix, clusterings.codes)
        consensus = clusterings.matrix(np.concatenate(codes, axis=1), self.n_jobs)
        found = self._triplets(self._normalised(consensus, weights), self.n_clusters_, seed)
        consensus_weights = np.ascontiguousarray(found.right / found.singular_values)
        coordinates = unit_rows(consensus.matvec(consensus_weights))
        centres = self._centres(coordinates, weights, seed)
        labels = _nearest(coordinates, centres)
        cut, known = (
            normalised_cut(matrix, each, weights, self.n_clusters_)
            for each in (labels, self.labels_)
        )
        if cut + _SMALL_CUT <= _LARGER_CUT * (known + _SMALL_CUT):
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
            return map_blocks(of_rows, row_blocks(matrix.shape[0], _ROWS_AT_ONCE), self.n_jobs)

    def _coordinates(self, own: FloatArray) -> FloatArray:
        """Return the coordinates (n, n_clusters_) that are clustered, given those of the graph."""
        if self.base_clusterings_ is None or self.consensus_weights_ is None:
            return unit_rows(own[:, : self.n_clusters_])
        matrix = self.base_clusterings_.matrix(self.base_clusterings_.codes(own), self.n_jobs)
        return unit_rows(matrix.matvec(self.consensus_weights_))

    def _labels(self, own: FloatArray) -> Labels:
        """Return the clusters of rows, given their coordinates in the graph."""
        return _nearest(self._coordinates(own), self.cluster_centers_)

    def _centres(self, coordinates: FloatArray, weights: FloatArray, seed: int) -> FloatArray:
        """Return the centres of k-means: of several starts among some rows the best goes on."""
        n_rows = len(coordinates)
        kmeans = KMeans(self.n_clusters_, n_init=self.n_init, random_state=seed)
        # Its threads add up sums in the order in which they end.
        with one_blas_thread(), one_openmp_thread():
            some = _some_rows(n_rows, _ROWS_OF_STARTS, seed)
            kmeans.fit(coordinates[some], sample_weight=weights[some])
            if n_rows > _ROWS_OF_STARTS:
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


def _by_eigengap(eigenvalues: FloatArray, negligible: float) -> int:
    """Return the number of eigenvalues of the Laplacian before the largest step, at least 2."""
    if len(eigenvalues) < 3:
        return 2
    values = np.maximum(eigenvalues[1:], 0.0) + negligible
    return 2 + int(np.argmax(values[1:] / values[:-1]))
