"""Kernel ridge regression without the Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin, clone
from sklearn.metrics import d2_pinball_score, r2_score
from sklearn.utils.validation import check_is_fitted

from gramless.base.errors import InputError
from gramless.base.progress import Callbacks, Deadline
from gramless.base.random import seed_from
from gramless.base.state import State, array_in, number_in, part_in, require
from gramless.base.types import AnyArray, FloatArray, TableLike
from gramless.estimators.available import available_if
from gramless.estimators.base import KernelMachine
from gramless.estimators.continued import FREE_TO_CHANGE, check_batches, keeps_choice
from gramless.estimators.final_fit import FinalFit
from gramless.estimators.given_rows import EvalSet, ValidationArguments
from gramless.estimators.parameters import check_choice, check_count, check_number, check_switch
from gramless.estimators.shared_docs import with_shared_docs
from gramless.estimators.steps import FitArguments, Selection, checked_offset
from gramless.estimators.targets import NUMBERS, NumberEncoder, QuantileEncoder
from gramless.losses import Huber, Loss, Poisson, SmoothPinball, Squared, Tweedie
from gramless.matrices.stacked import with_ones
from gramless.selection.config import SearchConfig
from gramless.uncertainty.conformal import Conformal, Intervals, quantile_levels
from gramless.uncertainty.counts import CountDistribution
from gramless.uncertainty.posterior import Posterior, unseen_squares

_INTERVAL_QUANTILES = 0.05, 0.25, 0.5, 0.75, 0.95
# The rest of a time budget is for the quantile model of intervals="quantiles".
_FIRST_MODEL_TIME_SHARE = 0.5
_MAX_GRIDS_WITH_POSTERIOR = 80
_MAX_DRAWS = 100_000  # standard deviations then have a relative error of 0.2 %


@with_shared_docs(least_rows="10 rows, 5 rows per output", stratified="")
@dataclass(eq=False, repr=False, kw_only=True)
class KernelRegressor(RegressorMixin, KernelMachine):
    """Kernel ridge regression on random features, without settings to tune.

    Minimises ``mean (f(x) - y)^2 / 2 + alpha/2 |w|^2`` over ``f(x) = w'z(x) + intercept`` (RB16,
    equation 1). Everything that is left on ``"auto"`` is selected on validation rows.

    Parameters
    ----------
    %(features)s
    loss : str or Loss, default="squared"
        The loss. "squared", or "squared_error". "huber" is squared up to half a robust standard
        deviation of the targets and linear beyond; "absolute_error", or "median", predicts the
        median; "quantile" predicts the quantiles of the parameter ``quantile``. These three are
        robust: the size of outliers has no effect. Three more predict the logarithm of the mean,
        so predictions are positive: "poisson" for counts and other targets that are not negative,
        "gamma" for positive targets whose deviation grows with their mean, and "tweedie" for
        targets that are positive or 0. Parameters of a loss object are in standard deviations of
        the targets, or for robust losses in interquartile ranges divided by 1.35.
    quantile : float or array-like, default=0.5
        The quantiles of the loss "quantile", between 0 and 1; their constants are corrected on
        validation rows. Several quantiles, in increasing order, are predicted in one column each,
        and sorted so that they never cross.
    power : float, default=1.5
        The variance of the loss "tweedie" is proportional to this power of the mean, between 1 and
        2.
    fit_intercept : bool, default=True
        Whether predictions have a constant without a penalty. If False, targets are not centred,
        the raw prediction is 0 if all features are 0, no trend is tried because a trend has a
        constant, and quantiles are not corrected on validation rows.
    intervals : {"split", "quantiles"}, default="split"
        The method of :meth:`predict_interval`. "split" estimates one width on validation rows.
        "quantiles" fits a second model to the quantiles 0.05, 0.25, 0.5, 0.75 and 0.95 of the
        targets, which at least doubles the time; intervals are then narrow if targets vary little.
        It needs one output.
    %(bandwidth)s
    %(alpha)s
    %(scaling)s
    %(categorical_features)s
    %(relevance)s
    %(grids)s
    %(n_grids)s
    %(l1_ratio)s
    %(monotonic_cst)s
    calibrate : bool or "auto", default="auto"
        Whether to estimate the size of errors on validation rows, for :meth:`predict_interval`.
        "auto" does so if grids are grown or something else is left open.
    n_posterior : int, default=0
        The number of posterior draws to keep for ``predict(return_std=True)``, at most 100,000.
        They are draws of a Gaussian process with the kernel of these features; standard deviations
        have a relative error of about ``0.7 / sqrt(n_posterior)``. Draws need the squared loss and
        ``l1_ratio=0``. At most 80 grids are then grown, unless ``n_grids`` is larger, because the
        noise is underestimated with many grids that were grown for the targets. A draw costs as
        much as an output solved to ``tol=1e-4``, which ``time_budget`` does not count, and 8 bytes
        per column.
    scoring : str, callable or None, default=None
        The score that selects a model on validation rows: a name of scikit-learn such as "r2" or
        "neg_mean_absolute_error", or a function ``scorer(estimator, X, y)``, greater is better.
        None selects by the loss. The score selects the penalty, the grids that are dropped, smooth
        kernels, and the scaling, bandwidth, relevance and number of random features. Scorers of
        scikit-learn also decide when growth stops, and which stage is best. Only the loss decides
        which grids are grown, and whether kernel ridge regression replaces them.
    %(cv)s
    %(effort)s
    %(time_budget)s
    %(memory_budget)s
    %(solver)s
    %(tol)s
    %(max_iter)s
    %(random_state)s
    %(warm_start)s
    %(n_jobs)s
    %(verbose)s

    Attributes
    ----------
    %(features_)s
    weights_, intercept_ : arrays (D,) or (D, n_outputs); float or (n_outputs,)
        The weights of the features, and the constant.
    %(settings_)s
    %(search_)s
    %(sparsity_)s
    %(relevance_)s
    %(growth_)s
    %(evals_result_)s
    %(scorer_)s
    %(limits_)s
    errors_ : Conformal or None
        The scores of the errors of validation rows.
    quantile_model_ : KernelRegressor or None
        The second model of ``intervals="quantiles"``.
    lower_limit_ : array (n_outputs,)
        The lower end of intervals: 0 if no target was negative, otherwise minus infinity.
    dispersion_ : float or None
        With the loss "poisson", validation rows of mean m had about the variance
        ``m + dispersion_ * m**2``, errors of the predictions included. None unless targets are
        whole numbers in one column and there were validation rows.
    posterior_ : Posterior or None
        The draws; ``posterior_.noise`` is the standard deviation of the noise.
    %(scaler_)s

    Notes
    -----
    If all settings are given, a fit takes about 2 ns per row, grid and core for binning, and 0.6 ns
    for each iteration. It needs 1, 2 or 4 bytes per row and grid, and 8 bytes per column and
    output.

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
    _reader = NUMBERS
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

    @with_shared_docs()
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
        """Select everything that is left on "auto", then fit the model to all rows.

        Parameters
        ----------
        %(fit_rows)s
        y : array-like (n_samples,) or (n_samples, n_outputs)
            Targets.
        %(fit_options)s
        offset : array-like (n_samples,), optional
            A constant for each row, added to raw predictions as in generalised linear models: for
            counts, the logarithm of the time or area over which they were counted. A scorer gets
            targets without the offset, such as counts divided by exposures.

        Returns
        -------
        The estimator itself.
        """
        intervals = check_choice(self, "intervals", ("split", "quantiles"))
        model = self._quantile_model(X) if intervals == "quantiles" else None
        validation = ValidationArguments.of(
            type(self).__name__, eval_set, X_val, y_val, sample_weight_val
        )
        arguments = FitArguments(X, y, sample_weight, groups, callbacks, validation)
        if offset is not None:
            loss = self._named_loss()
            if validation is not None:
                raise InputError(
                    "KernelRegressor: offset does not go with validation rows (X_val or eval_set), "
                    "which have no offset."
                )
            if model is not None and loss.has_positive_means:
                raise InputError(
                    "KernelRegressor: intervals='quantiles' takes no offset with this loss, "
                    "because quantiles depend on exposures in an unknown way; use "
                    "intervals='split'."
                )
            arguments = arguments.without_offset(type(self).__name__, loss, offset)
        self._fit(arguments)
        if model is not None:
            self.quantile_model_: KernelRegressor | None = model.fit(
                X,
                arguments.y,
                arguments.sample_weight,
                groups,
                X_val=X_val,
                y_val=y_val,
                sample_weight_val=sample_weight_val,
                callbacks=callbacks,
                eval_set=eval_set,
            )
        return self

    @available_if(check_batches)
    def partial_fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a batch of rows to the fit without the earlier rows; the first call is :meth:`fit`.

        The first batch selects the features; bins that only new rows fall into are added. The
        weights take one Newton step on the loss of all rows so far. It assumes that the gradient of
        the earlier rows is 0, and that their curvature is like that of the new rows. Rows should
        therefore come in random order, and thousands at a time. The result is close to the fit to
        all rows, but not the same. The errors of validation rows remain those of the first fit.

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
        arguments = FitArguments(X, y, sample_weight)
        return self._add_rows(arguments) if "weights_" in vars(self) else self._fit(arguments)

    def _encoder_of_batch(self, y: AnyArray) -> NumberEncoder:
        zeros = np.zeros(y.shape[1:])
        if zeros.shape != np.shape(self.intercept_):
            raise InputError(
                f"KernelRegressor: targets have the shape {y.shape}, unlike those of earlier calls."
            )
        return NumberEncoder(
            zeros,
            np.ones_like(zeros),
            fits_intercept=self.fit_intercept,
            lower_limit=np.minimum(self.lower_limit_, _lower_limits(y)),
        )

    def _quantile_model(self, X: TableLike) -> KernelRegressor:
        """Return the unfitted second model, or the earlier one if a warm start can continue it."""
        changed = {"loss": "quantile", "quantile": _INTERVAL_QUANTILES, "intervals": "split"}
        model = clone(self).set_params(**changed, calibrate=True, n_posterior=0)
        if self.time_budget is not None:
            model.time_budget = (1.0 - _FIRST_MODEL_TIME_SHARE) * self.time_budget
        earlier = vars(self).get("quantile_model_")
        if earlier is None or not keeps_choice(self, self._choice, X):
            return model
        params = model.get_params(deep=False).items()
        return earlier.set_params(**{k: v for k, v in params if k in FREE_TO_CHANGE})

    def _deadline(self) -> Deadline:
        deadline = super()._deadline()
        if self.intervals == "split" or deadline.seconds is None:
            return deadline
        return Deadline(_FIRST_MODEL_TIME_SHARE * deadline.seconds)

    def _losses_by_name(self) -> dict[str, Loss]:
        named = super()._losses_by_name()
        if self.loss == "quantile":
            levels = np.asarray(self.quantile, np.float64)
            if levels.ndim > 1:
                raise InputError(
                    f"quantile must be a number or a list of numbers, got {self.quantile!r}."
                )
            named["quantile"] = SmoothPinball(
                float(levels) if levels.ndim == 0 else tuple(levels.tolist())
            )
        if self.loss == "tweedie":
            named["tweedie"] = Tweedie(check_number(self, "power"))
        return named

    def _search_config(self) -> SearchConfig:
        config = super()._search_config()
        if not check_switch(self, "fit_intercept"):
            config = replace(config, tries_trend=False)
        if not check_count(self, "n_posterior", low=0, high=_MAX_DRAWS):
            return config
        if self.monotonic_cst is not None:
            raise InputError("KernelRegressor: monotonic_cst needs n_posterior=0.")
        if self._named_loss().name != "squared" or self.l1_ratio != 0:
            raise InputError(
                f"KernelRegressor: n_posterior needs loss='squared' and l1_ratio=0, because other "
                f"fits are not Gaussian processes; got loss={self.loss!r} and "
                f"l1_ratio={self.l1_ratio!r}."
            )
        # With more grids grown for the targets, a Gaussian process over them underestimates the
        # noise: it estimates 0.302 with 80 grids and 0.261 with 640 if the truth is 0.3.
        most_grids = min(config.most_grids, _MAX_GRIDS_WITH_POSTERIOR)
        return replace(
            config,
            most_grids=most_grids,
            ridge_rows=0,
            dropped_share=0.0,
            count_power=0.0,
            blends=False,
        )

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
        """Return predictions, and their standard deviations if ``return_std`` is set.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.
        return_std : bool, default=False
            Whether to return standard deviations, which needs ``n_posterior``.
        offset : array-like (n_samples,), optional
            Added to raw predictions; with a log link, means are multiplied by its exponential. The
            default is 0, also if the fit had an offset.

        Returns
        -------
        mean : array (n_samples,) or (n_samples, n_outputs)
        std : array of the same shape
            Only with ``return_std``: the standard deviation of the function, for a
            Gaussian process with the kernel of these features. It does not include the
            noise of targets, like scikit-learn's ``GaussianProcessRegressor`` without a
            ``WhiteKernel``. The standard deviation of a new target with mean weight is
            ``hypot(std, posterior_.noise)``. Grids, bandwidth and alpha are assumed to be
            known. Far from all training rows, ``std`` is that of the prior, unless inputs
            are ranks (``scaling="quantile"``, and grown grids over them), which end at the
            range of the training rows.

        Raises
        ------
        InputError
            If ``return_std`` is set but the fit had no ``n_posterior``.

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
        """Return a prediction interval for each row.

        Intervals contain the target with probability ``coverage``, on average over rows drawn like
        the training rows in proportion to their weights. Their width is estimated from the errors
        of validation rows in a fit with the same settings.

        "split" (Lei et al. 2018) uses the prediction plus or minus a multiple of the scale of
        errors. The scale is constant, or with the losses "poisson", "tweedie" and "gamma" the mean
        to the power 1/2, ``power / 2`` and 1. For counts with the loss "poisson", it uses
        equal-tailed quantiles of :meth:`predict_distribution`, which are whole numbers, at the
        level that covers the right share of validation rows. "quantiles" uses the pair of predicted
        quantiles whose coverage is nearest, and shifts both by one width (Romano, Patterson &
        Candes 2019). Bounds are at least 0 if no training target is negative.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            The probability of the intervals, between 0 and 1.
        method : {"auto", "split", "quantiles"}, default="auto"
            "auto" is "quantiles" if the fit predicts several quantiles, by
            ``intervals="quantiles"`` or ``loss="quantile"``, and otherwise "split".
        offset : array-like (n_samples,), optional
            See :meth:`predict`.

        Returns
        -------
        lower, upper : arrays (n_samples,) or (n_samples, n_outputs)
            Infinite if there were too few validation rows for this coverage.

        Raises
        ------
        InputError
            If the fit had no validation rows, or does not support the method.

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
        if model is not self:
            return model.predict_interval(X, coverage, offset=offset)
        intervals = self._intervals("predict_interval")
        return intervals.bounds(self._means(X, offset), coverage)

    def predict_quantiles(
        self,
        X: TableLike,
        quantiles: ArrayLike = (0.05, 0.5, 0.95),
        offset: ArrayLike | None = None,
    ) -> FloatArray:
        """Return quantiles of the targets of new rows, the bounds of :meth:`predict_interval`.

        A quantile q above 1/2 is the upper bound of the interval with coverage ``2 q - 1``, and a
        quantile below 1/2 the lower bound of the interval with coverage ``1 - 2 q``. The quantile
        1/2 is the predicted median if there is one, such as that of :meth:`predict_distribution`,
        and otherwise the prediction.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.
        quantiles : array-like (n_quantiles,), default=(0.05, 0.5, 0.95)
            The levels, between 0 and 1.
        offset : array-like (n_samples,), optional
            See :meth:`predict`.

        Returns
        -------
        array (n_samples, n_quantiles)
            The quantiles, which increase with the level in every row, and are at least 0 if no
            training target is negative.

        Raises
        ------
        InputError
            If the fit had no validation rows, or has several outputs.
        """
        check_is_fitted(self, "weights_")
        levels = np.atleast_1d(np.asarray(quantiles, np.float64))
        if levels.ndim != 1 or not ((levels > 0.0) & (levels < 1.0)).all():
            raise InputError(f"quantiles must lie between 0 and 1, got {quantiles!r}.")
        if self.weights_.ndim == 2 and len(quantile_levels(self.loss_)) == 1:
            raise InputError("KernelRegressor: predict_quantiles needs a fit of one output.")
        model = self._interval_model("auto")
        if model is not self:
            return model.predict_quantiles(X, quantiles, offset)
        intervals = self._intervals("predict_quantiles")
        return intervals.quantiles(self._means(X, offset), levels)

    def predict_distribution(self, X: TableLike, offset: ArrayLike | None = None) -> Any:
        """Return the distributions of the counts of new rows, for the loss "poisson".

        They are negative binomial, or Poisson if ``dispersion_`` is 0, with the predicted means and
        the dispersion of the validation rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.
        offset : array-like (n_samples,), optional
            See :meth:`predict`.

        Returns
        -------
        frozen distribution of scipy.stats
            Its methods, such as ``pmf``, ``cdf``, ``ppf``, ``mean`` and ``std``, return one number
            per row.

        Raises
        ------
        InputError
            If targets of the fit were not counts, the loss was not "poisson", or there were no
            validation rows.

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
                "KernelRegressor: predict_distribution needs a fit with loss='poisson' and "
                "calibrate=True to counts, whole numbers in one column."
            )
        return CountDistribution(self.dispersion_).scipy_distribution(self._means(X, offset))

    def score(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> float:
        """Return R2 of the predictions, or the mean ``d2_pinball_score`` of several quantiles.

        Both are the relative reduction of the loss compared with the best constant.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows with known targets.
        y : array-like (n_samples,) or (n_samples, n_outputs)
            Their targets.
        sample_weight : array-like (n_samples,), optional
            Weights of the rows; only their proportions matter.
        offset : array-like (n_samples,), optional
            See :meth:`predict`.

        Returns
        -------
        float
        """
        predicted = self.predict(X) if offset is None else self.predict(X, offset=offset)
        levels = quantile_levels(self.loss_)
        if len(levels) == 1:
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        scores = [
            d2_pinball_score(y, quantiles, sample_weight=sample_weight, alpha=level)
            for quantiles, level in zip(predicted.T, levels, strict=True)
        ]
        return float(np.mean(scores))

    def _interval_model(self, method: str) -> KernelRegressor:
        """Return the model that predicts the intervals, this one or its quantile model."""
        if method not in ("auto", "split", "quantiles"):
            raise InputError(
                f"KernelRegressor: method must be 'auto', 'split' or 'quantiles', got {method!r}."
            )
        if method == "auto":
            return self.quantile_model_ or self
        if (method == "quantiles") == (len(quantile_levels(self.loss_)) > 1):
            return self
        if method == "quantiles" and self.quantile_model_ is not None:
            return self.quantile_model_
        remedy = "intervals='quantiles'" if method == "quantiles" else "a loss of the mean"
        raise InputError(f"KernelRegressor: method={method!r} needs a fit with {remedy}.")

    def _intervals(self, method: str) -> Intervals:
        errors = self._held_back_errors(method)
        return Intervals(self.loss_, errors, self.dispersion_, self.lower_limit_)

    def _means(self, X: TableLike, offset: ArrayLike | None = None) -> FloatArray:
        """Return predicted means, or the sorted quantiles."""
        raw = self._responses(X)
        if offset is not None:
            raw = raw + checked_offset(offset, len(raw)).reshape(-1, *[1] * (raw.ndim - 1))
        means = self.loss_.inverse_link(raw)
        return np.sort(means, axis=1) if len(quantile_levels(self.loss_)) > 1 else means

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
            has_several = len(quantile_levels(model.loss_)) > 1
            fits = model.n_features_in_ == state["n_features_in_"] and has_several
            require(fits, "quantile_model_ does not fit")

    def _restore(self, fitted: dict[str, object]) -> None:
        # Files of earlier versions lack these attributes.
        fitted.setdefault("quantile_model_", None)
        fitted.setdefault("dispersion_", None)
        n_outputs = part_in(fitted, "weights_", np.ndarray)[:1].size
        fitted.setdefault("lower_limit_", np.full(n_outputs, -np.inf))
        super()._restore(fitted)

    def _needs_all_bins(self) -> bool:
        return self.n_posterior > 0

    def _learn_errors(self, selection: Selection, final: FinalFit) -> dict[str, object]:
        data, validation, encoder = selection.data, selection.errors, selection.encoder
        arguments, loss, intercept = selection.arguments, final.solved.loss, final.intercept
        assert isinstance(encoder, NumberEncoder)
        intervals = None
        if validation is not None:
            rows = selection.given.used[validation.rows]
            exposure, counts = np.ones(len(rows)), data.row_counts(validation.rows)
            if arguments.exposures is not None:
                exposure, weight = arguments.exposures[rows], arguments.weight_given
                counts = None if weight is None else weight[rows] / weight[rows].mean()
            raw, codes = validation.raw, data.targets[validation.rows]
            if isinstance(loss, SmoothPinball) and self.fit_intercept:
                correction = loss.correction(raw, codes, counts)
                intercept = intercept + correction * encoder.spread
                raw = raw + correction
            exposure = exposure if codes.ndim == 1 else exposure[:, None]
            unit = exposure * encoder.spread
            intervals = Intervals.fit(loss, raw, codes, unit, counts)
        return {
            "intercept_": intercept,
            "errors_": None if intervals is None else intervals.errors,
            "dispersion_": None if intervals is None else intervals.dispersion,
            "posterior_": self._draw_posterior(selection, encoder) if self.n_posterior else None,
            "quantile_model_": None,
        }

    def _draw_posterior(self, selection: Selection, encoder: NumberEncoder) -> Posterior:
        penalty = selection.data.penalty(selection.selected.alpha)
        problem = replace(selection.problem(), loss=Squared(), penalty=penalty)
        seed = seed_from(self.random_state)
        posterior = Posterior.sample(problem, int(self.n_posterior), seed=seed, n_jobs=self.n_jobs)
        return replace(posterior, noise=posterior.noise * encoder.spread)

    def _deviations(self, X: TableLike) -> FloatArray:
        """Return the posterior standard deviations of the function at new rows."""
        if self.posterior_ is None:
            raise InputError(
                "KernelRegressor: return_std=True needs posterior draws; fit again with "
                "n_posterior=100."
            )
        parts = [
            self.posterior_.deviations(with_ones(Z) if self.fit_intercept else Z, unseen_squares(Z))
            for Z in self._feature_blocks(X)
        ]
        return np.concatenate([np.zeros((0, *np.shape(self.posterior_.noise))), *parts])

    def _target_encoder(
        self, y: AnyArray, weight: FloatArray | None, arguments: FitArguments | None
    ) -> NumberEncoder:
        loss = self._named_loss()
        if not (isinstance(loss, SmoothPinball) and loss.levels.ndim == 1):
            encoder = NumberEncoder.fit(y, weight, loss, self.fit_intercept)
            return replace(encoder, lower_limit=_lower_limits(y))
        if y.ndim != 1:
            raise InputError(
                f"KernelRegressor: several quantiles need targets of one column, got {y.shape[1]}; "
                f"fit one model per column."
            )
        fitted = QuantileEncoder.fit(y, weight, loss, self.fit_intercept)
        return replace(fitted, n_levels=loss.levels.size, lower_limit=_lower_limits(y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _lower_limits(y: FloatArray) -> FloatArray:
    """Return the lower end of intervals of each output: 0 if no target is negative."""
    return np.where(np.atleast_2d(y.T).min(axis=1) >= 0.0, 0.0, -np.inf)
