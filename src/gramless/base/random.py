"""Counter-based random streams.

A stream is identified by a seed and a purpose, and is divided into blocks. Each block has its own
generator.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

RandomStateLike = int | np.random.RandomState | np.random.Generator | None


def seed_from(random_state: RandomStateLike) -> int:
    """Return an integer seed for a ``random_state`` as in scikit-learn.

    An integer is the seed itself. Otherwise a seed in ``[0, 2**31 - 1)`` is drawn from the given
    generator, or from NumPy's global state if ``random_state`` is None. Raises ``ValueError`` if
    scikit-learn does not accept ``random_state``.
    """
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        check_random_state(random_state)  # raises if the seed is negative or too large
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(check_random_state(random_state).randint(2**31 - 1))


def stream(seed: int, purpose: str, block: int = 0) -> np.random.Generator:
    """Return the generator of one block of the stream ``(seed, purpose)``.

    The seed and a hash of the purpose, such as ``"grids"``, are the key of Philox. The block is the
    high word of its counter, so that blocks never overlap, block 10,000 costs no more than block 0,
    and adding blocks never changes earlier ones.
    """
    key = np.array([seed, zlib.crc32(purpose.encode())], dtype=np.uint64)
    counter = np.array([0, 0, 0, block], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def streams(seed: int, purpose: str, n_blocks: int) -> Iterator[np.random.Generator]:
    """Yield the generators of the first ``n_blocks`` blocks of the stream ``(seed, purpose)``.

    Each iteration yields the same object in another state, so draw the numbers of a block before
    the next iteration. This takes a sixth of the time of ``n_blocks`` calls of :func:`stream`.
    """
    generator = stream(seed, purpose)
    state = generator.bit_generator.state
    for block in range(n_blocks):
        state["state"]["counter"][:] = 0, 0, 0, block
        generator.bit_generator.state = state
        yield generator


def raw_words(seed: int, purpose: str, block: int, n: int) -> NDArray[np.uint64]:
    """Return the first ``n`` random 64-bit words of one block of the stream ``(seed, purpose)``.

    The words are the same in every version of NumPy and on every machine, because NumPy guarantees
    the output of its bit generators (but not that of its distributions). A word takes about 4 ns.
    """
    raw: NDArray[np.uint64] = stream(seed, purpose, block).bit_generator.random_raw(n)
    return raw
