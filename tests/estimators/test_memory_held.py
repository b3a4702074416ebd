"""Peaks of memory in processes of their own: at most 1.5 times the limit and 30 MB."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from gramless import AnomalyDetector, DoublyStochasticRegressor, KernelRegressor
from gramless.base.errors import InputError
from gramless.preprocessing.scaling import Scaler

LIMIT = 30_000_000
# The peak of the resident memory after the table is made, less what is in use then.
PROGRAM = """
import os, sys
import numpy as np
from gramless import AnomalyDetector, KernelRegressor

def resident(line):
    rows = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(row for row in rows if row.startswith(line)).split()[1])

kind, n_rows, n_columns, limit = sys.argv[1], *map(int, sys.argv[2:])
rng = np.random.default_rng(0)
if kind == "anomalies":
    model, fit = AnomalyDetector(random_state=0), lambda X: model.fit(X).predict(X)
else:
    given = {} if kind == "grown" else {"features": kind}
    model = KernelRegressor(effort=1, random_state=0, **given)
    fit = lambda X: model.fit(X, np.sin(X[:, 0]) + X[:, 1])
fit(rng.normal(size=(300, 5)))
X = rng.normal(size=(n_rows, n_columns))
if kind == "anomalies":
    os.environ["GRAMLESS_MEMORY_LIMIT"] = str(limit)
else:
    model.set_params(memory_budget=limit)
open("/proc/self/clear_refs", "w").write("5")
before = resident("VmRSS")
fit(X)
print(resident("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from Linux")
@pytest.mark.parametrize(
    ("kind", "n_rows", "n_columns"),
    [
        ("anomalies", 50_000, 20),
        pytest.param("grown", 50_000, 20, marks=pytest.mark.slow),
        pytest.param("fourier", 5_000, 100, marks=pytest.mark.slow),
        pytest.param("fourier", 50_000, 20, marks=pytest.mark.slow),
        pytest.param("binning", 5_000, 100, marks=pytest.mark.slow),
        pytest.param("binning", 50_000, 20, marks=pytest.mark.slow),
    ],
)
def test_peak_memory_stays_near_the_limit(kind: str, n_rows: int, n_columns: int) -> None:
    given = [kind, str(n_rows), str(n_columns), str(LIMIT)]
    environment = {key: value for key, value in os.environ.items() if "MEMORY_LIMIT" not in key}
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, *given],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert int(process.stdout) < 1.5 * LIMIT + 30e6


def test_wide_tables_beyond_the_budget_are_rejected_before_a_copy() -> None:
    X = np.random.default_rng(0).normal(size=(600, 2000))
    model = KernelRegressor(effort=1, memory_budget="10 MB", random_state=0)
    tracemalloc.start()
    message = "2,000 columns would need 12 MB .* give fewer columns .* memory_budget to at least 24"
    with pytest.raises(InputError, match=message):
        model.fit(X, X[:, 0])
    assert tracemalloc.get_traced_memory()[1] < 1.5 * X.nbytes
    tracemalloc.stop()


def test_scaler_fits_wide_tables_in_blocks() -> None:
    X = np.random.default_rng(0).normal(size=(4000, 500))
    tracemalloc.start()
    Scaler.fit("both", X)
    # The tables of ranks take a quarter of this.
    assert tracemalloc.get_traced_memory()[1] < 3 * X.nbytes
    tracemalloc.stop()


def test_scaler_of_blocks_of_columns_equals_that_of_all_columns() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 201))
    X[:, 3], X[:, 4] = 1.0, rng.integers(0, 2, 3000)
    whole = Scaler.fit("both", X)
    parts = [Scaler.fit("both", X[:, a:b]) for a, b in ((0, 77), (77, 201))]
    units = [np.concatenate([part.unit.reshape(2, -1)[k] for part in parts]) for k in range(2)]
    np.testing.assert_array_equal(whole.unit, np.concatenate(units))
    np.testing.assert_array_equal(whole.knots, np.concatenate([part.knots for part in parts]))
    np.testing.assert_allclose(whole.spread, sum(part.spread for part in parts), rtol=1e-12)


def test_anomaly_detector_rejects_wide_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(300, 500))
    monkeypatch.setenv("GRAMLESS_MEMORY_LIMIT", "2e6")
    with pytest.raises(InputError, match="300 rows of 500 columns would need 2.4 MB .* fewer col"):
        AnomalyDetector(random_state=0).fit(X)


def test_stochastic_fit_rejects_wide_tables_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(600, 2000))
    monkeypatch.setenv("GRAMLESS_MEMORY_LIMIT", "10e6")
    model = DoublyStochasticRegressor(random_state=0)
    tracemalloc.start()
    with pytest.raises(InputError, match="a sample of 540 rows of 2,000 inputs would need 25.9 MB"):
        model.fit(X, X[:, 0])
    assert tracemalloc.get_traced_memory()[1] < 1.5 * X.nbytes
    tracemalloc.stop()
