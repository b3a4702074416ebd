"""``gramless demo``: a first regressor and classifier, compared with well-known methods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from gramless.base.formatting import format_bytes
from gramless.cli import options
from gramless.cli.outputs import Output, check_outputs
from gramless.cli.report import Report, facts_table, open_report, titled_table

if TYPE_CHECKING:
    from gramless.cli.demo_methods import Digits, Entry, Photograph


def demo(
    out: Annotated[Path, Option(metavar="FOLDER", help="Folder for the files.")] = Path("out/demo"),
    seed: Annotated[int, Option(min=0, help="Seed of the splits and of every method.")] = 0,
    force: options.Force = False,
    n_jobs: options.Jobs = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Fit default models to a photograph and to handwritten digits, and show the results.

    Needs no network; the data come with scikit-learn. A regressor learns the
    colours of a photograph from a tenth of its 273,280 pixels. A classifier
    learns 1,437 digits and predicts 360 others, in five splits. Other methods
    get the same rows. Writes both models and two pictures.
    """
    files = {
        "photograph_model": out / "photograph.gramless",
        "photograph_picture": out / "photograph.png",
        "digits_model": out / "digits.gramless",
        "digits_picture": out / "digits.png",
    }
    with open_report(as_json, debug) as report:
        out.mkdir(parents=True, exist_ok=True)
        outputs = [
            Output("--out", path, "picture" if path.suffix == ".png" else "model")
            for path in files.values()
        ]
        check_outputs(outputs, {}, force)
        with report.stage("load", "loading"):
            from gramless import warmup
            from gramless.cli import demo_methods
            from gramless.cli.figures import draw_digits, draw_photograph

            photograph, splits = demo_methods.load_photograph(seed), demo_methods.load_digits(seed)
        with report.stage("compile", "compiling (once per installation)"):
            warmup(n_jobs=n_jobs)
        methods = demo_methods.photograph_methods(photograph, seed, n_jobs)
        colour_entries = _evaluate_methods(report, methods, files["photograph_model"])
        methods = demo_methods.digits_methods(splits, seed, n_jobs)
        digit_entries = _evaluate_methods(report, methods, files["digits_model"])
        report.draw(files["photograph_picture"], draw_photograph, photograph, colour_entries)
        report.draw(files["digits_picture"], draw_digits, splits[-1], digit_entries)
        _report_result(report, photograph, colour_entries, splits, digit_entries, files)


def _evaluate_methods(
    report: Report, methods: dict[str, Callable[[], Entry]], file: Path
) -> list[Entry]:
    """Fit and evaluate each method; save the model of the first one, which is ours."""
    from gramless import save

    entries = []
    for name, evaluate in methods.items():
        with report.stage(name, f"fitting {name}"):
            entries.append(evaluate())
    save(entries[0].model, file)
    entries[0].n_bytes = file.stat().st_size
    return entries


def _report_result(
    report: Report,
    photograph: Photograph,
    colour_entries: list[Entry],
    splits: list[Digits],
    digit_entries: list[Entry],
    files: dict[str, Path],
) -> None:
    split = splits[-1]
    document = {
        "photograph": {
            "known_pixels": len(photograph.known),
            "predicted_pixels": len(photograph.unknown),
            "methods": [{**entry.as_dict(), "psnr": entry.psnr} for entry in colour_entries],
        },
        "digits": {
            "training_rows": len(split.y_train),
            "test_rows": len(split.y_test),
            "splits": len(splits),
            "methods": [entry.as_dict() for entry in digit_entries],
        },
        "compile_seconds": report.seconds["compile"],
        **files,
    }
    colour_rows = [
        (entry.name, f"{entry.psnr:.2f}", entry.fit_seconds, entry.predict_seconds)
        for entry in colour_entries
    ]
    digit_rows = []
    for entry in digit_entries:
        costs = entry.fit_seconds, entry.predict_seconds, format_bytes(entry.n_bytes or 0)
        digit_rows.append((entry.name, f"{entry.error:.2%}", *costs))
    report.print_result(
        document,
        titled_table(
            f"a photograph: {len(photograph.known):,} pixels known, "
            f"{len(photograph.unknown):,} predicted",
            ["method", "PSNR, dB", "fit s", "predict s"],
            colour_rows,
        ),
        facts_table(_fact_lines(colour_entries)),
        titled_table(
            f"{len(split.y_train):,} training digits, {len(split.y_test):,} test digits; "
            f"means of {len(splits)} splits",
            ["method", "test error", "fit s", "predict s", "size"],
            digit_rows,
        ),
        facts_table(_fact_lines(digit_entries)),
        facts_table(
            {
                "compiling": f"{report.seconds['compile']:.1f} s, once per installation",
                **{name.replace("_", " "): path for name, path in files.items()},
            }
        ),
    )


def _fact_lines(entries: list[Entry]) -> dict[str, object]:
    from gramless.cli.summaries import choices_of

    others = "; ".join(f"{entry.name}: {entry.chosen}" for entry in entries[1:])
    return {
        **choices_of(entries[0].model),
        "file": format_bytes(entries[0].n_bytes or 0),
        "other methods": others,
    }
