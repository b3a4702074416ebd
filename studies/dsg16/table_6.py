"""Tables 5 and 6: test errors on features provided by the user, during and after convergence."""

from __future__ import annotations

from collections.abc import Sequence

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
# Files that the user provides, with the parameters of the paper's Table 4.
USER_FILES = (
    Setting("features", "features.npz", 16_384, 512, 5e-4, components=None),
    Setting("cifar10_features", "CIFAR-10", 32_768, 512, 5e-4, components=None),
    Setting("mnist8m_features", "MNIST-8M", 16_384, 512, 5e-4, components=None),
    Setting("imagenet_features", "ImageNet", 16_384, 128, 5e-4, components=None),
)
STAND_INS = (Setting("mnist", "MNIST, pixels", 16_384, 512, 5e-4),)
_END = {"seconds": 80.0}
_CONVERGED = 0.01  # A run has converged if its objective exceeds the last one by at most 1 %.
_SCORES = ("objective", "test_error")
_RUNS = (*PAPER_RUNS, OURS)
_NETS = ("Fixed", "Joint")


def jobs() -> list[Job]:
    """Return the races on the user's files and on pixels."""
    return [race(NAME, setting, _RUNS, _END, _SCORES) for setting in (*USER_FILES, *STAND_INS)]


def panels(records: list[Record]) -> list[Panel]:
    """Return panels of the test error over time for each data set that was run."""
    panels = []
    for setting in (*USER_FILES, *STAND_INS):
        lines = curves(records, setting.data, _RUNS, "test_error", 100.0)
        if lines:
            panels.append(panel(f"{setting.title}: test error", lines, "test error, %"))
    return panels


def tables(records: list[Record]) -> list[TableOf]:
    """Return Tables 5 and 6, with the paper's rows below ours."""
    columns = ("data", *_RUNS, *_NETS)
    tables = []
    for name, title in (("table-5", "when CDSG has converged"), ("table-6", "converged")):
        rows = []
        for setting in (*USER_FILES, *STAND_INS):
            cells = [_cell(records, setting, label, name) for label in _RUNS]
            if any(cells):
                rows.append((setting.title, *cells, *("" for _ in _NETS)))
        rows += _paper_rows(name)
        tables.append(
            TableOf(f"T{name[1:]}: test error, %, {title}".replace("-", " "), columns, tuple(rows))
        )
    return tables


def comparisons(records: list[Record]) -> list[Comparison]:
    """Return the comparisons of the tables' numbers with ours on the user's features."""
    return [
        _comparison(records, number)
        for number in published("dsg16").values()
        if number.study in ("table-5", "table-6")
    ]


def _comparison(records: list[Record], number: Published) -> Comparison:
    table, title, label, _ = number.key.split("/")
    if label in _NETS:
        return Comparison(number, missing="a neural net")
    setting = next(setting for setting in USER_FILES if setting.title == title)
    record = _snapshot(records, setting, label, table)
    return compare(
        number,
        [] if record is None else [record],
        lambda record: 100.0 * float(record["scores"]["test_error"]),
        missing="the features of the paper's neural nets are not available",
    )


def _snapshot(records: list[Record], setting: Setting, label: str, table: str) -> Record | None:
    """Return a run's snapshot when CDSG has converged (Table 5), or its last one (Table 6)."""
    snapshots = course(records, setting.data, label)
    leader = course(records, setting.data, CDSG)
    if table == "table-6" or not snapshots or not leader:
        return snapshots[-1] if snapshots else None
    goal = (1.0 + _CONVERGED) * leader[-1]["scores"]["objective"]
    end = next(fit_seconds(one) for one in leader if one["scores"]["objective"] <= goal)
    # Snapshots of different runs are not taken at exactly the same times.
    before = [one for one in snapshots if fit_seconds(one) <= 1.05 * end]
    return before[-1] if before else snapshots[0]


def _cell(records: list[Record], setting: Setting, label: str, table: str) -> str:
    record = _snapshot(records, setting, label, table)
    return "" if record is None else f"{100 * record['scores']['test_error']:.1f}"


def _paper_rows(table: str) -> list[tuple[str, ...]]:
    numbers = published("dsg16")

    def cells(setting: Setting, labels: Sequence[str]) -> list[str]:
        keys = [f"{table}/{setting.title}/{label}/test_error" for label in labels]
        return [_format(numbers.get(key)) for key in keys]

    # The first file has no counterpart in the paper.
    return [
        (f"paper: {setting.title}", *cells(setting, PAPER_RUNS), "", *cells(setting, _NETS))
        for setting in USER_FILES[1:]
    ]


def _format(number: Published | None) -> str:
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
