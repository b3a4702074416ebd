"""Rows that judge every choice of a fit and are never fitted: ``eval_set``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _num_samples

from gramless.base.errors import InputError
from gramless.base.lazy_rows import LazyRows
from gramless.base.state import StatefulEstimator
from gramless.base.types import AnyArray, RowTable, TableLike
from gramless.estimators.targets import ClassEncoder, NumberEncoder, TargetEncoder
from gramless.preprocessing.rows import Rows, validated_targets

EvalSet = tuple[TableLike, ArrayLike] | list[tuple[TableLike, ArrayLike]] | None


@dataclass(frozen=True, eq=False)
class EvalRows:
    """Rows as given, and their checked targets."""

    table: TableLike = field(repr=False)
    targets: AnyArray = field(repr=False)

    @classmethod
    def of(cls, model: StatefulEstimator, eval_set: Any) -> EvalRows:
        """Return the rows of a pair (X, y), or of a list that holds one; refuse anything else."""
        name = type(model).__name__
        listed = isinstance(eval_set, list) and len(eval_set) == 1
        pair = eval_set[0] if listed else eval_set
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise InputError(
                f"{name}: eval_set must be a pair (X, y), or a list with one such pair: one set "
                f"judges."
            )
        table, y = pair
        if isinstance(table, (RowTable, LazyRows)):
            raise InputError(f"{name}: eval_set must be rows in memory, not a table on the disk.")
        options = model._target_options
        y = validated_targets(model, model._plain_targets(y), **options)
        targets, n_rows = model._check_targets(y), _num_samples(table)
        if len(targets) != n_rows:
            raise InputError(f"{name}: eval_set has {n_rows} rows and {len(targets)} targets.")
        return cls(table, targets)

    def inputs(self, model: StatefulEstimator, rows: Rows) -> Rows:
        """Return the inputs, with as many columns as those of the training rows."""
        if isinstance(rows, LazyRows):
            raise InputError(
                f"{type(model).__name__}: eval_set needs training rows in memory; give cv for rows "
                f"on the disk."
            )
        return model.inputs_.transform(model, self.table)

    def codes(
        self, model: StatefulEstimator, encoder: TargetEncoder, targets: AnyArray
    ) -> AnyArray:
        """Return the encoded targets, which must be like those of the training rows."""
        name = type(model).__name__
        if self.targets.shape[1:] != targets.shape[1:]:
            raise InputError(
                f"{name}: targets of eval_set have the shape {self.targets.shape}, those of the "
                f"training rows {targets.shape}."
            )
        if isinstance(encoder, NumberEncoder):
            model._named_loss().check_targets(self.targets)
        if isinstance(encoder, ClassEncoder):
            unknown = ~np.isin(self.targets, encoder.classes)
            if unknown.any():
                label = self.targets[unknown].tolist()[0]
                raise InputError(
                    f"{name}: eval_set has the label {label!r}, which no training row has."
                )
        return encoder.encode(self.targets)
