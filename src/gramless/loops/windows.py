"""Values of smooth bins: products over the inputs of a window in the cell of a row.

A window is ``f(u) = sum_k coefficients[k] * u**(2 * k)``, where u in [-1/2, 1/2) is the distance
from the middle of the cell, in widths. There are at least two coefficients.
"""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import allocating_loop, loop

_BLOCK_ROWS = 512  # their squares, factors and values stay in the first-level cache


@loop
def _write_squared_distances(column, shift, inverse_width, squares):
    """Set ``squares`` to the squared distances from the middles of the cells."""
    for i in range(len(column)):
        # The same expression determines the cell. Another one could put a row at the edge of a cell
        # at the opposite edge.
        place = (column[i] - shift) * inverse_width
        place -= np.floor(place) + 0.5
        squares[i] = place * place


@loop
def _multiply(squares, coefficients, factors, products):
    """Multiply ``products`` by the window (Horner's rule); ``factors`` is scratch memory."""
    last = len(coefficients) - 1
    factors[:] = coefficients[last]
    for k in range(last - 1, 0, -1):
        coefficient = coefficients[k]
        for i in range(len(squares)):
            factors[i] = factors[i] * squares[i] + coefficient
    constant = coefficients[0]
    for i in range(len(squares)):
        products[i] *= factors[i] * squares[i] + constant


@allocating_loop
def window_values(columns, inverse_widths, shifts, coefficients, largest, out):
    """Set ``out`` (n_grids, n_rows) to the product of windows of each row in each grid.

    ``columns`` (n_columns, n_rows) are contiguous, ``inverse_widths`` and ``shifts`` (n_grids,
    n_columns); an input with inverse width 0 has the window 1. Values are clipped to ``largest``. A
    row so far away that its position in a cell is undefined gets the value 1.
    """
    n_columns, n_rows = columns.shape
    for start in range(0, n_rows, _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, n_rows)
        squares, factors = np.empty(stop - start), np.empty(stop - start)
        products = np.empty(stop - start)
        for r in range(len(out)):
            products[:] = 1.0
            for j in range(n_columns):
                if inverse_widths[r, j] != 0.0:
                    column = columns[j, start:stop]
                    _write_squared_distances(column, shifts[r, j], inverse_widths[r, j], squares)
                    _multiply(squares, coefficients, factors, products)
            for i in range(stop - start):
                value = products[i]
                # The value is NaN if the position in a cell is undefined.
                out[r, start + i] = 1.0 if np.isnan(value) else min(value, largest)
