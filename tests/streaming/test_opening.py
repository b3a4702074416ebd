"""Files as streams: every format, labels, folders that are kept, and those that go."""

from __future__ import annotations

import gc
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import DoublyStochasticClassifier, DoublyStochasticRegressor, open_stream
from gramless.base.errors import DataFileError, InputError
from gramless.streaming import opening
from gramless.streaming.external_shuffle import ShardSource, external_shuffle
from gramless.streaming.sources import MappedSource

Array = NDArray[Any]

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")

RNG = np.random.default_rng(0)
N = 500
X: Array = RNG.normal(size=(N, 3)).astype(np.float32)
NUMBERS: Array = X[:, 0] * 2.0 + 0.5
LABELS: Array = np.array(["red", "gréen", "blue"], dtype=object)[X.argmax(axis=1)]


def csv(path: Path, targets: Array, names: str = "a,b,c,label") -> Path:
    rows = (",".join([*map(repr, x), str(t)]) for x, t in zip(X.tolist(), targets, strict=True))
    path.write_text("\n".join([names, *rows]) + "\n", encoding="utf-8")
    return path


def libsvm(path: Path, targets: Array) -> Path:
    lines = (
        " ".join([f"{t:g}", *(f"{j + 1}:{v!r}" for j, v in enumerate(x) if v)])
        for x, t in zip(X.tolist(), targets, strict=True)
    )
    path.write_text("\n".join(lines) + "\n")
    return path


def npz(path: Path, targets: Array) -> Path:
    np.savez(path, X=X, y=targets)
    return path


def parquet(path: Path, targets: Array) -> Path:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": list(targets)})
    frame.write_parquet(path)
    return path


def all_rows(source: Any) -> dict[tuple[float, ...], Any]:
    """Return the targets of all rows, by their numbers."""
    result = {}
    for rows, targets in (source.held_out(), *source.chunks()):
        result |= {tuple(x): t for x, t in zip(rows.tolist(), targets.tolist(), strict=True)}
    return result


FILES: dict[str, Any] = {
    "csv text": (csv, "rows.csv", LABELS),
    "csv numbers": (csv, "rows.csv", NUMBERS),
    "libsvm": (libsvm, "rows.libsvm", X.argmax(axis=1)),
    "npz": (npz, "rows.npz", NUMBERS),
    "npz text": (npz, "rows.npz", LABELS.astype(str)),
    "parquet": (parquet, "rows.parquet", NUMBERS),
    "parquet text": (parquet, "rows.parquet", LABELS),
}


def test_every_format_streams_all_rows(tmp_path: Path) -> None:
    for kind in FILES:
        write, name, targets = FILES[kind]
        source = open_stream(write(tmp_path / name, targets))
        assert (source.n_features, source.n_rows) == (3, 450)
        assert source.held_out()[0].shape == (50, 3)
        expected = {tuple(x): t for x, t in zip(X.tolist(), targets.tolist(), strict=True)}
        result = all_rows(source)
        assert result.keys() == expected.keys()
        for row, target in expected.items():
            assert result[row] == (target if isinstance(target, str) else pytest.approx(target))
        epoch = source.read(0, 450)
        assert {tuple(x) for x in epoch[0].tolist()} == {
            tuple(x) for rows, _ in source.chunks() for x in rows.tolist()
        }
        assert not np.array_equal(epoch[0], source.read(450, 900)[0])
        assert epoch[1].dtype.kind == ("O" if isinstance(targets[0], str) else "f")


def test_classifier_fits_a_file_of_every_format(tmp_path: Path) -> None:
    for kind in ["csv text", "npz text", "parquet text", "libsvm"]:
        write, name, targets = FILES[kind]
        source = open_stream(write(tmp_path / name, targets))
        model = DoublyStochasticClassifier(
            random_state=0, max_steps=30, block_size=32, batch_size=150
        )
        model.fit_stream(source)
        assert sorted(model.classes_.tolist()) == sorted(set(targets.tolist()))
        assert model.score(X, targets) > 0.85
        assert len(model.evaluations_["loss"]) == 3
        names = getattr(model, "feature_names_in_", None)
        if kind in ("csv text", "parquet text"):
            assert list(names) == ["a", "b", "c"]


