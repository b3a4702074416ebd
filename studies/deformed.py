"""Unlimited streams of deformed images, in which each row is determined by its index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gramless.base.errors import InputError
from gramless.base.random import raw_words, seed_from
from gramless.base.threads import map_blocks
from gramless.loops.normals import normals_of
from studies.warp import warp

# All rows of a block come from the same random streams, so this number determines the data.
BLOCK_ROWS = 256
KNOT_PIXELS = 7.0

CHUNK_ROWS = 65_536


class DeformedDigits:
    """An unlimited stream of randomly deformed images; row ``i`` depends only on ``i``.

    Each row is a random image, rotated, shifted and deformed at random, similar to MNIST-8M
    (Loosli, Canu & Bottou 2007), whose eight million digits are deformations of MNIST.

    Parameters
    ----------
    images : array of uint8 (n_images, height, width)
        Pixels from 0 (black) to 255 (white).
    labels : array (n_images,)
    rotation : float, default=10.0
        Standard deviation of the angle, in degrees.
    shift : float, default=1.0
        Standard deviation of the vertical and horizontal shifts, in pixels.
    elastic : float, default=1.0
        Standard deviation of the elastic displacement of each pixel, vertically and horizontally,
        in pixels. The displacement field is a cubic spline with normally distributed coefficients
        on a grid of about 7 pixels. (Simard, Steinkraus & Platt 2003 use smoothed noise.)
    seed : int, default=0
    n_jobs : int or None, default=None
        Number of threads; the rows do not depend on it.

    Raises
    ------
    InputError
        If the images are not a non-empty 3-D array of uint8, the number of labels differs, or a
        standard deviation is negative.

    Notes
    -----
    Takes about 12 microseconds per row of 28 x 28 pixels on one core, and 4 bytes per pixel.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits()
    >>> images = (digits.images * 15.9).astype(np.uint8)
    >>> stream = DeformedDigits(images, digits.target, shift=0.5, elastic=0.3)
    >>> X, y = stream.batch(8_000_000, 8_000_003)
    >>> X.shape, X.dtype, len(y)
    ((3, 64), dtype('float32'), 3)
    >>> bool((stream.batch(8_000_002, 8_000_003)[0] == X[2]).all())
    True
    """

    def __init__(
        self,
        images: ArrayLike,
        labels: ArrayLike,
        *,
        rotation: float = 10.0,
        shift: float = 1.0,
        elastic: float = 1.0,
        seed: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.images, self.labels = _checked(np.asarray(images), np.asarray(labels))
        for name, value in (("rotation", rotation), ("shift", shift), ("elastic", elastic)):
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and 0.0 <= value < np.inf):
                raise InputError(
                    f"DeformedDigits: {name} must be a finite number, not negative; got {value!r}."
                )
        self.rotation, self.shift, self.elastic = rotation, shift, elastic
        self.seed, self.n_jobs = seed_from(seed), n_jobs
        height, width = self.images.shape[1:]
        self._down, self._across = _spline_weights(height), _spline_weights(width).T.copy()

    def __repr__(self) -> str:
        n, height, width = self.images.shape
        return f"DeformedDigits({n:,} images of {height} x {width}, seed={self.seed})"

    @property
    def n_features(self) -> int:
        """Number of pixels of an image."""
        return int(self.images.shape[1] * self.images.shape[2])

    def batch(self, start: int, stop: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Return consecutive rows of the stream.

        Parameters
        ----------
        start, stop : int
            Index of the first row, and of the row after the last one.

        Returns
        -------
        X : array of float32 (stop - start, height * width)
            Pixels from 0 (black) to 1 (white).
        y : array (stop - start,)

        Raises
        ------
        InputError
            If ``start`` and ``stop`` are not integers with ``0 <= start <= stop``.

        Notes
        -----
        Random numbers are drawn for blocks of 256 rows, so a single row takes about 0.4 ms.
        """
        if not (_is_whole(start) and _is_whole(stop) and 0 <= start <= stop):
            raise InputError(
                f"DeformedDigits.batch: start and stop must be whole numbers with 0 <= start <= "
                f"stop, got {start!r} and {stop!r}."
            )
        X = np.empty((stop - start, *self.images.shape[1:]), np.float32)
        y = np.empty(stop - start, self.labels.dtype)

        def fill(block: int) -> None:
            first = max(start, block * BLOCK_ROWS)
            last = min(stop, (block + 1) * BLOCK_ROWS)
            target = slice(first - start, last - start)
            y[target] = self._fill(block, first - block * BLOCK_ROWS, X[target])

        blocks = range(start // BLOCK_ROWS, -(-stop // BLOCK_ROWS))
        map_blocks(fill, [(block,) for block in blocks], self.n_jobs)
        return X.reshape(len(X), self.n_features), y

    def chunks(self, n_rows: int, chunk_rows: int = CHUNK_ROWS) -> DeformedChunks:
        """Return the first rows of the stream in chunks, which can be iterated repeatedly.

        Parameters
        ----------
        n_rows : int
        chunk_rows : int, default=65536
            Number of rows per chunk; the last chunk may have fewer.

        Returns
        -------
        DeformedChunks
            Iterates over ``(X, y)``.

        Raises
        ------
        InputError
            If ``n_rows`` is not a non-negative integer, or ``chunk_rows`` not a positive one.
        """
        return DeformedChunks(self, n_rows, chunk_rows)

    def _fill(self, block: int, first: int, out: NDArray[np.float32]) -> NDArray[Any]:
        """Write consecutive rows of a block into ``out``, and return their labels."""
        rows = slice(first, first + len(out))
        sources = self._words("images", block, 1)[rows, 0]
        # Scale the upper 32 bits of each word to an index of an image.
        sources = (sources >> np.uint64(32)) * np.uint64(len(self.images)) >> np.uint64(32)
        indices = sources.astype(np.int64)
        poses = self._normals("poses", block, 3)[rows]
        angles = np.deg2rad(self.rotation) * poses[:, 0]
        turns = np.column_stack([np.cos(angles), np.sin(angles)])
        shifts = self.shift * poses[:, 1:]
        n_down, n_across = self._down.shape[1], len(self._across)
        normals = self._normals("knots", block, 2 * n_down * n_across)[rows]
        knots = self.elastic * normals.reshape(len(out), 2, n_down, n_across)
        warp(self.images, indices, turns, shifts, knots, self._down, self._across, out)
        return self.labels[indices]

    def _words(self, purpose: str, block: int, n: int) -> NDArray[np.uint64]:
        """Return ``n`` random words for each row of a block."""
        block_words = raw_words(self.seed, f"deformed {purpose}", block, n * BLOCK_ROWS)
        return block_words.reshape(BLOCK_ROWS, n)

    def _normals(self, purpose: str, block: int, n: int) -> NDArray[np.float64]:
        out = np.empty((BLOCK_ROWS, n))
        normals_of(self._words(purpose, block, n).ravel(), out.ravel())
        return out


@dataclass(frozen=True)
class DeformedChunks:
    """An iterable over chunks of the first rows of a stream of deformed digits.

    It is returned by :meth:`DeformedDigits.chunks`. Every iteration generates the rows again.

    Parameters
    ----------
    digits : DeformedDigits
    n_rows : int
    chunk_rows : int
    """

    digits: DeformedDigits
    n_rows: int
    chunk_rows: int

    def __post_init__(self) -> None:
        for name, minimum in (("n_rows", 0), ("chunk_rows", 1)):
            value = getattr(self, name)
            if not _is_whole(value) or value < minimum:
                raise InputError(
                    f"DeformedDigits.chunks: {name} must be a whole number of at least {minimum}, "
                    f"got {value!r}."
                )

    @property
    def n_features(self) -> int:
        """Number of pixels of an image."""
        return self.digits.n_features

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], NDArray[Any]]]:
        """Yield the inputs and labels of each chunk."""
        for start in range(0, self.n_rows, self.chunk_rows):
            yield self.digits.batch(start, min(start + self.chunk_rows, self.n_rows))


