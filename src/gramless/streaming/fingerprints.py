"""What tells the rows of one source from those of another: checksums of all that a run reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.threads import row_blocks
from gramless.preprocessing.rows import Rows
from gramless.streaming.iterator_source import IteratorSource, StreamEnded
from gramless.streaming.piles import PileSource
from gramless.streaming.sources import MappedSource, RowSource

_FIRST_ROWS = 256
_BLOCK_ROWS = 4096


class RowDigest:
    """A checksum of rows and their targets, the same for however they are cut into chunks.

    Every bit counts: numbers, types, labels, the order of the rows and, in sparse rows, where
    the numbers stand. BLAKE2b, about 1 ns a byte.

    Attributes
    ----------
    n_rows : int
        Rows so far.

    Examples
    --------
    >>> whole, parts, other = RowDigest(), RowDigest(), RowDigest()
    >>> X, y = np.eye(3), np.array(["a", "b", "c"])
    >>> whole.update(X, y)
    >>> parts.update(X[:1], y[:1])
    >>> parts.update(X[1:], y[1:])
    >>> other.update(X, np.array(["a", "b", "d"]))
    >>> whole.hexdigest() == parts.hexdigest(), whole.hexdigest() == other.hexdigest()
    (True, False)
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self._hashes: dict[str, Any] = {}
        self._forms: dict[str, str] = {}

    def update(self, X: Any, y: Any) -> None:
        """Take more rows into account.

        Parameters
        ----------
        X : array-like or sparse matrix (n, n_features)
        y : array-like (n,) or (n, n_outputs)
        """
        targets = np.asarray(y)
        self.n_rows += len(targets)
        self._add("targets", targets)
        if not sp.issparse(X):
            self._add("rows", np.asarray(X))
            return
        rows = X.tocsr()
        self._add("rows", rows.data)
        self._add("columns", rows.indices.astype(np.int64, copy=False))
        self._add("lengths", np.diff(rows.indptr).astype(np.int64, copy=False))

    def hexdigest(self) -> str:
        """Return the checksum of the rows so far, 32 hexadecimal digits."""
        parts = [f"{name} {part.hexdigest()}" for name, part in sorted(self._hashes.items())]
        return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()

    def _add(self, name: str, values: NDArray[Any]) -> None:
        hashed = self._hashes.setdefault(name, hashlib.blake2b(digest_size=16))
        text = values.dtype.kind in "OUS"
        form = f"{'text' if text else values.dtype.str} {values.shape[1:]}"
        if self._forms.get(name) != form:
            hashed.update(form.encode())
            self._forms[name] = form
        if text:
            hashed.update("".join(f"{label!r}\n" for label in values.ravel().tolist()).encode())
        else:
            hashed.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8))


class FingerprintedSource:
    """A source of rows, and checksums of what has been read from it.

    Where the number of rows is known, every training row and target counts: rows on the disk have
    checksums already, others are read by ``chunks``. Where it is not known, those count that
    ``read`` has returned. Rows that are held out always count, and the first of the endless order.

    Parameters
    ----------
    source : RowSource

    Attributes
    ----------
    n_features : int
    n_rows : int or None
        What the source said at first.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless.streaming.sources import ArraySource
    >>> X, y = np.ones((9, 2)), np.arange(9.0)
    >>> source = FingerprintedSource(ArraySource(X, y, seed=0))
    >>> n_rows = sum(len(targets) for _, targets in source.chunks())
    >>> y[2] = 12345.0
    >>> FingerprintedSource(ArraySource(X, y, seed=0)).difference(source.fingerprint())
    'a row held out, or one of the first to be read, has changed'
    """

    def __init__(self, source: RowSource) -> None:
        self.source = source
        self.n_features, self.n_rows = int(source.n_features), source.n_rows
        self._looked_at, self._read = RowDigest(), RowDigest()
        self._looked_at.update(*source.held_out())
        kept = source
        while isinstance(kept, MappedSource):
            kept = kept.source
        # An iterator goes forwards only: its first rows are for the first step.
        if not isinstance(kept, IteratorSource):
            self._looked_at.update(*source.read(0, _FIRST_ROWS))
        self._all = kept.checksum if isinstance(kept, PileSource) else None

    def read(self, start: int, stop: int) -> tuple[Rows, NDArray[Any]]:
        """Return rows of the endless order, as the source does."""
        if self.n_rows is not None:
            return self.source.read(start, stop)
        first = self._read.n_rows
        # Rows that are skipped count as well.
        X, y = self.source.read(first, stop)
        self._read.update(X, y)
        if start > first and len(y) <= start - first:
            raise StreamEnded(f"The stream ended after {first + len(y):,} rows.")
        return X[start - first :], y[start - first :]

    def chunks(self) -> Iterator[tuple[Rows, NDArray[Any]]]:
        """Yield all training rows once, as the source does."""
        digest = RowDigest()
        for X, y in self.source.chunks():
            if self._all is None:
                digest.update(X, y)
            yield X, y
        if self._all is None:
            self._all = digest.hexdigest()

    def held_out(self) -> tuple[Rows, NDArray[Any]]:
        """Return the rows kept back."""
        return self.source.held_out()

    def fingerprint(self) -> dict[str, Any]:
        """Return sizes and checksums of what has been read so far."""
        return {
            "n_features": self.n_features,
            "n_rows": -1 if self.n_rows is None else int(self.n_rows),
            "looked_at": self._looked_at.hexdigest(),
            "all": self._all or "",
            "n_read": self._read.n_rows,
            "read": self._read.hexdigest(),
        }

    def difference(self, earlier: dict[str, Any]) -> str | None:
        """Say how the rows differ from earlier ones, None if they are the same.

        Reads what was read then: all training rows, where their number is known and they
        have no checksums yet, else those of the steps so far.

        Parameters
        ----------
        earlier : dict
            From ``fingerprint``.
        """
        own = self.fingerprint()
        if earlier.keys() != own.keys() or not isinstance(earlier["n_read"], int):
            return "it was written by a version that did not note them"
        for name, what in (("n_features", "columns"), ("n_rows", "rows to train on")):
            if earlier[name] != own[name]:
                then, now = ("?" if n == -1 else f"{n:,}" for n in (earlier[name], own[name]))
                return f"{then} {what} then, {now} now"
        if earlier["looked_at"] != own["looked_at"]:
            return "a row held out, or one of the first to be read, has changed"
        self._read_as_far_as(earlier["n_read"])
        own = self.fingerprint()
        same = earlier["all"] == own["all"] and earlier["read"] == own["read"]
        return None if same else "a row or target to train on has changed"

    def _read_as_far_as(self, n_rows: int) -> None:
        if self.n_rows is None:
            for start, stop in row_blocks(n_rows, _BLOCK_ROWS):
                try:
                    self.read(start, stop)
                except StreamEnded:
                    return
        elif self._all is None:
            for _ in self.chunks():
                pass
