"""Tables from standard input and pipes, and files that would be replaced."""

import gzip
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from gramless.base.errors import DataFileError
from gramless.base.files import open_replacement
from gramless.cli import outputs
from gramless.datasets import read_table

from .conftest import QUICK

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")


@pytest.fixture
def model(write, shell, tmp_path):
    shell("fit", write("model.csv"), "-m", tmp_path / "model", *QUICK)
    return tmp_path / "model"


def test_format_of_standard_input_is_detected(model, write, shell):
    for name in ["a.csv", "a.tsv", "a.csv.gz", "a.parquet"]:
        data = write(name.removesuffix(".gz"))
        content = data.read_bytes()
        content = gzip.compress(content) if name.endswith(".gz") else content
        expected = shell("predict", model, data).stdout
        assert shell("predict", model, "-", stdin=content).stdout == expected
        assert shell("evaluate", model, "-", stdin=content).stdout


def test_fit_reads_every_format_from_standard_input(write, shell, tmp_path):
    for name in ["a.libsvm", "a.npz", "a.npy", "a.arff"]:
        if name == "a.arff":
            content = b"% made up\n@relation r\n@attribute x real\n@attribute y real\n@data\n"
            content += b"".join(b"%d,%d\n" % (k, k % 7) for k in range(50))
        elif name == "a.npy":
            np.save(tmp_path / name, np.random.default_rng(0).normal(size=(50, 3)))
            content = (tmp_path / name).read_bytes()
        else:
            content = write(name).read_bytes()
        result = shell("fit", "-", "-m", tmp_path / "m", *QUICK, stdin=content).stdout
        assert "random grids" in result


@POSIX
def test_predict_reads_a_named_pipe(model, write, shell, tmp_path):
    data, pipe = write("a.csv"), tmp_path / "pipe"
    os.mkfifo(pipe)
    sender = threading.Thread(target=pipe.write_bytes, args=(data.read_bytes(),))
    sender.start()
    assert shell("predict", model, pipe).stdout == shell("predict", model, data).stdout
    sender.join()
    assert "stream reads its rows twice" in shell.error("stream", pipe, tmp_path / "other")
    with pytest.raises(DataFileError, match=r"pipe is a pipe or a device.*only once; save"):
        read_table(pipe)


def test_empty_input_and_streams_from_standard_input_are_rejected(model, shell, tmp_path):
    assert "the pipe is empty" in shell.error("predict", model, "-", stdin=b"")
    assert "stream reads its rows twice" in shell.error("stream", "-", tmp_path / "m")


def test_existing_output_is_kept_unless_forced(model, write, shell, tmp_path):
    data, out = write("a.csv"), tmp_path / "out.csv"
    out.write_text("precious")
    message = shell.error("predict", model, data, "-o", out)
    assert "out.csv exists; name another file, or use --force" in message
    assert out.read_text() == "precious"
    shell("predict", model, data, "-o", out, "--force")
    assert out.read_text().startswith("prediction\n")
    assert shell("predict", model, data, "-o", "-").stdout == out.read_text()


def test_terminal_user_is_asked_before_replacing(monkeypatch, tmp_path):
    class Terminal:
        def isatty(self):
            return True

    asked = []
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr("typer.confirm", lambda text, **options: asked.append((text, options)))

    def check(name: str, force: bool) -> None:
        outputs.check_outputs([outputs.Output("-o", tmp_path / name, "table")], {}, force)

    check("new.csv", False)
    (tmp_path / "old.csv").touch()
    check("old.csv", True)
    assert not asked
    check("old.csv", False)
    assert asked == [(f"{tmp_path / 'old.csv'} exists. Replace it?", {"abort": True, "err": True})]


@POSIX
def test_devices_are_written_to_and_never_replaced(model, write, shell):
    shell("predict", model, write("a.csv"), "-o", "/dev/null")
    assert Path("/dev/null").is_char_device()


@POSIX
def test_pipes_are_written_to_and_never_replaced(tmp_path):
    pipe, results = tmp_path / "pipe", []
    os.mkfifo(pipe)
    receiver = threading.Thread(target=lambda: results.append(pipe.read_bytes()))
    receiver.start()
    with open_replacement(pipe) as file:
        file.write(b"content")
    receiver.join()
    assert results == [b"content"]
    assert pipe.is_fifo()


@POSIX
def test_pipe_without_a_reader_is_an_error(model, write, shell, tmp_path, monkeypatch):
    monkeypatch.setattr("gramless.base.files._WAIT_FOR_READER_SECONDS", 0.05)
    os.mkfifo(tmp_path / "pipe")
    error = shell.error("predict", model, write("a.csv"), "-o", tmp_path / "pipe")
    assert "pipe cannot be written (nothing reads from this pipe)" in error


@POSIX
@pytest.mark.parametrize("command", ["fit", "explain"])
def test_models_and_pages_need_files(command, model, write, shell, tmp_path):
    data, pipe = write("a.csv"), tmp_path / "pipe"
    os.mkfifo(pipe)
    words = {
        "fit": ["fit", data, "--model", pipe],
        "explain": ["explain", model, "--data", data, "-o", pipe],
    }
    assert "is a pipe or a device" in shell.error(*words[command])


@POSIX
def test_pipe_is_rejected_as_model_file(write, shell, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    error = shell.error("predict", tmp_path / "pipe", write("a.csv"))
    assert "it is a pipe or a device; save what it holds to a file" in error


@POSIX
def test_dev_stdout_can_be_the_output(model, write, shell):
    data = write("a.csv")
    assert shell("predict", model, data, "-o", "/dev/stdout").stdout.startswith("prediction\n")


@pytest.mark.parametrize(("stream", "name"), [(0, "standard input"), (1, "standard output")])
def test_closed_standard_stream_is_an_error(stream, name, write, shell, tmp_path):
    shell("fit", write("a.csv"), "-m", tmp_path / "m", *QUICK)
    # The shell closes it before Python starts.
    script = f'exec {stream}{"<" if stream == 0 else ">"}&-; exec "$@"'
    command = [sys.executable, "-m", "gramless", "predict", tmp_path / "m", "-"]
    done = subprocess.run(
        ["sh", "-c", script, "sh", *map(str, command)], input=b"", capture_output=True
    )
    assert done.returncode == 1
    assert f"{name} is closed" in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
