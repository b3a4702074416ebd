"""Opening of data files: compression, formats and encodings, with errors as DataFileError."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, AnyStr

from gramless.base.errors import DataFileError, InputError
from gramless.base.files import checked_name, reason_of
from gramless.datasets.limits import ReadLimits

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

HEAD_BYTES = 1 << 16  # read to detect format, encoding and layout

_OPENERS: dict[str, Callable[..., object]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

# Endings of the files of each format.
FORMATS = {
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "arff": (".arff",),
    "parquet": (".parquet", ".pq"),
    "ipc": (".arrow", ".feather", ".ipc"),
    "libsvm": (".libsvm", ".svmlight", ".svm"),
    "npz": (".npz",),
    "npy": (".npy",),
}

# First bytes of files that are not text, with their ending and description.
_MAGIC = {
    b"\x1f\x8b": (".gz", "gzip data (name it .gz)"),
    b"BZh": (".bz2", "bzip2 data (name it .bz2)"),
    b"\xfd7zXZ\x00": (".xz", "xz data (name it .xz)"),
    b"PAR1": (".parquet", "Parquet (name it .parquet)"),
    b"ARROW1": (".arrow", "an Arrow file (name it .arrow)"),
    b"PK\x03\x04": (".npz", "a zip archive (unpack it, or name it .npz if it is one)"),
    b"\x93NUMPY": (".npy", "a NumPy array (name it .npy)"),
}

# Ends of messages that start with the path.
_EXPLANATIONS: dict[type[Exception], str] = {
    FileNotFoundError: "does not exist; check the name and the folder.",
    PermissionError: "may not be read; change its permissions.",
    MemoryError: "takes more memory than there is. Read it in chunks by open_chunks, or on a "
    "machine with more memory.",
    EOFError: "is cut off: its compressed data ends early. Copy or download it again.",
}

# Control characters that text does not contain: all but white space and escape.
_UNPRINTABLE = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")

_SPARSE_LINE = re.compile(rb"\s*[-+.,\deE]+(\s+qid:\d+)?(\s+\d+:[^\s:]+)*\s*(#.*)?")


def plain_path(path: str | os.PathLike[str]) -> Path:
    """Return the Path of a file, with ``~`` expanded.

    Raise DataFileError if it does not exist, is empty, or is a folder, pipe or device.
    """
    try:
        where = Path(path).expanduser()
    except RuntimeError as error:
        raise DataFileError(
            f"{path}: there is no user {Path(path).parts[0][1:]!r} whose folder could be read; "
            "give the whole path."
        ) from error
    with convert_errors(where):
        # Opening a pipe would wait for a writer, so the type is checked first.
        status = os.stat(checked_name(where))
    if stat.S_ISDIR(status.st_mode):
        raise DataFileError(f"{where} is a folder, not a file; name one file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise DataFileError(
            f"{where} is a pipe or a device, which can be read only once; save what it holds "
            "to a file, and name that."
        )
    if status.st_size == 0:
        raise DataFileError(f"{where} is empty; copy or download it again.")
    return where


@contextmanager
def convert_errors(path: Path) -> Iterator[None]:
    """Convert errors of the operating system and of decompressors to DataFileError."""
    try:
        yield
    except (OSError, MemoryError, EOFError, lzma.LZMAError, zlib.error) as error:
        reasons = [text for cls, text in _EXPLANATIONS.items() if isinstance(error, cls)]
        # Decompressors raise OSErrors without a number.
        if isinstance(error, OSError) and error.errno is not None:
            reasons.append(f"cannot be read ({reason_of(error)}).")
        reasons.append(
            f"cannot be read ({error}). If its ending names a compression, the data is damaged or "
            "not of that kind: copy or download it again, or rename it."
        )
        name = str(path).replace("\0", "\\0")
        raise DataFileError(f"{name} {reasons[0]}") from error


def is_compressed(path: Path) -> bool:
    return path.suffix.lower() in _OPENERS


def check_uncompressed(path: Path) -> None:
    """Raise InputError if a file is compressed, because its format needs random access."""
    if is_compressed(path):
        raise InputError(
            f"{path} is compressed as a whole and cannot be read in pieces; unpack it first."
        )


@contextmanager
def open_plain(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading without limits, decompressed according to its ending."""
    opener = _OPENERS.get(path.suffix.lower(), open)
    with convert_errors(path), opener(path, "rb") as file:
        yield file


