"""``gramless fit``: fit a model to a table and save it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from typer import BadParameter, Option

from gramless.base.errors import InputError
from gramless.base.formatting import format_bytes
from gramless.cli import options
from gramless.cli.outputs import Output, check_outputs
from gramless.cli.report import Report, facts_table, open_report

if TYPE_CHECKING:
    from sklearn.model_selection import BaseCrossValidator

    from gramless.base.progress import Progress
    from gramless.cli.reading import Training
    from gramless.datasets import StoredTable, Table
    from gramless.estimators.base import KernelMachine
    from gramless.features.base import SizedMap
    from gramless.kernels import Kernel

Features = Annotated[
    str | None,
    Option(metavar="A,B,...", help="Columns to learn from; by default all other columns."),
]
Approximation = Annotated[
    str, Option(metavar="NAME", help="binning, smooth, fourier, nystrom or exact.")
]
KernelName = Annotated[
    str | None,
    Option(
        metavar="NAME[:NUMBER]",
        help="laplacian, exponential_power:0.5, inverse_power:1, hat; approximations without bins "
        "also allow gaussian, matern:1.5, rational_quadratic:1, cauchy.",
        show_default="that of the approximation",
    ),
]
Grids = Annotated[
    str,
    Option(
        metavar="auto|random|grown",
        help="random: draw grids over all inputs; grown: select grids over a few inputs each.",
    ),
]
NGrids = Annotated[
    int | None, Option(min=1, help="Number of grids; by default as many as improve the model.")
]
Effort = Annotated[
    int, Option(min=1, max=5, help="How thoroughly grids are grown: 1 is fast, 5 thorough.")
]
Size = Annotated[
    int | None,
    Option(
        min=1,
        help="Number of columns of features without grids; for exact, the most rows. By default "
        "it depends on the number of rows.",
    ),
]
TimeBudget = Annotated[
    float | None,
    Option(metavar="SECONDS", min=0.01, help="Time for the fit; with less time it tries less."),
]
Memory = Annotated[
    str | None,
    Option(
        metavar="SIZE",
        help="Memory limit of the fit, such as 4GB. The table is read in pieces and kept on the "
        "disk, and so is everything else that does not fit.",
    ),
]
Loss = Annotated[
    str,
    Option(
        metavar="NAME",
        help="squared; for classes also squared_hinge, logistic; for numbers also huber, median, "
        "quantile, poisson, gamma, tweedie. auto is logistic for classes if grids are grown, "
        "otherwise squared.",
    ),
]
Quantile = Annotated[
    float | None,
    Option(
        callback=options.check_inner_share,
        help="Quantile to predict with --loss quantile.",
        show_default="0.5",
    ),
]
Bandwidth = Annotated[
    str, Option(metavar="auto|NUMBER", help="Width of the kernel, in scaled inputs.")
]
L1Ratio = Annotated[
    float,
    Option(
        min=0.0,
        max=1.0,
        help="Share of the L1 penalty: 1 makes most weights zero and the model small and fast.",
    ),
]
Scoring = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="scikit-learn scorer for model selection, such as roc_auc, neg_log_loss or r2.",
        show_default="the loss",
    ),
]
Folds = Annotated[
    str | None,
    Option(
        "--cv",
        metavar="NUMBER|time|group",
        help="Validation rows: a number of folds, the last rows in time, or whole groups.",
        show_default="by rule",
    ),
]
Groups = Annotated[
    str | None,
    Option(metavar="NAME", help="Column of groups of rows; folds never split a group."),
]
Scaling = Annotated[
    Literal["auto", "standard", "quantile", "whiten", "none"], Option(help="Units of the inputs.")
]
Cluster = Annotated[
    str | None,
    Option(
        metavar="tcp://HOST:PORT",
        help="Fit on the Dask cluster with this scheduler. Its workers read the file (CSV or "
        "Parquet).",
    ),
]
Checkpoint = Annotated[
    Path | None,
    Option(help="With --cluster: file that saves the solve, to resume it after a failure."),
]


def fit(
    data: options.DataFile,
    model: Annotated[Path, Option("--model", "-m", help="File to write the model to.")],
    target: options.Target = None,
    task: options.TaskOption = "auto",
    features: Features = None,
    categorical: options.Categorical = None,
    weight: Annotated[str | None, Option(metavar="NAME", help="Column of row weights.")] = None,
    groups: Groups = None,
    cv: Folds = None,
    scoring: Scoring = None,
    approximation: Approximation = "binning",
    kernel: KernelName = None,
    grids: Grids = "auto",
    n_grids: NGrids = None,
    effort: Effort = 3,
    size: Size = None,
    time_budget: TimeBudget = None,
    memory: Memory = None,
    loss: Loss = "auto",
    quantile: Quantile = None,
    bandwidth: Bandwidth = "auto",
    alpha: options.Alpha = "auto",
    l1_ratio: L1Ratio = 0.0,
    scaling: Scaling = "auto",
    seed: Annotated[int, Option(min=0, help="Seed of the random grids.")] = 0,
    force: options.Force = False,
    limits: options.Limits = "",
    cluster: Cluster = None,
    checkpoint: Checkpoint = None,
    n_jobs: options.Jobs = None,
    verbose: Annotated[bool, Option("--verbose", "-v", help="Print what the fit tries.")] = False,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Fit a kernel machine to a table and save it.

    Scaling, bandwidth and alpha are selected on validation rows unless given.
    Text is encoded and missing numbers are filled by rules saved in the model file.
    """
    parameters = {"loss": loss, "quantile": quantile, "l1_ratio": l1_ratio, "grids": grids}
    parameters |= {"effort": effort, "scoring": scoring, "time_budget": time_budget}
    parameters["bandwidth"] = options.parse_auto_or_number(bandwidth, "--bandwidth")
    parameters["alpha"] = options.parse_auto_or_number(alpha, "--alpha")
    parameters |= {"n_grids": n_grids or "auto", "memory_budget": memory, "scaling": scaling}
    parameters |= {"cv": _parse_cv(cv, groups), "random_state": seed, "n_jobs": n_jobs}
    inputs = options.split_names(features, "--features")
    categories = options.split_names(categorical, "--categorical")
    with open_report(as_json, debug, verbose) as report:
        check_outputs([Output("--model", model, "model")], {"the data": data}, force)
        columns, feature_map = (target, inputs, weight, groups), (approximation, kernel, size)
        prepare = partial(_prepare_task, columns, task, feature_map, parameters)
        if cluster is None:
            result = _fit_locally(report, data, categories, limits, memory, prepare)
        elif categories:
            raise BadParameter(
                "--categorical cannot be used with --cluster; write these columns as text."
            )
        else:
            result = _fit_on_cluster(report, data, cluster, checkpoint, (weight, groups), prepare)
        _save_and_report(report, *result, model)


