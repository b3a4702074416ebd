"""Test the listing, reading, splitting and downloading of data sets."""

from __future__ import annotations

import bz2
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from gramless.base.errors import DataFileError, InputError
from harness.data_sets import Dataset, available, data_folder, fetch_file, guess_task, load, main
from harness.known_sets import KNOWN, KnownSet, RemoteFile

TRAIN = b"1 1:0.5\n2 2:1\n1 3:4\n2 1:1 2:1 3:1\n1 1:3\n"
PACKED = bz2.compress(TRAIN)


class Handler(BaseHTTPRequestHandler):
    files: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1:1/a")
            self.end_headers()
            return
        content = self.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        broken = self.path == "/broken"
        self.send_response(200)
        self.send_header("Content-Length", str(len(content) * (2 if broken else 1)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        Handler.files = {"/tiny.bz2": PACKED, "/tiny.t": TRAIN[:14], "/broken": PACKED}
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def know(monkeypatch: pytest.MonkeyPatch, known: KnownSet) -> None:
    monkeypatch.setitem(KNOWN, known.name, known)


def tiny(url: str, sha256: str | None = None, n_test_rows: int = 2, **changes: object) -> KnownSet:
    fields = {
        "train": RemoteFile(f"{url}/tiny.bz2", sha256),
        "test": RemoteFile(f"{url}/tiny.t"),
        "n_test_rows": n_test_rows,
        **changes,
    }
    return KnownSet("tiny", "binary", 5, 4, "made up", **fields)  # type: ignore[arg-type]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_download_then_offline(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, tiny(server))
    folder, seen = tmp_path / "new" / "folder", []
    data = load("tiny", folder=folder, progress=lambda *step: seen.append(step))
    assert seen[0] == ("tiny.bz2", len(PACKED), len(PACKED))
    assert names(folder) == {"tiny.bz2", "tiny.bz2.sha256", "tiny.t", "tiny.t.sha256"}
    assert data.X_train.dtype == np.float32
    assert_array_equal(data.X_train[3], [1, 1, 1, 0])
    assert_array_equal(data.y_train, [1, 2, 1, 2, 1])
    assert data.y_train.dtype == np.int64
    assert_array_equal(data.X_test, [[0.5, 0, 0, 0], [0, 1, 0, 0]])
    again = load("tiny", folder=folder, download=False)
    assert_array_equal(again.X_train, data.X_train)


def test_recorded_checksum_holds(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, tiny(server))
    load("tiny", folder=tmp_path)
    (tmp_path / "tiny.t").write_bytes(TRAIN[:14].replace(b"0.5", b"0.6"))
    with pytest.raises(DataFileError, match=r"tiny\.t has SHA-256"):
        load("tiny", folder=tmp_path)


def test_first_use_of_a_local_file_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, tiny("http://127.0.0.1:1", test=None, n_test_rows=0))
    # The user has decompressed the file, whose name has no suffix then.
    (tmp_path / "tiny").write_bytes(TRAIN)
    data = load("tiny", folder=tmp_path)
    assert data.X_train.shape == (4, 4)
    recorded = (tmp_path / "tiny.sha256").read_text().split()
    assert recorded == [hashlib.sha256(TRAIN).hexdigest(), "tiny"]


def test_wrong_checksum_leaves_nothing(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, tiny(server, sha256="0" * 64))
    with pytest.raises(DataFileError, match=f"not {'0' * 64} as expected"):
        load("tiny", folder=tmp_path)
    assert names(tmp_path) == set()


def test_known_checksum_is_checked_locally(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, tiny(server, sha256=hashlib.sha256(PACKED).hexdigest()))
    load("tiny", folder=tmp_path)
    assert "tiny.bz2.sha256" not in names(tmp_path)
    (tmp_path / "tiny.bz2").write_bytes(bz2.compress(TRAIN + b"1 1:1\n"))
    with pytest.raises(DataFileError, match="damaged or was changed"):
        load("tiny", folder=tmp_path)


def test_interrupted_download_leaves_nothing(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="broke off after|could not be downloaded"):
        fetch_file(f"{server}/broken", tmp_path / "a")
    assert names(tmp_path) == set()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_file(f"{server}/tiny.bz2", tmp_path / "a", progress=stop)
    assert names(tmp_path) == set()


def test_no_network(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, tiny("http://127.0.0.1:1"))
    with pytest.raises(DataFileError, match=r"Check the network.*put the file at .*tiny\.bz2"):
        load("tiny", folder=tmp_path)
    with pytest.raises(DataFileError, match=r"downloads are off; put http://127.0.0.1:1/tiny"):
        load("tiny", folder=tmp_path, download=False)
    know(monkeypatch, tiny(server + "/absent"))
    with pytest.raises(DataFileError, match="404"):
        load("tiny", folder=tmp_path)


def test_other_schemes_are_refused(tmp_path: Path) -> None:
    for url in ["ftp://127.0.0.1/a", "a", "data:,1"]:
        with pytest.raises(InputError, match="https, http, file"):
            fetch_file(url, tmp_path / "a")


def test_redirects_to_other_schemes_are_refused(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataFileError):
        fetch_file(f"{server}/redirect", tmp_path / "a")
    assert names(tmp_path) == set()


def test_file_urls(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(TRAIN)
    fetch_file((tmp_path / "a").as_uri(), tmp_path / "deep" / "b")
    assert (tmp_path / "deep" / "b").read_bytes() == TRAIN


def test_wrong_number_of_rows(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, tiny(server, n_test_rows=3))
    with pytest.raises(DataFileError, match="test file of tiny has 2 rows, not 3"):
        load("tiny", folder=tmp_path)


def test_last_rows_as_official_test(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, tiny(server, test=None, n_test_rows=2))
    data = load("tiny", folder=tmp_path)
    assert_array_equal(data.y_test, [2, 1])
    assert_array_equal(data.y_train, [1, 2, 1])


def test_sparse_set(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, tiny(server, loader="sparse-libsvm"))
    data = load("tiny", folder=tmp_path)
    assert sparse.issparse(data.X_train)
    assert data.X_train.shape == (5, 4)


def test_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = RemoteFile("http://127.0.0.1:1/letter.data")
    known = KnownSet("letter", "multiclass", 3, 2, "", train=remote, n_test_rows=1, loader="letter")
    know(monkeypatch, known)
    (tmp_path / "letter.data").write_text("A,1,2\nZ,3,4\nC,5,6\n")
    data = load("letter", folder=tmp_path)
    assert_array_equal(data.y_train, [0, 25])
    assert_array_equal(data.X_test, [[5, 6]])
    (tmp_path / "letter.data.sha256").unlink()
    (tmp_path / "letter.data").write_text("A,1,2\nZZ,3,4\nC,5,6\n")
    with pytest.raises(DataFileError, match="a letter, then numbers"):
        load("letter", folder=tmp_path)


def test_kddcup99(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [RemoteFile(f"http://127.0.0.1:1/{name}.gz") for name in ("train", "test")]
    known = KnownSet(
        "kddcup99",
        "binary",
        2,
        4,
        "",
        train=files[0],
        test=files[1],
        n_test_rows=1,
        loader="kddcup99",
    )
    know(monkeypatch, known)
    (tmp_path / "train").write_text("0,tcp,1,normal.\n5,udp,2,smurf.\n")
    (tmp_path / "test").write_text("7,icmp,3,smurf.\n")
    data = load("kddcup99", folder=tmp_path)
    assert_array_equal(data.X_train, [[0, 0, 1, 0, 1], [5, 0, 0, 1, 2]])
    assert_array_equal(data.X_test, [[7, 1, 0, 0, 3]])
    assert_array_equal(data.y_train, [0, 1])
    (tmp_path / "test.sha256").unlink()
    (tmp_path / "test").write_text("7,8\n")
    with pytest.raises(DataFileError, match="not a KDD Cup 99 file"):
        load("kddcup99", folder=tmp_path)


def test_npz_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, tiny("http://127.0.0.1:1"))
    X, y = np.arange(20).reshape(10, 2), np.arange(10) % 2
    np.savez(tmp_path / "tiny.npz", X=X, y=y)
    data = load("tiny", folder=tmp_path)
    order = np.random.RandomState(0).permutation(10)
    assert_array_equal(data.X_train, X[order[:8]])
    assert_array_equal(data.y_test, y[order[8:]])


def test_any_npz_in_the_folder(tmp_path: Path) -> None:
    for y, task in [
        ([1, -1, 1, 1, -1], "binary"),
        ([1.0, 2.0, 1.0, 1.0, 1.0], "binary"),
        ([1, 2, 3, 1, 1], "multiclass"),
        (["a", "b", "c", "a", "a"], "multiclass"),
        ([1.0, 2.0, 3.0, 1.0, 1.0], "regression"),
    ]:
        np.savez(tmp_path / "my-own_1.npz", X_train=np.eye(5), y_train=np.array(y))
        data = load("my-own_1", folder=tmp_path)
        assert isinstance(data, Dataset)
        assert data.task == task
        assert data.X_train.shape == (4, 5)
        assert data.name == "my-own_1"


def test_guess_of_several_outputs() -> None:
    assert guess_task(np.arange(6).reshape(3, 2)) == "regression"


def test_npz_faults(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.eye(5))
    np.savez(tmp_path / "b.npz", X=np.eye(1), y=[1])
    with pytest.raises(DataFileError, match="no labels y"):
        load("a", folder=tmp_path)
    with pytest.raises(DataFileError, match="too few to split"):
        load("b", folder=tmp_path)


def test_names_that_are_not_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Did you mean 'ijcnn1'"):
        load("ijcnn", folder=tmp_path)
    with pytest.raises(InputError, match="is not the name"):
        load("../ijcnn1", folder=tmp_path)
    with pytest.raises(DataFileError, match=r"put cpu_act\.npz into"):
        load("cpu_act", folder=tmp_path)


def test_available(tmp_path: Path) -> None:
    (tmp_path / "mine.npz").touch()
    (tmp_path / "cadata").touch()
    (tmp_path / "a9a").touch()
    (tmp_path / "w8a.npz").touch()
    infos = {info.name: info for info in available(tmp_path)}
    present = {name for name, info in infos.items() if info.present}
    assert present == {"mine", "cadata", "w8a"}
    assert KNOWN.keys() <= infos.keys()
    assert list(infos) == sorted(infos, key=str.lower)
    assert infos["SUSY"].task == "binary"


def test_known_sets_have_valid_addresses_and_checksums() -> None:
    assert len(KNOWN) == 29
    for known in KNOWN.values():
        for file in filter(None, (known.train, known.test)):
            assert file.url.startswith("https://")
            assert file.name
            assert file.sha256 is None or len(file.sha256) == 64
        assert known.test is None or known.n_test_rows > 0


def test_descriptions_of_large_sets_refer_to_open_chunks() -> None:
    for known in KNOWN.values():
        large = 4 * known.n_rows * known.n_columns > 8e9
        assert large == ("open_chunks" in known.description), known.name


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", "XDG_CACHE_HOME", "cache/gramless"),
        ("linux", None, "home/.cache/gramless"),
        ("darwin", None, "home/Library/Caches/gramless"),
        ("win32", "LOCALAPPDATA", "cache/gramless"),
    ],
)
def test_default_folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    platform: str,
    variable: str | None,
    expected: str,
) -> None:
    for name in ("GRAMLESS_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "cache"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setattr("sys.platform", platform)
    assert data_folder() == tmp_path / expected
    monkeypatch.setenv("GRAMLESS_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert data_folder("elsewhere") == Path("elsewhere")


def test_no_home_folder(monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("GRAMLESS_DATA", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(InputError, match="GRAMLESS_DATA"):
        data_folder()
    assert data_folder("elsewhere") == Path("elsewhere")


@pytest.mark.data
@pytest.mark.parametrize("name", ["a9a", "w8a", "cadata", "covtype_first20k", "cpu_act"])
def test_real_sets(data_folder: Path, name: str) -> None:
    data = load(name, folder=data_folder, download=False)
    known = KNOWN[name]
    n_rows = known.n_rows + (known.n_test_rows if known.test else 0)
    assert data.X_train.shape[0] + data.X_test.shape[0] == n_rows
    assert data.X_train.shape[1] == known.n_columns
    assert len(np.unique(data.y_train)) == 2 or known.task != "binary"


@pytest.mark.data
def test_real_originals_agree_with_their_npz(data_folder: Path, tmp_path: Path) -> None:
    for name in ("a9a", "a9a.t", "letter-recognition.data"):
        (tmp_path / name).symlink_to(data_folder / "original" / name)
    for name in ("a9a", "letter"):
        original, stored = (load(name, folder=f, download=False) for f in (tmp_path, data_folder))
        for part in ("X_train", "y_train", "X_test", "y_test"):
            assert_array_equal(getattr(original, part), getattr(stored, part))


def test_listing_and_loading_from_the_shell(tmp_path, monkeypatch, capsys) -> None:
    np.savez(tmp_path / "mine.npz", X=np.eye(10), y=np.arange(10) % 2)
    monkeypatch.setattr("sys.argv", ["data_sets", "--folder", str(tmp_path)])
    main()
    assert "* mine" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["data_sets", "mine", "--folder", str(tmp_path)])
    main()
    assert "8 + 2 rows x 10 columns" in capsys.readouterr().out
