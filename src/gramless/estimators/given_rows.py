"""The rows of a fit as a user gave them, and which of them, or which others, judge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples

from gramless.base.columns import exact_labels
from gramless.base.errors import InputError
from gramless.base.lazy_rows import LazyRows, take_rows
from gramless.base.mapped import MappedRows
from gramless.base.memory import given_memory
from gramless.base.state import StatefulEstimator
from gramless.base.types import (
    AnyArray,
    FloatArray,
    IntArray,
    NamedColumns,
    RowTable,
    TableLike,
)
from gramless.estimators.parameters import check_count
from gramless.estimators.targets import ClassEncoder, NumberEncoder, TargetEncoder, refuse_missing
from gramless.preprocessing.rows import Rows, checked_weights, relative_weights, validated_targets
from gramless.selection.splits import Folds, Split, class_folds, group_folds

EvalSet = tuple[TableLike, ArrayLike] | list[tuple[TableLike, ArrayLike]] | None

_FOLDS = 5
_LONGEST = 200
"""Characters of a splitter's name."""


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Rows of a fit as given, with what splitters and scorers want to know of them.

    ``targets`` and ``groups``, the number of each row's group, are of all rows that were given;
    ``used`` are those that are fitted, whose sample weight is not 0, and ``weight`` their weights
    relative to the largest. Rows of ``later``, a second table, follow them: they only judge.
    """

    table: TableLike = field(repr=False)
    targets: AnyArray = field(repr=False)
    used: IntArray = field(repr=False)
    weight: FloatArray | None = field(repr=False)
    group_names: AnyArray | None = field(repr=False)
    groups: IntArray | None = field(repr=False)
    later: TableLike | None = field(repr=False, default=None)

    @classmethod
    def of(
        cls,
        owner: BaseEstimator,
        table: TableLike,
        targets: AnyArray,
        weight: FloatArray | None,
        groups: ArrayLike | None,
        used: IntArray | None = None,
    ) -> GivenRows:
        """Return the rows with their groups numbered, of which there are at least two.

        Targets and weights are those of the rows ``used``, by default all; messages name the
        estimator ``owner``.
        """
        if used is None:
            used = np.arange(len(targets)) if weight is None else np.flatnonzero(weight > 0)
            used_weight = None if weight is None else weight[used]
        else:
            # Targets of the other rows are not used.
            used_weight, used_targets = weight, targets
            targets = np.resize(targets[:1], (_num_samples(table), *targets.shape[1:]))
            targets[used] = used_targets
        if groups is None:
            return cls(table, targets, used, used_weight, None, None)
        names, numbers = _numbered(type(owner).__name__, groups, len(targets))
        if len(np.unique(numbers[used])) < 2:
            only = names.tolist()[numbers[used[0]]]
            raise InputError(
                f"{type(owner).__name__}: all rows are of the group {only!r}, so that none can be "
                f"held back; leave groups out, or give what only some rows share."
            )
        return cls(table, targets, used, used_weight, names, numbers)

    def taking(self, chosen: IntArray) -> GivenRows:
        """Return the same rows, of which only some of those that are fitted still are."""
        weight = None if self.weight is None else self.weight[chosen]
        return replace(self, used=self.used[chosen], weight=weight)

    def followed_by(
        self, table: TableLike, targets: AnyArray, weight: FloatArray | None
    ) -> GivenRows:
        """Return the rows followed by validation rows."""
        n_given = len(self.targets)
        if weight is not None:
            training = np.ones(len(self.used)) if self.weight is None else self.weight
            weight = np.concatenate([training, weight])
        return replace(
            self,
            targets=np.concatenate([self.targets, targets]),
            used=np.concatenate([self.used, n_given + np.arange(len(targets))]),
            weight=weight,
            later=table,
        )

    def rows_at(self, places: IntArray) -> TableLike:
        """Return some rows as given; where there are later ones only these are asked for."""
        from sklearn.utils import _safe_indexing

        if self.later is None:
            return _safe_indexing(self.table, places)
        n_later = _num_samples(self.later)
        return _safe_indexing(self.later, places - (len(self.targets) - n_later))

    def folds(self, owner: BaseEstimator, classes: IntArray | None, seed: int) -> Folds | None:
        """Return the folds that parameter ``cv`` of an estimator asks for, of rows that are fitted.

        ``classes`` are of these too. None where neither folds nor groups are given.
        """
        if self.later is not None:
            return self._later_ones(owner)
        if owner.cv is None and self.groups is None:
            return None
        groups, n_parts, what = None, len(self.used), "rows"
        if self.groups is not None:
            groups = np.unique(self.groups[self.used], return_inverse=True)[1].reshape(-1)
            n_parts, what = int(groups.max()) + 1, "groups"
        if owner.cv is not None and not isinstance(owner.cv, (int, np.integer)):
            return Folds(self._split_by(owner), groups)
        n_folds = _FOLDS if owner.cv is None else check_count(owner, "cv", low=2)
        if owner.cv is not None and n_folds > n_parts:
            raise InputError(
                f"{type(owner).__name__}: cv={n_folds} folds need as many {what}, and there are "
                f"{n_parts}; lower cv."
            )
        if groups is None:
            return Folds(class_folds(n_parts, n_folds, seed, classes))
        return Folds(group_folds(groups, n_folds, seed, classes), groups)

    def _later_ones(self, owner: BaseEstimator) -> Folds:
        """Return the one fold that holds back the later rows."""
        if owner.cv is not None:
            raise InputError(
                f"{type(owner).__name__}: cv={_short(owner.cv)} and eval_set or X_val both say "
                f"which rows are held back; give one of them."
            )
        n_later, n_rows = _num_samples(self.later), len(self.used)
        split = np.arange(n_rows - n_later), np.arange(n_rows - n_later, n_rows)
        if self.groups is None:
            return Folds([split])
        own = np.unique(self.groups[self.used[split[0]]], return_inverse=True)[1].reshape(-1)
        return Folds([split], np.append(own, np.full(n_later, own.max() + 1)))

    def _split_by(self, owner: BaseEstimator) -> list[Split]:
        """Return the folds of a splitter of scikit-learn's kind, or pairs as given, checked."""
        from sklearn.model_selection import check_cv

        name, rows = type(owner).__name__, self.table
        if isinstance(rows, NamedColumns):
            # Splitters know only how many rows such a table has.
            rows = np.arange(len(self.targets)).reshape(-1, 1)
        parts: tuple[Any, ...] = rows, self.targets, self.groups
        by_splitter = not isinstance(owner.cv, Iterable) and len(self.used) < len(self.targets)
        if by_splitter:
            # Rows without weight count as absent; pairs name rows as they were given.
            parts = tuple(None if x is None else take_given_rows(x, self.used) for x in parts)
        try:
            pairs = list(check_cv(owner.cv).split(*parts))
            if by_splitter:
                pairs = [tuple(self.used[np.asarray(part)] for part in pair) for pair in pairs]
        except (ValueError, TypeError) as fault:
            raise InputError(
                f"{name}: cv={_short(owner.cv)}: {str(fault).rstrip('.')}; give a splitter that "
                f"suits the rows, or pairs (training rows, held-back rows)."
            ) from fault
        if not pairs:
            raise InputError(f"{name}: cv={_short(owner.cv)} yields no folds; give at least one.")
        return [self._checked(f"{name}: fold {k} of cv", pair) for k, pair in enumerate(pairs)]

    def _checked(self, what: str, pair: Iterable[ArrayLike]) -> Split:
        """Return the fitted rows of a fold that neither is empty nor holds a row twice."""
        try:
            training, held_back = (self._rows(what, side) for side in pair)
        except (TypeError, ValueError) as fault:
            if isinstance(fault, InputError):
                raise
            raise InputError(f"{what} is no pair (training rows, held-back rows).") from fault
        both = np.concatenate([training, held_back])
        rows, counts = np.unique(both, return_counts=True)
        if (counts > 1).any():
            raise InputError(
                f"{what} holds row {rows[counts > 1][0]} more than once; each row may be on one "
                f"side, once."
            )
        if self.groups is not None and self.group_names is not None:
            shared = np.intersect1d(self.groups[training], self.groups[held_back])
            if len(shared) > 0:
                name = self.group_names.tolist()[shared[0]]
                raise InputError(
                    f"{what} has rows of the group {name!r} on both sides; take a splitter that "
                    f"keeps groups together, such as GroupKFold, or cv=None."
                )
        place = np.full(len(self.targets), -1)
        place[self.used] = np.arange(len(self.used))
        split = place[training], place[held_back]
        split = split[0][split[0] >= 0], split[1][split[1] >= 0]
        if min(map(len, split)) == 0:
            side = "training rows" if len(split[0]) == 0 else "held-back rows"
            raise InputError(
                f"{what} has no {side}, or all their sample weights are 0; give folds with rows on "
                f"both sides."
            )
        return np.sort(split[0]), np.sort(split[1])

    def _rows(self, what: str, side: ArrayLike) -> IntArray:
        """Return the numbers of rows, which may come as a mask."""
        n_given, rows = len(self.targets), np.asarray(side)
        if rows.dtype == bool and rows.shape == (n_given,):
            return np.flatnonzero(rows)
        whole = rows.ndim == 1 and (rows.dtype.kind in "iu" or rows.size == 0)
        if not whole or (rows.size > 0 and not 0 <= rows.min() <= rows.max() < n_given):
            raise InputError(
                f"{what} must hold numbers of rows from 0 to {n_given - 1}; got "
                f"{np.array2string(rows, threshold=6)}."
            )
        return rows.astype(np.int64)


