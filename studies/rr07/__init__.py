"""Rahimi & Recht 2007, Random features for large-scale kernel machines: Table 1 and Figure 3."""

from studies.rr07.figure_3 import FIGURE_3
from studies.rr07.table_1 import TABLE_1

STUDIES = (TABLE_1, FIGURE_3)
