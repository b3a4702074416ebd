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
from gramless.estimators.continued import FREE_TO_CHANGE, check_batches, keeps_choice
from gramless.estimators.given_rows import EvalSet
from gramless.estimators.parameters import check_choice, check_count, check_number, check_switch
from gramless.estimators.shared_docs import with_shared_docs
from gramless.estimators.steps import Selection
from gramless.estimators.targets import NumberEncoder, QuantileEncoder, plain_numbers
from gramless.losses import Huber, Loss, Poisson, SmoothPinball, Squared, Tweedie
from gramless.matrices.stacked import with_ones
from gramless.preprocessing.rows import checked_weights
from gramless.selection.config import SearchConfig
from gramless.uncertainty.conformal import Conformal, interval_scores
from gramless.uncertainty.counts import CountDistribution
from gramless.uncertainty.posterior import Posterior, unseen_squares

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
        robust: how far away outliers are changes nothing. Three more predict the mean through its
        logarithm, so predictions are positive: "poisson" for counts and other targets that are not
        negative, "gamma" for positive targets whose deviation grows with their mean, and "tweedie"
        for targets that are positive or 0. Parameters of a loss object are in standard deviations
        of the targets, or for robust losses in interquartile ranges divided by 1.35.
    quantile : float or array-like, default=0.5
        The quantiles of the loss "quantile", between 0 and 1; their constants are corrected on
        validation rows. Several quantiles, in rising order, are predicted in a column each, and
        sorted so that they never cross.
    power : float, default=1.5
        The power of the mean, between 1 and 2, that variances of the loss "tweedie" grow with.
    fit_intercept : bool, default=True
        Whether predictions have a constant without a penalty. If False, targets are not centred,
        the raw prediction is 0 where all features are 0, no trend is tried because a trend has a
        constant, and quantiles are not corrected on validation rows.
    intervals : {"split", "quantiles"}, default="split"
        How :meth:`predict_interval` finds its bounds. "split" learns one width on validation rows.
        "quantiles" fits a second model to the quantiles 0.05, 0.25, 0.5, 0.75 and 0.95 of the
        targets, which takes at least as much time again; intervals are narrow where targets vary
        little. Needs one output.
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
        Whether to learn on validation rows how large errors are, for :meth:`predict_interval`.
        "auto" does so if grids are grown or something else is left open.
    n_posterior : int, default=0
        The number of posterior draws to keep for ``predict(return_std=True)``, at most 100,000.
        They are of a Gaussian process with the kernel of these features; standard deviations have a
        relative error of about ``0.7 / sqrt(n_posterior)``. Needs the squared loss and
        ``l1_ratio=0``. At most 80 grids are then grown, unless ``n_grids`` is larger, because the
        noise looks too small with many grids that were chosen for the targets. A draw costs as much
        as an output solved to ``tol=1e-4``, which ``time_budget`` does not count, and 8 bytes a
        column.
    scoring : str, callable or None, default=None
        The score that selects a model on validation rows: a name of scikit-learn such as "r2" or
        "neg_mean_absolute_error", or a function ``scorer(estimator, X, y)``, greater is better.
        None selects by the loss. The score selects the penalty, the grids that are dropped, smooth
        kernels, and the scaling, bandwidth, relevance and number of random features. scikit-learn's
        own scorers also decide when growth stops, and which stage is best. The loss alone decides
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
        How large the errors of validation rows were.
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
    A fit with everything given takes, for each row, grid and core, about 2 ns to bin and 0.6 ns an
    iteration. It needs 1, 2 or 4 bytes a row and grid, and 8 bytes a column and output.

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
        """Select what is left on "auto", then fit to all rows.

        Parameters
        ----------
        %(fit_rows)s
        y : array-like (n_samples,) or (n_samples, n_outputs)
            Targets.
        %(fit_options)s
        offset : array-like (n_samples,), optional
            Added to raw predictions, as in generalised linear models: for counts, the logarithm of
            the time or area over which they were counted. A scorer sees targets without it, such as
            counts over exposures.

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

    def _needs_all_bins(self) -> bool:
        return self.n_posterior > 0

    def _learn_errors(self, selection: Selection) -> None:
        data, validation, encoder = selection.data, selection.errors, selection.encoder
        assert isinstance(encoder, NumberEncoder)
        self.errors_ = None
        self.quantile_model_ = None
        self.dispersion_: float | None = None
        if validation is not None:
            rows = selection.given.used[validation.rows]
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
        self.posterior_ = self._posterior(selection, encoder) if self.n_posterior else None

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

    def _posterior(self, selection: Selection, encoder: NumberEncoder) -> Posterior:
        """Draw the weights, with the noise in units of the targets as given."""
        penalty = selection.data.penalty(self.alpha_)
        problem = replace(selection.problem(), loss=Squared(), penalty=penalty)
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
