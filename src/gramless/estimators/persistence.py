"""Model files: safetensors with a JSON header and checksums, without pickle.

A file holds the arrays as tensors. The entry ``model`` of the header's metadata holds the name of
the class, its parameters and its other fitted values as JSON. The header also holds the SHA-256 of
the data, and of itself with the digits of this checksum replaced by zeros, so that every change of
a file is detected.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from importlib import import_module
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from sklearn.utils.validation import check_is_fitted

from gramless.base.errors import GramlessError, InputError, ModelFileError
from gramless.base.files import open_for_writing, open_regular, reason_of
from gramless.base.public import PUBLIC_MODULES, VERSION
from gramless.base.state import Decoder, Encoder, Json, StatefulEstimator, UnknownClassError
from gramless.base.types import AnyArray

Tensors = dict[str, AnyArray]

FORMAT = 2
MAX_HEADER_BYTES = 1 << 26  # longer headers are neither written nor read

_FORMAT_NAME = "gramless"
_BLANK_DIGEST = "0" * 64
_DTYPES = {np.dtype("?"): "BOOL"} | {
    np.dtype(f"<{code}"): f"{code[0].upper()}{8 * int(code[1])}"
    for code in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
}
# Exceptions that hostile contents can cause in code that trusts its own files.
_FAULTS = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    *(RecursionError, MemoryError, AssertionError),
)


def save(model: StatefulEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file atomically.

    Parameters
    ----------
    model : estimator or feature map of gramless, or of a subclass
        A callable kernel is saved as a table of its values, and a generator given as
        ``random_state`` is saved as None. Neither changes a prediction.
    path : str or path-like
        The file. An existing file is replaced when the new one is complete on the disk.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    InputError
        If the model holds an object that a file cannot represent; the message names it.
    ModelFileError
        If the file cannot be written.

    Notes
    -----
    A file usually takes 8 bytes per bin for keys, and 8 bytes per bin and output for weights. For
    grown grids, which default fits have, it takes one to two bytes per bin, and about five bits
    more for each further output. Long arrays are compressed if no bit is lost.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from gramless import RandomBinning, load, save
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> binning = RandomBinning(n_grids=8, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(binning, Path(folder, "bins.gramless"))
    ...     again = load(Path(folder, "bins.gramless"))
    >>> bool((again.transform(X) != binning.transform(X)).nnz == 0)
    True
    """
    check_is_fitted(model)
    write(path, *pack(model))


def pack(model: StatefulEstimator) -> tuple[dict[str, Json], Tensors]:
    """Return the content of a model's file: data for JSON, and arrays by name."""
    encoder = Encoder()
    if not isinstance(model, StatefulEstimator):
        raise InputError(f"save: a {type(model).__name__} is not a gramless model.")
    return encoder.model(model), encoder.tensors


def unpack(content: Json, tensors: Tensors) -> StatefulEstimator:
    """Rebuild a model from untrusted content; may raise any exception."""
    # Most models need few modules, and importing all takes longer than reading a model.
    if module := PUBLIC_MODULES.get(content["class"]):
        import_module(module)
    try:
        return Decoder(tensors).fitted_model(content)
    except UnknownClassError:
        define_classes()
        return Decoder(tensors).fitted_model(content)


def write(path: str | os.PathLike[str], content: dict[str, Json], tensors: Tensors) -> None:
    """Write a file with its checksums; see :func:`save`."""
    parts = file_parts(content, tensors)
    if os.path.exists(path) and not os.path.isfile(path):
        raise ModelFileError(f"{path} is not a regular file; name another path.")
    with open_for_writing(path, error=ModelFileError) as file:
        file.writelines(parts)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that :func:`save` wrote.

    Nothing in the file is executed. It names classes of this package, or defined subclasses, and
    holds numbers, text and lists, which the classes check for consistency. A foreign file is
    therefore safe to load, but its predictions need not be right.

    Parameters
    ----------
    path : str or path-like
        A file that :func:`save` wrote.

    Returns
    -------
    estimator or feature map
        The model, with the same predictions to the last bit.

    Raises
    ------
    ModelFileError
        If the file is absent, truncated, edited, not a model, or of a newer format.

    Notes
    -----
    The file is read twice, the second time from the system's cache. Peak memory is up to five times
    the file size.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from gramless import RandomBinning
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "grids.gramless")
    ...     save(RandomBinning(n_grids=4, random_state=0).fit([[0.0], [1.0]]), path)
    ...     load(path).n_grids
    4
    """
    with _explained(path), open_regular(path) as file:
        metadata, entries = _read_header(file)
        start = file.tell()
        if hashlib.file_digest(file, "sha256").hexdigest() != metadata.get("data_sha256"):
            raise ValueError("its data do not have the checksum that was written with them")
        content = json.loads(metadata["model"])
        # safetensors checks the header only. Its memory map would count as memory besides the
        # arrays, so the arrays are read here.
        with safe_open(os.fspath(path), framework="np") as checked:
            names = checked.keys()
        tensors = {name: _read_tensor(file, start, entries[name]) for name in names}
        return unpack(content, tensors)


def describe(path: str | os.PathLike[str]) -> dict[str, Json]:
    """Return the content of a file's header: plain data, and dtypes and shapes of arrays."""
    with _explained(path), open_regular(path) as file:
        metadata, tensors = _read_header(file)
        content = json.loads(metadata["model"])
        return {
            "class": content["class"],
            "format": int(metadata["format_version"]),
            "gramless_version": metadata["gramless_version"],
            "bytes": os.fstat(file.fileno()).st_size,
            "params": _readable({"dict": content["params"]}, tensors),
            "fitted": _readable({"dict": content["state"]}, tensors),
        }


