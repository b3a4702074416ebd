"""Leading singular vectors of kernel features, centred or not, as coordinates of rows."""

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
from gramless.matrices.normalised import CentredMatrix, RowScaledMatrix
from gramless.unsupervised.base import ProjectingMachine, degree_normalised

_ROUNDING = 1e-12  # singular values below this fraction of the norm of the features count as zero
_NORMALIZATIONS = ("none", "centered", "degree")


@dataclass(eq=False, repr=False)
class _Components(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ProjectingMachine):
    """Common base of transformers that return coordinates along singular vectors."""

    n_components: int = 2

    def _centred(self, matrix: FeatureMatrix, weights: FloatArray) -> FeatureMatrix:
        """Return the features less their mean, each row times the root of its weight."""
        centred = CentredMatrix(matrix, matrix.rmatvec(weights / weights.sum()))
        self.mean_: FloatArray = centred.means
        return _weighted_rows(centred, weights)

    def _projected(self, X: TableLike) -> FloatArray:
        """Return the features of rows, less the mean of the training rows, along components."""
        weights = np.ascontiguousarray(self.components_.T)
        return self._products(X, weights) - (self.mean_[:, None] * weights).sum(axis=0)

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        super().check_state(state)
        width = part_in(state, "components_", np.ndarray).shape[1]
        array_in(state, "mean_", np.float64, (width,), finite=True)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


