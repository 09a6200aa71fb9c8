"""Fault drills: a scripted storm against a run, and a report of what was noticed and what it cost."""

from erasurehead.drills.corrupted import LIES as LIES
from erasurehead.drills.storm import KINDS as KINDS
from erasurehead.drills.storm import Fault as Fault
from erasurehead.drills.storm import Kind as Kind
from erasurehead.drills.storm import Storm as Storm
from erasurehead.drills.stormy import StormyEngine as StormyEngine
