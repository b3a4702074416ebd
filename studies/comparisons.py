"""Comparisons of published numbers with our measurements: verdicts, reasons and their counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from studies.published import Published
from studies.records import NOT_RUN
from studies.study import Record

REPETITIONS = 5
LOWER, AGREES, HIGHER = "lower", "agrees", "higher"
OTHER_DATA, NOT_MEASURED, NO_VERDICT = "other data", "not measured", "no verdict"
# Papers print rounded numbers of rows: 6,500 for 6,554 and 32,000 for 32,561.
_SAME_ROWS = 0.02


@dataclass(frozen=True)
class Comparison:
    """A published number and our measurements of it.

    Parameters
    ----------
    number : Published
    measured : tuple of float, default=()
        One value per repetition, in the unit of the published number.
    rows : int, default=None
        Our number of training rows.
    repetitions : int, default=5
        Number of repetitions required for a verdict: 1 for a deterministic method on fixed rows.
    other_data : str, default=""
        How our data differ from the paper's, if they do.
    missing : str, default=""
        The reason if there is no measurement.
    when, commit : str, default=""
        Date and commit of the last measurement.
    same_as : str, default=""
        The key of another comparison that counts for the same number.
    """

    number: Published
    measured: tuple[float, ...] = ()
    rows: int | None = None
    repetitions: int = REPETITIONS
    other_data: str = ""
    missing: str = ""
    when: str = ""
    commit: str = ""
    same_as: str = ""

    @property
    def verdict(self) -> str:
        """How our error compares with the published one.

        ``"agrees"`` if the published error, which may have been rounded, lies within the spread
        of our repetitions; ``"lower"`` and ``"higher"`` if all of ours are. Counts and seconds
        have ``"no verdict"``.

        Examples
        --------
        >>> number = Published("table-1", "a", "a", 3.6, "%", "Table 1", rounding=0.05)
        >>> Comparison(number, (3.64, 3.7, 3.8, 3.9, 4.0)).verdict
        'agrees'
        >>> Comparison(number, (3.7, 3.7, 3.8, 3.9, 4.0)).verdict
        'higher'
        """
        if not self.measured:
            return NOT_MEASURED
        if self.other_data or not self.has_same_rows:
            return OTHER_DATA
        if self.number.kind != "error":
            return NO_VERDICT
        if len(self.measured) < self.repetitions:
            return NOT_MEASURED
        if self.number.value + self.number.rounding < min(self.measured):
            return HIGHER
        if self.number.value - self.number.rounding > max(self.measured):
            return LOWER
        return AGREES

    @property
    def reason(self) -> str:
        """The reason if there is no comparison, otherwise ""."""
        if not self.measured:
            return self.missing
        if self.other_data or not self.has_same_rows:
            return self.other_data or f"{self.rows:,} training rows, not {self.number.rows:,}"
        if self.verdict == NOT_MEASURED:
            return f"{len(self.measured)} of {self.repetitions} repetitions"
        return ""

    @property
    def has_same_rows(self) -> bool:
        """Whether we trained on as many rows as the authors, within their rounding."""
        paper_rows = self.number.rows
        if paper_rows is None or self.rows is None:
            return True
        return abs(self.rows - paper_rows) <= _SAME_ROWS * paper_rows


def compare(
    number: Published,
    records: Sequence[Record],
    value: Callable[[Record], float | None],
    *,
    repetitions: int = REPETITIONS,
    other_data: str = "",
    missing: str = NOT_RUN,
) -> Comparison:
    """Return the comparison of a published number with the records of its repetitions.

    Parameters
    ----------
    number : Published
    records : sequence of dict
    value : callable
        Maps a record to the measured value in the number's unit, or None.
    repetitions, other_data, missing
        Passed to :class:`Comparison`.
    """
    values = [(value(record), record) for record in records]
    measured = [(one, record) for one, record in values if one is not None and math.isfinite(one)]
    last = measured[-1][1] if measured else {}
    return Comparison(
        number,
        tuple(float(one) for one, _ in measured),
        last["rows"][0] if last else None,
        repetitions,
        other_data,
        missing,
        str(last.get("when", ""))[:10],
        str(last.get("commit", "")),
    )


def mark_repeated(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Return comparisons with ``same_as`` set for numbers that occur in several figures.

    Among equal numbers, the first one that was measured counts, or the first one if none was.

    Examples
    --------
    >>> first = Published("figure-3", "a", "3/a", 1.0, "%", "", identity="a")
    >>> again = replace(first, study="figure-4", key="4/a")
    >>> [one.same_as for one in mark_repeated([Comparison(first), Comparison(again)])]
    ['', '3/a']
    """
    given = list(comparisons)
    counted: dict[str, Comparison] = {}
    for one in given:
        known = counted.setdefault(one.number.identity, one)
        if known.verdict == NOT_MEASURED != one.verdict:
            counted[one.number.identity] = one
    kept = {identity: one.number.key for identity, one in counted.items()}
    return [
        one if kept[one.number.identity] == one.number.key
        else replace(one, same_as=kept[one.number.identity])
        for one in given
    ]  # fmt: skip


def error_verdicts(comparisons: Iterable[Comparison]) -> Counter[str]:
    """Count the verdicts of published errors, a repeated number once."""
    return Counter(one.verdict for one in _counted_errors(comparisons))


def headline(comparisons: Iterable[Comparison]) -> str:
    """Return the counts of the verdicts as a sentence.

    Examples
    --------
    >>> number = Published("table-1", "a", "a", 3.6, "%", "Table 1")
    >>> headline([Comparison(number, (3.5, 3.6, 3.7, 3.8, 3.9)), Comparison(number)])
    'Of 1 published error that we measured on the same data and the same number of rows, 0 of \
ours are lower, 1 agrees and 0 are higher; 0 are on other data, 1 was not measured.'
    """
    counts = error_verdicts(comparisons)
    n = counts[LOWER] + counts[AGREES] + counts[HIGHER]
    agree = "agrees" if counts[AGREES] == 1 else "agree"
    compared = (
        f"Of {n:,} published {'error' if n == 1 else 'errors'} that we measured on the same data "
        f"and the same number of rows, {counts[LOWER]:,} of ours {_are(counts[LOWER])} lower, "
        f"{counts[AGREES]:,} {agree} and {counts[HIGHER]:,} {_are(counts[HIGHER])} higher"
    )
    if n == 0:
        compared = (
            "We have not measured any published error on the same data and the same number of rows"
        )
    return (
        f"{compared}; {counts[OTHER_DATA]:,} {_are(counts[OTHER_DATA])} on other data, "
        f"{counts[NOT_MEASURED]:,} {'was' if counts[NOT_MEASURED] == 1 else 'were'} not measured."
    )


def reasons(comparisons: Iterable[Comparison]) -> list[tuple[str, str, int]]:
    """Return verdict, reason and count of errors without a comparison, most frequent first.

    Examples
    --------
    >>> number = Published("table-1", "a", "a", 3.6, "%", "Table 1")
    >>> reasons([Comparison(number, missing="no such data")])
    [('not measured', 'no such data', 1)]
    """
    counts = Counter((one.verdict, one.reason) for one in _counted_errors(comparisons))
    return [(*key, count) for key, count in counts.most_common() if key[1]]


def _counted_errors(comparisons: Iterable[Comparison]) -> list[Comparison]:
    return [one for one in comparisons if one.number.kind == "error" and not one.same_as]


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
