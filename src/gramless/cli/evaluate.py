"""``gramless evaluate``: how well a model predicts a table whose labels are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from typer import Option

from gramless.base.errors import InputError
from gramless.cli import options
from gramless.cli.outputs import Output, check_outputs
from gramless.cli.report import facts, listing, reporting

if TYPE_CHECKING:
    from gramless.base.state import Json


def evaluate(
    model: options.ModelFile,
    data: options.DataFile,
    target: options.KnownTarget = None,
    part: options.PartOption = "auto",
    picture: Annotated[
        Path | None,
        Option(metavar=options.PICTURE, help="Draw the predictions; classes need probabilities."),
    ] = None,
    force: options.Force = False,
    limits: options.Limits = "",
    n_jobs: options.Jobs = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Compare predictions with known labels.

    Regression: RMSE, also relative to the standard deviation of the labels,
    mean absolute error and R2. Classification: error, accuracy, balanced
    accuracy, and precision and recall of each class; log loss, Brier score and
    reliability of the probabilities where the model has them. Labels are the column
    that the model was fitted to, unless --target names another. --picture draws predicted
    against true numbers, or how often the model was right against how sure it was.
    """
    with reporting(as_json, debug) as report:
        inputs = {"the model": model, "the data": data}
        check_outputs([Output("--picture", picture, "picture")], inputs, force)
        with report.stage("read", f"reading {data}"):
            from gramless.cli.reading import labelled_rows, load_predictor

            predictor = load_predictor(model, n_jobs)
            if picture is not None:
                _check_picture(picture, predictor)
            X, y, _ = labelled_rows(predictor, data, target, part, limits)
        with report.stage("predict", "predicting"):
            from sklearn.base import is_classifier

            from gramless.cli.metrics import class_metrics, has_probabilities, regression_metrics

            predicted, told = predictor.predict(X), None
            if has_probabilities(predictor):
                told = predictor.predict_proba(X)
        if is_classifier(predictor):
            found = class_metrics(predictor, y, predicted, told)
            tables = _class_tables(found)
        else:
            found = regression_metrics(y, predicted)
            tables = [facts(found)]
        document = {"model": model, "data": data, "rows": len(y), "seconds": report.seconds}
        if picture is not None:
            from gramless.cli.figures import draw_predictions, draw_reliability

            if "reliability" in found:
                report.draw(picture, draw_reliability, found)
            else:
                report.draw(picture, draw_predictions, y, predicted, found)
            document["picture"] = picture
        report.result(document | found, facts({"rows": len(y), "picture": picture}), *tables)


def _check_picture(picture: Path, predictor: object) -> None:
    """Refuse before any work what could not be drawn or written."""
    from sklearn.base import is_classifier

    from gramless.cli.metrics import has_probabilities
    from gramless.inspection.pictures import check_picture

    check_picture(picture)
    if is_classifier(predictor) and not has_probabilities(predictor):
        raise InputError(
            f"--picture {picture} draws how reliable probabilities are, and this classifier has "
            "none: fit it with calibrate=True or the logistic loss."
        )


def _class_tables(found: dict[str, Json]) -> list[Table]:
    """Return the metrics of classes and, where there are any, of probabilities."""
    shares = ("error", "accuracy", "balanced_accuracy")
    tables = [facts({name.replace("_", " "): f"{found[name]:.2%}" for name in shares})]
    rows = [
        (
            str(own["class"]),
            own["rows"],
            *(f"{own[key]:.3f}" for key in ("precision", "recall", "f1")),
        )
        for own in found["classes"]
    ]
    tables.append(listing("Classes", ["class", "rows", "precision", "recall", "F1"], rows))
    if "confusion" in found:
        names = [row[0] for row in rows]
        cells = [[name, *row] for name, row in zip(names, found["confusion"], strict=True)]
        tables.append(listing("Confusion: true class by predicted class", ["", *names], cells))
    if "reliability" in found:
        tables.append(facts({"log loss": found["log_loss"], "Brier score": found["brier"]}))
        parts = [
            (own["rows"], f"{own['predicted']:.3f}", f"{own['observed']:.3f}")
            for own in found["reliability"]
        ]
        columns = ["rows", "said", "right"]
        tables.append(listing("Reliability of the predicted class", columns, parts))
    return tables
