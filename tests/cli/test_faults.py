"""What is wrong is said in one line, with an exit code, and nothing else is printed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import gramless
from gramless import RandomBinning, save
from gramless.cli import report as reports
from gramless.cli.main import app

from .conftest import N_ROWS, QUICK


@pytest.fixture
def model(write, shell, tmp_path):
    path = tmp_path / "m.gramless"
    shell("fit", write("train.csv"), "-m", path, *QUICK)
    return path


FIT_FAULTS = {
    "no such file": (["absent.csv"], "absent.csv does not exist"),
    "no such target": (["a.csv", "--target", "cost"], "no column 'cost'"),
    "no such feature": (["a.csv", "--features", "size,cost"], "no column 'cost'"),
    "no such weight": (["a.csv", "--weight", "cost"], "no column 'cost'"),
    "weights of text": (["colours.csv", "--weight", "colour"], "column 'colour' of weights holds"),
    "no such category": (["a.csv", "--categorical", "cost"], "no column 'cost'"),
    "target among features": (["a.csv", "--features", "price"], "is also in --features"),
    "unknown kernel": (["a.csv", "--kernel", "cosine"], "unknown kernel 'cosine'"),
    "gaussian": (["a.csv", "--kernel", "gaussian"], "no random binning"),
    "bad power": (["a.csv", "--kernel", "exponential_power:3"], "above 1"),
    "power of none": (["a.csv", "--kernel", "hat:3"], "no parameter number"),
    "no number": (["a.csv", "--kernel", "hat:x"], "hat:x"),
    "negative bandwidth": (["a.csv", "--bandwidth", "-1"], "bandwidth must be positive"),
    "regression of text": (["text.csv", "--task", "regression"], "regression needs numbers"),
    "one class": (["one.csv", "--task", "classification"], "at least 2 classes"),
    "holes in the target": (["holes.csv"], "missing in 1 of 120 rows"),
    "beyond the memory": (["a.csv", "--limits", "max_memory=1e3"], "--limits max_memory="),
    "no such limit": (["a.csv", "--limits", "memory=1e3"], "NAME of max_line_bytes"),
    "no threads": (["a.csv", "--n-jobs", "0"], "--n-jobs must be"),
}


def test_fit_reports_invalid_arguments_in_one_line(write, shell, tmp_path, columns):
    for kind in FIT_FAULTS:
        (name, *options), message = FIT_FAULTS[kind]
        write("a.csv")
        write("text.csv", ("size", "kind"))
        write("colours.csv", ("size", "colour", "price"))
        write("one.csv", ("size",), label=np.ones(N_ROWS))
        write("holes.csv", ("size",), label=np.append(np.nan, columns["price"][1:]))
        text = shell.error("fit", tmp_path / name, "-m", tmp_path / "m", *QUICK[:2], *options)
        assert message in text
        assert not (tmp_path / "m").exists()


def test_invalid_usage_exits_with_code_2(shell):
    for arguments in [
        ["fit", "a.csv"],
        ["fit", "a.csv", "-m", "m", "--alpha", "much"],
        ["fit", "a.csv", "-m", "m", "--features", "a,,b"],
        ["fit", "a.csv", "-m", "m", "--task", "ranking"],
        ["fit", "a.csv", "-m", "m", "--n-grids", "0"],
        ["fit", "a.csv", "-m", "m", "--l1-ratio", "2"],
        ["fit", "a.csv", "-m", "m", "--l1-ratio", "-0.1"],
        ["fit", "a.csv", "-m", "m", "--l1-ratio", "all"],
        ["predict", "m"],
        ["guess"],
        ["--surprise"],
    ]:
        shell.error(*arguments, code=2)


SHARES = {
    "2": r"less than or equal to 1|range 0\.0<=x<=1\.0",
    "1.0001": r"less than or equal to 1|range 0\.0<=x<=1\.0",
    "-0.1": r"greater than or equal to 0|range 0\.0<=x<=1\.0",
    "all": "valid number|valid float range",
}
"""What versions of typer answer to each share."""


def test_l1_ratio_must_be_from_0_to_1(write, shell, tmp_path):
    for share in SHARES:
        text = shell.error("fit", write("a.csv"), "-m", tmp_path / "m", "--l1-ratio", share, code=2)
        message = " ".join(text.replace("│", " ").split())
        assert "--l1-ratio" in message
        assert re.search(SHARES[share], message)
        assert not (tmp_path / "m").exists()


def test_l1_ratio_must_not_be_nan(write, tmp_path):
    words = ["fit", str(write("a.csv")), "-m", str(tmp_path / "m"), "--l1-ratio", "nan"]
    result = CliRunner().invoke(app, words)
    # typer 0.19 lets NaN through to the estimator.
    assert result.exit_code in (1, 2)
    assert "--l1-ratio" in result.stderr
    assert not (tmp_path / "m").exists()


def test_output_path_is_checked_before_the_fit(write, shell, tmp_path):
    data = write("a.csv")
    assert "no folder" in shell.error("fit", data, "-m", tmp_path / "absent" / "m")
    assert "is a folder" in shell.error("fit", data, "-m", tmp_path)
    assert "the data" in shell.error("fit", data, "-m", data)
    assert "the data itself" in shell.error("predict", data, data, "-o", data)


def test_sparse_files_reject_feature_names(write, shell, tmp_path):
    data = write("a.libsvm")
    text = shell.error("fit", data, "-m", tmp_path / "m", "--features", "x1")
    assert "sparse matrix without column names" in text


def test_error_names_missing_columns(model, write, shell):
    other = write("b.csv", ("size", "price"))
    assert "lacks 1 of the 2 columns" in shell.error("predict", model, other)
    assert "weight" in shell.error("evaluate", model, other, "--target", "price")


def test_text_in_numeric_columns_is_rejected(model, write, shell, columns):
    data = write("b.csv", ("size", "price"), weight=columns["colour"])
    assert "'weight' held numbers" in shell.error("predict", model, data)
    data = write("c.csv", ("size", "weight", "kind"))
    assert "holds text" in shell.error("evaluate", model, data, "--target", "kind")


def test_inputs_are_rejected_as_target(model, write, shell):
    data = write("b.csv", ("size", "weight"))
    assert "is an input of the model" in shell.error("evaluate", model, data, "--target", "size")


def test_regressors_reject_scores_option(model, write, shell):
    assert "--scores is for classifiers" in shell.error(
        "predict", model, write("b.csv"), "--scores"
    )


def test_files_without_a_predictor_are_rejected(write, shell, tmp_path):
    for verb in ["predict", "evaluate"]:
        data = write("a.csv")
        assert "cannot be loaded" in shell.error(verb, data, data)
        assert "no model file" in shell.error(verb, tmp_path / "absent", data)
        save(RandomBinning(n_grids=4, random_state=0).fit(np.eye(9)), tmp_path / "bins")
        assert "predicts nothing" in shell.error(verb, tmp_path / "bins", data)


def test_inspect_rejects_other_files(write, shell):
    assert "cannot be loaded" in shell.error("inspect", write("a.csv"))


def test_unwritable_output_is_named(model, write, shell, tmp_path):
    assert "absent" in shell.error(
        "predict", model, write("b.csv"), "-o", tmp_path / "absent" / "o"
    )


def raising(fault):
    def run(*_, **__):
        raise fault

    return run


def test_every_exception_is_reported_in_one_line(write, shell, monkeypatch, tmp_path):
    for fault, message in [
        (KeyError("deep"), "KeyError: 'deep' (--debug shows where)"),
        (MemoryError(), "not enough memory"),
        (ValueError("two\nlines"), "two lines"),
        (PermissionError(13, "Permission denied", "x.csv"), "x.csv: Permission denied."),
    ]:
        monkeypatch.setattr("gramless.cli.reading.training_rows", raising(fault))
        assert message in shell.error("fit", write("a.csv"), "-m", tmp_path / "m")


def test_debug_prints_a_traceback(write, shell, monkeypatch, tmp_path):
    monkeypatch.setattr("gramless.cli.reading.training_rows", raising(KeyError("deep")))
    result = shell("fit", write("a.csv"), "-m", tmp_path / "m", "--debug", code=1)
    assert "Traceback" in result.stderr
    assert "training_rows" in result.stderr


def test_interrupt_exits_with_code_130(write, shell, monkeypatch, tmp_path):
    monkeypatch.setattr("gramless.cli.reading.training_rows", raising(KeyboardInterrupt()))
    result = shell("fit", write("a.csv"), "-m", tmp_path / "m", code=130)
    assert result.stderr == "interrupted\n"


def test_warnings_are_single_lines_on_stderr(write, shell, monkeypatch, tmp_path):
    def warn(*_, **__):
        import warnings

        warnings.warn("look\nhere", UserWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        raise ValueError("end")

    monkeypatch.setattr("gramless.cli.reading.training_rows", warn)
    result = shell("fit", write("a.csv"), "-m", tmp_path / "m", code=1)
    assert result.stderr == "warning: look here\nerror: end\n"


def test_plain_converts_values_to_json(tmp_path):
    odd = {1: np.float32("nan"), "a": np.arange(2), "b": {"c": tmp_path}, "d": (np.inf, None, "x")}
    expected = {"1": None, "a": [0, 1], "b": {"c": str(tmp_path)}, "d": [None, None, "x"]}
    assert reports.json_data(odd) == expected


# The real thing: another process, with its own exit code and streams.


def gramless_run(*arguments, **options):
    command = [sys.executable, "-c", "from gramless.cli.main import app; app()"]
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


def test_version_and_help_import_no_heavy_packages():
    heavy = ("numpy", "sklearn", "numba", "scipy", "pandas", "polars", "matplotlib", "safetensors")
    script = (
        "import sys\nfrom gramless.cli.main import app\n"
        f"try:\n    app(['--help'])\nfinally:\n    print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("[]\n"), done.stdout + done.stderr
    assert gramless_run("--version").stdout == f"gramless {gramless.__version__}\n"


def test_fit_in_a_process_prints_json(write, tmp_path):
    data, model = write("a.csv", ("size", "colour", "kind")), tmp_path / "m"
    done = gramless_run("fit", data, "-m", model, *QUICK, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["classes"] == ["cheap", "dear"]
    assert gramless_run("fit").returncode == 2


@pytest.mark.slow
def test_error_in_a_process_exits_with_code_1(tmp_path):
    done = gramless_run("predict", tmp_path / "absent", tmp_path / "absent.csv")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
@pytest.mark.slow
def test_closed_output_pipe_exits_silently(model, write):
    data = write("b.csv", size=np.zeros(N_ROWS))
    script = "import sys; from gramless.cli.main import app; sys.stdin.read(); app(sys.argv[1:])"
    command = [sys.executable, "-c", script, "predict", str(model), str(data)]
    run = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    run.stdout.close()
    run.stdin.close()
    assert run.stderr.read() == b""
    assert run.wait(60) == 1
    run.stderr.close()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupt_in_a_process_exits_with_code_130():
    # A test run in the background ignores Ctrl-C, and so would what it starts.
    script = (
        "import signal, time, typer\nfrom gramless.cli.report import open_report\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "app = typer.Typer()\n"
        "@app.command()\ndef wait():\n    with open_report(False, False):\n"
        "        print('ready', flush=True)\n        time.sleep(60)\napp()"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout.readline() == "ready\n"
    run.send_signal(signal.SIGINT)
    _, message = run.communicate(timeout=60)
    assert (run.returncode, message) == (130, "interrupted\n")
