"""Rotation, shift and elastic deformation of images by resampling their pixels."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from gramless.loops.compile import allocating_loop

_WHITE = 255.0


@allocating_loop
def warp(images, sources, turns, shifts, knots, down, across, out):  # type: ignore[no-untyped-def]
    """Write images that are rotated about their centre, shifted and elastically deformed.

    A pixel of the result is interpolated between the four nearest pixels at its position in the
    original image; pixels outside the image are 0.

    Parameters
    ----------
    images : array of uint8 (n, height, width)
    sources : array of integers (m,)
        Indices of the images to deform.
    turns : array (m, 2)
        Cosine and sine of the counterclockwise angle.
    shifts : array (m, 2)
        Shifts downwards and to the right, in pixels.
    knots : array (m, 2, n_down, n_across)
        Displacements downwards and to the right, in pixels, on a coarse grid.
    down : array (height, n_down)
    across : array (n_across, width)
        Weights of the knots at each row and column of pixels.
    out : array of float32 (m, height, width)
        Pixels from 0 (black) to 1 (white).
    """
    _, height, width = images.shape
    from_rows, from_columns = np.empty(width), np.empty(width)
    lines = np.empty((2, len(across)))
    # A black frame makes checks unnecessary whether neighbours are inside the image.
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
    """Write the positions of a row's pixels in the original image, without the deformation."""
    cosine, sine = turn[0], turn[1]
    middle_row, middle_column = 0.5 * (shape[0] - 1), 0.5 * (shape[1] - 1)
    y = row - middle_row - shift[0]
    for column in range(shape[1]):
        x = column - middle_column - shift[1]
        from_rows[column] = cosine * y + sine * x + middle_row
        from_columns[column] = cosine * x - sine * y + middle_column


@register_jitable
def _mix(weights, knots, lines):  # type: ignore[no-untyped-def]
    """Write the weighted sums of the knots (2, n_down, n_across) over the vertical axis."""
    lines[:] = 0.0
    for side in range(2):
        for j in range(len(weights)):
            for k in range(lines.shape[1]):
                lines[side, k] += weights[j] * knots[side, j, k]


@register_jitable
def _resample(framed, from_rows, from_columns, shades):  # type: ignore[no-untyped-def]
    """Write the interpolated values of an image at some positions.

    The image has a black frame of one pixel at the top and left, and two at the bottom and right.
    """
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
