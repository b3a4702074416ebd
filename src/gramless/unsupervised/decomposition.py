"""Kernel PCA and truncated singular value decompositions of kernel features."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from gramless.base.errors import InputError
from gramless.base.state import State, array_in, part_in
from gramless.base.types import FloatArray, TableLike
from gramless.estimators.parameters import check_count
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.transformed import CentredMatrix, RowScaledMatrix
from gramless.unsupervised.base import ProjectingMachine, normalise_by_degree

_ROUNDING = 1e-12  # singular values below this fraction of the norm of the features count as zero
_NORMALIZATIONS = ("none", "centered", "degree")


@dataclass(eq=False, repr=False)
class _Components(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ProjectingMachine):
    """Base of transformers to coordinates along singular vectors."""

    n_components: int = 2

    def _centred(self, matrix: FeatureMatrix, weights: FloatArray) -> FeatureMatrix:
        """Return the features minus their mean, with rows times the square roots of weights."""
        centred = CentredMatrix(matrix, matrix.rmatvec(weights / weights.sum()))
        self.mean_: FloatArray = centred.means
        return _scale_rows(centred, weights)

    def _project(self, X: TableLike) -> FloatArray:
        """Return the centred features of rows times the components."""
        weights = np.ascontiguousarray(self.components_.T)
        return self._products(X, weights) - (self.mean_[:, None] * weights).sum(axis=0)

    def check_state(self, state: State) -> None:
        """Raise InputError if the parts of a model from a file are inconsistent."""
        super().check_state(state)
        width = part_in(state, "components_", np.ndarray).shape[1]
        array_in(state, "mean_", np.float64, (width,), finite=True)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


@dataclass(eq=False, repr=False)
class KernelPCA(_Components):
    """Kernel principal component analysis in time linear in the rows.

    It computes the principal components of kernel features instead of the eigenvectors of the Gram
    matrix (Schölkopf, Smola & Müller 1998; with random features Lopez-Paz et al. 2014). The
    centred features are never formed.

    Parameters
    ----------
    n_components : int, default=2
        Number of components. There are fewer if the features have a lower rank.
    features : str or feature map, default="binning"
        See :class:`~gramless.KernelRegressor`; a map has its own kernel and bandwidth.
    bandwidth : float, array-like (n_inputs,), "auto", "median" or "neighbors", default="auto"
        Bandwidth in units of the scaled inputs. "median" is the median distance of two random rows,
        "neighbors" the median distance of a row to its tenth neighbour among at most 1,000 rows.
        "auto" is the bandwidth of the feature map if that is a number, else "median".
    scaling : str, default="auto"
        "standard", "quantile", "both" or "none"; "auto" is "standard".
    categorical_features : "auto" or array-like, default="auto"
        See :class:`~gramless.KernelRegressor`.
    n_grids : int or "auto", default="auto"
        Number of grids, if ``features`` is the name of features with grids.
    tol : float, default=1e-4
        Tolerance for the residuals of singular vectors, relative to the largest singular value.
    max_iter : int, default=200
        Maximum number of products with a block of vectors.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random numbers; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Number of threads; None means all processors. Results do not depend on it.

    Attributes
    ----------
    components_ : array (n_components, n_features_out)
        Orthonormal directions in the space of the features.
    singular_values_, explained_variance_ : array (n_components,)
        Singular values of the centred features, and variance of the training rows along each
        component.
    explained_variance_ratio_ : array (n_components,)
        Share of each component in the variance of all features.
    mean_ : array (n_features_out,)
        Mean of the features of the training rows.
    features_, scaler_, bandwidth_ : feature map, scaling of the inputs, bandwidth
    n_components_, n_iter_ : int
        Number of components, and of products with a block of vectors.

    Examples
    --------
    >>> from gramless import KernelPCA
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> pca = KernelPCA(2, n_grids=64, random_state=0).fit(X)
    >>> pca.transform(X[:5]).shape, pca.explained_variance_ratio_.shape
    ((5, 2), (2,))
    """

    def fit(self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the features and their principal components.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Training rows.
        y : ignored
            Ignored; present for scikit-learn's interface.
        sample_weight : array-like (n_samples,), optional
            Weights of the rows, of which only the ratios matter: they are scaled to a mean of 1.
            The components are those of a table in which a row of weight 2 is two rows of weight 1.
            Bandwidths are computed from the distinct rows.

        Returns
        -------
        The estimator itself.
        """
        n_components = check_count(self, "n_components")
        # The weights of the distinct rows have a mean of 1, and `copies` is the mean number of
        # given rows per distinct row.
        rows, row_weights, copies = self._distinct_rows(X, sample_weight)
        n_rows = round(copies * len(row_weights))
        if n_rows < 2:
            raise InputError(f"KernelPCA: needs at least two rows, got n_samples={n_rows}.")
        matrix, seed = self._fit_row_features(rows, row_weights)
        centred = self._centred(matrix, row_weights)
        # If all rows are equal, centring leaves rounding errors in proportion to their length.
        min_value = _ROUNDING * float(np.sqrt(matrix.gram_diagonal(row_weights).sum()))
        self._decompose(centred, n_components, seed, min_value)
        self.singular_values_ *= np.sqrt(copies)
        self.n_components_: int = len(self.singular_values_)
        self.explained_variance_ = self.singular_values_**2 / (n_rows - 1)
        total = copies * centred.gram_diagonal().sum() / (n_rows - 1)
        self.explained_variance_ratio_ = self.explained_variance_ / total
        return self

    def transform(self, X: TableLike) -> FloatArray:
        """Return the coordinates of rows along the components.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to transform.

        Returns
        -------
        array (n_samples, n_components)
        """
        self._check_fitted()
        return self._project(X)


