"""Times to events by Cox's proportional hazards, without the Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _check_y, check_is_fitted

from gramless.base.columns import is_frame, named_columns
from gramless.base.errors import InputError
from gramless.base.state import State, Stateful, array_in, part_in, require
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, TableLike
from gramless.estimators.base import KernelMachine
from gramless.estimators.final_fit import FinalFit, SolvedProblem
from gramless.estimators.shared_docs import with_shared_docs
from gramless.estimators.steps import FitArguments, Selection
from gramless.estimators.targets import (
    NumberEncoder,
    TargetEncoder,
    TargetReader,
    check_not_missing,
)
from gramless.losses import Loss, Poisson
from gramless.solvers.objective import Problem

# Baseline and weights are fitted alternately, at most this often, and to this share of the
# tolerance.
_MAX_UPDATES, _TOLERANCE_SHARE = 30, 0.2
# Minimum exposure, as a fraction of the final cumulative hazard. Rows that are censored before the
# first event have no exposure, but weights must be positive.
_MIN_EXPOSURE = 2.0**-40

_TARGET_TYPE = np.dtype([("event", "?"), ("time", "<f8")])


def event_times(y: object, owner: str) -> AnyArray:
    """Return targets as a structured array of ``event`` and ``time``.

    ``y`` is a structured array with two fields as in scikit-survival, a data frame with two such
    columns, or an array of times if all events were observed. Durations are converted to seconds.
    Raise InputError unless all times are finite and not negative, and some event was observed.

    Examples
    --------
    >>> event_times([3.0, 5.0], "KernelSurvival")["event"]
    array([ True,  True])
    """
    columns = _columns(y, owner)
    if columns is None:
        if y is None:
            raise InputError(f"{owner} requires y to be passed, but the target y is None.")
        shape = np.asarray(y).shape
        if len(shape) > 1 and shape[1:] != (1,):
            raise InputError(
                f"{owner}: y has the shape {shape}; give an array of times, or a data frame or "
                f"structured array of two columns: whether the event was observed (bool) and the "
                f"time."
            )
        times = np.asarray(_check_y(y, y_numeric=True, estimator=owner), np.float64)
        columns = [np.ones(len(times), bool), times]
    flags = [k for k, column in enumerate(columns) if column.dtype.kind == "b"]
    if len(columns) != 2 or len(flags) != 1 or columns[1 - flags[0]].dtype.kind not in "iuf":
        raise InputError(
            f"{owner}: y must have two fields or columns, whether the event was observed (bool) "
            f"and the time (a number); got types {[str(column.dtype) for column in columns]}. "
            f"Convert the first to bool, for example by y['event'] == 1."
        )
    targets = np.empty(len(columns[0]), _TARGET_TYPE)
    targets["event"], targets["time"] = columns[flags[0]], columns[1 - flags[0]]
    if not np.isfinite(targets["time"]).all():
        raise InputError(f"{owner}: y has times that are NaN or infinite.")
    if (targets["time"] < 0).any():
        # Row numbers would mislead, because rows of weight 0 are left out.
        raise InputError(
            f"{owner}: y has {np.count_nonzero(targets['time'] < 0):,} negative times, the lowest "
            f"{targets['time'].min():g}; count times from the start of the observation."
        )
    if not targets["event"].any():
        raise InputError(
            f"{owner}: y has no event in a row with a weight above 0, so nothing can be learned."
        )
    return targets


def _columns(y: Any, owner: str) -> list[AnyArray] | None:
    """Return the fields of a structured array or the columns of a data frame, or None."""
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names is not None:
        return [np.asarray(y[name]) for name in names]
    if not is_frame(y):
        return None
    columns = []
    for name, read in named_columns(y).items():
        column = read()
        if column.type in ("datetime", "zoned"):
            raise InputError(
                f"{owner}: column {name!r} of y holds datetimes; give the time since the start of "
                f"the observation."
            )
        values = column.values
        if column.type == "boolean":
            check_not_missing(values, owner, f"value of {name!r} in y")
            # Values can be objects, which depend on the library of the frame; labels do not.
            values = np.array([label == "True" for label in column.category_labels()])
        columns.append(values)
    return columns


@dataclass(frozen=True, repr=False)
class BaselineHazard(Stateful):
    """The cumulative hazard of rows with log risk 0, a step function of time.

    Attributes
    ----------
    times : array (n_times,)
        Distinct times of events, in increasing order.
    cumulative : array (n_times,)
        The cumulative hazard from each time until the next one. It is 0 before the first time.
    """

    times: FloatArray
    cumulative: FloatArray

    def check(self) -> None:
        """Check that the parts of a hazard from a file fit each other."""
        times = array_in(vars(self), "times", np.float64, (None,), finite=True)
        steps = array_in(vars(self), "cumulative", np.float64, times.shape)
        increases = times.size > 0 and (np.diff(times) > 0).all() and (np.diff(steps) >= 0).all()
        require(bool(increases and steps[0] >= 0.0), "a hazard does not rise")

    @classmethod
    def breslow(cls, y: AnyArray, log_risks: FloatArray, weight: FloatArray | None) -> Self:
        """Return Breslow's estimate for rows with these log risks.

        Each event adds its weight divided by the weighted sum of the risks of all rows that are
        still under observation.

        Examples
        --------
        >>> y = event_times([1.0, 2.0], "KernelSurvival")
        >>> BaselineHazard.breslow(y, np.zeros(2), None).cumulative
        array([0.5, 1.5])
        """
        times, event = y["time"], y["event"]
        w = np.ones(len(y)) if weight is None else weight
        distinct, index = np.unique(times[event], return_inverse=True)
        order = np.argsort(times, kind="stable")
        # Risks are relative to the largest, so that they cannot overflow.
        largest = float(log_risks.max())
        risks = w[order] * np.exp(log_risks[order] - largest)
        at_risk = np.cumsum(risks[::-1])[::-1]
        first = np.searchsorted(times[order], distinct)
        steps = np.bincount(index, w[event], len(distinct)) / at_risk[first]
        with np.errstate(over="ignore"):
            return cls(distinct, np.cumsum(steps) * np.exp(-largest))

    def at(self, times: FloatArray) -> FloatArray:
        """Return the cumulative hazard at some times."""
        steps = np.append(0.0, self.cumulative)
        return steps[np.searchsorted(self.times, times, side="right")]


@dataclass(frozen=True)
class SurvivalEncoder(TargetEncoder):
    """The encoding of events as 1 over the cumulative hazard of their times, or 0 if censored."""

    hazard: BaselineHazard

    fits_intercept = True
    n_outputs = 1

    def encode(self, y: ArrayLike) -> FloatArray:
        """Return 1 over the cumulative hazard for events, and 0 for censored rows."""
        y = np.asarray(y)
        return np.where(y["event"], 1.0 / self.expected(y), 0.0)

    def expected(self, y: AnyArray) -> FloatArray:
        """Return the cumulative hazard at each row's time, raised to a positive minimum."""
        return np.maximum(self.hazard.at(y["time"]), _MIN_EXPOSURE * self.hazard.cumulative[-1])

    def weigh(self, y: AnyArray, weight: FloatArray | None) -> FloatArray:
        """Return the weights multiplied by the cumulative hazards, the exposures."""
        return self.expected(y) if weight is None else weight * self.expected(y)

    def unweigh(self, y: AnyArray, weight: FloatArray | None) -> FloatArray:
        """Return the weights divided by the cumulative hazards."""
        assert weight is not None
        return weight / self.expected(y)

    def decode(self, raw: FloatArray) -> FloatArray:
        """Return logarithms of risks."""
        return raw

    def decode_weights(self, weights: FloatArray) -> tuple[FloatArray, FloatArray | float]:
        """Return coefficients and intercept."""
        return weights[:-1], float(weights[-1])

    def encode_weights(self, coef: FloatArray, intercept: FloatArray | float) -> FloatArray:
        """Return coefficients and intercept in one array."""
        return np.append(coef, intercept)

    def class_numbers(self, y: ArrayLike) -> IntArray:
        """Return whether each row has an event, by which splits are stratified."""
        return np.asarray(y)["event"].astype(np.intp)

    score = staticmethod(NumberEncoder.score)


