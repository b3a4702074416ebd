"""Sources of training rows: what they do for a solver, and those there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from gramless.preprocessing.rows import Rows
from gramless.streaming.array_source import ArraySource
from gramless.streaming.iterator_source import Batches, IteratorSource, StreamEnded

__all__ = [
    "ArraySource",
    "Batches",
    "IteratorSource",
    "MappedSource",
    "RowSource",
    "StreamEnded",
    "rows_to_judge",
]

_MOST_TO_JUDGE, _SHARE_TO_JUDGE = 4096, 0.1


class RowSource(Protocol):
    """Training rows, in an endless order for steps and in their own order for passes."""

    @property
    def n_features(self) -> int:
        """Return the number of columns."""

    @property
    def n_rows(self) -> int | None:
        """Return the rows of one epoch, without those held out; None while unknown."""

    def read(self, start: int, stop: int) -> tuple[Rows, NDArray[Any]]:
        """Return rows ``start:stop`` of the endless order, across epochs where need be."""

    def chunks(self) -> Iterator[tuple[Rows, NDArray[Any]]]:
        """Yield all training rows once, in an order of their own, few at a time."""

    def held_out(self) -> tuple[Rows, NDArray[Any]]:
        """Return the rows kept back, none if there are none."""


@dataclass(frozen=True)
class MappedSource:
    """The rows of a source, and other targets.

    Parameters
    ----------
    source : RowSource
    convert : callable
        From targets as they come to targets as they are wanted, some rows at a time.

    Examples
    --------
    >>> import numpy as np
    >>> source = ArraySource(np.eye(2), np.array([0, 1]), seed=0, shuffle=False)
    >>> MappedSource(source, lambda y: np.array(["no", "yes"])[y]).read(0, 3)[1].tolist()
    ['no', 'yes', 'no']
    """

    source: RowSource
    convert: Callable[[NDArray[Any]], NDArray[Any]]

    @property
    def n_features(self) -> int:
        """Return the number of columns."""
        return self.source.n_features

    @property
    def n_rows(self) -> int | None:
        """Return the rows of one epoch."""
        return self.source.n_rows

    @property
    def names(self) -> tuple[str, ...] | None:
        """Return the names of the columns, where there are any."""
        names: tuple[str, ...] | None = getattr(self.source, "names", None)
        return names

    def read(self, start: int, stop: int) -> tuple[Rows, NDArray[Any]]:
        """Return rows of the endless order."""
        return self._mapped(self.source.read(start, stop))

    def chunks(self) -> Iterator[tuple[Rows, NDArray[Any]]]:
        """Yield all training rows once."""
        return map(self._mapped, self.source.chunks())

    def held_out(self) -> tuple[Rows, NDArray[Any]]:
        """Return the rows kept back."""
        return self._mapped(self.source.held_out())

    def _mapped(self, chunk: tuple[Rows, NDArray[Any]]) -> tuple[Rows, NDArray[Any]]:
        X, y = chunk
        return X, self.convert(y)


def rows_to_judge(n_rows: int) -> int:
    """Return how many of so many rows are held out by default: a tenth, at most 4,096.

    Examples
    --------
    >>> rows_to_judge(9), rows_to_judge(500), rows_to_judge(10**6)
    (0, 50, 4096)
    """
    return min(_MOST_TO_JUDGE, int(_SHARE_TO_JUDGE * n_rows))
