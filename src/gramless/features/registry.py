"""Feature maps by name; each is imported when it is first used."""

from __future__ import annotations

from importlib import import_module

from gramless.base.errors import InputError
from gramless.features.base import SizedMap

# The class of each named feature map, or its import path.
FEATURE_MAPS: dict[str, str | type[SizedMap]] = {
    "binning": "gramless.features.binning.RandomBinning",
    "smooth": "gramless.features.smooth.SmoothBinning",
    "fourier": "gramless.features.fourier.RandomFourier",
    "nystrom": "gramless.features.nystrom.Nystrom",
    "exact": "gramless.features.exact.ExactKernel",
}


def map_class(name: str) -> type[SizedMap]:
    """Return the class of a feature map, or raise ``InputError`` if the name is unknown."""
    if name == "blocks":
        raise InputError(
            "features 'blocks' left gramless after version 0.2.0; use 'nystrom' or 'binning'. "
            "IndependentBlocks is in studies/baselines/blocks.py of the repository."
        )
    if name not in FEATURE_MAPS:
        names = ", ".join(map(repr, FEATURE_MAPS))
        raise InputError(f"unknown features {name!r}; use one of {names} or a feature map.")
    feature_map = FEATURE_MAPS[name]
    if isinstance(feature_map, str):
        module, _, class_name = feature_map.rpartition(".")
        feature_map = vars(import_module(module))[class_name]
        assert isinstance(feature_map, type)
    return feature_map