def _checked_times(y: AnyArray, owner: str) -> AnyArray:
    # A TargetReader needs a function here, but event_times has done all checks.
    return y


@with_shared_docs(least_rows="10 rows", stratified="")
@dataclass(eq=False, repr=False, kw_only=True)
class KernelSurvival(KernelMachine):
    """Cox's proportional hazards on random or grown features, without settings to tune.

    The hazard of a row at a time is ``exp(f(x))`` times a baseline that all rows share. The
    logarithm of Cox's partial likelihood, with Breslow's method for ties, minus ``n alpha/2 |w|^2``
    is maximised over ``f(x) = w'z(x)``. For a known baseline this is Poisson regression of the
    events, with the cumulative hazard at each row's time as its exposure. Grids are grown, and
    everything that is left on ``"auto"`` is selected, for the baseline of equal risks. Baseline and
    weights are then fitted alternately, at most 30 times, until they maximise the partial
    likelihood.

    Parameters
    ----------
    loss : {"cox"}, default="cox"
        Cox's partial likelihood.
    %(features)s
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
        Has no effect, because survival models are not calibrated.
    scoring : callable or None, default=None
        A function ``scorer(estimator, X, y)`` that selects a model on validation rows, greater is
        better. None selects by the loss.
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

    Notes
    -----
    Targets are a structured array or data frame with two fields: whether the event was observed
    (bool), and the time of the event or of censoring. An array of times means that all events were
    observed. Times must not be negative; 0 is allowed, as in scikit-survival and R's ``coxph``.

    Attributes
    ----------
    baseline_ : BaselineHazard
        Breslow's estimate of the cumulative hazard of a row with log risk 0.
    event_times_ : array (n_times,)
        Distinct times of events in the training rows.
    n_updates_ : int
        The number of updates of the baseline.
    weights_, intercept_, features_, alpha_, growth_ and so on
        See :class:`KernelRegressor`; the mean log risk of the training rows is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless import KernelSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(1000, 3))
    >>> times, ends = rng.exponential(np.exp(-2 * X[:, 0])), rng.exponential(2.0, 1000)
    >>> y = np.empty(1000, [("event", bool), ("time", float)])
    >>> y["event"], y["time"] = times <= ends, np.minimum(times, ends)
    >>> model = KernelSurvival(random_state=0).fit(X[:800], y[:800])
    >>> bool(model.score(X[800:], y[800:]) > 0.7)
    True
    >>> model.predict_survival_function(X[:2], [0.5, 1.0]).shape
    (2, 2)
    """

    _target_kinds = ()
    _reader = TargetReader(event_times, _checked_times, {"multi_output": False})
    _losses: ClassVar[dict[str, Loss]] = {"cox": Poisson()}

    loss: str | Loss = "cox"

    def predict(self, X: TableLike) -> FloatArray:
        """Return the log risk of each row, the logarithm of its hazard relative to the baseline.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples,)
        """
        return self._responses(X)

    def predict_cumulative_hazard(self, X: TableLike, times: ArrayLike | None = None) -> FloatArray:
        """Return the cumulative hazard of each row at the given times.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.
        times : array-like (n_times,), optional
            The times, by default those of the events in the training rows. The cumulative hazard
            is constant after the last event.

        Returns
        -------
        array (n_samples, n_times)
        """
        risks = np.exp(self.predict(X))
        at = self.event_times_ if times is None else np.asarray(times, np.float64)
        return np.multiply.outer(risks, self.baseline_.at(at))

    def predict_survival_function(self, X: TableLike, times: ArrayLike | None = None) -> FloatArray:
        """Return the probability that each row has no event up to the given times.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.
        times : array-like (n_times,), optional
            The times, by default those of the events in the training rows.

        Returns
        -------
        array (n_samples, n_times)
            The probabilities, which decrease with time.
        """
        return np.exp(-self.predict_cumulative_hazard(X, times))

    def score(self, X: TableLike, y: ArrayLike) -> float:
        """Return the concordance index of the predictions.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows with known targets.
        y : structured array or data frame (n_samples,), or array-like of times
            Events and times of these rows, as in :meth:`fit`.

        Returns
        -------
        float
            1 if all comparable pairs are in the right order, 1/2 on average for random risks.
        """
        y = event_times(y, type(self).__name__)
        return concordance_index(y["event"], y["time"], self.predict(X))

    @property
    def event_times_(self) -> FloatArray:
        """Distinct times of events in the training rows."""
        check_is_fitted(self, "weights_")
        return self.baseline_.times

    def _refine(
        self, problem: Problem, solved: SolvedProblem, selection: Selection
    ) -> SolvedProblem:
        """Fit baseline and weights alternately until the log risks converge."""
        first = selection.encoder
        assert isinstance(first, SurvivalEncoder)
        y = selection.given.targets[selection.given.used][selection.data.fitted]
        y = y[selection.selected.order]
        weight = first.unweigh(y, problem.sample_weight)
        raw, n_events = problem.matrix.matvec(solved.solution.weights), weight[y["event"]].sum()
        n_updates = 0
        for _ in range(_MAX_UPDATES):
            # Subtracting the mean multiplies all hazards by a constant, which the scale cancels.
            encoder = SurvivalEncoder(BaselineHazard.breslow(y, raw - raw.mean(), weight))
            exposure = weight * encoder.expected(y)
            # The scale keeps the penalty constant relative to the loss of an event.
            scale = n_events / exposure.sum()
            targets = encoder.encode(y) / scale
            problem = replace(problem, targets=targets, sample_weight=scale * exposure)
            start = solved.solution.weights
            solved = self._solve_problem(problem, start, _TOLERANCE_SHARE, selection)
            before, raw = raw, problem.matrix.matvec(solved.solution.weights)
            n_updates += 1
            tolerance = _TOLERANCE_SHARE * float(self.tol) * np.std(raw)
            if np.std(raw - before) <= tolerance or solved.solution.status == "stopped":
                break
        centre, weights = np.average(raw, weights=weight), solved.solution.weights.copy()
        weights[-1] -= centre
        baseline = BaselineHazard.breslow(y, raw - centre, weight)
        return replace(
            solved,
            solution=replace(solved.solution, weights=weights),
            attributes={"baseline_": baseline, "n_updates_": n_updates},
        )

    def _target_encoder(
        self, y: AnyArray, weight: FloatArray | None, arguments: FitArguments | None
    ) -> SurvivalEncoder:
        # event_times has checked this before negligible weights were set to 0.
        if not y["event"].any():
            raise InputError("KernelSurvival: no row with an event has a weight above 0.")
        return SurvivalEncoder(BaselineHazard.breslow(y, np.zeros(len(y)), weight))

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        super().check_state(state)
        require(part_in(state, "weights_", np.ndarray).ndim == 1, "weights_ has several outputs")
        require(state["errors_"] is None, "errors_ does not belong to a survival model")
        part_in(state, "baseline_", BaselineHazard)

    def _learn_errors(self, selection: Selection, final: FinalFit) -> dict[str, object]:
        return {"errors_": None}


