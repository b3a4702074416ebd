"""Blocks of encoded rows on workers, made from the partitions of a collection."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.distributed.bins import BinColumns, BinKeys, SomeColumns
from gramless.distributed.workspace import Workspace
from gramless.estimators.base import KernelMachine
from gramless.estimators.inputs import RowInputs
from gramless.estimators.targets import TargetEncoder, TargetReader
from gramless.features.base import FeatureMap
from gramless.features.grids import Grids
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.codes import take_grid_rows
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import HStack, with_ones
from gramless.preprocessing.rows import Rows, checked_weights, relative_weights
from gramless.preprocessing.scaling import Scaler

Table: TypeAlias = Any  # a partition: an array, a sparse matrix or a data frame of pandas
Column: TypeAlias = Any  # one value per row: an array, a series or a data frame with one column
# Rows, targets, weights and groups of a partition; None if not given.
GivenPart: TypeAlias = tuple[Table, Column, Column, Column]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Layout:
    """The columns of the feature matrix.

    ``offsets`` are the starts of the columns of each grid, None without grids; ``scale`` is the
    value of their non-zeros. ``scales`` are the factors of the parts of the features.
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

        ``columns`` are None if the codes are those of the bins of all rows.
        """
        parts: list[FeatureMatrix] = [DenseMatrix(values, work.threads) for values in others]
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
    """The encoding of the rows of a partition, which is a pure function of these rows.

    ``inputs``, ``reader`` and ``model``, the unfitted local estimator, validate and encode rows and
    targets as in the fit to the sample. The bins of ``grids`` are learned from all rows; the other
    features, ``maps``, were learned from the sample.
    """

    model: KernelMachine
    inputs: RowInputs
    reader: TargetReader
    scaler: Scaler
    grids: Grids | None
    maps: list[FeatureMap]
    encoder: TargetEncoder
    largest_weight: float
    class_factors: FloatArray | None

    def encode_block(self, number: int, *given: Column) -> NewBlock:
        """Return the encoded rows of some partitions as block ``number`` (a task).

        ``given`` has rows, targets, weights and groups of each partition in a flat sequence. With
        a list, Dask would traverse the tasks of all partitions for each block.
        """
        # Groups are needed only to select the model, from the sample.
        parts = [given[i : i + 3] for i in range(0, len(given), 4)]
        codes, keys = None, None
        try:
            pieces = [self._encode(*part) for part in parts if n_rows_of(part[0]) > 0]
            pieces = pieces or [self._empty_rows()]
            rows, targets, weights = (
                concatenate_tables(list(same)) for same in zip(*pieces, strict=True)
            )
            scaled = self.scaler.rows(rows, 1)
            if self.grids is not None:
                codes, known = self.grids.learn(scaled, 1)
                keys = BinKeys.of_counts(known.keys(), known.n_bins)
            others = [np.asarray(feature_map.transform(scaled)) for feature_map in self.maps]
        except InputError as error:
            raise InputError(f"rows of block {number}: {error}") from error
        return NewBlock(number, codes, others, targets, weights, keys)

    def _encode(
        self, table: Table, y: Column, weight: Column
    ) -> tuple[Rows, FloatArray, FloatArray]:
        """Return inputs, encoded targets and weights of rows of positive weight."""
        rows = self.inputs.transform(self.model, table)
        checked = self.reader.read(self.model, as_array(y))
        targets, weights = self.encoder.encode(checked), np.ones(len(checked))
        if self.class_factors is not None:
            weights = self.class_factors[self.encoder.class_numbers(checked)]
        if weight is not None:
            given, n_rows, owner = as_array(weight), len(checked), type(self.model).__name__
            # All weights of a partition may be 0, although those of a table may not.
            given = checked_weights(given, n_rows, owner) if given.any() else np.zeros(n_rows)
            weights = relative_weights(given, self.largest_weight) * weights
            kept = weights > 0
            rows, targets, weights = rows[kept], targets[kept], weights[kept]
        return rows, targets, weights

    def _empty_rows(self) -> tuple[Rows, FloatArray, FloatArray]:
        n_outputs = self.encoder.n_outputs
        shape = (0,) if n_outputs == 1 else (0, n_outputs)
        return np.empty((0, len(self.scaler.knots))), np.empty(shape), np.empty(0)


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Features, encoded targets and relative weights of a block of rows."""

    number: int
    codes: AnyArray | None
    others: list[AnyArray]
    targets: FloatArray
    weights: FloatArray

    def __sizeof__(self) -> int:
        """Return the bytes, which workers and the scheduler use to plan."""
        codes = 0 if self.codes is None else self.codes.nbytes
        others = sum(part.nbytes for part in self.others)
        return codes + others + self.targets.nbytes + self.weights.nbytes


