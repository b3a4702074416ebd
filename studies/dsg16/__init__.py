"""Li & Póczos 2016, Utilize old coordinates: Figures 1 and 2, Tables 3, 5 and 6."""

from studies.dsg16.figure_1 import FIGURE_1
from studies.dsg16.figure_2 import FIGURE_2
from studies.dsg16.table_3 import TABLE_3
from studies.dsg16.table_6 import TABLE_6

STUDIES = (FIGURE_1, TABLE_3, FIGURE_2, TABLE_6)  # in order of priority
