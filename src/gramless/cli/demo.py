"""``gramless demo``: a first model on handwritten digits, beside two well-known methods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from gramless.base.formatting import sized
from gramless.cli import options
from gramless.cli.report import facts, listing, reporting
from gramless.cli.summaries import choices_of


def demo(
    out: Annotated[Path, Option(metavar="FOLDER", help="Where files go.")] = Path("out/demo"),
    seed: Annotated[int, Option(min=0, help="Seed of the split and of every method.")] = 0,
    n_jobs: options.Jobs = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Fit handwritten digits with defaults and show what comes out.

    Needs no network: the 1,797 digits of scikit-learn, a fifth of them for the
    test. The exact kernel machine and random Fourier features get the same
    rows. Writes the model and a picture.
    """
    model, picture = out / "model.gramless", out / "demo.png"
    with reporting(as_json, debug) as report:
        out.mkdir(parents=True, exist_ok=True)
        with report.stage("load", "loading"):
            from gramless import save
            from gramless.cli import demo_methods
            from gramless.cli.figures import draw_demo

            digits = demo_methods.load_digits(seed)
            contest = demo_methods.Contest(digits, seed, n_jobs)
        with report.stage("compile", "compiling (once an installation)"):
            compiling = contest.compile_loops()
        entries = []
        for name, enter in contest.methods().items():
            with report.stage(name, f"fitting {name}"):
                entries.append(enter())
        with report.stage("save", "saving"):
            save(entries[0].model, model)
            entries[0].n_bytes = model.stat().st_size
        report.draw(picture, draw_demo, digits, entries)
        files = {"model": model, "picture": picture}
        document = {
            "training_rows": len(digits.y_train),
            "test_rows": len(digits.y_test),
            "compile_seconds": compiling,
            "methods": [entry.as_dict() for entry in entries],
            **files,
        }
        rows = [
            (one.name, f"{one.error:.2%}", one.fit_seconds, one.predict_seconds, sized(one.n_bytes))
            for one in entries
        ]
        sizes = f"{len(digits.y_train):,} digits to learn from, {len(digits.y_test):,} to judge"
        own = {
            **choices_of(entries[0].model),
            "compiling": f"{compiling:.1f} s; only the first run of an installation compiles",
            "rivals": "; ".join(f"{entry.name}: {entry.chosen}" for entry in entries[1:]),
            **files,
        }
        columns = ["method", "test error", "fit s", "predict s", "size"]
        report.result(document, listing(sizes, columns, rows), facts(own))
