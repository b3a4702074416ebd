"""A worker process: reads case numbers, and writes each outcome as a line of JSON."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import sys
import time
import traceback

from campaigns.harness import load
from harness.memory import peak_memory, reset_peak
from harness.process import answers, requests


def main() -> None:
    campaign, seed = sys.argv[1], int(sys.argv[2])
    faulthandler.enable(all_threads=True)
    # Cases may print, so that answers need a separate channel.
    lines = answers()
    module = load(campaign)
    if hasattr(module, "prepare"):
        module.prepare(seed)
    lines.write("ready\n")
    for line in requests():
        number = int(line)
        with contextlib.suppress(OSError):
            reset_peak()
        before, start = peak_memory(), time.monotonic()
        held, detail = True, ""
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                kind = module.check(number, seed)
        except BaseException as error:
            held, kind, detail = False, type(error).__name__, traceback.format_exc()[-8000:]
        memory = int(peak_memory() - before)
        if held and memory > module.MEMORY:
            held, kind, detail = False, "memory", f"{memory >> 20} MB, {kind}"
        seconds = time.monotonic() - start
        answer = dict(
            number=number, held=held, kind=kind, detail=detail, seconds=seconds, memory=memory
        )
        lines.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
