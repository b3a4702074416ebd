"""Grown grids as a scikit-learn transformer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from gramless.base.memory import check_memory
from gramless.base.random import RandomStateLike, seed_from
from gramless.base.types import AnyArray, FloatArray, TableLike
from gramless.estimators.parameters import check_choice, check_count
from gramless.estimators.targets import ClassEncoder, NumberEncoder, TargetEncoder
from gramless.features.base import as_output
from gramless.features.binning import GivenBinning
from gramless.losses import Squared
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.codes import PlainBins, bytes_of_grid
from gramless.preprocessing.rows import check_rows, normalise_rows, validate_rows
from gramless.preprocessing.scaling import Scaler
from gramless.selection.budget import MIN_GROWTH_ROWS
from gramless.selection.config import SearchConfig
from gramless.selection.data import Data
from gramless.selection.growth import grow
from gramless.selection.splits import kept_together, matched_rows, validation_splits


@dataclass(eq=False, repr=False, kw_only=True)
class GrownBinning(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Binning features whose grids are grown for the prediction of a target.

    Each grid divides a few inputs, or their ranks, and ignores the others. Candidates are fitted to
    half of the rows and scored on the other half, and vice versa (see
    :func:`gramless.selection.growth.grow`). This transformer is for other models;
    :class:`KernelRegressor` and :class:`KernelClassifier` grow their own grids.

    Parameters
    ----------
    n_grids : int, default=256
        The largest number of grids. With more than 160 grids, growth stops earlier if a stage
        lowers the validation loss by less than 2 % per 160 grids.
    target : {"auto", "number", "class"}, default="auto"
        The kind of ``y``; "auto" uses scikit-learn's ``type_of_target``.
    sparse_output : bool, default=True
        Whether ``transform`` returns SciPy CSR. False returns an array, which
        ``set_output(transform="pandas")`` needs.
    random_state : int, RandomState or None, default=None
        The seed of everything that is drawn; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        The number of threads; None uses every processor. Results do not depend on it.

    Attributes
    ----------
    features_ : GivenBinning
        The grids and their bins, over the inputs and their ranks.
    scaler_ : Scaler
        The scaling of the inputs.
    growth_ : list of dict
        One entry per stage with the keys "n_grids", "score" (the mean loss of validation rows,
        lower is better), "alpha" and "seconds". A stage is a number of rounds, after which all
        weights are fitted again. A round adds up to 16 grids.
    relevance_ : array (n_features,)
        The contribution of each input to the prediction, with root mean square 1.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Growth uses at most 60,000 rows. Each round scores 214 proposals, which takes about 1.5 ns
    per row and proposal on one core, and adds up to 16 of them.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(1000, 5))
    >>> y = np.sign(X[:, 1] * X[:, 3])
    >>> Z = GrownBinning(n_grids=32, random_state=0).fit(X, y)
    >>> Z.transform(X).shape[0], sorted(Z.relevance_.argsort()[-2:].tolist())
    (1000, [1, 3])
    """

    n_grids: int = 256
    target: Literal["auto", "number", "class"] = "auto"
    sparse_output: bool = True
    random_state: RandomStateLike = None
    n_jobs: int | None = None

    def fit(self, X: TableLike, y: ArrayLike) -> Self:
        """Grow grids and learn their bins.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Training rows.
        y : array-like (n_samples,), or of numbers (n_samples, n_outputs)
            Targets for which grids are grown.

        Returns
        -------
        GrownBinning
        """
        self.fit_matrix(X, y)
        return self

    def fit_transform(self, X: TableLike, y: ArrayLike | None = None) -> AnyArray | sp.csr_array:
        """Fit to the rows and return their features, as :meth:`transform` does.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
            Training rows, which are also transformed.
        y : array-like (n_samples,), or of numbers (n_samples, n_outputs)
            Targets for which grids are grown.
        """
        return as_output(self, self.fit_matrix(X, y).tocsr())

    def fit_matrix(self, X: TableLike, y: ArrayLike | None) -> PlainBins:
        """Fit to the rows and return their compact feature matrix.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
            Training rows, which are also transformed.
        y : array-like (n_samples,), or of numbers (n_samples, n_outputs)
            Targets for which grids are grown.
        """
        n_grids, seed = check_count(self, "n_grids"), seed_from(self.random_state)
        rows, given = validate_rows(
            self,
            X,
            y,
            dtype="numeric",
            order=None,
            multi_output=True,
            ensure_min_samples=MIN_GROWTH_ROWS,
        )
        rows = normalise_rows(rows)
        check_memory(
            f"GrownBinning: n_grids={n_grids:,} for {len(rows):,} rows of {rows.shape[1]:,} inputs",
            float(n_grids) * bytes_of_grid(len(rows), 2 * rows.shape[1]),
            "lower n_grids",
        )
        encoder, targets = self._encode_targets(given)
        data = Data(rows, targets, None, encoder.score, encoder.fits_intercept)
        self.scaler_ = Scaler.fit("both", rows)
        groups = matched_rows(data, self.n_jobs)
        split = kept_together(validation_splits(len(rows), seed)[0], groups)
        grown = grow(
            data,
            split,
            self.scaler_,
            Squared(),
            SearchConfig(dropped_share=0.0),
            max_grids=n_grids,
            seed=seed,
            n_jobs=self.n_jobs,
            groups=groups,
        )
        self.growth_, self.relevance_ = grown.history, grown.relevance(rows.shape[1])
        self.features_ = GivenBinning(n_jobs=self.n_jobs)
        return self.features_.learn_bins(self.scaler_.rows(rows, self.n_jobs), grown.grids)

    def feature_matrix(self, X: TableLike) -> BinnedMatrix:
        """Return the compact feature matrix of rows.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Rows to transform.

        Returns
        -------
        BinnedMatrix (n_samples, D)
            A row has no feature in a grid if its bin has no training rows.
        """
        check_is_fitted(self, "features_")
        rows = check_rows(self, X, reset=False)
        return self.features_.rows_matrix(self.scaler_.rows(rows, self.n_jobs))

    def transform(self, X: TableLike) -> AnyArray | sp.csr_array:
        """Return the features of rows, with at most one non-zero per grid and row.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Rows to transform.

        Returns
        -------
        csr_array (n_samples, D), or array with ``sparse_output=False``
        """
        return as_output(self, self.feature_matrix(X).tocsr())

    def _encode_targets(self, y: AnyArray) -> tuple[TargetEncoder, FloatArray]:
        owner = type(self).__name__
        kind = check_choice(self, "target", ("auto", "number", "class"))
        kind = type_of_target(y, input_name="y") if kind == "auto" else kind
        if kind == "number" or kind.startswith("continuous"):
            numbers = NumberEncoder.check(y, owner)
            encoder = NumberEncoder.fit(numbers)
            return encoder, encoder.encode(numbers)
        labels = ClassEncoder.check(y)
        classes = ClassEncoder.fit(labels, owner)
        return classes, classes.encode(labels)

    @property
    def _n_features_out(self) -> int:
        return int(self.features_.offsets_[-1])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
