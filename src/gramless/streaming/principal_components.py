"""Principal components of a stream, from its covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.state import Stateful, array_in
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import FloatArray
from gramless.preprocessing.rows import Rows, check_width
from gramless.streaming.chunk_checks import is_sparse
from gramless.streaming.summary_statistics import Summary


@dataclass(frozen=True, eq=False, repr=False)
class Projection(Stateful):
    """A projection of rows to linear combinations of their centred inputs."""

    mean: FloatArray  # (n_features,)
    components: FloatArray  # (n_features, n_components)

    def check(self) -> None:
        mean = array_in(vars(self), "mean", np.float64, (None,), finite=True)
        array_in(vars(self), "components", np.float64, (len(mean), None), finite=True)

    @classmethod
    def from_summary(cls, summary: Summary, n_components: int) -> Self:
        """Return the projection to the principal components, as in scikit-learn's PCA.

        The entry of largest magnitude of each component is positive, and components without
        variance are left out. The cost is ``O(n_features^3)``.
        """
        if summary.covariance is None:
            raise InputError("Principal components need the covariance: summarise with it.")
        width = len(summary.mean)
        if not 1 <= n_components <= width:
            raise InputError(
                f"n_components must be from 1 to the {width} inputs, got {n_components}."
            )
        with one_blas_thread():
            values, vectors = scipy.linalg.eigh(summary.covariance)
        rounding_error = width * np.finfo(np.float64).eps * values[-1]
        chosen = [j for j in range(width - 1, -1, -1) if values[j] > rounding_error][:n_components]
        if not chosen:
            raise InputError("All rows of the stream are equal; they have no principal components.")
        components = vectors[:, chosen]
        largest = np.argmax(np.abs(components), axis=0)
        components = components * np.sign(components[largest, np.arange(len(chosen))])
        return cls(summary.mean, np.ascontiguousarray(components))

    def apply(
        self, X: Rows, n_jobs: int | None = None, block_rows: int = 4096, block_bytes: int = 1 << 25
    ) -> NDArray[np.float32]:
        """Return ``(X - mean) @ components``, computed in float64 in blocks of limited size."""
        check_width("Projection", X, len(self.mean))
        projected = np.empty((X.shape[0], self.components.shape[1]), np.float32)

        def fill(start: int, stop: int) -> None:
            rows = X[start:stop].toarray() if is_sparse(X) else X[start:stop]
            projected[start:stop] = (rows - self.mean) @ self.components

        n_rows = max(1, min(block_rows, block_bytes // (8 * X.shape[1])))
        with one_blas_thread():
            map_blocks(fill, row_blocks(X.shape[0], n_rows), n_jobs)
        return projected
