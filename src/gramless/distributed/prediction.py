"""Predictions of collections, made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import dask.array as da
import numpy as np
from dask.delayed import delayed

from gramless.base.types import AnyArray
from gramless.distributed.blocks import Table, n_rows_of
from gramless.distributed.partitions import Collection, lengths_of, row_parts
from gramless.estimators.base import KernelMachine
from gramless.estimators.regressor import KernelRegressor

Question: TypeAlias = Callable[[KernelMachine, Table], AnyArray]
"""What a fitted model answers for rows."""


def predicted(
    owner: str, model: KernelMachine, question: Question, X: Collection, like: AnyArray
) -> da.Array:
    """Return what a fitted model answers for each partition, as a lazy array.

    ``like`` is an answer for no rows. The rows of each partition are predicted where they are; a
    partition whose worker died is predicted again by another.
    """
    known = delayed(model, pure=False, traverse=False)
    lengths, parts = lengths_of(owner, X), row_parts(owner, X)
    task = delayed(_answer, pure=False)
    found = []
    for i, part in enumerate(parts):
        rows = np.nan if lengths is None else lengths[i]
        answer = task(known, question, part, like)
        found.append(da.from_delayed(answer, (rows, *like.shape[1:]), meta=like))
    return da.concatenate(found, allow_unknown_chunksizes=True)


def _answer(model: KernelMachine, question: Question, X: Table, like: AnyArray) -> AnyArray:
    """Return an answer for the rows of a partition, of which there may be none."""
    return like if n_rows_of(X) == 0 else question(model, X)


def method(name: str, **options: Any) -> Question:
    """Return the question that a method of models answers."""
    return partial(_called, name=name, **options)


def _called(model: KernelMachine, X: Table, *, name: str, **options: object) -> AnyArray:
    answer: AnyArray = getattr(model, name)(X, **options)
    return answer


def bounds_of(model: KernelRegressor, X: Table, *, coverage: float) -> AnyArray:
    """Return the bounds of intervals, the lower ones first: (n_samples, 2) or (n_samples, K, 2)."""
    both: AnyArray = np.stack(model.predict_interval(X, coverage), axis=-1)
    return both