@contextmanager
def open_bytes(path: Path, limits: ReadLimits) -> Iterator[io.BufferedReader]:
    """Open a file as :func:`open_plain` does.

    Reading it raises DataFileError once it unpacks to more than the limits allow.
    """
    with open_plain(path) as file:
        yield io.BufferedReader(_LimitedBytes(path, file, limits), min(1 << 16, limits.block_bytes))


class _LimitedBytes(io.RawIOBase):
    """A file that checks its unpacked size while it is read."""

    def __init__(self, path: Path, file: IO[bytes], limits: ReadLimits) -> None:
        self._path, self._file, self._limits, self._n_bytes = path, file, limits, 0
        self._packed = path.stat().st_size if is_compressed(path) else None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        content = self._file.read(len(view))
        view[: len(content)] = content
        self._n_bytes += len(content)
        if self._packed is not None:
            self._limits.check_unpacked(self._path, self._packed, self._n_bytes)
        return len(content)


def read_line(file: IO[AnyStr], path: Path, limits: ReadLimits) -> AnyStr:
    """Return the next line, or an empty one at the end of the file.

    Raises DataFileError if the line is longer than ``max_line_bytes``, without reading all of it.
    """
    line = file.readline(int(limits.max_line_bytes) + 1)
    limits.check_line(path, len(line))
    return line


def iter_line_blocks(
    file: IO[AnyStr], path: Path, limits: ReadLimits, ends: AnyStr
) -> Iterator[AnyStr]:
    """Yield whole lines, about ``block_bytes`` at a time; lines end with characters of ``ends``."""
    while block := file.read(int(min(limits.block_bytes, limits.max_line_bytes))):
        rest = read_line(file, path, limits)
        n_unfinished = len(block) - 1 - max(map(block.rfind, ends))
        limits.check_line(path, n_unfinished + len(rest))
        yield block + rest


def iter_text_blocks(path: Path, limits: ReadLimits) -> Iterator[str]:
    """Yield blocks of whole lines of a text file, each line ended by one newline.

    Text is UTF-8, UTF-16 or else Windows-1252.
    """
    encoding = detect_encoding(path)
    decoder = _Decoder(path)
    try:
        # Latin-1 preserves the bytes until the encoding is known.
        with (
            open_bytes(path, limits) as file,
            io.TextIOWrapper(file, encoding or "latin-1", newline=None) as text,
        ):
            for block in iter_line_blocks(text, path, limits, "\n"):
                lines = block if block.endswith("\n") else f"{block}\n"
                yield lines if encoding else decoder.decode(lines)
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path} is not valid {encoding}; save it as UTF-8.") from error


