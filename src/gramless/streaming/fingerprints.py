"""Fingerprints of sources: checksums of all rows that a run reads."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike

from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray, TableLike
from gramless.preprocessing.rows import Rows
from gramless.streaming.chunk_checks import is_sparse
from gramless.streaming.external_shuffle import ShardSource
from gramless.streaming.sources import IteratorSource, MappedSource, RowSource, StreamEnded

# Rows of the endless order that are always included; part of the format of checkpoints.
_FIRST_ROWS = 256
_BLOCK_ROWS = 4096


class RowDigest:
    """A checksum of rows and targets that does not depend on how they are divided into chunks.

    Types and labels are included.
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self._hashes: dict[str, hashlib.blake2b] = {}
        self._forms: dict[str, str] = {}

    def update(self, X: TableLike, y: ArrayLike) -> None:
        targets, rows = np.asarray(y), X.tocsr() if is_sparse(X) else np.asarray(X)
        self.n_rows += len(targets)
        self._add("targets", targets)
        self._add("rows", rows.data if is_sparse(rows) else rows)
        if is_sparse(rows):
            self._add("columns", rows.indices.astype(np.int64, copy=False))
            self._add("lengths", np.diff(rows.indptr).astype(np.int64, copy=False))

    def hexdigest(self) -> str:
        parts = [f"{name} {part.hexdigest()}" for name, part in sorted(self._hashes.items())]
        return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()

    def _add(self, name: str, values: AnyArray) -> None:
        digest = self._hashes.setdefault(name, hashlib.blake2b(digest_size=16))
        is_text = values.dtype.kind in "OUS"
        form = f"{'text' if is_text else values.dtype.str} {values.shape[1:]}"
        if self._forms.get(name) != form:
            digest.update(form.encode())
            self._forms[name] = form
        if is_text:
            digest.update("".join(f"{label!r}\n" for label in values.ravel().tolist()).encode())
        else:
            digest.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)


class FingerprintedSource:
    """A source of rows, with checksums of the rows read from it.

    If the number of rows is known, the fingerprint includes all training rows: shards on the disk
    have checksums already, other rows are read by ``chunks``. Otherwise it includes the rows that
    ``read`` has returned. It always includes the held-out rows and, unless the
    source is an iterator of batches, the first 256 rows of the endless order.
    """

    def __init__(self, source: RowSource) -> None:
        self.source = source
        self.n_features, self.n_rows = int(source.n_features), source.n_rows
        self._first, self._read = RowDigest(), RowDigest()
        self._first.update(*source.held_out())
        inner = source
        while isinstance(inner, MappedSource):
            inner = inner.source
        # An iterator can be read only once, and the first step needs its first rows.
        if not isinstance(inner, IteratorSource):
            self._first.update(*source.read(0, _FIRST_ROWS))
        self._all = inner.checksum if isinstance(inner, ShardSource) else None

    def read(self, start: int, stop: int) -> tuple[Rows, AnyArray]:
        if self.n_rows is not None:
            return self.source.read(start, stop)
        first = self._read.n_rows
        # The fingerprint includes the rows before ``start``.
        X, y = self.source.read(first, stop)
        self._read.update(X, y)
        if start > first and len(y) <= start - first:
            raise StreamEnded(f"The stream ended after {first + len(y):,} rows.")
        return X[start - first :], y[start - first :]

    def chunks(self) -> Iterator[tuple[Rows, AnyArray]]:
        digest = RowDigest()
        for X, y in self.source.chunks():
            if self._all is None:
                digest.update(X, y)
            yield X, y
        if self._all is None:
            self._all = digest.hexdigest()

    def held_out(self) -> tuple[Rows, AnyArray]:
        return self.source.held_out()

    def fingerprint(self) -> dict[str, int | str]:
        """Return the sizes and checksums of the rows read so far."""
        return {
            "n_features": self.n_features,
            "n_rows": -1 if self.n_rows is None else int(self.n_rows),
            "looked_at": self._first.hexdigest(),
            "all": self._all or "",
            "n_read": self._read.n_rows,
            "read": self._read.hexdigest(),
        }

    def describe_change(self, earlier: Mapping[str, int | str]) -> str | None:
        """Return how the rows differ from those of an earlier fingerprint, or None if they do not.

        This reads the same rows as the earlier run, unless their checksums are known.
        """
        current = self.fingerprint()
        n_read = earlier.get("n_read")
        if earlier.keys() != current.keys() or not isinstance(n_read, int):
            return "it was written by a version that did not record their checksums"
        for name, what in (("n_features", "columns"), ("n_rows", "rows to train on")):
            if earlier[name] != current[name]:
                then, now = ("?" if n == -1 else f"{n:,}" for n in (earlier[name], current[name]))
                return f"{then} {what} then, {now} now"
        if earlier["looked_at"] != current["looked_at"]:
            return "a held-out row, or one of the first rows to be read, has changed"
        if self.n_rows is None:
            with suppress(StreamEnded):
                for start, stop in row_blocks(n_read, _BLOCK_ROWS):
                    self.read(start, stop)
        elif self._all is None:
            # Only the checksum that ``chunks`` computes is needed.
            deque(self.chunks(), maxlen=0)
        current = self.fingerprint()
        is_same = earlier["all"] == current["all"] and earlier["read"] == current["read"]
        return None if is_same else "a row or target to train on has changed"