def test_reader_options_are_passed_on(tmp_path: Path) -> None:
    path = csv(tmp_path / "rows.txt", NUMBERS)
    path.write_text(path.read_text().replace(",", ";"))
    source = open_stream(path, format="csv", delimiter=";", target="b", chunk_rows=64)
    assert source.names == ("a", "c", "label")
    np.testing.assert_allclose(
        np.sort(np.concatenate([y for _, y in source.chunks()] + [source.held_out()[1]])),
        np.sort(X[:, 1]),
        rtol=1e-6,
    )


def test_generated_column_names_are_dropped(tmp_path: Path) -> None:
    path = csv(tmp_path / "rows.csv", NUMBERS)
    path.write_text("\n".join(path.read_text().splitlines()[1:]))
    assert open_stream(path, header=False).names is None
    assert open_stream(npz(tmp_path / "rows.npz", NUMBERS)).names is None


def test_seed_decides_the_order(tmp_path: Path) -> None:
    path = npz(tmp_path / "rows.npz", NUMBERS)
    one, same, other = (open_stream(path, random_state=k) for k in (3, 3, 4))
    np.testing.assert_array_equal(one.read(7, 800)[0], same.read(7, 800)[0])
    assert not np.array_equal(one.read(0, 450)[0], other.read(0, 450)[0])
    pieces = open_stream(path, random_state=3, chunk_rows=77)
    np.testing.assert_array_equal(one.read(7, 800)[0], pieces.read(7, 800)[0])


def test_files_of_a_few_rows_are_fitted(tmp_path: Path) -> None:
    for n in [1, 2, 9, 10]:
        path = tmp_path / "rows.npz"
        np.savez(path, X=X[:n], y=NUMBERS[:n])
        source = open_stream(path)
        assert source.n_rows == n - n // 10
        assert len(source.held_out()[1]) == n // 10
        model = DoublyStochasticRegressor(random_state=0, max_steps=3, block_size=8)
        assert np.isfinite(model.fit_stream(source).predict(X)).all()


# Folders.


def test_folder_of_shuffled_rows_is_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = csv(tmp_path / "rows.csv", LABELS)
    first = open_stream(path, folder=tmp_path / "deep" / "rows")
    expected = first.read(0, 700)
    del first
    gc.collect()
    monkeypatch.setattr(opening, "external_shuffle", None)
    again = open_stream(path, folder=tmp_path / "deep" / "rows", chunk_rows=100)
    assert isinstance(again, MappedSource)
    assert again.names == ("a", "b", "c")
    for result, given in zip(again.read(0, 700), expected, strict=True):
        np.testing.assert_array_equal(result, given)


