"""Malicious model files: edited with knowledge of their structure, with valid checksums."""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from campaigns.file_edits import EDITS, Content, Tensors
from campaigns.fitted import ESTIMATORS, MAPS, THREE, X, fit, rows_for
from gramless import load, save
from gramless.base.errors import GramlessError, ModelFileError
from gramless.estimators.persistence import file_parts, pack
from gramless.portable import PortableModel
from harness.memory import peak_memory, reset_peak
from harness.process import ROOT

PROMISE = (
    "loading a model file with any content raises ModelFileError, or gives a model that predicts "
    "or raises an error of gramless; loading takes at most 5 s and 4 times the file size + 48 MB; "
    "PortableModel reads it or raises a ValueError that names the file"
)
FULL, SHORT = 20_000, 160
SECONDS = 120.0
MEMORY = 1 << 31
ENVIRONMENTS = {
    "plain": {},
    "bounds": {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(ROOT / "build" / "numba-boundscheck"),
    },
}
_KINDS = (*ESTIMATORS, *MAPS)
_LOAD_SECONDS, _LOAD_BYTES, _LOAD_TIMES = 5.0, 48 << 20, 4
# The message of compiled loops with NUMBA_BOUNDSCHECK; NumPy's also has the index.
_OUTSIDE = "index is out of bounds"


def check(number: int, seed: int) -> str:
    """Edit a file one to three times, load it, and call every method of the model."""
    rng = np.random.default_rng([seed, number])
    kind = _KINDS[number // 2 % len(_KINDS)]
    content, tensors = _copy_of_model(kind)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        donor = _copy_of_model(_KINDS[rng.integers(len(_KINDS))])
        EDITS[rng.integers(len(EDITS))](rng, content, tensors, donor)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        try:
            path.write_bytes(written(content, tensors))
        except (ValueError, KeyError):
            return "no file holds it"
        _read_portably(path)
        try:
            model = _load_within_limits(path)
        except ModelFileError as error:
            if str(error.__cause__) == _OUTSIDE:
                raise
            return "refused"
    return _call_methods(model, kind)


def written(content: Content, tensors: Tensors) -> bytes:
    """Return the bytes of a file with valid checksums."""
    return b"".join(map(bytes, file_parts(content, tensors)))


def _read_portably(path: Path) -> None:
    """Read a file with NumPy only; the one allowed error is a ValueError that names the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            PortableModel(path)
        except ValueError as error:
            if str(path) not in str(error):
                raise AssertionError(f"the error does not name the file: {error}") from error


def _load_within_limits(path: Path) -> Any:
    """Load a file within the promised time and memory."""
    reset_peak()
    before, start = peak_memory(), time.monotonic()
    try:
        return load(path)
    finally:
        seconds, memory = time.monotonic() - start, peak_memory() - before
        size = path.stat().st_size
        if seconds > _LOAD_SECONDS or memory > _LOAD_TIMES * size + _LOAD_BYTES:
            raise AssertionError(
                f"{size:,} bytes took {seconds:.1f} s and {memory:,} bytes to load"
            )


def _call_methods(model: Any, kind: str) -> str:
    """Call every method that takes rows; errors that gramless raises are allowed."""
    succeeded = []
    row_sets = [rows_for(fit_once(kind), 30), X[:30, :2]]
    for name in ("predict", "predict_proba", "predict_interval", "predict_set", "transform"):
        if hasattr(model, name):
            succeeded += [_succeeds(getattr(model, name), rows) for rows in row_sets]
    if getattr(model, "posterior_", None) is not None:
        succeeded.append(_succeeds(lambda rows: model.predict(rows, return_std=True), row_sets[0]))
    if hasattr(model, "run_"):
        succeeded.append(_succeeds(lambda rows: model.partial_fit(rows, THREE[:30]), row_sets[0]))
    return "predicts" if any(succeeded) else "complains"


def _succeeds(call: Any, rows: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(rows)
        except GramlessError:
            return False
    return True


@cache
def fit_once(kind: str) -> Any:
    return fit(kind)


@cache
def _pack_and_check(kind: str) -> tuple[str, Tensors]:
    """Return the content of a model's file, after checking that the loaded model predicts."""
    content, tensors = pack(fit_once(kind))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        save(fit_once(kind), path)
        assert path.read_bytes() == written(content, tensors)
        assert _call_methods(load(path), kind) == "predicts"
    return json.dumps(content), tensors


def _copy_of_model(kind: str) -> tuple[Content, Tensors]:
    text, tensors = _pack_and_check(kind)
    return json.loads(text), dict(tensors)