class _Task(NamedTuple):
    rows: Training
    machine: KernelMachine  # not fitted yet
    kind: str  # classification or regression
    reason: str  # why the task is of this kind


def _prepare_task(
    columns: tuple[str | None, Sequence[str], str | None, str | None],
    task: str,
    features: tuple[str, str | None, int | None],
    parameters: dict[str, Any],
    table: Table | StoredTable,
) -> _Task:
    """Split a table into inputs, targets, weights and groups, and make the estimator of the task.

    ``columns`` are the options for target, inputs, weights and groups; ``features`` those for the
    approximation, the kernel and the size.
    """
    from gramless.cli.reading import decide_task, training_rows

    rows = training_rows(table, *columns)
    kind, reason = decide_task(rows.y, task)
    return _Task(rows, _make_estimator(kind, *features, parameters), kind, reason)


@contextmanager
def _report_fit(report: Report) -> Iterator[Callable[[Progress], None]]:
    """Time the fit, and yield a callback that shows its progress."""
    with report.stage("fit", "fitting") as show:
        yield lambda progress: show(progress.message)


def _fit_locally(
    report: Report,
    data: Path,
    categorical: Sequence[str],
    limits: str,
    memory: str | None,
    prepare: Callable[[Table | StoredTable], _Task],
) -> tuple[KernelMachine, _Task, int]:
    with report.stage("read", f"reading {data}") as show:
        from gramless.cli.reading import labels_of, read_data, store_data

        # With a limit of memory the table stays on the disk.
        read = read_data if memory is None else partial(store_data, report=show)
        task = prepare(read(data, categorical=categorical, limits=limits))
    rows = task.rows
    with _report_fit(report) as callback:
        y = labels_of(rows.y, task.kind)
        task.machine.fit(rows.X, y, rows.weight, rows.groups, callbacks=callback)
    return task.machine, task, len(rows.y)


