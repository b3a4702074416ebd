"""The same kernel machines on a Dask cluster: to the bit, whatever the number of workers.

Needs the extra ``dask``: ``pip install "gramless[dask]"``.

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
