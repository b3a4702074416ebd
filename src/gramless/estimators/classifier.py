"""Kernel classification without the Gram matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import log_expit
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from gramless.base.errors import InputError
from gramless.base.notation import notation_of, seems_to_hold
from gramless.base.state import LARGEST, State, part_in, require
from gramless.base.types import AnyArray, BoolArray, FloatArray, TableLike
from gramless.estimators.available import available_if
from gramless.estimators.base import KernelMachine
from gramless.estimators.chosen import Chosen
from gramless.estimators.continued import check_batches
from gramless.estimators.parameters import is_auto
from gramless.estimators.targets import (
    PROBABILISTIC,
    ClassEncoder,
    LabelsEncoder,
    OrderedEncoder,
    TargetEncoder,
    log_probabilities,
    most_likely,
    ordered_classes,
    plain_labels,
    weights_of_classes,
)
from gramless.losses import CumulativeLogistic, Logistic, Loss, Multinomial, Squared, SquaredHinge
from gramless.model_selection.alpha import Goal
from gramless.model_selection.calibration import Calibration
from gramless.model_selection.conformal import Conformal, set_scores, sets
from gramless.model_selection.random_features import ENOUGH_TO_SEARCH
from gramless.model_selection.search import Search
from gramless.solvers.objective import Problem, Solution

_MANY_CLASSES, _MANY_NUMBERS = 200, 100
"""As few may have one row each; as few classes may look like measurements."""
_MOST_TURNS, _TIGHTEN = 10, 0.2
"""How often thresholds and weights take turns at most; how exactly, as a share of the tolerance."""
_LEAST_PROBABILITY = 1e-300
_MOST_MULTINOMIAL = 30
"""Classes; of more the multinomial loss takes too long to be the default."""
_UNTRIED_SLOPE, _UNTRIED_FLOOR = np.array([3.0]), 1e-3
"""With too few rows to hold some back, a response of 1 counts as 95 %."""


def _check_repeated(classes: AnyArray, n_rows: int, owner: str) -> None:
    """Refuse hundreds of classes that are rather numbers, or names that hardly repeat.

    Of 2,000 rows of 1,551 classes a fit would take a minute and 9 GB, and learn nothing.
    """
    if len(classes) > _MANY_NUMBERS and classes.dtype.kind in "OU":
        cells = [str(label) for label in classes]
        looks = notation_of(cells) is not None or seems_to_hold(cells)
        if looks and not all(cell.isdigit() for cell in cells):
            raise InputError(
                f"{owner}: {len(classes):,} classes that look like numbers or dates, such as "
                f"{cells[0]!r}; convert the targets to numbers (a decimal comma to a point) and "
                f"use KernelRegressor, or give the classes names."
            )
    if len(classes) <= _MANY_CLASSES or 2 * len(classes) <= n_rows:
        return
    raise InputError(
        f"{owner}: {len(classes):,} classes of {n_rows:,} rows: most have one row, from which "
        f"nothing can be learned. If targets such as {str(classes[0])!r} are numbers, convert them "
        f"(a decimal comma to a point) and use KernelRegressor; else merge classes."
    )


def _check_probabilities(model: KernelClassifier) -> None:
    """Raise ``AttributeError``, which says why, unless there are or will be probabilities."""
    if hasattr(model, "weights_"):
        has = model.calibration_ is not None or model.loss_.name in PROBABILISTIC
    else:
        loss = model.loss.name if isinstance(model.loss, Loss) else model.loss
        has = model.calibrate is not False or loss in (*PROBABILISTIC, "log_loss")
    if has:
        return
    raise AttributeError(
        f"KernelClassifier: predict_proba needs calibrate=True or loss='logistic'; this model has "
        f"calibrate={model.calibrate!r} and loss={model.loss!r}."
    )


@dataclass(eq=False, repr=False, kw_only=True)
class KernelClassifier(ClassifierMixin, KernelMachine):
    """Kernel classification on random features, with no knobs to turn.

    By default the logistic or multinomial loss over grids that are grown for it, or one-vs-rest
    least squares (RB16, equation 1, with targets -1 and 1) over random features: all classes are
    solved together over one feature matrix. What is left on ``"auto"`` is chosen on rows held back.

    Parameters
    ----------
    features : str or feature map, default="binning"
        ``"binning"``: bins of random or grown grids. ``"smooth"``, ``"fourier"``,
        ``"nystrom"``, ``"exact"``: :class:`SmoothBinning`,
        :class:`RandomFourier` and so on, of a size that suits the rows.
    loss : str or Loss, default="auto"
        "squared", "squared_hinge", "logistic" or "cumulative".
        "logistic", or "log_loss", is the multinomial loss for more than two classes. The others are
        one against the rest. "auto" is "logistic" where grids are grown and classes are at most 30,
        else "squared"; of an ordered column of pandas it is "cumulative": proportional odds of the
        classes in their order, one raw prediction with thresholds between the classes.
    class_weight : None, "balanced" or dict, default=None
        Weights of the classes, as in scikit-learn; they multiply ``sample_weight``.
    bandwidth : float, array-like (n_features,) or "auto", default="auto"
        In units of the scaled inputs. ``"auto"`` searches, unless the feature
        map given has a number of its own.
    alpha : float or "auto", default="auto"
        Strength of the penalty; "auto" chooses it on rows held back.
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
        0, and the table is dense, with at least 60 rows, 5 rows per class and at most 4,096
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
        are off, for probabilities and :meth:`predict_set`. "auto" does unless everything else is
        given and the loss is logistic, which has probabilities of its own.
    scoring : str, callable or None, default=None
        What chooses on rows held back: a name of scikit-learn such as "neg_log_loss", "roc_auc" or
        "average_precision", or a function ``scorer(estimator, X, y)``, greater is better; None
        chooses by the loss. It chooses the penalty, the grids that are dropped, smooth kernels or
        none, and scaling, bandwidth, relevance and number of random features. Scorers of
        probabilities or decision values also say when growth ends and which stage is the best;
        those of predicted classes, such as "accuracy" and "f1", jump too much for that, and of
        functions of your own that is not known. Which grids are grown, their penalties meanwhile,
        and whether kernel ridge regression is taken, the loss says.
    cv : int, splitter, iterable of (train, test) pairs or None, default=None
        Which rows are held back from every choice and for ``calibrate``. None: a fifth or less,
        drawn at random, by groups if ``fit`` gets these. A number: so many folds, shuffled,
        stratified by class. Growth holds back the first of the folds that cover most rows (of a
        time series the last), everything else all folds below 4,000 rows, and that one from there
        on. Rows of no fold are fitted at the end.
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
        another ``alpha``, ``tol``, ``max_iter``, ``solver`` or ``class_weight``: units of the
        inputs, classes, features and penalty are kept, and the solve starts from the old weights.
        It ends where one from zero would, to ``tol``. Which bins there are is learned from the rows
        of the last fit, and a penalty that was chosen keeps its weight beside the summed losses.
        Nothing is kept if another parameter has changed, or of rows on the disk.
    n_jobs : int or None, default=None
        Threads; None means every processor, but one thread for tables of at most 1,500 rows and
        100,000 entries, which more would slow down. Results do not depend on it.
    verbose : int, default=0
        1 logs to standard error what was tried and chosen, unless the logger ``gramless`` has a
        handler that takes it.

    Attributes
    ----------
    classes_ : array (n_classes,)
        In rising order, or that of ordered categories; of several labels their numbers.
    multilabel_ : bool
        Whether targets had a column of 0 and 1 for each of several labels.
    features_ : feature map
        Fitted, over the rows that the scaler returns. Grown grids and what stands beside them,
        smooth kernels or a polynomial trend, are the ``maps_`` of one joint map; kernel ridge
        regression has a :class:`~gramless.features.expansion.KernelExpansion`, a trend alone is a
        :class:`~gramless.features.polynomial_trend.PolynomialTrend`.
    weights_, intercept_ : arrays (D,) or (D, n_classes); 0.0 or zeros (n_classes,)
        One output for two classes. There is no constant beside the bins: a row
        of no known bin is undecided.
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
    calibration_, errors_ : Calibration and Conformal, or None
        Responses to probabilities, and how far off those of held-back rows were.
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
    iteration and output; 1, 2 or 4 bytes a row and grid, and 8 bytes a column and output.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gramless import KernelClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(KernelClassifier(random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _target_kinds = ("labels",)
    _target_options: ClassVar[dict[str, object]] = {"multi_output": True}
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

    _order = cast("AnyArray | None", None)
    _all_classes = cast("AnyArray | None", None)

    @available_if(check_batches)
    def partial_fit(
        self,
        X: TableLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add a batch of rows to the fit; see :meth:`KernelRegressor.partial_fit`.

        Probabilities keep the calibration of the first fit.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Further training rows.
        y : array-like (n_samples,)
            Their targets.
        classes : array-like (n_classes,), optional
            All classes, in the first call, if its rows may lack some, which later batches bring.
            The first batch chooses the features and should have many rows.
        sample_weight : array-like (n_samples,), optional
            Weights of the rows; only their proportions matter.

        Returns
        -------
        The estimator itself.
        """
        goes_on = "weights_" in vars(self)
        known = self.classes_ if goes_on else classes
        if known is None:
            return self.fit(X, y, sample_weight)
        self._all_classes = np.unique(np.asarray(plain_labels(known, type(self).__name__)))
        try:
            if goes_on:
                return self._add_rows(X, y, sample_weight)
            return self.fit(X, y, sample_weight)
        finally:
            del self._all_classes

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
        # scikit-learn would make floats of nullable integers.
        return float(super().score(X, plain_labels(y, type(self).__name__), sample_weight))

    def __call__(self, X: TableLike) -> FloatArray:
        """Return the raw responses, which ``shap.Explainer(model, X)`` explains."""
        return self.decision_function(X)

    def decision_function(self, X: TableLike) -> FloatArray:
        """Return the raw responses.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples,) for two classes, positive for ``classes_[1]``, and for ordered ones,
        where it rises with the class; else (n_samples, n_classes), of several labels (n_samples,
        n_labels), positive where one holds
        """
        return self._responses(X)

    def predict(self, X: TableLike) -> AnyArray:
        """Return the most likely class of each row, of several labels 1 where one holds, else 0.

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

    @available_if(_check_probabilities)
    def predict_proba(self, X: TableLike) -> FloatArray:
        """Return the probability of each class, of several labels that each one holds.

        Learned on held-back rows (see ``calibrate``), or those of the loss: the logistic one, and
        always of ordered classes and of several labels.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples, n_classes) or (n_samples, n_labels)
        """
        return np.exp(self.predict_log_proba(X))

    @available_if(_check_probabilities)
    def predict_log_proba(self, X: TableLike) -> FloatArray:
        """Return the logarithms of :meth:`predict_proba`, exact where those round to 0.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples, n_classes)
        """
        return self._log_probabilities(self.decision_function(X))

    def _log_probabilities(self, responses: FloatArray) -> FloatArray:
        """Return the logarithms of probabilities, calibrated or those of the loss."""
        if self.calibration_ is not None:
            return self.calibration_.log_probabilities(responses)
        if self.multilabel_:
            return np.asarray(log_expit(responses))
        if isinstance(self.loss_, CumulativeLogistic):
            return np.log(np.maximum(self.loss_.probabilities(responses), _LEAST_PROBABILITY))
        return log_probabilities(responses)

    def predict_set(self, X: TableLike, coverage: float = 0.9) -> BoolArray:
        """Return sets of classes that hold the true one, so often as ``coverage`` says.

        Split-conformal (Sadinle, Lei & Wasserman 2019): all classes that are as probable as the
        true classes of that share of the rows held back from a fit with the same settings. Holds on
        average over rows like those of the fit, in the proportions of their weights.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Between 0 and 1.

        Returns
        -------
        array (n_samples, n_classes) of bool
            A set is empty where no class is that probable.

        Raises
        ------
        InputError
            If the fit held no rows back.

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
                "KernelClassifier: predict_set is for one class a row, not for labels."
            )
        threshold = self._held_back_errors("predict_set").quantile(coverage)
        return sets(self.predict_log_proba(X), float(threshold))

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        super().check_state(state)
        coef = part_in(state, "weights_", np.ndarray)
        n_outputs = 1 if coef.ndim == 1 else coef.shape[1]
        classes = part_in(state, "classes_", np.ndarray)
        several, loss = state.get("multilabel_"), state["loss_"]
        require(isinstance(several, bool), "multilabel_ is no truth value")
        n_classes = max(2, n_outputs)
        if isinstance(loss, CumulativeLogistic):
            thresholds = np.asarray(loss.thresholds)
            fits = thresholds.ndim == 1 and thresholds.dtype.kind == "f"
            fits = fits and bool((np.abs(thresholds) <= LARGEST).all())
            require(fits and bool((np.diff(thresholds) > 0).all()), "thresholds are out of order")
            n_classes = len(thresholds) + 1
        n_classes = n_outputs if several else n_classes
        require(classes.shape == (n_classes,), "classes_ does not fit weights_")
        if state["errors_"] is not None:
            errors = part_in(state, "errors_", Conformal)
            require(errors.scores.ndim == 1, "errors_ are not those of classes")
        if state["calibration_"] is not None:
            calibration = part_in(state, "calibration_", Calibration)
            require(calibration.n_responses == n_outputs, "calibration_ does not fit weights_")

    def _restore(self, fitted: dict[str, object]) -> None:
        # Files of earlier versions have one class a row.
        fitted.setdefault("multilabel_", False)
        super()._restore(fitted)

    def _validates(self, search: Search, grows: bool) -> bool:
        enough = search.data.rows.shape[0] >= ENOUGH_TO_SEARCH
        needed = is_auto(self.calibrate) and enough and self.loss_.name not in PROBABILISTIC
        return super()._validates(search, grows) or needed

    def _learn_errors(self, chosen: Chosen) -> None:
        data, validation = chosen.data, chosen.judged
        self.errors_ = self.calibration_ = None
        if self.multilabel_:
            return
        untried = self.calibrate == "auto" and data.rows.shape[0] < ENOUGH_TO_SEARCH
        if validation is None and untried and self.loss_.name not in PROBABILISTIC:
            ends = np.array([-1.0, 1.0])
            self.calibration_ = Calibration(ends, _UNTRIED_SLOPE, data.n_outputs, _UNTRIED_FLOOR)
        if validation is None:
            return
        targets, weight = data.targets[validation.rows], data.row_counts(validation.rows)
        if isinstance(self.loss_, CumulativeLogistic):
            classes = targets.astype(np.intp)
        else:
            classes = most_likely(targets)
            self.calibration_ = Calibration.fit(validation.raw, targets, weight)
        found = self._log_probabilities(validation.raw)
        self.errors_ = Conformal.fit(set_scores(found, classes), weight)

    def _loss_of(self, n_outputs: int, grows: bool) -> Loss:
        loss = self._named_loss()
        if self.loss == "cumulative" or self._order is not None:
            return self.loss_
        few = n_outputs <= _MOST_MULTINOMIAL
        if isinstance(self.loss, str) and self.loss == "auto":
            grows = grows or self.multilabel_
            loss = Logistic() if grows and few and self.solver == "auto" else Squared()
        one = n_outputs == 1 or self.multilabel_
        return loss if one or loss.name != "logistic" else Multinomial()

    def _grows_grids(self, search: Search) -> bool:
        # Grids are grown by their targets, and a single class says nothing about the inputs.
        classes = search.classes
        is_one_class = classes is not None and bool((classes == classes[0]).all())
        return super()._grows_grids(search) and not (is_one_class and self.grids == "auto")

    def _squares(self, encoder: TargetEncoder) -> Goal | None:
        plain = type(encoder) is ClassEncoder
        return super()._squares(encoder) if plain else None

    def _in_turns(self, problem: Problem, solution: Solution, chosen: Chosen) -> Solution:
        """Fit thresholds of ordered classes and the weights in turns."""
        for _ in range(_MOST_TURNS):
            raw = problem.matrix.matvec(solution.weights)
            loss = problem.loss.adapted(raw, problem.targets, problem.row_weights)
            if loss == problem.loss or not isinstance(loss, CumulativeLogistic):
                break
            problem, self.loss_ = replace(problem, loss=loss), loss
            solution = self._solved(problem, solution.weights, _TIGHTEN, chosen)
        return solution

    def _weigh(self, y: AnyArray, weight: FloatArray | None) -> FloatArray | None:
        if self.class_weight is None:
            return weight
        own = self._class_weights(y, weight)
        if not (np.isfinite(own).all() and (own > 0).all()):
            raise InputError(
                "KernelClassifier: class_weight must hold positive numbers, and a class that is "
                "left out counts as 1."
            )
        return own / own.max() if weight is None else weight * own / own.max()

    def _class_weights(self, y: AnyArray, weight: FloatArray | None) -> FloatArray:
        """Return each row's class weight; "balanced" counts rows by their sample weights.

        Of several labels the weights are multiplied.
        """
        if isinstance(self.class_weight, Mapping) and y.ndim == 1:
            known = y if self._all_classes is None else np.concatenate([y, self._all_classes])
            classes, number = np.unique(known, return_inverse=True)
            return weights_of_classes(self.class_weight, classes)[number[: len(y)]]
        if self.class_weight != "balanced":
            return compute_sample_weight(self.class_weight, y)
        if y.ndim == 2:
            return np.prod([self._class_weights(own, weight) for own in y.T], axis=0)
        _, number = np.unique(y, return_inverse=True)
        counts = np.bincount(number, weights=weight)
        return (counts.sum() / (len(counts) * counts))[number]

    def _plain_targets(self, y: ArrayLike) -> ArrayLike:
        self._order = ordered_classes(y) if self.loss == "auto" else None
        return plain_labels(y, type(self).__name__)

    def _check_targets(self, y: AnyArray) -> AnyArray:
        if y.ndim == 1 or y.shape[1] == 1:
            return ClassEncoder.check(y, warn=True)
        check_classification_targets(y)
        labels = sp.csr_array(y).toarray() if sp.issparse(y) else np.asarray(y)
        if not np.isin(labels, (0, 1)).all():
            raise InputError(
                "KernelClassifier: targets of several columns must be labels that hold or not, 1 "
                "and 0; fit a model for each column of classes."
            )
        return labels

    def _target_encoder(self, y: AnyArray, weight: FloatArray | None) -> TargetEncoder:
        owner, self.multilabel_ = type(self).__name__, y.ndim == 2
        if self.multilabel_:
            self._refuse_scoring("several labels")
            self.classes_: AnyArray = np.arange(y.shape[1])
            return LabelsEncoder(y.shape[1])
        encoder = ClassEncoder.fit(y if self._all_classes is None else self._all_classes, owner)
        _check_repeated(encoder.classes, len(y), owner)
        if self._order is not None or self.loss == "cumulative":
            self._refuse_scoring("ordered classes")
            classes = encoder.classes if self._order is None else self._order
            encoder = OrderedEncoder(classes[np.isin(classes, encoder.classes)])
            ranks, n_classes = encoder.encode(y), len(encoder.classes)
            self.loss_ = CumulativeLogistic.of_ranks(ranks, weight, n_classes)
        self.classes_ = encoder.classes
        return encoder

    def _target_encoder_again(self, y: AnyArray, weight: FloatArray | None) -> TargetEncoder:
        if self.multilabel_ != (y.ndim == 2):
            raise InputError(
                "KernelClassifier: the fit that goes on had several labels a row, or one class; "
                "set warm_start=False."
            )
        if self.multilabel_:
            return LabelsEncoder(y.shape[1])
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise InputError(
                f"KernelClassifier: the label {y[unknown].tolist()[0]!r} is none of the classes of "
                f"the fit that goes on; fit a new model, to rows of all classes."
            )
        ordered = isinstance(self.loss_, CumulativeLogistic)
        return OrderedEncoder(self.classes_) if ordered else ClassEncoder(self.classes_)

    def _refuse_scoring(self, what: str) -> None:
        if self.scoring is not None:
            raise InputError(
                f"KernelClassifier: {what} are chosen by the loss; leave scoring at None."
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
