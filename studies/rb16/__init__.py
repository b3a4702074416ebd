"""Wu, Yen, Chen & Yan 2016, Revisiting random binning features: Figures 2 to 6, and the logs."""

from studies.rb16.figure_2 import FIGURE_2
from studies.rb16.figure_6 import FIGURE_6
from studies.rb16.figures import FIGURE_3, FIGURE_4, FIGURE_5
from studies.rb16.logs import LOGS

STUDIES = (FIGURE_2, FIGURE_3, FIGURE_4, FIGURE_5, FIGURE_6, LOGS)
