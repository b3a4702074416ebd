"""stream: training on files by doubly stochastic gradients, and its models in the other verbs."""

from __future__ import annotations

import csv
import io
import signal
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from gramless import DoublyStochasticClassifier, DoublyStochasticRegressor, load, save
from gramless.base.errors import InputError
from gramless.cli.report import Report, log_to_stderr
from gramless.cli.run_display import Interruption, Pace, RunDisplay
from gramless.cli.stream import convert_labels
from gramless.cli.summaries import run_in_words, run_of
from gramless.datasets import read_table
from gramless.streaming.sources import ArraySource

TINY = ["--bandwidth", "median", "--block-size", 16, "--batch-size", 40, "--steps", 30]
N_ROWS = 300


@pytest.fixture
def columns():
    rng = np.random.default_rng(0)
    size, weight = rng.normal(size=(2, N_ROWS))
    price = 100 + 10 * (size + np.sin(2 * weight))
    kind = np.array(["cheap", "dear"])[(price > 100).astype(int)]
    colour = np.array(["red", "green", "blue"])[np.digitize(size, [-0.5, 0.5])]
    return {"size": size, "weight": weight, "price": price, "kind": kind, "colour": colour}


@pytest.fixture
def trained(shell, write, tmp_path):
    """Train on what the test names and return (data, model)."""

    def train(name="a.csv", *options, **written):
        data, model = write(name, **written), tmp_path / "m.gramless"
        shell("stream", data, model, *TINY, *options)
        return data, model

    return train