def concordance_index(event: BoolArray, time: ArrayLike, risk: ArrayLike) -> float:
    """Return the share of comparable pairs in which the earlier event has the higher risk.

    This is Harrell's C, as in scikit-survival's ``concordance_index_censored``. A pair is
    comparable if one row has an event before the time of the other row, which may be its time of
    censoring, or at the same time as the other row is censored. Equal risks count half. It takes
    about 0.1 s for 100,000 rows.

    Parameters
    ----------
    event : array (n,) of bool
        Whether the event was observed.
    time, risk : arrays (n,)
        The time of the event or of censoring of each row, and its predicted risk.

    Raises
    ------
    InputError
        If no pair is comparable.

    Examples
    --------
    >>> concordance_index(np.array([True, True, False]), [1.0, 2.0, 3.0], [3.0, 1.0, 2.0])
    0.6666666666666666
    """
    from gramless.loops.concordance import count_pairs

    event, time = np.asarray(event, bool), np.asarray(time, np.float64)
    # From the latest time to the first. Among equal times, censored rows come before events,
    # because they are comparable with them.
    order = np.lexsort([event, -time])
    event, time = event[order], time[order]
    values, ranks = np.unique(np.asarray(risk, np.float64)[order], return_inverse=True)
    events = np.flatnonzero(event)
    # Simultaneous events are not comparable: each is compared with the rows before the first one.
    _, first, group = np.unique(time[event], return_index=True, return_inverse=True)
    counts = np.zeros(3, np.int64)  # comparable, concordant and tied pairs
    tree = np.zeros(len(values) + 1, np.int64)
    count_pairs(ranks.reshape(-1) + 1, events, events[first][group.reshape(-1)], tree, counts)
    n_comparable, n_concordant, n_tied = counts
    if n_comparable == 0:
        raise InputError("concordance_index: no event comes before the time of another row.")
    return float((n_concordant + 0.5 * n_tied) / n_comparable)
