"""Readers of table files, and synthetic tables.

Every reader raises ``DataFileError`` if a file is invalid or exceeds its ``ReadLimits``; the
message locates the error and names a remedy. It raises ``InputError`` if a parameter is invalid.
"""

from gramless.datasets.arff import read_arff
from gramless.datasets.delimited import read_csv
from gramless.datasets.frames import read_ipc, read_parquet
from gramless.datasets.generators import friedman1
from gramless.datasets.libsvm import read_libsvm
from gramless.datasets.limits import ReadLimits
from gramless.datasets.numpy_files import read_npy, read_npz
from gramless.datasets.readers import ChunkedTable, open_chunks, read_table
from gramless.datasets.stored import StoredTable, store_table
from gramless.datasets.table import Table

__all__ = [
    "ChunkedTable",
    "ReadLimits",
    "StoredTable",
    "Table",
    "friedman1",
    "open_chunks",
    "read_arff",
    "read_csv",
    "read_ipc",
    "read_libsvm",
    "read_npy",
    "read_npz",
    "read_parquet",
    "read_table",
    "store_table",
]
