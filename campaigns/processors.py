"""Simulate older processors by settings that limit NumPy, OpenBLAS and numba to their instructions.

``python -m campaigns.processors avx2 COMMAND ...`` runs a command with these settings. Sums then
have another order, and other instructions are compiled, so that tests are checked for other
machines.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np

KINDS = ("avx2", "generic")
X86 = platform.machine().lower() in ("x86_64", "amd64")


def settings(kind: str) -> dict[str, str]:
    """Return the environment variables that simulate a processor.

    Parameters
    ----------
    kind : {"avx2", "generic"}
        An x86 processor without AVX-512, or one with only the instructions that all processors of
        this architecture have, as far as the packages support it.

    Raises
    ------
    ValueError
        If this machine cannot simulate the processor.
    """
    if kind not in KINDS or (kind == "avx2" and not X86):
        raise ValueError(f"{platform.machine()} cannot simulate {kind!r}; use one of {KINDS}.")
    extensions = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    newer = ("AVX512", "X86_V4") if kind == "avx2" else ("",)
    variables = {
        "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in extensions if name.startswith(newer)),
        "NUMBA_CPU_NAME": "haswell" if kind == "avx2" else "generic",
        "NUMBA_CPU_FEATURES": "",
    }
    if X86:
        variables["OPENBLAS_CORETYPE"] = "Haswell" if kind == "avx2" else "Prescott"
    return variables


if __name__ == "__main__":
    sys.exit(subprocess.call(sys.argv[2:], env={**os.environ, **settings(sys.argv[1])}))
