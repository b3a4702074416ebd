"""``gramless stream``: train a model on a file that is larger than memory."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from typer import Argument, BadParameter, Exit, Option

import gramless
from gramless.base.errors import InputError
from gramless.base.formatting import format_bytes
from gramless.cli import options
from gramless.cli.fit import parse_kernel
from gramless.cli.outputs import Output, check_outputs
from gramless.cli.report import INTERRUPTED, Report, facts_table, open_report
from gramless.cli.run_display import Interruption, RunDisplay

if TYPE_CHECKING:
    from gramless.base.types import AnyArray
    from gramless.estimators.streamed import StreamedMachine
    from gramless.streaming.doubly_stochastic import Step
    from gramless.streaming.sources import RowSource
    from gramless.streaming.training_loop import Evaluation

Parameters: TypeAlias = dict[str, Any]  # parameter name: value, for an estimator

# The task is decided by the labels of this many rows and of the validation rows.
_N_SAMPLED_LABELS = 8192

DataFile = Annotated[
    Path,
    Argument(
        metavar="DATA",
        help="CSV, TSV, LIBSVM (also compressed as .gz, .bz2 or .xz), Parquet, NPZ or NPY. Inputs "
        "must be numbers; labels can be anything.",
    ),
]
Strategy = Annotated[
    Literal["checking", "cdsg", "uniform", "grow"],
    Option(
        help="How a step selects its block of features. cdsg: an old block with a longer step if "
        "a bound allows one, else a new block (CDSG); checking: the same block as cdsg with the "
        "usual step, because cdsg can diverge; uniform: new and old blocks alternate (UDSG); "
        "grow: always a new block (DSG)."
    ),
]
Update = Annotated[
    Literal["auto", "newton", "gradient"],
    Option(
        help="How a step changes its block: by Newton's method, or by the gradient as in the "
        "papers."
    ),
]
KernelName = Annotated[
    str,
    Option(
        metavar="NAME[:NUMBER]", help="gaussian, matern:1.5, rational_quadratic:1, laplacian, ..."
    ),
]
Bandwidth = Annotated[
    str,
    Option(
        metavar="auto|median|NUMBER", help="Width of the kernel, in scaled inputs or components."
    ),
]
Loss = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="Classes: logistic, squared, squared_hinge, hinge; numbers: squared, huber.",
        show_default="the first of these",
    ),
]
Components = Annotated[
    int | None, Option(min=1, help="Project the inputs to this number of principal components.")
]
Scaling = Annotated[
    Literal["auto", "standard", "whiten", "none"], Option(help="Units of the inputs.")
]
Time = Annotated[
    float | None,
    Option(
        "--time-budget",
        "--time",
        metavar="SECONDS",
        min=0.01,
        help="Time for the steps, after the rows are shuffled.",
    ),
]
Patience = Annotated[
    int,
    Option(
        min=0,
        help="Stop after this many evaluations without a lower loss and keep the best function; 0 "
        "runs all steps and keeps the last function.",
    ),
]
Intercept = Annotated[
    bool, Option("--intercept/--no-intercept", help="Fit an intercept without penalty.")
]
Average = Annotated[
    bool, Option("--average/--no-average", help="Average the function over the steps.")
]
Checkpoint = Annotated[
    Path | None,
    Option(
        metavar="FILE",
        help="File that saves the run every minute and at the end. If it exists, its run is "
        "resumed.",
    ),
]
RowsFolder = Annotated[
    Path | None,
    Option(
        metavar="FOLDER",
        help="Folder that keeps the shuffled rows, so that the next run can reuse them.",
        show_default="a temporary folder",
    ),
]
PictureOut = Annotated[
    Path | None,
    Option(metavar=options.PICTURE, help="Draw the losses, errors, blocks and steps of the run."),
]
Device = Annotated[str, Option(metavar="cpu|cuda|...", help="cpu, or a device of PyTorch.")]


def stream(
    data: DataFile,
    positional_model: Annotated[
        Path | None, Argument(metavar="MODEL", help="The same as --model.")
    ] = None,
    model: Annotated[
        Path | None, Option("--model", "-m", help="File to write the model to.")
    ] = None,
    target: options.Target = None,
    task: options.TaskOption = "auto",
    strategy: Strategy = "checking",
    update: Update = "auto",
    kernel: KernelName = "gaussian",
    bandwidth: Bandwidth = "auto",
    alpha: options.Alpha = "auto",
    loss: Loss = None,
    components: Components = None,
    scaling: Scaling = "auto",
    block_size: Annotated[int, Option(min=1, help="Frequencies per block.")] = 256,
    batch_size: Annotated[int, Option(min=1, help="Rows per step.")] = 4096,
    steps: Annotated[int, Option(min=1, help="Maximum number of steps.")] = 500,
    time_budget: Time = None,
    patience: Patience = 10,
    fit_intercept: Intercept = True,
    average: Average = True,
    checkpoint: Checkpoint = None,
    rows_folder: RowsFolder = None,
    picture: PictureOut = None,
    seed: Annotated[
        int, Option(min=0, help="Seed of the order of the rows and of the features.")
    ] = 0,
    force: options.Force = False,
    limits: options.Limits = "",
    n_jobs: options.Jobs = None,
    device: Device = "cpu",
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Train a kernel machine on a file larger than memory.

    The rows are shuffled on the disk. Each step then uses a batch of rows and
    a block of random features (doubly stochastic gradients). The function with
    the lowest loss on up to 4,096 validation rows is saved. Ctrl-C stops the
    run after the current step and saves the model. If a table fits into memory,
    use gramless fit, which is faster and more accurate.
    """
    path = positional_model if model is None else model
    if path is None or None not in (positional_model, model):
        raise BadParameter("--model must name the file to write the model to; give it once.")
    parameters: Parameters = {"strategy": strategy, "update": update, "scaling": scaling}
    parameters["bandwidth"] = options.parse_auto_or_number(bandwidth, "--bandwidth", "median")
    parameters["alpha"] = options.parse_auto_or_number(alpha, "--alpha")
    parameters |= {"n_components": components, "block_size": block_size, "batch_size": batch_size}
    parameters |= {"max_steps": steps, "time_budget": time_budget, "patience": patience or None}
    parameters |= {"fit_intercept": fit_intercept, "average": average}
    parameters["checkpoint"] = None if checkpoint is None else str(checkpoint)
    parameters |= {"device": device, "random_state": seed, "n_jobs": n_jobs}
    with open_report(as_json, debug) as report:
        parameters["kernel"] = parse_kernel(kernel)
        _check_files(data, path, checkpoint, picture, force)
        _check_options(parameters, loss, task)
        if checkpoint is not None and checkpoint.exists():
            report.log(_describe_resumption(checkpoint, loss, parameters))
        source, kind, reason = _open_source(report, data, rows_folder, target, task, seed, limits)
        estimator = _make_estimator(kind, loss, parameters)
        _train(report, estimator, source)
        with report.stage("save", f"saving {path}"):
            gramless.save(estimator, path)
        if picture is not None:
            from gramless.cli.figures import draw_run

            report.draw(picture, draw_run, estimator)
        files = {"data": data, "checkpoint": checkpoint, "picture": picture}
        _show(report, estimator, source, path, files, f"{kind} ({reason})")
    if estimator.status_ == "stopped":
        raise Exit(INTERRUPTED)


