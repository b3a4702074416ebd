"""``gramless stream``: a file larger than memory in, a model file out."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gramless.base.errors import InputError
from gramless.base.formatting import sized
from gramless.cli.fit import named_kernel
from gramless.cli.options import (
    Alpha,
    AsJson,
    Debug,
    Jobs,
    Limits,
    Target,
    TaskOption,
    auto_or_number,
    check_output,
    picture_option,
)
from gramless.cli.reading import decide_task, labels_of
from gramless.cli.report import INTERRUPTED, Report, facts, reporting
from gramless.cli.run_display import Interruption, RunDisplay
from gramless.cli.summaries import error_of, run_in_words, run_of

if TYPE_CHECKING:
    from gramless.base.types import AnyArray
    from gramless.estimators.streamed import StreamedMachine
    from gramless.streaming.doubly_stochastic import Step
    from gramless.streaming.sources import RowSource
    from gramless.streaming.training_loop import Evaluation

_ROWS_LOOKED_AT = 8192
"""Rows whose labels decide the task, in addition to those held back."""

Strategy = Literal["checking", "uniform", "grow"]
Scaling = Literal["auto", "standard", "none"]

DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV, LIBSVM (plain or .gz, .bz2, .xz), Parquet, NPZ or NPY: numbers, and any "
        "labels.",
        show_default=False,
    ),
]
ModelOut = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Where the model goes.", show_default=False)
]
StrategyOption = Annotated[
    Strategy,
    typer.Option(
        help="Which block of features a step changes. checking: an old one where a bound allows a "
        "longer step (CDSG); uniform: new and old ones by turns (UDSG); grow: always a new one "
        "(DSG)."
    ),
]
UpdateOption = Annotated[
    Literal["auto", "newton", "gradient"],
    typer.Option(help="What a step does to its block: Newton's method, or the papers' gradient."),
]
KernelName = Annotated[
    str,
    typer.Option(
        "--kernel",
        metavar="NAME[:NUMBER]",
        help="gaussian, matern:1.5, rational_quadratic:1, laplacian, cauchy, ...",
    ),
]
Bandwidth = Annotated[
    str,
    typer.Option(
        metavar="auto|median|NUMBER", help="Width of the kernel, in scaled inputs or components."
    ),
]
LossName = Annotated[
    str | None,
    typer.Option(
        "--loss",
        metavar="NAME",
        help="Classes: logistic, squared, squared_hinge, hinge; numbers: squared, huber.",
        show_default="the first of these",
    ),
]
Components = Annotated[
    int | None,
    typer.Option(min=1, help="Work on so many principal components.", show_default=False),
]
BlockSize = Annotated[int, typer.Option("--block-size", min=1, help="Frequencies a block.")]
BatchSize = Annotated[int, typer.Option("--batch-size", min=1, help="Rows a step.")]
Steps = Annotated[int, typer.Option(min=1, help="At most.")]
Seconds = Annotated[
    float | None,
    typer.Option(
        "--time",
        metavar="SECONDS",
        min=0.01,
        help="After which no step begins; the rows are shuffled before.",
        show_default=False,
    ),
]
Patience = Annotated[
    int,
    typer.Option(
        min=0,
        help="The run ends when so many judgements by held-back rows have hardly lowered the loss; "
        "0 takes all steps.",
    ),
]
CheckpointFile = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        help="The run is written here every minute and in the end. Where the file exists, the "
        "run in it goes on.",
        show_default=False,
    ),
]
RowsFolder = Annotated[
    Path | None,
    typer.Option(
        "--rows-folder",
        metavar="FOLDER",
        help="The shuffled rows are kept here, and found again next time.",
        show_default="a temporary one",
    ),
]
Picture = Annotated[Path | None, picture_option("Draw the run: losses, errors, blocks and steps.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the order of the rows, and of the features.")]
Device = Annotated[
    str, typer.Option(metavar="cpu|cuda|...", help="A device of PyTorch, where it is not cpu.")
]


def stream(
    data: DataFile,
    model: ModelOut,
    target: Target = None,
    task: TaskOption = "auto",
    strategy: StrategyOption = "checking",
    update: UpdateOption = "auto",
    kernel: KernelName = "gaussian",
    bandwidth: Bandwidth = "auto",
    alpha: Alpha = "auto",
    loss: LossName = None,
    components: Components = None,
    scaling: Annotated[Scaling, typer.Option(help="Units of the inputs.")] = "auto",
    block_size: BlockSize = 256,
    batch_size: BatchSize = 4096,
    steps: Steps = 500,
    time: Seconds = None,
    patience: Patience = 10,
    checkpoint: CheckpointFile = None,
    rows_folder: RowsFolder = None,
    picture: Picture = None,
    seed: Seed = 0,
    limits: Limits = "",
    n_jobs: Jobs = None,
    device: Device = "cpu",
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Train a kernel machine on a file larger than memory.

    The rows are shuffled on the disk. Each step then takes a batch of them and
    a block of random features (doubly stochastic gradients). Up to 4,096 rows
    are held back to judge; the best function by them is saved. Ctrl-C ends a
    run properly: what it has learned is saved. Tables that fit into memory are
    for gramless fit, which is faster and more accurate on them.
    """
    options: dict[str, Any] = {
        "strategy": strategy,
        "update": update,
        "bandwidth": bandwidth
        if bandwidth == "median"
        else auto_or_number(bandwidth, "--bandwidth"),
        "alpha": auto_or_number(alpha, "--alpha"),
        "scaling": scaling,
        "n_components": components,
        "block_size": block_size,
        "batch_size": batch_size,
        "max_steps": steps,
        "time_budget": time,
        "patience": patience or None,
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "device": device,
        "random_state": seed,
        "n_jobs": n_jobs,
    }
    files = _Files(data, model, checkpoint, rows_folder, picture)
    with reporting(as_json, debug) as report:
        options["kernel"] = named_kernel(kernel)
        _check(report, files, task, loss, options)
        source, kind, reason = _open(report, files, target, task, seed, limits)
        estimator = _estimator(kind, loss, options)
        _train(report, estimator, source, Interruption())
        _save(report, estimator, files)
        _report_result(report, estimator, source, files, kind, reason)
        if estimator.status_ == "stopped":
            raise typer.Exit(INTERRUPTED)


