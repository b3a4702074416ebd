"""Names of types that many signatures share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
"""Numbers of double precision."""

IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

AnyArray: TypeAlias = NDArray[Any]
"""An array of numbers, truth values or text of any type."""


class DataFrame(Protocol):
    """A table of named columns: what pandas and polars data frames have in common."""

    def __len__(self) -> int: ...
    def __getitem__(self, name: str, /) -> Any: ...

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""


class NamedColumns(ABC):
    """A table that hands out its columns one by one, such as one read from a file."""

    names: Sequence[str] | None
    declared: Collection[str] = ()
    """Names of columns of text that are categories, whatever their text looks like."""
    types: Mapping[str, str] = MappingProxyType({})
    """Types that the values of columns do not show, such as "datetime" of those held in seconds."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def column(self, name: str) -> AnyArray:
        """Return one column."""


@runtime_checkable
class ArrowTable(Protocol):
    """What tables and batches of rows of pyarrow have in common."""

    if TYPE_CHECKING:
        schema: Any

    def __len__(self) -> int: ...

    def column(self, name: str, /) -> Any:
        """Return one column."""

    def to_pydict(self) -> dict[str, list[Any]]:
        """Return all values in lists."""


class RowTable(NamedColumns):
    """A table on a disk, of which memory need not hold more than some rows."""

    @abstractmethod
    def take_rows(self, rows: slice | AnyArray) -> NamedColumns:
        """Return some rows, in memory."""

    @abstractmethod
    def keep_rows(self, rows: IntArray) -> RowTable:
        """Return the table of some rows, which stay on the disk."""


TableLike: TypeAlias = ArrayLike | sp.spmatrix | sp.sparray | DataFrame | NamedColumns | ArrowTable
"""Rows as users pass them: an array, a list of rows, a sparse matrix or a data frame."""