def _check_files(
    data: Path, model: Path, checkpoint: Path | None, picture: Path | None, force: bool
) -> None:
    """Raise InputError if the data cannot be read twice, or if an output cannot be written."""
    from gramless.cli.reading import is_piped

    if is_piped(data):
        raise InputError(
            f"{data} can be read only once, but stream reads its rows twice; save them to a file "
            "first, or use gramless fit."
        )
    outputs = [Output("--model", model, "model"), Output("--picture", picture, "picture")]
    check_outputs(outputs, {"the data": data}, force)
    # An existing checkpoint is resumed; loading it raises InputError for other files.
    inputs = {"the data": data, "the model": model, "the picture": picture}
    check_outputs([Output("--checkpoint", checkpoint, "model")], inputs, force=True)
    if picture is not None:
        from gramless.inspection.pictures import check_picture

        check_picture(picture)


def _open_source(
    report: Report,
    data: Path,
    folder: Path | None,
    target: str | None,
    task: str,
    seed: int,
    limits: str,
) -> tuple[RowSource, str, str]:
    from gramless import open_stream
    from gramless.datasets.limits import parse_limits

    with report.stage("shuffle", f"reading {data}") as show_line:
        source = open_stream(
            data,
            target=target,
            folder=folder,
            random_state=seed,
            report=show_line,
            limits=parse_limits(limits),
        )
        return convert_labels(source, task, data)


