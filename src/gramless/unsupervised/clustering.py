"""Spectral clustering on features, and clusters of new rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from threadpoolctl import threadpool_limits

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.base.state import State, array_in, part_in
from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray, TableLike
from gramless.estimators.parameters import check_count, check_number, is_auto
from gramless.features.base import SizedMap
from gramless.features.neighbours import NearestLandmarks
from gramless.matrices.base import FeatureMatrix
from gramless.preprocessing.rows import Rows
from gramless.unsupervised.base import (
    ProjectingMachine,
    are_neighbors,
    refuse_kernel_parameters,
)

Labels = NDArray[np.int32]

_ROWS_OF_STARTS = 10_000
"""Rows among which k-means starts; with more, the best start goes on with all."""
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
    in common. With ``features="binning"`` it is the share of random grids in which they have one
    bin, as in SC_RB.

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
        How many a row has, with "neighbors". Distances are Euclidean in scaled inputs, which count
        up to two standard deviations from their mean; two categories that differ are 1 apart.
    n_landmarks : int, default=10_000
        Among how many rows, drawn at random, neighbours are looked for; equal ones count as one.
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
        In the coordinates of the singular vectors.
    components_, singular_values_ : array (n_clusters, n_features_out), (n_clusters,)
        Right singular vectors of ``D^-1/2 Z``, and singular values; their squares are
        eigenvalues of the normalised graph.
    eigenvalues_ : array (max_clusters + 1,) or shorter
        Of the Laplacian without regularisation, by which "eigengap" chose; there with it alone.
    features_, scaler_ : feature map, units of the inputs
    bandwidth_ : float or array (n_inputs,)
        Of features of a kernel alone.
    n_iter_ : int

    Notes
    -----
    Neighbours take ``n_samples * n_landmarks * (n_features + n_neighbors)`` operations, a second
    for 100,000 rows of 20 inputs on two cores. More landmarks find clusters of images better, fewer
    long and thin ones.

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
    regularization: float | str = "auto"
    features: str | SizedMap = "auto"
    n_neighbors: int = 8
    n_landmarks: int = 10_000
    tol: float = 1e-4
    max_iter: int = 1000

    def fit(self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn features, coordinates and clusters.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Training rows.
        y : ignored
            Taken for scikit-learn's sake.
        sample_weight : array-like (n_samples,), optional
            A row of weight 2 counts like two equal rows, in degrees and centres; units and
            bandwidths ignore weights.

        Returns
        -------
        The estimator itself.
        """
        n_clusters = self._given_clusters()
        for name in ("n_init", "n_neighbors", "n_landmarks"):
            check_count(self, name)
        matrix, seed = self._fit_features(X)
        added = self._regularization()
        n_rows, least = matrix.shape[0], 2 if n_clusters is None else n_clusters
        if n_rows < least:
            raise InputError(
                f"SpectralClustering: needs at least a row a cluster, got n_samples={n_rows} rows "
                f"for {least} clusters."
            )
        row_weights = self._row_weights(sample_weight, n_rows)
        self.__dict__.pop("eigenvalues_", None)
        if n_clusters is None:
            most = min(n_rows, int(self.max_clusters) + 1)
            self._decompose(self._degree_normalised(matrix, row_weights), most, seed)
            self.eigenvalues_: FloatArray = 1.0 - self.singular_values_**2
            n_clusters = _by_eigengap(self.eigenvalues_, _NO_GAP / min(matrix.shape))
        self._decompose(self._degree_normalised(matrix, row_weights, added), n_clusters, seed)
        self.n_clusters_: int = n_clusters
        coordinates = _unit_rows(matrix.matvec(self._weights_of_coordinates()))
        self.cluster_centers_: FloatArray = self._centres(coordinates, row_weights, seed)
        self.labels_: Labels = self._nearest(coordinates)
        return self

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
        return self._nearest(_unit_rows(self._products(X, self._weights_of_coordinates())))

    def _learn_features(self, rows: Rows, seed: int) -> FeatureMatrix:
        if not self._takes_neighbours():
            return super()._learn_features(rows, seed)
        refuse_kernel_parameters(self)
        self.__dict__.pop("bandwidth_", None)
        neighbours = NearestLandmarks(
            self.n_neighbors,
            n_landmarks=self.n_landmarks,
            units=self.scaler_.unit,
            categorical=self.scaler_.categorical,
            random_state=seed,
            n_jobs=self.n_jobs,
        )
        self.features_ = neighbours
        return neighbours.fit_rows(rows)

    def _takes_neighbours(self) -> bool:
        """Tell whether neighbours join rows, or features of a kernel."""
        if not is_auto(self.features):
            return are_neighbors(self.features)
        is_kernel = not (is_auto(self.bandwidth) and is_auto(self.n_grids))
        numbers = np.isfinite(self.scaler_.unit) & ~self.scaler_.categorical_mask
        # On a line a graph of few neighbours falls apart.
        return not is_kernel and int(np.count_nonzero(numbers)) > 1

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

    def _weights_of_coordinates(self) -> FloatArray:
        """Return weights (n_features_out, n_clusters_) of features in coordinates.

        Degrees and weights of rows are missing: coordinates are scaled to length 1.
        """
        return np.ascontiguousarray(self.components_.T / self.singular_values_)

    def _centres(self, coordinates: FloatArray, weights: FloatArray, seed: int) -> FloatArray:
        """Return the centres of k-means: of several starts among some rows the best goes on."""
        n_rows = len(coordinates)
        kmeans = KMeans(self.n_clusters_, n_init=self.n_init, random_state=seed)
        # Its threads add up sums in the order in which they end.
        with one_blas_thread(), threadpool_limits(1, "openmp"):
            some = np.sort(stream(seed, "starts").permutation(n_rows)[:_ROWS_OF_STARTS])
            kmeans.fit(coordinates[some], sample_weight=weights[some])
            if n_rows > _ROWS_OF_STARTS:
                kmeans.set_params(init=kmeans.cluster_centers_, n_init=1)
                kmeans.fit(coordinates, sample_weight=weights)
        centres: FloatArray = kmeans.cluster_centers_
        return centres

    def _nearest(self, coordinates: FloatArray) -> Labels:
        with one_blas_thread(), threadpool_limits(1, "openmp"):
            nearest = pairwise_distances_argmin(coordinates, self.cluster_centers_)
        return nearest.astype(np.int32)

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        super().check_state(state)
        n_components = len(part_in(state, "components_", np.ndarray))
        array_in(state, "cluster_centers_", np.float64, (None, n_components), finite=True)
        array_in(state, "labels_", np.int32, (None,))
        if "eigenvalues_" in state:
            array_in(state, "eigenvalues_", np.float64, (None,), finite=True)


def _unit_rows(coordinates: FloatArray) -> FloatArray:
    """Return rows divided by their lengths; rows of zeros stay."""
    lengths = np.sqrt((coordinates**2).sum(axis=1, keepdims=True))
    return coordinates / np.where(lengths > 0, lengths, 1.0)


def _by_eigengap(eigenvalues: FloatArray, negligible: float) -> int:
    """Return the number of eigenvalues of the Laplacian before the largest step, at least 2."""
    if len(eigenvalues) < 3:
        return 2
    values = np.maximum(eigenvalues[1:], 0.0) + negligible
    return 2 + int(np.argmax(values[1:] / values[:-1]))
