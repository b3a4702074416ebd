"""All rows of a fit in blocks on the workers of a cluster, and sums over them."""

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
from gramless.distributed.blocks import RowBlock, concatenate_blocks
from gramless.distributed.cluster import (
    LOST,
    Arguments,
    Cluster,
    Result,
    Task,
    release,
    worker_threads,
)
from gramless.distributed.sums import add_sums, exponent_of, fixed_sum, sum_as_floats
from gramless.distributed.workspace import Workspace
from gramless.solvers.objective import columns
from gramless.solvers.vectors import matvec, rmatvec

_MAX_ROUNDS = 100  # attempts to finish a round trip while workers are lost
_SUMS_PER_TASK = 8  # sums that one task adds up; if there are more, several tasks add them

# A function of a block, a workspace, other arguments, and vectors as keyword arguments.
BlockFunction: TypeAlias = Callable[..., Result]


class Shared:
    """A vector that workers get once, and keep as long as the client refers to it."""

    def __init__(self, vector: FloatArray) -> None:
        self.tag = uuid.uuid4().hex
        self.data = np.ascontiguousarray(vector)
        self.futures: dict[str, Future] = {}

    def send_to(self, cluster: Cluster, workers: list[str]) -> dict[str, Future]:
        """Return the vector's future on each worker.

        The vector is sent if these workers do not have it, or if a copy was lost.
        """
        is_complete = all(future.status == "finished" for future in self.futures.values())
        if list(self.futures) != workers or not is_complete:
            self.futures = dict(zip(workers, cluster.scatter(self.data, workers), strict=True))
            cluster.n_bytes += self.data.nbytes * len(workers)
        return self.futures


@dataclass(frozen=True, eq=False)
class ReceivedVector:
    """A vector on a worker, with a tag that is unique to the vector."""

    tag: str
    values: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape


class ClusterRows:
    """Blocks of rows on workers, with ``sizes`` (rows per block) and ``total`` (sum of weights)."""

    def __init__(self, cluster: Cluster, blocks: list[Future]) -> None:
        self.cluster, self.blocks = cluster, blocks
        self._places: dict[str, list[int]] | None = None
        statistics = self.map_over_blocks(_block_statistics)
        self.sizes = np.array([block[0] for block in statistics])
        self.total = float(np.sum([block[1] for block in statistics]))
        self.largest_target = max(block[2] for block in statistics)
        self.largest_norm = max(block[3] for block in statistics)
        self.starts = np.append(0, np.cumsum(self.sizes))

    def release(self) -> None:
        """Release the blocks, even if there are still references to them."""
        self.cluster.release_last_round()
        release(self.blocks)

    @property
    def n_rows(self) -> int:
        return int(self.starts[-1])

    def map_over_blocks(
        self, function: BlockFunction, *arguments: object, **vectors: Shared
    ) -> list[Result]:
        """Return ``function(block, workspace, *arguments, **vectors)`` for each block, in order.

        The function gets each vector as a :class:`ReceivedVector`.
        """
        results: dict[int, Result] = {}
        for of_worker in self._run_on_workers(map_worker_blocks, function, arguments, vectors):
            results |= of_worker
        return [results[number] for number in range(len(self.blocks))]

    def sum_over_blocks(
        self, function: BlockFunction, bound: float, *arguments: object, **vectors: Shared
    ) -> FloatArray:
        """Return the sum of ``function(block, workspace, *arguments, **vectors)`` over blocks.

        The absolute value of each entry of a sum must be at most ``bound``. The bits of the sum do
        not depend on which worker has which block. The function may return an array of its
        workspace, or None for 0.
        """
        exponent = exponent_of(bound)
        sums = self._run_on_workers(sum_worker_blocks, function, (exponent, arguments), vectors)
        total = add_sums(sums)
        assert total is not None
        return sum_as_floats(total, exponent)

    def take_rows(self, rows: NDArray[np.intp]) -> RowBlock:
        indices, back = group_by_block(self.starts, rows)
        parts = [part for part in self.map_over_blocks(_take_rows, indices) if part is not None]
        return concatenate_blocks(parts).take_rows(back)

    def _run_on_workers(
        self, task: Task, function: BlockFunction, arguments: Arguments, vectors: dict[str, Shared]
    ) -> Sequence[Result]:
        """Return the results of one task per worker, which processes all blocks of the worker."""
        cluster = self.cluster
        for _ in range(_MAX_ROUNDS):
            if self._places is None:
                self._places = cluster.locate(self.blocks)
            cluster.n_rounds += 1
            results = self._run_round(task, function, arguments, vectors)
            if results is not None:
                return results
            self._places = None
        raise ClusterError(
            f"{cluster.owner}: a worker was lost {_MAX_ROUNDS} times in a row; use workers that "
            f"live longer."
        )

    def _run_round(
        self, task: Task, function: BlockFunction, arguments: Arguments, vectors: dict[str, Shared]
    ) -> Sequence[Result] | None:
        """Run the task on all workers once; return None if one of them is lost."""
        cluster, places = self.cluster, self._places
        assert places is not None
        try:
            sent = {name: vector.send_to(cluster, list(places)) for name, vector in vectors.items()}
        except (*LOST, KeyError, ValueError):
            # KeyError and ValueError come from the scheduler if it does not know the worker.
            return None
        calls: list[Arguments] = []
        for worker, numbers in places.items():
            on_worker = {name: (v.tag, sent[name][worker]) for name, v in vectors.items()}
            calls.append(([self.blocks[i] for i in numbers], function, arguments, on_worker))
        tasks = dict(zip(places, cluster.submit(task, calls, places), strict=True))
        if task is sum_worker_blocks:
            tasks = self._add_in_tasks(tasks)
        results = cluster.gather_unless_lost(tasks)
        if results is not None and task is sum_worker_blocks:
            cluster.n_bytes += sum(part.nbytes for part in results if part is not None)
        return results

    def _add_in_tasks(self, tasks: dict[str, Future]) -> dict[str, Future]:
        """Return at most eight tasks with the same sum, which add the results of the others."""
        while len(tasks) > _SUMS_PER_TASK:
            workers, futures = list(tasks)[::_SUMS_PER_TASK], list(tasks.values())
            starts = range(0, len(futures), _SUMS_PER_TASK)
            calls = [(futures[i : i + _SUMS_PER_TASK],) for i in starts]
            tasks = dict(zip(workers, self.cluster.submit(add_sums, calls, workers), strict=True))
        return tasks


