"""The rows of a fit as a user gave them, their folds, and separate validation rows."""

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
from gramless.base.lazy_rows import LazyRows, MappedRows, take_rows
from gramless.base.memory import fit_memory_limit
from gramless.base.state import StatefulEstimator
from gramless.base.types import (
    AnyArray,
    FloatArray,
    IntArray,
    NamedColumns,
    RowTable,
    TableLike,
)
from gramless.estimators.inputs import RowInputs
from gramless.estimators.parameters import check_count
from gramless.estimators.targets import (
    ClassEncoder,
    NumberEncoder,
    TargetEncoder,
    TargetReader,
    check_not_missing,
)
from gramless.losses import Loss
from gramless.preprocessing.rows import Rows, checked_weights, relative_weights
from gramless.selection.splits import Folds, Split, class_folds, group_folds

EvalSet = tuple[TableLike, ArrayLike] | list[tuple[TableLike, ArrayLike]] | None

_N_FOLDS = 5
_MAX_CHARACTERS = 200  # longer representations of splitters are cut off


@dataclass(frozen=True, eq=False)
class GivenRows:
    """The rows of a fit as the user gave them, for splitters and scorers.

    Attributes
    ----------
    table : table
        All training rows.
    targets : array (n_rows, ...)
        Targets of all rows.
    used : array of int
        Indices of the rows with a positive sample weight.
    weight : array (n_used,) or None
        Sample weights of the used rows, relative to the largest.
    group_names : array (n_groups,) or None
        Names of the groups.
    groups : array (n_rows,) of int, or None
        Index of each row's group.
    later : table or None
        Separate validation rows, which follow the rows of ``table``.
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
        """Return the rows after checks of the groups, of which at least two are needed.

        Targets and weights are those of the rows ``used``, by default all rows. ``owner`` is the
        estimator, which is named in error messages.
        """
        if used is None:
            used = np.arange(len(targets)) if weight is None else np.flatnonzero(weight > 0)
            used_weight = None if weight is None else weight[used]
        else:
            # The targets of the other rows are never read.
            used_weight, used_targets = weight, targets
            targets = np.resize(targets[:1], (_num_samples(table), *targets.shape[1:]))
            targets[used] = used_targets
        if groups is None:
            return cls(table, targets, used, used_weight, None, None)
        names, indices = _unique_groups(type(owner).__name__, groups, len(targets))
        if len(np.unique(indices[used])) < 2:
            only = names.tolist()[indices[used[0]]]
            raise InputError(
                f"{type(owner).__name__}: all rows are in the group {only!r}, so no group is left "
                f"for validation; omit groups, or give at least two."
            )
        return cls(table, targets, used, used_weight, names, indices)

    def keep_used(self, positions: IntArray) -> GivenRows:
        """Return these rows with the used rows restricted to those at ``positions``."""
        weight = None if self.weight is None else self.weight[positions]
        return replace(self, used=self.used[positions], weight=weight)

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

    def rows_at(self, indices: IntArray) -> TableLike:
        """Return rows as given, which must be separate validation rows if there are any."""
        from sklearn.utils import _safe_indexing

        if self.later is None:
            return _safe_indexing(self.table, indices)
        n_later = _num_samples(self.later)
        return _safe_indexing(self.later, indices - (len(self.targets) - n_later))

    def folds(self, owner: BaseEstimator, classes: IntArray | None, seed: int) -> Folds | None:
        """Return the folds of the used rows by the parameter ``cv``, or None by default.

        ``classes`` holds the class of each used row. Groups alone give five folds.
        """
        if self.later is not None:
            return self._separate_fold(owner)
        if owner.cv is None and self.groups is None:
            return None
        groups, n_units, what = None, len(self.used), "rows"
        if self.groups is not None:
            groups = np.unique(self.groups[self.used], return_inverse=True)[1].reshape(-1)
            n_units, what = int(groups.max()) + 1, "groups"
        if owner.cv is not None and not isinstance(owner.cv, (int, np.integer)):
            return Folds(self._given_folds(owner), groups)
        n_folds = _N_FOLDS if owner.cv is None else check_count(owner, "cv", low=2)
        if owner.cv is not None and n_folds > n_units:
            raise InputError(
                f"{type(owner).__name__}: cv={n_folds} folds need as many {what}, and there are "
                f"{n_units}; lower cv."
            )
        if groups is None:
            return Folds(class_folds(n_units, n_folds, seed, classes))
        return Folds(group_folds(groups, n_folds, seed, classes), groups)

    def _separate_fold(self, owner: BaseEstimator) -> Folds:
        if owner.cv is not None:
            raise InputError(
                f"{type(owner).__name__}: cv={_short(owner.cv)} and eval_set or X_val both define "
                f"the validation rows; give one of them."
            )
        n_later, n_rows = _num_samples(self.later), len(self.used)
        split = np.arange(n_rows - n_later), np.arange(n_rows - n_later, n_rows)
        if self.groups is None:
            return Folds([split])
        groups = np.unique(self.groups[self.used[split[0]]], return_inverse=True)[1].reshape(-1)
        return Folds([split], np.append(groups, np.full(n_later, groups.max() + 1)))

    def _given_folds(self, owner: BaseEstimator) -> list[Split]:
        """Return the folds of a splitter like scikit-learn's, or of pairs, after checks."""
        from sklearn.model_selection import check_cv

        name, rows = type(owner).__name__, self.table
        if isinstance(rows, NamedColumns):
            # scikit-learn cannot index such a table; splitters need only the number of rows.
            rows = np.arange(len(self.targets)).reshape(-1, 1)
        parts: tuple[Any, ...] = rows, self.targets, self.groups
        splits_used = not isinstance(owner.cv, Iterable) and len(self.used) < len(self.targets)
        if splits_used:
            # A splitter gets no rows of weight 0. Pairs of indices refer to all rows.
            parts = tuple(None if x is None else take_given_rows(x, self.used) for x in parts)
        try:
            pairs = list(check_cv(owner.cv).split(*parts))
            if splits_used:
                pairs = [tuple(self.used[np.asarray(part)] for part in pair) for pair in pairs]
        except (ValueError, TypeError) as fault:
            raise InputError(
                f"{name}: cv={_short(owner.cv)}: {str(fault).rstrip('.')}; give a splitter that "
                f"suits the rows, or pairs (training rows, validation rows)."
            ) from fault
        if not pairs:
            raise InputError(f"{name}: cv={_short(owner.cv)} yields no folds; give at least one.")
        return [self._check_fold(f"{name}: fold {k} of cv", pair) for k, pair in enumerate(pairs)]

    def _check_fold(self, what: str, pair: Iterable[ArrayLike]) -> Split:
        """Return a fold as positions of used rows; raise InputError if a side is invalid."""
        try:
            training, validation = (self._row_indices(what, side) for side in pair)
        except (TypeError, ValueError) as fault:
            if isinstance(fault, InputError):
                raise
            raise InputError(f"{what} is not a pair (training rows, validation rows).") from fault
        both = np.concatenate([training, validation])
        rows, counts = np.unique(both, return_counts=True)
        if (counts > 1).any():
            raise InputError(
                f"{what} contains row {rows[counts > 1][0]} more than once; each row can occur "
                f"once, on one side."
            )
        if self.groups is not None and self.group_names is not None:
            shared = np.intersect1d(self.groups[training], self.groups[validation])
            if len(shared) > 0:
                name = self.group_names.tolist()[shared[0]]
                raise InputError(
                    f"{what} has rows of the group {name!r} on both sides; use a splitter that "
                    f"keeps groups together, such as GroupKFold, or cv=None."
                )
        position = np.full(len(self.targets), -1)
        position[self.used] = np.arange(len(self.used))
        split = position[training], position[validation]
        split = split[0][split[0] >= 0], split[1][split[1] >= 0]
        if min(map(len, split)) == 0:
            side = "training rows" if len(split[0]) == 0 else "validation rows"
            raise InputError(
                f"{what} has no {side}, or all their sample weights are 0; give folds with rows on "
                f"both sides."
            )
        return np.sort(split[0]), np.sort(split[1])

    def _row_indices(self, what: str, side: ArrayLike) -> IntArray:
        """Return the indices of rows that are given by indices or a mask."""
        n_given, rows = len(self.targets), np.asarray(side)
        if rows.dtype == bool and rows.shape == (n_given,):
            return np.flatnonzero(rows)
        are_integers = rows.ndim == 1 and (rows.dtype.kind in "iu" or rows.size == 0)
        if not are_integers or (rows.size > 0 and not 0 <= rows.min() <= rows.max() < n_given):
            raise InputError(
                f"{what} must hold row indices from 0 to {n_given - 1}; got "
                f"{np.array2string(rows, threshold=6)}."
            )
        return rows.astype(np.int64)


