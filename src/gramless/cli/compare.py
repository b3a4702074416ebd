"""``gramless compare``: approximations of kernels on a table, at equal time or equal memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from rich.table import Table
from typer import BadParameter, Option

from gramless.base.errors import InputError
from gramless.base.formatting import sized
from gramless.cli import options
from gramless.cli.reading import decide_task, is_piped, labels_of, read_data, training_rows
from gramless.cli.report import facts, listing, number, reporting

if TYPE_CHECKING:
    from gramless.inspection.comparison import By, Chosen, Comparison, Outcome, Split
    from gramless.inspection.kernel_errors import KernelErrors

SECONDS = 2.0
_KERNEL_ROWS, _JUDGED_ROWS, _KERNEL_SEEDS = 5000, 300, 3
"""For errors of the kernel: rows to fit, rows whose pairs are compared, and seeds."""
_GRAM_ROWS = 1000
_KERNEL_BYTES, _KERNEL_SHARE = 1 << 26, 0.25
"""Limits on the sizes tried: bytes of the features, and their share of the rows."""
_EXACT_ROWS, _SEARCH_SECONDS = 10_000, 40.0
_REFERENCE = "fourier"
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


class KernelFacts(NamedTuple):
    """Effective dimension of the exact kernel with the chosen penalty, and errors by size."""

    dimension: float
    errors: Sequence[KernelErrors]


Time = Annotated[
    float | None,
    Option(
        metavar="SECONDS", min=0.001, help=f"Of a fit with settings given; {SECONDS:g} by default."
    ),
]
Memory = Annotated[
    str | None,
    Option(metavar="BYTES", help="Of the features of all rows, such as 64MB, in place of --time."),
]
Methods = Annotated[
    str | None,
    Option(
        metavar="A,B,...",
        help="Of binning, smooth, fourier, nystrom, blocks and exact; by default all, exact "
        "up to 10,000 rows.",
    ),
]
PictureOut = Annotated[
    Path | None,
    Option(
        metavar=options.PICTURE,
        help="Draw error against size, seconds and bytes, and errors of the kernel.",
    ),
]


def compare(
    data: options.DataFile,
    target: options.Target = None,
    task: options.TaskOption = "auto",
    time: Time = None,
    memory: Memory = None,
    methods: Methods = None,
    picture: PictureOut = None,
    seed: Annotated[int, Option(min=0, help="Seed of every method.")] = 0,
    limits: options.Limits = "",
    n_jobs: options.Jobs = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Compare approximations of kernels at equal time or equal memory.

    Each method finds scaling, bandwidth and alpha once, on training rows alone.
    Its size then doubles with these settings, until the next fit would cost more
    than the budget. The test part of the file judges, or a fifth of the rows,
    held back. The last table shows how far inner products of the features
    are from the kernel itself.
    """
    by, budget = _budget(time, memory)
    chosen = options.names(methods, "--methods")
    with reporting(as_json, debug) as report:
        if picture is not None:
            from gramless.inspection.pictures import check_picture

            check_picture(picture)
        with report.stage("read", f"reading {data}"):
            split, reason = _split(data, target, task, limits)
        with report.stage("compare", "comparing") as show_line:
            from gramless.inspection import comparison

            tried, left_out = _methods(chosen, len(split.y))
            found = comparison.compare(
                split.X,
                split.y,
                split.X_test,
                split.y_test,
                task=split.task,
                methods=tried,
                by=by,
                budget=budget,
                search_budget=_SEARCH_SECONDS,
                random_state=seed,
                n_jobs=n_jobs,
                report=show_line,
            )
            found.left_out.update(left_out)
        with report.stage("kernel", "comparing with the kernel"):
            kernels = {
                one.method: _kernel(one, found.of(one.method), split) for one in found.chosen
            }
        if picture is not None:
            from gramless.cli.figures import draw_comparison

            errors = {name: one.errors for name, one in kernels.items()}
            report.draw(picture, draw_comparison, found, errors)
        head = {"data": data, "picture": picture, "seconds": report.seconds}
        tables = _tables(split, reason, picture, found, kernels)
        report.result(head | _document(split, found, kernels), *tables)


