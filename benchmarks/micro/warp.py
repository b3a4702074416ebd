"""Deformed images, against SciPy's interpolation of the same pixels.

A unit is a pixel of the result. SciPy gets the source coordinates of the pixels; ``warp``
computes them: ``turned`` without bending, ``bent`` with it. ``rows of DeformedDigits`` draws the
deformations too. All runs in one thread.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from _timing import Case, memory_bandwidth, options, run
from scipy.ndimage import map_coordinates

from studies.deformed import DeformedDigits
from studies.warp import warp

QUICK = {"images": 4, "side": 12}


def by_scipy(images: np.ndarray, all_coordinates: np.ndarray, out: np.ndarray) -> None:
    for image, coordinates, result in zip(images, all_coordinates, out, strict=True):
        map_coordinates(image, coordinates, result, order=1, mode="grid-constant")


def make_cases(n: int, side: int) -> list[Case]:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (n, side, side)).astype(np.uint8)
    places = np.indices((side, side)) + rng.normal(size=(n, 2, side, side))
    out = np.empty((n, side, side), np.float32)
    angles = 0.2 * rng.normal(size=n)
    turns, shifts = np.column_stack([np.cos(angles), np.sin(angles)]), rng.normal(size=(n, 2))
    sources, weights = np.arange(n), rng.normal(size=(side, 7))
    measured = ("pixel", n * side**2, 5.0 * n * side**2)

    def warped(n_knots: int) -> partial[None]:
        knots = rng.normal(size=(n, 2, n_knots, n_knots))
        knot_weights = weights[:, :n_knots]
        return partial(
            warp, images, sources, turns, shifts, knots, knot_weights, knot_weights.T.copy(), out
        )

    digits = DeformedDigits(images, sources, n_jobs=1)
    peer = "scipy map_coordinates"
    return [
        Case(peer, partial(by_scipy, images, places, out), *measured),
        Case("warp, turned", warped(0), *measured, peer=peer),
        Case("warp, bent", warped(7), *measured, peer=peer),
        Case("rows of DeformedDigits", partial(digits.batch, 0, n), *measured, peer=peer),
    ]


def main() -> None:
    args = options(__doc__, QUICK, images=1024, side=28)
    cases = make_cases(args.images, args.side)
    run(cases, args, {"memory": memory_bandwidth(1, args.quick)})


if __name__ == "__main__":
    main()
