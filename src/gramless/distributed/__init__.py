"""Kernel machines on a Dask cluster, with the same bits for any number of workers.

The module needs the extra ``dask``: ``pip install "gramless[dask]"``.

Examples
--------
>>> from gramless.distributed import DaskKernelClassifier
>>> DaskKernelClassifier(effort=1)
DaskKernelClassifier(effort=1)
"""

from __future__ import annotations

from importlib.util import find_spec

from gramless.base.errors import MissingDependencyError

if find_spec("distributed") is None or find_spec("dask") is None:
    raise MissingDependencyError(
        'gramless.distributed needs dask and distributed; pip install "gramless[dask]".'
    )

from gramless.distributed.estimators import (
    DaskKernelClassifier,
    DaskKernelRegressor,
)

__all__ = ["DaskKernelClassifier", "DaskKernelRegressor"]
