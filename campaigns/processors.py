"""Older processors: settings that hold NumPy, OpenBLAS and numba to what they can do.

``python -m campaigns.processors avx2 COMMAND ...`` runs a command so. Sums then take another
order, and other instructions are compiled: tests that pass hold on other machines too.
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
    """Return environment variables.

    Parameters
    ----------
    kind : {"avx2", "generic"}
        An x86 processor without AVX-512; or one with nothing but what all of this
        architecture have, as far as the packages go down.

    Raises
    ------
    ValueError
        If this machine cannot do as one of that kind.
    """
    if kind not in KINDS or (kind == "avx2" and not X86):
        raise ValueError(f"{platform.machine()} cannot do as {kind!r}: use one of {KINDS}.")
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    newer = ("AVX512", "X86_V4") if kind == "avx2" else ("",)
    chosen = {
        "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in found if name.startswith(newer)),
        "NUMBA_CPU_NAME": "haswell" if kind == "avx2" else "generic",
        "NUMBA_CPU_FEATURES": "",
    }
    if X86:
        chosen["OPENBLAS_CORETYPE"] = "Haswell" if kind == "avx2" else "Prescott"
    return chosen


if __name__ == "__main__":
    sys.exit(subprocess.call(sys.argv[2:], env={**os.environ, **settings(sys.argv[1])}))