def define_classes() -> None:
    """Import the modules of all public classes, which files can name."""
    for module in set(PUBLIC_MODULES.values()):
        import_module(module)


def file_parts(content: dict[str, Json], tensors: Tensors) -> list[bytes | memoryview]:
    """Return the bytes of a file: its header with checksums, then each array."""
    # Arrays of wide types come first, so that all arrays are aligned.
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    entries: dict[str, Json] = {"__metadata__": {}}
    data: list[memoryview] = []
    digest, start = hashlib.sha256(), 0
    for name in names:
        array = np.asarray(tensors[name], tensors[name].dtype.newbyteorder("<"), order="C")
        data.append(array.reshape(-1).view(np.uint8).data)
        digest.update(data[-1])
        offsets = [start, start := start + array.nbytes]
        dtype, shape = _DTYPES[array.dtype], list(array.shape)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    entries["__metadata__"] = {
        "format": _FORMAT_NAME,
        "format_version": str(FORMAT),
        "gramless_version": VERSION,
        "model": json.dumps(content, allow_nan=False),
        "data_sha256": digest.hexdigest(),
        "header_sha256": _BLANK_DIGEST,
    }
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise InputError(
            f"save: names, categories and text of this model take {len(text):,} bytes, more than "
            f"{MAX_HEADER_BYTES:,}; fit with fewer categories or shorter names."
        )
    without_digest = len(text).to_bytes(8, "little") + text
    header_digest = hashlib.sha256(without_digest).hexdigest()
    return [
        without_digest.replace(_digest_entry(_BLANK_DIGEST), _digest_entry(header_digest)),
        *data,
    ]


def _digest_entry(digest: str) -> bytes:
    # The model's JSON cannot contain this entry, because its quotes are escaped by backslashes.
    return b'"header_sha256":"' + digest.encode("ascii", "replace") + b'"'


def _read_header(file: IO[bytes]) -> tuple[dict[str, str], dict[str, Json]]:
    """Return verified metadata and entries of tensors; the file is then at its data."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(size - 8, MAX_HEADER_BYTES):
        raise ValueError("it is truncated or not a gramless model")
    text = file.read(length)
    tensors = json.loads(text)
    metadata = tensors.pop("__metadata__", {})
    if metadata.get("format") != _FORMAT_NAME:
        raise ValueError("it is not a gramless model")
    if int(metadata["format_version"]) > FORMAT:
        raise ModelFileError(
            f"it was written by gramless {metadata.get('gramless_version', '?')[:20]} in format "
            f"{metadata['format_version'][:10]}, and this is gramless {VERSION}, "
            f"which reads up to format {FORMAT}. Install a newer gramless"
        )
    header_digest = metadata["header_sha256"]
    with_digest = length.to_bytes(8, "little") + text
    without_digest = with_digest.replace(_digest_entry(header_digest), _digest_entry(_BLANK_DIGEST))
    if hashlib.sha256(without_digest).hexdigest() != header_digest:
        raise ValueError("its header does not have the checksum that was written with it")
    return metadata, tensors


def _read_tensor(file: IO[bytes], start: int, entry: Json) -> AnyArray:
    """Return an array of a file whose data begin at ``start``."""
    dtype = {name: dtype for dtype, name in _DTYPES.items()}[entry["dtype"]]
    first, last = entry["data_offsets"]
    file.seek(start + first)
    array = np.fromfile(file, dtype, (last - first) // dtype.itemsize)
    return array.reshape(entry["shape"]).astype(dtype.newbyteorder("="), copy=False)


@contextlib.contextmanager
def _explained(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert every exception into a ModelFileError with the path and a remedy."""
    remedy = "Copy it again from where it was saved, or save the model again."
    try:
        yield
    except FileNotFoundError as fault:
        raise ModelFileError(f"There is no model file {path}; check the name.") from fault
    except OSError as fault:
        raise ModelFileError(
            f"{path} cannot be read ({reason_of(fault)}); check the file."
        ) from fault
    except ModelFileError as fault:
        raise ModelFileError(f"{path} cannot be loaded: {fault}.") from fault
    except SafetensorError as fault:
        raise ModelFileError(f"{path} cannot be loaded: {fault}. {remedy}") from fault
    except _FAULTS as fault:
        what = str(fault).splitlines()[0][:200] if str(fault) else type(fault).__name__
        has_reason = isinstance(fault, GramlessError)
        has_reason |= type(fault) in (ValueError, UnknownClassError)
        reason = what if has_reason else f"its contents are inconsistent ({type(fault).__name__})"
        raise ModelFileError(f"{path} cannot be loaded: {reason}. {remedy}") from fault


def _readable(value: Json, tensors: Json) -> Json:
    """Return a value of the header without its tag, or the dtype and shape of an array."""
    if isinstance(value, list):
        return [_readable(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if not value:
        raise KeyError("a value without a tag")
    tag, content = next(iter(value.items()))
    if tag in ("tensor", "list"):
        return {key: tensors[content][key] for key in ("dtype", "shape")}
    if tag == "dict":
        return {name: _readable(item, tensors) for name, item in content.items()}
    if tag in ("array", "record"):
        kind = "form" if tag == "array" else "class"
        return {kind: content, **_readable({"dict": value["fields"]}, tensors)}
    if tag == "model":
        params = _readable({"dict": content["params"]}, tensors)
        fitted = _readable({"dict": content.get("state") or {}}, tensors)
        model = {"class": content["class"], "params": params}
        return model | ({"fitted": fitted} if fitted else {})
    return _readable(content, tensors)