class _Decoder:
    """Decodes lines as UTF-8 or Windows-1252.

    The first line that is not ASCII decides. Raises DataFileError if later lines differ from it.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._encoding, self._n_lines = path, "", 0

    def decode(self, lines: str) -> str:
        """Decode lines that were read as Latin-1."""
        content = lines.encode("latin-1")
        if self._n_lines == 0 and content.startswith(codecs.BOM_UTF8):
            content, self._encoding = content[len(codecs.BOM_UTF8) :], "utf-8"
        if not content.isascii():
            self._find_encoding(content)
        self._n_lines += content.count(b"\n")
        return content.decode(self._encoding or "ascii")

    def _find_encoding(self, content: bytes) -> None:
        if self._encoding != "cp1252" and _is_valid(content, "utf-8"):
            self._encoding = "utf-8"
            return
        for number, line in enumerate(content.split(b"\n"), start=self._n_lines + 1):
            if line.isascii():
                continue
            encoding = "utf-8" if _is_valid(line, "utf-8") else "cp1252"
            where = f"{self._path}, line {number}: "
            if self._encoding not in ("", encoding):
                names = {"utf-8": "UTF-8", "cp1252": "Windows-1252"}
                raise DataFileError(
                    f"{where}text in {names[encoding]} after lines in {names[self._encoding]}; "
                    "save the whole file as UTF-8."
                )
            if encoding == "cp1252" and not _is_valid(line, encoding):
                raise DataFileError(
                    f"{where}text that is neither UTF-8 nor Windows-1252; save the file as UTF-8."
                )
            self._encoding = encoding


def _is_valid(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def iter_lines(path: Path, limits: ReadLimits) -> Iterator[str]:
    """Yield the lines of a text file as decoded by :func:`iter_text_blocks`."""
    for block in iter_text_blocks(path, limits):
        yield from cut_lines(block)


def cut_lines(text: str) -> Iterator[str]:
    """Yield lines with their newlines; unlike str.splitlines, only a newline ends a line."""
    return (line[0] for line in re.finditer(r"[^\n]*\n", text))


def read_unpacked(path: Path, limits: ReadLimits) -> io.BytesIO:
    """Return the decompressed content of a file; raise DataFileError beyond the limits."""
    content = io.BytesIO()
    with open_bytes(path, limits) as file:
        while piece := file.read(1 << 20):
            content.write(piece)
            limits.check_memory(path, "what it unpacks to", content.tell())
    content.seek(0)
    return content


def read_head(path: Path) -> bytes:
    """Return the first bytes of the decompressed file, at least one."""
    with open_plain(path) as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise DataFileError(f"{path} is empty; copy or download it again.")
    return head


def strip_compression(name: str) -> str:
    stem, ending = os.path.splitext(name)
    return stem if ending.lower() in _OPENERS else name


def detect_format(path: Path, wanted: str | None = None) -> str:
    """Return the wanted format, or the one that the ending or the first lines of a file show.

    Raise InputError if ``wanted`` is unknown, and DataFileError if no format is found.
    """
    if wanted is not None:
        if wanted not in FORMATS:
            raise InputError(f"format must be one of {', '.join(FORMATS)}, got {wanted!r}.")
        return wanted
    ending = os.path.splitext(strip_compression(path.name))[1].lower()
    for name, endings in FORMATS.items():
        if ending in endings:
            return name
    # The names of the LIBSVM collection, such as a9a, a9a.t or letter.scale, have no usual ending.
    if _looks_like_libsvm(read_head(path)):
        return "libsvm"
    if ending in (".data", ".txt"):
        return "csv"
    raise DataFileError(
        f"{path}: the ending {ending or '(none)'} names no known format. Rename it, or say "
        f"format= one of {', '.join(FORMATS)}."
    )


def rename_by_content(path: Path) -> Path:
    """Rename a file, plain or compressed, so that its ending is that of its format."""
    compression, _ = _recognise(read_head(path))
    if compression in _OPENERS:
        path = path.rename(path.with_name(path.name + compression))
    else:
        compression = ""
    head = read_head(path)
    lines = [line for line in head.split(b"\n") if line.strip()]
    is_arff = bool(lines) and lines[0].lstrip().lower().startswith((b"%", b"@relation"))
    text = ".libsvm" if _looks_like_libsvm(head) else ".arff" if is_arff else ".csv"
    stem = strip_compression(path.name)
    return path.rename(path.with_name(stem + (_recognise(head)[0] or text) + compression))


def _recognise(head: bytes) -> tuple[str, str]:
    """Return the ending and the description of binary data, two empty strings for other data."""
    return next((entry for magic, entry in _MAGIC.items() if head.startswith(magic)), ("", ""))


def _looks_like_libsvm(head: bytes) -> bool:
    lines = head.split(b"\n")
    if len(head) == HEAD_BYTES:
        lines = lines[:-1] if len(lines) > 1 else [head.rpartition(b" ")[0]]
    bodies = [line for line in lines[:10] if line.split(b"#")[0].strip()]
    return any(b":" in line.split(b"#")[0] for line in bodies) and all(
        _SPARSE_LINE.fullmatch(line) for line in bodies
    )


def detect_encoding(path: Path) -> str | None:
    """Return the variant of UTF-16 of a text file, or None for another encoding.

    Raises DataFileError if the file is not text.
    """
    head = read_head(path)
    # Before UTF-16, because the byte order mark of UTF-32 starts with that of UTF-16.
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise DataFileError(f"{path} is text in UTF-32; save it as UTF-8.")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if description := _recognise(head)[1]:
        raise DataFileError(f"{path} is not text but {description}.")
    for half, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        # Without a byte order mark, the high bytes show the encoding: they are 0 in Latin text.
        high_bytes, text = head[half::2], head.decode(encoding, "ignore").encode()
        if 2 * high_bytes.count(0) > len(high_bytes) and not _UNPRINTABLE.search(text):
            return encoding
    if match := _UNPRINTABLE.search(head):
        raise DataFileError(
            f"{path} is not text: byte {match.start()} is {match[0][0]:#04x}. "
            "Check its ending, or say format=."
        )
    return None


def shorten(text: str) -> str:
    """Return a cell in quotes for a message, cut to 40 characters."""
    return repr(text if len(text) <= 40 else text[:40] + "...")
