"""A sample of the rows of all partitions for model selection on the client."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from dask.delayed import delayed
from numpy.typing import ArrayLike

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.distributed.blocks import (
    Column,
    GivenPart,
    Table,
    as_array,
    concatenate_tables,
    n_rows_of,
    take_rows,
)
from gramless.distributed.cluster import Cluster
from gramless.distributed.partitions import Partitions
from gramless.estimators.steps import EncodedRows
from gramless.estimators.targets import NumberEncoder
from gramless.losses import Loss
from gramless.preprocessing.categories import category_mask

# The sample has an example for at most this many values of a column in each partition.
_MAX_EXAMPLES = 500

ClassTotals: TypeAlias = dict[Hashable, float]  # label: the sum of its weights


@dataclass(frozen=True, eq=False)
class PartitionSample:
    """Some rows of a partition, and statistics of all its rows.

    ``rows`` are the sampled rows, followed by examples: the first row with each value of the
    categorical columns. ``places`` are their indices in the partition; ``examples`` has the index
    for each value.
    """

    rows: GivenPart
    n_sampled: int
    examples: dict[Hashable, int]
    places: IntArray
    largest_weight: float
    classes: ClassTotals
    moments: Moments | None


@dataclass(frozen=True, eq=False)
class Moments:
    """Statistics of weighted targets.

    ``total_weight`` is the sum of weights, ``largest`` the largest absolute value, ``mean`` the
    mean and ``squares`` the sum of squared deviations from the mean.
    """

    total_weight: float
    largest: FloatArray | float
    mean: FloatArray | float
    squares: FloatArray | float

    @classmethod
    def of(cls, y: AnyArray, weight: FloatArray | None) -> Moments:
        """Return the moments of targets; at least one must have a positive weight."""
        y = np.asarray(y, np.float64)
        total_weight = float(len(y)) if weight is None else float(weight.sum())
        mean = np.average(y, axis=0, weights=weight)
        squares = np.average((y - mean) ** 2, axis=0, weights=weight) * total_weight
        return cls(total_weight, np.abs(y).max(axis=0), mean, squares)

    def merge(self, other: Moments) -> Moments:
        """Return the moments of the union (Chan, Golub & LeVeque 1983, equation 2.1)."""
        total_weight, step = self.total_weight + other.total_weight, other.mean - self.mean
        mean = self.mean + step * (other.total_weight / total_weight)
        squares = (
            self.squares
            + other.squares
            + step**2 * (self.total_weight * other.total_weight / total_weight)
        )
        return Moments(total_weight, np.maximum(self.largest, other.largest), mean, squares)

    def encoder(self, loss: Loss, fit_intercept: bool = True) -> NumberEncoder:
        """Return the encoder of the targets, equal to that of one machine up to rounding."""
        if not fit_intercept:
            return self._without_centre(loss)
        unit = np.exp2(np.floor(np.log2(np.where(self.largest > 0, self.largest, 1.0))))
        mean = self.mean / unit
        if loss.has_positive_means:
            return NumberEncoder(np.zeros_like(mean), mean, unit, loss.link(np.asarray(self.mean)))
        deviation = np.sqrt(self.squares / self.total_weight) / unit
        return NumberEncoder(mean, np.where(deviation > 0, deviation, 1.0), unit)

    def encode(self, encoded: EncodedRows, loss: Loss) -> EncodedRows:
        """Return the rows of a sample with targets in units of all rows."""
        first, data = encoded.encoder, encoded.data
        assert isinstance(first, NumberEncoder)
        encoder = self.encoder(loss, first.fits_intercept)
        encoder = replace(encoder, lower_limit=first.lower_limit)
        codes = encoder.encode(encoded.given.targets[encoded.given.used])
        return replace(encoded, encoder=encoder, data=replace(data, targets=codes))

    def _without_centre(self, loss: Loss) -> NumberEncoder:
        if loss.has_positive_means:
            zeros = np.zeros(np.shape(self.mean))
            return NumberEncoder(zeros, np.ones_like(zeros), 1.0, zeros, fits_intercept=False)
        centred = replace(
            self, mean=0.0 * self.mean, squares=self.squares + self.total_weight * self.mean**2
        )
        return replace(centred.encoder(loss), fits_intercept=False)


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of the rows of all partitions in their order, and statistics of all rows.

    ``complete`` is True if the sample has all rows; ``moments`` are those of numeric targets.
    """

    rows: GivenPart
    lengths: list[int]
    complete: bool
    largest_weight: float
    classes: ClassTotals
    moments: Moments | None

    @property
    def n_rows(self) -> int:
        return sum(self.lengths)

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        parts: Partitions,
        seed: int,
        has_classes: bool,
        max_rows: int,
        categorical: ArrayLike | None = None,
    ) -> Sample:
        """Draw at most ``max_rows`` rows, and an example of each value that may be rare.

        ``categorical`` selects columns of numbers that are categories. The sample depends on the
        number of rows of each partition and on the seed, but not on the workers.
        """
        lengths = parts.lengths
        if lengths is None:
            count = delayed(count_rows, pure=False)
            lengths = cluster.compute([count(i, *part) for i, part in enumerate(parts.parts)])
        total = sum(lengths)
        if total == 0:
            raise InputError(f"{cluster.owner}: the collections have no rows; give at least 1.")
        is_complete = total <= max_rows
        rows = np.arange(total)
        if not is_complete:
            generator = stream(seed, "rows that choose")
            rows = np.sort(generator.choice(total, max_rows, replace=False, shuffle=False))
        starts = np.append(0, np.cumsum(lengths))
        draw = delayed(sample_of_partition, pure=False)
        tasks = []
        for i, part in enumerate(parts.parts):
            a, b = np.searchsorted(rows, starts[i : i + 2])
            arguments = rows[a:b] - starts[i], lengths[i], not is_complete, has_classes, categorical
            tasks.append(draw(i, *arguments, *part))
        return cls._join(cluster.compute(tasks), lengths, is_complete)

    @classmethod
    def _join(cls, samples: list[PartitionSample], lengths: list[int], complete: bool) -> Sample:
        known: set[Hashable] = set()
        parts: list[tuple[Table, ...]] = []
        classes: ClassTotals = {}
        for sample in samples:
            new = [value for value in sample.examples if value not in known]
            known.update(new)
            kept = np.arange(sample.n_sampled)
            if new:
                extra = np.unique([sample.examples[value] for value in new])
                at = np.searchsorted(sample.places[sample.n_sampled :], extra) + sample.n_sampled
                kept = np.append(kept, at)
                kept = kept[np.unique(sample.places[kept], return_index=True)[1]]
            if len(kept) > 0:
                parts.append(tuple(None if x is None else take_rows(x, kept) for x in sample.rows))
            for label, weight in sample.classes.items():
                classes[label] = classes.get(label, 0.0) + weight
        rows: Any = tuple(
            None if same[0] is None else concatenate_tables(list(same))
            for same in zip(*parts, strict=True)
        )
        largest = max(sample.largest_weight for sample in samples)
        with_moments = [sample.moments for sample in samples if sample.moments is not None]
        moments = reduce(Moments.merge, with_moments) if with_moments else None
        return cls(rows, lengths, complete, largest, classes, moments)


