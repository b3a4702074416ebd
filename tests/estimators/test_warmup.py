"""After warmup() default fits and predictions compile nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import gramless
from gramless.cli.main import app

SCRIPT = """
import sys
import numpy as np
import pandas as pd
import gramless
from gramless import KernelClassifier, KernelRegressor

def signatures():
    compiled = set()
    for name, module in list(sys.modules.items()):
        if name.startswith("gramless.loops."):
            for loop in vars(module).values():
                for signature in getattr(loop, "signatures", []):
                    compiled.add((loop.__name__, str(signature)))
    return compiled

gramless.warmup(n_jobs=1)
ready = signatures()
rng = np.random.default_rng(1)
X = rng.normal(size=(1100, 6))
z = X[:, 0] * X[:, 1] + np.sin(X[:, 2])
frame = pd.DataFrame(X, columns=list("abcdef"))
frame["colour"] = pd.Categorical(rng.choice(["red", "green", "blue"], len(X)))
frame.loc[::5, "a"] = np.nan
tables = [
    (KernelRegressor, X, z),
    (KernelRegressor, np.asfortranarray(X), np.column_stack([z, z])),
    (KernelRegressor, X.astype(np.float32), z),
    (KernelRegressor, np.round(X), z),
    (KernelRegressor, X[:300], z[:300]),
    (KernelClassifier, X, z > 0),
    (KernelClassifier, X, np.digitize(z, [-1, 0, 1])),
    (KernelClassifier, X, np.arange(len(X)) % 40),
    (KernelClassifier, frame, np.where(z > 0, "yes", "no")),
]
for kind, rows, targets in tables:
    model = kind(random_state=0, effort=1).fit(rows, targets)
    model.predict(rows)
    model.predict(rows[:1])
    if kind is KernelClassifier:
        model.predict_proba(rows)
later = signatures() - ready
assert ready and not later, later
"""


@pytest.mark.slow
def test_default_fits_compile_nothing_after_warmup() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)


def test_warmup_is_a_function_and_a_command() -> None:
    assert "warmup" in gramless.__all__
    assert any(command.callback.__name__ == "warmup" for command in app.registered_commands)
