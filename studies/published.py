"""The numbers published in the papers and in their authors' logs."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Literal

from gramless.base.errors import DataFileError, InputError
from studies.catalogue import PAPERS


@dataclass(frozen=True)
class Published:
    """A published number.

    Parameters
    ----------
    study : str
        The name of its study, such as ``"table-1"``.
    what : str
        A description with data set, method and size, to find it in the paper.
    key : str
        A unique name for lookups, such as ``"covtype/binning/64/test_error"``.
    value : float
    unit : str
        ``"%"`` for errors, ``"s"`` for seconds, any other for counts.
    source : str
        The place of publication, such as ``"text, section 5.2"`` or ``"authors' log"``.
    rows : int, default=None
        The authors' number of training rows.
    rounding : float, default=0.0
        Half a unit of the last printed digit.
    identity : str, default=""
        A name shared by all occurrences of a number in several figures; ``key`` by default.
    """

    study: str
    what: str
    key: str
    value: float
    unit: str
    source: str
    rows: int | None = None
    rounding: float = 0.0
    identity: str = ""

    def __post_init__(self) -> None:
        if not self.identity:
            object.__setattr__(self, "identity", self.key)

    @property
    def kind(self) -> Literal["error", "count", "seconds"]:
        """The table of the report that contains the number."""
        return "error" if self.unit == "%" else "seconds" if self.unit == "s" else "count"


def published(paper: str) -> dict[str, Published]:
    """Return the published numbers of a paper by key.

    Parameters
    ----------
    paper : {"rr07", "rb16", "dsg16"}

    Returns
    -------
    dict of str to Published
        In the order of the file.

    Raises
    ------
    InputError
        If the paper is unknown.
    DataFileError
        If the paper's file contains an invalid number.

    Examples
    --------
    >>> all(key == number.key for key, number in published("rb16").items())
    True
    """
    if paper not in PAPERS:
        raise InputError(f"There is no paper {paper!r}; there are {', '.join(PAPERS)}.")
    return read_published(resources.files("studies").joinpath(paper, "published.toml"))


def read_published(path: Traversable) -> dict[str, Published]:
    """Read a file of published numbers; see :func:`published`."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataFileError(f"{path} cannot be read: {error}") from error
    numbers: dict[str, Published] = {}
    for position, entry in enumerate(content.get("number", []), start=1):
        number = _number(entry, f"{path}, number {position}")
        if number.key in numbers:
            raise DataFileError(f"{path}, number {position}: the key {number.key!r} is there twice")
        numbers[number.key] = number
    return numbers


def _number(entry: Mapping[str, Any], where: str) -> Published:
    texts = {"study", "what", "key", "unit", "source"}
    wrong = sorted(({*texts, "value"} - set(entry)) | (set(entry) - {*texts, "value", "rows"}))
    if wrong:
        raise DataFileError(f"{where}: missing or unknown: {', '.join(wrong)}")
    for name in texts:
        if not isinstance(entry[name], str) or not entry[name]:
            raise DataFileError(f"{where}: {name} must be text, got {entry[name]!r}")
    value = entry["value"]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        raise DataFileError(f"{where}: value must be a finite number, got {value!r}")
    rows = entry.get("rows", 1)
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise DataFileError(f"{where}: rows must be a positive whole number, got {rows!r}")
    return Published(**{**entry, "value": float(value), "rounding": rounding(value)})


def rounding(value: float) -> float:
    """Return half a unit of the last digit of a number as it is written.

    Examples
    --------
    >>> rounding(3.6), rounding(11), rounding(16.0)
    (0.05, 0.5, 0.05)
    """
    exponent = Decimal(repr(value)).as_tuple().exponent
    return 0.5 * 10.0 ** int(exponent)