def _budget(time: float | None, memory: str | None) -> tuple[By, float]:
    """Return what the budget limits, and its size."""
    if memory is None:
        return "time", SECONDS if time is None else time
    if time is not None:
        raise BadParameter("give --time or --memory, not both.")
    digits = memory.strip().upper().rstrip("BKMG")
    unit = memory.strip().upper()[len(digits) :]
    try:
        n_bytes = float(digits) * _UNITS[unit]
    except (ValueError, KeyError):
        n_bytes = 0.0
    if not 0 < n_bytes < float("inf"):
        raise BadParameter(f"--memory needs a size such as 64MB, got {memory!r}.")
    return "memory", n_bytes


def _methods(chosen: list[str] | None, n_rows: int) -> tuple[Sequence[str], dict[str, str]]:
    """Return the methods to try, and why others are left out."""
    from gramless.features.registry import FEATURE_MAPS

    if chosen is not None:
        return chosen, {}
    if n_rows <= _EXACT_ROWS:
        return tuple(FEATURE_MAPS), {}
    reason = f"{n_rows:,} rows would take minutes; ask for it with --methods"
    return [name for name in FEATURE_MAPS if name != "exact"], {"exact": reason}


def _split(path: Path, target: str | None, task: str, limits: str) -> tuple[Split, str]:
    """Return training and test rows, and the reason for the task."""
    from gramless import datasets
    from gramless.datasets.files import detect_format, plain_path
    from gramless.datasets.limits import parse_limits
    from gramless.datasets.registry import split_rows
    from gramless.inspection.comparison import Split
    from gramless.inspection.explanation import take_rows

    is_npz = not is_piped(path) and detect_format(plain_path(path), None) == "npz"
    parts = datasets.read_npz(path, limits=parse_limits(limits)) if is_npz else {}
    whole = parts["train"] if "test" in parts else read_data(path, limits=limits)
    rows = training_rows(whole, target, None, None)
    kind, reason = decide_task(rows.y, task)
    y = labels_of(rows.y, kind)
    if "test" in parts:
        inputs = rows.X.names if isinstance(rows.X, datasets.Table) else None
        test_rows = training_rows(parts["test"], target, inputs, None)
        return Split(rows.X, y, test_rows.X, labels_of(test_rows.y, kind), kind), reason
    # A fifth of the rows is held back, as of data sets without a test part.
    train, test = split_rows(len(y))
    if len(train) < 2 or not len(test):
        raise InputError(f"{path} has {len(y)} rows, too few to hold a fifth back.")
    return Split(take_rows(rows.X, train), y[train], take_rows(rows.X, test), y[test], kind), reason


def _kernel(chosen: Chosen, outcomes: Sequence[Outcome], split: Split) -> KernelFacts:
    """Measure the kernel on some rows, and its errors at the sizes that they allow."""
    from gramless.inspection.comparison import ends_with_rows, scaled_rows
    from gramless.inspection.explanation import sampled_rows, take_rows
    from gramless.inspection.kernel_errors import kernel_effective_dimension, kernel_errors

    features: Any = chosen.model.features_
    few = sampled_rows(len(split.y), _KERNEL_ROWS, 0, "rows judged")
    rows = scaled_rows(chosen.model, take_rows(split.X, few))
    dimension = kernel_effective_dimension(features, rows, chosen.alpha, n_rows=_GRAM_ROWS)
    share = len(few) / len(split.y)
    sizes = [one.size for one in outcomes if one.n_bytes * share <= _KERNEL_BYTES]
    if ends_with_rows(chosen.feature_map):
        sizes = [size for size in sizes if size <= _KERNEL_SHARE * len(few)]
    settings = {"n_rows": _JUDGED_ROWS, "n_seeds": _KERNEL_SEEDS}
    return KernelFacts(dimension, kernel_errors(features, rows, sizes, **settings) if sizes else [])


def _document(
    split: Split, found: Comparison, kernels: dict[str, KernelFacts]
) -> dict[str, object]:
    reference = _reference(found)
    return {
        "task": split.task,
        "rows": len(split.y),
        "test_rows": len(split.y_test),
        "by": found.by,
        "budget": found.budget,
        "left_out": found.left_out,
        "chosen": [one.as_dict() for one in found.chosen],
        "outcomes": [vars(one) for one in found.outcomes],
        "best": [vars(one) for one in found.best()],
        "reference": None if reference is None else vars(reference),
        "reached": [] if reference is None else [vars(r) for r in found.to_reach(reference.error)],
        "kernel": {
            name: {"effective_dimension": dimension, "errors": [vars(one) for one in errors]}
            for name, (dimension, errors) in kernels.items()
        },
    }


