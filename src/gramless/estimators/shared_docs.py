"""Descriptions of parameters and attributes that several estimators share."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent, indent
from typing import TypeVar

T = TypeVar("T")

_PARAMETERS = {
    "features": """
        features : str or feature map, default="binning"
            The features of the linear model. ``"binning"`` uses bins of random or grown grids;
            ``"smooth"``, ``"fourier"``, ``"nystrom"`` and ``"exact"`` stand for
            :class:`SmoothBinning`, :class:`RandomFourier`, :class:`Nystrom` and
            :class:`ExactKernel`, of a size that suits the rows. A feature map keeps its own size.
        """,
    "bandwidth": """
        bandwidth : float, array-like (n_features,) or "auto", default="auto"
            The bandwidth of the kernel in units of the scaled inputs, one number or one for each
            column. ``"auto"`` selects it on validation rows, unless a given feature map has one.
        """,
    "alpha": """
        alpha : float or "auto", default="auto"
            The strength of the penalty; ``"auto"`` selects it on validation rows. With grown grids,
            the weights of bins with many rows are usually penalised more.
        """,
    "scaling": """
        scaling : {"auto", "standard", "quantile", "whiten", "none"}, default="auto"
            How inputs are scaled. ``"quantile"`` replaces values by ranks. ``"whiten"`` replaces
            the inputs by uncorrelated combinations of variance 1; it needs dense rows of numbers
            without gaps, and such models have no Shapley values.
        """,
    "categorical_features": """
        categorical_features : "auto", list of str or int, or array of bool, default="auto"
            The categorical columns: names, positions or a mask. Text, booleans and categories of
            data frames are always categorical. In arrays, categories are whole numbers.
        """,
    "relevance": """
        relevance : {"auto", "equal", "learned"}, default="auto"
            How random grids weight the inputs. ``"learned"`` weights them by how much they change
            the prediction; ``"auto"`` keeps such weights if they predict validation rows clearly
            better.
        """,
    "grids": """
        grids : {"auto", "random", "grown"}, default="auto"
            ``"random"`` draws grids over all inputs. ``"grown"`` chooses grids over a few inputs
            each, by how well they predict rows that they were not fitted to. ``"auto"`` grows them
            if features, bandwidth, alpha and scaling are left open, ``l1_ratio`` is 0, and the
            table is dense, with at least %(least_rows)s and at most 4,096 inputs. With up to 2,000
            such rows, kernel ridge regression with a Gaussian kernel is tried too, and replaces the
            grids if it predicts validation rows clearly better.
        """,
    "n_grids": """
        n_grids : int or "auto", default="auto"
            The number of random grids, or the largest number of grown ones. ``"auto"`` doubles the
            random grids until the score of the validation rows improves by less than 2 %%. Growth
            stops when 160 more grids improve it by less than 2 %% (0.5 %% with ``effort`` 4 and 5).
            Both are limited by ``effort`` and by half of the free memory.
        """,
    "l1_ratio": """
        l1_ratio : float, default=0.0
            The share of the L1 penalty: 0 penalises squared weights (L2), 1 absolute weights (L1),
            and numbers in between are the elastic net. An L1 penalty makes most weights zero; their
            bins are dropped, so the model is smaller and predicts faster.
        """,
    "monotonic_cst": """
        monotonic_cst : array-like (n_features,) or dict, default=None
            The direction of predictions along each column, by position or by name: 1 if they never
            decrease as the column increases, -1 if they never increase, 0 without a constraint.
            With two classes it applies to the probability of the second. It holds exactly
            for all rows, because the effect of such a column is added to those of the others. It
            needs one output and numeric columns; grids are grown, without smooth kernels.
        """,
    "cv": """
        cv : int, splitter, iterable of (train, test) pairs or None, default=None
            The validation rows. None selects a random fifth or less, by groups if ``fit`` is given
            groups. A number is the number of shuffled folds%(stratified)s. Growth uses the first of
            the folds with the most rows, which is the last fold of a time series. Everything else
            uses all folds if there are fewer than 4,000 rows, and otherwise that fold. Rows of no
            fold are only part of the final fit.
        """,
    "effort": """
        effort : int, default=3
            How thoroughly a model is searched, from 1 to 5.

            1. at most 160 grids, grown on 30,000 rows, for speed;
            2. 256 grids, together with smooth kernels of 100 landmarks for each output (at most
               250) and a polynomial trend, if these predict validation rows better;
            3. 640 grids, grown on 60,000 rows;
            4. two sets of 640 grids, chosen from more proposals, and 500 landmarks; the second set
               and smooth kernels may use learned combinations of the inputs;
            5. four sets of 960 grids.
        """,
    "time_budget": """
        time_budget : float, optional
            The time of a fit in seconds. If it is short, fewer models are tried, iterations stop
            early, and some rows of very large tables are left out; ``limits_`` lists these limits.
            Results then depend on the speed of the machine.
        """,
    "memory_budget": """
        memory_budget : int, float or str, optional
            The memory of the fit in addition to the given rows, in bytes or as "4GB". Larger arrays
            of codes are kept in a temporary file, which does not change the model. If the weights
            of many outputs do not fit, fewer grids are fitted or the fit raises an error;
            ``limits_`` lists such limits. None allows half of the free memory, and no files.
        """,
    "solver": """
        solver : str or gramless.solvers.base.Solver, default="auto"
            ``"auto"`` uses ``"grid"`` (descent over grids) if ``l1_ratio`` is above 0,
            ``"newton"`` for losses other than the squared one, and otherwise ``"pcg"`` (conjugate
            gradients, preconditioned by a sample of the rows), ``"cholesky"`` if features are dense
            and that costs less, or ``"falkon"`` for Nyström features of many landmarks. For
            comparison, there are ``"cg"`` (without a preconditioner), ``"gmres"`` and ``"random"``
            (coordinate descent).
        """,
    "tol": """
        tol : float, default=1e-2
            The solver stops when the norm of the preconditioned gradient has fallen to this share
            of its start. The objective is then within about 1e-4 of its minimum, relative to the
            distance from the start.
        """,
    "max_iter": """
        max_iter : int, default=100
            The largest number of iterations of the solver.
        """,
    "random_state": """
        random_state : int, RandomState or None, default=None
            The seed of everything that is drawn; None draws one from NumPy's global state.
        """,
    "warm_start": """
        warm_start : bool, default=False
            Whether another ``fit`` continues the last one, with new rows of the same table or
            another ``alpha``, ``tol``, ``max_iter`` or ``solver``. Scaling, features and penalty
            are kept (a selected penalty keeps its ratio to the sum of the losses), and the solver
            starts from the old weights. The result is that of a start from zero, within ``tol``. If
            another parameter has changed, or rows are read from disk, nothing is kept.
        """,
    "n_jobs": """
        n_jobs : int or None, default=None
            The number of threads. None uses every processor, but one thread for tables of at most
            1,500 rows and 100,000 entries. Results do not depend on it.
        """,
    "verbose": """
        verbose : int, default=0
            1 logs trials and selected models to standard error, unless the logger ``gramless`` has
            a handler.
        """,
}

_ATTRIBUTES = {
    "features_": """
        features_ : feature map
            The fitted features of scaled rows. Grown grids that are combined with smooth kernels or
            a polynomial trend are the ``maps_`` of one joint map. Kernel ridge
            regression, alone or added to other features, is a
            :class:`~gramless.features.expansion.KernelExpansion`, and a trend alone a
            :class:`~gramless.features.polynomial_trend.PolynomialTrend`.
        """,
    "settings_": """
        bandwidth_, alpha_, settings_ : float, array or None; float; Hyperparameters
            The selected settings. ``bandwidth_`` is None for grown grids, whose widths differ.
        """,
    "search_": """
        search_ : list of dict
            Every trial, with its settings, score, measure, validation curve, rows, grids and
            seconds. Only scores of the same measure compare.
        """,
    "sparsity_": """
        sparsity_ : float
            The share of bins without weight; 0 unless ``l1_ratio`` is above 0.
        """,
    "relevance_": """
        relevance_ : array (n_inputs,)
            The weights of the inputs, by which bandwidths are divided. For grown grids, the
            contribution of each input to the prediction.
        """,
    "growth_": """
        growth_ : list of dict
            The number of grids, score, alpha and seconds after each stage of growth; empty if no
            grids were grown.
        """,
    "evals_result_": """
        evals_result_ : dict
            The scores of validation rows that were given, lower is better.
            ``evals_result_["valid_0"]`` has them by measure: those of the stages of growth, then
            those of complete fits, with the selected one last.
        """,
    "scorer_": """
        scorer_, cv_ : str
            The score that selected the model ("loss" without a scorer), and its validation rows.
        """,
    "limits_": """
        limits_ : list of str
            The limits by a time or memory budget that affected the fit.
        """,
    "scaler_": """
        scaler_ : Scaler
            The scaling of the inputs.
        inputs_ : RowInputs
            The conversion of rows to inputs; ``encoder_`` is its TableEncoder, or None unless rows
            were a data frame.
        n_iter_, status_, history_, solver_reason_
            The course of the final fit.
        n_features_in_, feature_names_in_
            As in scikit-learn.
        target_name_ : str or None
            The name of the series of targets, or of their column in a file.
        """,
}

_FIT = {
    "fit_rows": """
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Training rows; NaN is a missing value. Data frames may hold text, dates and categories.
            Sparse rows of at most 4,096 columns become an array if that takes at most a quarter of
            the memory budget; other sparse rows must not hold NaN. Rows of
            :func:`~gramless.datasets.store_table`, and mapped arrays with a ``memory_budget``, stay
            on disk.
        """,
    "fit_options": """
        sample_weight : array-like (n_samples,), optional
            Weights that are not negative. Rows of weight zero are left out.
        groups : array-like (n_samples,), optional
            The group of each row, such as a patient or a day, as numbers or text. The rows of a
            group are either all training rows or all validation rows. Groups are passed to ``cv``.
        X_val, y_val : array-like, sparse matrix or data frame; array-like, optional
            Validation rows and their targets, which replace those that are otherwise drawn from the
            training rows, and are never part of the final fit. ``evals_result_`` has their scores.
            They cannot be combined with ``cv``. A pipeline transforms them with
            ``Pipeline(..., transform_input=["X_val"])``.
        sample_weight_val : array-like, optional
            Weights of the validation rows; only their proportions matter.
        callbacks : callable or list of callables, optional
            Functions that are called with a :class:`~gramless.base.progress.Progress` after each
            trial of a search, round of growth, and iteration of the final fit. If one returns True,
            that ``stage`` ends ("search", "size", "growth", "validation" or "solve") and the fit
            continues with the results so far; ``limits_`` lists this.
        eval_set : (X, y) or list with one such pair, optional
            Another way to give ``X_val`` and ``y_val``. A pipeline does not transform it.
        """,
}

_SHARED = {**_PARAMETERS, **_ATTRIBUTES, **_FIT}
_PLACEHOLDER = re.compile(r"^( *)%\((\w+)\)s$", re.MULTILINE)


def with_shared_docs(**words: str) -> Callable[[T], T]:
    """Insert shared descriptions into the docstring of a class or function.

    A line ``%(name)s`` is replaced by the description of that name, at the same indentation.
    ``words`` replace the placeholders in descriptions that differ between estimators.
    """

    def insert(documented: T) -> T:
        def description(match: re.Match[str]) -> str:
            text = dedent(_SHARED[match[2]]).strip() % words
            return indent(text, match[1])

        if documented.__doc__ is not None:  # python -OO leaves docstrings out
            documented.__doc__ = _PLACEHOLDER.sub(description, documented.__doc__)
        return documented

    return insert
