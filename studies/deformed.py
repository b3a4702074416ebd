"""Endless streams of deformed digits: more rows than anyone can store, each known by its number."""

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

# Part of the definition of the data: the rows of a block come from the same random streams.
BLOCK_ROWS = 256
KNOT_PIXELS = 7.0

CHUNK_ROWS = 65_536


class DeformedDigits:
    """Images turned, shifted and bent at random, without end: row ``i`` depends on ``i`` alone.

    Each row draws one of the images and a deformation of its own, as the eight
    million digits of MNIST-8M were made of MNIST (Loosli, Canu & Bottou 2007), though
    not the same ones.

    Parameters
    ----------
    images : array of uint8 (n_images, height, width)
        From 0, black, to 255.
    labels : array (n_images,)
    rotation : float, default=10.0
        Standard deviation of the angle, in degrees.
    shift : float, default=1.0
        Standard deviation of the shifts downwards and sidewards, in pixels.
    elastic : float, default=1.0
        Standard deviation of what each pixel is displaced besides, downwards and
        sidewards, in pixels: cubic splines over normal draws on a grid of some 7 pixels
        (as Simard, Steinkraus & Platt 2003, whose fields are smoothed noise).
    seed : int, default=0
    n_jobs : int or None, default=None
        Threads; the rows do not depend on it.

    Raises
    ------
    InputError
        If the images are no 3-D array of uint8, there are none, labels do not fit
        them, or a standard deviation is negative.

    Notes
    -----
    Some 12 microseconds a row of 28 x 28 pixels on one core, and 4 bytes a pixel.

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
        """Say what it is, never the numbers."""
        n, height, width = self.images.shape
        return f"DeformedDigits({n:,} images of {height} x {width}, seed={self.seed})"

    @property
    def n_features(self) -> int:
        """Pixels of an image."""
        return int(self.images.shape[1] * self.images.shape[2])

    def batch(self, start: int, stop: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Make consecutive rows of the stream.

        Parameters
        ----------
        start, stop : int
            The first row, and the first one that is left out.

        Returns
        -------
        X : array of float32 (stop - start, height * width)
            From 0, black, to 1.
        y : array (stop - start,)

        Raises
        ------
        InputError
            If they are no whole numbers with ``0 <= start <= stop``.

        Notes
        -----
        Draws whole blocks of 256 rows: a row alone costs about 0.4 ms.
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
            here = slice(first - start, last - start)
            y[here] = self._fill(block, first - block * BLOCK_ROWS, X[here])

        blocks = range(start // BLOCK_ROWS, -(-stop // BLOCK_ROWS))
        map_blocks(fill, [(block,) for block in blocks], self.n_jobs)
        return X.reshape(len(X), self.n_features), y

    def chunks(self, n_rows: int, chunk_rows: int = CHUNK_ROWS) -> DeformedChunks:
        """Return the first rows of the stream, to be gone through as often as wanted.

        Parameters
        ----------
        n_rows : int
        chunk_rows : int, default=65536
            Rows of a chunk; the last one has what is left.

        Returns
        -------
        DeformedChunks
            Iterates over ``(X, y)``.

        Raises
        ------
        InputError
            If ``n_rows`` is no whole number of at least 0, or ``chunk_rows`` of at least 1.
        """
        return DeformedChunks(self, n_rows, chunk_rows)

    def _fill(self, block: int, first: int, out: NDArray[np.float32]) -> NDArray[Any]:
        """Write rows of a block from its ``first`` one on, and return their labels."""
        rows = slice(first, first + len(out))
        sources = self._words("images", block, 1)[rows, 0]
        # The upper half of a word, as a share of the images.
        sources = (sources >> np.uint64(32)) * np.uint64(len(self.images)) >> np.uint64(32)
        chosen = sources.astype(np.int64)
        poses = self._normals("poses", block, 3)[rows]
        angles = np.deg2rad(self.rotation) * poses[:, 0]
        turns = np.column_stack([np.cos(angles), np.sin(angles)])
        shifts = self.shift * poses[:, 1:]
        n_down, n_across = self._down.shape[1], len(self._across)
        drawn = self._normals("knots", block, 2 * n_down * n_across)[rows]
        knots = self.elastic * drawn.reshape(len(out), 2, n_down, n_across)
        warp(self.images, chosen, turns, shifts, knots, self._down, self._across, out)
        return self.labels[chosen]

    def _words(self, purpose: str, block: int, n: int) -> NDArray[np.uint64]:
        """Return ``n`` words for each row of a block."""
        drawn = raw_words(self.seed, f"deformed {purpose}", block, n * BLOCK_ROWS)
        return drawn.reshape(BLOCK_ROWS, n)

    def _normals(self, purpose: str, block: int, n: int) -> NDArray[np.float64]:
        out = np.empty((BLOCK_ROWS, n))
        normals_of(self._words(purpose, block, n).ravel(), out.ravel())
        return out


@dataclass(frozen=True)
class DeformedChunks:
    """The first rows of a stream of deformed digits, a chunk at a time, as often as wanted.

    Made by :meth:`DeformedDigits.chunks`. Each iteration makes the rows anew.

    Parameters
    ----------
    digits : DeformedDigits
    n_rows : int
        Not negative.
    chunk_rows : int
        At least 1.
    """

    digits: DeformedDigits
    n_rows: int
    chunk_rows: int

    def __post_init__(self) -> None:
        for name, least in (("n_rows", 0), ("chunk_rows", 1)):
            value = getattr(self, name)
            if not _is_whole(value) or value < least:
                raise InputError(
                    f"DeformedDigits.chunks: {name} must be a whole number of at least {least}, "
                    f"got {value!r}."
                )

    @property
    def n_features(self) -> int:
        """Pixels of an image."""
        return self.digits.n_features

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], NDArray[Any]]]:
        """Yield inputs and labels of ``chunk_rows`` rows, fewer at the end."""
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
    """Return what the knots are worth at each pixel, (n_pixels, knots): a uniform cubic spline.

    The weights of a pixel have squares that sum to 1, so that it moves as much as any other.
    """
    n_intervals = max(1, round((n_pixels - 1) / KNOT_PIXELS))
    places = np.linspace(0.0, n_intervals, n_pixels)
    first = np.minimum(places.astype(int), n_intervals - 1)
    u = places - first
    cubic = np.column_stack(
        [(1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3]
    )
    weights = np.zeros((n_pixels, n_intervals + 3))
    np.put_along_axis(weights, first[:, None] + np.arange(4), cubic, axis=1)
    return weights / np.sqrt((weights**2).sum(axis=1, keepdims=True))


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
