"""Scores of raw predictions by scorers of scikit-learn."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeGuard

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from gramless.base.errors import InputError
from gramless.base.types import AnyArray, FloatArray, IntArray, TableLike
from gramless.estimators.given_rows import GivenRows
from gramless.estimators.targets import (
    PROBABILISTIC,
    ClassEncoder,
    TargetEncoder,
    log_probabilities,
)
from gramless.losses import Loss
from gramless.matrices.base import Vector
from gramless.selection.goal import RowScorer
from gramless.uncertainty.calibration import Calibration

if TYPE_CHECKING:
    from sklearn.metrics._scorer import _BaseScorer

# Factor of the loss that is added to scores, because scores of predicted classes are often tied.
_TIE_BREAK = 1e-6
_MAX_CHARACTERS = 200  # longer names of scorers are cut off

Scorer: TypeAlias = Callable[..., Any]  # scorer(estimator, X, y) -> float, as in scikit-learn


@dataclass(frozen=True, eq=False)
class ScikitScorer(RowScorer):
    """A scorer like scikit-learn's for raw predictions of the rows of a fit.

    ``name`` is for messages, ``codes`` are the encoded targets, and ``loss`` is the fitted loss.
    """

    scorer: Scorer
    name: str
    rows: GivenRows = field(repr=False)
    encoder: TargetEncoder = field(repr=False)
    codes: FloatArray = field(repr=False)
    loss: Loss

    @property
    def is_gradual(self) -> bool:
        """True if the scorer uses numbers, probabilities or decision values, and not classes.

        It is False for functions that are not made by ``make_scorer``, which could use anything.
        """
        if not _is_scikit(self.scorer):
            return False
        predicts_numbers = not isinstance(self.encoder, ClassEncoder)
        return predicts_numbers or self.scorer._response_method != "predict"

    def __call__(self, raw: Vector, rows: IntArray, loss: float) -> float:
        """Return a score of which lower is better.

        It is ``1 - score`` if a scorer of scikit-learn says that greater is better, plus a small
        multiple of ``loss`` to break ties, and ``-score`` otherwise.
        """
        score = self._score(raw, rows)
        if _is_scikit(self.scorer) and self.scorer._sign > 0:
            return 1.0 - score + _TIE_BREAK * loss
        return -score

    def _score(self, raw: Vector, rows: IntArray) -> float:
        given, indices = self.rows, self.rows.used[rows]
        options = {}
        if given.weight is not None and _takes_weights(self.scorer):
            options["sample_weight"] = given.weight[rows]
        try:
            # Scorers of scikit-learn only pass the rows on to the estimator.
            X = raw if _is_scikit(self.scorer) else given.rows_at(indices)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answers = self._answers(raw, rows)
                score = float(self.scorer(answers, X, given.targets[indices], **options))
        except InputError:
            raise
        except Exception as fault:
            raise InputError(
                f"scoring={self.name} fails for {len(rows)} validation rows: "
                f"{str(fault).rstrip('.')}; use another scorer, or folds (cv) for which it is "
                f"defined."
            ) from fault
        if not np.isfinite(score):
            raise InputError(
                f"scoring={self.name} returns {score} for {len(rows)} validation rows; use another "
                f"scorer, or folds (cv) whose validation rows have every class."
            )
        return score

    def _answers(self, raw: Vector, rows: IntArray) -> BaseEstimator:
        squares = self.loss.name == "squared"
        if not isinstance(self.encoder, ClassEncoder):
            decode = self.encoder.decode_squares if squares else self.encoder.decode
            return NumberAnswers(decode(raw))
        weight = None
        if self.rows.weight is not None:
            weight = self.rows.weight[rows] / self.rows.weight[rows].mean()
        is_probabilistic = self.loss.name in PROBABILISTIC
        return ClassAnswers(self.encoder, raw, self.codes[rows], weight, is_probabilistic)


@dataclass(eq=False, repr=False)
class NumberAnswers(RegressorMixin, BaseEstimator):
    """A regressor that returns given predictions."""

    predicted: FloatArray

    def predict(self, X: TableLike) -> FloatArray:
        """Return the predictions; raise InputError if ``X`` has another number of rows."""
        _check_rows(X, len(self.predicted))
        return self.predicted

    def __sklearn_is_fitted__(self) -> bool:
        return True


@dataclass(eq=False, repr=False)
class ClassAnswers(ClassifierMixin, BaseEstimator):
    """A classifier that returns given raw predictions.

    If ``is_probabilistic``, the raw predictions are log odds. Otherwise the probabilities are
    calibrated on these rows, whose encoded targets are ``codes``.
    """

    encoder: ClassEncoder
    raw: FloatArray
    codes: FloatArray
    weight: FloatArray | None
    is_probabilistic: bool

    @property
    def classes_(self) -> AnyArray:
        """The classes of the encoder."""
        return self.encoder.classes

    def decision_function(self, X: TableLike) -> FloatArray:
        """Return the raw predictions."""
        _check_rows(X, len(self.raw))
        return self.raw

    def predict(self, X: TableLike) -> AnyArray:
        """Return the most likely classes."""
        return self.encoder.decode(self.decision_function(X))

    def predict_log_proba(self, X: TableLike) -> FloatArray:
        """Return the log probabilities of the classes."""
        raw = self.decision_function(X)
        if self.is_probabilistic:
            return log_probabilities(raw)
        return Calibration.fit(raw, self.codes, self.weight).log_probabilities(raw)

    def predict_proba(self, X: TableLike) -> FloatArray:
        """Return the probabilities of the classes."""
        return np.exp(self.predict_log_proba(X))

    def __sklearn_is_fitted__(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class NamedScorer:
    """The scorer of the parameter ``scoring`` of an estimator, and its name."""

    scorer: Scorer
    name: str

    @classmethod
    def of(cls, owner: BaseEstimator) -> Self | None:
        """Return the scorer, or None for the loss; raise InputError if ``scoring`` is invalid."""
        scoring, name = owner.scoring, type(owner).__name__
        if scoring is None:
            return None
        from sklearn.metrics import check_scoring, get_scorer, get_scorer_names

        if isinstance(scoring, str):
            if scoring not in get_scorer_names():
                raise InputError(
                    f"{name}: scoring must be None, a name such as 'neg_log_loss', 'roc_auc' or "
                    f"'r2' (sklearn.metrics.get_scorer_names() lists all), or a function "
                    f"scorer(estimator, X, y); got {scoring!r}."
                )
            return cls(get_scorer(scoring), repr(scoring))
        if not callable(scoring):
            raise InputError(
                f"{name}: scoring must be None, the name of one scorer, or a function "
                f"scorer(estimator, X, y); got {scoring!r}."
            )
        try:
            check_scoring(scoring=scoring)
        except ValueError as fault:
            raise InputError(f"{name}: {fault}") from fault
        if _is_scikit(scoring):
            return cls(scoring, repr(scoring)[:_MAX_CHARACTERS])
        named = scoring if inspect.isfunction(scoring) else type(scoring)
        return cls(scoring, named.__qualname__)

    def of_rows(
        self, rows: GivenRows, encoder: TargetEncoder, codes: FloatArray, loss: Loss
    ) -> ScikitScorer:
        """Return the scorer for raw predictions of rows by a loss."""
        scorer = self.scorer
        if self.name == repr("neg_log_loss") and isinstance(encoder, ClassEncoder):
            from sklearn.metrics import log_loss, make_scorer

            # A few validation rows may lack a class.
            options = {"labels": encoder.classes}
            scorer = make_scorer(
                log_loss, response_method="predict_proba", greater_is_better=False, **options
            )
        return ScikitScorer(scorer, self.name, rows, encoder, codes, loss)


def _is_scikit(scorer: object) -> TypeGuard[_BaseScorer]:
    """Return whether a scorer is from scikit-learn, or made by its ``make_scorer``."""
    from sklearn.metrics._scorer import _BaseScorer

    return isinstance(scorer, _BaseScorer)


def _takes_weights(scorer: Scorer) -> bool:
    function = scorer._score_func if _is_scikit(scorer) else scorer
    return "sample_weight" in inspect.signature(function).parameters


def _check_rows(X: TableLike, n_rows: int) -> None:
    from sklearn.utils.validation import _num_samples

    n_asked = _num_samples(X)
    if n_asked != n_rows:
        raise InputError(
            f"scoring asks for predictions of {n_asked} rows, but it was given {n_rows} rows; "
            f"predict only these."
        )
