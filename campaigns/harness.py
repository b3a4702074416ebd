"""Cases in watched worker processes: crashes, hangs and too much memory are counted."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_START_SECONDS = 300.0
"""Importing and compiling are not part of a case."""


@dataclass(frozen=True)
class Outcome:
    """How one case ended.

    Parameters
    ----------
    number : int
    environment : str
        A name from the campaign's ``ENVIRONMENTS``.
    held : bool
        Whether the promise was kept.
    kind : str
        A few words; counted.
    detail : str
        Traceback or stack dump of a case that failed.
    seconds : float
    memory : int
        Bytes at the peak beyond those before the case.
    """

    number: int
    environment: str
    held: bool
    kind: str
    detail: str = ""
    seconds: float = 0.0
    memory: int = 0


@dataclass
class Worker:
    """A process that runs cases of one campaign, one at a time."""

    campaign: str
    environment: str
    variables: dict[str, str]
    seed: int
    process: subprocess.Popen[str] | None = None
    _lines: queue.Queue[str] = field(default_factory=queue.Queue)
    _errors: Any = None

    def run(self, number: int, seconds: float) -> Outcome:
        """Run one case; a worker that dies or is silent for too long is replaced."""
        self._start()
        assert self.process is not None
        assert self.process.stdin is not None
        begun = time.monotonic()
        try:
            self.process.stdin.write(f"{number}\n")
            self.process.stdin.flush()
            line = self._lines.get(timeout=seconds)
        except (queue.Empty, OSError):
            return self._failed(number, f"stuck: nothing for {seconds:g} s", begun)
        if not line:
            return self._failed(number, "", begun)
        return Outcome(environment=self.environment, **json.loads(line))

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _start(self) -> None:
        if self.process is not None and self.process.poll() is None:
            return
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the process
        self._lines = queue.Queue()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "campaigns.worker", self.campaign, str(self.seed)],
            cwd=ROOT,
            env={**os.environ, **self.variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        threading.Thread(target=self._listen, args=(self.process, self._lines), daemon=True).start()
        try:
            line = self._lines.get(timeout=_START_SECONDS)
        except queue.Empty:
            line = ""
        if line.strip() != "ready":
            self._errors.seek(0)
            raise RuntimeError(f"campaign {self.campaign} does not start:\n{self._errors.read()}")

    @staticmethod
    def _listen(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put("")

    def _failed(self, number: int, kind: str, begun: float) -> Outcome:
        assert self.process is not None
        if kind:
            # faulthandler writes the stack of every thread before the process ends.
            self.process.send_signal(signal.SIGABRT)
        try:
            code = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._errors.seek(0)
        self.process = None
        kind = kind or (f"killed by signal {-code}" if code < 0 else f"exit code {code}")
        seconds = time.monotonic() - begun
        return Outcome(number, self.environment, False, kind, self._errors.read()[-8000:], seconds)


def load(campaign: str) -> ModuleType:
    return import_module(f"campaigns.{campaign}")


def run(campaign: str, numbers: range | list[int], seed: int, n_workers: int) -> Iterator[Outcome]:
    """Yield the outcomes of some cases, as they come.

    Parameters
    ----------
    campaign : str
        The name of a module of this package.
    numbers : sequence of int
        Which cases.
    seed : int
    n_workers : int
        Processes of each environment.
    """
    module = load(campaign)
    environments: dict[str, dict[str, str]] = module.ENVIRONMENTS
    waiting: queue.Queue[int] = queue.Queue()
    for number in numbers:
        waiting.put(number)
    outcomes: queue.Queue[Outcome | Exception | None] = queue.Queue()

    def work(shift: int) -> None:
        names = list(environments)
        workers: dict[str, Worker] = {}
        try:
            while True:
                number = waiting.get_nowait()
                name = names[number % len(names)]
                if name not in workers:
                    workers[name] = Worker(campaign, name, environments[name], seed)
                outcomes.put(workers[name].run(number, module.SECONDS))
        except queue.Empty:
            outcomes.put(None)
        except Exception as error:
            outcomes.put(error)
        finally:
            for worker in workers.values():
                worker.stop()

    for k in range(n_workers):
        threading.Thread(target=work, args=(k,), daemon=True).start()
    running = n_workers
    while running:
        outcome = outcomes.get()
        if outcome is None:
            running -= 1
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            yield outcome