@dataclass(eq=False, repr=False)
class FeatureDecomposition(_Components):
    """Truncated singular value decomposition of kernel features in time linear in the rows.

    For features Z of the training rows it computes ``Z ~ U S V.T`` by products with blocks of
    vectors. Neither Z, nor its centred form, nor ``Z Z.T`` are formed.

    Parameters
    ----------
    n_components : int, default=2
        Number of singular triplets. There are fewer if the features have a lower rank.
    normalization : {"none", "centered", "degree"}, default="none"
        Normalisation of Z before the decomposition. "centered" subtracts the mean of the training
        rows, as in :class:`KernelPCA`. "degree" divides each row by the square root of its degree,
        the sum of its similarities; the coordinates are then those of a Laplacian eigenmap, as in
        :class:`SpectralClustering` with kernel features.
    features : str or feature map, default="binning"
        See :class:`~gramless.KernelRegressor`; a map has its own kernel and bandwidth.
    bandwidth : float, array-like (n_inputs,), "auto", "median" or "neighbors", default="auto"
        See :class:`KernelPCA`.
    scaling : str, default="auto"
        "standard", "quantile", "both" or "none"; "auto" is "standard".
    categorical_features : "auto" or array-like, default="auto"
        See :class:`~gramless.KernelRegressor`.
    n_grids : int or "auto", default="auto"
        Number of grids, if ``features`` is the name of features with grids.
    tol : float, default=1e-4
        Tolerance for the residuals of singular vectors, relative to the largest singular value.
    max_iter : int, default=200
        Maximum number of products with a block of vectors.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random numbers; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Number of threads; None means all processors. Results do not depend on it.

    Attributes
    ----------
    components_ : array (n_components, n_features_out)
        Orthonormal right singular vectors.
    singular_values_, residuals_ : array (n_components,)
        Singular values, and norms of the residuals relative to the largest singular value.
    mean_ : array (n_features_out,)
        Mean that is subtracted from the features; zeros unless they are centred.
    column_sums_ : array (n_features_out,)
        Sum of the features over the training rows. The product with the features of a row is its
        degree.
    features_, scaler_, bandwidth_ : feature map, scaling of the inputs, bandwidth
    n_components_, n_iter_ : int
        Number of components, and of products with a block of vectors.

    Notes
    -----
    The time is that of about ten products of Z and Z.T with ``n_components`` + 2 vectors. The
    memory is that of the features and of ten such blocks of vectors of the shorter side of Z.

    Examples
    --------
    >>> from gramless import FeatureDecomposition
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> svd = FeatureDecomposition(4, n_grids=64, random_state=0).fit(X)
    >>> Z = svd.features_.feature_matrix(X).toarray()
    >>> bool(np.allclose(svd.singular_values_, np.linalg.svd(Z, compute_uv=False)[:4]))
    True
    >>> svd.transform(X[:5]).shape
    (5, 4)
    """

    _: KW_ONLY
    normalization: str = "none"

    def fit(self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the features and their leading singular vectors.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Training rows.
        y : ignored
            Ignored; present for scikit-learn's interface.
        sample_weight : array-like (n_samples,), optional
            Weights of the rows, of which only the ratios matter: they are scaled to a mean of 1,
            and rows of Z are multiplied by their square roots. The components are those of a table
            in which a row of weight 2 is two rows of weight 1. Bandwidths are computed from the
            distinct rows.

        Returns
        -------
        The estimator itself.
        """
        n_components, kind = check_count(self, "n_components"), self.normalization
        if kind not in _NORMALIZATIONS:
            names = ", ".join(map(repr, _NORMALIZATIONS))
            raise InputError(
                f"FeatureDecomposition: normalization must be one of {names}; got {kind!r}."
            )
        # The weights of the distinct rows have a mean of 1, and `copies` is the mean number of
        # given rows per distinct row.
        rows, weights, copies = self._distinct_rows(X, sample_weight)
        matrix, seed = self._fit_row_features(rows, weights)
        self.mean_ = np.zeros(matrix.shape[1])
        self.column_sums_ = matrix.rmatvec(weights)
        if kind == "centered":
            normalised = self._centred(matrix, weights)
        elif kind == "degree":
            normalised = normalise_by_degree(matrix, weights, type(self).__name__)
        else:
            normalised = _scale_rows(matrix, weights)
        triplets = self._decompose(normalised, n_components, seed)
        if kind != "degree":
            self.singular_values_ *= np.sqrt(copies)
        self.residuals_: FloatArray = triplets.residuals
        self.n_components_: int = len(self.singular_values_)
        return self

    def transform(self, X: TableLike) -> FloatArray:
        """Return the coordinates of rows: their normalised features times the components.

        The coordinates of the training rows are ``U * S``. With "degree", those of a row without
        similarities are zeros.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to transform.

        Returns
        -------
        array (n_samples, n_components)
        """
        self._check_fitted()
        if self.normalization != "degree":
            return self._project(X)
        products = self._products(X, np.column_stack([self.components_.T, self.column_sums_]))
        degrees = np.maximum(products[:, -1:], 0.0)
        return products[:, :-1] / np.sqrt(np.where(degrees > 0, degrees, np.inf))

    def check_state(self, state: State) -> None:
        """Raise InputError if the parts of a model from a file are inconsistent."""
        super().check_state(state)
        n_components, width = part_in(state, "components_", np.ndarray).shape
        array_in(state, "residuals_", np.float64, (n_components,), finite=True)
        array_in(state, "column_sums_", np.float64, (width,), finite=True)


def _scale_rows(matrix: FeatureMatrix, weights: FloatArray) -> FeatureMatrix:
    return matrix if (weights == 1.0).all() else RowScaledMatrix(matrix, np.sqrt(weights))
