"""Small tables in every format, and runs of the command line inside this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import typer.testing
from typer.testing import CliRunner

from gramless.cli.main import app

# Each call would make the command from all its functions anew, which takes longer than most verbs.
typer.testing._get_command = cache(typer.testing._get_command)
QUICK = ["--n-grids", "8", "--bandwidth", "2", "--alpha", "1e-3", "--scaling", "standard"]
N_ROWS = 120


class Shell:
    """Runs ``gramless`` with arguments; what it prints as JSON comes back as data."""

    def __call__(self, *arguments: object, code: int = 0, stdin: bytes | None = None):
        words = [str(argument) for argument in arguments]
        result = CliRunner().invoke(app, words, input=stdin)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    def json(self, *arguments: object):
        return json.loads(self(*arguments, "--json").stdout)

    def error(self, *arguments: object, code: int = 1, stdin: bytes | None = None) -> str:
        result = self(*arguments, code=code, stdin=stdin)
        assert "Traceback" not in result.output
        assert not result.stdout
        if code == 1:
            assert result.stderr.startswith("error: ")
            assert result.stderr.count("\n") == 1
        return result.stderr


@pytest.fixture
def shell() -> Shell:
    return Shell()


@pytest.fixture
def columns() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    size, weight = rng.normal(size=(2, N_ROWS))
    colour = np.array(["red", "green", "blue"])[np.arange(N_ROWS) % 3]
    price = size + weight**2 + (colour == "red")
    kind = np.where(price > 1, "dear", "cheap")
    return {"size": size, "weight": weight, "colour": colour, "price": price, "kind": kind}


@pytest.fixture
def write(tmp_path: Path, columns) -> Callable[..., Path]:
    """Return a function that writes columns to a file of the format of its ending."""

    def writer(name: str, chosen=("size", "weight", "price"), **changed) -> Path:
        path = tmp_path / name
        table = {**{key: columns[key] for key in chosen}, **changed}
        if path.suffix in (".csv", ".tsv"):
            cut = "\t" if path.suffix == ".tsv" else ","
            rows = zip(*(values.tolist() for values in table.values()), strict=True)
            lines = [cut.join(table), *(cut.join(map(str, row)) for row in rows)]
            path.write_text("\n".join(lines) + "\n")
        elif path.suffix == ".parquet":
            pytest.importorskip("polars").DataFrame(table).write_parquet(path)
        else:
            *inputs, y = table.values()
            _write_matrix(path, np.column_stack(inputs), y)
        return path

    return writer


def _write_matrix(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    if path.suffix == ".npz":
        np.savez(path, X=X, y=y)
        return
    rows = [
        f"{label} " + " ".join(f"{j + 1}:{value}" for j, value in enumerate(row))
        for row, label in zip(X.tolist(), y.tolist(), strict=True)
    ]
    path.write_text("\n".join(rows) + "\n")
