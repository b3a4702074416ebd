"""Sources of training rows: what they do for a solver, and those there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from numpy.typing import NDArray

from gramless.features.inputs import Rows
from gramless.streaming.array_source import ArraySource
from gramless.streaming.iterator_source import Batches, IteratorSource, StreamEnded

__all__ = ["ArraySource", "Batches", "IteratorSource", "RowSource", "StreamEnded"]


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
