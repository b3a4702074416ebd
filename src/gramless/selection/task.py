"""The task of model selection: rows, goals, what the user has fixed, and the budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.progress import Reporter
from gramless.base.state import Stateful
from gramless.base.threads import cached_property
from gramless.base.types import FloatArray, IntArray
from gramless.features.base import FeatureMap, SizedMap
from gramless.matrices.base import Vector
from gramless.preprocessing.scaling import Scaler, ScalingKind
from gramless.selection.budget import Budget
from gramless.selection.config import SearchConfig
from gramless.selection.data import Data
from gramless.selection.goal import Goal, RowScorer
from gramless.selection.splits import (
    Folds,
    Groups,
    Split,
    kept_together,
    matched_rows,
    search_splits,
    validation_splits,
)


@dataclass(frozen=True)
class Hyperparameters(Stateful, former=("Settings",)):
    """The settings that selection chooses.

    Attributes
    ----------
    scaling : str
        How inputs are scaled.
    bandwidth : float or None
        The bandwidth of random features, in mean L1 distances between two scaled rows (median
        Euclidean distances for radial kernels); None if it was given or features have none.
    alpha : float
        The penalty of the mean loss over all rows.
    relevance : array (n_inputs,) or None
        Learned weights of the inputs; None weighs them equally.
    grids : {"random", "grown", "both"}
        "both" is read from files of earlier versions, which averaged the two.
    random_share : float or None
        The weight of random grids in such an average.
    """

    scaling: ScalingKind
    bandwidth: float | None
    alpha: float
    relevance: NDArray[np.float64] | None = None
    grids: str = "random"
    random_share: float | None = None


GROWN = Hyperparameters("both", None, 0.0, grids="grown")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One fit that validation rows have scored.

    Attributes
    ----------
    stage : str
        "search" chooses scaling, bandwidth and relevance with the squared loss, "alpha" the penalty
        of another loss or of L1, "size" the number of random grids; "validation" compares
        candidates for the final fit.
    measure : str
        The name of the loss or of the user's scorer. Only scores of one measure are comparable.
    size : int
        The number of grids, or of columns of other features.
    curve : list of float
        Scores every fourth iteration and at the end.
    """

    stage: str
    settings: Hyperparameters
    score: float
    measure: str
    n_iter: int
    n_rows: int
    size: int
    seconds: float
    curve: list[float] = field(repr=False)

    def as_dict(self) -> dict[str, object]:
        flat = asdict(self)
        settings = flat.pop("settings")
        settings["relevance"] = "equal" if settings["relevance"] is None else "learned"
        return {**settings, **flat}


@dataclass(frozen=True, kw_only=True)
class FixedChoices:
    """The choices that the user has fixed; None, or several scalings, leave one to selection.

    Attributes
    ----------
    scalings : tuple of str
        The scalings that may be tried.
    bandwidth : array or None
        The bandwidth in units of the scaled inputs, one number or one for each input.
    relevance : {"equal", "learned", "auto"}
        "auto" learns weights of the inputs and keeps them if they predict clearly better.
    """

    scalings: tuple[ScalingKind, ...]
    bandwidth: NDArray[np.float64] | None = None
    alpha: float | None = None
    relevance: str = "auto"
    n_grids: int | None = None

    @property
    def fixes_model(self) -> bool:
        """True if alpha or the number of grids is fixed; then no other models are tried."""
        return self.alpha is not None or self.n_grids is not None


T = TypeVar("T")

TIME_SHARE = 0.5  # no trial begins after this fraction of the time budget


