"""Published papers, figure by figure: each figure and table as numbers, a picture and a sentence on how it was made.

This room runs experiments of all rooms above it, with and without a coordinator, and knows what the papers say of them.
It offers `reproduce`, for each `Paper`: `ERASUREHEAD` and `DYBW`.
"""

from erasurehead.papers.dybw import DYBW as DYBW
from erasurehead.papers.erasurehead import ERASUREHEAD as ERASUREHEAD
from erasurehead.papers.exhibit import Exhibit as Exhibit
from erasurehead.papers.numbers import FigureTable as FigureTable
from erasurehead.papers.reproduction import ReproductionSettings as ReproductionSettings
from erasurehead.papers.reproduction import reproduce as reproduce