Vectors: TypeAlias = dict[str, tuple[str, FloatArray]]  # tags and values of vectors, by name


def map_worker_blocks(
    blocks: list[RowBlock], function: BlockFunction, arguments: Arguments, sent: Vectors
) -> dict[int, Result]:
    """Return the result of a function for each block (a task)."""
    vectors, threads = _align_vectors(sent), worker_threads()
    return {
        block.number: function(block, Workspace(threads), *arguments, **vectors) for block in blocks
    }


def sum_worker_blocks(
    blocks: list[RowBlock], function: BlockFunction, arguments: tuple[int, Arguments], sent: Vectors
) -> IntArray | None:
    """Return the sum of the results of a function over blocks, where None is 0 (a task)."""
    vectors, (exponent, others) = _align_vectors(sent), arguments
    with blocks[0].workspace(worker_threads()) as work:
        parts = (function(block, work, *others, **vectors) for block in blocks if block.n_rows > 0)
        return fixed_sum((part for part in parts if part is not None), exponent)


def _align_vectors(sent: Vectors) -> dict[str, ReceivedVector]:
    # Arrays in messages may be unaligned; loops would be compiled again for these, and be slower.
    return {
        name: ReceivedVector(tag, np.require(values, requirements="A"))
        for name, (tag, values) in sent.items()
    }


def group_by_block(
    starts: IntArray, rows: NDArray[np.intp]
) -> tuple[dict[int, IntArray], NDArray[np.intp]]:
    """Return the indices of rows in each block, and the indices that restore their order.

    Block k has the rows from ``starts[k]`` on.

    Examples
    --------
    >>> indices, back = group_by_block(np.array([0, 3, 6]), np.array([4, 0, 3]))
    >>> {k: rows.tolist() for k, rows in indices.items()}, back
    ({0: [0], 1: [1, 0]}, array([1, 0, 2]))
    """
    block = np.searchsorted(starts, rows, side="right") - 1
    order = np.argsort(block, kind="stable")
    indices = {k: rows[order[block[order] == k]] - starts[k] for k in np.unique(block).tolist()}
    back = np.empty(len(rows), np.intp)
    back[order] = np.arange(len(rows))
    return indices, back


def _block_statistics(block: RowBlock, work: Workspace) -> tuple[int, float, float, float]:
    """Return the number of rows, the sum of weights, the largest target and the largest norm.

    The norm is that of the features other than bins.
    """
    squares = sum(np.einsum("ij,ij->i", x, x, dtype=float) for x in block.others)
    largest = float(np.abs(block.targets).max(initial=0.0))
    norm = float(np.sqrt(np.max(squares, initial=0.0)))
    return block.n_rows, float(block.weights.sum()), largest, norm


def _take_rows(
    block: RowBlock, work: Workspace, indices: dict[int, NDArray[np.intp]]
) -> RowBlock | None:
    rows = indices.get(block.number)
    return None if rows is None else block.take_rows(rows)


def means_and_rhs(block: RowBlock, work: Workspace, n_rows: int, total: float) -> FloatArray:
    """Return the block's part of the mean and weighted mean of each column, and of ``Z' S y``."""
    shares = (block.weights / total)[:, None]
    means = np.full(block.n_rows, 1.0 / n_rows)
    both = np.column_stack([means, shares, shares * columns(block.targets)])
    return rmatvec(block.matrix(work), both)


def mean_squares(block: RowBlock, work: Workspace, total: float) -> float:
    """Return the block's part of the weighted mean square of the targets, summed over outputs."""
    squares = np.square(columns(block.targets)).sum(axis=1)
    return float(squares @ (block.weights / total))


def gram_product(
    block: RowBlock, work: Workspace, total: float, *, w: ReceivedVector
) -> FloatArray:
    """Return the block's part of ``Z' S Z w``."""
    matrix = block.matrix(work)
    responses = matvec(matrix, w.values, work.empty("responses", (block.n_rows, w.shape[1])))
    responses *= np.divide(block.weights, total, out=work.empty("shares", (block.n_rows,)))[:, None]
    return rmatvec(matrix, responses, work.empty("sums", w.shape))
