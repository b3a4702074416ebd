"""``gramless evaluate``: how well a model predicts a table whose labels are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table

from gramless.base.errors import InputError
from gramless.cli.options import (
    AsJson,
    DataFile,
    Debug,
    Jobs,
    Limits,
    ModelFile,
    PartOption,
    Target,
    picture_option,
)
from gramless.cli.reading import labels_for, load_predictor, read_for, rows_for
from gramless.cli.report import facts, listing, number, reporting

if TYPE_CHECKING:
    from gramless.base.types import AnyArray

Picture = Annotated[
    Path | None, picture_option("Draw the predictions; classes need probabilities.")
]


def evaluate(
    model: ModelFile,
    data: DataFile,
    target: Target = None,
    part: PartOption = "auto",
    picture: Picture = None,
    limits: Limits = "",
    n_jobs: Jobs = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Compare predictions with known labels.

    Regression: RMSE, also relative to the standard deviation of the labels,
    mean absolute error and R2. Classification: error, accuracy, balanced
    accuracy, and precision and recall of each class; log loss, Brier score and
    reliability of the probabilities where the model has them. Without --target, the one
    column that is no input of the model holds the labels. --picture draws predicted
    against true numbers, or how often the model was right against how sure it was.
    """
    with reporting(as_json, debug) as report:
        with report.stage("read", f"reading {data}"):
            predictor = load_predictor(model, n_jobs)
            if picture is not None:
                _check_picture(picture, predictor)
            table = read_for(predictor, data, part, limits)
            y, name = labels_for(predictor, table, target)
            X = rows_for(predictor, table, name)
        with report.stage("predict", "predicting"):
            from sklearn.base import is_classifier

            from gramless.cli.metrics import class_metrics, regression_metrics

            predicted = predictor.predict(X)
        document = {"model": model, "data": data, "rows": len(y), "seconds": report.seconds}
        if is_classifier(predictor):
            found = class_metrics(predictor, X, y, predicted)
            tables = _classification_tables(found)
            if "reliability" in found:
                tables += _probability_tables(found)
        else:
            found = regression_metrics(y, predicted)
            tables = [facts({key: number(found[key]) for key in found})]
        if picture is not None:
            with report.stage("draw", "drawing"):
                _draw(picture, y, predicted, found)
            document["picture"] = picture
        head = {"rows": f"{len(y):,}", "picture": picture}
        report.result(document | found, facts(head), *tables)


def _check_picture(picture: Path, predictor: object) -> None:
    """Refuse before any work what could not be drawn or written."""
    from sklearn.base import is_classifier

    from gramless.cli.metrics import has_probabilities
    from gramless.inspection.pictures import check_picture

    check_picture(picture)
    if is_classifier(predictor) and not has_probabilities(predictor):
        raise InputError(
            f"--picture {picture} draws how reliable probabilities are, and this classifier has "
            "none: fit it with --loss logistic, or leave bandwidth or alpha open."
        )


def _draw(picture: Path, y: AnyArray, predicted: AnyArray, found: dict[str, Any]) -> None:
    from gramless.cli.figures import draw_predictions, draw_reliability
    from gramless.inspection.pictures import write_picture

    reliable = "reliability" in found
    figure = draw_reliability(found) if reliable else draw_predictions(y, predicted, found)
    write_picture(figure, picture)


def _classification_tables(found: dict[str, Any]) -> list[Table]:
    summary = facts(
        {
            "error": f"{found['error']:.2%}",
            "accuracy": f"{found['accuracy']:.2%}",
            "balanced accuracy": f"{found['balanced_accuracy']:.2%}",
        }
    )
    rows = [
        [c["class"], f"{c['rows']:,}", *(f"{c[key]:.3f}" for key in ("precision", "recall", "f1"))]
        for c in found["classes"]
    ]
    tables = [summary, listing("Classes", ["class", "rows", "precision", "recall", "F1"], rows)]
    if "confusion" in found:
        names = [str(c["class"]) for c in found["classes"]]
        cells = [[name, *row] for name, row in zip(names, found["confusion"], strict=True)]
        tables.append(listing("Confusion: true class by predicted class", ["", *names], cells))
    return tables


def _probability_tables(found: dict[str, Any]) -> list[Table]:
    rows = [
        [f"{part['rows']:,}", f"{part['predicted']:.3f}", f"{part['observed']:.3f}"]
        for part in found["reliability"]
    ]
    return [
        facts({"log loss": number(found["log_loss"]), "Brier score": number(found["brier"])}),
        listing("Reliability of the predicted class", ["rows", "said", "right"], rows),
    ]
