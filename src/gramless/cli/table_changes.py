"""The comparison of two tables for ``gramless compare-tables``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gramless.base.errors import InputError
from gramless.cli.reading import inputs_of
from gramless.unsupervised.two_sample import TwoSampleResult, two_sample_test

if TYPE_CHECKING:
    from gramless.datasets.table import Matrix, Table


@dataclass(frozen=True, eq=False)
class TableComparison:
    """The result of comparing two tables, as the report shows it.

    ``tables`` holds the compared columns of each file. ``unshared_columns`` has two lists of names:
    the columns that only the first file has, and those that only the second file has. Ignored
    columns are in neither.
    """

    paths: tuple[Path, Path]
    tables: Sequence[Table | Matrix]
    unshared_columns: Sequence[Sequence[str]]
    alpha: float
    result: TwoSampleResult

    @property
    def is_changed(self) -> bool:
        return self.result.p_value <= self.alpha

    @property
    def verdict(self) -> str:
        verdict = "has changed" if self.is_changed else "no change found"
        return f"{verdict} (p-value {self.result.p_value:.3g})"

    def as_dict(self) -> dict[str, object]:
        result = self.result
        return {
            "before": self.paths[0],
            "after": self.paths[1],
            "rows": result.n_rows,
            "changed": self.is_changed,
            "p_value": result.p_value,
            "alpha": self.alpha,
            "permutations": result.n_permutations,
            "columns": [vars(difference) for difference in result.inputs],
            "kernels": [vars(kernel) for kernel in result.kernels],
            "only_before": self.unshared_columns[0],
            "only_after": self.unshared_columns[1],
        }


def compare_common_columns(
    paths: tuple[Path, Path],
    tables: Sequence[Table],
    left_out: Sequence[str],
    categorical: Sequence[str],
    alpha: float,
    n_permutations: int,
    seed: int,
    n_jobs: int | None,
) -> TableComparison:
    compared, unshared = _common_columns(tables, left_out, categorical)
    parameters: dict[str, Any] = {"random_state": seed, "n_jobs": n_jobs}
    parameters["categorical_features"] = [*categorical] or "auto"
    result = two_sample_test(*compared, n_permutations=n_permutations, **parameters)
    return TableComparison(paths, compared, unshared, alpha, result)


def _common_columns(
    tables: Sequence[Table], left_out: Sequence[str], categorical: Sequence[str]
) -> tuple[Sequence[Table | Matrix], Sequence[Sequence[str]]]:
    first, second = (table.names for table in tables)
    if first is None or second is None:
        if left_out or categorical:
            source = tables[0 if first is None else 1].source
            raise InputError(
                f"{source} has no column names, so --ignore and --categorical cannot be used."
            )
        return [table.select() for table in tables], ((), ())
    for name in (*left_out, *categorical):
        if name not in first and name not in second:
            raise InputError(f"neither table has a column {name!r}; the first has {first[:5]}.")
    common = [name for name in first if name in set(second) - set(left_out)]
    if not common:
        raise InputError("the tables have no columns in common; give two of the same kind.")
    unshared = [
        [name for name in names if name not in set(others) | set(left_out)]
        for names, others in ((first, second), (second, first))
    ]
    return [inputs_of(table, common) for table in tables], unshared
