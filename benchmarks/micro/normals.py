"""Standard normals from random words, against NumPy's ziggurat and SciPy's inverse.

A unit is a number. ``words and normals`` draws the words too, as ``Generator.standard_normal``
does; ``scipy ndtri`` inverts the same probabilities. All runs in one thread, in float64.
"""

from __future__ import annotations

import numpy as np
from _timing import Case, memory_bandwidth, options, run
from scipy.special import ndtri

from gramless.base.random import raw_words, stream
from gramless.loops.normals import normals_of

QUICK = {"numbers": 2000}


def make_cases(n: int) -> list[Case]:
    drawn, out = raw_words(0, "benchmark", 0, n), np.empty(n)
    probabilities = ((drawn >> np.uint64(12)) + 0.5) * 2.0**-52
    generator = stream(0, "benchmark")
    measured = ("number", n, 16.0 * n)
    return [
        Case("numpy words", lambda: generator.bit_generator.random_raw(n), *measured),
        Case("numpy ziggurat", lambda: generator.standard_normal(out=out), *measured),
        Case("scipy ndtri", lambda: ndtri(probabilities, out=out), *measured),
        Case("normals_of", lambda: normals_of(drawn, out), *measured, peer="scipy ndtri"),
        Case(
            "words and normals",
            lambda: normals_of(generator.bit_generator.random_raw(n), out),
            *measured,
            peer="numpy ziggurat",
        ),
    ]


def main() -> None:
    args = options(__doc__, QUICK, numbers=65536)
    run(make_cases(args.numbers), args, {"memory": memory_bandwidth(1, args.quick)})


if __name__ == "__main__":
    main()
