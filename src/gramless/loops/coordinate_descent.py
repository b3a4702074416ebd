"""Proximal coordinate descent on a Gram matrix or on a matrix stored by columns.

A matrix stored by columns (SciPy's CSC) is (starts, rows, values): column j has the non-zeros
``starts[j]:starts[j + 1]``. A loss is a number and at most two parameters, because a compiled loop
cannot call Python. A penalty is (l1, l2, n_penalised); columns from ``n_penalised`` on have none.
"""

from __future__ import annotations

import numpy as np

from gramless.loops import atomics
from gramless.loops.compile import allocating_loop, loop

SQUARED, SQUARED_HINGE, LOGISTIC, HUBER, PINBALL = range(5)  # numbers of the losses


@loop
def proximal(w, gradient, curvature, l1, l2):
    """Minimise ``gradient (v - w) + curvature/2 (v - w)^2 + l1 |v| + l2/2 v^2`` over ``v``.

    These are equations 24 and 26 of RB16, with an elastic net. If the curvature is 0, the gradient
    is ignored: the result is 0 with a penalty, and ``w`` without one.
    """
    if curvature == 0.0:
        return 0.0 if l1 + l2 > 0.0 else w
    v = curvature * w - gradient
    slack = abs(v) - l1
    return 0.0 if slack <= 0.0 else np.copysign(slack, v) / (curvature + l2)


@loop
def sweep(gram, gradient, weights, l1, l2, orders, tol):
    """Minimise over one weight after the other, and return the number of sweeps.

    The objective is ``gradient d + d' gram d / 2`` in the change ``d`` of the weights, plus the
    penalties ``l1`` (n,) and ``l2`` (n,) of the weights; ``weights`` and ``gradient`` are updated.
    ``orders`` are (n_sweeps, n). Sweeps end early if all changes, in units of the gradient, are at
    most ``tol``.
    """
    n_sweeps, n = orders.shape
    for s in range(n_sweeps):
        worst = 0.0
        for q in range(n):
            j = orders[s, q]
            new = proximal(weights[j], gradient[j], gram[j, j], l1[j], l2[j])
            move = new - weights[j]
            if move != 0.0:
                weights[j] = new
                for i in range(n):
                    gradient[i] += move * gram[j, i]
                worst = max(worst, abs(move) * (gram[j, j] + l2[j]))
        if worst <= tol:
            return s + 1
    return n_sweeps


@loop
def loss_gradient(code, p, q, z, y):
    """Return ``dL/dz`` of one row for the loss ``code`` with the parameters ``p`` and ``q``.

    For Huber, ``p`` is the threshold. For pinball, ``p`` is the quantile and ``q`` the largest
    distance from the corner at which the loss is smoothed. Other losses have no parameters.
    """
    if code == SQUARED:
        return z - y
    if code == SQUARED_HINGE:
        return -y * max(0.0, 1.0 - y * z)
    if code == LOGISTIC:
        return -y / (1.0 + np.exp(y * z))
    if code == HUBER:
        return min(max(z - y, -p), p)
    return min(max(z - y, -q), q) / (2.0 * q) + 0.5 - p


@loop
def _step(j, matrix, row_weights, targets, responses, curvatures, loss, penalty, weights):
    """Return the step of weight j at the current responses (RB16, equations 25 and 26)."""
    starts, rows, values = matrix
    code, p, q = loss
    l1, l2, n_penalised = penalty
    gradient = 0.0
    for k in range(starts[j], starts[j + 1]):
        i = rows[k]
        slope = loss_gradient(code, p, q, atomics.load(responses, i), targets[i])
        gradient += values[k] * row_weights[i] * slope
    penalised = j < n_penalised
    w = atomics.load(weights, j)
    return proximal(w, gradient, curvatures[j], l1 * penalised, l2 * penalised) - w


@allocating_loop
def simultaneous_steps(
    uniforms, order, matrix, row_weights, targets, responses, curvatures, loss, penalty, weights
):
    """Draw coordinates for each row of ``uniforms``, compute all their steps, then apply them.

    ``order`` is a permutation of all coordinates. A partial shuffle yields as many distinct
    coordinates as ``uniforms`` has columns, each set with the same probability.
    """
    starts, rows, values = matrix
    n_steps, n_simultaneous = uniforms.shape
    n_columns = len(order)
    steps = np.empty(n_simultaneous)
    for t in range(n_steps):
        for k in range(n_simultaneous):
            other = k + np.int64(uniforms[t, k] * (n_columns - k))
            order[k], order[other] = order[other], order[k]
            steps[k] = _step(
                order[k],
                matrix,
                row_weights,
                targets,
                responses,
                curvatures,
                loss,
                penalty,
                weights,
            )
        for k in range(n_simultaneous):
            j, step = order[k], steps[k]
            if step == 0.0:
                continue
            weights[j] += step
            for at in range(starts[j], starts[j + 1]):
                responses[rows[at]] += step * values[at]


@loop
def shared_steps(
    drawn, matrix, row_weights, targets, responses, curvatures, loss, penalty, weights
):
    """Take a step along each coordinate of ``drawn``, as one thread of Algorithm 2 of RB16.

    Other threads read and update ``responses`` and ``weights`` at the same time.
    """
    starts, rows, values = matrix
    for t in range(len(drawn)):
        j = drawn[t]
        step = _step(j, matrix, row_weights, targets, responses, curvatures, loss, penalty, weights)
        if step == 0.0:
            continue
        atomics.add(weights, j, step)
        for at in range(starts[j], starts[j + 1]):
            atomics.add(responses, rows[at], step * values[at])
