"""Type aliases and interfaces that many signatures share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]


class DataFrame(Protocol):
    """Interface shared by the data frames of pandas and polars."""

    def __len__(self) -> int: ...
    def __getitem__(self, name: str, /) -> Any: ...

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def shape(self) -> tuple[int, int]: ...


class NamedColumns(ABC):
    """A table whose columns are read one by one, such as a table from a file.

    Attributes
    ----------
    names : sequence of str or None
        Names of the columns.
    declared : collection of str
        Names of text columns that are categories even if their text looks like numbers or dates.
    types : mapping
        Types of columns that their values do not show, such as "datetime" for seconds.
    """

    names: Sequence[str] | None
    declared: Collection[str] = ()
    types: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def column(self, name: str) -> AnyArray: ...


@runtime_checkable
class ArrowTable(Protocol):
    """Interface shared by the tables and record batches of pyarrow."""

    if TYPE_CHECKING:
        schema: Any

    def __len__(self) -> int: ...

    def column(self, name: str, /) -> Any: ...

    def to_pydict(self) -> dict[str, list[Any]]:
        """Return the values of each column in a list."""


class RowTable(NamedColumns):
    """A table on a disk whose rows are read in parts."""

    @abstractmethod
    def take_rows(self, rows: slice | AnyArray) -> NamedColumns:
        """Return some rows in memory."""

    @abstractmethod
    def keep_rows(self, rows: IntArray) -> RowTable:
        """Return the table of some rows without reading them."""


# Rows as users pass them: an array, a list of rows, a sparse matrix or a data frame.
TableLike: TypeAlias = ArrayLike | sp.spmatrix | sp.sparray | DataFrame | NamedColumns | ArrowTable
