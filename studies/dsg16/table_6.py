"""Tables 5 and 6: test errors on features that a user brings, when CDSG and when all converged."""

from __future__ import annotations

from studies.comparisons import Comparison, compare
from studies.dsg16.runs import (
    CDSG,
    OURS,
    PAPER_RUNS,
    Setting,
    course,
    curves,
    panel,
    race,
)
from studies.published import Published, published
from studies.records import fit_seconds
from studies.study import Job, Panel, Record, Study, TableOf

NAME = "dsg16/table-6"
OWN = (
    Setting("features", "features.npz", 16_384, 512, 5e-4, components=None),
    Setting("cifar10_features", "CIFAR-10", 32_768, 512, 5e-4, components=None),
    Setting("mnist8m_features", "MNIST-8M", 16_384, 512, 5e-4, components=None),
    Setting("imagenet_features", "ImageNet", 16_384, 128, 5e-4, components=None),
)
"""Files that a user brings, with the paper's Table 4."""
STAND_INS = (Setting("mnist", "MNIST, pixels", 16_384, 512, 5e-4),)
_UNTIL = {"seconds": 80.0}
_SETTLED = 0.01
"""A run has converged when its objective is within this share of its end."""
_SCORES = ("objective", "test_error")
_RUNS = (*PAPER_RUNS, OURS)
_NETS = ("Fixed", "Joint")


def jobs() -> list[Job]:
    """Return the runs on the user's files, where they are there, and on pixels."""
    return [race(NAME, setting, _RUNS, _UNTIL, _SCORES) for setting in (*OWN, *STAND_INS)]


def panels(records: list[Record]) -> list[Panel]:
    """Return the test error along the clock on each data set that was run."""
    found = []
    for setting in (*OWN, *STAND_INS):
        lines = curves(records, setting.data, _RUNS, "test_error", 100.0)
        if lines:
            found.append(panel(f"{setting.title}: test error", lines, "test error, %"))
    return found


def tables(records: list[Record]) -> list[TableOf]:
    """Return Tables 5 and 6, those of the paper below ours."""
    columns = ("data", *_RUNS, *_NETS)
    found = []
    for name, title in (("table-5", "when CDSG has converged"), ("table-6", "converged")):
        rows = []
        for setting in (*OWN, *STAND_INS):
            cells = [_cell(records, setting, label, name) for label in _RUNS]
            if any(cells):
                rows.append((setting.title, *cells, *("" for _ in _NETS)))
        rows += _paper_rows(name)
        found.append(
            TableOf(f"T{name[1:]}: test error, %, {title}".replace("-", " "), columns, tuple(rows))
        )
    return found


def comparisons(records: list[Record]) -> list[Comparison]:
    """Return the tables' numbers, and ours on features of that name."""
    return [
        _comparison(records, number)
        for number in published("dsg16").values()
        if number.study in ("table-5", "table-6")
    ]


def _comparison(records: list[Record], number: Published) -> Comparison:
    table, title, label, _ = number.key.split("/")
    if label in _NETS:
        return Comparison(number, missing="a neural net")
    setting = next(own for own in OWN if own.title == title)
    record = _at(records, setting, label, table)
    return compare(
        number,
        [] if record is None else [record],
        lambda record: 100.0 * float(record["scores"]["test_error"]),
        missing="the features of the paper's neural nets are not available",
    )


def _at(records: list[Record], setting: Setting, label: str, table: str) -> Record | None:
    """Return a run's snapshot when CDSG has converged (Table 5), or its last one."""
    snapshots = course(records, setting.data, label)
    leader = course(records, setting.data, CDSG)
    if table == "table-6" or not snapshots or not leader:
        return snapshots[-1] if snapshots else None
    least = (1.0 + _SETTLED) * leader[-1]["scores"]["objective"]
    until = next(fit_seconds(one) for one in leader if one["scores"]["objective"] <= least)
    before = [one for one in snapshots if fit_seconds(one) <= 1.05 * until]
    return before[-1] if before else snapshots[0]


def _cell(records: list[Record], setting: Setting, label: str, table: str) -> str:
    record = _at(records, setting, label, table)
    return "" if record is None else f"{100 * record['scores']['test_error']:.1f}"


def _paper_rows(table: str) -> list[tuple[str, ...]]:
    """Return the paper's rows."""
    numbers = published("dsg16")
    return [
        (
            f"paper: {own.title}",
            *(
                _printed(numbers.get(f"{table}/{own.title}/{label}/test_error"))
                for label in PAPER_RUNS
            ),
            "",
            *(_printed(numbers.get(f"{table}/{own.title}/{net}/test_error")) for net in _NETS),
        )
        for own in OWN[1:]
    ]


def _printed(number: Published | None) -> str:
    return "" if number is None else f"{number.value:g}"


TABLE_6 = Study(
    "dsg16",
    "table-6",
    "Tables 5 and 6: test errors on features of neural nets that you bring",
    "The paper's features of neural nets are not to be had. Bring your own: an NPZ file with "
    "X_train, y_train, X_test and y_test in the data folder, called features.npz, or "
    "cifar10_features.npz, mnist8m_features.npz, imagenet_features.npz for those of the paper, "
    "which are then compared with its numbers. B, F and lambda are those of its Table 4. Always "
    "run: pixels of MNIST on 100 principal components. CDSG counts as converged when its objective "
    "is within 1 % of its end.",
    jobs,
    10.0,
    panels,
    tables,
    comparisons,
)
