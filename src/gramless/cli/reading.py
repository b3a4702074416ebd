"""Read data files and models, and match the columns of a table to those of a model."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier

from gramless.base.columns import labels
from gramless.base.errors import InputError
from gramless.base.lazy_rows import LazyRows
from gramless.base.notation import NOTATIONS_OF_TIMES, notation_of, read_cells
from gramless.base.progress import LOGGER
from gramless.base.types import AnyArray
from gramless.cli.metrics import Classifier, class_numbers
from gramless.datasets import StoredTable, Table, read_npz, read_table, store_table
from gramless.datasets.files import detect_format, plain_path, rename_by_content
from gramless.datasets.limits import parse_limits
from gramless.datasets.table import Matrix, with_text
from gramless.estimators.base import KernelMachine
from gramless.estimators.persistence import load
from gramless.estimators.streamed import StreamedMachine
from gramless.portable import BOOLEAN_SPELLINGS, MISSING_WORDS
from gramless.preprocessing.encoder import TableEncoder

Predictor: TypeAlias = KernelMachine | StreamedMachine

FEW_VALUES = 20  # whole numbers with at most this many distinct values are treated as classes


@dataclass(frozen=True)
class Training:
    """Inputs, labels, weights and groups; ``target`` is None if the file has separate labels."""

    X: Matrix | Table | StoredTable | LazyRows
    y: AnyArray
    weight: AnyArray | None
    target: str | None
    groups: AnyArray | None = None


def read_data(
    path: Path,
    *,
    categorical: Sequence[str] = (),
    part: str = "train",
    n_features: int | None = None,
    limits: str = "",
) -> Table:
    """Read a table of any format from a file, a pipe or, if ``path`` is ``-``, standard input.

    Columns in ``categorical`` are read as text. ``part`` selects a part of an NPZ file that has
    two; ``"auto"`` is the test part. ``n_features`` is the number of columns of a LIBSVM file:
    its last columns may be empty.
    """
    if not is_piped(path):
        return _read_file(path, categorical, part, n_features, limits)
    if str(path) == "-" and sys.stdin is None:
        raise InputError("-: standard input is closed; pipe a table to it, or name a file.")
    # Windows cannot remove a file that is still mapped into memory.
    with tempfile.TemporaryDirectory(prefix="gramless-", ignore_cleanup_errors=True) as folder:
        # Some formats are read more than once, so the bytes of the pipe are copied to a file.
        copy = Path(folder, "standard-input")
        with open(copy, "wb") as file:
            if str(path) == "-":
                shutil.copyfileobj(sys.stdin.buffer, file)
            else:
                with open(path, "rb") as pipe:
                    shutil.copyfileobj(pipe, file)
        if copy.stat().st_size == 0:
            raise InputError(f"{path}: the pipe is empty; send a table.")
        return _read_file(rename_by_content(copy), categorical, part, n_features, limits)


def is_piped(path: Path) -> bool:
    """Return whether a path is ``-`` for standard input, or can be read only once."""
    if str(path) == "-" or path.parts[:2] == ("/", "dev"):
        return True
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _read_file(
    path: Path, categorical: Sequence[str], part: str, n_features: int | None, limits: str
) -> Table:
    read_limits = parse_limits(limits)
    kind = detect_format(plain_path(path), None)
    if kind == "npz" and part == "auto":
        parts = read_npz(path, limits=read_limits)
        return parts.get("test") or next(iter(parts.values()))
    if kind in ("csv", "tsv"):
        return read_table(path, categorical=categorical, limits=read_limits)
    name: Literal["train", "test"] = "test" if part == "test" else "train"
    table = read_table(path, part=name, n_features=n_features, limits=read_limits)
    return with_text(table, categorical) if categorical else table


def as_text(values: AnyArray) -> AnyArray:
    return np.array([*labels(values)], dtype=object)


def store_data(
    path: Path, *, categorical: Sequence[str], limits: str, report: Callable[[str], None]
) -> StoredTable:
    if is_piped(path):
        raise InputError(f"{path}: --memory cannot read a pipe; save the table to a file first.")
    return store_table(path, categorical=categorical, limits=parse_limits(limits), report=report)


def training_rows(
    table: Table | StoredTable,
    target: str | None,
    features: Sequence[str] | None,
    weight: str | None,
    groups: str | None = None,
) -> Training:
    head = table if isinstance(table, Table) else table.head
    if isinstance(table, Table) and sparse.issparse(table.matrix):
        if features or weight or groups:
            raise InputError(
                f"{table.source} holds a sparse matrix without column names, so --features, "
                "--weight and --groups cannot be used; write a file with column names."
            )
        X, y, _ = table.split_target(target)
        return Training(X, checked_labels(table, y), None, target if table.target is None else None)
    y, name = _read_labels(table, target)
    y = checked_labels(table, y)
    if name not in table.declared:
        y = text_to_numbers(y)
    if features and name in features:
        raise InputError(f"The target {name!r} is also in --features; remove it there.")
    inputs = features or [n for n in table.names or () if n not in (name, weight, groups)]
    has_names = head.columns is not None or bool(features or weight or groups)
    weights = None if weight is None else text_to_numbers(table.column(weight))
    if weights is not None and weights.dtype.kind == "O":
        raise InputError(
            f"{table.source}: column {weight!r} of weights holds text, such as {weights[0]!r}; "
            "weights must be numbers."
        )
    group_labels = None if groups is None else table.column(groups)
    if (
        group_labels is not None
        and group_labels.dtype.kind == "O"
        and (n_empty := int((group_labels == "").sum()))
    ):
        raise InputError(
            f"{table.source}: column {groups!r} of groups is empty in {n_empty:,} of "
            f"{len(group_labels):,} rows; remove these rows."
        )
    if isinstance(table, Table):
        return Training(inputs_of(table, inputs, has_names), y, weights, name, group_labels)
    return Training(_select_stored_inputs(table, inputs, has_names), y, weights, name, group_labels)


def unlabelled_rows(
    table: Table, features: Sequence[str] | None, ignored: Sequence[str]
) -> tuple[Matrix | Table, Sequence[str]]:
    """Return inputs, by default all columns that are not ignored, and their names.

    Labels that the file stores separately are left out.
    """
    if table.names is None and not features and not ignored:
        X = table.select()
        return X, [f"x{j + 1}" for j in range(table.shape[1])]
    all_names = table.names or [f"x{j + 1}" for j in range(table.shape[1])]
    names = [name for name in features or all_names if name not in ignored]
    if not names:
        raise InputError(f"{table.source}: all columns are ignored; ignore fewer.")
    if table.columns is None:
        return table.select(names), names
    return inputs_of(table, names), names


def _read_labels(table: Table | StoredTable, target: str | None) -> tuple[AnyArray, str | None]:
    """Return labels and the name of their column, None if the file stores them separately."""
    head = table if isinstance(table, Table) else table.head
    # The target is found by its name, for which one row is enough.
    _, _, inputs = head.take_rows(slice(0, 1)).split_target(target)
    input_names = set(inputs or ())
    name = next((name for name in table.names or () if name not in input_names), None)
    y = np.asarray(table.target) if name is None else table.column(name)
    return y, name


def checked_labels(table: Table | StoredTable, y: AnyArray) -> AnyArray:
    """Return the labels; raise InputError unless every row has exactly one."""
    if y.ndim != 1:
        raise InputError(f"{table.source} has {y.shape[1]} labels a row; one is needed.")
    missing = int((y != y).sum()) if y.dtype.kind == "f" else int((y == "").sum())
    if missing:
        raise InputError(
            f"{table.source}: the target is missing in {missing:,} of {len(y):,} rows; remove "
            "these rows."
        )
    return y


def inputs_of(table: Table, names: Sequence[str], has_names: bool = True) -> Matrix | Table:
    """Return columns as a table if they have names, text or missing numbers, else as an array."""
    if not has_names:
        X = table.select(names)
        if not isinstance(X, Table) and not np.isnan(X).any():
            return X
    return _select_columns(table, names)


def _select_columns(table: Table, names: Sequence[str]) -> Table:
    columns = {name: table.column(name) for name in names}
    types = {name: kind for name, kind in table.types.items() if name in columns}
    return Table(columns, source=table.source, declared=table.declared, types=types)


def _select_stored_inputs(
    table: StoredTable, names: Sequence[str], has_names: bool
) -> StoredTable | LazyRows:
    """Return columns of a stored table as :func:`inputs_of` does, without reading all rows."""
    columns = table.of_columns([table.head.index_of(name) for name in names])
    if has_names or columns.categorical:
        return columns
    rows = columns.rows
    return columns if any(np.isnan(rows[a:b]).any() for a, b in rows.row_blocks()) else rows


def text_to_numbers(y: AnyArray) -> AnyArray:
    """Return text labels as numbers if all of them are numbers in one notation."""
    notation = notation_of(y) if y.dtype.kind == "O" else None
    # Dates stay text: they may be classes, and nobody predicts seconds since 1970.
    if notation is None or notation in NOTATIONS_OF_TIMES:
        return y
    return read_cells(y, notation)


def decide_task(y: AnyArray, task: str) -> tuple[str, str]:
    """Return ``classification`` or ``regression``, and the reason; ``task`` may be ``auto``."""
    if y.dtype.kind == "O":
        if task == "regression":
            raise InputError("the target holds text; regression needs numbers.")
        return "classification", "the target holds text"
    if task != "auto":
        return task, "as given by --task"
    values = np.unique(y)
    is_whole = bool((values == np.round(values)).all())
    if len(values) == 2 or (is_whole and len(values) <= FEW_VALUES):
        return "classification", f"{len(values)} distinct {'whole ' * is_whole}numbers"
    return "regression", f"{len(values):,} distinct {'whole ' * is_whole}numbers"


def labels_of(y: AnyArray, task: str) -> AnyArray:
    """Return labels in the type that estimators expect: integers or text for classes.

    Examples
    --------
    >>> labels_of(np.array([1.0, 2.0]), "classification")
    array([1, 2])
    >>> labels_of(np.array([0.5, 2.0]), "classification")
    array(['0.5', '2'], dtype=object)
    """
    if task == "regression":
        return y.astype(np.float64, copy=False)
    if y.dtype.kind in "biu":
        return y.astype(np.int64, copy=False)
    if y.dtype.kind != "f":
        return y
    with np.errstate(invalid="ignore"):  # numbers beyond 64 bits become text
        integers = y.astype(np.int64)
    return integers if np.array_equal(integers, y) else as_text(y)


def rows_for(model: Predictor, table: Table, target: str | None = None) -> Matrix | Table:
    """Return the columns of a table that a model needs, in the order of the fit.

    A model fitted with names selects its columns by name; a model fitted without names uses all
    columns except ``target``. Raises InputError if columns are missing or have the wrong type.
    """
    columns = input_names(model)
    if columns:
        check_names(table, columns, "model")
        if encoder_of(model) is None:
            return _checked_numbers(table, table.select(columns))
        return _select_columns(table, columns)
    names = table.names or ()
    X = table.select([name for name in names if name != target] if target in names else None)
    if isinstance(X, Table) and not X.types:
        X = _replace_missing_words(X)
    if isinstance(X, Table) or X.shape[1] != model.n_features_in_:
        text = ", some of them text" if isinstance(X, Table) and X.categorical else ""
        raise InputError(
            f"{table.source} has {X.shape[1]} input columns{text}; the model was fitted "
            f"to {model.n_features_in_} columns of numbers without names. Give only these columns."
        )
    return _checked_numbers(table, X) if isinstance(model, StreamedMachine) else X


def _replace_missing_words(table: Table) -> Matrix | Table:
    """Return an array with NaN for text if all text stands for missing values, else the table."""
    columns = [table.column(name) for name in table.names or ()]
    texts = [column for column in columns if column.dtype.kind == "O"]
    if any(cell.strip() not in MISSING_WORDS for text in texts for cell in text):
        return table
    return np.column_stack([np.full(len(c), np.nan) if c.dtype.kind == "O" else c for c in columns])


def check_names(table: Table, names: Sequence[str], what: str) -> None:
    known = set(table.names or ())
    missing = [name for name in names if name not in known]
    if missing:
        raise InputError(
            f"{table.source} lacks {len(missing)} of the {len(names)} columns that the {what} was "
            f"fitted to: {', '.join(missing[:10])}."
        )


def input_names(model: Predictor) -> Sequence[str]:
    encoder = encoder_of(model)
    # By scikit-learn's convention, the attribute exists only if there were names.
    names = vars(model).get("feature_names_in_", ()) if encoder is None else encoder.names
    return tuple(names)


def encoder_of(model: Predictor) -> TableEncoder | None:
    return None if isinstance(model, StreamedMachine) else model.encoder_


def _checked_numbers(table: Table, X: Matrix | Table) -> Matrix:
    if isinstance(X, Table):
        raise InputError(
            f"{table.source}: column {X.categorical[0]!r} holds text, but the model was fitted to "
            "numbers."
        )
    rows = X.data if sparse.issparse(X) else X
    if np.isnan(rows).any():
        raise InputError(
            f"{table.source}: numbers are missing, and a streamed model does not fill them; fill "
            "them, or drop these rows."
        )
    return X


def with_ids(table: Table, ids: Sequence[str], outputs: dict[str, AnyArray]) -> dict[str, AnyArray]:
    """Return the columns of ``--id`` before the outputs; raise InputError if names clash."""
    for name in ids:
        if name in outputs:
            raise InputError(
                f"--id {name}: the output has a column of this name; rename that of {table.source}."
            )
    return {name: table.column(name) for name in ids} | outputs


def labels_for(model: Predictor, table: Table, target: str | None) -> tuple[AnyArray, str | None]:
    """Return the labels as the model's class or number type, and the name of their column.

    The name is None if the file stores the labels separately. Raises InputError if labels are
    missing, if they are no targets of the model, or if their column is an input of the model.
    """
    target = _find_target(model, table) if target is None else target
    if table.names is None:
        y, name = table.split_target(target)[1], None
    else:
        y, name = _read_labels(table, target)
    if name in input_names(model):
        raise InputError(
            f"{table.source}: column {name!r} would be the target, but it is an input of the "
            "model; name the target with --target."
        )
    y, is_regression = checked_labels(table, y), not is_classifier(model)
    if y.dtype.kind == "O" and is_regression:
        y = text_to_numbers(y)
    if y.dtype.kind == "O" and is_regression:
        raise InputError(f"{table.source}: the target holds text; the model predicts numbers.")
    y = labels_of(y, "regression" if is_regression else "classification")
    if isinstance(model, Classifier):
        y = _respell_booleans(y, model.classes_)
        _check_known_labels(model, table, y, name)
    return y, name


def _respell_booleans(y: AnyArray, classes: AnyArray) -> AnyArray:
    """Return boolean labels in the spelling of a model's classes, other labels unchanged."""
    indices = {BOOLEAN_SPELLINGS.get(label): k for k, label in enumerate(labels(classes))}
    words = [BOOLEAN_SPELLINGS.get(label) for label in labels(y)]
    if indices.keys() != {"True", "False"} or None in words:
        return y
    return classes[[indices[word] for word in words]]


