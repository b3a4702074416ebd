"""``python -m studies``: reproduce the figures and tables of the papers."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gramless.base.errors import InputError
from gramless.base.formatting import format_duration
from gramless.cli.options import AsJson, Debug, split_names
from gramless.cli.report import Report, facts_table, open_report, titled_table

if TYPE_CHECKING:
    from studies.records import Store
    from studies.runner import Finished, Plan
    from studies.study import Job, Study

MINUTES = 480.0
_ALL = "all"
_FOLDER = Path("out/papers")

Paper = Annotated[
    str | None,
    typer.Argument(
        metavar="[PAPER]", help="rr07, rb16, dsg16 or all; without it, all studies are listed."
    ),
]
Figures = Annotated[
    str | None,
    typer.Option("--figure", metavar="3,5,...", help="Figures of it.", show_default=False),
]
Tables = Annotated[
    str | None,
    typer.Option("--table", metavar="1,...", help="Tables of it.", show_default=False),
]
Studies = Annotated[
    str | None,
    typer.Option(
        "--study",
        metavar="A,B,...",
        help="Studies by name, such as logs or beyond; by default all.",
        show_default=False,
    ),
]
Budget = Annotated[
    float,
    typer.Option(
        metavar="MINUTES",
        min=0.0,
        help="For all studies together; each has its share of it. inf runs every job.",
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="FOLDER",
        help="Of the data sets; by default GRAMLESS_DATA, else the cache folder.",
        show_default=False,
    ),
]
Out = Annotated[
    Path,
    typer.Option(metavar="FOLDER", help="For the report, and records/: what was measured."),
]
Again = Annotated[bool, typer.Option("--again", help="Also run what is measured already.")]


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def paper(
    name: Paper = None,
    figure: Figures = None,
    table: Tables = None,
    study: Studies = None,
    budget: Budget = MINUTES,
    data_dir: DataFolder = None,
    out: Out = _FOLDER,
    again: Again = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run the figures and tables of a paper again, and show them beside the paper's.

    Each fit runs in a process of its own and is kept as it ends: a run that is
    interrupted goes on where it was. Each study has a budget; jobs beyond it
    are not run, and the report says so.
    """
    with open_report(as_json, debug) as report:
        if name is None:
            _list_studies(report)
        else:
            selected = _select_studies(name, figure, table, study)
            _run(report, selected, 60.0 * budget, data_dir, out, again)


def _list_studies(report: Report) -> None:
    from studies.catalogue import PAPERS, studies
    from studies.results import command

    by_paper = {paper: studies(paper) for paper in PAPERS}
    document = {
        "papers": [
            {
                "name": paper,
                "title": title,
                "studies": [
                    {"name": one.name, "title": one.title, "minutes": one.minutes}
                    for one in by_paper[paper]
                ],
            }
            for paper, title in PAPERS.items()
        ]
    }
    tables = []
    for paper, title in PAPERS.items():
        rows = [[one.name, command(one), f"{one.minutes:g}", one.title] for one in by_paper[paper]]
        table = titled_table(f"{paper}: {title}", ["study", "command", "minutes", "what"], rows)
        for column in table.columns[1:]:
            column.justify = "left"
        tables.append(table)
    report.print_result(document, *tables)


def _select_studies(
    paper: str, figures: str | None, tables: str | None, others: str | None
) -> list[Study]:
    """Return the named studies of a paper, or all of them if none is named."""
    from studies.catalogue import PAPERS, studies

    papers = list(PAPERS) if paper == _ALL else [paper]
    known = [study for one in papers for study in studies(one)]
    requested = [
        *(f"figure-{name}" for name in split_names(figures, "--figure")),
        *(f"table-{name}" for name in split_names(tables, "--table")),
        *split_names(others, "--study"),
    ]
    available = list(dict.fromkeys(study.name for study in known))
    for name in requested:
        if name not in available:
            raise InputError(f"{paper} has no study {name!r}; it has {', '.join(available)}.")
    return [study for study in known if not requested or study.name in requested]


