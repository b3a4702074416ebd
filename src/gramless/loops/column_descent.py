"""Coordinate descent on a quadratic model that is given by its Gram matrix."""

from __future__ import annotations

from gramless.loops.compile import loop
from gramless.loops.proximal import proximal


@loop
def sweep(gram, gradient, weights, l1, l2, orders, tol):  # type: ignore[no-untyped-def]
    """Move one weight after the other to its minimum; returns how many sweeps were made.

    The model is ``gradient d + d' gram d / 2`` in the change ``d`` of the weights,
    plus each weight's penalty. ``weights`` and ``gradient`` follow.

    Parameters
    ----------
    gram : (n, n), symmetric
    gradient : (n,), of the model without the penalty
    weights : (n,)
    l1, l2 : (n,), of each weight
    orders : (n_sweeps, n), the order of the weights in each sweep
    tol : a sweep whose moves, as gradients, are all below it is the last
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
