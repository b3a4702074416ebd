"""Model files for the verbs that apply them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from gramless.base.errors import InputError
from gramless.cli.reading import encoder_of, read_data

if TYPE_CHECKING:
    from gramless.cli.reading import Predictor
    from gramless.datasets import Table


def load_predictor(path: Path, n_jobs: int | None) -> Predictor:
    """Load a model that predicts; ``n_jobs`` threads, None keeps the model's own setting."""
    from gramless import load
    from gramless.estimators.base import KernelMachine
    from gramless.estimators.streamed import StreamedMachine

    model = load(path)
    if not isinstance(model, (KernelMachine, StreamedMachine)):
        raise InputError(f"{path} holds a {type(model).__name__}, which predicts nothing.")
    if isinstance(model, StreamedMachine):
        # Columns are matched by name before; scikit-learn would warn of arrays without names.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
    if n_jobs is not None:
        model.n_jobs = n_jobs
        if isinstance(model, KernelMachine):
            model.features_.n_jobs = n_jobs
    return model


def is_streamed(model: object) -> bool:
    """Tell whether a model has learned from a stream, and so has no grids and no search."""
    from gramless.estimators.streamed import StreamedMachine

    return isinstance(model, StreamedMachine)


def read_for(model: Predictor, path: Path, part: str, limits: str = "") -> Table:
    """Read a table with the categories that the model knows kept as text."""
    encoder = encoder_of(model)
    if encoder is None:
        return read_data(path, part=part, n_features=model.n_features_in_, limits=limits)
    return read_data(path, part=part, categorical=encoder.categorical, limits=limits)