@dataclass(frozen=True, eq=False)
class ValidationArguments:
    """The separate validation rows of a fit as given by the argument ``name``."""

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
        """Return the validation rows, or None; ``owner`` is named in error messages."""
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
            raise InputError(f"{owner}: sample_weight_val needs X_val, which is not given.")
        return None


def rows_with_weight(
    owner: str, sample_weight: ArrayLike | None, X: TableLike, *others: ArrayLike
) -> IntArray | None:
    """Return the indices of the rows with a positive weight, or None if all are positive.

    It is None too if lengths differ, because a later check raises an error then.
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
    """Return some rows of a table, or some entries of targets or weights."""
    from sklearn.utils import _safe_indexing

    if isinstance(X, RowTable):
        return X.keep_rows(rows)
    if fit_memory_limit() is not None and MappedRows.can_map(X):
        X = MappedRows(X)
    if sp.issparse(X):
        # Some sparse formats cannot be indexed by rows.
        X = X.tocsr()
    return take_rows(X, rows) if isinstance(X, LazyRows) else _safe_indexing(X, rows)


@dataclass(frozen=True, eq=False)
class EvalRows:
    """Separate validation rows with checked targets and positive sample weights.

    ``name`` is the name of the argument they were given by.
    """

    table: TableLike = field(repr=False)
    targets: AnyArray = field(repr=False)
    weight: FloatArray | None = field(repr=False)
    name: str

    @classmethod
    def of(cls, model: StatefulEstimator, reader: TargetReader, given: ValidationArguments) -> Self:
        """Return validation rows after checks, without rows of weight 0."""
        owner, table, weight = type(model).__name__, given.table, None
        if isinstance(table, (RowTable, LazyRows)):
            raise InputError(
                f"{owner}: {given.name} must be rows in memory, not a table on the disk."
            )
        targets, n_rows = reader.read(model, given.targets), _num_samples(table)
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
        """Return weights scaled to the mean weight of the training rows, or None without any."""
        if training is None and self.weight is None:
            return None
        weight = np.ones(len(self.targets)) if self.weight is None else self.weight
        weight = weight / weight.max()
        return weight * (1.0 if training is None else training.mean()) / weight.mean()

    def encoded(self, model: StatefulEstimator, inputs: RowInputs, rows: Rows) -> Rows:
        """Return the inputs, sparse if those of the training rows are."""
        if isinstance(rows, LazyRows):
            raise InputError(
                f"{type(model).__name__}: {self.name} needs training rows in memory; give cv for "
                f"rows on the disk."
            )
        encoded = inputs.transform(model, self.table)
        return sp.csr_array(encoded) if sp.issparse(rows) else encoded

    def codes(self, owner: str, encoder: TargetEncoder, targets: AnyArray, loss: Loss) -> AnyArray:
        """Return the encoded targets; raise InputError if they differ in kind from training."""
        if self.targets.shape[1:] != targets.shape[1:]:
            raise InputError(
                f"{owner}: targets of {self.name} have the shape {self.targets.shape}, those of "
                f"the training rows {targets.shape}."
            )
        if isinstance(encoder, NumberEncoder):
            loss.check_targets(self.targets)
        if isinstance(encoder, ClassEncoder):
            is_unknown = ~np.isin(self.targets, encoder.classes)
            if is_unknown.any():
                label = self.targets[is_unknown].tolist()[0]
                raise InputError(
                    f"{owner}: {self.name} has the label {label!r}, which no training row has."
                )
        return encoder.encode(self.targets)


def describe_cv(cv: object, groups: IntArray | None) -> str:
    """Return a short description of the parameter ``cv`` and of the groups."""
    if cv is None:
        text = "by rule"
    elif isinstance(cv, (int, np.integer)):
        text = f"{cv} folds"
    else:
        text = _short(cv)
    return text if groups is None else f"{text}, {int(groups.max()) + 1} groups kept together"


def _short(cv: object) -> str:
    are_pairs = isinstance(cv, Iterable) and not isinstance(cv, str)
    return "given splits" if are_pairs else repr(cv)[:_MAX_CHARACTERS]


def _unique_groups(owner: str, groups: ArrayLike, n_rows: int) -> tuple[AnyArray, IntArray]:
    """Return the names of the groups, and the index of each row's group."""
    exact = exact_labels(groups)
    values = np.asarray(groups) if exact is None else exact
    if values.shape != (n_rows,):
        raise InputError(
            f"{owner}: groups must have the shape ({n_rows},), one per row; got {values.shape}."
        )
    check_not_missing(groups if isinstance(groups, list) else values, owner, "group")
    try:
        names, indices = np.unique(values, return_inverse=True)
    except TypeError as fault:
        raise InputError(
            f"{owner}: groups must be all numbers or all text, so that they can be compared; "
            f"{fault}."
        ) from fault
    return names, indices.reshape(-1)
