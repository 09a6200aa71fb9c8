"""Figures and tables of runs and codes: time, quality of the model, stragglers, costs of codes.

A report is made from what was recorded, and from nothing else: the room loads neither an engine nor a problem. It
offers the table and the figure of a comparison; the command line draws the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.reports._figures import draw_comparison as draw_comparison
    from erasurehead.reports._rendering import render_table as render_table
    from erasurehead.reports._table import comparison_table as comparison_table

__getattr__, __dir__ = lazy_names(__name__)