@dataclass(frozen=True, eq=False)
class ValidationArguments:
    """The validation rows of a fit as a user gave them; ``name`` is that of the argument."""

    table: TableLike = field(repr=False)
    targets: ArrayLike = field(repr=False)
    weight: ArrayLike | None = field(repr=False)
    name: str

    @classmethod
    def of(
        cls,
        owner: str,
        eval_set: EvalSet,
        X_val: TableLike | None,
        y_val: ArrayLike | None,
        sample_weight_val: ArrayLike | None,
    ) -> Self | None:
        """Return the validation rows, None if there are none; messages name ``owner``."""
        if eval_set is not None and (X_val is not None or y_val is not None):
            raise InputError(
                f"{owner}: eval_set and X_val, y_val both give validation rows; give one of them."
            )
        if eval_set is not None:
            listed = isinstance(eval_set, list) and len(eval_set) == 1
            pair = eval_set[0] if listed else eval_set
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise InputError(
                    f"{owner}: eval_set must be a pair (X, y), or a list with one such pair; "
                    f"several sets are not supported."
                )
            table, targets = pair
            return cls(table, targets, sample_weight_val, "eval_set")
        if (X_val is None) != (y_val is None):
            missing, given = ("X_val", "y_val") if X_val is None else ("y_val", "X_val")
            raise InputError(f"{owner}: {given} is given and {missing} is not; give both.")
        if X_val is not None and y_val is not None:
            return cls(X_val, y_val, sample_weight_val, "X_val")
        if sample_weight_val is not None:
            raise InputError(
                f"{owner}: sample_weight_val weights the rows of X_val, which is not given."
            )
        return None