def _fit_on_cluster(
    report: Report,
    data: Path,
    address: str,
    checkpoint: Path | None,
    others: Sequence[str | None],
    prepare: Callable[[Table], _Task],
) -> tuple[KernelMachine, _Task, int]:
    """Fit on workers that read the file; ``others`` are the columns of weights and groups."""
    from gramless.base.columns import named_columns
    from gramless.datasets import Table
    from gramless.distributed.files import (
        as_dask_estimator,
        connect_client,
        read_frame,
        read_head,
    )

    with connect_client(address) as client:
        with report.stage("read", f"reading the first rows of {data}"):
            frame = read_frame(data)
            # The first rows show which columns there are, and decide the task.
            task = prepare(Table(read_head(frame), source=str(data)))
        estimator = as_dask_estimator(task.machine, client)
        y, weight, groups = (
            None if name is None else frame[name] for name in (task.rows.target, *others)
        )
        with _report_fit(report) as callback:
            inputs = frame[list(named_columns(task.rows.X))]
            estimator.fit(inputs, y, weight, groups, callbacks=callback, checkpoint=checkpoint)
        return estimator.to_local(), task, len(frame)


def _parse_cv(text: str | None, groups: str | None) -> BaseCrossValidator | int | None:
    if text == "time":
        from sklearn.model_selection import TimeSeriesSplit

        return TimeSeriesSplit()
    if text is None or (text == "group" and groups is not None):
        return None
    if text == "group":
        raise BadParameter("--cv group needs --groups NAME, the column of the groups.")
    try:
        return int(text)
    except ValueError:
        raise BadParameter(f"--cv needs a number, time or group, got {text!r}.") from None


def _make_estimator(
    task: str, approximation: str, kernel: str | None, size: int | None, parameters: dict[str, Any]
) -> KernelMachine:
    from gramless import KernelClassifier, KernelRegressor
    from gramless.estimators.features import MIN_GRIDS
    from gramless.features.registry import map_class

    features: str | SizedMap = approximation
    if parameters["quantile"] is None:
        parameters = {name: value for name, value in parameters.items() if name != "quantile"}
    elif parameters["loss"] != "quantile":
        raise InputError("--quantile needs --loss quantile; give both.")
    if parameters["n_grids"] != "auto" and map_class(approximation).size_name != "n_grids":
        raise InputError(
            f"--approximation {approximation} has no grids, so --n-grids cannot be used; give "
            "--size."
        )
    if kernel is not None or size is not None:
        kind = map_class(approximation)
        features = kind() if kernel is None else kind(parse_kernel(kernel))
        if size is None and features.size_name == "n_grids":
            size = MIN_GRIDS
        features = features if size is None else features.resized(size)
    if task == "classification":
        return KernelClassifier(features, **parameters)
    if parameters["loss"] == "auto":
        parameters = parameters | {"loss": "squared"}
    return KernelRegressor(features, **parameters)


def parse_kernel(text: str) -> Kernel:
    """Return the kernel for ``name`` or ``name:number``; the number is its first parameter."""
    from gramless.kernels import KERNELS, as_kernel, from_config

    name, colon, number_text = text.partition(":")
    if not colon:
        return as_kernel(name)
    fields = [field.name for field in dataclasses.fields(KERNELS[name])] if name in KERNELS else []
    try:
        parameter = fields[0] if fields else "number"
        return from_config({"name": name, parameter: float(number_text)})
    except ValueError as fault:
        raise InputError(f"--kernel {text}: {fault}") from fault


def _save_and_report(
    report: Report, model: KernelMachine, task: _Task, n_rows: int, path: Path
) -> None:
    from gramless import save
    from gramless.cli.summaries import choices_of, classes_of, grids_of

    with report.stage("save", f"saving {path}"):
        model.target_name_ = task.rows.target
        save(model, path)
    n_bytes, features, target = path.stat().st_size, model.features_, task.rows.target
    classes, choices = classes_of(model), choices_of(model)
    document = {
        "model": path,
        "bytes": n_bytes,
        "target": target,
        "task": task.kind,
        "rows": n_rows,
        "inputs": model.n_features_in_,
        "classes": classes,
        **choices,
        "scoring": model.scorer_,
        "cv": model.cv_,
        "grids_kind": model.settings_.grids,
        "bandwidth": model.bandwidth_,
        "relevance": model.relevance_,
        "features": type(features).__name__,
        "grids": grids_of(model),
        "columns": features.n_features_out,
        "sparsity": model.sparsity_,
        "trials": len(model.search_),
        "iterations": model.n_iter_,
        "status": model.status_,
        "limits": model.limits_,
        "seconds": report.seconds,
    }
    shown = {
        "target": target or "the separate labels of the file",
        "task": f"{task.kind} ({task.reason})",
        "rows": f"{n_rows:,} with {model.n_features_in_:,} inputs",
        "classes": classes,
        **choices,
        "selected by": f"{model.scorer_}; validation rows {model.cv_}",
        "seconds": {name: round(value, 1) for name, value in report.seconds.items()},
        "limits": "; ".join(model.limits_) or None,
        "model": f"{path} ({format_bytes(n_bytes)})",
    }
    report.print_result(document, facts_table(shown))
