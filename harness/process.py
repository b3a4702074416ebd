"""Jobs in processes of their own: started, listened to, ended when they take too long."""

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
"""The repository; its packages beside the library are not installed."""
_LAST_WORDS_SECONDS = 30.0


class Worker:
    r"""A process that reads requests, a line each, and answers in lines.

    It finds the packages of the repository. It ends when this one does if it reads its requests by
    :func:`requests`.

    Parameters
    ----------
    command : sequence of str
    environment : mapping of str to str, default={}
        Variables beside those of this process.

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
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            start_new_session=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

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
        """Write a line that the process can read; nothing if it has ended."""
        pipe: Any = self._process.stdin
        with contextlib.suppress(OSError):
            pipe.write(f"{request}\n".encode())
            pipe.flush()

    def receive(self, timeout: float) -> bytes:
        """Return the next line of its output; nothing once the output has ended.

        Parameters
        ----------
        timeout : float
            Seconds.

        Raises
        ------
        TimeoutError
            If there is no line in this time.
        """
        try:
            return self._lines.get(timeout=max(0.0, timeout))
        except queue.Empty:
            raise TimeoutError(f"no answer for {timeout:g} s") from None

    def wait(self) -> int:
        """Wait for its end and return the exit code, negative if a signal has ended it."""
        return self._process.wait()

    def errors(self) -> str:
        """Return what it has written to its standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def abort(self) -> None:
        """Ask it to end with the stacks of its threads as last words, if it enabled these."""
        self._process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WORDS_SECONDS)

    def end(self) -> None:
        """End it by force, and all that it has started."""
        if self._process.poll() is None:
            if os.name == "posix":
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
        self._process.wait()
        pipe: Any = self._process.stdin
        with contextlib.suppress(OSError):
            pipe.close()

    def _listen(self) -> None:
        pipe: Any = self._process.stdout
        with pipe:
            for line in pipe:
                self._lines.put(line)
        self._lines.put(b"")


def requests() -> Iterator[str]:
    """Yield the requests to this process, which is ended once nobody can send more.

    Yields
    ------
    str
        A line without its end.
    """
    lines: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        # Not by sys.stdin, whose lock a thread that waits would hold at the end of the process.
        for line in FileIO(0, closefd=False):
            lines.put(line.decode().rstrip("\n"))
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        yield lines.get()


def answers() -> IO[str]:
    """Keep the standard output for answers; what others print goes to the standard error.

    Returns
    -------
    text file
        Each line is sent as soon as it ends.
    """
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    if isinstance(sys.stdout, TextIOWrapper):
        # Lines in a buffer are lost where a process is killed.
        sys.stdout.reconfigure(line_buffering=True)
    return os.fdopen(own, "w", buffering=1, encoding="utf-8")


def run_script(
    script: Path, job: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run ``script JOB`` in a new process and return the JSON that it prints.

    Parameters
    ----------
    script : Path
    job : mapping
        Its only argument, as JSON.
    environment : mapping of str to str, default={}
        Variables beside those of this process.

    Raises
    ------
    subprocess.CalledProcessError
        If it fails.
    """
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(job)],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))