def count_rows(number: int, X: Table, y: Column, weight: Column, groups: Column) -> int:
    """Return the number of rows; raise InputError if targets, weights or groups have another."""
    n_rows = n_rows_of(X)
    for name, values in (("y", y), ("sample_weight", weight), ("groups", groups)):
        if values is not None and len(values) != n_rows:
            raise InputError(
                f"partition {number}: X has {n_rows} rows and {name} {len(values)}; take both "
                f"from one collection, so that the same rows belong together."
            )
    return n_rows


def sample_of_partition(
    number: int,
    sampled: IntArray,
    n_rows: int,
    needs_examples: bool,
    has_classes: bool,
    categorical: ArrayLike | None,
    *part: Column,
) -> PartitionSample:
    """Return some rows of a partition, and statistics of all its rows (a task)."""
    n_now, (X, y, weight, groups) = count_rows(number, *part), part
    if n_now != n_rows:
        raise InputError(
            f"partition {number} has {n_now} rows now and had {n_rows} before; make collections "
            f"whose partitions are the same each time they are computed."
        )
    examples: dict[Hashable, int] = {}
    if needs_examples:
        # Rows of weight 0 are ignored, and must not be the only rows with a value.
        weighted = np.arange(n_rows) if weight is None else np.flatnonzero(as_array(weight) > 0)
        examples = _find_examples(X if weight is None else take_rows(X, weighted), categorical)
        examples |= _first_of("y", as_array(y)[weighted]) if has_classes else {}
        examples = {value: int(weighted[row]) for value, row in examples.items()}
    extra = np.unique(np.array(list(examples.values()), np.int64))
    places = np.concatenate([sampled, extra])
    y, weight, groups = as_array(y), _optional(weight), _optional(groups)
    rows: Any = tuple(None if x is None else take_rows(x, places) for x in (X, y, weight, groups))
    largest, classes, moments = 1.0, {}, None
    if weight is not None:
        largest = float(np.max(weight, initial=0.0))
    if has_classes:
        classes = _class_weights(y, weight)
    elif n_rows > 0 and y.dtype.kind in "biuf" and (weight is None or weight.sum() > 0):
        moments = Moments.of(y, None if weight is None else weight.astype(np.float64))
    return PartitionSample(rows, len(sampled), examples, places, largest, classes, moments)


