"""Readers of CSV and TSV: delimiters, encodings, headers and types."""

from __future__ import annotations

import io
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from gramless.base.errors import DataFileError, InputError, MissingDependencyError
from gramless.datasets import ReadLimits, open_chunks, read_arff, read_csv, read_table
from gramless.portable import MISSING_WORDS

from .conftest import Writer

PETS = 'name,weight,"legs, all",class\n"Tom ""T""",4.5,4,cat\nRex,NA,3,dog\n?,1e1,,cat\n'


def test_csv_is_read_in_every_compression(write: Writer, packing: str) -> None:
    table = read_table(write(f"pets.csv{packing}", PETS))
    assert table.names == ("name", "weight", "legs, all", "class")
    assert table.categorical == ("name", "class")
    assert_array_equal(table.column("name"), np.array(['Tom "T"', "Rex", "?"], dtype=object))
    assert_array_equal(table.column("weight"), [4.5, np.nan, 10])
    assert_array_equal(table.column(2), [4, 3, np.nan])


def test_delimiters_are_detected(write: Writer) -> None:
    for ending, delimiter in product((".csv", ".data", ".txt"), (",", ";", "\t", "|", "   ")):
        text = "\n".join(delimiter.join(row) for row in ["ab", "12", "34"]) + "\n\n"
        table = read_table(write("some" + ending, text))
        assert_array_equal(table.select(["a", "b"]), [[1, 2], [3, 4]])


def test_blanks_are_detected_as_delimiters(write: Writer) -> None:
    table = read_table(write("housing.data", "  1.5 \t 2   red\n 3    4  blue \n"))
    assert_array_equal(table.select(["x1", "x2"]), [[1.5, 2], [3, 4]])
    assert table.column("x3").tolist() == ["red", "blue"]


def test_decimal_commas_are_not_delimiters(write: Writer) -> None:
    assert read_csv(write("a.csv", "1,5;2,5\n1,0;3,5\n"), header=False).shape == (2, 2)


def test_tsv_keeps_commas(write: Writer) -> None:
    table = read_table(write("a.tsv", "name\tx\na,b\t1\nc,d\t2\n"))
    assert table.column("name").tolist() == ["a,b", "c,d"]


def test_single_column_is_read(write: Writer) -> None:
    path = write("a.csv", "v\n1\n\n2\n")
    assert_array_equal(read_csv(path).column("v"), [1, np.nan, 2])


def test_header_is_detected(write: Writer) -> None:
    cases = [
        ("a,b\n1,2\n", True),
        ("1,2\n3,4\n", False),
        ("T,2\nI,5\n", False),
        ("id,\n1,2\n", True),
        ("red,small\nblue,large\nred,large\n", False),
        ("colour,size\nred,small\nblue,small\n", True),
        (",\n1,2\n", False),
        ("?,a\nx,b\n", False),
    ]
    for text, named in cases:
        table = read_csv(write("a.csv", text))
        assert len(table) == len(text.splitlines()) - named
        assert (table.names[0] == "x1") != named


def test_header_can_be_given(write: Writer) -> None:
    path = write("years.csv", "2019,2020\n1,2\n")
    assert read_table(path, header=True).names == ("2019", "2020")
    assert len(read_table(path, header=False)) == 2


def test_delimiter_and_categories_can_be_given(write: Writer) -> None:
    path = write("a.csv", "zip:n\n01:5\n10:NA\n")
    table = read_table(path, delimiter=":", categorical=["zip"])
    assert table.column("zip").tolist() == ["01", "10"]
    with pytest.raises(InputError, match="no column 'sip'"):
        read_table(path, delimiter=":", categorical=["sip"])
    with pytest.raises(InputError, match="delimiter"):
        read_table(path, delimiter="::")


def test_trailing_delimiter_is_no_column(write: Writer) -> None:
    assert read_csv(write("a.csv", "1,2,\n3,4,\n")).names == ("x1", "x2")
    assert read_csv(write("b.csv", "a,b,\n3,4,\n")).names == ("a", "b")
    assert read_csv(write("c.csv", "a,b,c\n3,4,\n")).names == ("a", "b", "c")


