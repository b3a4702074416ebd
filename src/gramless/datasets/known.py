"""The known data sets: what they are and where their files come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote, urlsplit

Task = Literal["binary", "multiclass", "regression"]
Loader = Literal["libsvm", "sparse-libsvm", "letter", "kddcup99"]

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"


@dataclass(frozen=True)
class RemoteFile:
    """One file to download.

    Parameters
    ----------
    url : str
    sha256 : str, default=None
        None where it is not known: the first use is then trusted.
    """

    url: str
    sha256: str | None = None

    @property
    def name(self) -> str:
        """Return the name under which it is stored."""
        return unquote(urlsplit(self.url).path).rpartition("/")[2]


@dataclass(frozen=True)
class KnownSet:
    """One known data set.

    Parameters
    ----------
    name : str
    task : {"binary", "multiclass", "regression"}
    n_rows : int
        Rows of the training file, which is the only one without ``test``.
    n_columns : int
    description : str
    train : RemoteFile, default=None
        None where only ``NAME.npz`` is accepted.
    test : RemoteFile, default=None
    n_test_rows : int, default=0
        Rows of the test file; without one, how many of the last rows are the
        official test set. 0 means that there is none.
    loader : {"libsvm", "sparse-libsvm", "letter", "kddcup99"}, default="libsvm"
    """

    name: str
    task: Task
    n_rows: int
    n_columns: int
    description: str
    train: RemoteFile | None = field(default=None, kw_only=True)
    test: RemoteFile | None = field(default=None, kw_only=True)
    n_test_rows: int = field(default=0, kw_only=True)
    loader: Loader = field(default="libsvm", kw_only=True)


def _at(*parts: str, sha256: str | None = None) -> RemoteFile:
    return RemoteFile("/".join(parts), sha256)


_SETS = (
    KnownSet(
        "ijcnn1",
        "binary",
        49_990,
        22,
        "Engine misfires, the winner's transformation",
        train=_at(_LIBSVM, "binary/ijcnn1.bz2"),
        test=_at(_LIBSVM, "binary/ijcnn1.t.bz2"),
        n_test_rows=91_701,
    ),
    KnownSet(
        "cod-rna",
        "binary",
        59_535,
        8,
        "Non-coding RNA, unscaled",
        train=_at(_LIBSVM, "binary/cod-rna"),
        test=_at(_LIBSVM, "binary/cod-rna.t"),
        n_test_rows=271_617,
    ),
    KnownSet(
        "a9a",
        "binary",
        32_561,
        123,
        "Adult census, income above 50,000, 0/1 columns",
        train=_at(
            _LIBSVM,
            "binary/a9a",
            sha256="f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
        ),
        test=_at(
            _LIBSVM,
            "binary/a9a.t",
            sha256="1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
        ),
        n_test_rows=16_281,
    ),
    KnownSet(
        "w8a",
        "binary",
        49_749,
        300,
        "Web pages, sparse keywords",
        train=_at(_LIBSVM, "binary/w8a"),
        test=_at(_LIBSVM, "binary/w8a.t"),
        n_test_rows=14_951,
        loader="sparse-libsvm",
    ),
    KnownSet(
        "covtype",
        "multiclass",
        581_012,
        54,
        "Forest cover, 7 classes",
        train=_at(_LIBSVM, "multiclass/covtype.bz2"),
    ),
    KnownSet(
        "covtype_binary",
        "binary",
        581_012,
        54,
        "Forest cover, class 2 against the rest",
        train=_at(_LIBSVM, "binary/covtype.libsvm.binary.bz2"),
    ),
    KnownSet(
        "letter",
        "multiclass",
        20_000,
        16,
        "Letters A to Z (0 to 25) from 16 moments",
        train=_at(
            _UCI,
            "letter-recognition/letter-recognition.data",
            sha256="2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
        ),
        n_test_rows=4_000,
        loader="letter",
    ),
    KnownSet(
        "usps",
        "multiclass",
        7_291,
        256,
        "Postal digits, 16 x 16 pixels (labels 1 to 10 in the original files)",
        train=_at(_LIBSVM, "multiclass/usps.bz2"),
        test=_at(_LIBSVM, "multiclass/usps.t.bz2"),
        n_test_rows=2_007,
    ),
    KnownSet(
        "mnist",
        "multiclass",
        60_000,
        784,
        "Handwritten digits, 28 x 28 pixels",
        train=_at(_LIBSVM, "multiclass/mnist.bz2"),
        test=_at(_LIBSVM, "multiclass/mnist.t.bz2"),
        n_test_rows=10_000,
    ),
    KnownSet(
        "mnist8m",
        "multiclass",
        8_100_000,
        784,
        "Handwritten digits, deformed; 25 GB in memory: open_chunks reads the file by parts",
        train=_at(_LIBSVM, "multiclass/mnist8m.xz"),
    ),
    KnownSet(
        "cadata",
        "regression",
        20_640,
        8,
        "California housing values",
        train=_at(_LIBSVM, "regression/cadata"),
    ),
    KnownSet(
        "cpusmall",
        "regression",
        8_192,
        12,
        "Computer activity, 12 columns",
        train=_at(_LIBSVM, "regression/cpusmall"),
    ),
    KnownSet(
        "acoustic",
        "multiclass",
        78_823,
        50,
        "Vehicles by their sound, 3 classes",
        train=_at(_LIBSVM, "multiclass/vehicle/acoustic.bz2"),
        test=_at(_LIBSVM, "multiclass/vehicle/acoustic.t.bz2"),
        n_test_rows=19_705,
    ),
    KnownSet(
        "SUSY",
        "binary",
        5_000_000,
        18,
        "Supersymmetric particles or background",
        train=_at(_LIBSVM, "binary/SUSY.xz"),
        n_test_rows=500_000,
    ),
    KnownSet(
        "YearPredictionMSD",
        "regression",
        463_715,
        90,
        "Year of a song from its timbre",
        train=_at(_LIBSVM, "regression/YearPredictionMSD.bz2"),
        test=_at(_LIBSVM, "regression/YearPredictionMSD.t.bz2"),
        n_test_rows=51_630,
    ),
    KnownSet(
        "epsilon",
        "binary",
        400_000,
        2_000,
        "Large Scale Learning Challenge 2008, rows of unit length",
        train=_at(_LIBSVM, "binary/epsilon_normalized.xz"),
        test=_at(_LIBSVM, "binary/epsilon_normalized.t.xz"),
        n_test_rows=100_000,
    ),
    KnownSet(
        "cifar10",
        "multiclass",
        50_000,
        3_072,
        "Small photographs, 32 x 32 x 3 pixels, 10 classes",
        train=_at(_LIBSVM, "multiclass/cifar10.bz2"),
        test=_at(_LIBSVM, "multiclass/cifar10.t.bz2"),
        n_test_rows=10_000,
    ),
    KnownSet(
        "kddcup99",
        "binary",
        494_021,
        119,
        "Network attacks (1) or normal traffic (0), the 10 % file, one-hot categories",
        train=_at(_UCI, "kddcup99-mld/kddcup.data_10_percent.gz"),
        test=_at(_UCI, "kddcup99-mld/corrected.gz"),
        n_test_rows=311_029,
        loader="kddcup99",
    ),
    KnownSet("covtype_1vs2_169k", "binary", 169_472, 54, "Forest cover, classes 1 and 2, a part"),
    KnownSet("covtype_first20k", "multiclass", 20_000, 54, "Forest cover, the first rows"),
    KnownSet("cifar10_pca100", "multiclass", 50_000, 100, "CIFAR-10 on 100 components"),
    KnownSet("kddcup99_10pct", "binary", 494_021, 119, "The same as kddcup99"),
    KnownSet("cpu_act", "regression", 8_192, 21, "Computer activity, all columns"),
    KnownSet("house_16H", "regression", 22_784, 16, "House prices by census place"),
    KnownSet("electricity", "binary", 45_312, 8, "Electricity price up or down"),
    KnownSet("protein_casp", "regression", 45_730, 9, "Protein tertiary structure"),
    KnownSet("uci_kin40k", "regression", 40_000, 8, "Kinematics of a robot arm"),
    KnownSet("uci_pol", "regression", 15_000, 26, "Telecommunication, many idle columns"),
    KnownSet("nyc_taxi_green_349k", "regression", 349_101, 9, "Taxi trips in New York"),
)

KNOWN = {known.name: known for known in _SETS}