def rows_with_weight(
    owner: str, sample_weight: ArrayLike | None, X: TableLike, *others: ArrayLike
) -> IntArray | None:
    """Return the numbers of the rows with a weight, None if all have one.

    None too if lengths differ, which is refused later.
    """
    if sample_weight is None:
        return None
    try:
        n_rows = _num_samples(X)
        lengths = {n_rows, *map(_num_samples, (sample_weight, *others))}
    except TypeError:
        return None
    if len(lengths) > 1:
        return None
    weight = checked_weights(sample_weight, n_rows, owner)
    used = np.flatnonzero(relative_weights(weight, weight.max()) > 0)
    return used if len(used) < n_rows else None


def take_given_rows(X: Any, rows: IntArray) -> Any:
    """Return some rows of a table, or some entries of targets or weights, that a user gave."""
    from sklearn.utils import _safe_indexing

    if isinstance(X, RowTable):
        return X.keep_rows(rows)
    if given_memory() is not None and MappedRows.can_map(X):
        X = MappedRows(X)
    if sp.issparse(X):
        # Not every sparse format has rows that can be taken.
        X = X.tocsr()
    return take_rows(X, rows) if isinstance(X, LazyRows) else _safe_indexing(X, rows)


@dataclass(frozen=True, eq=False)
class EvalRows:
    """Validation rows as given, with checked targets and sample weights above 0.

    ``name`` is that of the argument that gave them.
    """

    table: TableLike = field(repr=False)
    targets: AnyArray = field(repr=False)
    weight: FloatArray | None = field(repr=False)
    name: str

    @classmethod
    def of(cls, model: StatefulEstimator, given: ValidationArguments) -> Self:
        """Return validation rows with their targets checked; rows of weight 0 are left out."""
        owner, table, weight = type(model).__name__, given.table, None
        if isinstance(table, (RowTable, LazyRows)):
            raise InputError(
                f"{owner}: {given.name} must be rows in memory, not a table on the disk."
            )
        y = validated_targets(model, model._plain_targets(given.targets), **model._target_options)
        targets, n_rows = model._check_targets(y), _num_samples(table)
        if len(targets) != n_rows:
            raise InputError(f"{owner}: {given.name} has {n_rows} rows and {len(targets)} targets.")
        if given.weight is not None:
            weight = checked_weights(given.weight, n_rows, f"{owner}: sample_weight_val")
            positive = np.flatnonzero(weight > 0)
            if len(positive) < n_rows:
                table, targets = take_given_rows(table, positive), targets[positive]
                weight = weight[positive]
        return cls(table, targets, weight, given.name)

    def weight_like(self, training: FloatArray | None) -> FloatArray | None:
        """Return weights with the mean of those of the training rows, None if neither have any.

        Only the proportions among validation rows matter.
        """
        if training is None and self.weight is None:
            return None
        weight = np.ones(len(self.targets)) if self.weight is None else self.weight
        weight = weight / weight.max()
        return weight * (1.0 if training is None else training.mean()) / weight.mean()

    def inputs(self, model: StatefulEstimator, rows: Rows) -> Rows:
        """Return the inputs, with as many columns as those of the training rows."""
        if isinstance(rows, LazyRows):
            raise InputError(
                f"{type(model).__name__}: {self.name} needs training rows in memory; give cv for "
                f"rows on the disk."
            )
        inputs = model.inputs_.transform(model, self.table)
        return sp.csr_array(inputs) if sp.issparse(rows) else inputs

    def codes(
        self, model: StatefulEstimator, encoder: TargetEncoder, targets: AnyArray
    ) -> AnyArray:
        """Return the encoded targets, which must be like those of the training rows."""
        name = type(model).__name__
        if self.targets.shape[1:] != targets.shape[1:]:
            raise InputError(
                f"{name}: targets of {self.name} have the shape {self.targets.shape}, those of the "
                f"training rows {targets.shape}."
            )
        if isinstance(encoder, NumberEncoder):
            model._named_loss().check_targets(self.targets)
        if isinstance(encoder, ClassEncoder):
            unknown = ~np.isin(self.targets, encoder.classes)
            if unknown.any():
                label = self.targets[unknown].tolist()[0]
                raise InputError(
                    f"{name}: {self.name} has the label {label!r}, which no training row has."
                )
        return encoder.encode(self.targets)


