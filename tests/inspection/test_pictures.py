"""Pictures of matrices: what is on the figure, and what files come of it."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from gramless import RandomBinning
from gramless.base.errors import InputError, MissingDependencyError
from gramless.inspection.explanation import sample_rows
from gramless.inspection.pictures import (
    check_picture,
    draw_matrix,
    write_picture,
)
from gramless.kernels import Laplacian
from gramless.matrices.binned import BinnedMatrix

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    middles = np.array([[-4.0, 0.0], [4.0, 0.0], [0.0, 5.0]])
    return rng.permutation(np.repeat(middles, 40, axis=0)) + 0.1 * rng.normal(size=(120, 2))


@pytest.fixture(scope="module")
def matrix(table):
    return RandomBinning(bandwidth=3.0, n_grids=40, random_state=0).fit_matrix(table)


def marks(axes):
    """Return the corners of every mark, (marks, 4 corners, 2)."""
    paths = [path for drawn in axes.collections for path in drawn.get_paths()]
    return np.array([path.vertices[:4] for path in paths])


def test_each_row_has_one_mark_per_grid(matrix):
    axes = draw_matrix(matrix, n_rows=50, n_grids=7).axes[0]
    middles = marks(axes).mean(axis=1)
    assert len(middles) == 50 * 7
    cells = {(int(x), round(y)) for x, y in middles}
    assert cells == {(r, i) for r in range(7) for i in range(50)}


def test_rows_of_one_bin_share_a_place(matrix):
    """The strips of the picture have as many places, and rows in each, as the codes say."""
    axes = draw_matrix(matrix, n_rows=120, n_grids=5).axes[0]
    left = marks(axes)[:, 0, 0].round(9)
    for r, codes in enumerate(matrix.codes[:5]):
        here = left[(left >= r) & (left < r + 1)]
        shown = np.sort(np.unique(here, return_counts=True)[1])
        np.testing.assert_array_equal(shown, np.sort(np.bincount(codes)[1:]))


def test_labels_count_bins_and_name_the_fullest(matrix):
    axes = draw_matrix(matrix, n_rows=120, n_grids=4).axes[0]
    expected = [
        f"{len(np.unique(c))} bin{'s' * (len(np.unique(c)) > 1)}\n{np.bincount(c).max() / 120:.0%}"
        for c in matrix.codes[:4]
    ]
    assert [label.get_text() for label in axes.get_xticklabels()] == expected
    assert axes.get_ylabel() == "120 rows, ordered by similarity"
    assert axes.get_title() == "Z: 4 of 40 grids"
    assert "fullest" in axes.get_xlabel()


def test_kernel_images_show_the_drawn_rows(matrix, table):
    asked = []

    def exact(rows):
        asked.append(rows)
        return Laplacian().gram(table[rows], bandwidth=3.0)

    figure = draw_matrix(matrix, exact=exact, n_rows=60)
    ours, theirs = (axes.images[0].get_array() for axes in figure.axes[1:3])
    np.testing.assert_array_equal(asked[0], sample_rows(120, 60))
    np.testing.assert_allclose(np.diag(ours), 1.0)
    everywhere = matrix.take_rows(asked[0]).row_gram()
    np.testing.assert_allclose(np.sort(ours.ravel()), np.sort(everywhere.ravel()), atol=1e-12)
    # Both are in the same order: they differ by the noise of 40 grids.
    assert np.abs(ours - theirs).max() < 4 * 0.5 / np.sqrt(40)
    assert [axes.get_title() for axes in figure.axes[1:3]] == ["Z Z' of 40 grids", "exact kernel"]
    assert len(draw_matrix(matrix).axes) == 3


def test_rows_of_a_cluster_are_adjacent(matrix):
    """Three heaps of 40 rows: three squares along the diagonal."""
    shown = draw_matrix(matrix).axes[1].images[0].get_array()
    heap = np.repeat(np.arange(3), 40)
    inside = heap[:, None] == heap[None, :]
    assert shown[inside].min() > shown[~inside].max()


def test_unseen_bins_have_no_mark(table):
    binning = RandomBinning(bandwidth=0.3, n_grids=6, random_state=0).fit(table[:30])
    matrix = binning.feature_matrix(table[30:60])
    assert 0 < (matrix.codes == 0).sum() < matrix.codes.size
    assert len(marks(draw_matrix(matrix).axes[0])) == (matrix.codes != 0).sum()
    unknown = BinnedMatrix(np.zeros((2, 5), np.uint8), np.array([0, 3, 6]))
    labels = draw_matrix(unknown).axes[0].get_xticklabels()
    assert [label.get_text() for label in labels] == ["0 bins\n0%"] * 2


def test_one_to_three_rows_can_be_drawn(matrix, tmp_path):
    for n_rows in [1, 2, 3]:
        figure = draw_matrix(matrix.take_rows(slice(0, n_rows)))
        assert figure.axes[1].images[0].get_array().shape == (n_rows, n_rows)
        write_picture(figure, tmp_path / "few.png")
        assert (tmp_path / "few.png").read_bytes().startswith(b"\x89PNG")


def test_scale_does_not_change_the_picture(matrix):
    scaled = BinnedMatrix(matrix.codes, matrix.offsets, scale=7.0)
    one, two = (draw_matrix(m).axes[1].images[0].get_array() for m in (matrix, scaled))
    np.testing.assert_array_equal(one, two)


def test_empty_matrices_are_rejected():
    for shape in [(0, 5), (5, 0)]:
        empty = BinnedMatrix(np.ones(shape, np.uint8), np.arange(shape[0] + 1))
        with pytest.raises(InputError, match="must have at least one row"):
            draw_matrix(empty)


def test_sampled_rows_are_reproducible():
    rows = sample_rows(10_000, 200)
    np.testing.assert_array_equal(rows, sample_rows(10_000, 200))
    assert len(np.unique(rows)) == 200
    assert (np.diff(rows) > 0).all()
    assert 4000 < rows.mean() < 6000


@pytest.mark.parametrize(
    ("ending", "start"),
    [("png", b"\x89PNG"), ("SVG", b"<?xml"), pytest.param("pdf", b"%PDF", marks=pytest.mark.slow)],
)
def test_picture_files_are_reproducible(matrix, ending, start, tmp_path):
    contents = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.{ending}"
        write_picture(draw_matrix(matrix), path)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    assert contents[0].startswith(start)
    assert len(contents[0]) > 5000


def test_svg_is_valid_xml(matrix, tmp_path):
    write_picture(draw_matrix(matrix), tmp_path / "a.svg")
    root = ET.parse(tmp_path / "a.svg").getroot()
    assert root.tag.endswith("svg")
    assert sum(element.tag.endswith("image") for element in root.iter()) == 1 + 1


def test_invalid_picture_paths_are_rejected(tmp_path):
    (tmp_path / "folder.png").mkdir()
    for name, message in [
        ("a.jpg", "must end in .png, .svg, .pdf"),
        ("a", "must end in .png, .svg, .pdf"),
        ("absent/a.png", "there is no folder"),
        ("folder.png", "is a folder"),
    ]:
        with pytest.raises(InputError, match=message):
            check_picture(tmp_path / name)


def test_missing_matplotlib_is_named(matrix, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for work in (lambda: draw_matrix(matrix), lambda: check_picture(tmp_path / "a.png")):
        with pytest.raises(MissingDependencyError, match=r"pip install gramless\[cli\]"):
            work()