def convert_labels(source: RowSource, task: str, data: Path) -> tuple[RowSource, str, str]:
    """Return the source with labels as ``gramless fit`` converts them, the task and its reason.

    A sample of labels decides the task. Classes that are whole numbers become integers; other
    numbers become text.
    """
    import numpy as np

    from gramless.cli.reading import as_text, decide_task, labels_of
    from gramless.streaming.sources import MappedSource, target_name_of

    n_rows = min(_N_SAMPLED_LABELS, source.n_rows or _N_SAMPLED_LABELS)
    y = np.concatenate([source.held_out()[1], source.read(0, n_rows)[1]])
    if y.ndim > 1:
        raise InputError(f"{data} has {y.shape[1]} labels a row; one is needed.")
    kind, reason = decide_task(y, task)
    reason = f"{reason} in {len(y):,} rows" if task == "auto" else reason
    if kind == "regression" or y.dtype.kind == "O":
        return source, kind, reason
    # One conversion is chosen for all batches, because in some of them all numbers may happen to be
    # whole.
    if labels_of(y, kind).dtype.kind != "i":
        return MappedSource(source, as_text), kind, reason
    name = target_name_of(source)
    column = "the target" if name is None else f"the target column {name!r}"
    return MappedSource(source, partial(_as_integers, column=column)), kind, reason


def _as_integers(y: AnyArray, column: str) -> AnyArray:
    import numpy as np

    with np.errstate(invalid="ignore"):  # numbers beyond 64 bits are reported below
        result = y.astype(np.int64)
    changed = y[result != y]
    if len(changed) > 0:
        label, problem = changed[0], "which is too large for the label of a class"
        if label != np.round(label):
            problem = "but its first values are whole numbers"
        raise InputError(
            f"{column} holds {label:g}, {problem}; if it is a measurement, use --task regression, "
            "otherwise correct such rows."
        )
    return result


def _check_loss(loss: str | None, task: str) -> None:
    from gramless.estimators.doubly_stochastic import CLASSIFICATION_LOSSES, REGRESSION_LOSSES

    known = {"classification": CLASSIFICATION_LOSSES, "regression": REGRESSION_LOSSES}
    if loss is None or any(loss in known[kind] for kind in known if task in ("auto", kind)):
        return
    losses = "; ".join(f"{kind} has {', '.join(names)}" for kind, names in known.items())
    raise InputError(
        f"--loss {loss} is not a loss{'' if task == 'auto' else f' of {task}'}: {losses}."
    )


def _check_options(parameters: Parameters, loss: str | None, task: str) -> None:
    # The estimator would raise the same errors only after the file is read and shuffled.
    from gramless import DoublyStochasticRegressor
    from gramless.kernels import as_spectral_kernel, bandwidth_vector

    _check_loss(loss, task)
    model = DoublyStochasticRegressor(**parameters)
    model.check_parameters()
    if not isinstance(model.bandwidth, str):
        bandwidth_vector(model.bandwidth, 1)
    if model.device != "cpu":
        import numpy as np

        from gramless.streaming.feature_blocks import FrequencyBlocks
        from gramless.streaming.torch_products import TorchProducts

        one = np.ones(1)
        blocks = FrequencyBlocks(as_spectral_kernel(model.kernel), 0, 1, 1)
        TorchProducts(blocks, one, one, 0, model.device)


