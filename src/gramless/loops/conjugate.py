"""Fused vector operations of conjugate gradients, which read each array once per step.

All arrays are blocks of the rows of (n_columns, K); callers add the sums of blocks in order.
"""

from __future__ import annotations

from gramless.loops.compile import reordering_loop


@reordering_loop
def add_ridge(direction, ridge, product, curvature):
    """Compute ``product += ridge * direction`` and ``curvature[k] = sum direction * product``."""
    n_rows, n_columns = product.shape
    for k in range(n_columns):
        curvature[k] = 0.0
    if n_columns == 1:
        total = 0.0
        for i in range(n_rows):
            product[i, 0] += ridge[i] * direction[i, 0]
            total += direction[i, 0] * product[i, 0]
        curvature[0] = total
        return
    for i in range(n_rows):
        for k in range(n_columns):
            product[i, k] += ridge[i] * direction[i, k]
            curvature[k] += direction[i, k] * product[i, k]


@reordering_loop
def advance(length, direction, product, inverse, weights, residual, energy):
    """Update the weights and the residual, and compute the squared norms of the residual.

    ``weights += length * direction``, ``residual -= length * product``,
    ``energy[k] = sum inverse * residual**2``.
    """
    n_rows, n_columns = residual.shape
    for k in range(n_columns):
        energy[k] = 0.0
    if n_columns == 1:
        step, total = length[0], 0.0
        for i in range(n_rows):
            weights[i, 0] += step * direction[i, 0]
            r = residual[i, 0] - step * product[i, 0]
            residual[i, 0] = r
            total += inverse[i] * r * r
        energy[0] = total
        return
    for i in range(n_rows):
        for k in range(n_columns):
            weights[i, k] += length[k] * direction[i, k]
            r = residual[i, k] - length[k] * product[i, k]
            residual[i, k] = r
            energy[k] += inverse[i] * r * r


@reordering_loop
def redirect(ratio, residual, inverse, direction):
    """Compute ``direction = inverse * residual + ratio * direction``."""
    n_rows, n_columns = residual.shape
    if n_columns == 1:
        factor = ratio[0]
        for i in range(n_rows):
            direction[i, 0] = inverse[i] * residual[i, 0] + factor * direction[i, 0]
        return
    for i in range(n_rows):
        for k in range(n_columns):
            direction[i, k] = inverse[i] * residual[i, k] + ratio[k] * direction[i, k]


@reordering_loop
def add_multiple(factors, other, target):
    """Compute ``target += factors * other``."""
    n_rows, n_columns = target.shape
    if n_columns == 1:
        factor = factors[0]
        for i in range(n_rows):
            target[i, 0] += factor * other[i, 0]
        return
    for i in range(n_rows):
        for k in range(n_columns):
            target[i, k] += factors[k] * other[i, k]


@reordering_loop
def apply_softmax_curvature(row_weights, probabilities, responses):
    """Multiply each row of the responses by ``s (diag(p) - p p')``, in place."""
    n_rows, n_columns = responses.shape
    for i in range(n_rows):
        mean = 0.0
        for k in range(n_columns):
            mean += probabilities[i, k] * responses[i, k]
        weight = row_weights[i]
        for k in range(n_columns):
            responses[i, k] = weight * probabilities[i, k] * (responses[i, k] - mean)
