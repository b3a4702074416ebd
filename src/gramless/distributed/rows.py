"""All rows of a fit, in blocks on the workers of a cluster, and what can be asked of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from distributed import Future
from numpy.typing import NDArray

from gramless.base.errors import ClusterError
from gramless.base.types import FloatArray, IntArray
from gramless.distributed.blocks import RowBlock, joined
from gramless.distributed.cluster import (
    LOST,
    Arguments,
    Cluster,
    Result,
    Task,
    release,
    worker_threads,
)
from gramless.distributed.sums import added, as_floats, exponent_of, fixed_sum
from gramless.distributed.workspace import Workspace
from gramless.solvers.objective import columns
from gramless.solvers.vectors import matvec, rmatvec

_MOST_ROUNDS = 100
_ADDED_BY_CLIENT = 8
"""Sums that a client adds up itself; of more, tasks add up so many each."""

BlockFunction: TypeAlias = Callable[..., Result]
"""What is asked of a block, given a workspace, arguments and vectors that have arrived."""


class Shared:
    """A vector that workers get once, and keep for as long as it is needed here."""

    def __init__(self, vector: FloatArray) -> None:
        self.tag = uuid.uuid4().hex
        self.data = np.ascontiguousarray(vector)
        self.futures: dict[str, Future] = {}

    def sent(self, cluster: Cluster, workers: list[str]) -> dict[str, Future]:
        """Return the vector for each worker, sent again if it was lost or workers are others."""
        whole = all(own.status == "finished" for own in self.futures.values())
        if list(self.futures) != workers or not whole:
            self.futures = dict(zip(workers, cluster.scatter(self.data, workers), strict=True))
            cluster.n_bytes += self.data.nbytes * len(workers)
        return self.futures


@dataclass(frozen=True, eq=False)
class Arrived:
    """A vector that was sent to a worker; its tag is another one for another vector."""

    tag: str
    values: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the vector."""
        return self.values.shape


class ClusterRows:
    """Blocks of so many rows (``sizes``) on workers, whose weights add up to ``total``."""

    def __init__(self, cluster: Cluster, blocks: list[Future]) -> None:
        self.cluster, self.blocks = cluster, blocks
        self._places: dict[str, list[int]] | None = None
        facts = self.per_block(_facts)
        self.sizes = np.array([own[0] for own in facts])
        self.total = float(np.sum([own[1] for own in facts]))
        self.largest_target = max(own[2] for own in facts)
        self.largest_norm = max(own[3] for own in facts)
        self.starts = np.append(0, np.cumsum(self.sizes))

    def release(self) -> None:
        """Let workers forget the blocks, whoever still refers to them here."""
        self.cluster.forget()
        release(self.blocks)

    @property
    def n_rows(self) -> int:
        """Number of rows that have a weight."""
        return int(self.starts[-1])

    def per_block(
        self, function: BlockFunction, *arguments: object, **vectors: Shared
    ) -> list[Result]:
        """Return ``function(block, workspace, *arguments, **vectors)`` of each block, in order.

        Vectors arrive as :class:`Arrived`.
        """
        found: dict[int, Result] = {}
        for answers in self._asked(per_block, function, arguments, vectors):
            found |= answers
        return [found[number] for number in range(len(self.blocks))]

    def summed(
        self, function: BlockFunction, bound: float, *arguments: object, **vectors: Shared
    ) -> FloatArray:
        """Return the sum over blocks of arrays, whose entries all add up to a bound at most.

        The sum is the same to the last bit whoever has which blocks. The function may return an
        array of its workspace.
        """
        exponent = exponent_of(bound)
        sums = self._asked(sum_of_blocks, function, (exponent, arguments), vectors)
        total = added(sums)
        assert total is not None
        return as_floats(total, exponent)

    def take_rows(self, rows: NDArray[np.intp]) -> RowBlock:
        """Return some rows, given their numbers among all rows."""
        wanted, back = by_block(self.starts, rows)
        parts = [own for own in self.per_block(_taken, wanted) if own is not None]
        return joined(parts).take_rows(back)

    def _asked(
        self, task: Task, function: BlockFunction, arguments: Arguments, vectors: dict[str, Shared]
    ) -> Sequence[Result]:
        """Return what a task of each worker answers for all its blocks."""
        cluster = self.cluster
        for _ in range(_MOST_ROUNDS):
            if self._places is None:
                self._places = cluster.places(self.blocks)
            cluster.n_rounds += 1
            answers = self._round(task, function, arguments, vectors)
            if answers is not None:
                return answers
            self._places = None
        raise ClusterError(
            f"{cluster.owner}: {_MOST_ROUNDS} times in a row a worker went away; use workers that "
            f"stay longer."
        )

    def _round(
        self, task: Task, function: BlockFunction, arguments: Arguments, vectors: dict[str, Shared]
    ) -> Sequence[Result] | None:
        """Ask all workers once; None if one of them is gone."""
        cluster, places = self.cluster, self._places
        assert places is not None
        try:
            sent = {name: own.sent(cluster, list(places)) for name, own in vectors.items()}
        except (*LOST, KeyError, ValueError):
            # The scheduler may answer with a fault of its own that it does not know the worker.
            return None
        calls: list[Arguments] = []
        for worker, numbers in places.items():
            there = {name: (own.tag, sent[name][worker]) for name, own in vectors.items()}
            calls.append(([self.blocks[i] for i in numbers], function, arguments, there))
        tasks = dict(zip(places, cluster.submit(task, calls, places), strict=True))
        if task is sum_of_blocks:
            tasks = self._added(tasks)
        found = cluster.finished(tasks)
        if found is not None and task is sum_of_blocks:
            cluster.n_bytes += sum(own.nbytes for own in found if own is not None)
        return found

    def _added(self, tasks: dict[str, Future]) -> dict[str, Future]:
        """Return tasks whose sums the client adds up: these, or others that add up theirs."""
        while len(tasks) > _ADDED_BY_CLIENT:
            workers, futures = list(tasks)[::_ADDED_BY_CLIENT], list(tasks.values())
            starts = range(0, len(futures), _ADDED_BY_CLIENT)
            calls = [(futures[i : i + _ADDED_BY_CLIENT],) for i in starts]
            tasks = dict(zip(workers, self.cluster.submit(added, calls, workers), strict=True))
        return tasks


