"""Predictions of collections, made when they are asked for."""

from __future__ import annotations

import dask.array as da
import numpy as np
from dask.delayed import delayed

from gramless.base.types import AnyArray
from gramless.distributed.blocks import Table, n_rows_of
from gramless.distributed.partitions import Collection, lengths_of, row_parts
from gramless.estimators.base import KernelMachine


def predicted(
    owner: str,
    model: KernelMachine,
    method: str,
    X: Collection,
    like: AnyArray,
    **options: object,
) -> da.Array:
    """Return what a method of a fitted model answers for each partition, as a lazy array.

    ``like`` is an answer for no rows. The rows of each partition are predicted where they are; a
    partition whose worker died is predicted again by another.
    """
    known = delayed(model, pure=False, traverse=False)
    lengths, parts = lengths_of(owner, X), row_parts(owner, X)
    task = delayed(_answer, pure=False)
    found = []
    for i, part in enumerate(parts):
        rows = np.nan if lengths is None else lengths[i]
        answer = task(known, method, part, like, **options)
        found.append(da.from_delayed(answer, (rows, *like.shape[1:]), meta=like))
    return da.concatenate(found, allow_unknown_chunksizes=True)


def _answer(
    model: KernelMachine, method: str, X: Table, like: AnyArray, **options: object
) -> AnyArray:
    """Return an answer for the rows of a partition, of which there may be none.

    Several arrays, such as the bounds of intervals, become one with another last axis.
    """
    if n_rows_of(X) == 0:
        return like
    answer = getattr(model, method)(X, **options)
    return np.stack(answer, axis=-1) if isinstance(answer, tuple) else answer
