"""k-means among the features of a kernel."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.base.state import State, array_in
from gramless.base.types import FloatArray, IntArray, TableLike
from gramless.estimators.features import check_fitted_features
from gramless.estimators.parameters import check_count, check_number
from gramless.matrices.base import FeatureMatrix
from gramless.unsupervised.base import UnsupervisedMachine

Labels = NDArray[np.int32]

_SEEDING_ROWS = 2000
"""Rows of the sample from which starts are drawn, by their Gram matrix."""


@dataclass(eq=False, repr=False)
class KernelKMeans(ClusterMixin, UnsupervisedMachine):
    """k-means in the feature space of a kernel, in time linear in the rows.

    Each row belongs to the nearest of ``n_clusters`` means of features (Dhillon, Guan & Kulis 2004,
    without weights of the graph). A step of Lloyd's algorithm is a product of the features with the
    centres, and one of their transpose with the memberships; no similarity of two rows is computed
    but among 2,000 rows, from which k-means++ draws the starts (Arthur & Vassilvitskii 2007).

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_init : int, default=3
        Number of starts; the one with the smallest inertia is kept.
    features : str or feature map, default="binning"
        As in :class:`~gramless.KernelRegressor`; a map brings its kernel and its own bandwidth.
    bandwidth : float, array-like (n_inputs,), "auto", "median" or "neighbors", default="auto"
        As in :class:`KernelPCA`.
    scaling : str, default="auto"
        "standard", "quantile", "both" or "none"; "auto" is "standard".
    categorical_features : "auto" or array-like, default="auto"
        As in :class:`~gramless.KernelRegressor`.
    n_grids : int or "auto", default="auto"
        Number of grids of features by name.
    tol : float, default=1e-4
        A start ends when the inertia falls by less than this fraction of it.
    max_iter : int, default=300
        The most steps of a start.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything that is drawn; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Number of threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    labels_ : array (n_samples,)
        The cluster of each training row.
    cluster_centers_ : array (n_clusters, n_features_out)
        Means of features. A cluster that loses all its rows keeps its centre.
    inertia_ : float
        Weighted sum of squared distances to the centres, in the space of features.
    features_, scaler_, bandwidth_ : feature map, units of the inputs, bandwidth
    n_iter_ : int

    Notes
    -----
    Time is some ten to fifty products there and back with ``n_clusters`` vectors a start. Unlike
    :class:`SpectralClustering` it finds clusters of rows that are all similar to each other, and
    no long chains of neighbours.

    Examples
    --------
    >>> from gramless import KernelKMeans
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([0.1 * rng.normal(size=(50, 2)), 3 + rng.normal(size=(50, 2))])
    >>> clusters = KernelKMeans(2, random_state=0).fit(X)
    >>> clusters.predict([[0.0, 0.0]])[0] == clusters.labels_[0]
    np.True_
    """

    n_clusters: int = 8
    _: KW_ONLY
    n_init: int = 3
    tol: float = 1e-4
    max_iter: int = 300

    def fit(self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn features and clusters.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Training rows.
        y : ignored
            Taken for scikit-learn's sake.
        sample_weight : array-like (n_samples,), optional
            Relative weights of the rows in means and inertia; units and bandwidths ignore them.

        Returns
        -------
        The estimator itself.
        """
        n_clusters, n_init = check_count(self, "n_clusters"), check_count(self, "n_init")
        check_number(self, "tol")
        check_count(self, "max_iter")
        matrix, seed = self._fit_features(X)
        n_rows = matrix.shape[0]
        weights = self._row_weights(sample_weight, n_rows)
        n_known = np.count_nonzero(weights)
        if n_known < n_clusters:
            raise InputError(
                f"KernelKMeans: needs at least a row a cluster, got n_samples={n_rows} rows, "
                f"{n_known} with a weight, for {n_clusters} clusters."
            )
        total = float(matrix.gram_diagonal(weights).sum())
        found = []
        for start in range(n_init):
            rows = _start(matrix, weights, n_clusters, stream(seed, "starts", start))
            centres = matrix.take_rows(rows).rmatvec(np.eye(n_clusters))
            found.append(self._descend(matrix, weights, centres, total))
        best = min(found, key=lambda one: one[2])
        self.cluster_centers_: FloatArray = np.ascontiguousarray(best[0].T)
        self.labels_, self.inertia_, self.n_iter_ = best[1:]
        return self

    def _descend(
        self, matrix: FeatureMatrix, weights: FloatArray, centres: FloatArray, total: float
    ) -> tuple[FloatArray, Labels, float, int]:
        """Take Lloyd's steps; return centres (n_columns, K), nearest ones, inertia and steps.

        ``total`` is the weighted sum of the squared lengths of all rows.
        """
        inertia, n_iter = np.inf, 0
        while True:
            n_iter += 1
            closeness = _closeness(matrix.matvec(centres), centres)
            labels = closeness.argmax(axis=1).astype(np.int32)
            nearest = np.take_along_axis(closeness, labels[:, None], axis=1)[:, 0]
            before, inertia = inertia, max(0.0, total - 2.0 * float((weights * nearest).sum()))
            if before - inertia <= self.tol * inertia or n_iter >= self.max_iter:
                return centres, labels, inertia, n_iter
            members = np.zeros(closeness.shape)
            members[np.arange(len(labels)), labels] = weights
            sizes = members.sum(axis=0)
            sums = matrix.rmatvec(members)
            centres = np.where(sizes > 0, sums / np.where(sizes > 0, sizes, 1.0), centres)

    def predict(self, X: TableLike) -> Labels:
        """Return the cluster of each row, that of the nearest centre.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples,)
            From 0 to ``n_clusters - 1``.
        """
        self._check_fitted()
        centres = np.ascontiguousarray(self.cluster_centers_.T)
        return _closeness(self._products(X, centres), centres).argmax(axis=1).astype(np.int32)

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        features, _ = check_fitted_features(state)
        width = features._n_features_out
        array_in(state, "cluster_centers_", np.float64, (None, width), finite=True)
        array_in(state, "labels_", np.int32, (None,))


