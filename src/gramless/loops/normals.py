"""Standard normal numbers from random words, with the same bits on every machine.

Only IEEE additions, multiplications, divisions and square roots are used, each rounded separately,
so that results are the same on all machines. Logarithms of libraries differ in the last bits, and
so do results with and without fused multiply-add.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

from gramless.loops.compile import allocating_loop

_BLOCK = 512  # words per pass, so that they stay in the first-level cache

# PPND16 (Wichura 1988): numerators and denominators, constant terms first.
_MIDDLE, _MIDDLE_SQUARE = 0.425, 0.180625
_CENTRAL = (
    (
        *(3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3),
        *(1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4),
        *(3.3430575583588128105e4, 2.5090809287301226727e3),
    ),
    (
        *(1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3),
        *(2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4),
        5.2264952788528545610e3,
    ),
)
_TAIL_START = 1.6
_TAIL = (
    (
        *(1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0),
        *(3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1),
        *(2.27238449892691845833e-2, 7.74545014278341407640e-4),
    ),
    (
        *(1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1),
        *(1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4),
        1.05075007164441684324e-9,
    ),
)
_FAR_START = 5.0
_FAR = (
    (
        *(6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0),
        *(2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3),
        *(2.71155556874348757815e-5, 2.01033439929228813265e-7),
    ),
    (
        *(1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2),
        *(7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7),
        2.04426310338993978564e-15,
    ),
)

# fdlibm (Sun 1993), e_log.c.
_LOGARITHM = (
    *(6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01),
    *(2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01),
    1.479819860511658591e-01,
)
_LOG_2 = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)
_ONE = np.uint64(0x3FF0000000000000)
_FRACTION = np.uint64(0x000FFFFFFFFFFFFF)
_FRACTION_BITS = np.uint64(52)
_BIAS = np.int64(1023)
_UNUSED_BITS = np.uint64(12)
_HALF_STEP = 2.0**-53


@allocating_loop
def normals_of(words, out):
    """Write the standard normal numbers of 64-bit words, by the inverse distribution function.

    The upper 52 bits k of a word give the probability ``(k + 1/2) / 2^52``, so numbers lie between
    -8.21 and 8.21. The relative error is below 1e-15 (Wichura 1988, AS 241).
    """
    offsets, places = np.empty(_BLOCK), np.empty(_BLOCK, np.int64)
    for start in range(0, len(words), _BLOCK):
        n = min(_BLOCK, len(words) - start)
        block, normals = words[start : start + n], out[start : start + n]
        for i in range(n):
            normals[i] = _central(_offset(block[i]))
        n_outside = 0
        for i in range(n):
            places[n_outside] = i
            n_outside += abs(_offset(block[i])) > _MIDDLE
        for k in range(n_outside):
            offsets[k] = _offset(block[places[k]])
        has_far = _replace_by_tails(offsets[:n_outside])
        for k in range(n_outside):
            normals[places[k]] = offsets[k]
        if has_far:
            _write_far(block, normals)


@register_jitable
def _replace_by_tails(offsets):
    """Replace offsets in the tails by their normals; return whether any is far out."""
    has_far = False
    for k in range(len(offsets)):
        root = _root_log(offsets[k])
        offsets[k] = np.copysign(_ratio(_TAIL, root - _TAIL_START), offsets[k])
        has_far |= root > _FAR_START
    return has_far


@register_jitable
def _write_far(words, normals):
    """Write the normals of the words that are far out, which is one word in 10^10."""
    for i in range(len(words)):
        offset = _offset(words[i])
        root = _root_log(offset)
        if root > _FAR_START:
            normals[i] = np.copysign(_ratio(_FAR, root - _FAR_START), offset)


@register_jitable
def _offset(word):
    """Return the exact probability of a word minus one half."""
    from_one_to_two = np.uint64((word >> _UNUSED_BITS) | _ONE).view(np.float64)
    return (from_one_to_two - 1.5) + _HALF_STEP


@register_jitable
def _central(offset):
    return offset * _ratio(_CENTRAL, _MIDDLE_SQUARE - offset * offset)


@register_jitable
def _ratio(coefficients, x):
    """Return the ratio of two polynomials of degree 7."""
    above, below = coefficients
    numerator, denominator = above[7], below[7]
    for k in range(6, -1, -1):
        numerator = numerator * x + above[k]
        denominator = denominator * x + below[k]
    return numerator / denominator


@register_jitable
def _root_log(offset):
    """Return ``sqrt(-log(p))``, where p is the probability beyond an offset."""
    # The difference is exact, because both numbers are multiples of 2^-53.
    bits = np.float64(0.5 - abs(offset)).view(np.uint64) + (_ONE - _ROOT_HALF)
    exponent = np.float64(np.int64(bits >> _FRACTION_BITS) - _BIAS)
    rest = np.uint64((bits & _FRACTION) + _ROOT_HALF).view(np.float64) - 1.0
    s = rest / (2.0 + rest)
    square, series = s * s, _LOGARITHM[6]
    for k in range(5, -1, -1):
        series = series * square + _LOGARITHM[k]
    half = 0.5 * rest * rest
    small = s * (half + series * square) + exponent * _LOG_2[1]
    return _square_root((half - small) - rest - exponent * _LOG_2[0])


@intrinsic
def _square_root(typing_context, number):
    """Return the square root, computed by the instruction of the processor without a library."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType()])
        root = cgutils.get_or_insert_function(builder.module, kind, "llvm.sqrt.f64")
        return builder.call(root, arguments)

    return types.float64(types.float64), generate
