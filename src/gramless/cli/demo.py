"""``gramless demo``: a first model on handwritten digits, beside two well-known methods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gramless.base.formatting import sized
from gramless.cli.options import AsJson, Debug, Jobs
from gramless.cli.report import Report, facts, listing, number, reporting
from gramless.cli.summaries import bandwidth_of, features_of, relevance_of

if TYPE_CHECKING:
    from gramless.cli.demo_methods import Digits, Entry

Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where files go.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the split and of every method.")]


def demo(
    out: Out = Path("out/demo"),
    seed: Seed = 0,
    n_jobs: Jobs = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Fit handwritten digits with defaults and show what comes out.

    Needs no network: the 1,797 digits of scikit-learn, a fifth of them for the
    test. The exact kernel machine and random Fourier features get the same
    rows. Writes the model and a picture.
    """
    with reporting(as_json, debug) as report:
        out.mkdir(parents=True, exist_ok=True)
        with report.stage("load", "loading"):
            from gramless.cli import demo_methods

            digits = demo_methods.load_digits(seed)
            contest = demo_methods.Contest(digits, seed, n_jobs)
        with report.stage("compile", "compiling (once an installation)"):
            compiling = contest.compile_loops()
        entries = []
        for name, enter in contest.methods().items():
            with report.stage(name, f"fitting {name}"):
                entries.append(enter())
        with report.stage("save", "saving"):
            from gramless import save

            model = out / "model.gramless"
            save(entries[0].model, model)
            entries[0].n_bytes = model.stat().st_size
        picture = out / "demo.png"
        with report.stage("draw", "drawing"):
            from gramless.cli.figures import draw_demo

            draw_demo(picture, digits, entries)
        _report_result(report, digits, entries, compiling, model, picture)


def _report_result(
    report: Report,
    digits: Digits,
    entries: list[Entry],
    compiling: float,
    model: Path,
    picture: Path,
) -> None:
    rows = [
        [
            entry.name,
            f"{entry.error:.2%}",
            f"{entry.fit_seconds:.2f}",
            f"{entry.predict_seconds:.3f}",
            sized(entry.n_bytes),
        ]
        for entry in entries
    ]
    sizes = f"{len(digits.y_train):,} digits to learn from, {len(digits.y_test):,} to judge"
    columns = ["method", "test error", "fit s", "predict s", "size"]
    fitted = entries[0].model
    own = {
        "chosen": f"{fitted.scaler_.kind} scaling, bandwidth {bandwidth_of(fitted)}, "
        f"{relevance_of(fitted)} relevance of pixels, alpha {number(fitted.alpha_)}; "
        f"{len(fitted.search_)} trials",
        "features": features_of(fitted),
        "solver": f"{fitted.status_} after {fitted.n_iter_} iterations",
        "compiling": f"{compiling:.1f} s; only the first run of an installation compiles",
        "rivals": "; ".join(f"{entry.name}: {entry.chosen}" for entry in entries[1:]),
        "model": model,
        "picture": picture,
    }
    document = {
        "training_rows": len(digits.y_train),
        "test_rows": len(digits.y_test),
        "compile_seconds": compiling,
        "methods": [entry.as_dict() for entry in entries],
        "model": model,
        "picture": picture,
    }
    report.result(document, listing(sizes, columns, rows), facts(own))
