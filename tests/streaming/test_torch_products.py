"""Products by torch: those of the processor's loops, to the rounding of float32."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError, MissingDependencyError
from gramless.kernels import Gaussian, Laplacian, Matern, SpectralKernel
from gramless.losses import Multinomial
from gramless.streaming.doubly_stochastic import DoublyStochastic, FreeIntercept
from gramless.streaming.feature_blocks import BlockProducts, CpuProducts, FrequencyBlocks
from gramless.streaming.feature_expansion import FeatureExpansion
from gramless.streaming.step_sizes import InverseTime
from gramless.streaming.strategies import Checking
from gramless.streaming.torch_products import TorchProducts

from .references import responses

Array = NDArray[np.float64]


def test_missing_torch_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    blocks = FrequencyBlocks(Gaussian(), 0, 4, 2)
    with pytest.raises(MissingDependencyError, match=r"pip install gramless\[torch\]"):
        TorchProducts(blocks, np.zeros(2), np.ones(2), 0)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def pair(
    size: int = 9,
    n_inputs: int = 4,
    budget: int = 1 << 20,
    center: float = 0.0,
    kernel: SpectralKernel | None = None,
    group_frequencies: int = 2048,
    **tiles: int,
) -> tuple[CpuProducts, TorchProducts]:
    blocks = FrequencyBlocks(kernel or Gaussian(), 1, size, n_inputs, group_frequencies)
    units = np.full(n_inputs, center), np.full(n_inputs, 1.0 / np.sqrt(n_inputs))
    return CpuProducts(blocks, *units, budget), TorchProducts(blocks, *units, budget, **tiles)


def some_rows(n_rows: int, n_inputs: int) -> Array:
    return np.random.default_rng(0).normal(size=(n_rows, n_inputs))


def both(products: BlockProducts, X: Any, n_blocks: int, n_outputs: int) -> tuple[Array, ...]:
    """Return responses, a gradient and moments."""
    rng, most = np.random.default_rng(1), products.blocks.group_blocks
    shape = -(-n_blocks // most), products.blocks.group_columns, n_outputs
    weights = list(rng.normal(size=shape).astype(np.float32))
    slopes = rng.normal(size=(X.shape[0], n_outputs))
    rows = products.prepare(X)
    few = products.blocks.size <= 700
    return (
        products.responses(rows, weights, n_blocks),
        products.gradient(rows, n_blocks // 2, slopes),
        products.moments(rows, n_blocks // 2) if few else np.zeros(0),
    )


def check_agreement(
    one: CpuProducts, other: TorchProducts, X: Any, n_blocks: int, n_outputs: int
) -> None:
    terms = n_blocks, X.shape[0], X.shape[0]
    for a, b, n in zip(
        both(one, X, n_blocks, n_outputs), both(other, X, n_blocks, n_outputs), terms, strict=True
    ):
        assert a.shape == b.shape
        assert b.dtype == np.float64
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=4e-6 * np.sqrt(n) + 1e-6)


@pytest.mark.usefixtures("torch")
def test_products_match_the_cpu_for_every_size() -> None:
    for size, n_rows in ((1, 500), (16, 7), (17, 96), (700, 1), (2049, 7), (5000, 96)):
        check_agreement(*pair(size), some_rows(n_rows, 4), n_blocks=5, n_outputs=2)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("n_outputs", "n_inputs", "budget"), [(1, 300, 0), (10, 1, 3000), (10, 300, 1 << 20)]
)
def test_tiles_and_budgets_do_not_change_products(
    n_outputs: int, n_inputs: int, budget: int
) -> None:
    tiles = {"tile_rows": 32, "tile_frequencies": 20}
    one, other = pair(13, n_inputs, budget, group_frequencies=50, **tiles)
    X = some_rows(100, n_inputs)
    for n_blocks in (1, 4, 2, 9, 10):
        check_agreement(one, other, X, n_blocks, n_outputs)


@pytest.mark.usefixtures("torch")
def test_features_of_large_angles_match_the_cpu() -> None:
    for kernel in [Laplacian(), Matern(0.5)]:
        one, other = pair(200, kernel=kernel)
        X = some_rows(40, 4)
        features = [p.gradient(p.prepare(X), 3, np.eye(40)).T for p in (one, other)]
        terms = np.abs(X * one.inverse) @ np.abs(one.blocks.draw(3)).T
        errors = np.abs(features[0] - features[1])[:, ::2] * np.sqrt(200)
        assert (errors < 2e-6 + 5e-7 * terms).all()


@pytest.mark.usefixtures("torch")
def test_sparse_rows_match_the_cpu() -> None:
    for center in [0.0, 2.0]:
        X = some_rows(100, 30) * (np.random.default_rng(1).random((100, 30)) < 0.2)
        X[40] = 0.0
        large = sp.csr_array(X)
        large.indices, large.indptr = large.indices.astype(np.int64), large.indptr.astype(np.int64)
        for rows in (sp.csr_array(X), large):
            check_agreement(*pair(20, 30, center=center, tile_rows=32), rows, 5, 3)


@pytest.mark.usefixtures("torch")
def test_wide_sparse_rows_stay_sparse() -> None:
    X = sp.csr_array(sp.random(50, 10**6, density=1e-5, random_state=np.random.default_rng(0)))
    blocks = FrequencyBlocks(Gaussian(), seed=0, size=2, n_inputs=10**6)
    products = TorchProducts(blocks, np.zeros(10**6), np.ones(10**6), budget=0)
    tracemalloc.start()
    rows = products.prepare(X)
    assert tracemalloc.get_traced_memory()[1] < 50 * 10**6
    tracemalloc.stop()
    assert rows[0][2].is_sparse
    features = products.gradient(rows, 0, np.eye(50))
    np.testing.assert_allclose((features**2).sum(axis=0), 1.0, atol=1e-6)


@pytest.mark.usefixtures("torch")
def test_layout_of_rows_does_not_change_products() -> None:
    X = np.random.default_rng(0).integers(-3, 4, (60, 4))
    one, other = pair()
    frozen = X.astype(np.float64)
    frozen.flags.writeable = False
    for rows in (X, X.astype(np.int8), np.asfortranarray(X, np.float32), frozen, frozen[::-1]):
        check_agreement(one, other, rows, 3, 2)


@pytest.mark.usefixtures("torch")
def test_frequencies_are_sent_once_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    _, products = pair(10, 4, budget=40 * 4 * 4, group_frequencies=40)
    drawn: list[int] = []
    draw = FrequencyBlocks.draw
    monkeypatch.setattr(
        FrequencyBlocks, "draw", lambda self, k: [drawn.append(k), draw(self, k)][1]
    )
    rows = products.prepare(some_rows(5, 4))
    for n_blocks in (2, 6, 6):
        weights = [np.zeros((80, 1), np.float32)] * -(-n_blocks // 4)
        products.responses(rows, weights, n_blocks)
    assert np.bincount(drawn).tolist() == [1, 1, 1, 1, 2, 2]


def test_matmul_precision_is_restored(torch: Any) -> None:
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        precisions: list[str] = []
        one, other = pair()
        features = other._features

        def watched(*given: Any) -> Any:
            precisions.append(torch.get_float32_matmul_precision())
            return features(*given)

        other._features = watched  # type: ignore[method-assign]
        check_agreement(one, other, some_rows(20, 4), 3, 2)
        assert set(precisions) == {"highest"}
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("torch")
def test_training_matches_the_cpu_to_rounding() -> None:
    rng = np.random.default_rng(0)
    batches = [rng.normal(size=(64, 4)) for _ in range(25)]
    runs = []
    for products in pair(8):
        run = DoublyStochastic(
            *(products, FeatureExpansion(16, products.blocks.group_blocks, 3), Multinomial(), 1e-3),
            *(InverseTime(1500.0, 500.0), Checking(), FreeIntercept(1.0), 0, 0.05),
        )
        steps = []
        for X in batches:
            targets = np.where(X[:, :3] == X[:, :3].max(axis=1, keepdims=True), 1.0, -1.0)
            steps.append(run.step(X, targets))
        runs.append((steps, run))
    (ours, one), (theirs, other) = runs
    assert [step.block for step in ours] == [step.block for step in theirs]
    np.testing.assert_allclose([s.loss for s in theirs], [s.loss for s in ours], rtol=1e-4)
    X = batches[0]
    np.testing.assert_allclose(responses(other, X), responses(one, X), atol=1e-4)


@pytest.mark.usefixtures("torch")
def test_missing_devices_are_rejected() -> None:
    for device in ["nothing", "cuda:99"]:
        blocks = FrequencyBlocks(Gaussian(), 0, 4, 2)
        with pytest.raises(InputError, match=f"torch cannot use device='{device}'"):
            TorchProducts(blocks, np.zeros(2), np.ones(2), 0, device)


@pytest.mark.usefixtures("torch")
def test_rows_of_another_width_are_rejected() -> None:
    with pytest.raises(InputError, match="rows have 3 inputs, not 4"):
        pair()[1].prepare(some_rows(5, 3))
