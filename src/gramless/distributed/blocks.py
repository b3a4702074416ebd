"""What workers do with rows: a partition's table becomes a block of codes, and stays one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import _check_y

from gramless.base.errors import InputError
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.distributed.bins import BinColumns, BinKeys, SomeColumns
from gramless.distributed.workspace import Workspace
from gramless.estimators.base import KernelMachine
from gramless.estimators.targets import TargetEncoder
from gramless.features.base import FeatureMap
from gramless.features.grids import Grids
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.codes import take_grid_rows
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import HStack, with_ones
from gramless.preprocessing.rows import Rows, checked_weights, relative_weights
from gramless.preprocessing.scaling import Scaler

Table: TypeAlias = Any
"""A partition of a collection: an array, a sparse matrix or a data frame of pandas."""
Column: TypeAlias = Any
"""Values of a partition, one a row: an array, a series or a data frame with one column."""
GivenPart: TypeAlias = tuple[Table, Column, Column, Column]
"""Rows, targets, weights and groups of a partition; None where not given."""
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Layout:
    """How the features of rows lie side by side.

    ``offsets`` are where the columns of each grid start, None without grids; ``scale`` is the value
    of their non-zeros, and ``scales`` what each part of the features is multiplied by.
    """

    offsets: IntArray | None = field(repr=False)
    scale: float
    scales: FloatArray | None
    intercept: bool

    def matrix(
        self,
        codes: AnyArray | None,
        columns: BinColumns | None,
        others: Sequence[AnyArray],
        work: Workspace,
    ) -> FeatureMatrix:
        """Return the feature matrix of rows, given their bins and their other features.

        ``columns`` are None where codes are the numbers of the bins of all rows.
        """
        parts: list[FeatureMatrix] = [DenseMatrix(own, work.threads) for own in others]
        if codes is not None and self.offsets is not None:
            offsets, scale = (
                (self.offsets, self.scale) if columns is None else (columns.offsets, 1.0)
            )
            bins: FeatureMatrix = BinnedMatrix(
                codes, offsets, scale=scale, has_unseen=False, n_jobs=work.threads
            )
            if columns is not None:
                bins = SomeColumns(bins, columns, self.scale, work)
            parts = [bins, *parts]
        features = parts[0] if self.scales is None else HStack(parts, self.scales)
        return with_ones(features) if self.intercept else features


@dataclass(frozen=True, eq=False)
class RowPlan:
    """What a partition's rows become: a pure function of these rows.

    ``model`` checks and encodes rows and targets as in the fit to the sample. Bins of ``grids``
    are learned from all rows, features of the ``maps`` beside them were learned from the sample.
    """

    model: KernelMachine
    scaler: Scaler
    grids: Grids | None
    maps: list[FeatureMap]
    encoder: TargetEncoder
    largest_weight: float
    class_factors: FloatArray | None

    def block(self, number: int, *given: Column) -> NewBlock:
        """Return the rows of some partitions; a task.

        Partitions are ``given`` one after the other: rows, targets, weights and groups of each. For
        a list of them Dask would go through the tasks of all partitions, once a block.
        """
        parts = [given[i : i + 3] for i in range(0, len(given), 4)]
        codes, keys = None, None
        try:
            pieces = [self._piece(*part) for part in parts if n_rows_of(part[0]) > 0]
            pieces = pieces or [self._nothing()]
            rows, targets, weights = (stacked(list(own)) for own in zip(*pieces, strict=True))
            scaled = self.scaler.rows(rows, 1)
            if self.grids is not None:
                codes, known = self.grids.learn(scaled, 1)
                keys = BinKeys.of_counts(known.keys(), known.n_bins)
            others = [np.asarray(own.transform(scaled)) for own in self.maps]
        except InputError as fault:
            raise InputError(f"rows of block {number}: {fault}") from fault
        return NewBlock(number, codes, others, targets, weights, keys)

    def _piece(
        self, table: Table, y: Column, weight: Column
    ) -> tuple[Rows, FloatArray, FloatArray]:
        """Return inputs, encoded targets and weights of rows that have a weight."""
        options = self.model._target_options
        rows = self.model.inputs_.transform(self.model, table)
        y = _check_y(
            self.model._plain_targets(as_array(y)),
            multi_output=options["multi_output"],
            y_numeric=options.get("y_numeric", False),
        )
        checked = self.model._check_targets(y)
        targets, weights = self.encoder.encode(checked), np.ones(len(checked))
        if self.class_factors is not None:
            weights = self.class_factors[self.encoder.class_numbers(checked)]
        if weight is not None:
            given, n_rows, owner = as_array(weight), len(checked), type(self.model).__name__
            # A block may be without weight, a table not.
            given = checked_weights(given, n_rows, owner) if given.any() else np.zeros(n_rows)
            weights = relative_weights(given, self.largest_weight) * weights
            kept = weights > 0
            rows, targets, weights = rows[kept], targets[kept], weights[kept]
        return rows, targets, weights

    def _nothing(self) -> tuple[Rows, FloatArray, FloatArray]:
        """Return no rows."""
        n_outputs = self.encoder.n_outputs
        shape = (0,) if n_outputs == 1 else (0, n_outputs)
        return np.empty((0, len(self.scaler.knots))), np.empty(shape), np.empty(0)


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Features, encoded targets and weights, relative to the largest, of a block of rows."""

    number: int
    codes: AnyArray | None
    others: list[AnyArray]
    targets: FloatArray
    weights: FloatArray

    def __sizeof__(self) -> int:
        """Return the bytes, by which workers and the scheduler plan."""
        own = 0 if self.codes is None else self.codes.nbytes
        others = sum(part.nbytes for part in self.others)
        return own + others + self.targets.nbytes + self.weights.nbytes