def _find_target(model: Predictor, table: Table) -> str | None:
    """Return the name of the column with the model's target, or None for separate labels.

    Raises InputError if the table has neither that column nor separate labels. If the model file
    does not have the name, a column is guessed.
    """
    # Model files of versions before the name was saved do not have it.
    name, columns = vars(model).get("target_name_"), table.names or ()
    if name in columns:
        return str(name)
    if table.target is not None:
        return None
    if name is not None:
        raise InputError(
            f"{table.source} has no column {name!r}, the target that the model was fitted to; it "
            f"has {', '.join(columns[:10]) or 'no names'}. Name the labels with --target."
        )
    # A single column that the model does not use must be the labels.
    others = [column for column in columns if column not in input_names(model)]
    if len(others) == 1 and input_names(model):
        return others[0]
    guess = table.target_name(None)
    LOGGER.info(
        "%s", f"the model does not name its target; taking {guess!r} (--target names another)"
    )
    return guess


def _check_known_labels(model: Classifier, table: Table, y: AnyArray, name: str | None) -> None:
    """Raise InputError if no label is among the model's classes; warn if some are not."""
    is_unknown = class_numbers(y, model.classes_) < 0
    if not is_unknown.any():
        return
    column = f"the labels in column {name!r}" if name else "the labels"
    unknown = ", ".join(repr(label) for label in np.unique(y[is_unknown])[:10].tolist())
    known = ", ".join(repr(label) for label in model.classes_[:10].tolist())
    if is_unknown.all():
        raise InputError(
            f"{table.source}: the model knows none of {column}: they are {unknown}, and the "
            f"model was fitted to {known}. Spell them as in the training table, or name another "
            "column with --target."
        )
    warnings.warn(
        f"{table.source}: the model does not know {is_unknown.mean():.1%} of {column} "
        f"({unknown}); it was fitted to {known}. These rows count as wrong.",
        stacklevel=2,
    )