def _describe_resumption(path: Path, loss: str | None, parameters: Parameters) -> str:
    """Return a line about the run in a checkpoint; raise InputError if it cannot be resumed."""
    from gramless.estimators.checkpoints import Checkpoint
    from gramless.estimators.persistence import describe

    name = describe(path)["class"]
    kinds = {estimator.__name__: kind for kind, estimator in _estimators().items()}
    if name not in kinds:
        raise InputError(
            f"--checkpoint {path} holds a {name}, not a run that can be resumed; name another file."
        )
    earlier = Checkpoint(path, 0.0).load_earlier(_make_estimator(kinds[name], loss, parameters))
    steps = 0 if earlier is None else earlier.n_iter_
    return f"resuming {path} after {steps:,} steps"


def _estimators() -> dict[str, type[StreamedMachine]]:
    from gramless import DoublyStochasticClassifier, DoublyStochasticRegressor

    return {"classification": DoublyStochasticClassifier, "regression": DoublyStochasticRegressor}


def _make_estimator(kind: str, loss: str | None, parameters: Parameters) -> StreamedMachine:
    _check_loss(loss, kind)
    estimator = _estimators()[kind]
    return estimator(**parameters) if loss is None else estimator(**parameters, loss=loss)


def _train(report: Report, model: StreamedMachine, source: RowSource) -> None:
    from gramless.cli.summaries import error_of

    interruption, error_text = Interruption(), partial(error_of, model)
    display = RunDisplay(report, model.max_steps, model.time_budget, error_text, interruption)

    def after_step(step: Step, evaluation: Evaluation | None) -> bool:
        interruption.has_begun = True
        display.update(step, evaluation, model.batch_rows_)
        return interruption.is_requested

    with report.time_stage("train"), display.open_panel(), interruption.catch_interrupts():
        model.fit_stream(source, callback=after_step)


def _show(
    report: Report,
    model: StreamedMachine,
    source: RowSource,
    path: Path,
    files: dict[str, Path | None],
    task: str,
) -> None:
    from gramless.cli.summaries import classes_of, run_in_words, run_of

    n_validation, rows = len(source.held_out()[1]), source.n_rows
    n_bytes = path.stat().st_size
    classes = classes_of(model)
    document = {
        "model": path,
        "bytes": n_bytes,
        "task": task.partition(" ")[0],
        "rows": rows,
        "held_back_rows": n_validation,
        "classes": classes,
        **run_of(model),
        **files,
        "seconds": report.seconds,
    }
    lines = {
        "task": task,
        "rows": f"{rows:,} training rows, {n_validation:,} validation rows",
        "classes": classes,
        **run_in_words(model),
        "seconds": {name: round(value, 1) for name, value in report.seconds.items()},
        **files,
        "data": None,
        "model": f"{path} ({format_bytes(n_bytes)})",
    }
    report.print_result(document, facts_table(lines))
    if not report.as_json:
        for line in _next_steps(model, shlex.quote(str(path)), files["checkpoint"]):
            report.log(f"next: {line}")


def _next_steps(model: StreamedMachine, name: str, checkpoint: Path | None) -> Iterator[str]:
    if model.status_ in ("stopped", "time", "max_steps"):
        if checkpoint is None:
            yield "with --checkpoint FILE such a run can be resumed later"
        else:
            more = " with more --steps" if model.status_ == "max_steps" else ""
            yield f"the same command{more} resumes {checkpoint}"
    yield f"gramless evaluate {name} OTHER_ROWS"
    yield f"gramless predict {name} OTHER_ROWS -o OUT.csv"
    yield f"gramless inspect {name} --picture RUN.png"
