"""The proximal step of one coordinate."""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import loop


@loop
def proximal(w, gradient, curvature, l1, l2):  # type: ignore[no-untyped-def]
    """Minimise ``gradient (v - w) + curvature/2 (v - w)^2 + l1 |v| + l2/2 v^2`` over ``v``.

    RB16, equations 24 and 26, with the squares of an elastic net besides. Without
    curvature nothing but the penalty acts: ``v`` is 0, or ``w`` where it is free.
    """
    if curvature == 0.0:
        return 0.0 if l1 + l2 > 0.0 else w
    v = curvature * w - gradient
    slack = abs(v) - l1
    return 0.0 if slack <= 0.0 else np.copysign(slack, v) / (curvature + l2)
