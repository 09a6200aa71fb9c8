"""Figures and tables of runs and codes: time, quality of the model, stragglers, costs of codes.

A report is made from what was recorded, and from nothing else: the room loads neither an engine nor a problem. It
offers runs beside each other, with their table and figures, and the progress of runs; the command line draws the
others, and what notebooks show of results of other rooms is here, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.reports._panels import ComparedRuns as ComparedRuns
    from erasurehead.reports._progress import Progress as Progress

__getattr__, __dir__ = lazy_names(__name__)
