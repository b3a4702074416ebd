"""Images turned, shifted and bent: pixels resampled along displacements, one image at a time."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from gramless.loops.compile import allocating_loop

_WHITE = 255.0


@allocating_loop
def warp(images, sources, turns, shifts, knots, down, across, out):  # type: ignore[no-untyped-def]
    """Write some images, each turned about its centre, then shifted, then bent.

    A pixel of the result is interpolated between the four nearest pixels of the image at the
    place that it comes from; what lies outside is 0.

    Parameters
    ----------
    images : array of uint8 (n, height, width)
    sources : array of integers (m,)
        Which of the images.
    turns : array (m, 2)
        Cosine and sine of the angle, positive against the clock.
    shifts : array (m, 2)
        Downwards and to the right, in pixels.
    knots : array (m, 2, n_down, n_across)
        Displacements downwards and to the right, in pixels, on a coarse grid.
    down : array (height, n_down)
    across : array (n_across, width)
        What the knots are worth at each row and column of pixels.
    out : array of float32 (m, height, width)
        From 0, black, to 1, white.
    """
    _, height, width = images.shape
    from_rows, from_columns = np.empty(width), np.empty(width)
    lines = np.empty((2, len(across)))
    # With black around it, an image needs no question whether a pixel is inside.
    framed = np.zeros((height + 3, width + 3))
    for i in range(len(sources)):
        image = images[sources[i]]
        for row in range(height):
            for column in range(width):
                framed[row + 1, column + 1] = image[row, column]
        for row in range(height):
            _place(turns[i], shifts[i], row, (height, width), from_rows, from_columns)
            _mix(down[row], knots[i], lines)
            for k in range(len(across)):
                for column in range(width):
                    from_rows[column] += lines[0, k] * across[k, column]
                    from_columns[column] += lines[1, k] * across[k, column]
            _resample(framed, from_rows, from_columns, out[i, row])


@register_jitable
def _place(turn, shift, row, shape, from_rows, from_columns):  # type: ignore[no-untyped-def]
    """Write where the pixels of a row come from, without bending."""
    cosine, sine = turn[0], turn[1]
    middle_row, middle_column = 0.5 * (shape[0] - 1), 0.5 * (shape[1] - 1)
    below = row - middle_row - shift[0]
    for column in range(shape[1]):
        beside = column - middle_column - shift[1]
        from_rows[column] = cosine * below + sine * beside + middle_row
        from_columns[column] = cosine * beside - sine * below + middle_column


@register_jitable
def _mix(weights, knots, lines):  # type: ignore[no-untyped-def]
    """Write the knots (2, n_down, n_across), weighed and summed over the first of the axes."""
    lines[:] = 0.0
    for side in range(2):
        for j in range(len(weights)):
            for k in range(lines.shape[1]):
                lines[side, k] += weights[j] * knots[side, j, k]


@register_jitable
def _resample(framed, from_rows, from_columns, shades):  # type: ignore[no-untyped-def]
    """Write what an image, framed by a black pixel before and two behind, is at some places."""
    flat, stride, one = framed.reshape(-1), np.uint64(framed.shape[1]), np.uint64(1)
    last_row, last_column = len(framed) - 2.0, framed.shape[1] - 2.0
    for k in range(len(shades)):
        row = min(max(from_rows[k] + 1.0, 0.0), last_row)
        column = min(max(from_columns[k] + 1.0, 0.0), last_column)
        top, left = np.int32(row), np.int32(column)
        lower, right = row - top, column - left
        here = np.uint64(top) * stride + np.uint64(left)
        under = here + stride
        above = (1.0 - right) * flat[here] + right * flat[here + one]
        below = (1.0 - right) * flat[under] + right * flat[under + one]
        shades[k] = ((1.0 - lower) * above + lower * below) / _WHITE
