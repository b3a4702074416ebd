"""``gramless predict``: predict the rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from gramless.base.errors import InputError
from gramless.cli import options
from gramless.cli.outputs import Output, check_outputs
from gramless.cli.report import open_report

if TYPE_CHECKING:
    from gramless.base.types import AnyArray, TableLike
    from gramless.cli.reading import Predictor


Scores = Annotated[bool, Option("--scores", help="Add the decision function of each class.")]
Probabilities = Annotated[
    bool, Option("--probabilities", help="Add the probability of each class.")
]
Interval = Annotated[
    float | None,
    Option(
        metavar="COVERAGE",
        callback=options.check_inner_share,
        help="Add the bounds of intervals that contain this share of the targets, such as 0.9.",
    ),
]
Set = Annotated[
    float | None,
    Option(
        "--set",
        metavar="COVERAGE",
        callback=options.check_inner_share,
        help="Add a column per class: 1 if it is in the prediction set, which contains the true "
        "class with this probability.",
    ),
]


def predict(
    model: options.ModelFile,
    data: options.DataFile,
    output: options.Output = None,
    force: options.Force = False,
    ids: options.Ids = None,
    scores: Scores = False,
    probabilities: Probabilities = False,
    interval: Interval = None,
    set_coverage: Set = None,
    part: options.PartOption = "auto",
    limits: options.Limits = "",
    n_jobs: options.Jobs = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Predict every row of a table, and write the predictions as CSV.

    Columns are matched to those of the fit by name; other columns are ignored.
    """
    kept = options.split_names(ids, "--id")
    with open_report(as_json, debug) as report:
        inputs = {"the model": model, "the data itself": data}
        check_outputs([Output("-o", output, "table")], inputs, force)
        with report.stage("read", f"reading {data}"):
            from gramless.cli.reading import load_predictor, read_for, rows_for, with_ids

            predictor = load_predictor(model, n_jobs)
            table = read_for(predictor, data, part, limits, kept)
            X = rows_for(predictor, table)
        with report.stage("predict", "predicting"):
            columns = _predict_columns(predictor, X, scores, probabilities, interval, set_coverage)
        summary = {"rows": len(columns["prediction"])}
        columns = with_ids(table, kept, columns)
        report.write_rows(columns, output, summary | {"seconds": report.seconds}, summary)


def _predict_columns(
    model: Predictor,
    X: TableLike,
    scores: bool,
    probabilities: bool,
    interval: float | None,
    set_coverage: float | None,
) -> dict[str, AnyArray]:
    from gramless import KernelClassifier, KernelRegressor
    from gramless.cli.metrics import Classifier

    columns: dict[str, AnyArray] = {}
    if not scores:
        columns["prediction"] = model.predict(X)
    elif not isinstance(model, Classifier):
        raise InputError("--scores is for classifiers; this model is a regressor.")
    else:
        responses = model.decision_function(X)
        if responses.ndim == 1:
            columns["prediction"] = model.classes_[(responses > 0).astype(int)]
            columns[f"score_{model.classes_[1]}"] = responses
        else:
            columns["prediction"] = model.classes_[responses.argmax(axis=1)]
            columns |= {f"score_{c}": responses[:, k] for k, c in enumerate(model.classes_)}
    if probabilities:
        if not isinstance(model, Classifier):
            raise InputError("--probabilities is for classifiers; this model is a regressor.")
        try:
            shares = model.predict_proba(X)
        except AttributeError as error:
            raise InputError(f"--probabilities: {error}") from error
        columns |= {f"probability_{c}": shares[:, k] for k, c in enumerate(model.classes_)}
    kind = type(model).__name__
    if interval is not None:
        if not isinstance(model, KernelRegressor):
            raise InputError(f"--interval is for a KernelRegressor; this is a {kind}.")
        columns["lower"], columns["upper"] = model.predict_interval(X, interval)
    if set_coverage is not None:
        if not isinstance(model, KernelClassifier):
            raise InputError(f"--set is for a KernelClassifier; this is a {kind}.")
        is_in_set = model.predict_set(X, set_coverage).astype(int)
        columns |= {f"in_set_{c}": is_in_set[:, k] for k, c in enumerate(model.classes_)}
    return columns