@dataclass(frozen=True, eq=False)
class NewBlock(EncodedRows):
    """Rows whose bins are numbered by the ``keys`` of the block."""

    keys: BinKeys | None

    def with_columns(self, known: BinKeys | None, layout: Layout) -> RowBlock:
        """Return the block with its columns among the bins of all blocks (a task)."""
        codes, columns = self.codes, None
        if known is not None and codes is not None and self.keys is not None:
            # Arrays from another worker may be unaligned, for which loops would be compiled again.
            codes, columns = np.require(codes, requirements="A"), known.columns_of(self.keys)
        return RowBlock(
            self.number, codes, self.others, self.targets, self.weights, columns, layout
        )

    def __sizeof__(self) -> int:
        return super().__sizeof__() + (0 if self.keys is None else self.keys.keys.nbytes)


@dataclass(frozen=True, eq=False)
class RowBlock(EncodedRows):
    """Rows that a worker keeps during a fit.

    ``columns`` are those of the block's bins, or None if the codes are those of the bins of all
    blocks. ``memory`` caches the last result of each name, and the workspace.
    """

    columns: BinColumns | None
    layout: Layout
    memory: dict[str, tuple[Hashable, Any]] = field(default_factory=dict, repr=False)

    @property
    def n_rows(self) -> int:
        """Number of rows, all of which have a positive weight."""
        return len(self.weights)

    def matrix(self, work: Workspace) -> FeatureMatrix:
        """Return the feature matrix, whose products use the threads and arrays of a workspace."""
        return self.layout.matrix(self.codes, self.columns, self.others, work)

    def get_or_compute(self, name: str, tag: Hashable, make: Callable[[], T]) -> T:
        """Return the cached result of this name if it has this tag, else make and cache it."""
        known = self.memory.get(name)
        if known is None or known[0] != tag:
            self.memory.pop(name, None)
            known = self.memory[name] = tag, make()
        return known[1]

    @contextmanager
    def workspace(self, threads: int) -> Iterator[Workspace]:
        """Yield the workspace of the block, which no other task can use meanwhile."""
        _, work = self.memory.pop("workspace", (None, None))
        work = work or Workspace(threads)
        yield work
        self.memory["workspace"] = None, work

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "memory": {}}

    def take_rows(self, rows: NDArray[np.intp]) -> RowBlock:
        """Return some of the rows, with codes of the bins of all blocks."""
        codes = None if self.codes is None else take_grid_rows(self.codes, rows, 1)
        if codes is not None and self.columns is not None:
            codes = self.columns.renumber(codes)
        others = [values[rows] for values in self.others]
        targets, weights = self.targets[rows], self.weights[rows]
        return RowBlock(self.number, codes, others, targets, weights, None, self.layout)

    def __sizeof__(self) -> int:
        return super().__sizeof__() + (0 if self.columns is None else self.columns.columns.nbytes)


def concatenate_blocks(parts: Sequence[RowBlock]) -> RowBlock:
    """Return the concatenation of blocks from :meth:`RowBlock.take_rows`."""
    first, codes = parts[0], None
    if first.codes is not None:
        codes = np.concatenate([part.codes for part in parts], axis=1)
    others = [np.concatenate(same) for same in zip(*(p.others for p in parts), strict=True)]
    targets = np.concatenate([part.targets for part in parts])
    weights = np.concatenate([part.weights for part in parts])
    return RowBlock(first.number, codes, others, targets, weights, None, first.layout)


def keys_of(block: NewBlock) -> BinKeys | None:
    return block.keys


def as_array(values: Column) -> AnyArray:
    """Return targets or weights of a partition as an array, also from a data frame."""
    result = np.asarray(values)
    return result[:, 0] if result.ndim == 2 and result.shape[1] == 1 else result


def n_rows_of(table: Table) -> int:
    return int(table.shape[0])


def concatenate_tables(parts: list[Table]) -> Table:
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
