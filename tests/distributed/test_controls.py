"""Options for fits on one machine raise an error before a cluster is used."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.distributed import DaskKernelClassifier, DaskKernelRegressor

X, Y = np.arange(20.0).reshape(10, 2), np.arange(10) % 2


@pytest.mark.parametrize("kind", [DaskKernelRegressor, DaskKernelClassifier])
def test_single_machine_options_are_rejected(kind):
    for given in ({"warm_start": True}, {"monotonic_cst": [1, 0]}):
        with pytest.raises(InputError, match="for fits on one machine"):
            kind(**given).fit(X, Y)
    with pytest.raises(InputError, match="eval_set is for fits on one machine"):
        kind().fit(X, Y, eval_set=(X, Y))
    with pytest.raises(InputError, match="no partial_fit"):
        kind().partial_fit(X, Y)
