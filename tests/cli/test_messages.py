"""Messages name options of the command line, and options have one name in every command."""

from __future__ import annotations

import re

from typer.testing import CliRunner

from gramless.cli.main import app
from gramless.cli.messages import _OPTIONS, name_options

from .conftest import QUICK

MESSAGES = {
    "n_jobs must be None or a non-zero integer, got 0.": "--n-jobs must be",
    "KernelRegressor: loss must be one of 'a', 'b'; got 'c'.": "--loss must be one of 'a', 'b'",
    "KernelRegressor: cv=500 folds are too many; lower cv.": "--cv 500 folds .* lower --cv",
    "grids='grown' chooses bins; use features='binning'.": "--grids grown chooses bins; use --appr",
    "Negative values in data passed to `sample_weight`.": "data passed to --weight.$",
    "raise max_rows, or take fewer.": "raise --size, or",
    "quantile= is of the loss quantile.": "--quantile is of the loss quantile",
    "the limit with limits=ReadLimits(max_memory=6), or on the command line with --limits "
    "max_memory=6.": "the limit with --limits max_memory=6.$",
    "Seed must be between 0 and 2**32 - 1": "^--seed must be between",
    "Rename it, or say format= one of csv, npy.": "Rename it to one of csv, npy.$",
    "rename one, or say header=False if the first row is data.": "^rename one.$",
    "or list the column in categorical=['a b'].": "or fit with --categorical a b.$",
    "more memory than there is. Read it in chunks by open_chunks, or on a machine with more.": (
        "than there is. Take fewer rows or columns.$"
    ),
    "unknown features 'foo'; use one of 'exact' or a feature map.": (
        "unknown --approximation 'foo'; use one of 'exact'.$"
    ),
}
KEPT = [
    "a.csv has no column 'n_jobs'; it has cv_1, features, loss.",
    "/data/n_jobs/cv.csv does not exist; check the name.",
    "the loss and the features of the kernel are alpha and omega.",
]


def test_parameters_in_messages_become_options():
    for message in MESSAGES:
        assert re.search(MESSAGES[message], name_options(message))


def test_other_words_in_messages_stay():
    for message in KEPT:
        assert name_options(message) == message


def test_every_named_option_exists():
    commands = ("fit", "stream", "anomalies", "compare-tables")
    texts = [CliRunner().invoke(app, [command, "--help"]).stdout for command in commands]
    missing = [option for option in _OPTIONS.values() if not any(option in t for t in texts)]
    assert not missing


def test_errors_of_fit_name_options(write, shell, tmp_path):
    for option, value, message in [
        ("--n-jobs", "0", "--n-jobs must be"),
        ("--bandwidth", "-1", "--bandwidth must be positive"),
        ("--cv", "1", "--cv must be an integer"),
        ("--memory", "much", "--memory: a number of bytes"),
        ("--grids", "many", "--grids must be one of"),
        ("--quantile", "0.5", "--quantile needs --loss quantile"),
    ]:
        words = ["fit", write("a.csv"), "--model", tmp_path / "m", option, value]
        assert message in shell.error(*words)


def test_n_grids_is_rejected_for_features_without_grids(write, shell, tmp_path):
    words = ["--approximation", "nystrom", "--n-grids", 8]
    error = shell.error("fit", write("a.csv"), "--model", tmp_path / "m", *words)
    assert "--approximation nystrom has no grids, so --n-grids cannot be used; give --size" in error


def test_quantile_option_fits_that_quantile(write, shell, tmp_path, columns):
    data, model = write("a.csv"), tmp_path / "m"
    shell("fit", data, "--model", model, *QUICK, "--loss", "quantile", "--quantile", 0.9)
    lines = shell("predict", model, data).stdout.split()[1:]
    below = [float(line) > price for line, price in zip(lines, columns["price"], strict=True)]
    assert 0.75 <= sum(below) / len(below) <= 1.0


def test_coverage_is_checked_before_files_are_read(shell):
    for share in (0, 1, -0.1, 1.5, "nan"):
        for option in ("--interval", "--set"):
            text = shell.error("predict", "absent", "absent.csv", option, share, code=2)
            assert option in text
            assert "above 0 and below 1" in text


def options_of(command: str) -> str:
    return CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).stdout


def test_commands_share_option_names():
    for option, commands in [
        ("--page", ["explain", "anomalies", "compare-tables"]),
        ("--output", ["predict", "explain", "anomalies", "compare-tables"]),
        ("--time-budget", ["fit", "stream"]),
        ("--model", ["fit", "stream", "anomalies"]),
        ("--picture", ["evaluate", "inspect", "stream"]),
        ("--force", ["fit", "stream", "predict", "explain", "anomalies", "evaluate", "demo"]),
        ("--n-jobs", ["fit", "stream", "predict", "evaluate", "explain", "anomalies"]),
    ]:
        assert all(option in options_of(command) for command in commands)


def test_stream_takes_model_as_an_option(write, shell, tmp_path):
    data, model = write("a.csv"), tmp_path / "m"
    shell("stream", data, "--model", model, "--steps", 2)
    assert model.exists()
    assert "--model" in shell.error("stream", data, code=2)
    assert "--model" in shell.error("stream", data, model, "--model", model, code=2)
