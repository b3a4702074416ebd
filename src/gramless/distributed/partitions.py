"""Dask collections as partitions that hold the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import dask.array as da
import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed

from gramless.base.errors import InputError

Collection: TypeAlias = Any
"""Rows as a Dask array or data frame; their targets also as a column of it, or in memory."""
Part = tuple[Delayed, Delayed, Delayed | None, Delayed | None]
"""A partition's rows, targets, weights and groups."""


@dataclass(frozen=True)
class Sizes:
    """How many rows choose, and how many a block has; only these change the bits of a fit."""

    sample_rows: int = 100_000
    """That choose; of fewer rows all do."""
    least_block: int = 1 << 16
    most_block: int = 1 << 20
    n_blocks: int = 64
    """Small partitions are joined to blocks of so many parts of all rows, between the two."""

    def blocks(self, lengths: list[int]) -> list[list[int]]:
        """Return which partitions make up each block: one, or neighbours that have few rows.

        Examples
        --------
        >>> Sizes(least_block=16_384).blocks([10_000, 10_000, 20_000, 3, 0])
        [[0, 1], [2], [3, 4]]
        """
        most = int(np.clip(sum(lengths) // self.n_blocks, self.least_block, self.most_block))
        blocks: list[list[int]] = [[]]
        n_rows = 0
        for i, length in enumerate(lengths):
            if n_rows >= most:
                blocks.append([])
                n_rows = 0
            blocks[-1].append(i)
            n_rows += length
        return blocks


@dataclass(frozen=True)
class Partitions:
    """The partitions of a table, and how many rows each has; None where nobody knows."""

    parts: list[Part]
    lengths: list[int] | None

    @classmethod
    def of(
        cls, owner: str, X: Collection, y: Collection, weight: Collection, groups: Collection
    ) -> Partitions:
        """Take apart collections of the same rows; messages name the estimator ``owner``."""
        lengths = lengths_of(owner, X)
        rows = row_parts(owner, X)
        given = {"y": y, "sample_weight": weight, "groups": groups}
        others = [
            [None] * len(rows) if own is None else _parts_like(owner, name, own, rows, lengths)
            for name, own in given.items()
        ]
        return cls(list(zip(rows, *others, strict=True)), lengths)


def row_parts(owner: str, X: Collection) -> list[Delayed]:
    """Return the partitions of rows; refuse what is no collection of rows."""
    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise InputError(f"{owner}: X must have two dimensions, got shape {X.shape}.")
        if X.numblocks[1] != 1:
            raise InputError(
                f"{owner}: X is cut into {X.numblocks[1]} blocks of columns, and a row must be in "
                f"one block; use X.rechunk({{1: -1}})."
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
    """Return the rows of each partition; None where the collection does not know."""
    if not isinstance(X, da.Array) or any(np.isnan(own) for own in X.chunks[0]):
        return None
    return [int(own) for own in X.chunks[0]]


def _parts_like(
    owner: str, name: str, own: Collection, rows: list[Delayed], lengths: list[int] | None
) -> list[Delayed]:
    """Return the partitions of what belongs to the rows, cut as these are."""
    if not is_dask_collection(own):
        if lengths is None:
            raise InputError(
                f"{owner}: {name} is no Dask collection, and X does not know how many rows its "
                f"partitions have; give {name} as a column of the same data frame, or call "
                f"X.to_dask_array(lengths=True)."
            )
        own = np.asarray(own)
        _check_length(owner, name, len(own), sum(lengths))
        own = da.from_array(own, chunks=(tuple(lengths), *own.shape[1:]))
    if isinstance(own, da.Array):
        found = lengths_of(owner, own)
        if found is not None and lengths is not None and found != lengths:
            _check_length(owner, name, sum(found), sum(lengths))
            own = own.rechunk({0: tuple(lengths)})
        own = own.rechunk({1: -1}) if own.ndim == 2 else own
        parts = list(own.to_delayed().reshape(-1))
    else:
        parts = list(own.to_delayed())
    if len(parts) != len(rows):
        raise InputError(
            f"{owner}: X has {len(rows)} partitions and {name} {len(parts)}, and nobody knows "
            f"which rows belong together; take both from one data frame, or repartition one like "
            f"the other."
        )
    return parts


def _check_length(owner: str, name: str, found: int, n_rows: int) -> None:
    if found != n_rows:
        raise InputError(f"{owner}: X has {n_rows:,} rows and {name} {found:,}; give one a row.")
