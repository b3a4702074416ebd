"""What a doubly stochastic estimator's parameters make of a stream: products, steps, messages."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from gramless.base.errors import InputError
from gramless.base.memory import check_memory
from gramless.estimators.parameters import check_count
from gramless.estimators.stream_parameters import given_strategy, given_update
from gramless.preprocessing.rows import Rows
from gramless.streaming.doubly_stochastic import DoublyStochastic
from gramless.streaming.epochs import permutation
from gramless.streaming.feature_blocks import BlockProducts, CpuProducts, FrequencyBlocks
from gramless.streaming.feature_expansion import FeatureExpansion
from gramless.streaming.principal_components import Projection
from gramless.streaming.sources import RowSource
from gramless.streaming.summary_statistics import Summary
from gramless.streaming.training_loop import Training

_FREQUENCY_BYTES, _FEATURE_BYTES, _SAMPLE_BYTES = 24.0, 8.0, 24.0
"""Of a frequency and input, of both features of a frequency and row, of a sampled number."""


def check_source(owner: Any, source: Any) -> None:
    """Refuse what is no source of rows.

    Raises
    ------
    InputError
    """
    parts = ("n_features", "n_rows", "read", "chunks", "held_out")
    if not all(hasattr(source, part) for part in parts):
        raise InputError(
            f"{type(owner).__name__}: fit_stream takes a source of rows, got "
            f"{type(source).__name__}; make one by open_stream, IteratorSource or ArraySource, or "
            f"give arrays to fit."
        )


def first_pass(owner: Any, source: RowSource) -> Iterable[tuple[Rows, NDArray[Any]]]:
    """Return the rows that decide the kernel's scale: all, where their number is known.

    Raises
    ------
    InputError
        If a stream of unknown length holds out no rows.
    """
    if source.n_rows is not None:
        return source.chunks()
    held = source.held_out()
    if not len(held[1]):
        raise InputError(
            f"{type(owner).__name__}: a stream of unknown length needs rows held out, which "
            f"decide the kernel's scale; make it IteratorSource(batches, n_held_out=2000)."
        )
    return [held]


def projection_of(owner: Any, summary: Summary) -> Projection | None:
    """Return the projection to as many principal components as are wanted, or None.

    Raises
    ------
    InputError
        If there are not so many.
    """
    if owner.n_components is None:
        return None
    if summary.n_rows == 1:
        raise InputError(
            f"{type(owner).__name__}: n_components needs rows that differ, got n_samples = 1; give "
            f"more rows, or n_components=None."
        )
    return Projection.principal(summary, check_count(owner, "n_components"))


def given_block_size(owner: Any, summary: Summary, projection: Projection | None) -> int:
    """Return how many frequencies a block has, or say that they do not fit into memory.

    Raises
    ------
    InputError
        If blocks, features of batches or the sample, zeros included, would not fit.
    """
    block_size, n_sample = check_count(owner, "block_size"), summary.sample.shape[0]
    n_inputs = len(summary.mean) if projection is None else projection.components.shape[1]
    block = float(block_size) * (_FREQUENCY_BYTES * n_inputs + _FEATURE_BYTES * owner.batch_rows_)
    check_memory(
        f"{type(owner).__name__}: block_size={block_size:,}, batches of {owner.batch_rows_:,} rows "
        f"and a sample of {n_sample:,}, of {n_inputs:,} inputs,",
        block + _SAMPLE_BYTES * n_sample * n_inputs,
        "lower block_size or batch_size, or take fewer inputs",
    )
    return block_size


def mixed_rows(owner: Any, summary: Summary, most: int) -> NDArray[np.float64]:
    """Return some rows of a summary's sample, in random order, as the kernel sees them."""
    # The sample is in the order of the stream, which may be sorted.
    order = permutation(owner.seed_, "rows of curvature", 0, summary.sample.shape[0])
    rows: NDArray[np.float64] = owner.preparation_.unit_rows(summary.sample[order[:most]])
    return rows


def products_of(owner: Any) -> BlockProducts:
    """Return the products of rows with the features of a model that has begun."""
    preparation = owner.preparation_
    n_inputs = len(preparation.units)
    blocks = FrequencyBlocks(owner.kernel_, owner.seed_, owner.block_size_, n_inputs)
    budget = check_count(owner, "cache_bytes", low=0)
    options = (blocks, preparation.center, preparation.inverse, budget)
    if owner.device == "cpu":
        return CpuProducts(*options, owner.n_jobs)
    from gramless.streaming.torch_products import TorchProducts

    return TorchProducts(*options, owner.device)


def first_function(owner: Any, n_outputs: int) -> DoublyStochastic:
    """Return a function without blocks, and how its steps are taken."""
    products = products_of(owner)
    expansion = FeatureExpansion(2 * owner.block_size_, products.blocks.group_blocks, n_outputs)
    return DoublyStochastic(
        *(products, expansion, owner.loss_, owner.alpha_, owner.schedule_),
        *(given_strategy(owner), given_update(owner, n_outputs)),
        *(owner.seed_, owner.variance_),
    )


def tell_diverged(owner: Any, training: Training) -> None:
    """Warn that a run has diverged.

    Raises
    ------
    InputError
        If it never found a function better than none.
    """
    message = (
        f"{type(owner).__name__}: steps became unstable and were given up after "
        f"{training.machine.iteration}. Shorten them by schedule=InverseTime(theta, delay) with a "
        f"longer delay (this was {owner.schedule_}), or take more rows at a time."
    )
    losses = [e["loss"] for e in training.evaluations if training.best is not None]
    if not min(losses, default=np.inf) < training.history[0]["loss"]:
        raise InputError(message)
    warnings.warn(f"{message} The best function until then is kept.", ConvergenceWarning, 5)