def told_cv(cv: object, groups: IntArray | None) -> str:
    """Return in a few words which rows are held back."""
    if cv is None:
        told = "by rule"
    elif isinstance(cv, (int, np.integer)):
        told = f"{cv} folds"
    else:
        told = _short(cv)
    return told if groups is None else f"{told}, {int(groups.max()) + 1} groups kept together"


def _short(cv: object) -> str:
    """Return a splitter as text; of pairs of rows only that there are some."""
    pairs = isinstance(cv, Iterable) and not isinstance(cv, str)
    return "given splits" if pairs else repr(cv)[:_LONGEST]


def _numbered(owner: str, groups: ArrayLike, n_rows: int) -> tuple[AnyArray, IntArray]:
    """Return the names of groups, and the number of each row's."""
    exact = exact_labels(groups)
    values = np.asarray(groups) if exact is None else exact
    if values.shape != (n_rows,):
        raise InputError(
            f"{owner}: groups must be one a row, of shape ({n_rows},); got shape {values.shape}."
        )
    refuse_missing(groups if isinstance(groups, list) else values, owner, "group")
    try:
        names, numbers = np.unique(values, return_inverse=True)
    except TypeError as fault:
        raise InputError(
            f"{owner}: groups must be all numbers or all text, so that equal ones can be values; "
            f"{fault}."
        ) from fault
    return names, numbers.reshape(-1)
