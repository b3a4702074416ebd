"""The commands of the command line, which import heavy packages only when they run."""

from __future__ import annotations

from typing import Annotated

import typer

import gramless
from gramless.cli.anomalies import anomalies
from gramless.cli.compare_tables import compare_tables
from gramless.cli.demo import demo
from gramless.cli.evaluate import evaluate
from gramless.cli.explain import explain
from gramless.cli.fit import fit
from gramless.cli.inspect import inspect
from gramless.cli.options import AsJson, Debug, Jobs
from gramless.cli.predict import predict
from gramless.cli.report import facts_table, open_report
from gramless.cli.stream import stream

app = typer.Typer(
    name="gramless",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def warmup(n_jobs: Jobs = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Compile the loops of fits and predictions, which takes about ten seconds per installation."""
    with open_report(as_json, debug) as report:
        with report.stage("warmup", "compiling"):
            gramless.warmup(n_jobs=n_jobs)
        report.print_result(
            {"seconds": report.seconds},
            facts_table({"seconds": f"{sum(report.seconds.values()):.1f}"}),
        )


for _command in (
    demo,
    fit,
    stream,
    predict,
    evaluate,
    inspect,
    explain,
    anomalies,
    compare_tables,
    warmup,
):
    app.command()(_command)


def _show_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"gramless {gramless.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Kernel machines without the Gram matrix.

    Start with: gramless demo
    """
