"""Feature maps by name; each loads on first use."""

from __future__ import annotations

from importlib import import_module

from gramless.base.errors import InputError
from gramless.features.base import SizedMap

FEATURE_MAPS: dict[str, str | type[SizedMap]] = {
    "binning": "gramless.features.binning.RandomBinning",
    "smooth": "gramless.features.smooth.SmoothBinning",
    "fourier": "gramless.features.fourier.RandomFourier",
    "nystrom": "gramless.features.nystrom.Nystrom",
    "exact": "gramless.features.exact.ExactKernel",
}
"""Every feature map that has a name: its class, or where that is found."""


def map_class(name: str) -> type[SizedMap]:
    """Return the class of a feature map by its name; ``InputError`` for an unknown one."""
    if name == "blocks":
        raise InputError(
            "features 'blocks' left gramless after version 0.2.0; use 'nystrom' or 'binning'. "
            "IndependentBlocks is in studies/baselines/blocks.py of the repository."
        )
    if name not in FEATURE_MAPS:
        names = ", ".join(map(repr, FEATURE_MAPS))
        raise InputError(f"unknown features {name!r}; use one of {names} or a feature map.")
    found = FEATURE_MAPS[name]
    if isinstance(found, str):
        home, _, kind = found.rpartition(".")
        found = vars(import_module(home))[kind]
        assert isinstance(found, type)
    return found
