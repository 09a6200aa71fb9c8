"""What a run does now, and what it did: a live page on this machine, and a report in one file.

The room reads the folders of runs, comparisons and drills, and nothing else: it knows what other rooms write there, and
neither engines nor problems. Page and report have the same renderer, `page.html`. It offers the report; the command
`erasurehead watch` serves the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.watch._page import write_report as write_report

__getattr__, __dir__ = lazy_names(__name__)