def _closeness(products: FloatArray, centres: FloatArray) -> FloatArray:
    """Return what is the larger the nearer a centre is: ``z @ c - |c|**2 / 2``, (n, K)."""
    return products - 0.5 * (centres**2).sum(axis=0)


def _start(matrix: FeatureMatrix, weights: FloatArray, n_clusters: int, rng: Generator) -> IntArray:
    """Return rows that k-means++ draws among a sample of those with a weight.

    Of ``2 + log(n_clusters)`` candidates each time the best is taken, as scikit-learn does.
    """
    known = np.flatnonzero(weights)
    if len(known) > max(_SEEDING_ROWS, n_clusters):
        size = max(_SEEDING_ROWS, n_clusters)
        known = np.sort(rng.choice(known, size, replace=False))
    gram, own = matrix.take_rows(known).row_gram(), weights[known]
    lengths, n_candidates = np.diag(gram), 2 + int(np.log(n_clusters))
    chosen = [int(rng.choice(len(known), p=own / own.sum()))]
    distances = np.maximum(lengths + lengths[chosen[0]] - 2.0 * gram[chosen[0]], 0.0)
    while len(chosen) < n_clusters:
        mass = own * distances
        # Rows that are all equal to chosen ones are as good as each other.
        mass = mass if mass.any() else own
        candidates = rng.choice(len(known), n_candidates, p=mass / mass.sum())
        others = lengths + lengths[candidates, None] - 2.0 * gram[candidates]
        left = np.minimum(distances, np.maximum(others, 0.0))
        best = int((left * own).sum(axis=1).argmin())
        chosen.append(int(candidates[best]))
        distances = left[best]
    return known[chosen]