@pytest.fixture
def in_front():
    """Have Ctrl-C as at a terminal: a test run in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def words(text):
    return " ".join(text.split())


def predictions(text):
    return [row["prediction"] for row in csv.DictReader(io.StringIO(text))]


# Formats, tasks and labels.


def test_stream_reads_every_format(trained, shell, columns):
    for name in ["a.csv", "a.npz", "a.libsvm", "a.parquet"]:
        data, model = trained(name)
        result = shell.json("evaluate", model, data)
        assert result["rows"] == N_ROWS
        assert result["r2"] > 0.7
        predicted = np.array(shell.json("predict", model, data)["prediction"])
        np.testing.assert_allclose(result["mae"], np.abs(predicted - columns["price"]).mean())
        assert shell.json("inspect", model)["class"] == "DoublyStochasticRegressor"


def test_text_labels_have_probabilities(trained, shell, columns):
    for target, least in [("kind", 0.85), ("colour", 0.75)]:
        data, model = trained("a.csv", chosen=("size", "weight", target))
        result = shell.json("evaluate", model, data, "--target", target)
        assert [one["class"] for one in result["classes"]] == sorted(set(columns[target]))
        assert result["accuracy"] > least
        given = shell.json("predict", model, data, "--probabilities", "--scores")
        total = sum(np.array(given[f"probability_{c}"]) for c in sorted(set(columns[target])))
        np.testing.assert_allclose(total, 1.0)
        assert result["log_loss"] < 0.7


def test_predict_equals_the_library(trained, shell, columns):
    data, path = trained("a.csv")
    rows = read_table(data).select(["size", "weight"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = load(path).predict(rows)
    done = shell("predict", path, data)
    assert [float(value) for value in predictions(done.stdout)] == expected.tolist()
    assert not done.stderr


def test_predict_matches_columns_by_name(trained, shell, write):
    data, model = trained("a.csv")
    turned = write("b.csv", ("colour", "weight", "size"))
    assert shell("predict", model, turned).stdout == shell("predict", model, data).stdout
    assert load(model).feature_names_in_.tolist() == ["size", "weight"]
    assert "lacks 1 of the 2 columns" in shell.error("predict", model, write("c.csv", ("size",)))
    assert "is an input of the model" in shell.error("evaluate", model, data, "--target", "size")


def test_arrays_are_matched_by_position(trained, shell, write):
    _, model = trained("a.npz")
    named = write("b.csv", ("size", "weight"))
    assert not hasattr(load(model), "feature_names_in_")
    assert shell.json("predict", model, named)["rows"] == N_ROWS
    assert "has 3 input columns" in shell.error("predict", model, write("c.csv"))


def test_task_is_inferred_from_labels(write, shell, tmp_path):
    for labels, asked, task, written in [
        (np.arange(N_ROWS) % 3, "auto", "classification", {"0", "1", "2"}),
        (np.arange(N_ROWS) % 2 * 2.5, "auto", "classification", {"0", "2.5"}),
        (np.arange(N_ROWS) % 30, "auto", "regression", None),
        (np.arange(N_ROWS) % 3, "regression", "regression", None),
    ]:
        data, model = write("a.csv", ("size", "weight"), label=labels), tmp_path / "m"
        result = shell.json("stream", data, model, "--task", asked, *TINY)
        assert result["task"] == task
        assert shell.json("evaluate", model, data)["rows"] == N_ROWS
        if written is not None:
            assert set(predictions(shell("predict", model, data).stdout)) <= written
            assert set(map(str, result["classes"])) == written


def test_options_reach_the_model(trained):
    _, path = trained(
        "a.csv", "--strategy", "grow", "--kernel", "matern:2.5", "--loss", "huber", "--alpha",
        "1e-4", "--components", 1, "--scaling", "none", "--patience", 0, "--seed", 3, "--n-jobs", 1,
        "--time", 100, "--no-intercept", "--no-average",
    )  # fmt: skip
    model = load(path)
    assert (model.kernel_.name, model.kernel_.nu, model.loss_.name) == ("matern", 2.5, "huber")
    assert (model.strategy, model.alpha_, model.n_components) == ("grow", 1e-4, 1)
    assert (model.scaling, model.patience, model.seed_, model.n_jobs) == ("none", None, 3, 1)
    assert (model.block_size_, model.batch_rows_, model.time_budget) == (16, 40, 100.0)
    assert (model.fit_intercept, model.average) == (False, False)
    assert model.history_["n_blocks"].tolist() == list(range(1, 31))


def test_shuffled_rows_are_reused(write, shell, tmp_path):
    data, rows = write("a.csv"), tmp_path / "rows"
    results = []
    for _ in range(2):
        shell("stream", data, tmp_path / "m", *TINY, "--rows-folder", rows)
        results.append((load(tmp_path / "m").weights_, (rows / "spool.json").stat().st_mtime_ns))
    assert np.array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    other = write("b.npz", size=np.zeros(N_ROWS))
    np.savez(other, X=np.eye(90), y=np.arange(90.0))
    text = shell.error("stream", other, tmp_path / "m", *TINY, "--rows-folder", rows)
    assert "another file" in text


# What is printed.


def test_stream_prints_a_summary(write, shell, tmp_path):
    data, path = write("a.csv", ("size", "weight", "kind")), tmp_path / "m"
    done = shell("stream", data, path, *TINY, "--patience", 0)
    printed = words(done.stdout)
    for message in (
        "classification (the target holds text",
        "270 training rows, 30 validation rows",
        "checking (the blocks of CDSG)",
        "the median distance",
        "status all steps done",
        "30 with 40 rows each",
        "of 16 frequencies each",
        "% wrong",
        "shuffle",
        "kB)",
    ):
        assert message in printed, message
    lines = done.stderr.splitlines()
    steps = [line.partition(";")[0] for line in lines if line.startswith("step ")]
    assert steps == ["step 10 of 30", "step 20 of 30", "step 30 of 30"]
    assert all("validation: loss" in line and "rows/s" in line for line in lines[:3])
    assert any(line.startswith("next: gramless evaluate") for line in lines)
    assert any("--checkpoint FILE" in line for line in lines)


def test_stream_reports_the_run_as_json(write, shell, tmp_path):
    data, path = write("a.csv"), tmp_path / "m"
    result, model = shell.json("stream", data, path, *TINY), load(path)
    assert result["bytes"] == path.stat().st_size
    assert (result["rows"], result["held_back_rows"]) == (270, 30)
    assert (result["steps"], result["status"]) == (model.n_iter_, model.status_)
    assert result["held_back_loss"] == model.evaluations_["loss"].min()
    assert result["frequencies"] == len(model.weights_) // 2 == 16 * result["kept_blocks"]
    assert set(result["seconds"]) == {"shuffle", "train", "save"}


def test_inspect_prints_the_run(trained, shell):
    data, model = trained("a.csv", chosen=("size", "weight", "kind"))
    printed = words(shell("inspect", model).stdout)
    for message in (
        "strategy checking (the blocks of CDSG)", "bandwidth scaling standard, the median distance",
        "status all steps done", "blocks", "names 2: size, weight", "classes 2: cheap, dear",
        "parameter batch_size 40",
    ):  # fmt: skip
        assert message in printed, message
    result = shell.json("inspect", model)
    assert result["run"]["steps"] == 30
    assert "has no bins" in shell.error("inspect", model, "--data", data, "--picture", "a.png")


def test_explain_rejects_streamed_models(trained, shell, tmp_path):
    data, model = trained()
    text = shell.error("explain", model, "--data", data, "-o", tmp_path / "a.html")
    assert "gramless inspect --picture draws its run" in text
    assert not (tmp_path / "a.html").exists()


# Runs that end early and go on.


def test_run_resumes_from_its_checkpoint(write, shell, tmp_path):
    data, at = write("a.csv", ("size", "weight", "kind")), tmp_path / "ck"
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    shell("stream", data, whole, *TINY, "--patience", 0)
    short = shell("stream", data, parts, *TINY[:-1], 12, "--patience", 0, "--checkpoint", at)
    assert "resuming" not in short.stderr
    assert f"the same command with more --steps resumes {at}" in short.stderr
    for verb in (["evaluate", at, data], ["predict", at, data]):
        assert shell.json(*verb) | {"seconds": 0, "model": 0} == shell.json(
            verb[0], parts, data
        ) | {"seconds": 0, "model": 0}
    assert "can resume this file" in words(shell("inspect", at).stdout)
    rest = shell("stream", data, parts, *TINY, "--patience", 0, "--checkpoint", at)
    assert f"resuming {at} after 12 steps" in rest.stderr
    assert np.array_equal(load(whole).weights_, load(parts).weights_)
    assert load(parts).n_iter_ == 30


def test_invalid_checkpoints_are_rejected_before_rows_are_read(write, shell, tmp_path, monkeypatch):
    data, at, model = write("a.csv"), tmp_path / "ck", tmp_path / "m"
    shell("stream", data, model, *TINY, "--checkpoint", at)

    def unreachable(*_, **__):
        raise AssertionError("the rows were read")

    monkeypatch.setattr("gramless.open_stream", unreachable, raising=False)
    faults = {
        "is of a run with another --batch-size": ["--checkpoint", at, "--batch-size", 30],
        "is not a checkpoint": ["--checkpoint", model],
        "cannot be loaded": ["--checkpoint", data.with_name("b.csv")],
        "is the data": ["--checkpoint", data],
        "there is no folder": ["--checkpoint", tmp_path / "absent" / "ck"],
    }
    write("b.csv")
    for message, options in faults.items():
        text = shell.error("stream", data, tmp_path / "m2", *TINY, *options)
        assert message in text


@pytest.mark.usefixtures("in_front")
def test_interrupt_saves_the_model(write, shell, tmp_path, monkeypatch):
    data, model, at = write("a.csv"), tmp_path / "m", tmp_path / "ck"
    tell = RunDisplay.update

    def press(self, step, evaluation, batch_rows):
        tell(self, step, evaluation, batch_rows)
        if step.iteration == 15:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RunDisplay, "update", press)
    before = signal.getsignal(signal.SIGINT)
    done = shell("stream", data, model, *TINY, "--checkpoint", at, code=130)
    assert signal.getsignal(signal.SIGINT) is before
    assert "status interrupted" in words(done.stdout)
    assert "the same command resumes" in done.stderr
    assert load(model).n_iter_ == load(at).n_iter_ == 15
    assert shell.json("evaluate", model, data)["r2"] > 0.5


@pytest.mark.usefixtures("in_front")
def test_early_or_second_interrupt_stops_at_once():
    interruption = Interruption()
    with pytest.raises(KeyboardInterrupt), interruption.catch_interrupts():
        signal.raise_signal(signal.SIGINT)
    assert not interruption.is_requested
    interruption.has_begun = True
    with interruption.catch_interrupts():
        signal.raise_signal(signal.SIGINT)
        assert interruption.is_requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("in_front")
def test_ignored_interrupt_stays_ignored():
    interruption = Interruption()
    interruption.has_begun = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interruption.catch_interrupts():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert not interruption.is_requested


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupt_in_a_process_saves_the_model(write, shell, tmp_path):
    data, model, at = write("a.csv"), tmp_path / "m", tmp_path / "ck"
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from gramless.cli.main import app; app()"
    )
    options = [
        "--bandwidth",
        "median",
        "--batch-size",
        "200",
        "--patience",
        "0",
        "--steps",
        "1000000",
    ]
    command = [sys.executable, "-c", script, "stream", str(data), str(model), *options]
    run = subprocess.Popen(
        [*command, "--checkpoint", str(at)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stderr.readline().startswith("step 10 of 1,000,000; blocks: ")
    time.sleep(0.2)
    run.send_signal(signal.SIGINT)
    printed, message = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "status      interrupted" in printed
    assert f"resumes {at}" in message
    steps = load(at).n_iter_
    assert steps == load(model).n_iter_ >= 10
    more = ["--steps", steps + 5, "--checkpoint", at]
    shell("stream", data, model, *options[:-2], *more)
    assert load(model).n_iter_ == steps + 5


def test_time_stops_a_run(write, shell, tmp_path):
    result = shell.json("stream", write("a.csv"), tmp_path / "m", *TINY, "--time", 0.01)
    assert (result["status"], result["held_back_loss"]) == ("time", None)
    assert result["steps"] < 30


# What is refused.

FAULTS = {
    "no such file": (["absent.csv"], "absent.csv does not exist"),
    "no such target": (["a.csv", "--target", "cost"], "no column 'cost'"),
    "missing number": (["holes.csv"], "Row 7 of the stream (from 0) has nan in column 0"),
    "missing target": (["nan.csv"], "target of row 3 of the stream (from 0)"),
    "missing label": (["blank.csv"], "Row 5 of the stream (from 0) has no label"),
    "text among the inputs": (["text.csv"], "column 'colour' holds text ('green')"),
    "numbers of text": (["kinds.csv", "--task", "regression"], "regression needs numbers"),
    "one class": (["one.csv", "--task", "classification"], "at least 2 classes"),
    "no such kernel": (["a.csv", "--kernel", "cosine"], "unknown kernel 'cosine'"),
    "kernel of bins": (["a.csv", "--kernel", "hat"], "no random Fourier features"),
    "no such loss": (["a.csv", "--loss", "cubic"], "cubic is not a loss: classification has log"),
    "loss of classes": (["a.csv", "--loss", "hinge"], "hinge is not a loss of regression"),
    "bandwidth": (["a.csv", "--bandwidth", "-1"], "bandwidth must be positive"),
    "alpha": (["a.csv", "--alpha", "-1"], "alpha"),
    "too many components": (["a.csv", "--components", "3"], "from 1 to the 2 inputs"),
    "picture": (["a.csv", "--picture", "a.gif"], "must end in .png"),
    "no threads": (["a.csv", "--n-jobs", "0"], "--n-jobs must be"),
}


def test_invalid_arguments_are_reported_and_leave_no_model(write, shell, tmp_path, columns):
    for kind in FAULTS:
        (name, *options), message = FAULTS[kind]
        price, holes, kinds = (columns[key].copy() for key in ("price", "size", "kind"))
        price[3], holes[7], kinds[5] = np.nan, np.nan, ""
        write("a.csv")
        write("holes.csv", size=holes)
        write("nan.csv", price=price)
        write("blank.csv", ("size",), kind=kinds)
        write("text.csv", ("size", "colour", "price"))
        write("kinds.csv", ("size", "kind"))
        write("one.csv", ("size",), label=np.ones(N_ROWS))
        model = tmp_path / "m"
        assert message in shell.error("stream", tmp_path / name, model, *TINY, *options)
        assert not model.exists()


def test_invalid_usage_exits_with_code_2(write, shell, tmp_path):
    for options in [
        ["--strategy", "greedy"],
        ["--steps", "0"],
        ["--time", "0"],
        ["--patience", "-1"],
        ["--scaling", "quantile"],
        ["--bandwidth", "wide"],
        ["--components", "0"],
    ]:
        text = shell.error("stream", write("a.csv"), tmp_path / "m", *options, code=2)
        assert options[0] in text
        assert "gramless stream" in text


def test_output_path_is_checked_first(write, shell, tmp_path):
    data = write("a.csv")
    assert "no folder" in shell.error("stream", data, tmp_path / "absent" / "m")
    assert "the data" in shell.error("stream", data, data)


def test_fractional_labels_after_integers_are_rejected(tmp_path):
    whole, odd = np.array([0.0, 1.0, 1.0]), np.array([1.0, 0.5])
    source = SimpleNamespace(
        held_out=lambda: (np.eye(3), whole),
        n_rows=5,
        read=lambda start, stop: (np.eye(3), whole),
        chunks=lambda: iter([(np.eye(3), whole), (np.eye(2), odd)]),
    )
    result, kind, reason = convert_labels(source, "auto", tmp_path)
    assert (kind, reason) == ("classification", "2 distinct whole numbers in 6 rows")
    chunks = result.chunks()
    assert next(chunks)[1].tolist() == [0, 1, 1]
    with pytest.raises(
        InputError, match=r"holds 0\.5, but its first values are whole .* --task regression"
    ):
        next(chunks)


@pytest.mark.parametrize("label", [1e30, -1e30, 2.0**63])
def test_labels_beyond_64_bits_after_integers_are_rejected(
    label, write, shell, tmp_path, monkeypatch
):
    monkeypatch.setattr("gramless.cli.stream._N_SAMPLED_LABELS", 8)
    code = np.arange(N_ROWS) % 2.0
    code[N_ROWS // 2] = label
    data = write("a.csv", ("size", "weight"), code=code)
    text = shell.error("stream", data, tmp_path / "m", *TINY, "--target", "code")
    assert f"target column 'code' holds {label:g}, which is too large for the" in words(text)
    assert "--task regression" in text


def test_labels_beyond_64_bits_in_the_first_rows_become_text(tmp_path):
    labels = np.tile([1.0, 1e30], 20)
    source = ArraySource(np.eye(40), labels, seed=0, n_held_out=5)
    result, kind, _ = convert_labels(source, "auto", tmp_path)
    assert kind == "classification"
    texts = set(result.read(0, 35)[1].tolist())
    assert len(texts) == 2
    assert all(isinstance(text, str) for text in texts)


def test_labels_are_read_once(tmp_path):
    source = ArraySource(np.eye(50), np.arange(50) / 7.0, seed=0, n_held_out=5)
    assert convert_labels(source, "auto", tmp_path)[2] == "50 distinct numbers in 50 rows"


def test_several_labels_per_row_are_rejected(write, shell, tmp_path):
    data = tmp_path / "a.npz"
    np.savez(data, X=np.eye(9), y=np.eye(9)[:, :2])
    assert "has 2 labels a row" in shell.error("stream", data, tmp_path / "m", *TINY)


def test_missing_and_text_values_in_new_rows_are_rejected(trained, shell, write, columns):
    _, model = trained()
    holes = columns["size"].copy()
    holes[3] = np.nan
    assert "does not fill them" in shell.error("predict", model, write("b.csv", size=holes))
    text = shell.error("evaluate", model, write("c.csv", size=columns["colour"]))
    assert "column 'size' holds text, but the model was fitted to numbers" in text


def test_divergence_is_an_error(write, shell, tmp_path, monkeypatch):
    from gramless.streaming.step_sizes import InverseTime

    data, model = write("a.csv"), tmp_path / "m"
    stepping = "gramless.estimators.streamed.StreamedMachine._given_schedule"
    monkeypatch.setattr(stepping, lambda *_: InverseTime(1e9, 0.0))
    text = shell.error("stream", data, model, *TINY)
    assert "steps became unstable" in text
    assert not model.exists()


# The display of a run.


def step(iteration, n_blocks=2):
    return SimpleNamespace(iteration=iteration, n_blocks=n_blocks, loss=0.25)


def progress_on(terminal, time_budget=None, kind="xterm"):
    report = Report(as_json=False)
    report.err = Console(
        file=io.StringIO(), force_terminal=terminal, width=100, _environ={"TERM": kind}
    )
    interruption = Interruption()
    return RunDisplay(report, 100, time_budget, "{:.1%} wrong".format, interruption), report


def test_terminal_shows_a_panel():
    progress, report = progress_on(terminal=True, time_budget=60.0)
    assert "preparing" in str(progress._panel().text)
    with progress.open_panel():
        for k in range(1, 41):
            evaluation = SimpleNamespace(loss=0.5, error=0.25) if k == 40 else None
            progress.update(step(k, k), evaluation, 4096)
        progress._interruption.is_requested = True
    text = report.err.file.getvalue()
    for message in ("40 of 100 steps", "25.0% wrong", "rows/s", "up to", "Ctrl-C again"):
        assert message in text, message


@pytest.mark.parametrize(("terminal", "kind"), [(False, "xterm"), (True, "dumb")])
def test_progress_is_printed_in_lines_without_a_terminal(monkeypatch, terminal, kind):
    progress, report = progress_on(terminal, kind=kind)
    clock = iter(np.arange(0.0, 100.0, 10.0))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    progress._last_line = 0.0
    with log_to_stderr(report), progress.open_panel():
        for k in range(1, 6):
            progress.update(step(k), None, 4000)
    lines = report.err.file.getvalue().split("step ")[1:]
    # Without evaluations, a line is printed after half a minute without one.
    assert [line[:8] for line in lines] == ["5 of 100"]
    assert "validation: no evaluation yet" in words(lines[0])
    assert "speed: 400 rows/s" in words(lines[0])
    assert "left: up to 15 min 50 s" in words(lines[0])


def test_remaining_time_accounts_for_growing_blocks():
    steady, growing = Pace(), Pace()
    for k in range(1, 101):
        steady.add(5, 2.0 * k)
        growing.add(k, k * (k + 1) / 2)
    assert steady.seconds_left(50) == pytest.approx(100.0)
    assert growing.seconds_left(50) == pytest.approx(sum(range(101, 151)))
    assert Pace().steps_per_second() is None


# Pictures.


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    options = {
        "bandwidth": "median", "block_size": 8, "batch_size": 50, "max_steps": 40,
        "random_state": 0, "n_jobs": 1,
    }  # fmt: skip
    labels = (X[:, 0] > 0).astype(int)
    return {
        "checking": DoublyStochasticClassifier(**options).fit(X, labels),
        "grow": DoublyStochasticRegressor(strategy="grow", **options).fit(X, X[:, 0]),
        "not judged": DoublyStochasticRegressor(patience=None, **options).fit(X, X[:, 0]),
        "partial": DoublyStochasticRegressor(**options).partial_fit(X, X[:, 0]),
    }


def test_picture_shows_the_history_of_the_run(models):
    for name in ["checking", "grow", "not judged", "partial"]:
        pytest.importorskip("matplotlib")
        from gramless.cli.figures import draw_run

        model = models[name]
        history = model.history_
        losses, blocks, errors, steps = draw_run(model).axes
        objective = losses.get_lines()[0].get_xydata()
        np.testing.assert_array_equal(objective[:, 1], history["objective"])
        expected = np.arange(1, 9) if name == "partial" else history["seconds"]
        np.testing.assert_array_equal(objective[:, 0], expected)
        is_new = np.diff(history["n_blocks"], prepend=0) > 0
        number = np.arange(1, len(is_new) + 1)
        _, new, old = blocks.get_lines()
        np.testing.assert_array_equal(new.get_xdata(), number[is_new])
        np.testing.assert_array_equal(new.get_ydata(), history["block"][is_new] + 1)
        np.testing.assert_array_equal(old.get_ydata(), history["block"][~is_new] + 1)
        assert steps.get_lines()[1].get_ydata().tolist() == history["step"][~is_new].tolist()
        assert f"{is_new.sum()} in the end" in blocks.get_title(loc="left")
        if model.evaluations_:
            scale = 100 if name == "checking" else 1
            shown = errors.get_lines()[0].get_ydata()
            np.testing.assert_allclose(shown, scale * model.evaluations_["error"])
            np.testing.assert_array_equal(
                losses.get_lines()[1].get_ydata(), model.evaluations_["loss"]
            )
        else:
            assert errors.texts[0].get_text() == "no evaluations"


def test_run_is_described_in_numbers_and_words(models):
    run = run_of(models["not judged"])
    assert (run["held_back_loss"], run["kept_steps"], run["steps"]) == (None, 40, 40)
    assert run_in_words(models["partial"])["status"] == "by partial_fit"
    description = run_in_words(models["grow"])
    assert description["validation"].endswith("standard deviations of the target")
    assert description["strategy"] == "grow (DSG)"


def test_cdsg_can_be_chosen(trained, shell):
    _, path = trained("a.csv", "--strategy", "cdsg", "--update", "gradient")
    assert load(path).strategy == "cdsg"
    assert "strategy cdsg (CDSG)" in words(shell("inspect", path).stdout)


def test_inspect_names_strategies_given_as_objects(models, shell, tmp_path):
    from gramless.streaming.strategies import Uniform

    rng = np.random.default_rng(0)
    model = DoublyStochasticRegressor(
        strategy=Uniform(new=2, old=3), max_steps=5, bandwidth=1.0, block_size=8
    )
    save(model.fit(rng.normal(size=(50, 2)), rng.normal(size=50)), tmp_path / "m")
    assert "uniform (UDSG), Uniform(new=2, old=3)" in words(shell("inspect", tmp_path / "m").stdout)


def test_stream_and_inspect_write_pictures(write, shell, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    data, model, out = write("a.csv"), tmp_path / "m", tmp_path / "a.png"
    result = shell.json("stream", data, model, *TINY, "--picture", out)
    assert result["picture"] == str(out)
    assert out.read_bytes().startswith(b"\x89PNG")
    assert out.stat().st_size > 30_000
    drawn = []
    monkeypatch.setattr("gramless.inspection.pictures.write_picture", lambda *a: drawn.append(a))
    assert shell.json("inspect", model, "--picture", "b.svg")["picture"] == "b.svg"
    assert (len(drawn[0][0].axes), str(drawn[0][1])) == (4, "b.svg")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for verb in (["stream", data, model], ["inspect", model]):
        assert "pip install gramless[cli]" in shell.error(*verb, "--picture", tmp_path / "c.png")


def test_picture_limits_the_number_of_points(models):
    pytest.importorskip("matplotlib")
    from gramless.cli.figures import draw_run

    _, blocks, _, _ = draw_run(models["grow"], max_points=5).axes
    assert len(blocks.get_lines()[1].get_xdata()) == 5
