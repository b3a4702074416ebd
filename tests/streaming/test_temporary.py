"""Temporary folders go with their owner, or with the next one where that was killed."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gramless import open_stream
from gramless.base.errors import DataFileError, InputError
from gramless.streaming import opening, temporary
from gramless.streaming.external_shuffle import external_shuffle
from gramless.streaming.temporary import LOCK, PREFIX, remove_abandoned_folders, temporary_folder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="forks")


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have temporary folders in a place of their own."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def in_killed_process(work: Callable[[], Any]) -> None:
    """Do something in a process that is then killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def fill() -> None:
    (temporary_folder()[0] / "pile-00000.rows").write_bytes(b"rows")


def rows_file(folder: Path, n: int = 300) -> Path:
    np.savez(folder / "rows.npz", X=np.eye(n, 3), y=np.arange(float(n)))
    return folder / "rows.npz"


# Owners that are gone, and others.


def test_folder_of_a_killed_process_is_removed_by_the_next(room: Path) -> None:
    in_killed_process(fill)
    (left,) = room.iterdir()
    folder, remove = temporary_folder()
    assert not left.exists()
    remove()
    assert not folder.exists()


def test_shuffled_rows_of_a_killed_process_are_removed(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rows_file(tmp_path)

    def killed(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patched:
        patched.setattr(opening, "default_held_out", killed)
        in_killed_process(lambda: open_stream(path))
    assert len(list(room.iterdir())) == 1
    source: Any = open_stream(path)
    assert list(room.iterdir()) == [source.folder]


def test_folders_in_use_are_kept(room: Path) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        fill()
        os.write(writing, b"made")
        signal.pause()
    os.read(reading, 4)
    mine = temporary_folder()
    for _ in range(2):
        remove_abandoned_folders()
        assert len(list(room.iterdir())) == 2
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    remove_abandoned_folders()
    assert list(room.iterdir()) == [mine[0]]
    mine[1]()


def test_forked_child_keeps_the_folder_of_its_parent(room: Path) -> None:
    folder, remove = temporary_folder()
    child = os.fork()
    if child == 0:
        remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert (folder / LOCK).exists()
    remove()
    assert not list(room.iterdir())


def test_only_abandoned_folders_of_the_user_are_removed(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in (LOCK, "mine.txt"):
        (kept / name).write_text("mine")
    (room / f"{PREFIX}link").symlink_to(kept)
    (room / f"{PREFIX}file").write_text("mine")
    (room / f"{PREFIX}without").mkdir()
    (room / f"{PREFIX}without" / "mine.txt").write_text("no lock: somebody else's")
    (room / "others").mkdir()
    before = sorted(room.rglob("*"))
    in_killed_process(fill)
    (left,) = set(room.iterdir()) - set(before)
    (left / "link").symlink_to(kept / "mine.txt")
    with monkeypatch.context() as patched:
        patched.setattr(os, "getuid", lambda: 12345)
        remove_abandoned_folders()
        assert left.exists()
    remove_abandoned_folders()
    assert sorted(room.rglob("*")) == before
    assert (kept / "mine.txt").read_text() == "mine"
    assert (kept / LOCK).exists()


def test_linked_lock_is_not_followed(room: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (room / f"{PREFIX}link").mkdir()
    (room / f"{PREFIX}link" / LOCK).symlink_to(tmp_path / "file")
    remove_abandoned_folders()
    assert (room / f"{PREFIX}link" / LOCK).is_symlink()


# At once.


def test_folder_removed_before_its_lock_is_made_again(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, lock, swept = tempfile.mkdtemp, temporary._lock, []

    def make_and_sweep(**options: Any) -> str:
        folder = make(**options)
        if len(swept) < 2:
            swept.append(folder)
            remove_abandoned_folders()
        return folder

    def sweep_and_lock(descriptor: int) -> None:
        if len(swept) == 2:
            swept.append("before the lock")
            remove_abandoned_folders()
        lock(descriptor)

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_sweep)
    monkeypatch.setattr(temporary, "_lock", sweep_and_lock)
    folder, remove = temporary_folder()
    assert len(swept) == 3
    remove_abandoned_folders()
    assert list(room.iterdir()) == [folder]
    assert (folder / LOCK).exists()
    remove()


def test_concurrent_folders_do_not_interfere(room: Path) -> None:
    def turn(k: int) -> None:
        folder, remove = temporary_folder()
        (folder / "rows").write_bytes(b"rows")
        remove_abandoned_folders()
        assert (folder / "rows").read_bytes() == b"rows"
        remove()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(turn, range(100)))
    assert not list(room.iterdir())


def test_file_systems_without_locks_keep_folders(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(temporary, "_lock", refuse)
    folder, remove = temporary_folder()
    remove_abandoned_folders()
    assert list(room.iterdir()) == [folder]
    remove()
    assert not list(room.iterdir())


def test_unwritable_temporary_folder_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(DataFileError, match="no temporary folder.*name one with folder="):
        temporary_folder()


# Room on the disk.


def test_rows_beyond_the_disk_budget_are_rejected_before_writing(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rows_file(tmp_path)
    message = (
        r"300 shuffled rows of 20 bytes need 6\.0 kB .*limit is 5\.9 kB .*folder=.*disk_bytes="
    )
    for folder in (None, tmp_path / "kept"):
        with pytest.raises(InputError, match=message):
            open_stream(path, folder=folder, disk_bytes=5_900)
    assert not list(room.iterdir())
    assert not list((tmp_path / "kept").iterdir())
    assert open_stream(path, disk_bytes=6_000).n_rows == 270
    usage = type("Usage", (), {"free": 6_000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(InputError, match=r"need 6\.0 kB on disk, but the limit is 5\.4 kB"):
        open_stream(path)


def test_streams_of_unknown_length_stop_at_the_budget(tmp_path: Path) -> None:
    chunks = ((np.zeros((1 << 16, 1)), np.zeros(1 << 16)) for _ in range(3))
    with pytest.raises(InputError, match=r"131,072 shuffled rows of 12 bytes need 1\.6 MB"):
        external_shuffle(chunks, tmp_path / "rows", seed=0, disk_bytes=1_000_000)
    written = sum(path.stat().st_size for path in (tmp_path / "rows").iterdir())
    assert written <= 1_000_000


@pytest.mark.parametrize("wrong", [-1, 1.5, "1 GB", True])
def test_invalid_disk_budgets_are_rejected(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="disk_bytes must be a whole number of bytes"):
        external_shuffle([(np.eye(3), np.arange(3.0))], tmp_path, seed=0, disk_bytes=wrong)
