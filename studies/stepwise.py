"""Runs that call back after every step, as generators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Queue
from threading import Thread
from typing import Any


def steps_of(run: Callable[[Callable[..., bool]], Any]) -> Iterator[tuple[Any, ...]]:
    """Yield what a run tells its callback; the run stands still in between.

    Parameters
    ----------
    run : callable
        ``run(callback)`` calls ``callback(...)`` after every step, and ends soon when that is True.

    Yields
    ------
    tuple
        The callback's arguments. Closing the generator ends the run.

    Raises
    ------
    Exception
        What the run raises.

    Notes
    -----
    The run has a thread of its own; never do both threads work at a time.

    Examples
    --------
    >>> list(steps_of(lambda callback: [callback(k, 2 * k) for k in range(3)]))
    [(0, 0), (1, 2), (2, 4)]
    """
    told: Queue[Any] = Queue()
    asked_to_stop: Queue[bool] = Queue()

    def callback(*arguments: Any) -> bool:
        told.put(arguments)
        return asked_to_stop.get()

    def work() -> None:
        try:
            run(callback)
            told.put(None)
        except BaseException as fault:
            told.put(fault)

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        while (step := told.get()) is not None:
            if isinstance(step, BaseException):
                raise step
            yield step
            asked_to_stop.put(False)
    finally:
        asked_to_stop.put(True)
        thread.join()
