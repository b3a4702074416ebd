"""``gramless cluster``: labels, the page, and what it refuses."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from gramless.cli.cluster_page import _differences

BLOBS = {
    "size": np.repeat([0.0, 8.0, 0.0], [60, 40, 20]) + np.random.default_rng(0).normal(size=120),
    "weight": np.repeat([0.0, 0.0, 8.0], [60, 40, 20]) + np.random.default_rng(1).normal(size=120),
    "colour": np.repeat(["red", "green", "red"], [60, 40, 20]),
}
TRUE = np.repeat([1, 2, 3], [60, 40, 20])
SPECTRAL = ("--method", "spectral")


def clusters_of(text: str) -> list[int]:
    return [int(row["cluster"]) for row in csv.DictReader(io.StringIO(text))]


@pytest.fixture
def blobs(write):
    return write("b.csv", chosen=list(BLOBS), **BLOBS)


@pytest.mark.parametrize("options", [("--clusters", 3, *SPECTRAL), ("-k", 3, "--method", "kmeans")])
def test_clusters_are_numbered_by_size(shell, blobs, options):
    found = clusters_of(shell("cluster", blobs, *options).stdout)
    np.testing.assert_array_equal(found, TRUE)


def test_the_more_stable_method_is_chosen(shell, blobs, tmp_path):
    """On halves of three groups both find these."""
    page = tmp_path / "page.html"
    document = shell.json("cluster", blobs, "-o", tmp_path / "c.csv", "--page", page)
    text = " ".join("".join(ET.parse(page).getroot().itertext()).split())
    assert "by chance): SpectralClustering 0." in text
    assert document["method"] == "SpectralClustering"
    assert list(document["stability"]) == ["SpectralClustering", "KernelKMeans"]
    assert min(document["stability"].values()) > 0.8


def test_methods_of_few_rows_are_not_compared(shell, write, tmp_path):
    few = {name: values[:99] for name, values in BLOBS.items()}
    document = shell.json("cluster", write("f.csv", chosen=list(few), **few), "-k", 2)
    assert (document["method"], document["stability"]) == ("SpectralClustering", {})


def test_a_page_tells_what_sets_clusters_apart(shell, blobs, tmp_path):
    page, output = tmp_path / "page.html", tmp_path / "c.csv"
    arguments = ("cluster", blobs, "--ignore", "colour", "--page", page, "-o", output)
    document = shell.json(*arguments, "--id", "colour", *SPECTRAL)
    assert document["sizes"] == [60, 40, 20]
    assert output.read_text().splitlines()[:2] == ["colour,cluster", "red,1"]
    text = " ".join("".join(ET.parse(page).getroot().itertext()).split())
    assert "120 rows in 3 clusters" in text
    assert document["bytes"] == page.stat().st_size < 100_000
    assert "Cluster 2 40 rows" in text
    assert "standard deviations" in text


def test_columns_of_noise_are_told(shell, write, tmp_path):
    page, noise = tmp_path / "page.html", np.random.default_rng(2).normal(size=120)
    columns = {"size": BLOBS["size"], "weight": BLOBS["weight"], "noise": noise}
    data = write("n.csv", chosen=[], **columns)
    arguments = ("cluster", data, "-k", 3, *SPECTRAL)
    assert shell.json(*arguments, "--page", page)["ignored"] == ["noise"]
    text = " ".join("".join(ET.parse(page).getroot().itertext()).split())
    assert "has to do with no other column: noise." in text
    found = shell(*arguments, "-o", tmp_path / "c.csv")
    assert "noise (noise)" in found.stdout + found.stderr


def test_labels_apart_and_sparse_rows(shell, write):
    found = shell.json("cluster", write("b.svm", chosen=list(BLOBS)[:2]), "-k", 2, *SPECTRAL)
    assert found["rows"] == 120
    assert sum(found["sizes"]) == 120


def test_differences_leave_out_gaps_and_constants():
    values = np.array([[0.0, 5.0], [2.0, 5.0], [np.nan, 5.0], [4.0, 5.0]])
    inside, outside, effects = _differences(values, np.array([0, 0, 1, 1]), 2)
    np.testing.assert_allclose(inside, [[1.0, 5.0], [4.0, 5.0]])
    np.testing.assert_allclose(outside, [[4.0, 5.0], [1.0, 5.0]])
    deviation = np.std([0.0, 2.0, 4.0])
    np.testing.assert_allclose(effects, [[-3.0 / deviation, 0.0], [3.0 / deviation, 0.0]])


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--method", "kmeans"), 2, "needs the number of clusters"),
        (("-k", "few"), 2, "number or auto"),
        (("--ignore", "nothing"), 1, "no column 'nothing'"),
        (("--ignore", "size,weight,colour"), 1, "no column is left"),
        (("-k", 500), 1, "n_samples=120"),
    ],
)
def test_faults(shell, blobs, arguments, code, told):
    assert told in " ".join(shell.error("cluster", blobs, *arguments, code=code).split())