@dataclass(frozen=True, kw_only=True, eq=False)
class EarlierFit:
    """The model of an earlier fit, with its weights for the targets as they are encoded now.

    ``alpha`` is the penalty of the mean loss over the rows that are to be fitted.
    """

    scaler: Scaler
    feature_map: FeatureMap
    settings: Hyperparameters
    alpha: float
    bandwidth: Any
    relevance: FloatArray = field(repr=False)
    growth: list[dict[str, float]] = field(repr=False)
    weights: Vector = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldBackRows:
    """The splits into training and validation rows, by the user's ``folds`` or a rule.

    ``classes`` holds the index of each row's class if targets are classes.
    """

    data: Data
    seed: int
    report: Reporter
    n_jobs: int | None = None
    classes: IntArray | None = None
    folds: Folds | None = None

    @cached_property
    def groups(self) -> Groups | None:
        """The groups of rows that no split separates: given, or detected as matched samples."""
        if self.folds is not None:
            return self.folds.groups
        groups = matched_rows(self.data.for_squares, self.n_jobs)
        if groups is not None:
            self.report("search", "rows that agree in all inputs but one are matched: not parted")
        return groups

    @cached_property
    def splits(self) -> list[Split]:
        """The splits of the user, or one split, or five folds of fewer than 500 rows."""
        n_rows = self.data.rows.shape[0]
        if self.folds is not None:
            return self.folds.used(n_rows)
        splits = validation_splits(n_rows, self.seed, self.classes)
        return [kept_together(split, self.groups) for split in splits]

    def sampled(self, most: int) -> list[Split]:
        n_rows = self.data.rows.shape[0]
        if self.folds is not None:
            return self.folds.sampled(n_rows, most, self.seed)
        splits = search_splits(n_rows, most, self.seed, self.classes)
        return [kept_together(split, self.groups) for split in splits]


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectionTask:
    """Everything that a candidate may read: rows, goals, one split, what is fixed, and the budget.

    Attributes
    ----------
    data : Data
        Encoded rows and targets.
    held_back : HeldBackRows
        The splits of the rows.
    goal : Goal
        The loss that is minimised, and the score of validation rows.
    least_squares : Goal or None
        The goal of kernel ridge regression, None if it must not be tried.
    fixed : FixedChoices
        The choices of the user.
    feature_map : SizedMap
        Unfitted features of random kernels.
    grows_grids : bool
        Whether grids are grown; other features are random ones of one kernel, or as given.
    earlier : EarlierFit or None
        The model from which a warm start continues.
    validates : bool
        Whether validation rows are held back even if nothing is to be selected.
    monotone : array (n_inputs,), optional
        1 for inputs along which predictions must not fall, -1 for those along which they must not
        rise, 0 for all others.
    search_scorer : RowScorer, optional
        The user's score of raw predictions by least squares.
    fold : int
        The number of the split that candidates are fitted and validated on.
    trials, growth : list of Trial, list of dict
        The records of all trials, and of the stages of growth.
    """

    data: Data
    held_back: HeldBackRows
    goal: Goal
    fixed: FixedChoices
    feature_map: SizedMap
    config: SearchConfig
    budget: Budget
    seed: int
    n_jobs: int | None = None
    report: Reporter = field(default_factory=Reporter)
    least_squares: Goal | None = None
    grows_grids: bool = False
    earlier: EarlierFit | None = None
    validates: bool = True
    monotone: IntArray | None = None
    search_scorer: RowScorer | None = None
    fold: int = 0
    trials: list[Trial] = field(default_factory=list)
    growth: list[dict[str, float]] = field(default_factory=list)
    _results: dict[Callable[..., Any], Any] = field(default_factory=dict, repr=False)

    @property
    def split(self) -> Split:
        """The training and validation rows on which candidates are compared."""
        return self.held_back.splits[self.fold]

    @property
    def n_rows(self) -> int:
        """The number of rows, including the validation rows that the user gave."""
        return self.data.rows.shape[0]

    @property
    def scaler(self) -> Scaler:
        """The scaler of grown grids and of features added to them; monotone inputs become ranks."""
        scaler = self.data.scaler("both")
        return scaler if self.monotone is None else scaler.ranked(self.monotone != 0)

    @property
    def validation_has_ended(self) -> bool:
        """True if a callback has ended validation."""
        return "validation" in self.report.ended

    def is_over(self, stage: str) -> bool:
        """Return whether the time of trials is spent or a callback ended those of a stage."""
        return stage in self.report.ended or self.budget.deadline.is_past(TIME_SHARE)

    def search_score(self, raw: Vector, rows: IntArray) -> float:
        """Return the score of raw predictions by least squares, which compares settings."""
        score = self.data.score(raw, self.data.targets[rows], self.data.weights_of(rows))
        return score if self.search_scorer is None else self.search_scorer(raw, rows, score)

    @property
    def search_measure(self) -> str:
        return self.data.measure if self.search_scorer is None else self.search_scorer.name

    def once(self, compute: Callable[[SelectionTask], T]) -> T:
        """Return ``compute(self)``, which is computed once for all candidates."""
        if compute not in self._results:
            self._results[compute] = compute(self)
        result: T = self._results[compute]
        return result

    def unrecorded(self, fold: int = 0) -> SelectionTask:
        """Return the task of a split, without recording or reporting its trials."""
        return replace(self, fold=fold, trials=[], growth=[], report=Reporter(), _results={})