def _reference(found: Comparison) -> Outcome | None:
    """Return the most accurate outcome of Fourier features, the others' reference."""
    return min(found.of(_REFERENCE), key=lambda outcome: outcome.error, default=None)


def _tables(
    split: Split,
    reason: str,
    picture: Path | None,
    found: Comparison,
    kernels: dict[str, KernelFacts],
) -> list[Table]:
    """Return the tables for people."""
    lines = {
        "task": f"{split.task} ({reason})",
        "rows": f"{len(split.y):,} to learn from, {len(split.y_test):,} to judge",
        "picture": picture,
        **{f"without {name}": why for name, why in found.left_out.items()},
        "beyond the budget": "; ".join(_beyond(found)) or None,
        "searches cut short": ", ".join(c.method for c in found.chosen if c.model.limits_) or None,
    }
    tables = [facts(lines), _choices(found, kernels), _best(found)]
    reference = _reference(found)
    if reference is not None:
        tables.append(_reached(reference, found))
    return [*tables, _kernels(kernels)]


def _beyond(found: Comparison) -> Iterator[str]:
    """Yield the results of methods that had none within the budget."""
    within = {one.method for one in found.best()}
    for one in found.outcomes:
        if one.method not in within:
            error, n_bytes = number(one.error), sized(one.n_bytes)
            yield f"{one.method}, {one.size:,} {one.unit}: {error}, {one.seconds:.2f} s, {n_bytes}"


def _choices(found: Comparison, kernels: dict[str, KernelFacts]) -> Table:
    rows = []
    for one in found.chosen:
        kernel, dimension = one.feature_map.check_parameters().name, kernels[one.method].dimension
        rest = float(one.bandwidth), one.alpha, round(dimension), f"{one.seconds:.1f}"
        rows.append((one.method, kernel, one.scaling, *rest))
    columns = ["method", "kernel", "scaling", "bandwidth", "alpha", "dimension", "seconds"]
    title = f"Chosen once; effective dimension among at most {_GRAM_ROWS:,} rows"
    return listing(title, columns, rows)


def _best(found: Comparison) -> Table:
    budget = f"{found.budget:g} s" if found.by == "time" else sized(int(found.budget))
    rows = []
    for one in found.best():
        seconds = f"{one.seconds:.2f}", f"{one.predict_seconds:.2f}"
        size = f"{one.size:,} {one.unit}"
        rows.append((one.method, size, one.error, *seconds, sized(one.n_bytes)))
    columns = ["method", "size", "error", "fit s", "predict s", "features"]
    return listing(f"The best of each within {budget} a fit", columns, rows)


def _reached(reference: Outcome, found: Comparison) -> Table:
    rows = []
    for one in found.to_reach(reference.error):
        row: list[str] = ["-"] * 4
        if one.seconds is not None and one.n_bytes is not None:
            row = [f"{one.seconds:.2f}", f"{one.seconds / reference.seconds:.2g}"]
            row += [sized(one.n_bytes), f"{one.n_bytes / reference.n_bytes:.2g}"]
        rows.append([one.method, *row])
    title = (
        f"To reach {number(reference.error)}, the least error of Fourier features: "
        f"{reference.size:,} {reference.unit}, {reference.seconds:.2f} s, "
        f"{sized(reference.n_bytes)}"
    )
    return listing(title, ["method", "fit s", "of its time", "features", "of its bytes"], rows)


def _kernels(kernels: dict[str, KernelFacts]) -> Table:
    """Return the errors at the largest size, with those bounds that are below 1."""
    rows, n_pairs = [], 0
    for name, kernel in kernels.items():
        for one in kernel.errors[-1:]:
            bounds = ("-" if b is None or b > 1.0 else b for b in (one.hoeffding, one.claim))
            rows.append((name, one.size, one.rms, one.sup, *bounds))
            n_pairs = max(n_pairs, one.n_pairs)
    title = f"Inner products less the kernel, {n_pairs:,} pairs of rows"
    return listing(title, ["method", "size", "rms", "largest", "Hoeffding", "Claim 1, 2"], rows)