def _run(
    report: Report,
    selected: list[Study],
    budget: float,
    data_dir: Path | None,
    out: Path,
    again: bool,
) -> None:
    from studies import runner
    from studies.comparisons import headline, mark_repeated
    from studies.process import commit
    from studies.records import Store

    out.mkdir(parents=True, exist_ok=True)
    store = Store(out / "records")
    known = set() if again else runner.known_keys(selected, store)
    todo = runner.plan(selected, known, budget, runner.absence_check(data_dir))
    if todo.absent:
        _report_absent(report, todo, data_dir)
    progress = _Progress(report, todo)
    with report.time_stage("run"), progress.display():
        skipped = runner.run(
            todo, store, budget, data_dir, on_end=progress.on_end, on_start=progress.on_start
        )
    with report.stage("draw", "drawing"):
        page = _write(selected, store, out)
    document = {
        "known": todo.n_settled,
        "ended": dict(progress.counts),
        "left": [_describe(job) for job in skipped],
        "beyond": len(todo.beyond),
        "absent": {name: len(jobs) for name, jobs in todo.absent.items()},
        "report": page,
        "records": store.folder,
        "seconds": report.seconds,
        "commit": commit(),
    }
    comparisons = mark_repeated(
        comparison
        for one in selected
        for comparison in one.comparisons(runner.records_to_show(one, store))
    )
    sentence = headline(comparisons)
    document["headline"] = sentence
    report.print_result(document, facts_table({**_summary(document), "headline": sentence}))


def _report_absent(report: Report, todo: Plan, data_dir: Path | None) -> None:
    """Print which data sets are missing and how to get them.

    Raises
    ------
    InputError
        If no job can be run and none was run before.
    """
    from harness.data_sets import data_folder
    from harness.known_sets import KNOWN

    public = [name for name in todo.absent if name in KNOWN and KNOWN[name].train is not None]
    others = [f"{name}.npz" for name in todo.absent if name not in public]
    ways = []
    if public:
        ways.append(f"fetch {', '.join(public)} by: python -m harness.data_sets NAME --download")
    if others:
        ways.append(f"put {', '.join(others)} there")
    n_jobs = sum(map(len, todo.absent.values()))
    line = (
        f"{n_jobs} fits need data sets that are not in {data_folder(data_dir)} (--data-dir names "
        f"another folder): {'; '.join(ways)}; `python -m harness.data_sets` lists them."
    )
    if not todo.jobs and not todo.n_settled:
        raise InputError(f"Nothing can be run: {line}")
    report.log(line)


def _write(selected: Sequence[Study], store: Store, out: Path) -> Path:
    """Write the report, including earlier records of other studies, and return its index page."""
    from studies.catalogue import PAPERS, studies
    from studies.report import write_report
    from studies.runner import records_to_show

    selected_keys = {study.key for study in selected}
    known = [
        study
        for name in PAPERS
        if any(store.folder.glob(f"{name}-*.jsonl"))
        for study in studies(name)
    ]
    records = {study.key: records_to_show(study, store) for study in known}
    reported = [study for study in known if study.key in selected_keys or records[study.key]]
    return write_report(reported, records, out)


def _summary(document: dict[str, Any]) -> dict[str, Any]:
    ended = [f"{count} {status}" for status, count in document["ended"].items()]
    left = document["left"]
    first_left = "; ".join(left[:3]) + ("; ..." if len(left) > 3 else "")
    return {
        "fits": ", ".join([f"{document['known']} known before", *ended]),
        "beyond the studies' budgets": document["beyond"] or None,
        "left for want of time": f"{len(left)}: {first_left}" if left else None,
        "records": document["records"],
        "report": document["report"],
    }


def _describe(job: Job) -> str:
    options = "".join(f" {name}={value}" for name, value in job.options.items())
    rows = "" if job.n_train is None else f", {job.n_train:,} rows"
    return f"{job.study}: {job.method}{options} on {job.data}{rows}"


class _Progress:
    """Displays the progress: a bar on a terminal, otherwise a line per job.

    Attributes
    ----------
    counts : Counter of str
        Number of ended jobs by status.
    """

    def __init__(self, report: Report, todo: Plan) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.counts: Counter[str] = Counter()
        self._report, self._total = report, len(todo.jobs)
        console = report.err
        self._has_bar = console.is_terminal and not console.is_dumb_terminal
        self._bar = Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.completed} of {task.total} fits"),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=self._total)

    @contextlib.contextmanager
    def display(self) -> Iterator[None]:
        """Display the bar inside the block if the output is a terminal."""
        if not self._has_bar:
            yield
            return
        with self._bar:
            yield

    def on_start(self, job: Job) -> None:
        self._bar.update(self._task, description=f"{job.study}: {job.method} on {job.data}")

    def on_end(self, finished: Finished) -> None:
        last = finished.records[-1]
        self.counts[last["status"]] += 1
        self._bar.update(self._task, completed=finished.n_ended)
        if last["status"] != "done":
            self._report.log(f"{_describe(finished.job)}: {last['status']}, {last['reason']}")
        elif not self._has_bar:
            count = f"{finished.n_ended} of {finished.n_jobs}"
            left = f"about {format_duration(finished.seconds_left)} left"
            self._report.log(f"{count}: {_describe(finished.job)}: {last['wall']:.1f} s; {left}")


if __name__ == "__main__":
    app()
