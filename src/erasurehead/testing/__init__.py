"""Tests for engines of one's own, and what they are made of."""

from erasurehead.testing.conformance import EngineConformance as EngineConformance
from erasurehead.testing.conformance import FaultInjectionConformance as FaultInjectionConformance
from erasurehead.testing.problems import Quadratic as Quadratic
from erasurehead.testing.programs import Echo as Echo
from erasurehead.testing.programs import Faulty as Faulty
from erasurehead.testing.programs import Raising as Raising
from erasurehead.testing.programs import Sequel as Sequel
from erasurehead.testing.programs import Timetable as Timetable
from erasurehead.testing.programs import Typed as Typed
