"""``gramless predict``: a model and a table in, predictions out."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

from typer import Option

from gramless.base.errors import InputError
from gramless.cli import options
from gramless.cli.reading import load_predictor, read_for, rows_for
from gramless.cli.report import facts, reporting

if TYPE_CHECKING:
    from gramless.base.types import AnyArray, TableLike
    from gramless.cli.reading import Predictor


def predict(
    model: options.ModelFile,
    data: options.DataFile,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="OUT.csv", help="By default they go to stdout."),
    ] = None,
    scores: Annotated[bool, Option("--scores", help="Add the responses of each class.")] = False,
    probabilities: Annotated[
        bool, Option("--probabilities", help="Add the probability of each class.")
    ] = False,
    part: options.PartOption = "auto",
    limits: options.Limits = "",
    n_jobs: options.Jobs = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Predict every row of a table, as CSV.

    Columns are matched to those of fit by name; further ones are ignored.
    """
    with reporting(as_json, debug) as report:
        if output is not None and output.exists() and output.samefile(data):
            raise InputError(f"-o {output} is the data itself; name another file.")
        with report.stage("read", f"reading {data}"):
            predictor = load_predictor(model, n_jobs)
            X = rows_for(predictor, read_for(predictor, data, part, limits))
        with report.stage("predict", "predicting"):
            columns = _columns(predictor, X, scores)
            if probabilities:
                columns |= _probabilities(predictor, X)
        n_rows = len(columns["prediction"])
        document: dict[str, object] = {"rows": n_rows, "seconds": report.seconds}
        if output is not None:
            with open(output, "w", encoding="utf-8", newline="") as file:
                _write(file, columns)
            document["output"] = output
            report.result(document, facts({"rows": n_rows, "output": output}))
        elif as_json:
            report.result(document | columns)
        else:
            _write(sys.stdout, columns)


def _columns(model: Predictor, X: TableLike, scores: bool) -> dict[str, AnyArray]:
    """Return the columns to write by name."""
    from gramless.cli.metrics import Classifier

    if not scores:
        return {"prediction": model.predict(X)}
    if not isinstance(model, Classifier):
        raise InputError("--scores is for classifiers; this model is a regressor.")
    responses = model.decision_function(X)
    if responses.ndim == 1:
        labels = model.classes_[(responses > 0).astype(int)]
        return {"prediction": labels, f"score_{model.classes_[1]}": responses}
    by_class = {f"score_{c}": responses[:, k] for k, c in enumerate(model.classes_)}
    return {"prediction": model.classes_[responses.argmax(axis=1)], **by_class}


def _probabilities(model: Predictor, X: TableLike) -> dict[str, AnyArray]:
    from gramless.cli.metrics import Classifier, has_probabilities

    if not isinstance(model, Classifier) or not has_probabilities(model):
        raise InputError("--probabilities needs a classifier fitted with --loss logistic.")
    found = model.predict_proba(X)
    return {f"probability_{c}": found[:, k] for k, c in enumerate(model.classes_)}


def _write(file: IO[str], columns: dict[str, AnyArray]) -> None:
    flat: dict[str, AnyArray] = {}
    for name, values in columns.items():
        if values.ndim == 1:
            flat[name] = values
        else:
            flat |= {f"{name}_{k + 1}": own for k, own in enumerate(values.T)}
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(flat)
    writer.writerows(zip(*(values.tolist() for values in flat.values()), strict=True))