def _optional(values: Column) -> AnyArray | None:
    return None if values is None else as_array(values)


def _class_weights(y: AnyArray, weight: AnyArray | None) -> ClassTotals:
    if y.ndim != 1 or len(y) == 0:
        return {}
    weights: FloatArray = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    is_used = weights > 0
    names, numbers = np.unique(y[is_used], return_inverse=True)
    return dict(zip(names.tolist(), np.bincount(numbers, weights[is_used]).tolist(), strict=True))


def _find_examples(X: Table, categorical: ArrayLike | None) -> dict[Hashable, int]:
    """Return a row for each category of the categorical columns, and for missing numbers."""
    examples: dict[Hashable, int] = {}
    if isinstance(X, np.ndarray):
        if len(X) == 0:
            return examples
        for j in np.flatnonzero(category_mask(categorical, X.shape[1])).tolist():
            examples |= _first_of(j, X[:, j])
        missing = np.isnan(X) if X.dtype.kind == "f" else np.zeros((1, 0), bool)
        gaps = np.flatnonzero(missing.any(axis=0))
        return examples | {(j, None): int(missing[:, j].argmax()) for j in gaps}
    if not hasattr(X, "columns"):
        return examples
    names = [str(name) for name in X.columns]
    mask = category_mask(categorical, len(names), names)
    for name, is_categorical in zip(X.columns, mask.tolist(), strict=True):
        column = X[name]
        if (
            is_categorical
            or column.dtype.kind in "OUSb"
            or str(column.dtype) in ("category", "string", "str")
        ):
            examples |= _first_of(name, column)
        elif column.isna().any():
            examples[name, None] = int(column.isna().to_numpy().argmax())
    return examples


def _first_of(name: Hashable, values: Column) -> dict[Hashable, int]:
    """Return the first row of each value of a column."""
    import pandas

    column = pandas.Series(np.asarray(values, dtype=object) if values.ndim == 1 else [])
    first = np.flatnonzero(~column.duplicated().to_numpy())[:_MAX_EXAMPLES]
    return {(name, str(column.iloc[row])): int(row) for row in first}
