"""Published papers, figure by figure: each figure and table as numbers, a picture and a sentence on how it was made."""

from erasurehead.papers.dybw import reproduce as reproduce_dybw
from erasurehead.papers.erasurehead import reproduce as reproduce_erasurehead
from erasurehead.papers.exhibit import Exhibit as Exhibit
from erasurehead.papers.numbers import FigureTable as FigureTable
from erasurehead.papers.settings import ReproductionSettings as ReproductionSettings

__all__ = ["Exhibit", "FigureTable", "ReproductionSettings", "reproduce_dybw", "reproduce_erasurehead"]
