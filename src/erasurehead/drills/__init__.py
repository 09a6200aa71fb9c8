"""Fault drills: a scripted schedule against a run, and a report of what was noticed and what it cost."""

from erasurehead.drills.faulty_engine import FaultyEngine as FaultyEngine
from erasurehead.drills.lying_program import LIES as LIES
from erasurehead.drills.schedule import KINDS as KINDS
from erasurehead.drills.schedule import Fault as Fault
from erasurehead.drills.schedule import FaultSchedule as FaultSchedule
from erasurehead.drills.schedule import Kind as Kind
