"""``gramless fit --cluster``."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gramless import load
from gramless.cli.main import app

OPTIONS = ["--n-grids", "8", "--bandwidth", "2", "--alpha", "1e-3", "--scaling", "none", "--json"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    generator = np.random.default_rng(0)
    size = generator.normal(size=400)
    colour = generator.choice(["red", "green", "blue"], 400)
    frame = pd.DataFrame({"size": size, "colour": colour, "weight": generator.integers(1, 4, 400)})
    frame["price"] = size + 2.0 * (colour == "red")
    path = tmp_path_factory.mktemp("files") / "prices.csv"
    frame.to_csv(path, index=False)
    return path


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def test_cluster_option_fits_the_same_model(client, data):
    address = client.scheduler.address
    models = []
    for name, more in (("here", []), ("there", ["--cluster", address])):
        path = data.with_name(name)
        process = run(
            "fit", data, "-m", path, "--target", "price", "--weight", "weight", *OPTIONS, *more
        )
        document = json.loads(process.stdout)
        assert (document["rows"], document["target"]) == (400, "price")
        models.append(load(path))
    here, there = models
    assert type(there) is type(here)
    rows = pd.read_csv(data)[["size", "colour"]]
    np.testing.assert_allclose(there.predict(rows), here.predict(rows), rtol=0, atol=1e-7)


@pytest.mark.cluster
def test_errors_are_reported_in_one_line(client, data, tmp_path):
    where = "-m", tmp_path / "model", "--cluster"
    process = run("fit", data, *where, "tcp://127.0.0.1:1", code=1)
    assert "no scheduler" in process.stderr
    (tmp_path / "table.arff").write_text("nothing")
    process = run("fit", tmp_path / "table.arff", *where, client.scheduler.address, code=1)
    assert "workers read .csv" in process.stderr