@dataclass(frozen=True)
class _Files:
    """The files and folders of a run."""

    data: Path
    model: Path
    checkpoint: Path | None
    rows_folder: Path | None
    picture: Path | None


def _check(
    report: Report, files: _Files, task: str, loss: str | None, options: dict[str, Any]
) -> None:
    """Refuse what could not be trained or written before the rows are read."""
    checkpoint = files.checkpoint
    check_output("--model", files.model, {"the data": files.data})
    if files.picture is not None:
        from gramless.inspection.pictures import check_picture

        check_picture(files.picture)
    if checkpoint is not None:
        others = {"the data": files.data, "the model": files.model}
        check_output("--checkpoint", checkpoint, others)
    _check_loss(loss, task)
    _check_options(options)
    if checkpoint is not None and checkpoint.exists():
        report.note(_going_on(checkpoint, loss, options))


def _open(
    report: Report, files: _Files, target: str | None, task: str, seed: int, limits: str
) -> tuple[RowSource, str, str]:
    """Shuffle the rows on the disk; return them with their labels, the task and its reason."""
    from gramless import open_stream
    from gramless.datasets.limits import parse_limits

    with report.stage("shuffle", f"reading {files.data}") as show_line:
        source = open_stream(
            files.data,
            target=target,
            folder=files.rows_folder,
            random_state=seed,
            report=show_line,
            limits=parse_limits(limits),
        )
        return with_labels(source, task, files.data)


def with_labels(source: RowSource, task: str, data: Path) -> tuple[RowSource, str, str]:
    """Decide the task by some rows, and convert the labels as ``gramless fit`` does.

    Returns the source, the task and the reason for it. Classes that are whole numbers become
    integers, other numbers become text.
    """
    import numpy as np

    from gramless.streaming.sources import MappedSource

    n_rows = min(_ROWS_LOOKED_AT, source.n_rows or _ROWS_LOOKED_AT)
    seen = [source.held_out()[1], source.read(0, n_rows)[1]]
    y = np.concatenate(seen)
    if y.ndim > 1:
        raise InputError(f"{data} has {y.shape[1]} labels a row; one is needed.")
    kind, reason = decide_task(y, task)
    reason = f"{reason}, {len(y):,} rows looked at" if task == "auto" else reason
    if kind == "regression" or y.dtype.kind == "O":
        return source, kind, reason
    convert = _as_integers if labels_of(y, kind).dtype.kind == "i" else _as_text
    return MappedSource(source, convert), kind, reason


def _as_integers(y: AnyArray) -> AnyArray:
    found = labels_of(y, "classification")
    if found.dtype.kind != "i":
        odd = y[y % 1 != 0][0]
        raise InputError(
            f"the target holds {odd:g} where others are whole numbers; if it measures something, "
            "ask for --task regression."
        )
    return found


def _as_text(y: AnyArray) -> AnyArray:
    """Return numbers as text, even in a batch where all of them happen to be whole."""
    import numpy as np

    from gramless.base.columns import labels

    return np.array([*labels(y)], dtype=object)


def _check_loss(loss: str | None, task: str) -> None:
    known = {kind: list(made._losses) for kind, made in _estimators().items()}
    if loss is None or any(loss in known[kind] for kind in known if task in ("auto", kind)):
        return
    listed = "; ".join(f"{kind} has {', '.join(own)}" for kind, own in known.items())
    raise InputError(
        f"--loss {loss} is no loss{'' if task == 'auto' else f' of {task}'}: {listed}."
    )


