"""Renumbering of bins."""

from __future__ import annotations

from gramless.loops.compile import loop


@loop
def renumber(codes, numbers, out):
    """Compute ``out[i] = numbers[codes[i]]``."""
    for i in range(len(codes)):
        out[i] = numbers[codes[i]]