def load_predictor(path: Path, n_jobs: int | None) -> Predictor:
    """Load a model that predicts; if ``n_jobs`` is None, the model keeps its setting."""
    model = load(path)
    if not isinstance(model, (KernelMachine, StreamedMachine)):
        raise InputError(f"{path} holds a {type(model).__name__}, which predicts nothing.")
    if isinstance(model, StreamedMachine):
        # Columns are already matched by name; scikit-learn would warn of arrays without names.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
    if n_jobs is not None:
        model.n_jobs = n_jobs
        if isinstance(model, KernelMachine):
            model.features_.n_jobs = n_jobs
    return model


def read_for(
    model: Predictor, path: Path, part: str, limits: str = "", text: Sequence[str] = ()
) -> Table:
    """Read a table with the model's categorical columns and those in ``text`` as text."""
    encoder = encoder_of(model)
    categorical = () if encoder is None else encoder.categorical
    return read_data(
        path,
        part=part,
        categorical=list(dict.fromkeys([*categorical, *text])),
        n_features=model.n_features_in_ if encoder is None else None,
        limits=limits,
    )


def labelled_rows(
    model: Predictor, path: Path, target: str | None, part: str, limits: str
) -> tuple[Matrix | Table, AnyArray, str | None]:
    table = read_for(model, path, part, limits)
    y, name = labels_for(model, table, target)
    return rows_for(model, table, name), y, name