def _check_options(options: dict[str, Any]) -> None:
    """Refuse parameters that the estimator would only refuse once the rows are read."""
    from gramless import DoublyStochasticRegressor
    from gramless.kernels import as_spectral_kernel, bandwidth_vector

    model = DoublyStochasticRegressor(**options)
    model._check_parameters()
    if not isinstance(model.bandwidth, str):
        bandwidth_vector(model.bandwidth, 1)
    if model.device != "cpu":
        import numpy as np

        from gramless.streaming.feature_blocks import FrequencyBlocks
        from gramless.streaming.torch_products import TorchProducts

        one = np.ones(1)
        blocks = FrequencyBlocks(as_spectral_kernel(model.kernel), 0, 1, 1)
        TorchProducts(blocks, one, one, 0, model.device)


def _going_on(path: Path, loss: str | None, options: dict[str, Any]) -> str:
    """Return a line about the run that a checkpoint holds; refuse one that cannot go on."""
    from gramless.estimators.checkpoints import Checkpoint
    from gramless.estimators.persistence import describe

    name = describe(path)["class"]
    kinds = {made.__name__: kind for kind, made in _estimators().items()}
    if name not in kinds:
        raise InputError(
            f"--checkpoint {path} holds a {name}, and no run that could go on; name another file."
        )
    earlier = Checkpoint(path, 0.0).found(_estimator(kinds[name], loss, options))
    steps = 0 if earlier is None else earlier.n_iter_
    return f"going on from {path}, after {steps:,} steps"


def _estimators() -> dict[str, type[StreamedMachine]]:
    from gramless import DoublyStochasticClassifier, DoublyStochasticRegressor

    return {"classification": DoublyStochasticClassifier, "regression": DoublyStochasticRegressor}


def _estimator(kind: str, loss: str | None, options: dict[str, Any]) -> StreamedMachine:
    _check_loss(loss, kind)
    made = _estimators()[kind]
    return made(**options) if loss is None else made(**options, loss=loss)


def _train(
    report: Report, model: StreamedMachine, source: RowSource, interruption: Interruption
) -> None:
    in_words = partial(error_of, model)
    progress = RunDisplay(report, model.max_steps, model.time_budget, in_words, interruption)

    def after(step: Step, evaluation: Evaluation | None) -> bool:
        interruption.begun = True
        progress.after(step, evaluation, model.batch_rows_)
        return interruption.requested

    with report.timed("train"), progress.shown(), interruption.watched():
        model.fit_stream(source, callback=after)


def _save(report: Report, model: StreamedMachine, files: _Files) -> None:
    from gramless import save

    with report.stage("save", f"saving {files.model}"):
        save(model, files.model)
    if files.picture is not None:
        with report.stage("draw", "drawing"):
            from gramless.cli.figures import draw_run
            from gramless.inspection.pictures import write_picture

            write_picture(draw_run(model), files.picture)


def _report_result(
    report: Report, model: StreamedMachine, source: RowSource, files: _Files, task: str, reason: str
) -> None:
    from sklearn.base import is_classifier

    held, rows = len(source.held_out()[1]), source.n_rows
    classes = model.classes_ if is_classifier(model) else None
    n_bytes = files.model.stat().st_size
    document = {
        "model": files.model,
        "bytes": n_bytes,
        "task": task,
        "rows": rows,
        "held_back_rows": held,
        "classes": classes,
        **run_of(model),
        "data": files.data,
        "checkpoint": files.checkpoint,
        "picture": files.picture,
        "seconds": report.seconds,
    }
    lines = {
        "task": f"{task} ({reason})",
        "rows": f"{rows:,} to learn from, {held:,} held back",
        "classes": None if classes is None else f"{len(classes):,}",
        **run_in_words(model),
        "seconds": ", ".join(f"{name} {value:.1f}" for name, value in report.seconds.items()),
        "checkpoint": files.checkpoint,
        "picture": files.picture,
        "model": f"{files.model} ({sized(n_bytes)})",
    }
    report.result(document, facts(lines))
    if not report.as_json:
        for line in _next_steps(model, files):
            report.note(line)


def _next_steps(model: StreamedMachine, files: _Files) -> Iterator[str]:
    """Yield lines that suggest what to do next."""
    name, checkpoint = shlex.quote(str(files.model)), files.checkpoint
    if model.status_ in ("stopped", "time", "max_steps"):
        if checkpoint is None:
            yield "next: with --checkpoint FILE a run like this one can go on later"
        else:
            more = {"max_steps": " with more --steps", "time": ""}.get(model.status_, "")
            yield f"next: the same command{more} goes on from {checkpoint}"
    yield f"next: gramless evaluate {name} OTHER_ROWS"
    yield f"next: gramless predict {name} OTHER_ROWS -o OUT.csv"
    yield f"next: gramless inspect {name} --picture RUN.png"
