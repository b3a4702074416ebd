"""``gramless warmup``: compile the loops ahead of their first use."""

from __future__ import annotations

from gramless.cli.options import AsJson, Debug, Jobs
from gramless.cli.report import facts, reporting


def warmup(n_jobs: Jobs = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Compile the loops of fits and predictions, which takes about ten seconds per installation."""
    with reporting(as_json, debug) as report:
        with report.stage("warmup", "compiling"):
            from gramless import warmup as compile_ahead

            compile_ahead(n_jobs=n_jobs)
        report.result(
            {"seconds": report.seconds}, facts({"seconds": f"{sum(report.seconds.values()):.1f}"})
        )
