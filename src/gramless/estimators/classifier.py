"""Kernel classification without the Gram matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_expit
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags

from gramless.base.errors import InputError
from gramless.base.notation import describe_resemblance, notation_of
from gramless.base.state import LARGEST, State, part_in, require
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, TableLike
from gramless.estimators.available import available_if
from gramless.estimators.base import KernelMachine
from gramless.estimators.continued import check_batches
from gramless.estimators.final_fit import FinalFit, SolvedProblem
from gramless.estimators.parameters import is_auto
from gramless.estimators.shared_docs import with_shared_docs
from gramless.estimators.steps import FitArguments, Selection
from gramless.estimators.targets import (
    LABELS,
    PROBABILISTIC,
    ClassEncoder,
    LabelsEncoder,
    OrderedEncoder,
    TargetEncoder,
    class_weights,
    log_probabilities,
    most_likely,
    ordered_classes,
    plain_labels,
)
from gramless.features.base import SizedMap
from gramless.losses import CumulativeLogistic, Logistic, Loss, Multinomial, Squared, SquaredHinge
from gramless.selection.candidates.random_features import MIN_ROWS_TO_SEARCH
from gramless.selection.task import FixedChoices, HeldBackRows, SelectionTask
from gramless.solvers.objective import Problem
from gramless.uncertainty.calibration import Calibration
from gramless.uncertainty.conformal import Conformal, prediction_sets, set_scores

# Fewer classes may have one row each, or look like numbers.
_MAX_UNREPEATED_CLASSES, _MAX_NUMERIC_CLASSES = 200, 100
# Thresholds and weights of ordered classes are fitted alternately, at most this often, and to this
# share of the tolerance.
_MAX_ALTERNATIONS, _TOLERANCE_SHARE = 10, 0.2
_MIN_PROBABILITY = 1e-300
# With more classes, the multinomial loss takes too long for a default.
_MAX_MULTINOMIAL_CLASSES = 30
# Without validation rows, a response of 1 is calibrated to a probability of 95 %.
_DEFAULT_SLOPE, _DEFAULT_FLOOR = np.array([3.0]), 1e-3


def _check_repeated(classes: AnyArray, n_rows: int, owner: str) -> None:
    """Raise InputError if hundreds of classes look like numbers, or hardly repeat."""
    # A fit to 2,000 rows of 1,551 classes would take a minute and 9 GB, and learn nothing.
    if len(classes) > _MAX_NUMERIC_CLASSES and classes.dtype.kind in "OU":
        cells = [str(label) for label in classes]
        looks_numeric = notation_of(cells) is not None or describe_resemblance(cells)
        if looks_numeric and not all(cell.isdigit() for cell in cells):
            raise InputError(
                f"{owner}: {len(classes):,} classes that look like numbers or dates, such as "
                f"{cells[0]!r}; convert the targets to numbers (a decimal comma to a point) and "
                f"use KernelRegressor, or give the classes names."
            )
    if len(classes) <= _MAX_UNREPEATED_CLASSES or 2 * len(classes) <= n_rows:
        return
    raise InputError(
        f"{owner}: {len(classes):,} classes of {n_rows:,} rows: most have one row, from which "
        f"nothing can be learned. If targets such as {str(classes[0])!r} are numbers, convert them "
        f"(a decimal comma to a point) and use KernelRegressor; otherwise merge classes."
    )


def check_probabilities(model: KernelClassifier) -> None:
    """Raise ``AttributeError`` with the reason unless the model has or will have probabilities."""
    if hasattr(model, "weights_"):
        has_probabilities = model.calibration_ is not None or model.loss_.name in PROBABILISTIC
    else:
        loss = model.loss.name if isinstance(model.loss, Loss) else model.loss
        has_probabilities = model.calibrate is not False or loss in (*PROBABILISTIC, "log_loss")
    if has_probabilities:
        return
    raise AttributeError(
        f"KernelClassifier: predict_proba needs calibrate=True or loss='logistic'; this model has "
        f"calibrate={model.calibrate!r} and loss={model.loss!r}."
    )


@with_shared_docs(least_rows="60 rows, 5 rows per class", stratified=", stratified by class")
@dataclass(eq=False, repr=False, kw_only=True)
class KernelClassifier(ClassifierMixin, KernelMachine):
    """Kernel classification on random features, without settings to tune.

    By default, the logistic or multinomial loss is minimised over grids that are grown for it. With
    random features the default is one-vs-rest least squares (RB16, equation 1, with targets -1 and
    1). All classes share one feature matrix and are solved together. Everything that is left on
    ``"auto"`` is selected on validation rows.

    Parameters
    ----------
    %(features)s
    loss : str or Loss, default="auto"
        "squared", "squared_hinge", "logistic" or "cumulative". "logistic", or "log_loss", is the
        multinomial loss for more than two classes; the squared losses are one-vs-rest.
        "cumulative" is for ordered classes: one raw prediction with thresholds between the classes
        (proportional odds). "auto" is "cumulative" for an ordered column of pandas, "logistic" if
        grids are grown and there are at most 30 classes, and otherwise "squared".
    class_weight : None, "balanced" or dict, default=None
        Weights of the classes, as in scikit-learn; they multiply ``sample_weight``.
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
        Whether to calibrate probabilities and :meth:`predict_set` on validation rows. "auto" does
        so unless everything else is given and the loss is logistic, which gives probabilities
        without calibration.
    scoring : str, callable or None, default=None
        The score that selects a model on validation rows: a name of scikit-learn such as
        "neg_log_loss", "roc_auc" or "average_precision", or a function ``scorer(estimator, X, y)``,
        greater is better. None selects by the loss. The score selects the penalty, the grids that
        are dropped, smooth kernels, and the scaling, bandwidth, relevance and number of random
        features. Scorers of probabilities or decision values also decide when growth stops, and
        which stage is best; scorers of predicted classes, such as "accuracy" and "f1", are not
        gradual enough for that. Only the loss decides which grids are grown, and whether kernel
        ridge regression replaces them.
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
    classes_ : array (n_classes,)
        The sorted classes, or ordered categories in their order; with several labels per row,
        their indices.
    multilabel_ : bool
        Whether targets had several labels per row: one column of 0 and 1 for each label.
    %(features_)s
    weights_, intercept_ : arrays (D,) or (D, n_classes); 0.0 or zeros (n_classes,)
        The weights of the features; two classes have one output. There is no constant, so the raw
        response of a row in unknown bins only is 0.
    %(settings_)s
    %(search_)s
    %(sparsity_)s
    %(relevance_)s
    %(growth_)s
    %(evals_result_)s
    %(scorer_)s
    %(limits_)s
    calibration_, errors_ : Calibration and Conformal, or None
        The map from raw predictions to probabilities, and the scores of the errors of validation
        rows.
    %(scaler_)s

    Notes
    -----
    If all settings are given, a fit takes about 2 ns per row, grid and core for binning, and 0.6 ns
    for each iteration and output. It needs 1, 2 or 4 bytes per row and grid, and 8 bytes per column
    and output.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gramless import KernelClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(KernelClassifier(random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _target_kinds = ("labels",)
    _reader = LABELS
    _losses: ClassVar[dict[str, Loss]] = {
        "auto": Squared(),
        "squared": Squared(),
        "squared_hinge": SquaredHinge(),
        "logistic": Logistic(),
        "log_loss": Logistic(),
        "cumulative": CumulativeLogistic(),
    }

    loss: str | Loss = "auto"
    class_weight: Mapping[Any, float] | str | None = None

    @available_if(check_batches)
    def partial_fit(
        self,
        X: TableLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add a batch of rows to the fit; see :meth:`KernelRegressor.partial_fit`.

        Probabilities use the calibration of the first fit.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Further training rows.
        y : array-like (n_samples,)
            Their targets.
        classes : array-like (n_classes,), optional
            All classes, in the first call, if some occur only in later batches. The first batch
            selects the features and should have many rows.
        sample_weight : array-like (n_samples,), optional
            Weights of the rows; only their proportions matter.

        Returns
        -------
        The estimator itself.
        """
        goes_on = "weights_" in vars(self)
        known = self.classes_ if goes_on else classes
        if known is not None:
            known = np.unique(np.asarray(plain_labels(known, type(self).__name__)))
        arguments = FitArguments(X, y, sample_weight, classes=known)
        return self._add_rows(arguments) if goes_on else self._fit(arguments)

    def score(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of :meth:`predict`.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.
        y : array-like (n_samples,) or (n_samples, n_labels)
            Their true labels.
        sample_weight : array-like (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        float
        """
        # scikit-learn would convert nullable integers to floats.
        return float(super().score(X, plain_labels(y, type(self).__name__), sample_weight))

    def __call__(self, X: TableLike) -> FloatArray:
        """Return the raw responses, as ``shap.Explainer(model, X)`` calls the model."""
        return self.decision_function(X)

    def decision_function(self, X: TableLike) -> FloatArray:
        """Return the raw responses.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples,) or (n_samples, n_classes) or (n_samples, n_labels)
            Two classes have one response, which is positive for ``classes_[1]``. Ordered classes
            have one response, which increases with the class. Otherwise there is one response per
            class, or per label, where a label is predicted if its response is positive.
        """
        return self._responses(X)

    def predict(self, X: TableLike) -> AnyArray:
        """Return the most likely class of each row, or 0 and 1 for each of several labels.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples,), or (n_samples, n_labels)
        """
        responses = self.decision_function(X)
        if self.multilabel_:
            return LabelsEncoder(self.weights_.shape[1]).decode(responses)
        if isinstance(self.loss_, CumulativeLogistic):
            return self.classes_[self.loss_.probabilities(responses).argmax(axis=1)]
        return ClassEncoder(self.classes_).decode(responses)

    @available_if(check_probabilities)
    def predict_proba(self, X: TableLike) -> FloatArray:
        """Return the probability of each class, or of each of several labels.

        Probabilities are calibrated on validation rows (see ``calibrate``). Without calibration,
        and always for ordered classes and several labels, they are those of the logistic loss.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples, n_classes) or (n_samples, n_labels)
        """
        return np.exp(self.predict_log_proba(X))

    @available_if(check_probabilities)
    def predict_log_proba(self, X: TableLike) -> FloatArray:
        """Return the logarithms of :meth:`predict_proba`, which are exact for tiny probabilities.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples, n_classes)
        """
        responses = self.decision_function(X)
        return _log_probabilities(responses, self.loss_, self.calibration_, self.multilabel_)

    def predict_set(self, X: TableLike, coverage: float = 0.9) -> BoolArray:
        """Return a set of classes for each row.

        Sets contain the true class with probability ``coverage``, on average over rows drawn like
        the training rows in proportion to their weights. A set holds all classes whose probability
        exceeds a threshold, which the true classes of that share of validation rows reach in a fit
        with the same settings (split conformal; Sadinle, Lei & Wasserman 2019).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            The probability of the sets, between 0 and 1.

        Returns
        -------
        array (n_samples, n_classes) of bool
            Whether the set of a row contains a class. A set is empty if no class reaches the
            threshold.

        Raises
        ------
        InputError
            If the fit had no validation rows, or targets had several labels.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> chosen = KernelClassifier(random_state=0).fit(X, y).predict_set(X, coverage=0.95)
        >>> chosen.shape, bool(chosen[range(150), y].mean() > 0.9)
        ((150, 3), True)
        """
        if self.multilabel_:
            raise InputError(
                "KernelClassifier: predict_set needs one class per row, not several labels."
            )
        threshold = self._held_back_errors("predict_set").quantile(coverage)
        return prediction_sets(self.predict_log_proba(X), float(threshold))

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        super().check_state(state)
        coef = part_in(state, "weights_", np.ndarray)
        n_outputs = 1 if coef.ndim == 1 else coef.shape[1]
        classes = part_in(state, "classes_", np.ndarray)
        is_multilabel, loss = state.get("multilabel_"), state["loss_"]
        require(isinstance(is_multilabel, bool), "multilabel_ is not a bool")
        n_classes = max(2, n_outputs)
        if isinstance(loss, CumulativeLogistic):
            thresholds = np.asarray(loss.thresholds)
            fits = thresholds.ndim == 1 and thresholds.dtype.kind == "f"
            fits = fits and bool((np.abs(thresholds) <= LARGEST).all())
            require(fits and bool((np.diff(thresholds) > 0).all()), "thresholds are out of order")
            n_classes = len(thresholds) + 1
        n_classes = n_outputs if is_multilabel else n_classes
        require(classes.shape == (n_classes,), "classes_ does not fit weights_")
        if state["errors_"] is not None:
            errors = part_in(state, "errors_", Conformal)
            require(errors.scores.ndim == 1, "errors_ are not those of classes")
        if state["calibration_"] is not None:
            calibration = part_in(state, "calibration_", Calibration)
            require(calibration.n_responses == n_outputs, "calibration_ does not fit weights_")

    def _restore(self, fitted: dict[str, object]) -> None:
        # Files of earlier versions have one class per row.
        fitted.setdefault("multilabel_", False)
        super()._restore(fitted)

    def _learns_errors(self, task: SelectionTask, loss: Loss) -> bool:
        has_rows = task.n_rows >= MIN_ROWS_TO_SEARCH
        needs = is_auto(self.calibrate) and has_rows and loss.name not in PROBABILISTIC
        return super()._learns_errors(task, loss) or needs

    def _learn_errors(self, selection: Selection, final: FinalFit) -> dict[str, object]:
        data, validation, loss = selection.data, selection.errors, final.solved.loss
        attributes: dict[str, object] = {"errors_": None, "calibration_": None}
        if isinstance(selection.encoder, LabelsEncoder):
            return attributes
        if validation is None:
            has_few_rows = is_auto(self.calibrate) and data.rows.shape[0] < MIN_ROWS_TO_SEARCH
            if has_few_rows and loss.name not in PROBABILISTIC:
                knots = np.array([-1.0, 1.0])
                attributes["calibration_"] = Calibration(
                    knots, _DEFAULT_SLOPE, data.n_outputs, _DEFAULT_FLOOR
                )
            return attributes
        targets, weight = data.targets[validation.rows], data.row_counts(validation.rows)
        calibration = None
        if isinstance(loss, CumulativeLogistic):
            classes = targets.astype(np.intp)
        else:
            classes = most_likely(targets)
            calibration = Calibration.fit(validation.raw, targets, weight)
        log_p = _log_probabilities(validation.raw, loss, calibration, is_multilabel=False)
        errors = Conformal.fit(set_scores(log_p, classes), weight)
        return {"errors_": errors, "calibration_": calibration}

    def _loss_of(self, encoder: TargetEncoder, grows: bool) -> Loss:
        loss, n_outputs = self._named_loss(), encoder.n_outputs
        if isinstance(encoder, OrderedEncoder):
            return encoder.loss
        is_multilabel = isinstance(encoder, LabelsEncoder)
        has_few_classes = n_outputs <= _MAX_MULTINOMIAL_CLASSES
        if is_auto(self.loss):
            is_logistic = (grows or is_multilabel) and has_few_classes and self.solver == "auto"
            loss = Logistic() if is_logistic else Squared()
        is_coupled = n_outputs > 1 and not is_multilabel
        return Multinomial() if is_coupled and loss.name == "logistic" else loss

    def _grows_grids(
        self,
        held_back: HeldBackRows,
        feature_map: SizedMap,
        fixed: FixedChoices,
        monotone: IntArray | None,
    ) -> bool:
        grows = super()._grows_grids(held_back, feature_map, fixed, monotone)
        # Grids are grown for the targets, and a single class does not depend on the inputs.
        classes = held_back.classes
        is_one_class = classes is not None and bool((classes == classes[0]).all())
        return grows and not (is_one_class and self.grids == "auto")

    def _refine(
        self, problem: Problem, solved: SolvedProblem, selection: Selection
    ) -> SolvedProblem:
        """Fit the thresholds of ordered classes and the weights alternately."""
        for _ in range(_MAX_ALTERNATIONS):
            weights = solved.solution.weights
            raw = problem.matrix.matvec(weights)
            loss = problem.loss.adapted(raw, problem.targets, problem.row_weights)
            if loss == problem.loss or not isinstance(loss, CumulativeLogistic):
                break
            problem = replace(problem, loss=loss)
            solved = self._solve_problem(problem, weights, _TOLERANCE_SHARE, selection)
        return solved

    def _weigh(
        self, y: AnyArray, weight: FloatArray | None, arguments: FitArguments
    ) -> FloatArray | None:
        if self.class_weight is None:
            return weight
        factors = class_weights(self.class_weight, y, weight, arguments.classes)
        if not (np.isfinite(factors).all() and (factors > 0).all()):
            raise InputError(
                "KernelClassifier: class_weight must hold positive numbers; a class that is left "
                "out has the weight 1."
            )
        return factors / factors.max() if weight is None else weight * factors / factors.max()

    def _target_encoder(
        self, y: AnyArray, weight: FloatArray | None, arguments: FitArguments | None
    ) -> TargetEncoder:
        assert arguments is not None
        owner = type(self).__name__
        if y.ndim == 2:
            self._check_no_scoring("several labels")
            return LabelsEncoder(y.shape[1])
        encoder = ClassEncoder.fit(y if arguments.classes is None else arguments.classes, owner)
        _check_repeated(encoder.classes, len(y), owner)
        order = ordered_classes(arguments.y) if is_auto(self.loss) else None
        if order is None and self.loss != "cumulative":
            return encoder
        self._check_no_scoring("ordered classes")
        classes = encoder.classes if order is None else order
        return OrderedEncoder.of_order(classes[np.isin(classes, encoder.classes)], y, weight)

    def _target_encoder_again(self, y: AnyArray, weight: FloatArray | None) -> TargetEncoder:
        if self.multilabel_ != (y.ndim == 2):
            raise InputError(
                "KernelClassifier: either this fit or the previous one has several labels per row, "
                "but not both; set warm_start=False."
            )
        if self.multilabel_:
            return LabelsEncoder(y.shape[1])
        is_unknown = ~np.isin(y, self.classes_)
        if is_unknown.any():
            raise InputError(
                f"KernelClassifier: the label {y[is_unknown].tolist()[0]!r} is none of the classes "
                f"of the previous fit; fit a new model to rows of all classes."
            )
        if isinstance(self.loss_, CumulativeLogistic):
            return OrderedEncoder(self.classes_, self.loss_)
        return ClassEncoder(self.classes_)

    def _check_no_scoring(self, what: str) -> None:
        if self.scoring is not None:
            raise InputError(
                f"KernelClassifier: models of {what} are selected by the loss; use scoring=None."
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _log_probabilities(
    responses: FloatArray, loss: Loss, calibration: Calibration | None, is_multilabel: bool
) -> FloatArray:
    if calibration is not None:
        return calibration.log_probabilities(responses)
    if is_multilabel:
        return np.asarray(log_expit(responses))
    if isinstance(loss, CumulativeLogistic):
        return np.log(np.maximum(loss.probabilities(responses), _MIN_PROBABILITY))
    return log_probabilities(responses)
