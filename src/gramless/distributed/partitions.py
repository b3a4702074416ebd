"""Split Dask collections of rows, targets, weights and groups into matching partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import dask.array as da
import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed

from gramless.base.errors import InputError

Collection: TypeAlias = Any  # a Dask array, data frame or column, or an array in memory
Part = tuple[Delayed, Delayed, Delayed | None, Delayed | None]  # rows, targets, weights, groups


@dataclass(frozen=True)
class Sizes:
    """The only sizes that affect the fitted result, bit for bit.

    ``sample_rows`` is the maximum number of rows for model selection. Consecutive partitions are
    merged until a block reaches ``n_rows / n_blocks`` rows, clipped to ``[min_block_rows,
    max_block_rows]``. The last block may be smaller; a block of large partitions may be larger.
    """

    sample_rows: int = 100_000
    min_block_rows: int = 1 << 16
    max_block_rows: int = 1 << 20
    n_blocks: int = 64

    def blocks(self, lengths: list[int]) -> list[list[int]]:
        """Return the indices of the partitions of each block, given the rows of each partition.

        Examples
        --------
        >>> Sizes(min_block_rows=16_384).blocks([10_000, 10_000, 20_000, 3, 0])
        [[0, 1], [2], [3, 4]]
        """
        mean_rows = sum(lengths) // self.n_blocks
        min_rows = int(np.clip(mean_rows, self.min_block_rows, self.max_block_rows))
        blocks: list[list[int]] = [[]]
        n_rows = 0
        for i, length in enumerate(lengths):
            if n_rows >= min_rows:
                blocks.append([])
                n_rows = 0
            blocks[-1].append(i)
            n_rows += length
        return blocks


@dataclass(frozen=True)
class Partitions:
    """The partitions of a table and their numbers of rows; ``lengths`` is None if unknown."""

    parts: list[Part]
    lengths: list[int] | None

    @classmethod
    def of(
        cls, owner: str, X: Collection, y: Collection, weight: Collection, groups: Collection
    ) -> Partitions:
        """Split collections of the same rows into the partitions of X.

        Error messages start with ``owner``, the name of the estimator.
        """
        lengths = lengths_of(owner, X)
        rows = row_parts(owner, X)
        given = {"y": y, "sample_weight": weight, "groups": groups}
        others = [
            [None] * len(rows)
            if values is None
            else _parts_like(owner, name, values, rows, lengths)
            for name, values in given.items()
        ]
        return cls(list(zip(rows, *others, strict=True)), lengths)


def row_parts(owner: str, X: Collection) -> list[Delayed]:
    """Return the partitions of rows; raise InputError if X is not a collection of rows."""
    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise InputError(f"{owner}: X must have two dimensions, got shape {X.shape}.")
        if X.numblocks[1] != 1:
            raise InputError(
                f"{owner}: X is split into {X.numblocks[1]} blocks of columns, but a row must be "
                f"in one block; use X.rechunk({{1: -1}})."
            )
        return list(X.to_delayed().reshape(-1))
    if is_dask_collection(X) and hasattr(X, "to_delayed") and hasattr(X, "npartitions"):
        return list(X.to_delayed())
    raise InputError(
        f"{owner}: X must be a Dask array or data frame, got {type(X).__name__}; make one with "
        f"dask.array.from_array or dask.dataframe.from_pandas, or use "
        f"{owner.removeprefix('Dask')}."
    )


def lengths_of(owner: str, X: Collection) -> list[int] | None:
    """Return the number of rows of each partition; None if they are unknown.

    They are known only for Dask arrays with known chunks.
    """
    if not isinstance(X, da.Array) or any(np.isnan(length) for length in X.chunks[0]):
        return None
    return [int(length) for length in X.chunks[0]]


def _parts_like(
    owner: str, name: str, values: Collection, rows: list[Delayed], lengths: list[int] | None
) -> list[Delayed]:
    """Return the partitions of values, split like the rows."""
    if not is_dask_collection(values):
        if lengths is None:
            raise InputError(
                f"{owner}: {name} is not a Dask collection, and the partition lengths of X are "
                f"unknown; give {name} as a column of the same data frame, or call "
                f"X.to_dask_array(lengths=True)."
            )
        values = np.asarray(values)
        _check_length(owner, name, len(values), sum(lengths))
        values = da.from_array(values, chunks=(tuple(lengths), *values.shape[1:]))
    if isinstance(values, da.Array):
        known = lengths_of(owner, values)
        if known is not None and lengths is not None and known != lengths:
            _check_length(owner, name, sum(known), sum(lengths))
            values = values.rechunk({0: tuple(lengths)})
        values = values.rechunk({1: -1}) if values.ndim == 2 else values
        parts = list(values.to_delayed().reshape(-1))
    else:
        parts = list(values.to_delayed())
    if len(parts) != len(rows):
        raise InputError(
            f"{owner}: X has {len(rows)} partitions and {name} {len(parts)}, so that it is unknown "
            f"which rows belong together; take both from one data frame, or repartition one like "
            f"the other."
        )
    return parts


def _check_length(owner: str, name: str, n_values: int, n_rows: int) -> None:
    if n_values != n_rows:
        raise InputError(
            f"{owner}: X has {n_rows:,} rows and {name} {n_values:,}; give one per row."
        )
