"""Kernel ridge regression without the Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin, clone
from sklearn.metrics import d2_pinball_score, r2_score
from sklearn.utils.validation import check_is_fitted

from gramless.base.deadline import Deadline
from gramless.base.errors import InputError
from gramless.base.random import seed_from
from gramless.base.reporting import Callbacks
from gramless.base.state import State, array_in, number_in, part_in, require
from gramless.base.types import AnyArray, FloatArray, TableLike
from gramless.estimators.available import available_if
from gramless.estimators.base import KernelMachine
from gramless.estimators.chosen import Chosen
from gramless.estimators.continued import FREE_TO_CHANGE, check_batches, keeps_choice
from gramless.estimators.given_rows import EvalSet
from gramless.estimators.parameters import check_choice, check_count, check_number, check_switch
from gramless.estimators.targets import NumberEncoder, QuantileEncoder, plain_numbers
from gramless.losses import Huber, Loss, Poisson, SmoothPinball, Squared, Tweedie
from gramless.matrices.stacked import with_ones
from gramless.model_selection.config import SearchConfig
from gramless.model_selection.conformal import Conformal, interval_scores
from gramless.model_selection.counts import CountDistribution
from gramless.model_selection.posterior import Posterior, unseen_squares
from gramless.preprocessing.rows import checked_weights

_LEVELS = 0.05, 0.25, 0.5, 0.75, 0.95
"""Quantiles of the model that intervals follow."""
_FIRST_SHARE = 0.5
"""Of a time budget, for each of two models."""
_MOST_GRIDS_OF_A_PROCESS = 80
_MOST_DRAWS = 100_000
"""Relative errors of standard deviations are 0.2 % with so many draws."""
_LEAST_MEAN = 1e-300
_WHOLE = 1e-9
"""Relative rounding of counts that were divided by exposures."""


def _levels(quantile: float | ArrayLike) -> float | tuple[float, ...]:
    """Return a quantile as a number, several as a tuple."""
    found = np.asarray(quantile, np.float64)
    if found.ndim > 1:
        raise InputError(f"quantile must be a number or a list of numbers, got {quantile!r}.")
    return float(found) if found.ndim == 0 else tuple(found.tolist())


def _checked_offset(offset: ArrayLike, n_rows: int) -> FloatArray:
    """Return an offset of rows; refuse another shape, and infinite numbers."""
    found = np.asarray(offset, np.float64)
    if found.shape != (n_rows,) or not np.isfinite(found).all():
        raise InputError(
            f"KernelRegressor: offset must be a finite number a row, of shape ({n_rows},); got "
            f"shape {found.shape}."
        )
    return found


@dataclass(eq=False, repr=False, kw_only=True)
class KernelRegressor(RegressorMixin, KernelMachine):
    """Kernel ridge regression on random features, with no knobs to turn.

    Minimises ``mean (f(x) - y)^2 / 2 + alpha/2 |w|^2`` over ``f(x) = w'z(x) + intercept`` (RB16,
    equation 1). What is left on ``"auto"`` is chosen on held-back rows.

    Parameters
    ----------
    features : str or feature map, default="binning"
        ``"binning"``: bins of random or grown grids. ``"smooth"``, ``"fourier"``,
        ``"nystrom"``, ``"exact"``: :class:`SmoothBinning`,
        :class:`RandomFourier` and so on, of a size that suits the rows.
    loss : str or Loss, default="squared"
        "squared", or "squared_error"; "huber": squared up to half a robust standard deviation of
        the targets and linear beyond; "absolute_error", or "median", predicts the median;
        "quantile" predicts the quantiles of the parameter ``quantile``. The last three are robust:
        how far outliers are changes nothing. Three predict the mean through its logarithm, so that
        it is positive: "poisson" for counts, or other targets that are not negative; "gamma" for
        positive ones whose deviation grows with their mean; "tweedie", with ``power``, for those
        that are positive or 0. Parameters of a loss given as an object are in standard deviations
        of the targets; for robust losses these are interquartile ranges, divided by 1.35.
    quantile : float or array-like, default=0.5
        Between 0 and 1, of the loss "quantile"; its constant is corrected by rows held back.
        Several, in rising order, are predicted in a column each, sorted so that they never cross.
    power : float, default=1.5
        Of the loss "tweedie": variances grow with this power of the mean, between 1 and 2.
    fit_intercept : bool, default=True
        Whether predictions have a constant without penalty. False: targets are not centred, the
        raw prediction is 0 where all features are, and no trend is tried, as it has a constant.
        Quantiles are not corrected by rows held back.
    intervals : {"split", "quantiles"}, default="split"
        How :meth:`predict_interval` finds bounds. "split" learns one width from rows held back.
        "quantiles" fits a second model to the quantiles 0.05, 0.25, 0.5, 0.75 and 0.95 of the
        targets, in as much time or more: intervals are narrow where targets vary little. Needs one
        output.
    bandwidth : float, array-like (n_features,) or "auto", default="auto"
        In units of the scaled inputs. ``"auto"`` searches, unless the feature
        map given has a number of its own.
    alpha : float or "auto", default="auto"
        Strength of the penalty; "auto" chooses it on rows held back. Over grown grids weights of
        bins with many rows are penalised more, as a rule.
    scaling : {"auto", "standard", "quantile", "whiten", "none"}, default="auto"
        Units of the inputs; "quantile" replaces values by ranks, "whiten" replaces inputs by
        combinations of variance 1 without correlation: for kernels that are not isotropic in the
        inputs. It takes dense rows of numbers without gaps, and has no Shapley values.
    categorical_features : "auto", list of str or int, or array of bool, default="auto"
        Columns to take as categories: equal or not. Names, positions or a mask. Text, truth values
        and categories of data frames always are. In arrays categories are whole numbers.
    relevance : {"auto", "equal", "learned"}, default="auto"
        Of random grids: "learned" weighs inputs by how much they move the prediction,
        "auto" does if that predicts held-back rows clearly better.
    grids : {"auto", "random", "grown"}, default="auto"
        "random" draws grids over all inputs. "grown" chooses grids over a few inputs
        each, by what they add to the prediction of rows that they were not fitted to.
        "auto" grows them if features, bandwidth, alpha and scaling are left open, ``l1_ratio`` is
        0, and the table is dense, with at least 10 rows, 5 rows per output and at most 4,096
        inputs; otherwise it is "random". Up to 2,000 such rows it tries kernel ridge regression
        first, a Gaussian kernel with every row as a landmark, and takes it if it predicts held-back
        rows clearly better.
    n_grids : int or "auto", default="auto"
        "auto" doubles random grids until that improves the score of held-back rows by less than
        2 %, and grows others until 160 more improve it by less than 2 %, with ``effort`` 4 and 5 by
        less than 0.5 %; at most as many as ``effort`` allows and half of the free memory holds. A
        number is how many are drawn, or grown at most.
    l1_ratio : float, default=0.0
        0 penalises squares of the weights (L2), 1 absolute values (L1), which makes
        most weights zero; between them is the elastic net. Bins without weight are
        forgotten: the model is smaller and predicts faster.
    monotonic_cst : array-like (n_features,) or dict, default=None
        For each column, or by its name: 1 where predictions (of two classes the probability of the
        second) never fall as it rises, -1 where they never rise, 0 for no constraint. It holds
        exactly, for any rows. Such a column is divided by grids over its ranks alone: its effect is
        added to that of the others, whatever they are. Grids are grown then, without smooth
        kernels. For one output, and numbers, not categories.
    calibrate : bool or "auto", default="auto"
        Whether to learn from a fit that does not know some rows how far predictions
        are off, for :meth:`predict_interval`. "auto" does where something else was
        left open, or grids are grown.
    n_posterior : int, default=0
        How many draws to keep of what a Gaussian process with these features leaves open, for
        ``predict(return_std=True)``, at most 100,000; standard deviations are off by about
        ``0.7 / sqrt(n_posterior)`` of themselves. For the squared loss and ``l1_ratio=0``. At most
        80 grids are grown then, unless ``n_grids`` says more: of many that were chosen for the
        targets the noise looks smaller than it is. Each draw costs as much as an output that is
        solved to ``tol=1e-4``, which ``time_budget`` does not count, and 8 bytes a column.
    scoring : str, callable or None, default=None
        What chooses on rows held back: a name of scikit-learn such as "r2" or
        "neg_mean_absolute_error", or a function ``scorer(estimator, X, y)``, greater is better;
        None chooses by the loss. It chooses the penalty, the grids that are dropped, smooth kernels
        or none, and scaling, bandwidth, relevance and number of random features. Scorers of scikit-
        learn also say when growth ends and which stage is the best; of functions of your own it is
        not known whether they change gradually. Which grids are grown, their penalties meanwhile,
        and whether kernel ridge regression is taken, the loss says.
    cv : int, splitter, iterable of (train, test) pairs or None, default=None
        Which rows are held back from every choice and for ``calibrate``. None: a fifth or less,
        drawn at random, by groups if ``fit`` gets these. A number: so many folds, shuffled. Growth
        holds back the first of the folds that cover most rows (of a time series the last),
        everything else all folds below 4,000 rows, and that one from there on. Rows of no fold are
        fitted at the end.
    effort : int, default=3
        How thoroughly grids are grown. 1: at most 160 grids, on 30,000 rows, for speed. 2: 256
        grids, and beside them smooth kernels with 100 landmarks an output, 250 at most, and a
        polynomial trend, where these predict held-back rows better. 3: 640 grids, on 60,000 rows.
        4: two sets of 640 grids, out of more candidates, in one fit, and 500 landmarks; those of
        the second set, and smooth kernels, may look along learned combinations of the inputs. 5:
        four sets of 960.
    time_budget : float, optional
        Seconds. Less is tried, iterations stop, and some rows are left out where rows and
        outputs are very many, to keep a fit within it; ``limits_`` says what was cut short.
        Results then depend on the speed of the machine.
    memory_budget : int, float or str, optional
        What the fit may take beside the rows that it is given, in bytes or as "4GB". Codes that
        outgrow it lie in a temporary file, from which the same model is fitted to the bit; fewer
        grids are fitted where the weights of many outputs outgrow it, or the fit is refused;
        ``limits_`` says so. None: half of the free memory, and nothing on the disk.
    solver : str or gramless.solvers.base.Solver, default="auto"
        "auto" is "grid", descent over grids, where ``l1_ratio`` is above 0, "newton" for losses
        other than the squared one, else "pcg": conjugate gradients, preconditioned by a sample of
        the rows; "cholesky" for features without zeros where that costs less, and "falkon" for
        Nyström features of many landmarks. For comparison: "cg" (no preconditioner), "gmres",
        "random" (coordinate descent).
    tol : float, default=1e-2
        On the gradient relative to the start, in the preconditioner's norm; the objective is then
        within about 1e-4 of its minimum, relative to the way from the start.
    max_iter : int, default=100
        Iterations of the solver at most.
    random_state : int, RandomState or None, default=None
        Seed of everything that is drawn; None draws one from NumPy's global state.
    warm_start : bool, default=False
        Whether a further ``fit`` goes on from the last one, to new rows of the same table or
        another ``alpha``, ``tol``, ``max_iter`` or ``solver``: units of the inputs and targets,
        features and penalty are kept, and the solve starts from the old weights. It ends where one
        from zero would, to ``tol``. Which bins there are is learned from the rows of the last fit,
        and a penalty that was chosen keeps its weight beside the summed losses. Nothing is kept if
        another parameter has changed, or of rows on the disk.
    n_jobs : int or None, default=None
        Threads; None means every processor, but one thread for tables of at most 1,500 rows and
        100,000 entries, which more would slow down. Results do not depend on it.
    verbose : int, default=0
        1 logs to standard error what was tried and chosen, unless the logger ``gramless`` has a
        handler that takes it.

    Attributes
    ----------
    features_ : feature map
        Fitted, over the rows that the scaler returns. Grown grids and what stands beside them,
        smooth kernels or a polynomial trend, are the ``maps_`` of one joint map; kernel ridge
        regression has a :class:`~gramless.features.expansion.KernelExpansion`, a trend alone is a
        :class:`~gramless.features.polynomial_trend.PolynomialTrend`.
    weights_, intercept_ : arrays (D,) or (D, n_outputs); float or (n_outputs,)
    bandwidth_, alpha_, settings_ : what was chosen
        ``bandwidth_`` is None where grids are grown: each has its own widths.
    search_ : list of dict
        Every trial: settings, score on held-back rows and its ``measure``, validation curve
        along the iterations, rows, grids, seconds. Scores of one measure compare.
    sparsity_ : float
        Share of the bins that have no weight, 0 unless ``l1_ratio`` is above 0.
    relevance_ : array (n_inputs,)
        Weights of the inputs: a bandwidth is divided by them. Of grown grids, how much grids that
        divide the input added to the prediction. Ones where random grids weigh inputs alike.
    growth_ : list of dict
        Grids, score of rows not fitted to, alpha and seconds after each stage of
        growth; empty where none were grown.
    evals_result_ : dict
        With ``eval_set`` its scores, less is better: ``evals_result_["valid_0"]`` has by measure
        those of the stages of growth, then those of fits with all grids, that chosen last.
    scorer_, cv_ : str
        What chose, "loss" without a scorer, and on which rows. Model files keep these, of
        ``scoring`` a name and of ``cv`` a number.
    limits_ : list of str
        What a budget of time or memory cut short.
    errors_ : Conformal or None
        How far off predictions of held-back rows were.
    quantile_model_ : KernelRegressor or None
        The second model of ``intervals="quantiles"``.
    lower_limit_ : array (n_outputs,)
        0 where no target of the fit is negative, minus infinity elsewhere: intervals end there.
    dispersion_ : float or None
        Of counts by the loss "poisson": rows held back with the mean m had about the variance
        ``m + dispersion_ * m**2``, what predictions were off included. None where targets are not
        whole numbers of one column, or no rows were held back.
    posterior_ : Posterior or None
        The draws; ``posterior_.noise`` is the standard deviation of the noise.
    scaler_ : Scaler
    inputs_ : RowInputs
        What turns rows into inputs; ``encoder_`` is its TableEncoder, None where
        rows were no data frame.
    n_iter_, status_, history_, solver_reason_
        How the final solve went.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    target_name_ : str or None
        Name of the series of targets, or of their column in a file; None if they have none.

    Notes
    -----
    A fit with everything given costs, a row, grid and core, some 2 ns to bin and 0.6 ns an
    iteration; 1, 2 or 4 bytes a row and grid, and 8 bytes a column and output.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless import KernelRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(2000, 2))
    >>> y = np.sin(X[:, 0]) + 0.3 * X[:, 1]
    >>> model = KernelRegressor(random_state=0).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.97)
    True
    """

    _target_kinds = ("numbers", "counts", "amounts")
    _target_options: ClassVar[dict[str, object]] = {"multi_output": True, "y_numeric": True}
    _losses: ClassVar[dict[str, Loss]] = {
        "squared": Squared(),
        "squared_error": Squared(),
        "huber": Huber(0.5),
        "median": SmoothPinball(0.5),
        "absolute_error": SmoothPinball(0.5),
    }

    quantile: float | ArrayLike = 0.5
    power: float = 1.5
    fit_intercept: bool = True
    intervals: str = "split"
    n_posterior: int = 0
    _exposures: ClassVar[tuple[FloatArray, FloatArray | None] | None] = None
    """Of the rows that are being fitted, with an offset; and their weights without exposures."""

    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        X_val: TableLike | None = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        callbacks: Callbacks = None,
        eval_set: EvalSet = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Choose what was left on "auto", then fit to all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            NaN is a missing value. Sparse rows of up to 4,096 columns that take at most a quarter
            of the memory budget as an array are fitted as this array; others stay sparse, and must
            not hold NaN. Data frames may hold text, dates
            and categories. Rows of :func:`~gramless.datasets.store_table`, and with a
            ``memory_budget`` those of a mapped array, stay on the disk.
        y : array-like (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like (n_samples,), optional
            Not negative; rows of weight zero count as absent.
        groups : array-like (n_samples,), optional
            What rows share, such as a patient or a day: rows of a group are fitted or held back
            together.
        X_val, y_val : array-like, sparse matrix or data frame; array-like, optional
            Validation rows and their targets. They take the place of the rows that are otherwise
            held back from growth, choices, pruning and errors, and are never fitted;
            ``evals_result_`` has their scores. Does not go with ``cv``. A pipeline transforms them
            with ``Pipeline(..., transform_input=["X_val"])``.
        sample_weight_val : array-like, optional
            Weights of the validation rows in every loss of theirs; only their proportions matter.
        callbacks : callable or list of callables, optional
            Called with a :class:`~gramless.base.reporting.Progress` after each trial, round of
            growth and iteration; where one returns True the stage ends.
        eval_set : (X, y) or list with one such pair, optional
            Another way to give ``X_val`` and ``y_val``. A pipeline does not transform it.
        offset : array-like (n_samples,), optional
            Added to raw predictions, with a coefficient of 1, as in generalised linear models: for
            counts the logarithm of the time or area over which they were counted. A scorer that
            chooses sees targets without it, such as counts over exposures.

        Returns
        -------
        The estimator itself.
        """
        intervals = check_choice(self, "intervals", ("split", "quantiles"))
        model = self._quantile_model(X) if intervals == "quantiles" else None
        validation: dict[str, Any] = {
            "X_val": X_val,
            "y_val": y_val,
            "sample_weight_val": sample_weight_val,
            "eval_set": eval_set,
        }
        if offset is not None and (eval_set is not None or X_val is not None):
            raise InputError(
                "KernelRegressor: offset does not go with validation rows (X_val or eval_set), "
                "which have none."
            )
        try:
            if offset is not None:
                y, sample_weight = self._without_offset(y, sample_weight, offset)
            super().fit(X, y, sample_weight, groups, callbacks=callbacks, **validation)
        finally:
            self.__dict__.pop("_exposures", None)
        if model is not None:
            self.quantile_model_: KernelRegressor | None = model.fit(
                X, y, sample_weight, groups, callbacks=callbacks, **validation
            )
        return self

    def _without_offset(
        self, y: ArrayLike, sample_weight: ArrayLike | None, offset: ArrayLike
    ) -> tuple[ArrayLike, ArrayLike | None]:
        """Return the targets and weights of the fit without an offset; keep the exposures."""
        loss, numbers = self._named_loss(), np.asarray(self._plain_targets(y), np.float64)
        if numbers.ndim == 0:
            return y, sample_weight
        added = _checked_offset(offset, len(numbers))
        if self.intervals == "quantiles" and loss.has_positive_means:
            raise InputError(
                "KernelRegressor: intervals='quantiles' takes no offset with this loss: how "
                "quantiles depend on exposures is not known; use intervals='split'."
            )
        by_row = added.reshape(-1, *[1] * (numbers.ndim - 1))
        targets, factors = loss.without_offset(numbers, by_row)
        factors = factors.reshape(-1)
        if not loss.has_positive_means:
            return targets, sample_weight
        if not (np.isfinite(factors).all() and np.isfinite(np.exp(added)).all()):
            raise InputError("KernelRegressor: the exponential of an offset is infinite.")
        weight = None
        if sample_weight is not None:
            weight = checked_weights(sample_weight, len(numbers), type(self).__name__)
        self._exposures = np.exp(added), weight  # type: ignore[misc]
        return targets, factors if weight is None else factors * weight

    @available_if(check_batches)
    def partial_fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a batch of rows to the fit, without those before; the first call is :meth:`fit`.

        Features are those of the first rows, and bins that only new rows fall into are added.
        The weights take one Newton step down the loss of the new rows, in which they have the share
        of all rows so far; the others are taken for stationary, with the curvature of the new ones.
        So rows should come in random order, and thousands at a time: this is close to the fit to
        all rows, not the same. Errors of rows held back stay those of the first fit.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Further training rows.
        y : array-like (n_samples,) or (n_samples, n_outputs)
            Their targets.
        sample_weight : array-like (n_samples,), optional
            Weights of the rows; only their proportions matter.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        AttributeError
            For other losses than "squared", and with ``l1_ratio``, ``n_posterior``,
            ``monotonic_cst`` or ``intervals="quantiles"``.
        """
        if "weights_" not in vars(self):
            return self.fit(X, y, sample_weight)
        return self._add_rows(X, y, sample_weight)

    def _encoder_of_batch(self, y: AnyArray) -> NumberEncoder:
        zeros = np.zeros(y.shape[1:])
        if zeros.shape != np.shape(self.intercept_):
            raise InputError(
                f"KernelRegressor: targets have the shape {y.shape}, other than those before."
            )
        least = np.where(np.atleast_2d(y.T).min(axis=1) >= 0.0, 0.0, -np.inf)
        self.lower_limit_: FloatArray = np.minimum(self.lower_limit_, least)
        return NumberEncoder(zeros, np.ones_like(zeros), fits_intercept=self.fit_intercept)

    def _quantile_model(self, X: TableLike) -> KernelRegressor:
        """Return the second model before its fit, which may go on from an earlier one."""
        own = {"loss": "quantile", "quantile": _LEVELS, "intervals": "split"}
        model = clone(self).set_params(**own, calibrate=True, n_posterior=0)
        if self.time_budget is not None:
            model.time_budget = _FIRST_SHARE * self.time_budget
        earlier = vars(self).get("quantile_model_")
        if earlier is None or not keeps_choice(self, X):
            return model
        params = model.get_params(deep=False).items()
        return earlier.set_params(**{k: v for k, v in params if k in FREE_TO_CHANGE})

    def _deadline(self) -> Deadline:
        deadline = super()._deadline()
        if self.intervals == "split" or deadline.seconds is None:
            return deadline
        return Deadline(_FIRST_SHARE * deadline.seconds)

    def _losses_by_name(self) -> dict[str, Loss]:
        named = super()._losses_by_name()
        if self.loss == "quantile":
            named["quantile"] = SmoothPinball(_levels(self.quantile))
        if self.loss == "tweedie":
            named["tweedie"] = Tweedie(check_number(self, "power"))
        return named

    def _search_config(self) -> SearchConfig:
        config = super()._search_config()
        if not check_switch(self, "fit_intercept"):
            config = replace(config, tries_trend=False)
        if not check_count(self, "n_posterior", low=0, high=_MOST_DRAWS):
            return config
        if self.monotonic_cst is not None:
            raise InputError("KernelRegressor: n_posterior=0 is all that goes with monotonic_cst.")
        if self._named_loss().name != "squared" or self.l1_ratio != 0:
            raise InputError(
                f"KernelRegressor: n_posterior needs loss='squared' and l1_ratio=0: other fits "
                f"are no Gaussian process; got loss={self.loss!r} and l1_ratio={self.l1_ratio!r}."
            )
        # The more grids are chosen for the targets, the less noise a Gaussian process over them
        # sees: of 0.3 it finds 0.302 with 80 grids, and 0.261 with 640.
        few = min(config.most_grids, _MOST_GRIDS_OF_A_PROCESS)
        return replace(config, most_grids=few, ridge_rows=0, dropped_share=0.0, count_power=0.0)

    @overload
    def predict(
        self, X: TableLike, return_std: Literal[False] = False, offset: ArrayLike | None = None
    ) -> FloatArray: ...

    @overload
    def predict(
        self, X: TableLike, return_std: Literal[True], offset: ArrayLike | None = None
    ) -> tuple[FloatArray, FloatArray]: ...

    def predict(
        self, X: TableLike, return_std: bool = False, offset: ArrayLike | None = None
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return predictions, with their standard deviations if asked for.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.
        return_std : bool, default=False
            Needs ``n_posterior``.
        offset : array-like (n_samples,), optional
            Added to raw predictions: by a log link, means are times its exponential. Zeros if left
            out, also where the fit had one.

        Returns
        -------
        mean : array (n_samples,) or (n_samples, n_outputs)
        std : array of the same shape
            Only with ``return_std``. Of the function, as of a Gaussian process with the
            kernel of these features: without the noise of targets, which scikit-learn's
            ``GaussianProcessRegressor`` counts in only through a ``WhiteKernel``. That of
            a new target is ``hypot(std, posterior_.noise)``, for a row of mean weight.
            Grids, bandwidth and alpha count as known. Far from all rows it is the
            prior's, but not in ranks (``scaling="quantile"``, and grown grids over
            them): they end where the rows of the fit do.

        Raises
        ------
        InputError
            If ``return_std`` is asked of a fit without ``n_posterior``.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-3, 3, size=(500, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=500)
        >>> model = KernelRegressor(scaling="standard", n_posterior=100, random_state=0)
        >>> model = model.fit(X, y)
        >>> mean, std = model.predict([[0.0], [6.0]], return_std=True)
        >>> bool(std[0] < model.posterior_.noise < std[1])
        True
        """
        predicted = self._means(X, offset)
        return (predicted, self._deviations(X)) if return_std else predicted

    def predict_interval(
        self,
        X: TableLike,
        coverage: float = 0.9,
        method: str = "auto",
        offset: ArrayLike | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return bounds between which targets of new rows lie, so often as ``coverage`` says.

        Holds on average over rows like those of the fit, in the proportions of their weights:
        errors of rows held back from a fit with the same settings say how wide bounds must be.
        "split" (Lei et al. 2018) takes a multiple of what errors are proportional to: a constant,
        or by the losses "poisson", "tweedie" and "gamma" a power of the mean, half of 1, of
        ``power`` and of 2. "quantiles" takes the predicted quantiles whose coverage is nearest, and
        moves them by one width (Romano, Patterson & Candes 2019). Bounds are not below 0 where no
        target of the fit is. Of counts by the loss "poisson", "split" takes ends of equal
        probability beyond of :meth:`predict_distribution`, whole numbers, at the level that covers
        as many rows held back as asked.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Between 0 and 1.
        method : {"auto", "split", "quantiles"}, default="auto"
            "auto" is "quantiles" where the fit has some, by ``intervals="quantiles"`` or by
            ``loss="quantile"`` with several, else "split".
        offset : array-like (n_samples,), optional
            As for :meth:`predict`.

        Returns
        -------
        lower, upper : arrays (n_samples,) or (n_samples, n_outputs)
            Infinite where too few rows were held back for such a coverage.

        Raises
        ------
        InputError
            If the fit held no rows back, or has not what the method needs.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-3, 3, size=(900, 1))
        >>> y = X[:, 0] + np.random.default_rng(1).normal(size=900)
        >>> model = KernelRegressor(random_state=0).fit(X, y)
        >>> lower, upper = model.predict_interval(X[:2], coverage=0.8)
        >>> bool((1 < upper - lower).all() and (upper - lower < 4).all())
        True
        """
        check_is_fitted(self, "weights_")
        model = self._interval_model(method)
        errors = model._held_back_errors("predict_interval")
        return model._bounds(model._means(X, offset), errors, coverage)

    def _bounds(
        self, predicted: FloatArray, errors: Conformal, coverage: float
    ) -> tuple[FloatArray, FloatArray]:
        margin = np.atleast_1d(errors.quantile(coverage))
        if self.dispersion_ is not None:
            return CountDistribution(self.dispersion_).interval(predicted, float(margin[0]))
        if self._n_levels == 1:
            half = margin * self._error_units(predicted)
            lower, upper = predicted - half, predicted + half
        else:
            nominal = (self._levels[::-1] - self._levels)[: self._n_levels // 2]
            own = int(np.abs(nominal - coverage).argmin())
            lower, upper = predicted[:, own] - margin[own], predicted[:, -1 - own] + margin[own]
            # Margins may be negative, and pairs narrow.
            crossed = lower > upper
            lower[crossed] = upper[crossed] = 0.5 * (lower[crossed] + upper[crossed])
        return np.maximum(lower, self.lower_limit_), np.maximum(upper, self.lower_limit_)

    def predict_quantiles(
        self,
        X: TableLike,
        quantiles: ArrayLike = (0.05, 0.5, 0.95),
        offset: ArrayLike | None = None,
    ) -> FloatArray:
        """Return quantiles of targets of new rows: ends of :meth:`predict_interval`.

        The quantile q above 1/2 is the upper end of the interval with coverage ``2 q - 1``, those
        below are lower ends. 1/2 is the prediction, or the predicted median where there is one: of
        counts by the loss "poisson" that of :meth:`predict_distribution`.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.
        quantiles : array-like (n_quantiles,), default=(0.05, 0.5, 0.95)
            Between 0 and 1.
        offset : array-like (n_samples,), optional
            As for :meth:`predict`.

        Returns
        -------
        array (n_samples, n_quantiles)
            Rising with the quantile in every row; not below 0 where no target of the fit is.

        Raises
        ------
        InputError
            If the fit held no rows back, or has several outputs.
        """
        check_is_fitted(self, "weights_")
        levels = np.atleast_1d(np.asarray(quantiles, np.float64))
        if levels.ndim != 1 or not ((levels > 0.0) & (levels < 1.0)).all():
            raise InputError(f"quantiles must lie between 0 and 1, got {quantiles!r}.")
        if self.weights_.ndim == 2 and self._n_levels == 1:
            raise InputError("KernelRegressor: predict_quantiles needs a fit of one output.")
        model = self._interval_model("auto")
        errors = model._held_back_errors("predict_quantiles")
        predicted = model._means(X, offset)
        found = np.empty((len(predicted), len(levels)))
        for k, level in enumerate(levels):
            if level == 0.5:
                found[:, k] = model._middle(predicted)
            else:
                ends = model._bounds(predicted, errors, float(abs(2.0 * level - 1.0)))
                found[:, k] = ends[int(level > 0.5)]
        order = np.argsort(levels, kind="stable")
        found[:, order] = np.sort(found, axis=1)
        return np.maximum(found, model.lower_limit_)

    def predict_distribution(self, X: TableLike, offset: ArrayLike | None = None) -> Any:
        """Return the distributions of counts of new rows, by the loss "poisson".

        They are negative binomial, or Poisson where ``dispersion_`` is 0, with the predicted means
        and the dispersion of rows held back.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.
        offset : array-like (n_samples,), optional
            As for :meth:`predict`.

        Returns
        -------
        frozen distribution of scipy.stats
            Its methods ``pmf``, ``cdf``, ``ppf``, ``mean``, ``std`` and so on return a number for
            each row.

        Raises
        ------
        InputError
            If the fit is none of counts by the loss "poisson", or held no rows back.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, size=(1000, 2))
        >>> y = np.random.default_rng(1).poisson(np.exp(X[:, 0]))
        >>> model = KernelRegressor(loss="poisson", random_state=0).fit(X, y)
        >>> chance_of_none = model.predict_distribution(X[:5]).pmf(0)
        >>> bool((0.03 < chance_of_none).all() and (chance_of_none < 0.75).all())
        True
        """
        check_is_fitted(self, "weights_")
        if self.dispersion_ is None:
            raise InputError(
                "KernelRegressor: predict_distribution needs a fit of counts, whole numbers in one "
                "column, by loss='poisson', with calibrate=True."
            )
        return CountDistribution(self.dispersion_).frozen(self._means(X, offset))

    def score(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> float:
        """Return R2 of the predictions; of several quantiles the mean of their pinball scores.

        Those are scikit-learn's ``d2_pinball_score``: the share of a constant's loss that is saved.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows with known targets.
        y : array-like (n_samples,) or (n_samples, n_outputs)
            Their targets.
        sample_weight : array-like (n_samples,), optional
            Weights of the rows; only their proportions matter.
        offset : array-like (n_samples,), optional
            As for :meth:`predict`.

        Returns
        -------
        float
        """
        predicted = self.predict(X) if offset is None else self.predict(X, offset=offset)
        if self._n_levels == 1:
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        scores = [
            d2_pinball_score(y, own, sample_weight=sample_weight, alpha=level)
            for own, level in zip(predicted.T, self._levels, strict=True)
        ]
        return float(np.mean(scores))

    def _interval_model(self, method: str) -> KernelRegressor:
        """Return the model whose intervals a method takes."""
        if method not in ("auto", "split", "quantiles"):
            raise InputError(
                f"KernelRegressor: method must be 'auto', 'split' or 'quantiles', got {method!r}."
            )
        if method == "auto":
            return self.quantile_model_ or self
        if (method == "quantiles") == (self._n_levels > 1):
            return self
        if method == "quantiles" and self.quantile_model_ is not None:
            return self.quantile_model_
        remedy = "intervals='quantiles'" if method == "quantiles" else "a loss of the mean"
        raise InputError(f"KernelRegressor: method={method!r} needs a fit with {remedy}.")

    def _middle(self, predicted: FloatArray) -> FloatArray:
        """Return predicted medians, or the predictions where there are none."""
        if self.dispersion_ is not None:
            return np.asarray(CountDistribution(self.dispersion_).frozen(predicted).median())
        if self._n_levels == 1:
            return predicted
        return predicted[:, int(np.abs(self._levels - 0.5).argmin())]

    @property
    def _levels(self) -> FloatArray:
        """The quantiles that are predicted; one number for other losses."""
        loss = self.loss_
        return np.atleast_1d(loss.levels if isinstance(loss, SmoothPinball) else 0.5)

    @property
    def _n_levels(self) -> int:
        return len(self._levels)

    def _error_units(self, predicted: FloatArray) -> FloatArray:
        """Return what errors are proportional to, above 0."""
        if not self.loss_.has_positive_means:
            return np.ones_like(predicted)
        return self.loss_.deviation(np.maximum(predicted, _LEAST_MEAN))

    def _means(self, X: TableLike, offset: ArrayLike | None = None) -> FloatArray:
        """Return raw predictions through the inverse link of the loss, several quantiles sorted."""
        raw = self._responses(X)
        if offset is not None:
            added = _checked_offset(offset, len(raw))
            raw = raw + added.reshape(-1, *[1] * (raw.ndim - 1))
        found = self.loss_.inverse_link(raw)
        return np.sort(found, axis=1) if self._n_levels > 1 else found

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        super().check_state(state)
        coef, loss = part_in(state, "weights_", np.ndarray), state["loss_"]
        n_outputs = coef[:1].size
        if state["errors_"] is not None:
            n_scores = part_in(state, "errors_", Conformal).scores[:1].size
            require(n_scores in (n_outputs, n_outputs // 2), "errors_ do not fit weights_")
        if state["posterior_"] is not None:
            posterior = part_in(state, "posterior_", Posterior)
            fits = len(posterior.draws) == len(coef) + int(self.fit_intercept)
            fits = fits and np.shape(posterior.noise) == coef.shape[1:]
            require(fits, "posterior_ does not fit weights_")
        if state["dispersion_"] is not None:
            number_in(state, "dispersion_", float, 0.0)
            fits = coef.ndim == 1 and isinstance(loss, Poisson)
            require(fits and state["errors_"] is not None, "dispersion_ does not fit the loss")
        n_limits: int | None = n_outputs
        if isinstance(loss, SmoothPinball) and loss.levels.ndim == 1:
            require(coef.shape[1:] == loss.levels.shape, "weights_ does not fit the quantiles")
            n_limits = None
        limits = array_in(state, "lower_limit_", np.float64, (n_limits,))
        require(bool((limits <= 0.0).all()), "lower_limit_ is out of range")
        if state["quantile_model_"] is not None:
            model = part_in(state, "quantile_model_", KernelRegressor)
            fits = model.n_features_in_ == state["n_features_in_"] and model._n_levels > 1
            require(fits, "quantile_model_ does not fit")

    def _restore(self, fitted: dict[str, object]) -> None:
        # Files of earlier versions know no quantiles, and no limit.
        fitted.setdefault("quantile_model_", None)
        fitted.setdefault("dispersion_", None)
        n_outputs = part_in(fitted, "weights_", np.ndarray)[:1].size
        fitted.setdefault("lower_limit_", np.full(n_outputs, -np.inf))
        super()._restore(fitted)

    def _tells_of_all_bins(self) -> bool:
        return self.n_posterior > 0

    def _learn_errors(self, chosen: Chosen) -> None:
        data, validation, encoder = chosen.data, chosen.judged, chosen.encoder
        assert isinstance(encoder, NumberEncoder)
        self.errors_ = None
        self.quantile_model_ = None
        self.dispersion_: float | None = None
        if validation is not None:
            rows = chosen.given.used[validation.rows]
            exposure, counts = np.ones(len(rows)), data.row_counts(validation.rows)
            if self._exposures is not None:
                exposures, weight = self._exposures
                exposure = exposures[rows]
                counts = None if weight is None else weight[rows] / weight[rows].mean()
            raw, codes = validation.raw, data.targets[validation.rows]
            if isinstance(self.loss_, SmoothPinball) and self.fit_intercept:
                added = self.loss_.correction(raw, codes, counts)
                self.intercept_, raw = self.intercept_ + added * encoder.spread, raw + added
            self.errors_ = self._learnt_errors(raw, codes, exposure, counts, encoder)
        self.posterior_ = self._posterior(chosen, encoder) if self.n_posterior else None

    def _learnt_errors(
        self,
        raw: FloatArray,
        codes: FloatArray,
        exposure: FloatArray,
        counts: FloatArray | None,
        encoder: NumberEncoder,
    ) -> Conformal:
        """Return how far off raw predictions of encoded targets are; set the dispersion of counts.

        Each row stands for so many ``counts`` of rows.
        """
        unit = exposure * encoder.spread if codes.ndim == 1 else exposure[:, None] * encoder.spread
        found, whole = codes * unit, np.rint(codes * unit)
        are_whole = (np.abs(found - whole) <= _WHOLE * np.maximum(whole, 1.0)).all()
        if not (are_whole and isinstance(self.loss_, Poisson) and codes.ndim == 1):
            return Conformal.fit(self._error_scores(raw, codes, unit), counts)
        mean = self.loss_.inverse_link(raw) * unit
        distribution = CountDistribution.fit(whole, mean, counts)
        self.dispersion_ = distribution.dispersion
        return Conformal.fit(distribution.scores(whole, mean), counts)

    def _error_scores(self, raw: FloatArray, codes: FloatArray, unit: FloatArray) -> FloatArray:
        """Return how far off raw predictions of encoded targets are, in units of the targets.

        Of several quantiles how far targets lie outside of each pair, the outer ones first. One
        encoded target is a ``unit`` of its row.
        """
        predicted = self.loss_.inverse_link(raw)
        n_pairs = self._n_levels // 2
        if n_pairs == 0:
            scores = interval_scores(predicted, codes) * unit
            return scores / self._error_units(predicted * unit)
        predicted = np.sort(predicted, axis=1)
        below = predicted[:, :n_pairs] - codes[:, :n_pairs]
        above = codes[:, :n_pairs] - predicted[:, ::-1][:, :n_pairs]
        return np.asarray(np.maximum(below, above) * unit[:, :1])

    def _posterior(self, chosen: Chosen, encoder: NumberEncoder) -> Posterior:
        """Draw the weights, with the noise in units of the targets as given."""
        penalty = chosen.data.penalty(self.alpha_)
        problem = replace(chosen.problem(), loss=Squared(), penalty=penalty)
        seed = seed_from(self.random_state)
        found = Posterior.sample(problem, int(self.n_posterior), seed=seed, n_jobs=self.n_jobs)
        return replace(found, noise=found.noise * encoder.spread)

    def _deviations(self, X: TableLike) -> FloatArray:
        """Return the standard deviations of the function at new rows, a block at a time."""
        if self.posterior_ is None:
            raise InputError(
                "KernelRegressor: return_std=True needs draws of what the fit leaves open; fit "
                "again with n_posterior=100."
            )
        find = self.posterior_.deviations
        parts = [
            find(with_ones(Z) if self.fit_intercept else Z, unseen_squares(Z))
            for Z in self._feature_blocks(X)
        ]
        return np.concatenate([np.zeros((0, *np.shape(self.posterior_.noise))), *parts])

    def _plain_targets(self, y: ArrayLike) -> ArrayLike:
        return plain_numbers(y, type(self).__name__)

    def _check_targets(self, y: AnyArray) -> FloatArray:
        return NumberEncoder.check(y, type(self).__name__)

    def _target_encoder(self, y: AnyArray, weight: FloatArray | None) -> NumberEncoder:
        loss = self._named_loss()
        self.lower_limit_ = np.where(np.atleast_2d(y.T).min(axis=1) >= 0.0, 0.0, -np.inf)
        if not (isinstance(loss, SmoothPinball) and loss.levels.ndim == 1):
            return NumberEncoder.fit(y, weight, loss, self.fit_intercept)
        if y.ndim != 1:
            raise InputError(
                f"KernelRegressor: several quantiles need targets of one column, got {y.shape[1]}; "
                f"fit a model for each."
            )
        encoder = QuantileEncoder.fit(y, weight, loss, self.fit_intercept)
        return replace(encoder, n_levels=loss.levels.size)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