def test_encodings_are_detected(write: Writer, packing: str) -> None:
    text = "Größe (€),n\r\nŠkoda,1\r\nMarc’s A–B,2\r\n"
    for encoding in ("utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-16-be"):
        table = read_csv(write(f"a.csv{packing}", text.encode(encoding)))
        assert table.names == ("Größe (€)", "n")
        assert table.column(0).tolist() == ["Škoda", "Marc’s A–B"]


def test_big_endian_utf_16_is_read(write: Writer) -> None:
    text = b"\xfe\xff" + "a,b\nß,1\n".encode("utf-16-be")
    assert read_csv(write("a.csv", text)).column("a").tolist() == ["ß"]


def test_windows_1252_after_many_ascii_rows(write: Writer) -> None:
    text = "n,s\n" + "1,a\n" * 50_000 + "2,€\n"
    limits = ReadLimits(block_bytes=1 << 12)
    table = read_csv(write("a.csv", text.encode("cp1252")), limits=limits)
    assert table.column("s")[-1] == "€"


def test_mixed_encodings_name_their_line(write: Writer) -> None:
    cases = [
        ([b"1,a", "2,ß".encode(), "3,ß".encode("cp1252")], "line 4: text in Windows-1252 after"),
        ([b"1,a", "2,ß".encode("cp1252"), "3,ß".encode()], "line 4: text in UTF-8 after"),
        ([b"1,\xe4", b"2,\x81", b"3,b"], "line 3: text that is neither UTF-8 nor Windows-1252"),
    ]
    for block_bytes, (rows, message) in product((1, 1 << 22), cases):
        path = write("a.csv", b"n,s\n" + b"\n".join(rows))
        with pytest.raises(DataFileError, match=message):
            read_csv(path, limits=ReadLimits(block_bytes=block_bytes))


def test_encoding_that_contradicts_the_byte_order_mark_is_rejected(write: Writer) -> None:
    with pytest.raises(DataFileError, match="line 2: text in Windows-1252 after"):
        read_csv(write("a.csv", b"\xef\xbb\xbfn,s\n1,\xe4\n"))


def test_missing_words_among_numbers_are_nan(write: Writer) -> None:
    for word in sorted(MISSING_WORDS):
        table = read_csv(write("a.csv", f"a,b\n1.5,x\n{word},{word}\n 2 ,y\n"))
        assert_array_equal(table.column("a"), [1.5, np.nan, 2])
        assert table.column("b").tolist() == ["x", word, "y"]


def test_column_of_missing_words_stays_text(write: Writer) -> None:
    table = read_csv(write("a.csv", "country,n,empty\nNA,1,\nNA,2,\n"))
    assert table.column("country").tolist() == ["NA", "NA"]
    assert np.isnan(table.column("empty")).all()


def test_pandas_words_for_missing_values_are_known() -> None:
    parsers = pytest.importorskip("pandas._libs.parsers")
    assert set(parsers.STR_NA_VALUES) <= MISSING_WORDS


def test_empty_cells_of_one_column_are_rows(write: Writer) -> None:
    for text in ("a\n1\n\n2\n", 'a\n1\n""\n2\n', "a\n1\n  \n2", "a\r\n1\r\n\r\n2\r\n"):
        assert_array_equal(read_csv(write("a.csv", text)).column("a"), [1, np.nan, 2])


def test_last_empty_cell_of_one_column_is_a_row(write: Writer) -> None:
    assert len(read_csv(write("a.csv", "a\nred\n\n"))) == 2
    assert len(read_csv(write("b.csv", "1\n2\n\n3\n"), header=False)) == 4


def test_empty_lines_in_tables_of_several_columns_are_skipped(write: Writer) -> None:
    assert len(read_csv(write("a.csv", "\na,b\n\n1,2\n  \n3,4\n\n"))) == 2


def test_nameless_first_column_that_counts_rows_is_omitted(write: Writer) -> None:
    for first, name in product(([0, 1, 2], [1, 2, 3], [2, 0, 1]), ("", '""', "Unnamed: 0")):
        rows = "".join(f"{k},{k}.5,{k + 1}\n" for k in first)
        with pytest.warns(UserWarning, match="the first column has no name and counts the rows"):
            table = read_csv(write("a.csv", f"{name},x1,b\n{rows}"))
        assert table.names == ("x1", "b")


