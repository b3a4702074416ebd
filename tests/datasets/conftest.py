"""Made-up files in every format and compression."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}

Writer = Callable[..., Path]


@pytest.fixture(params=list(PACKERS), ids=lambda ending: ending or "plain")
def packing(request: pytest.FixtureRequest) -> str:
    """Return one ending of a compression, or none."""
    return str(request.param)


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    """Return a function that writes text or bytes, compressed by the ending of the name."""

    def writer(name: str, content: str | bytes) -> Path:
        raw = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(PACKERS.get(path.suffix, bytes)(raw))
        return path

    return writer
