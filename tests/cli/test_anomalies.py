"""``gramless anomalies``: scores, p-values, the page, and what it refuses."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from gramless import AnomalyDetector, load

TEXT = ("size", "weight", "colour")


@pytest.fixture
def strange(write, columns):
    """Return a table of 120 rows, of which the sixth is far away."""
    size = columns["size"].copy()
    size[5] = 30.0
    names = np.array([f"r{k}" for k in range(len(size))])
    return write("a.csv", chosen=TEXT, size=size, label=names)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_anomalies_writes_the_scores_of_the_detector(shell, strange, tmp_path) -> None:
    model = tmp_path / "m.gramless"
    result = rows_of(shell("anomalies", strange, "--id", "label", "--save", model).stdout)
    assert list(result[0]) == ["label", "score", "outlier"]
    scores = np.array([float(row["score"]) for row in result])
    assert scores.argmin() == 5
    assert result[5] == {"label": "r5", "score": str(scores[5]), "outlier": "1"}
    detector = load(model)
    assert isinstance(detector, AnomalyDetector)
    assert detector.inputs_.encoder.names == TEXT
    again = rows_of(shell("anomalies", strange, "-m", model).stdout)
    assert [row["score"] for row in again] == [row["score"] for row in result]
    assert max(float(row["p_value"]) for row in again) <= 1.0


def test_new_rows_have_p_values_and_a_page(shell, strange, write, columns, tmp_path) -> None:
    usual_rows, page = write("usual.csv", chosen=TEXT), tmp_path / "page.html"
    out = tmp_path / "out.csv"
    options = ("--train", usual_rows, "--ignore", "label", "-o", out, "--page", page)
    document = shell.json("anomalies", strange, *options, "--contamination", "0.05")
    result = rows_of(out.read_text())
    assert document["rows"] == len(result) == 120
    assert document["outliers"] == sum(row["outlier"] == "1" for row in result)
    assert float(result[5]["p_value"]) == min(float(row["p_value"]) for row in result) < 0.02
    text = page.read_text()
    words = " ".join("".join(ET.fromstring(text).itertext()).split())
    assert "Strange rows of a.csv" in words
    assert "compared with 120 rows of usual.csv" in words
    assert words.index("Row 6 score") < words.index("size30")
    assert text.count("<svg") >= 2
    assert "<script" not in text
    assert len(text) < 100_000


def test_contamination_is_the_share_of_the_data_or_of_new_rows(shell, tmp_path) -> None:
    rng = np.random.default_rng(0)
    for name, n_rows in (("usual", 200), ("new", 1000)):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(n_rows, 8)))
    usual_rows, share = tmp_path / "usual.npy", ("--contamination", "0.1")
    page = tmp_path / "page.html"
    assert shell.json("anomalies", usual_rows, *share, "--page", page)["outliers"] == 20
    assert "20 of 200 rows" in page.read_text()
    new = shell.json("anomalies", tmp_path / "new.npy", "--train", usual_rows, *share, "-o", "-")
    assert 40 < new["outliers"] < 160


def test_anomalies_reads_arrays_without_names(shell, tmp_path) -> None:
    X = np.random.default_rng(0).normal(size=(80, 3))
    X[7] = 20.0
    np.save(tmp_path / "x.npy", X)
    page = tmp_path / "page.html"
    assert shell.json("anomalies", tmp_path / "x.npy", "--page", page)["rows"] == 80
    assert "Row 8" in page.read_text()
    ET.parse(page)


def test_anomalies_rejects_invalid_arguments(shell, strange, write, tmp_path) -> None:
    model, other = tmp_path / "m.gramless", write("b.csv", chosen=("size", "price"))
    shell("anomalies", strange, "--ignore", "label", "--save", model, "-o", tmp_path / "o.csv")
    assert "lacks 2 of the 3 columns" in shell.error("anomalies", other, "-m", model)
    assert "exists" in shell.error("anomalies", strange, "--save", tmp_path / "o.csv")
    assert "no column 'none'" in shell.error("anomalies", strange, "--ignore", "none")
    shell.error("anomalies", strange, "-m", model, "--train", other, code=2)
    assert "contamination" in shell.error("anomalies", strange, "--contamination", "0.9")
    assert "the data itself" in shell.error("anomalies", strange, "-o", strange)
