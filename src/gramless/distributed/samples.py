"""The rows that choose: a sample of all partitions by a rule, gathered by the client."""

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
    n_rows_of,
    stacked,
    take_rows,
)
from gramless.distributed.cluster import Cluster
from gramless.distributed.partitions import Partitions
from gramless.estimators.targets import NumberEncoder
from gramless.losses import Loss
from gramless.preprocessing.categories import category_mask

_MOST_WITNESSES = 500
"""Values of a column, in a partition, of which a row is kept."""

ClassTotals: TypeAlias = dict[Hashable, float]
"""The sum of the weights of the rows of each label."""


@dataclass(frozen=True, eq=False)
class PartitionSample:
    """What the client learns of a partition: some of its rows, and what it holds.

    ``witnesses`` are the places in the partition of rows that show a value first; these rows follow
    the sampled ones.
    """

    rows: GivenPart
    n_sampled: int
    witnesses: dict[Hashable, int]
    places: IntArray
    largest_weight: float
    classes: ClassTotals
    moments: Moments | None


@dataclass(frozen=True, eq=False)
class Moments:
    """The mass of weighted targets, their largest size, their mean and their sum of squares.

    Squares are of deviations from the mean.
    """

    mass: float
    largest: FloatArray | float
    mean: FloatArray | float
    squares: FloatArray | float

    @classmethod
    def of(cls, y: AnyArray, weight: FloatArray | None) -> Moments:
        """Return the moments of some targets, of which at least one has a weight."""
        y = np.asarray(y, np.float64)
        mass = float(len(y)) if weight is None else float(weight.sum())
        mean = np.average(y, axis=0, weights=weight)
        squares = np.average((y - mean) ** 2, axis=0, weights=weight) * mass
        return cls(mass, np.abs(y).max(axis=0), mean, squares)

    def with_others(self, other: Moments) -> Moments:
        """Return the moments of both (Chan, Golub & LeVeque 1983, equation 2.1)."""
        mass, step = self.mass + other.mass, other.mean - self.mean
        mean = self.mean + step * (other.mass / mass)
        squares = self.squares + other.squares + step**2 * (self.mass * other.mass / mass)
        return Moments(mass, np.maximum(self.largest, other.largest), mean, squares)

    def encoder(self, loss: Loss, fit_intercept: bool = True) -> NumberEncoder:
        """Return the encoder of the targets, but for rounding that of :class:`NumberEncoder`."""
        if not fit_intercept:
            return self._without_centre(loss)
        unit = np.exp2(np.floor(np.log2(np.where(self.largest > 0, self.largest, 1.0))))
        mean = self.mean / unit
        if loss.has_positive_means:
            return NumberEncoder(np.zeros_like(mean), mean, unit, loss.link(np.asarray(self.mean)))
        deviation = np.sqrt(self.squares / self.mass) / unit
        return NumberEncoder(mean, np.where(deviation > 0, deviation, 1.0), unit)

    def _without_centre(self, loss: Loss) -> NumberEncoder:
        if loss.has_positive_means:
            zeros = np.zeros(np.shape(self.mean))
            return NumberEncoder(zeros, np.ones_like(zeros), 1.0, zeros, fits_intercept=False)
        centred = replace(
            self, mean=0.0 * self.mean, squares=self.squares + self.mass * self.mean**2
        )
        return replace(centred.encoder(loss), fits_intercept=False)


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of all partitions in their order, and what the others hold.

    ``complete`` where these are all rows; ``moments`` are those of targets that are numbers.
    """

    rows: GivenPart
    lengths: list[int]
    complete: bool
    largest_weight: float
    classes: ClassTotals
    moments: Moments | None

    @property
    def n_rows(self) -> int:
        """Number of rows of all partitions."""
        return sum(self.lengths)

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        parts: Partitions,
        seed: int,
        labels: bool,
        most: int,
        categorical: ArrayLike | None = None,
    ) -> Sample:
        """Draw at most ``most`` rows, and some that show rare values; ``labels`` are classes.

        ``categorical`` names columns of numbers that are categories. The sample depends on the
        number of rows of each partition and on the seed, but not on the workers.
        """
        lengths = parts.lengths
        if lengths is None:
            count = delayed(count_rows, pure=False)
            lengths = cluster.compute([count(i, *part) for i, part in enumerate(parts.parts)])
        total = sum(lengths)
        if total == 0:
            raise InputError(f"{cluster.owner}: the collections have no rows; give at least 1.")
        complete = total <= most
        chosen = np.arange(total)
        if not complete:
            generator = stream(seed, "rows that choose")
            chosen = np.sort(generator.choice(total, most, replace=False, shuffle=False))
        starts = np.append(0, np.cumsum(lengths))
        look = delayed(sample_of_partition, pure=False)
        tasks = []
        for i, part in enumerate(parts.parts):
            a, b = np.searchsorted(chosen, starts[i : i + 2])
            given = chosen[a:b] - starts[i], lengths[i], not complete, labels, categorical
            tasks.append(look(i, *given, *part))
        return cls._joined(cluster.compute(tasks), lengths, complete)

    @classmethod
    def _joined(cls, samples: list[PartitionSample], lengths: list[int], complete: bool) -> Sample:
        known: set[Hashable] = set()
        parts: list[tuple[Table, ...]] = []
        classes: ClassTotals = {}
        for own in samples:
            new = [value for value in own.witnesses if value not in known]
            known.update(new)
            kept = np.arange(own.n_sampled)
            if new:
                extra = np.unique([own.witnesses[value] for value in new])
                at = np.searchsorted(own.places[own.n_sampled :], extra) + own.n_sampled
                kept = np.append(kept, at)
                kept = kept[np.unique(own.places[kept], return_index=True)[1]]
            if len(kept) > 0:
                parts.append(tuple(None if x is None else take_rows(x, kept) for x in own.rows))
            for label, weight in own.classes.items():
                classes[label] = classes.get(label, 0.0) + weight
        rows: Any = tuple(
            None if same[0] is None else stacked(list(same)) for same in zip(*parts, strict=True)
        )
        largest = max(own.largest_weight for own in samples)
        measured = [own.moments for own in samples if own.moments is not None]
        moments = reduce(Moments.with_others, measured) if measured else None
        return cls(rows, lengths, complete, largest, classes, moments)


def count_rows(number: int, X: Table, y: Column, weight: Column, groups: Column) -> int:
    """Return how many rows a partition has, which targets and weights must have too."""
    n_rows = n_rows_of(X)
    for name, own in (("y", y), ("sample_weight", weight), ("groups", groups)):
        if own is not None and len(own) != n_rows:
            raise InputError(
                f"partition {number}: X has {n_rows} rows and {name} {len(own)}; take both from "
                f"one collection, so that the same rows belong together."
            )
    return n_rows


def sample_of_partition(
    number: int,
    chosen: IntArray,
    n_rows: int,
    witnesses: bool,
    labels: bool,
    categorical: ArrayLike | None,
    *part: Column,
) -> PartitionSample:
    """Return some rows of a partition, and what it holds."""
    found, (X, y, weight, groups) = count_rows(number, *part), part
    if found != n_rows:
        raise InputError(
            f"partition {number} has {found} rows now and had {n_rows} before; make collections "
            f"whose partitions are the same whenever they are computed."
        )
    shown: dict[Hashable, int] = {}
    if witnesses:
        # Rows of weight 0 must not show what the others lack.
        weighted = np.arange(n_rows) if weight is None else np.flatnonzero(as_array(weight) > 0)
        shown = _witnesses(X if weight is None else take_rows(X, weighted), categorical)
        shown |= _first_of("y", as_array(y)[weighted]) if labels else {}
        shown = {value: int(weighted[place]) for value, place in shown.items()}
    extra = np.unique(np.array(list(shown.values()), np.int64))
    places = np.concatenate([chosen, extra])
    whole = X, as_array(y), _optional(weight), _optional(groups)
    rows: Any = tuple(None if x is None else take_rows(x, places) for x in whole)
    largest, classes, moments, mass = 1.0, {}, None, whole[2]
    if weight is not None:
        largest = float(np.max(as_array(weight), initial=0.0))
    if labels:
        classes = _class_weights(whole[1], mass)
    elif n_rows > 0 and whole[1].dtype.kind in "biuf" and (mass is None or mass.sum() > 0):
        moments = Moments.of(whole[1], None if mass is None else mass.astype(np.float64))
    return PartitionSample(rows, len(chosen), shown, places, largest, classes, moments)


def _optional(values: Column) -> AnyArray | None:
    return None if values is None else as_array(values)


def _class_weights(y: AnyArray, weight: AnyArray | None) -> ClassTotals:
    """Return the sum of the weights of each label that has any."""
    if y.ndim != 1 or len(y) == 0:
        return {}
    own: FloatArray = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    names, numbers = np.unique(y[own > 0], return_inverse=True)
    return dict(zip(names.tolist(), np.bincount(numbers, own[own > 0]).tolist(), strict=True))


def _witnesses(X: Table, categorical: ArrayLike | None) -> dict[Hashable, int]:
    """Return a row of each value of the columns of categories, and of missing numbers."""
    witnesses: dict[Hashable, int] = {}
    if isinstance(X, np.ndarray):
        if len(X) == 0:
            return witnesses
        for j in np.flatnonzero(category_mask(categorical, X.shape[1])).tolist():
            witnesses |= _first_of(j, X[:, j])
        missing = np.isnan(X) if X.dtype.kind == "f" else np.zeros((1, 0), bool)
        gaps = np.flatnonzero(missing.any(axis=0))
        return witnesses | {(j, None): int(missing[:, j].argmax()) for j in gaps}
    if not hasattr(X, "columns"):
        return witnesses
    names = [str(name) for name in X.columns]
    mask = category_mask(categorical, len(names), names)
    for name, named in zip(X.columns, mask.tolist(), strict=True):
        column = X[name]
        if (
            named
            or column.dtype.kind in "OUSb"
            or str(column.dtype) in ("category", "string", "str")
        ):
            witnesses |= _first_of(name, column)
        elif column.isna().any():
            witnesses[name, None] = int(column.isna().to_numpy().argmax())
    return witnesses


def _first_of(name: Hashable, values: Column) -> dict[Hashable, int]:
    """Return the first row of each value of a column."""
    import pandas

    column = pandas.Series(np.asarray(values, dtype=object) if values.ndim == 1 else [])
    first = np.flatnonzero(~column.duplicated().to_numpy())[:_MOST_WITNESSES]
    return {(name, str(column.iloc[place])): int(place) for place in first}
