"""Principal components of kernel features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from gramless.base.errors import InputError
from gramless.base.state import State, array_in, part_in
from gramless.base.types import FloatArray, TableLike
from gramless.estimators.parameters import check_count
from gramless.unsupervised.base import BandwidthRule, ProjectingMachine

_ROUNDING = 1e-12
"""Singular values below this fraction of the norm of the features count as zero."""


@dataclass(eq=False, repr=False)
class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ProjectingMachine):
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

    _bandwidth_rule: ClassVar[BandwidthRule] = "median"

    n_components: int = 2

    def fit(self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn features and their principal components.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Training rows.
        y : ignored
            Taken for scikit-learn's sake.
        sample_weight : array-like (n_samples,), optional
            Relative weights of the rows in means and variances; units and bandwidths ignore them.

        Returns
        -------
        The estimator itself.
        """
        n_components = check_count(self, "n_components")
        matrix, seed = self._fit_features(X)
        n_rows = matrix.shape[0]
        if n_rows < 2:
            raise InputError(f"KernelPCA: needs at least two rows, got n_samples={n_rows}.")
        row_weights = self._row_weights(sample_weight, n_rows)
        centred = self._centred(matrix, row_weights)
        # What centring leaves of equal rows is rounding errors, as large as rows are long.
        least = _ROUNDING * float(np.sqrt(matrix.gram_diagonal(row_weights).sum()))
        self._decompose(centred, n_components, seed, least)
        self.n_components_: int = len(self.singular_values_)
        self.explained_variance_ = self.singular_values_**2 / (n_rows - 1)
        total = centred.gram_diagonal().sum() / (n_rows - 1)
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

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        super().check_state(state)
        width = part_in(state, "components_", np.ndarray).shape[1]
        array_in(state, "mean_", np.float64, (width,), finite=True)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
