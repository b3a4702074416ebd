"""The numbers that the papers print, and that their authors' logs hold."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from gramless.base.errors import DataFileError, InputError
from studies.catalogue import PAPERS


@dataclass(frozen=True)
class Published:
    """A number of a paper.

    Parameters
    ----------
    study : str
        Such as ``"table-1"``.
    what : str
        Data set, method, size: enough to find it in the paper.
    key : str
        The name by which a study looks it up, such as ``"covtype/binning/64/test_error"``.
    value : float
    unit : str
    tolerance : float
        By how much, in the same unit, two runs of the paper's own method may differ.
    source : str
        Where it stands: ``"text, section 5.2"``, ``"authors' log"``.
    """

    study: str
    what: str
    key: str
    value: float
    unit: str
    tolerance: float
    source: str


def published(paper: str) -> dict[str, Published]:
    """Return the numbers that a paper prints, by key.

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
        Of a paper that is not known.
    DataFileError
        Where the paper's file is damaged: which number, and what is wrong with it.

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
    found: dict[str, Published] = {}
    for place, entry in enumerate(content.get("number", []), start=1):
        number = _number(entry, f"{path}, number {place}")
        if number.key in found:
            raise DataFileError(f"{path}, number {place}: the key {number.key!r} is there twice")
        found[number.key] = number
    return found


def _number(entry: Mapping[str, Any], where: str) -> Published:
    names = {field.name for field in fields(Published)}
    wrong = sorted(names.symmetric_difference(entry))
    if wrong:
        raise DataFileError(f"{where}: missing or unknown: {', '.join(wrong)}")
    for name in names - {"value", "tolerance"}:
        if not isinstance(entry[name], str) or not entry[name]:
            raise DataFileError(f"{where}: {name} must be text, got {entry[name]!r}")
    for name in ("value", "tolerance"):
        value = entry[name]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            raise DataFileError(f"{where}: {name} must be a finite number, got {value!r}")
    if entry["tolerance"] < 0.0:
        raise DataFileError(f"{where}: tolerance must not be negative, got {entry['tolerance']}")
    numbers = {name: float(entry[name]) for name in ("value", "tolerance")}
    return Published(**{**entry, **numbers})