Vectors: TypeAlias = dict[str, tuple[str, FloatArray]]
"""The tag of each vector that was sent, and its values."""


def per_block(
    blocks: list[RowBlock], function: BlockFunction, arguments: Arguments, sent: Vectors
) -> dict[int, Result]:
    """Return what a function says of each block; a task."""
    vectors, threads = _arrived(sent), worker_threads()
    return {own.number: function(own, Workspace(threads), *arguments, **vectors) for own in blocks}


def sum_of_blocks(
    blocks: list[RowBlock], function: BlockFunction, arguments: tuple[int, Arguments], sent: Vectors
) -> IntArray | None:
    """Return the sum of what a function says of each block, which may be nothing; a task."""
    vectors, (exponent, others) = _arrived(sent), arguments
    with blocks[0].workspace(worker_threads()) as work:
        parts = (function(own, work, *others, **vectors) for own in blocks if own.n_rows > 0)
        return fixed_sum((part for part in parts if part is not None), exponent)


def _arrived(sent: Vectors) -> dict[str, Arrived]:
    # Messages leave numbers anywhere in memory: loops would be compiled anew for those, and slower.
    return {
        name: Arrived(tag, np.require(own, requirements="A")) for name, (tag, own) in sent.items()
    }


def by_block(
    starts: IntArray, rows: NDArray[np.intp]
) -> tuple[dict[int, IntArray], NDArray[np.intp]]:
    """Return which rows of each block are asked for, and what puts the answers in their order.

    Block k has the rows from ``starts[k]`` on.

    Examples
    --------
    >>> wanted, back = by_block(np.array([0, 3, 6]), np.array([4, 0, 3]))
    >>> {k: own.tolist() for k, own in wanted.items()}, back
    ({0: [0], 1: [1, 0]}, array([1, 0, 2]))
    """
    block = np.searchsorted(starts, rows, side="right") - 1
    order = np.argsort(block, kind="stable")
    wanted = {k: rows[order[block[order] == k]] - starts[k] for k in np.unique(block).tolist()}
    back = np.empty(len(rows), np.intp)
    back[order] = np.arange(len(rows))
    return wanted, back


def _facts(block: RowBlock, work: Workspace) -> tuple[int, float, float, float]:
    """Return the number of rows, the sum of their weights, and the largest of them.

    That is the largest target, and the largest norm of the features beside the grids.
    """
    squares = sum(np.einsum("ij,ij->i", own, own, dtype=float) for own in block.others)
    largest = float(np.abs(block.targets).max(initial=0.0))
    norm = float(np.sqrt(np.max(squares, initial=0.0)))
    return block.n_rows, float(block.weights.sum()), largest, norm


def _taken(
    block: RowBlock, work: Workspace, wanted: dict[int, NDArray[np.intp]]
) -> RowBlock | None:
    numbers = wanted.get(block.number)
    return None if numbers is None else block.take_rows(numbers)


def means_and_right(block: RowBlock, work: Workspace, n_rows: int, total: float) -> FloatArray:
    """Return the block's part of each column's mean, its weighted mean, and ``Z' S y``."""
    shares = (block.weights / total)[:, None]
    means = np.full(block.n_rows, 1.0 / n_rows)
    both = np.column_stack([means, shares, shares * columns(block.targets)])
    return rmatvec(block.matrix(work), both)


def mean_squares(block: RowBlock, work: Workspace, total: float) -> float:
    """Return the block's part of the weighted mean square of the targets, summed over outputs."""
    squares = np.square(columns(block.targets)).sum(axis=1)
    return float(squares @ (block.weights / total))


def gram_product(block: RowBlock, work: Workspace, total: float, *, w: Arrived) -> FloatArray:
    """Return the block's part of ``Z' S Z w``."""
    matrix = block.matrix(work)
    responses = matvec(matrix, w.values, work.empty("responses", (block.n_rows, w.shape[1])))
    responses *= np.divide(block.weights, total, out=work.empty("shares", (block.n_rows,)))[:, None]
    return rmatvec(matrix, responses, work.empty("sums", w.shape))
