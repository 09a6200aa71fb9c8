"""Fault drills: a scripted storm against a run, and a report of what was noticed and what it cost."""

from erasurehead.drills.faulty_engine import StormyEngine as StormyEngine
from erasurehead.drills.lying_program import LIES as LIES
from erasurehead.drills.schedule import KINDS as KINDS
from erasurehead.drills.schedule import Fault as Fault
from erasurehead.drills.schedule import Kind as Kind
from erasurehead.drills.schedule import Storm as Storm
