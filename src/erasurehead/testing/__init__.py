"""Tests for engines of one's own, and what they are made of."""

from erasurehead.testing.conformance import EngineConformance as EngineConformance
from erasurehead.testing.problems import Quadratic as Quadratic
from erasurehead.testing.programs import Echo as Echo
from erasurehead.testing.programs import Faulty as Faulty
from erasurehead.testing.programs import Timetable as Timetable