def _checked(images: NDArray[Any], labels: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    if images.ndim != 3 or images.dtype != np.uint8 or not images.size:
        raise InputError(
            f"DeformedDigits: images must be a 3-D array of uint8 (n_images, height, width) with "
            f"at least one pixel, got {images.dtype} of shape {images.shape}; reshape rows of "
            f"pixels, and scale them to 0..255."
        )
    if labels.shape != images.shape[:1]:
        raise InputError(
            f"DeformedDigits: labels must be one for each of the {len(images)} images, got shape "
            f"{labels.shape}."
        )
    return np.ascontiguousarray(images), labels


def _spline_weights(n_pixels: int) -> NDArray[np.float64]:
    """Return the weights (n_pixels, n_knots) of a uniform cubic spline at each pixel.

    The squared weights of a pixel sum to 1, so that all pixels have the same variance.
    """
    n_intervals = max(1, round((n_pixels - 1) / KNOT_PIXELS))
    positions = np.linspace(0.0, n_intervals, n_pixels)
    first = np.minimum(positions.astype(int), n_intervals - 1)
    u = positions - first
    cubic = np.column_stack(
        [(1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3]
    )
    weights = np.zeros((n_pixels, n_intervals + 3))
    np.put_along_axis(weights, first[:, None] + np.arange(4), cubic, axis=1)
    return weights / np.sqrt((weights**2).sum(axis=1, keepdims=True))


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
