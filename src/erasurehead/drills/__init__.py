"""Fault drills: a run under a fault schedule, and a report of what was noticed and what it cost.

A rehearsal is a run of a run file in processes of its own, which are struck: at times of a fault schedule (`Fault`),
by an engine around the run's (`FaultyEngine`), or once in each of many lives. This room starts those
processes, clears up after them, and judges what a user could read afterwards in the records of the run. It may use all
that runs are made of; none of that knows of drills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.drills._faulty_engine import FaultyEngine as FaultyEngine
    from erasurehead.drills._schedule import Fault as Fault

__getattr__, __dir__ = lazy_names(__name__)