@dataclass(eq=False, repr=False)
class KernelPCA(_Components):
    """Kernel principal component analysis, in time linear in the rows.

    The principal components of the features of a kernel, in place of the eigenvectors of its Gram
    matrix (Schölkopf, Smola & Müller 1998; with random features Lopez-Paz et al. 2014). The
    centred features are never formed.

    Parameters
    ----------
    n_components : int, default=2
        Number of components. There are fewer where the features have a lower rank.
    features : str or feature map, default="binning"
        As in :class:`~gramless.KernelRegressor`; a map brings its kernel and its own bandwidth.
    bandwidth : float, array-like (n_inputs,), "auto", "median" or "neighbors", default="auto"
        In units of the scaled inputs. "median" is the median distance between two random rows, and
        "neighbors" that of a row to its tenth neighbour, among at most 1,000 rows. "auto" is the
        bandwidth of the feature map if that is a number, else "median".
    scaling : str, default="auto"
        "standard", "quantile", "both" or "none"; "auto" is "standard".
    categorical_features : "auto" or array-like, default="auto"
        As in :class:`~gramless.KernelRegressor`.
    n_grids : int or "auto", default="auto"
        Number of grids of features by name.
    tol : float, default=1e-4
        Of the residuals of singular vectors, relative to the largest singular value.
    max_iter : int, default=200
        The most products with a block of vectors.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything that is drawn; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Number of threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    components_ : array (n_components, n_features_out)
        Directions in the space of features, orthonormal.
    singular_values_, explained_variance_ : array (n_components,)
        Of the centred features; the variance of the training rows along each component.
    explained_variance_ratio_ : array (n_components,)
        The share of each in the variance of all features.
    mean_ : array (n_features_out,)
    features_, scaler_, bandwidth_ : feature map, units of the inputs, bandwidth
    n_components_, n_iter_ : int

    Examples
    --------
    >>> from gramless import KernelPCA
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> pca = KernelPCA(2, n_grids=64, random_state=0).fit(X)
    >>> pca.transform(X[:5]).shape, pca.explained_variance_ratio_.shape
    ((5, 2), (2,))
    """

    def fit(self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn features and their principal components.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Training rows.
        y : ignored
            Ignored; present for scikit-learn's interface.
        sample_weight : array-like (n_samples,), optional
            Relative weights of the rows. A row of weight 2 counts like two equal rows; bandwidths
            are those of the distinct rows.

        Returns
        -------
        The estimator itself.
        """
        n_components = check_count(self, "n_components")
        rows, row_weights, copies = self._distinct_rows(X, sample_weight)
        n_rows = round(copies * len(row_weights))
        if n_rows < 2:
            raise InputError(f"KernelPCA: needs at least two rows, got n_samples={n_rows}.")
        matrix, seed = self._fit_row_features(rows, row_weights)
        centred = self._centred(matrix, row_weights)
        # What centring leaves of equal rows is rounding errors, as large as rows are long.
        least = _ROUNDING * float(np.sqrt(matrix.gram_diagonal(row_weights).sum()))
        self._decompose(centred, n_components, seed, least)
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
        return self._projected(X)


@dataclass(eq=False, repr=False)
class FeatureDecomposition(_Components):
    """The truncated singular value decomposition of kernel features, in time linear in the rows.

    For features Z of the training rows it finds ``Z ~ U S V.T`` by products with blocks of vectors;
    Z itself, its centred form and ``Z Z.T`` are never formed.

    Parameters
    ----------
    n_components : int, default=2
        Number of singular triplets. There are fewer where the features have a lower rank.
    normalization : {"none", "centered", "degree"}, default="none"
        Of Z before it is decomposed: as it is; less the mean of the training rows, as in
        :class:`KernelPCA`; or each row over the root of its degree, the sum of its similarities,
        which makes coordinates those of a Laplacian eigenmap, as in :class:`SpectralClustering` by
        a kernel.
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
        Of the residuals of singular vectors, relative to the largest singular value.
    max_iter : int, default=200
        The most products with a block of vectors.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything that is drawn; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Number of threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    components_ : array (n_components, n_features_out)
        The right singular vectors, orthonormal.
    singular_values_, residuals_ : array (n_components,)
        Singular values, and the norms of the residuals relative to the largest of them.
    mean_ : array (n_features_out,)
        What is subtracted from features: zeros unless they are centred.
    column_sums_ : array (n_features_out,)
        Features summed over the training rows; the products with them are the degrees.
    features_, scaler_, bandwidth_ : feature map, units of the inputs, bandwidth
    n_components_, n_iter_ : int

    Notes
    -----
    Time is that of some ten products there and back with ``n_components`` + 2 vectors. Memory is
    that of the features and of ten such blocks of the shorter side of Z.

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
        """Learn features and their leading singular vectors.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Training rows.
        y : ignored
            Ignored; present for scikit-learn's interface.
        sample_weight : array-like (n_samples,), optional
            Relative weights of the rows. Rows of Z are multiplied by the square roots of these. A
            row of weight 2 counts like two equal rows; bandwidths are those of the distinct rows.

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
        rows, weights, copies = self._distinct_rows(X, sample_weight)
        matrix, seed = self._fit_row_features(rows, weights)
        self.mean_ = np.zeros(matrix.shape[1])
        self.column_sums_ = matrix.rmatvec(weights)
        if kind == "centered":
            chosen = self._centred(matrix, weights)
        elif kind == "degree":
            chosen = degree_normalised(matrix, weights, type(self).__name__)
        else:
            chosen = _weighted_rows(matrix, weights)
        found = self._decompose(chosen, n_components, seed)
        if kind != "degree":
            self.singular_values_ *= np.sqrt(copies)
        self.residuals_: FloatArray = found.residuals
        self.n_components_: int = len(self.singular_values_)
        return self

    def transform(self, X: TableLike) -> FloatArray:
        """Return the coordinates of rows: their normalised features times the components.

        Those of training rows are ``U * S``. With "degree", a row without similarities gets zeros.

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
            return self._projected(X)
        both = self._products(X, np.column_stack([self.components_.T, self.column_sums_]))
        degrees = np.maximum(both[:, -1:], 0.0)
        return both[:, :-1] / np.sqrt(np.where(degrees > 0, degrees, np.inf))

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        super().check_state(state)
        n_components, width = part_in(state, "components_", np.ndarray).shape
        array_in(state, "residuals_", np.float64, (n_components,), finite=True)
        array_in(state, "column_sums_", np.float64, (width,), finite=True)


def _weighted_rows(matrix: FeatureMatrix, weights: FloatArray) -> FeatureMatrix:
    return matrix if (weights == 1.0).all() else RowScaledMatrix(matrix, np.sqrt(weights))
