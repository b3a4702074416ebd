"""What scikit-learn's scorers say of raw predictions that are at hand already."""

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

_TIE_BREAK = 1e-6
"""Of the loss, beside scores whose best is 1: those of predicted classes take few values."""
_LONGEST = 200

Scorer: TypeAlias = Callable[..., Any]
"""A function ``scorer(estimator, X, y)``, such as scikit-learn makes, that returns a number."""


@dataclass(frozen=True, eq=False)
class ScikitScorer(RowScorer):
    """A scorer of scikit-learn's kind, for raw predictions of a fit's rows.

    Messages call it ``name``; ``codes`` are the encoded targets, ``loss`` was minimised to predict.
    """

    scorer: Scorer
    name: str
    rows: GivenRows = field(repr=False)
    encoder: TargetEncoder = field(repr=False)
    codes: FloatArray = field(repr=False)
    loss: Loss

    @property
    def is_gradual(self) -> bool:
        """Whether it looks at numbers, probabilities or decision values, and not at classes.

        What a function of one's own looks at is not known.
        """
        if not _is_scikit(self.scorer):
            return False
        numbers = not isinstance(self.encoder, ClassEncoder)
        return numbers or self.scorer._response_method != "predict"

    def __call__(self, raw: Vector, rows: IntArray, loss: float) -> float:
        """Return ``1 - score`` where greater is better and 1 usually the best, else ``-score``."""
        score = self._score(raw, rows)
        if _is_scikit(self.scorer) and self.scorer._sign > 0:
            return 1.0 - score + _TIE_BREAK * loss
        return -score

    def _score(self, raw: Vector, rows: IntArray) -> float:
        given, places = self.rows, self.rows.used[rows]
        options = {}
        if given.weight is not None and _takes_weights(self.scorer):
            options["sample_weight"] = given.weight[rows]
        try:
            # scikit-learn's own scorers hand the rows through.
            X = raw if _is_scikit(self.scorer) else given.rows_at(places)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answers = self._answers(raw, rows)
                score = float(self.scorer(answers, X, given.targets[places], **options))
        except InputError:
            raise
        except Exception as fault:
            raise InputError(
                f"scoring={self.name} fails for {len(rows)} rows held back: "
                f"{str(fault).rstrip('.')}; take another scorer, or folds (cv) that it is defined "
                f"for."
            ) from fault
        if not np.isfinite(score):
            raise InputError(
                f"scoring={self.name} returns {score} for {len(rows)} rows held back; take another "
                f"scorer, or folds (cv) that hold back rows of every class."
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
        own = self.loss.name in PROBABILISTIC
        return ClassAnswers(self.encoder, raw, self.codes[rows], weight, own)


@dataclass(eq=False, repr=False)
class NumberAnswers(RegressorMixin, BaseEstimator):
    """Predictions in the place of the regressor that made them."""

    predicted: FloatArray

    def predict(self, X: TableLike) -> FloatArray:
        """Return the predictions, for as many rows as there are."""
        _check_rows(X, len(self.predicted))
        return self.predicted

    def __sklearn_is_fitted__(self) -> bool:
        return True


@dataclass(eq=False, repr=False)
class ClassAnswers(ClassifierMixin, BaseEstimator):
    """Raw predictions in the place of the classifier that made them.

    They are log odds if it has its own probabilities; else these are calibrated on the rows
    themselves, whose true classes are the codes.
    """

    encoder: ClassEncoder
    raw: FloatArray
    codes: FloatArray
    weight: FloatArray | None
    has_own: bool

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
        """Return logarithms of the classes' probabilities."""
        raw = self.decision_function(X)
        if self.has_own:
            return log_probabilities(raw)
        return Calibration.fit(raw, self.codes, self.weight).log_probabilities(raw)

    def predict_proba(self, X: TableLike) -> FloatArray:
        """Return the classes' probabilities."""
        return np.exp(self.predict_log_proba(X))

    def __sklearn_is_fitted__(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class NamedScorer:
    """What parameter ``scoring`` of an estimator names."""

    scorer: Scorer
    name: str

    @classmethod
    def of(cls, owner: BaseEstimator) -> Self | None:
        """Return the scorer, None for the loss; refuse unknown names, and what is no scorer."""
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
            return cls(scoring, repr(scoring)[:_LONGEST])
        named = scoring if inspect.isfunction(scoring) else type(scoring)
        return cls(scoring, named.__qualname__)

    def of_rows(
        self, rows: GivenRows, encoder: TargetEncoder, codes: FloatArray, loss: Loss
    ) -> ScikitScorer:
        """Return the scorer for raw predictions of some rows by a loss."""
        scorer = self.scorer
        if self.name == repr("neg_log_loss") and isinstance(encoder, ClassEncoder):
            from sklearn.metrics import log_loss, make_scorer

            # Few rows held back may lack a class.
            options = {"labels": encoder.classes}
            scorer = make_scorer(
                log_loss, response_method="predict_proba", greater_is_better=False, **options
            )
        return ScikitScorer(scorer, self.name, rows, encoder, codes, loss)


def _is_scikit(scorer: object) -> TypeGuard[_BaseScorer]:
    """Tell whether a scorer is one of scikit-learn's, or made by its ``make_scorer``."""
    from sklearn.metrics._scorer import _BaseScorer

    return isinstance(scorer, _BaseScorer)


def _takes_weights(scorer: Scorer) -> bool:
    function = scorer._score_func if _is_scikit(scorer) else scorer
    return "sample_weight" in inspect.signature(function).parameters


def _check_rows(X: TableLike, n_rows: int) -> None:
    from sklearn.utils.validation import _num_samples

    found = _num_samples(X)
    if found != n_rows:
        raise InputError(
            f"scoring asks for predictions of {found} rows, and there are those of the {n_rows} "
            f"rows that it was given; let it look at these."
        )
