"""``gramless evaluate``: measure how well a model predicts a table with known labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from typer import Option

from gramless.base.errors import InputError
from gramless.cli import options
from gramless.cli.outputs import Output, check_outputs
from gramless.cli.report import facts_table, open_report, titled_table

if TYPE_CHECKING:
    from gramless.base.state import Json


def evaluate(
    model: options.ModelFile,
    data: options.DataFile,
    target: options.KnownTarget = None,
    part: options.PartOption = "auto",
    picture: Annotated[
        Path | None,
        Option(
            metavar=options.PICTURE,
            help="Draw the predictions into this file. Classifiers must have probabilities.",
        ),
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
    reliability if the model predicts probabilities. By default, labels are read
    from the target column used in training, or are the separate labels of the
    file; --target names another column. --picture draws predicted against true
    numbers or, for classes, accuracy against predicted probability.
    """
    with open_report(as_json, debug) as report:
        inputs = {"the model": model, "the data": data}
        check_outputs([Output("--picture", picture, "picture")], inputs, force)
        with report.stage("read", f"reading {data}"):
            from sklearn.base import is_classifier

            from gramless.cli.metrics import class_metrics, has_probabilities, regression_metrics
            from gramless.cli.reading import labelled_rows, load_predictor

            predictor = load_predictor(model, n_jobs)
            # Fail early, before the data are read, if the picture cannot be drawn.
            if picture is not None:
                from gramless.inspection.pictures import check_picture

                check_picture(picture)
                if is_classifier(predictor) and not has_probabilities(predictor):
                    raise InputError(
                        f"--picture {picture} draws how reliable probabilities are, but this "
                        "classifier does not predict probabilities: fit it with calibrate=True "
                        "or the logistic loss."
                    )
            X, y, _ = labelled_rows(predictor, data, target, part, limits)
        with report.stage("predict", "predicting"):
            predicted, probabilities = predictor.predict(X), None
            if has_probabilities(predictor):
                probabilities = predictor.predict_proba(X)
        if is_classifier(predictor):
            metrics = class_metrics(predictor, y, predicted, probabilities)
            tables = _class_tables(metrics)
        else:
            metrics = regression_metrics(y, predicted)
            tables = [facts_table(metrics)]
        document = {"model": model, "data": data, "rows": len(y), "seconds": report.seconds}
        if picture is not None:
            from gramless.cli.figures import draw_predictions, draw_reliability

            if "reliability" in metrics:
                report.draw(picture, draw_reliability, metrics)
            else:
                report.draw(picture, draw_predictions, y, predicted, metrics)
            document["picture"] = picture
        report.print_result(
            document | metrics, facts_table({"rows": len(y), "picture": picture}), *tables
        )


def _class_tables(metrics: dict[str, Json]) -> list[Table]:
    shares = ("error", "accuracy", "balanced_accuracy")
    tables = [facts_table({name.replace("_", " "): f"{metrics[name]:.2%}" for name in shares})]
    rows = [
        (
            str(metrics_of_class["class"]),
            metrics_of_class["rows"],
            *(f"{metrics_of_class[key]:.3f}" for key in ("precision", "recall", "f1")),
        )
        for metrics_of_class in metrics["classes"]
    ]
    tables.append(titled_table("Classes", ["class", "rows", "precision", "recall", "F1"], rows))
    if "confusion" in metrics:
        names = [row[0] for row in rows]
        cells = [[name, *row] for name, row in zip(names, metrics["confusion"], strict=True)]
        tables.append(titled_table("Confusion: true class by predicted class", ["", *names], cells))
    if "reliability" in metrics:
        tables.append(
            facts_table({"log loss": metrics["log_loss"], "Brier score": metrics["brier"]})
        )
        bins = [
            (tenth["rows"], f"{tenth['predicted']:.3f}", f"{tenth['observed']:.3f}")
            for tenth in metrics["reliability"]
        ]
        columns = ["rows", "mean probability", "share correct"]
        tables.append(titled_table("Reliability of the predicted class", columns, bins))
    return tables