def test_other_first_columns_are_kept(write: Writer) -> None:
    for text in (",a\n2,1\n2,2\n", ",a\n0.5,1\n1.5,2\n", "id,a\n0,1\n1,2\n"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert read_csv(write("a.csv", text)).shape == (2, 2)


def test_nameless_first_column_that_may_number_rows_warns(write: Writer) -> None:
    with pytest.warns(UserWarning, match="different whole number in each row.*read as 'x1'"):
        assert read_csv(write("a.csv", ",a\n7,1.5\n0,2.5\n4,3.5\n")).names == ("x1", "a")


def test_columns_without_name_and_values_are_omitted(write: Writer) -> None:
    for text in ("a,b,,\n1,2,,\n3,4,,\n", "a,,b,\n1,,2,\n3,,4,\n"):
        path = write("a.csv", text)
        assert read_csv(path).names == ("a", "b")
        X, y = next(iter(open_chunks(path)))
        assert X.tolist() == [[1.0], [3.0]]
        assert y.tolist() == [2.0, 4.0]


def test_value_in_an_omitted_column_is_rejected_in_chunks(write: Writer) -> None:
    path = write("a.csv", "a,,b\n" + "1,,2\n" * 300 + "1,5,2\n")
    with pytest.raises(DataFileError, match="line 302: a value in column 'x2', which has no name"):
        list(open_chunks(path))


def test_header_with_one_name_too_few_is_explained(write: Writer) -> None:
    for text in ('"a" "b"\n"r" 1 2\n"s" 3 4\n', "a,b\n1,2,\n3,4,\n"):
        with pytest.raises(DataFileError, match="line 2: 3 cells, but the header names 2 columns"):
            read_csv(write("a.csv", text))


def test_utf_32_is_rejected_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("a,b\n1,2\n".encode("utf-32"))
    with pytest.raises(DataFileError, match="text in UTF-32; save it as UTF-8"):
        read_csv(path)


def test_generated_names_do_not_collide(write: Writer) -> None:
    assert read_csv(write("a.csv", ",x1\n3,1\n3,2\n")).names == ("x1_", "x1")


def test_separator_line_is_read(write: Writer) -> None:
    for line, encoding in product(("sep=;", '"sep=;"', "sep=; "), ("utf-8-sig", "utf-16")):
        table = read_csv(write("a.csv", f"{line}\r\na;b\r\n1,5;x\r\n2,5;y\r\n".encode(encoding)))
        assert table.names == ("a", "b")
        assert table.column("a").tolist() == ["1,5", "2,5"]


def test_line_numbers_include_the_separator_line(write: Writer) -> None:
    path = write("a.csv", "sep=;\na;b\n1;2\n3\n")
    with pytest.raises(DataFileError, match="line 4: 1 cells"):
        read_csv(path)


def test_quotes_inside_cells_are_kept(write: Writer) -> None:
    table = read_csv(write("a.csv", 'size,n\n5" pipe,1\n6" pipe,2\n"7"" pipe",3\n'))
    assert table.column("size").tolist() == ['5" pipe', '6" pipe', '7" pipe']


def test_missing_polars_names_the_extra(write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, text in (("a.csv", "a\n1\n"), ("a.arff", ARFF)):
        with pytest.raises(MissingDependencyError, match=r'pip install "gramless\[cli\]"'):
            read_table(write(name, text))


def test_broken_utf_16_is_rejected(write: Writer) -> None:
    with pytest.raises(DataFileError, match="save it as UTF-8"):
        read_csv(write("a.csv", "ab\n1".encode("utf-16") + b"\0"))


def test_every_line_end_is_read(write: Writer) -> None:
    for end in ("\n", "\r\n", "\r"):
        table = read_csv(write("a.csv", f"a,b{end}1,2{end}3,4"))
        assert_array_equal(table.select(), [[1, 2], [3, 4]])


def test_very_long_rows_are_read(write: Writer) -> None:
    names = ",".join(f"column{j}" for j in range(9000))
    table = read_csv(write("a.csv", names + "\n" + ",".join(["1.25"] * 9000) + "\n"))
    assert table.shape == (1, 9000)


def test_underscores_are_not_digits(write: Writer) -> None:
    assert read_csv(write("a.csv", "a,b\n1_000,1\n2_000,2\n")).is_categorical("a")


def test_column_that_turns_to_text_late_is_text(write: Writer) -> None:
    codes = ["01", "2", "3", "4", "5", "x", "y", "NA"]
    path = write("a.csv", "n,code\n" + "".join(f"{j},{c}\n" for j, c in enumerate(codes)))
    for block_bytes in (1, 10, 1 << 22):
        table = read_csv(path, limits=ReadLimits(block_bytes=block_bytes))
        assert table.column("code").tolist() == codes
        assert_array_equal(table.column("n"), np.arange(8))


def test_stray_word_among_numbers_is_rejected(write: Writer) -> None:
    rows = [f"{j},{j}" for j in range(1000)]
    rows[700] = "700,12;3x"
    path = write("a.csv", "n,v\n\n" + "\n".join(rows))
    with pytest.raises(DataFileError, match=r"line 703, column 'v': '12;3x'.*categorical=\['v'\]"):
        read_table(path)
    assert read_table(path, categorical=["v"]).is_categorical("v")


def test_ragged_rows_name_their_line(write: Writer) -> None:
    path = write("a.csv", 'a,b\n1,2\n\n"3\n",4\n5,6\n7,8\n9\n')
    with pytest.raises(DataFileError, match="line 8: 1 cells where the rows before have 2"):
        read_csv(path, limits=ReadLimits(block_bytes=10))


def test_invalid_csv_is_rejected(write: Writer) -> None:
    cases = [
        ('a,b\n1,"2\n3,4\n', "line 2.*never closed"),
        ("a,a\n1,2\n", "'a' more than once"),
        ("a,b\n", "no data rows"),
        ("\n\n", "no rows"),
    ]
    for text, message in cases:
        with pytest.raises(DataFileError, match=message):
            read_csv(write("a.csv", text))


def test_csv_of_200_000_numbers_is_read_in_two_seconds(write: Writer) -> None:
    numbers = np.random.default_rng(0).normal(size=(10_000, 20))
    text = io.StringIO()
    np.savetxt(text, numbers, delimiter=",", fmt="%.17g")
    path = write("a.csv", text.getvalue())
    start = time.perf_counter()
    table = read_csv(path)
    assert time.perf_counter() - start < 2
    assert_array_equal(table.select(), numbers)


CELLS = [
    "1",
    " 2",
    "3 ",
    "-.5e1",
    "1e999",
    "inf",
    "NA",
    " ?",
    "nan",
    "",
    "x",
    "1_0",
    "٣",
    '"4"',
    "5\r",
]


@given(
    cells=st.lists(
        st.lists(st.sampled_from(CELLS), min_size=2, max_size=3), min_size=1, max_size=9
    ),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_block_size_does_not_change_the_table(
    write: Writer, cells: list[list[str]], end: str
) -> None:
    """Blocks of any size, of which polars takes those that it can, give the same table."""
    path = write("a.csv", "a,b\n" + "".join(",".join(row) + end for row in cells))
    results = []
    for size in (1, 9, 40, 1 << 22):
        limits = ReadLimits(block_bytes=size)
        try:
            table = read_csv(path, header=True, delimiter=",", limits=limits)
            results.append(repr([table.column(j).tolist() for j in range(2)]))
        except DataFileError as fault:
            results.append(str(fault))
    assert len(set(results)) == 1


def test_plain_blocks_are_parsed_by_polars(write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    pl = pytest.importorskip("polars")
    heights: list[int] = []
    real = pl.read_csv

    def counted(*arguments: Any, **options: Any) -> Any:
        frame = real(*arguments, **options)
        heights.append(len(frame))
        return frame

    monkeypatch.setattr(pl, "read_csv", counted)
    text = "a,b,c\n" + "".join(f'{j},1.5,"w, {j}"\n' for j in range(100))
    table = read_csv(write("a.csv", text), limits=ReadLimits(block_bytes=200))
    assert sum(heights) >= 100
    assert_array_equal(table.column("a"), np.arange(100))
    assert table.column("c").tolist() == [f"w, {j}" for j in range(100)]
    assert table.column("a").flags.writeable


ARFF = """% A comment
@RELATION pets

@attribute 'the weight' REAL
@attribute kind {cat, 'big dog'}   % a comment
@attribute note string
@data
4.5, cat, "no, thanks"
% between

?, 'big dog', ?
"""


def test_arff_is_read_in_every_compression(write: Writer, packing: str) -> None:
    text = ARFF.replace('"no, thanks"', "'no, thanks'")
    table = read_table(write(f"pets.arff{packing}", text))
    assert table.names == ("the weight", "kind", "note")
    assert_array_equal(table.column(0), [4.5, np.nan])
    assert table.column("kind").tolist() == ["cat", "big dog"]
    assert table.column("note").tolist() == ["no, thanks", ""]


def test_declared_arff_values_are_read(write: Writer) -> None:
    values = ["50%", "a, b", "it is", "{x}", "<=50K", ""]
    text = "@attribute a {'50%', \"a, b\", it is , '{x}',<=50K} % {\n@data\n"
    rows = ["'50%'", "'a, b'", "it is", "'{x}'", " <=50K ", "?"]
    table = read_arff(write("a.arff", text + "\n".join(rows)))
    assert table.column("a").tolist() == values


def test_arff_comments_do_not_decide_the_quote(write: Writer) -> None:
    text = "@attribute a string\n@attribute b real\n@data\n"
    for comment in ("% single, 'quotes'", "  %,'"):
        table = read_arff(write("a.arff", f'{text}{comment}\n"x, y", 1\n'))
        assert table.column("a").tolist() == ["x, y"]
        assert table.column("b").tolist() == [1.0]


def test_latin_1_arff_is_read(write: Writer) -> None:
    text = "@attribute größe real\n@data\n1\n".encode("latin-1")
    assert read_arff(write("a.arff", text)).names == ("größe",)


def test_invalid_arff_is_rejected(write: Writer) -> None:
    cases = [
        ("@data\n1\n", "line 1: @data before"),
        ("@attribute a real\n", "no @data"),
        ("@attribute a real\n@data\n", "no data rows"),
        ("@attribute a real\n@attribute a real\n@data\n", "line 2: a second column 'a'"),
        ("@attribute a relational\n@data\n", "line 1.*declares no column"),
        ("@attribute a\n@data\n", "line 1.*declares no column"),
        ("hello\n", "line 1: 'hello' is not an ARFF"),
        ("@attribute a real\n@data\n\n{0 1}\n", "line 4: sparse ARFF"),
        ("@attribute a real\n@data\n%\n1\nx\n", "line 5, column 'a': 'x'.*Correct them"),
        ("@attribute a real\n@data\n1,2\n", "line 3: 2 cells"),
        ("@attribute a {x, y}\n@data\nx\n\nz\n", "line 5, column 'a': 'z' is not among"),
        ("@attribute a {x, y}\n@data\nx'\n", "line 3, column 'a': \"x'\" is not among"),
        ("@attribute a {x, y\n@data\nx\n", "line 1.*declares no column"),
        ("@attribute a {x, 'y}\n@data\nx\n", "line 1.*declares no column"),
        ("@attribute a {x, y} z\n@data\nx\n", "line 1.*declares no column"),
    ]
    for text, message in cases:
        with pytest.raises(DataFileError, match=message):
            read_arff(write("a.arff", text))


@pytest.mark.data
def test_original_text_files_are_read(data_folder: Path) -> None:
    folder = data_folder / "original"
    adult = read_table(folder / "adult.data")
    assert adult.shape == (32_561, 15)
    assert len(adult.categorical) == 9
    assert set(adult.split_target()[1]) == {"<=50K", ">50K"}
    assert read_table(folder / "covtype.20k.data.gz").select().shape == (20_000, 55)
    letters = read_table(folder / "letter-recognition.data")
    assert letters.categorical == ("x1",)
    assert len(set(letters.column("x1"))) == 26
    cpu = read_table(folder / "cpu_small.arff")
    assert cpu.shape == (8_192, 13)
    assert cpu.split_target()[2] == cpu.names[:-1]


@pytest.mark.data
def test_housing_agrees_with_the_npz(data_folder: Path) -> None:
    X, y, names = read_table(data_folder / "original" / "cal_housing.data").split_target()
    with np.load(data_folder / "cadata.npz") as stored:
        # Another order of the columns, and coordinates rounded in one of the two.
        order = [7, 2, 3, 4, 5, 6, 1, 0]
        assert_allclose(np.asarray(X)[:, order], stored["X"], rtol=1e-6)
        assert_array_equal(y, stored["y"])
    assert names[0] == "longitude"
