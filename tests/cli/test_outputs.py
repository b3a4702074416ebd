"""Files that commands write: what they may replace, and what a failure leaves behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from gramless.base.errors import InputError, ModelFileError
from gramless.base.files import open_for_writing
from gramless.cli.outputs import Output, check_outputs
from gramless.estimators.persistence import save
from gramless.inspection.pictures import write_picture

from .conftest import QUICK


@pytest.fixture
def files(write, shell, tmp_path) -> dict[str, Path]:
    """Return a table with its model, and another table that must not be replaced."""
    data, model = write("train.csv"), tmp_path / "m.gramless"
    shell("fit", data, "--model", model, *QUICK)
    other = tmp_path / "other.csv"
    other.write_text("one,two\n1,2\n")
    return {"data": data, "model": model, "other": other}


COMMANDS = {
    "fit": "fit DATA --model OUT",
    "stream": "stream DATA OUT --steps 2",
    "predict": "predict MODEL DATA -o OUT",
    "explain": "explain MODEL --data DATA -o OUT",
    "anomalies": "anomalies DATA -o OUT",
    "anomalies page": "anomalies DATA --page OUT",
    "anomalies model": "anomalies DATA --save OUT",
    "compare-tables": "compare-tables DATA DATA -o OUT",
    "evaluate": "evaluate MODEL DATA --picture OUT",
    "inspect": "inspect MODEL --data DATA --picture OUT",
}


def words(command: str, files: dict[str, Path], out: Path) -> list[object]:
    places = {"DATA": files["data"], "MODEL": files["model"], "OUT": out}
    return [places.get(word, word) for word in COMMANDS[command].split()]


def test_existing_files_are_kept(files, shell):
    for command in COMMANDS:
        error = shell.error(*words(command, files, files["other"]))
        assert "other.csv exists; name another file, or use --force" in error
        assert files["other"].read_text() == "one,two\n1,2\n"


READ = [(c, what) for c in COMMANDS for what in ("data", "model") if what.upper() in COMMANDS[c]]


def test_inputs_are_never_overwritten(files, shell):
    for command, what in READ:
        content = files[what].read_bytes()
        error = shell.error(*words(command, files, files[what]), "--force")
        assert "name another file" in error
        assert files[what].read_bytes() == content


def test_force_replaces_other_files(files, shell):
    shell("fit", files["data"], "--model", files["other"], *QUICK, "--force")
    assert shell("inspect", files["other"]).stdout


def test_fit_replaces_a_model(files, shell):
    shell("fit", files["data"], "--model", files["model"], *QUICK)


def test_anomalies_replaces_its_own_page(files, shell, tmp_path):
    for _ in range(2):
        shell("anomalies", files["data"], "--page", tmp_path / "page.html")


def test_pages_of_other_programs_are_kept(files, shell, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<!DOCTYPE html><title>mine, not of gramless</title>")
    assert "exists" in shell.error("anomalies", files["data"], "--page", page)


def test_only_pictures_of_gramless_are_replaced(tmp_path):
    for ending in ["png", "svg", "pdf"]:
        picture = Output("--picture", tmp_path / f"a.{ending}", "picture")
        write_picture(Figure(), picture.path)
        check_outputs([picture], {}, force=False)
        Figure().savefig(picture.path)
        with pytest.raises(InputError, match="exists"):
            check_outputs([picture], {}, force=False)


def test_two_outputs_must_be_two_files(files, shell, tmp_path):
    out = tmp_path / "out"
    error = shell.error("anomalies", files["data"], "-o", out, "--page", out)
    assert "is the file of -o" in error


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_links_to_inputs_are_never_overwritten(files, shell, tmp_path):
    (tmp_path / "link").symlink_to(files["data"])
    error = shell.error("predict", files["model"], files["data"], "-o", tmp_path / "link")
    assert "is the data itself" in error


def test_impossible_file_names_are_rejected(files, shell, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        assert "too long" in shell.error(*words(command, files, Path("a" * 300)))
    absent = Path("~nobody_of_this_name/a")
    assert "no folder" in shell.error(*words("predict", files, absent))


def test_save_and_load_reject_impossible_file_names(tmp_path, files):
    for name in ["a\0b", "a" * 300]:
        from gramless import load

        with pytest.raises(ModelFileError, match="cannot be written"):
            save(load(files["model"]), f"{tmp_path}/{name}")
        with pytest.raises(ModelFileError, match="cannot be read"):
            load(f"{tmp_path}/{name}")


def test_failed_write_keeps_the_old_file(tmp_path):
    target = tmp_path / "a"
    target.write_text("old")
    with (
        pytest.raises(InputError, match=r"cannot be written \(No space left"),
        open_for_writing(target),
    ):
        raise OSError(28, "No space left on device")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_replaced_file_keeps_its_permissions(tmp_path):
    target = tmp_path / "a"
    target.touch(0o600)
    with open_for_writing(target) as file:
        file.write(b"new")
    assert target.stat().st_mode & 0o777 == 0o600


def test_failed_predict_keeps_the_old_output(files, shell, monkeypatch, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gramless.cli.report._write_columns", full)
    error = shell.error("predict", files["model"], files["data"], "-o", out, "--force")
    assert "out.csv cannot be written (No space left on device)" in error
    assert out.read_text() == "old"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_full_device_is_named(files, shell):
    error = shell.error("predict", files["model"], files["data"], "-o", "/dev/full")
    assert "/dev/full cannot be written (No space left on device)" in error
