"""Worker processes that answer requests line by line, with timeouts."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from io import FileIO, TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
_TRACEBACK_SECONDS = 30.0  # How long a process may take to print tracebacks when it is aborted.


class Worker:
    r"""A process that reads one request per line and writes its answers as lines.

    ``PYTHONPATH`` includes the repository, whose packages other than gramless are not installed.
    The process ends with this one if it reads its requests by :func:`requests`.

    Parameters
    ----------
    command : sequence of str
    environment : mapping of str to str, default={}
        Environment variables, in addition to those of this process.

    Examples
    --------
    >>> with Worker([sys.executable, "-c", "print(input() + '!')"]) as worker:
    ...     worker.send("ready")
    ...     worker.receive(timeout=60.0), worker.receive(timeout=60.0), worker.wait()
    (b'ready!\n', b'', 0)
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        path = os.pathsep.join(filter(None, paths))
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - read after the process ends
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            start_new_session=True,
        )
        threading.Thread(target=self._read_lines, daemon=True).start()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def send(self, request: str) -> None:
        """Write a line to the standard input of the process; do nothing if it has ended."""
        pipe: Any = self._process.stdin
        with contextlib.suppress(OSError):
            pipe.write(f"{request}\n".encode())
            pipe.flush()

    def receive(self, timeout: float) -> bytes:
        """Return the next line of the output, or ``b""`` after its end.

        Parameters
        ----------
        timeout : float
            Seconds.

        Raises
        ------
        TimeoutError
            If there is no line within this time.
        """
        try:
            return self._lines.get(timeout=max(0.0, timeout))
        except queue.Empty:
            raise TimeoutError(f"no answer for {timeout:g} s") from None

    def wait(self) -> int:
        """Wait for the process and return its exit code, negative if a signal ended it."""
        return self._process.wait()

    def errors(self) -> str:
        """Return the standard error output so far."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def abort(self) -> None:
        """Abort the process; it prints tracebacks of its threads if it enabled faulthandler."""
        self._process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TRACEBACK_SECONDS)

    def end(self) -> None:
        """Kill the process and, on POSIX, its children."""
        if self._process.poll() is None:
            if os.name == "posix":
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
        self._process.wait()
        pipe: Any = self._process.stdin
        with contextlib.suppress(OSError):
            pipe.close()

    def _read_lines(self) -> None:
        pipe: Any = self._process.stdout
        with pipe:
            for line in pipe:
                self._lines.put(line)
        self._lines.put(b"")


def requests() -> Iterator[str]:
    """Yield the requests to this process, and exit the process when its input is closed.

    Yields
    ------
    str
        A line without the line feed.
    """
    lines: queue.Queue[str] = queue.Queue()

    def read_lines() -> None:
        # A thread blocked in sys.stdin would hold its lock when the interpreter shuts down.
        for line in FileIO(0, closefd=False):
            lines.put(line.decode().rstrip("\n"))
        os._exit(1)

    threading.Thread(target=read_lines, daemon=True).start()
    while True:
        yield lines.get()


def answers() -> IO[str]:
    """Return a file for answers, and redirect everything else printed to the standard error.

    Returns
    -------
    text file
        The original standard output, line-buffered.
    """
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)
    if isinstance(sys.stdout, TextIOWrapper):
        # Buffered lines would be lost if the process is killed.
        sys.stdout.reconfigure(line_buffering=True)
    return os.fdopen(output, "w", buffering=1, encoding="utf-8")


def run_script(
    script: Path, job: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run ``script JOB`` in a new process and return the JSON object that it prints.

    Parameters
    ----------
    script : Path
    job : mapping
        Passed to the script as its only argument, as JSON.
    environment : mapping of str to str, default={}
        Environment variables, in addition to those of this process.

    Raises
    ------
    subprocess.CalledProcessError
        If the script fails.
    """
    completed = subprocess.run(
        [sys.executable, str(script), json.dumps(job)],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(json.loads(completed.stdout))