@dataclass(frozen=True, eq=False)
class NewBlock(EncodedRows):
    """Rows whose bins are numbered by their own ``keys``."""

    keys: BinKeys | None

    def numbered(self, known: BinKeys | None, layout: Layout) -> RowBlock:
        """Return the block with the columns its bins have among those of all blocks; a task."""
        codes, columns = self.codes, None
        if known is not None and codes is not None and self.keys is not None:
            # A block from another worker may lie anywhere in memory, and loops be compiled for it.
            codes, columns = np.require(codes, requirements="A"), known.columns(self.keys)
        own = self.number, codes, self.others, self.targets, self.weights
        return RowBlock(*own, columns, layout)

    def __sizeof__(self) -> int:
        return super().__sizeof__() + (0 if self.keys is None else self.keys.keys.nbytes)


@dataclass(frozen=True, eq=False)
class RowBlock(EncodedRows):
    """Rows as a worker keeps them.

    ``columns`` are those of the block's bins, None where codes are the numbers that all blocks
    share. ``memory`` holds what was computed of them last, which can be computed again.
    """

    columns: BinColumns | None
    layout: Layout
    memory: dict[str, tuple[Hashable, Any]] = field(default_factory=dict, repr=False)

    @property
    def n_rows(self) -> int:
        """Number of rows, all of which have a weight."""
        return len(self.weights)

    def matrix(self, work: Workspace) -> FeatureMatrix:
        """Return the feature matrix, for products with the threads and arrays of a workspace."""
        return self.layout.matrix(self.codes, self.columns, self.others, work)

    def remembered(self, name: str, tag: Hashable, make: Callable[[], Made]) -> Made:
        """Return what was made last under a name, or make it if its tag is another one."""
        known = self.memory.get(name)
        if known is None or known[0] != tag:
            self.memory.pop(name, None)
            known = self.memory[name] = tag, make()
        return known[1]

    @contextmanager
    def workspace(self, threads: int) -> Iterator[Workspace]:
        """Lend a workspace that stays with the block, and that no two tasks have at a time."""
        _, work = self.memory.pop("workspace", (None, None))
        work = work or Workspace(threads)
        yield work
        self.memory["workspace"] = None, work

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "memory": {}}

    def take_rows(self, rows: NDArray[np.intp]) -> RowBlock:
        """Return some of the rows, with the numbers of bins that all blocks share."""
        codes = None if self.codes is None else take_grid_rows(self.codes, rows, 1)
        if codes is not None and self.columns is not None:
            codes = self.columns.renumbered(codes)
        others = [own[rows] for own in self.others]
        targets, weights = self.targets[rows], self.weights[rows]
        return RowBlock(self.number, codes, others, targets, weights, None, self.layout)

    def __sizeof__(self) -> int:
        return super().__sizeof__() + (0 if self.columns is None else self.columns.columns.nbytes)


def joined(parts: Sequence[RowBlock]) -> RowBlock:
    """Return the rows of blocks, such as :meth:`RowBlock.taken` returns, as one."""
    first, codes = parts[0], None
    if first.codes is not None:
        codes = np.concatenate([part.codes for part in parts], axis=1)
    others = [np.concatenate(same) for same in zip(*(p.others for p in parts), strict=True)]
    targets = np.concatenate([part.targets for part in parts])
    weights = np.concatenate([part.weights for part in parts])
    return RowBlock(first.number, codes, others, targets, weights, None, first.layout)


def keys_of(block: NewBlock) -> BinKeys | None:
    """Return the keys of a block's bins; a task."""
    return block.keys


def as_array(values: Column) -> AnyArray:
    """Return targets or weights of a partition, a column of a data frame included, as an array."""
    found = np.asarray(values)
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


def n_rows_of(table: Table) -> int:
    """Return the number of rows of a partition."""
    return int(table.shape[0])


def stacked(parts: list[Table]) -> Table:
    """Return arrays, sparse matrices or data frames below each other; columns by their names."""
    if len(parts) == 1:
        return parts[0]
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format="csr")
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import pandas

    return pandas.concat(parts, ignore_index=True)


def take_rows(table: Table, rows: IntArray) -> Table:
    """Return some rows of a partition."""
    return table[rows] if isinstance(table, np.ndarray) or sp.issparse(table) else table.iloc[rows]
