"""Products of Fourier features with weights, without storing the features."""

from __future__ import annotations

import numpy as np

from gramless.loops import trig
from gramless.loops.compile import allocating_loop, loop, reordering_loop


@allocating_loop
def add_responses(rows, panels, n_frequencies, scale, weights, room, out):
    """Add the products of Fourier features with weights to ``out``.

    ``rows`` (at least n_rows, d) and ``panels`` are those of :func:`~gramless.loops.trig.project`,
    ``weights`` (2 n_frequencies, n_outputs). ``room`` is scratch memory: zeros (width,), sums (at
    least as many rows as ``rows``, width) and features (n_rows times twice the frequencies of a
    chunk,). A chunk consists of whole panels, at most ``width`` frequencies. All arrays are
    C-contiguous and float32, except ``out`` (n_rows, n_outputs).
    """
    starts, sums, features = room
    lanes, n_rows = panels.shape[2], len(out)
    # A literal would have another type, for which the loop would be compiled again.
    top = np.int64(0)
    chunk = len(features) // (2 * n_rows)
    for first in range(0, n_frequencies, chunk):
        n = min(chunk, n_frequencies - first)
        last_panel = -(-(first + n) // lanes)
        trig.project(rows, panels[first // lanes : last_panel], starts, sums)
        part_weights = weights[2 * first : 2 * (first + n)]
        if weights.shape[1] == 1:
            of_cosines, of_sines = features[:n], features[n : 2 * n]
            of_cosines[:], of_sines[:] = part_weights[::2, 0], part_weights[1::2, 0]
            _add_single(sums, scale, of_cosines, of_sines, out.reshape(-1))
            continue
        part = features[: n_rows * 2 * n].reshape((n_rows, 2 * n))
        trig.write_cosines_and_sines(sums, n_rows, scale, part, top, top)
        out += np.dot(part, part_weights)


@loop
def _add_single(sums, scale, of_cosines, of_sines, out):
    """Add the products of one output, given the projections ``sums``, which are overwritten."""
    n = len(of_cosines)
    for i in range(len(out)):
        angles = sums[i, :n]
        for r in range(n):
            cosine, sine = trig.cosine_sine(angles[r])
            angles[r] = cosine * of_cosines[r] + sine * of_sines[r]
        out[i] += scale * _total(angles)


@reordering_loop
def _total(numbers):
    # This is a separate loop because the computation of cosines must not be reordered.
    total = np.float32(0.0)
    for r in range(len(numbers)):
        total += numbers[r]
    return total