def test_folder_of_another_file_is_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    open_stream(csv(tmp_path / "rows.csv", LABELS), folder=folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = LABELS.copy()
    other[[3, 4]] = "red", "blue"
    changed = X.copy()
    changed[17, 1] += 1e-3
    np.savez(tmp_path / "changed.npz", X=changed, y=LABELS.astype(str))
    np.savez(tmp_path / "short.npz", X=X[:-1], y=LABELS[:-1].astype(str))
    files = (csv(tmp_path / "other.csv", other), tmp_path / "changed.npz", tmp_path / "short.npz")
    for path in files:
        with pytest.raises(InputError, match=r"rows' holds the rows of another file; name anoth"):
            open_stream(path, folder=folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    external_shuffle([(X, NUMBERS)], tmp_path / "other", seed=0)
    with pytest.raises(InputError, match="holds the rows of another file"):
        open_stream(npz(tmp_path / "rows.npz", NUMBERS), folder=tmp_path / "other")


def test_sparse_files_are_distinguished_by_row_boundaries(tmp_path: Path) -> None:
    for name, lines in (("one", ["1 1:5 2:7", "1 3:1"]), ("other", ["1 1:5", "1 2:7 3:1"])):
        (tmp_path / f"{name}.libsvm").write_text("\n".join(lines * 20) + "\n")
    source = open_stream(tmp_path / "one.libsvm", folder=tmp_path / "rows")
    again = open_stream(tmp_path / "one.libsvm", folder=tmp_path / "rows", chunk_rows=7)
    np.testing.assert_array_equal(again.read(0, 50)[0], source.read(0, 50)[0])
    with pytest.raises(InputError, match="holds the rows of another file"):
        open_stream(tmp_path / "other.libsvm", folder=tmp_path / "rows")


def test_folder_of_an_interrupted_stream_is_refilled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folder = npz(tmp_path / "rows.npz", NUMBERS), tmp_path / "rows"

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ShardSource, "open", interrupted)
        with pytest.raises(KeyboardInterrupt):
            open_stream(path, folder=folder)
    (folder / "spool.json").unlink()
    other = npz(tmp_path / "other.npz", NUMBERS + 1.0)
    source = open_stream(other, folder=folder)
    assert sorted(all_rows(source).values()) == pytest.approx(sorted(NUMBERS + 1.0))


def test_damaged_folder_is_reported(tmp_path: Path) -> None:
    path, folder = npz(tmp_path / "rows.npz", NUMBERS), tmp_path / "rows"
    open_stream(path, folder=folder)
    shard = next(folder.glob("pile-*.rows"))
    shard.write_bytes(shard.read_bytes()[:-4])
    with pytest.raises(DataFileError, match=shard.name):
        open_stream(path, folder=folder)
    (folder / "spool.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(DataFileError, match=r"spool\.json"):
        open_stream(path, folder=folder)
    with pytest.raises(DataFileError, match=r"cannot be written.*choose another folder"):
        open_stream(path, folder=path)


@pytest.mark.parametrize("targets", [LABELS.astype(str), NUMBERS])
def test_temporary_folder_is_removed_with_its_source(targets: Array, tmp_path: Path) -> None:
    source: Any = open_stream(npz(tmp_path / "rows.npz", targets))
    inner = source.source if isinstance(source, MappedSource) else source
    room = inner.folder
    assert (room / "spool.json").exists()
    kind = DoublyStochasticRegressor if targets is NUMBERS else DoublyStochasticClassifier
    model = kind(random_state=0, max_steps=12, block_size=8).fit_stream(source)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del source, inner
        gc.collect()
    assert not room.exists()
    assert not [one for one in caught if issubclass(one.category, ResourceWarning)]
    assert np.isfinite(model._responses(X)).all()


def test_failed_stream_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "rooms"))
    (tmp_path / "rooms").mkdir()
    bad = NUMBERS.copy()
    bad[400] = np.nan
    with pytest.raises(InputError, match=r"target of row 400 of the stream \(from 0\)"):
        open_stream(npz(tmp_path / "rows.npz", bad))
    assert not list((tmp_path / "rooms").iterdir())


# Files that cannot be streams.


def test_error_names_missing_values(tmp_path: Path) -> None:
    path = csv(tmp_path / "rows.csv", LABELS)
    lines = path.read_text().splitlines()
    lines[301] = "1.0,,2.0,red"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"Row 300 of the stream \(from 0\) has nan in column 1"):
        open_stream(path)
    lines[301] = "1.0,5.0,2.0,"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"Row 300 of the stream \(from 0\) has no label"):
        open_stream(path)


def test_too_many_labels_are_rejected(tmp_path: Path) -> None:
    path = csv(tmp_path / "rows.csv", np.array([f"w{k}" for k in range(N)]))
    with pytest.raises(InputError, match=r"more than 100 different texts; name another column"):
        open_stream(path, max_labels=100)
    source = open_stream(csv(path, np.array([f"w{k % 100}" for k in range(N)])), max_labels=100)
    assert set(all_rows(source).values()) == {f"w{k}" for k in range(100)}


def test_invalid_files_and_options_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"absent\.csv"):
        open_stream(tmp_path / "absent.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataFileError, match="empty"):
        open_stream(tmp_path / "empty.csv")
    path = csv(tmp_path / "rows.csv", LABELS)
    with pytest.raises((InputError, DataFileError), match="no such column"):
        open_stream(path, target="no such column")
    with pytest.raises(TypeError, match="surprise"):
        open_stream(path, surprise=1)
    text = tmp_path / "text.csv"
    text.write_text("a,b,label\nred,1,2\n" * 3)
    with pytest.raises(InputError, match="'a' holds text"):
        open_stream(text, header=True)


def test_progress_of_reading_is_reported(tmp_path: Path) -> None:
    messages: list[str] = []
    path = npz(tmp_path / "rows.npz", NUMBERS)
    open_stream(path, chunk_rows=300, report=messages.append)
    assert messages == [
        "counting, 300 rows",
        "counting, 500 rows",
        "shuffling, 300 of 500 rows",
        "shuffling, 500 of 500 rows",
    ]
