"""Run cases in worker processes, and count crashes, hangs and excessive memory."""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from harness.process import Worker

# Time limit for imports and compilation, which are not part of a case.
_START_SECONDS = 300.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case in a few words, with the traceback or stack dump of a failure."""

    number: int
    environment: str
    held: bool
    kind: str
    detail: str = ""
    seconds: float = 0.0
    memory: int = 0  # bytes by which the peak exceeds the memory before the case


class Cases:
    """Runs cases of one campaign one at a time, in a process that is replaced if it fails."""

    def __init__(self, campaign: str, environment: str, variables: dict[str, str], seed: int):
        self.environment = environment
        self._command = [sys.executable, "-m", "campaigns.worker", campaign, str(seed)]
        self._variables = variables
        self._worker: Worker | None = None

    def run(self, number: int, seconds: float) -> Outcome:
        """Run one case; a worker that dies or does not answer in time is replaced."""
        worker = self._ready_worker()
        start = time.monotonic()
        worker.send(str(number))
        kind = ""
        try:
            if line := worker.receive(seconds):
                return Outcome(environment=self.environment, **json.loads(line))
        except TimeoutError:
            kind = f"stuck: nothing for {seconds:g} s"
            worker.abort()
        self.stop()
        code = worker.wait()
        kind = kind or (f"killed by signal {-code}" if code < 0 else f"exit code {code}")
        detail, elapsed = worker.errors()[-8000:], time.monotonic() - start
        return Outcome(number, self.environment, False, kind, detail, elapsed)

    def stop(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def _ready_worker(self) -> Worker:
        if self._worker is None:
            self._worker = worker = Worker(self._command, self._variables)
            try:
                line = worker.receive(_START_SECONDS)
            except TimeoutError:
                line = b""
            if line != b"ready\n":
                self.stop()
                raise RuntimeError(f"{self._command} does not start:\n{worker.errors()}")
        return self._worker


def load(campaign: str) -> ModuleType:
    return import_module(f"campaigns.{campaign}")


def run(campaign: str, numbers: range | list[int], seed: int, n_workers: int) -> Iterator[Outcome]:
    """Yield outcomes as cases end, from ``n_workers`` processes per environment."""
    module = load(campaign)
    environments: dict[str, dict[str, str]] = module.ENVIRONMENTS
    waiting: queue.Queue[int] = queue.Queue()
    for number in numbers:
        waiting.put(number)
    outcomes: queue.Queue[Outcome | Exception | None] = queue.Queue()

    def work() -> None:
        names = list(environments)
        workers: dict[str, Cases] = {}
        try:
            while True:
                number = waiting.get_nowait()
                name = names[number % len(names)]
                if name not in workers:
                    workers[name] = Cases(campaign, name, environments[name], seed)
                outcomes.put(workers[name].run(number, module.SECONDS))
        except queue.Empty:
            outcomes.put(None)
        except Exception as error:
            outcomes.put(error)
        finally:
            for worker in workers.values():
                worker.stop()

    for _ in range(n_workers):
        threading.Thread(target=work, daemon=True).start()
    running = n_workers
    while running:
        outcome = outcomes.get()
        if outcome is None:
            running -= 1
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            yield outcome
