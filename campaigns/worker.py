"""One worker process: reads numbers of cases, writes how they ended, a line of JSON each."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import os
import sys
import time
import traceback
from pathlib import Path

from campaigns.harness import load


def peak_bytes() -> int:
    """Return the largest resident size since :func:`forget_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    return 0


def forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    campaign, seed = sys.argv[1], int(sys.argv[2])
    faulthandler.enable(all_threads=True)
    # Cases may print: answers have a channel of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    module = load(campaign)
    if hasattr(module, "prepare"):
        module.prepare(seed)
    answers.write("ready\n")
    for line in sys.stdin:
        number = int(line)
        forget_peak()
        before, begun = peak_bytes(), time.monotonic()
        held, detail = True, ""
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                kind = module.check(number, seed)
        except BaseException as error:
            held, kind, detail = False, type(error).__name__, traceback.format_exc()[-8000:]
        memory = peak_bytes() - before
        if held and memory > module.MEMORY:
            held, kind, detail = False, "memory", f"{memory >> 20} MB, {kind}"
        seconds = time.monotonic() - begun
        answer = dict(
            number=number, held=held, kind=kind, detail=detail, seconds=seconds, memory=memory
        )
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
